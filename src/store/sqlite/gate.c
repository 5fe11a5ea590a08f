/* The gate: one writer at a time inside this process.
 *
 * SQLite lets one transaction write at a time and makes the others poll. Threads of one process
 * need not poll: they sleep here and are woken. Between processes SQLite's own lock decides, with
 * the busy handler in sqlite.c and the same deadline.
 *
 * A thread that leaves may hand an open transaction to the one that comes after it (share.c): then
 * the gate is not free in between. */
#include "base/wait.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>

/* One stat(). A file system that cannot tell says nothing, and is believed. */
semel_status sqlite_gate_check_file(sqlite3 *db, semel_error *err)
{
    int moved = 0;
    int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (code != SQLITE_OK || !moved)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ESTORE,
                      "sqlite: %s was removed or replaced while it was open, and what is written "
                      "now would be lost; close the store and open it anew",
                      sqlite3_db_filename(db, "main"));
}

/* The first thread that finds the gate free may enter: that is fastest. But a thread that was
 * passed over several times (a relay, a sweep, beside a busy consumer) goes next, and the others
 * wait for that. */
enum { PATIENCE = 3 };

/* For so many transactions after a thread had to wait, units expect company (share.c). */
enum { COMPANY = 64 };

static int is_free_for(const sqlite_store *store, const sqlite_waiter *waiter)
{
    return !store->gate_taken && (!store->gate_next || store->gate_next == waiter);
}

/* --- the threads that wait -------------------------------------------------------------------- */

static void add_waiter(sqlite_store *store, sqlite_waiter *waiter)
{
    sqlite_waiter **at = &store->gate_waiters;
    while (*at)
        at = &(*at)->next;
    *at = waiter;
}

static void remove_waiter(sqlite_store *store, const sqlite_waiter *waiter)
{
    sqlite_waiter **at = &store->gate_waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    if (store->gate_next == waiter)
        store->gate_next = NULL;
}

static void wake_next(sqlite_store *store)
{
    for (sqlite_waiter *at = store->gate_waiters; at; at = at->next)
        if (!store->gate_next || store->gate_next == at) {
            pthread_cond_signal(&at->ready);
            return;
        }
}

/* The longest waiting of those whose unit may share, unless another one goes next. */
static sqlite_waiter *find_heir(const sqlite_store *store)
{
    sqlite_waiter *at = store->gate_waiters;
    while (at && !at->shares)
        at = at->next;
    return !store->gate_next || store->gate_next == at ? at : NULL;
}

int sqlite_gate_has_heir_locked(const sqlite_store *store)
{
    return find_heir(store) != NULL;
}

/* A thread that was granted the gate has it, even if its deadline passes before it wakes: else the
 * transaction would be without a thread. */
int sqlite_gate_hand_on_locked(sqlite_store *store)
{
    sqlite_waiter *heir = find_heir(store);
    if (!heir)
        return 0;
    remove_waiter(store, heir);
    heir->granted = 1;
    store->gate_owner = heir->thread;
    pthread_cond_signal(&heir->ready);
    return 1;
}

/* --- entering and leaving --------------------------------------------------------------------- */

/* 1 if the gate is this thread's. */
static int wait_in_line(sqlite_store *store, sqlite_waiter *me, uint32_t wait_ms)
{
    int passed_over = 0;
    struct timespec until = wait_until(wait_clock_ms() + wait_ms);
    add_waiter(store, me);
    store->share.company = COMPANY;
    if (store->share.awaiting && me->shares)
        pthread_cond_signal(&store->share.arrived);
    while (!me->granted && !is_free_for(store, me)) {
        if (passed_over++ > PATIENCE && !store->gate_next)
            store->gate_next = me;
        if (pthread_cond_timedwait(&me->ready, &store->gate, &until) == ETIMEDOUT)
            break;
    }
    if (me->granted)
        return 1;
    int is_free = is_free_for(store, me);
    remove_waiter(store, me);
    if (!is_free && !store->gate_taken)
        wake_next(store); /* a thread that let this one go first */
    return is_free;
}

static semel_status wait_for_gate(sqlite_store *store, sqlite_unit *unit, semel_error *err)
{
    sqlite_waiter me = {.thread = pthread_self(), .shares = unit->shares};
    if (is_free_for(store, NULL))
        return SEMEL_OK;
    if (store->gate_taken && pthread_equal(store->gate_owner, me.thread))
        return semel_fail(
            err, SEMEL_EMISUSE,
            "this thread already has a unit open on this store: end it first, or use it");
    if (wait_condition_init(&me.ready))
        return semel_fail(err, SEMEL_ENOMEM, "no condition to wait for the gate with");
    int is_mine = wait_in_line(store, &me, unit->wait_ms);
    pthread_cond_destroy(&me.ready);
    unit->entry = me.granted ? HANDED : ENTERED;
    if (is_mine)
        return SEMEL_OK;
    return semel_fail(
        err, SEMEL_EBUSY,
        "waited %u ms for another thread's transaction on this store; shorten it, or raise "
        "busy_ms",
        unit->wait_ms);
}

/* A thread that is alone does not pay for sharing. */
static void expect_company(sqlite_store *store, sqlite_unit *unit)
{
    sqlite_share *share = &store->share;
    if (unit->entry == HANDED || !unit->shares)
        return;
    if (share->pause)
        share->pause--;
    else if (share->company) {
        share->company--;
        unit->entry = ENTERED_IN_COMPANY;
    }
}

semel_status sqlite_gate_enter(sqlite_store *store, sqlite_unit *unit, semel_error *err)
{
    semel_status status = sql_check_process(store->pid, err);
    if (status)
        return status;
    pthread_mutex_lock(&store->gate);
    if (store->share.returning && unit->shares)
        store->share.returning--;
    status = wait_for_gate(store, unit, err);
    if (!status) {
        store->gate_taken = 1;
        store->gate_owner = pthread_self();
        expect_company(store, unit);
    }
    pthread_mutex_unlock(&store->gate);
    return status;
}

void sqlite_gate_leave_locked(sqlite_store *store)
{
    store->gate_taken = 0;
    wake_next(store);
}

semel_status sqlite_reader_enter(sqlite_store *store, semel_error *err)
{
    semel_status status = sql_check_process(store->pid, err);
    if (status)
        return status;
    pthread_mutex_lock(&store->reader_lock);
    store->reader.deadline_ms = wait_clock_ms() + store->busy_ms;
    status = sqlite_gate_check_file(store->reader.db, err);
    if (status)
        pthread_mutex_unlock(&store->reader_lock);
    return status;
}

void sqlite_reader_leave(sqlite_store *store)
{
    pthread_mutex_unlock(&store->reader_lock);
}
