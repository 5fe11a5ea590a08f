/* See memory_kit.h. */
#include "memory_kit.h"

rig *rig_open(const char *url)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(semel_test_seam_open(&r->seam, 7, &r->err), SEMEL_OK);
    r->settings = (semel_store_settings){.busy_ms = 50, .seam = semel_test_seam_get(r->seam)};
    r->store = calloc(1, driver->store_size);
    assert_int_equal(driver->open(r->store, url, &r->settings, &r->err), SEMEL_OK);
    assert_int_equal(driver->scope(r->store, SEMEL_SCOPE_INBOX, "in", &r->inbox, &r->err), 0);
    assert_int_equal(driver->scope(r->store, SEMEL_SCOPE_INBOX, "in2", &r->other_inbox, &r->err),
                     0);
    assert_int_equal(driver->scope(r->store, SEMEL_SCOPE_OUTBOX, "out", &r->outbox, &r->err), 0);
    assert_int_equal(driver->scope(r->store, SEMEL_SCOPE_OUTBOX, "out2", &r->other_outbox, &r->err),
                     0);
    return r;
}

void rig_close(rig *r)
{
    driver->close(r->store);
    free(r->store);
    semel_test_seam_close(r->seam);
    free(r);
}

int rig_setup(void **state)
{
    deadline_begin();
    *state = rig_open("memory:");
    return 0;
}

int rig_teardown(void **state)
{
    rig_close(*state);
    deadline_end();
    return 0;
}

int64_t rig_now(rig *r)
{
    int64_t now = 0;
    assert_int_equal(driver->now(r->store, &now, &r->err), SEMEL_OK);
    return now;
}

/* --- units ------------------------------------------------------------------------------------ */

void *begin(rig *r)
{
    void *unit = calloc(1, driver->unit_size);
    assert_non_null(unit);
    assert_int_equal(driver->units->begin(r->store, unit, SEMEL_BEGIN_DURABLE, 0, &r->err),
                     SEMEL_OK);
    return unit;
}

void commit(rig *r, void *unit)
{
    assert_int_equal(driver->units->commit(unit, &r->err), SEMEL_OK);
    free(unit);
}

void rollback(void *unit)
{
    driver->units->rollback(unit);
    free(unit);
}

/* --- markers ---------------------------------------------------------------------------------- */

semel_mark key_of(rig *r, const char *key)
{
    return (semel_mark){.inbox = r->inbox, .key = semel_str(key)};
}

semel_mark mark_key(rig *r, void *unit, const char *key)
{
    semel_mark mark = key_of(r, key);
    assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
    return mark;
}

semel_mark look(rig *r, const char *key)
{
    void *unit = begin(r);
    semel_mark mark = mark_key(r, unit, key);
    rollback(unit);
    return mark;
}

semel_mark claim_key(rig *r, void *unit, const char *key, uint32_t lease_ms)
{
    semel_mark mark = key_of(r, key);
    assert_int_equal(driver->markers->claim(unit, &mark, lease_ms, &r->err), SEMEL_OK);
    return mark;
}

void make_done(rig *r, const char *key)
{
    void *unit = begin(r);
    assert_int_equal(mark_key(r, unit, key).state, SEMEL_MARK_TAKEN);
    commit(r, unit);
}

semel_mark make_claimed(rig *r, const char *key, uint32_t lease_ms)
{
    void *unit = begin(r);
    semel_mark mark = claim_key(r, unit, key, lease_ms);
    assert_int_equal(mark.state, SEMEL_MARK_TAKEN);
    commit(r, unit);
    return mark;
}

void make_dead(rig *r, const char *key)
{
    void *unit = begin(r);
    semel_mark mark = key_of(r, key);
    assert_int_equal(driver->markers->bury(unit, &mark, "hopeless", &r->err), SEMEL_OK);
    commit(r, unit);
}

/* --- messages --------------------------------------------------------------------------------- */

void put(rig *r, void *unit, const char *id, const char *group, uint32_t delay_ms)
{
    semel_message message = {.size = sizeof message,
                             .id = semel_str(id),
                             .type = "t",
                             .group = group,
                             .body = semel_str(id),
                             .delay_ms = delay_ms};
    assert_int_equal(driver->outbox->put(unit, r->outbox, &message, &r->err), SEMEL_OK);
}

void put_now(rig *r, const char *id, const char *group)
{
    void *unit = begin(r);
    put(r, unit, id, group, 0);
    commit(r, unit);
}
