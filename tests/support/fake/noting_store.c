/* See noting_store.h. */
#include "support/fake/noting_store.h"

#include "core/store.h"

#undef fail /* cmocka's; a store has a verb of this name */

static struct {
    const semel_store_driver *original;
    semel_store_driver driver;
    semel_store_units units;
    semel_store_markers markers;
    semel_store_outbox outbox;
    semel_store_dead dead;
    store_notes notes;
    size_t changes; /* in the unit that was begun last */
} noting;

static void note_changes(size_t count)
{
    noting.changes += count;
    if (noting.changes > noting.notes.changes_most)
        noting.notes.changes_most = noting.changes;
}

static void note_verb(marker_verb verb, const semel_mark *mark)
{
    noting.notes.calls[verb]++;
    noting.notes.keep_ms[verb] = mark->keep_ms;
}

static semel_status begin(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                          semel_error *err)
{
    noting.changes = 0;
    return noting.original->units->begin(store, unit, durability, wait_ms, err);
}

/* --- markers ---------------------------------------------------------------------------------- */

static semel_status look(void *unit, semel_mark *mark, semel_error *err)
{
    noting.notes.looks++;
    return noting.original->markers->look(unit, mark, err);
}

static semel_status mark_keys(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                              semel_error *err)
{
    note_verb(VERB_MARK, &marks[count - 1]);
    note_changes(count);
    if (count > noting.notes.keys_most)
        noting.notes.keys_most = count;
    return noting.original->markers->mark(unit, marks, count, wait_ms, err);
}

static semel_status claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    note_verb(VERB_CLAIM, mark);
    note_changes(1);
    return noting.original->markers->claim(unit, mark, lease_ms, err);
}

static semel_status finish(void *unit, const semel_mark *mark, semel_error *err)
{
    note_verb(VERB_FINISH, mark);
    note_changes(1);
    return noting.original->markers->finish(unit, mark, err);
}

static semel_status renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    note_verb(VERB_RENEW, mark);
    note_changes(1);
    return noting.original->markers->renew(unit, mark, lease_ms, err);
}

/* A failure in a batch changes a row that is marked already. */
static semel_status note_failed(void *unit, const semel_mark *mark, const char *why,
                                semel_error *err)
{
    note_verb(VERB_FAIL, mark);
    return noting.original->markers->fail(unit, mark, why, err);
}

static semel_status bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    note_verb(VERB_BURY, mark);
    return noting.original->markers->bury(unit, mark, why, err);
}

static semel_status forget(void *unit, const semel_mark *mark, semel_error *err)
{
    note_verb(VERB_FORGET, mark);
    note_changes(1);
    return noting.original->markers->forget(unit, mark, err);
}

/* --- messages and letters --------------------------------------------------------------------- */

static semel_status put(void *unit, int64_t outbox, const semel_message *message, semel_error *err)
{
    note_changes(1);
    return noting.original->outbox->put(unit, outbox, message, err);
}

static semel_status lease(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                          semel_item_sink *sink, void *context, semel_error *err)
{
    if (limit > noting.notes.leased_most)
        noting.notes.leased_most = limit;
    return noting.original->outbox->lease(unit, outbox, limit, lease_ms, sink, context, err);
}

static semel_status settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err)
{
    note_changes(count);
    if (count > noting.notes.settled_most)
        noting.notes.settled_most = count;
    return noting.original->outbox->settle(unit, outbox, settlements, count, err);
}

static semel_status dead_put(void *unit, const semel_dead *dead, semel_error *err)
{
    note_changes(1);
    return noting.original->dead->put(unit, dead, err);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void wrap_markers(void)
{
    semel_store_markers *markers = &noting.markers;
    *markers = *noting.original->markers;
    markers->look = look;
    markers->mark = mark_keys;
    markers->claim = claim;
    markers->finish = finish;
    markers->renew = renew;
    markers->fail = note_failed;
    markers->bury = bury;
    markers->forget = forget;
    noting.driver.markers = markers;
}

static void wrap_messages(void)
{
    noting.outbox = *noting.original->outbox;
    noting.outbox.put = put;
    noting.outbox.put_many = NULL; /* the core calls put for each */
    noting.outbox.lease = lease;
    noting.outbox.settle = settle;
    noting.driver.outbox = &noting.outbox;
    noting.dead = *noting.original->dead;
    noting.dead.put = dead_put;
    noting.driver.dead = &noting.dead;
}

void noting_store_open(fixture *f, uint32_t changes_max)
{
    noting.original = f->store->driver;
    noting.driver = *noting.original;
    noting.driver.changes_max = changes_max;
    noting.units = *noting.original->units;
    noting.units.begin = begin;
    noting.driver.units = &noting.units;
    wrap_markers();
    wrap_messages();
    (void)noting_store_take();
    f->store->driver = &noting.driver;
}

store_notes noting_store_take(void)
{
    store_notes notes = noting.notes;
    memset(&noting.notes, 0, sizeof noting.notes);
    noting.changes = 0;
    return notes;
}

unsigned noting_store_writes(const store_notes *notes)
{
    unsigned writes = 0;
    for (int verb = 0; verb < VERB_COUNT; verb++)
        writes += notes->calls[verb];
    return writes;
}
