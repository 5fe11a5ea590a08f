/* See share_case.h. Threads check nothing themselves: cmocka belongs to the first one. */
#include "share_case.h"

#include "support/fake/sync_vfs.h"
#include "support/inspect/inspect_sqlite.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <semel/sqlite.h>
#include <stdlib.h>

extern const semel_store_driver sqlite_store_driver;

/* --- opening ---------------------------------------------------------------------------------- */

int share_setup_with(void **state, const char *query, uint32_t busy_ms)
{
    semel_store_options options = {.size = sizeof options, .busy_ms = busy_ms};
    store_place place;
    share_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    deadline_begin();
    sync_vfs_install();
    store_place_open(&place, PLACE_SQLITE);
    store_place_file(c->path, &place, STORE_PLACE_FILE);
    strncat(place.url, query, sizeof place.url - strlen(place.url) - 1);
    fixture_open_with_clock(&c->base, &place, 1, 0, &options);
    OK(semel_store_migrate(c->base.store, &last_error));
    c->inbox = fixture_inbox(&c->base, "orders", NULL);
    c->state = semel_store_state(c->base.store, &sqlite_store_driver);
    c->state->share.gather_min_ns = INT64_C(1000000) * PATIENCE_MS * 10;
    inspect_sqlite_run(c->path, "CREATE TABLE effect (id TEXT UNIQUE)");
    (void)sync_vfs_taken();
    *state = c;
    return 0;
}

int share_setup(void **state)
{
    return share_setup_with(state, "", PATIENCE_MS);
}

int share_teardown(void **state)
{
    share_case *c = *state;
    store_place place = c->base.place;
    fixture_close(&c->base);
    store_place_close(&place);
    free(c);
    deadline_end();
    return 0;
}

/* --- acting ----------------------------------------------------------------------------------- */

static void do_work(actor *a, sqlite3 *db)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    while (atomic_load(&a->on->go) < a->holds && process_now_ms() < deadline)
        process_nap();
    a->runs++;
    a->code = a->sql ? sqlite3_exec(db, a->sql, NULL, NULL, NULL) : SQLITE_OK;
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    actor *a = context;
    (void)message;
    do_work(a, semel_unit_sqlite(unit));
    return a->end == COMMITS ? SEMEL_OK : semel_fail(err, SEMEL_EHANDLER, "told to fail");
}

static void act_in_unit(actor *a)
{
    semel_unit *unit = NULL;
    a->status = semel_unit_begin(&unit, a->on->base.store, &a->err);
    if (a->status)
        return;
    do_work(a, semel_unit_sqlite(unit));
    if (a->claims) {
        semel_message message = text_message(a->claims, "10 EUR");
        a->status = semel_unit_claim(&a->outcome, unit, a->on->inbox, &message, &a->err);
    }
    if (a->status || a->end == ROLLS_BACK)
        semel_unit_rollback(unit);
    else
        a->status = semel_unit_commit(unit, &a->err);
}

static void act(test_thread *thread)
{
    actor *a = thread->context;
    if (!a->id) {
        act_in_unit(a);
        return;
    }
    semel_message message = text_message(a->id, "10 EUR");
    a->status = semel_inbox_receive(&a->outcome, a->on->inbox, &message, handle, a, &a->err);
}

/* --- in order --------------------------------------------------------------------------------- */

static unsigned count_waiting(share_case *c)
{
    unsigned count = 0;
    pthread_mutex_lock(&c->state->gate);
    for (const sqlite_waiter *at = c->state->gate_waiters; at; at = at->next)
        count++;
    pthread_mutex_unlock(&c->state->gate);
    return count;
}

void share_wait_waiting(share_case *c, unsigned count)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    while (count_waiting(c) != count) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
}

static int is_taken(share_case *c)
{
    pthread_mutex_lock(&c->state->gate);
    int taken = c->state->gate_taken;
    pthread_mutex_unlock(&c->state->gate);
    return taken;
}

void share_start_first(share_case *c, actor *first)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    atomic_store(&c->go, 0);
    c->state->share.company = 1; /* as if a thread had waited before */
    first->on = c;
    first->holds = 1;
    test_thread_start(&first->thread, act, first);
    while (!is_taken(c)) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
}

void share_start_next(share_case *c, actor *next)
{
    unsigned before = count_waiting(c);
    next->on = c;
    test_thread_start(&next->thread, act, next);
    share_wait_waiting(c, before + 1);
}

int share_join(actor *a)
{
    return test_thread_join(&a->thread, 2 * PATIENCE_MS);
}

void share_end(share_case *c, actor actors[], size_t count)
{
    int ended = 1;
    atomic_store(&c->go, 1);
    for (size_t i = 0; i < count; i++)
        ended = ended && share_join(&actors[i]);
    assert_true(ended);
}

void share_run(share_case *c, actor actors[], size_t count)
{
    share_start_first(c, &actors[0]);
    for (size_t i = 1; i < count; i++)
        share_start_next(c, &actors[i]);
    share_end(c, actors, count);
}

/* --- what became of it ------------------------------------------------------------------------ */

int64_t share_number(const share_case *c, const char *sql)
{
    return inspect_sqlite_number(c->path, sql);
}

void share_check_statuses(const actor actors[], size_t count, const semel_status expected[])
{
    for (size_t i = 0; i < count; i++)
        if (actors[i].status != expected[i])
            fail_msg("actor %zu: %s (%s), expected %s", i, semel_status_name(actors[i].status),
                     actors[i].status ? actors[i].err.text : "", semel_status_name(expected[i]));
}
