/* The gate: one writer at a time inside this process.
 *
 * SQLite lets one transaction write at a time and makes the others poll. Threads of one process need not
 * poll: they sleep here and are woken. Between processes SQLite's own lock decides, with the busy handler
 * in sqlite.c and the same deadline. */
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

/* Whoever comes by first when the gate opens may go in: that is fastest. But somebody who was passed over
 * several times (a relay, a sweep, beside a busy consumer) goes next, and the others wait for that. */
enum { PATIENCE = 3 };

static int is_free_for(const sqlite_store *store, uint64_t who)
{
    return !store->gate_taken && (!store->gate_next || store->gate_next == who);
}

/* A thread that waits for itself would wait for ever: say what is wrong instead. */
static semel_status wait_for_gate(sqlite_store *store, uint32_t wait_ms, semel_error *err)
{
    uint64_t me = ++store->gate_waits;
    int passed_over = 0;
    struct timespec until = wait_until(wait_clock_ms() + wait_ms);
    if (store->gate_taken && pthread_equal(store->gate_owner, pthread_self()))
        return semel_fail(
            err, SEMEL_EMISUSE,
            "this thread already has a unit open on this store: end it first, or use it");
    while (!is_free_for(store, me))
        if (pthread_cond_timedwait(&store->gate_free, &store->gate, &until) == ETIMEDOUT)
            break;
        else if (++passed_over > PATIENCE && !store->gate_next)
            store->gate_next = me;
    int is_free = is_free_for(store, me);
    if (store->gate_next == me)
        store->gate_next = 0;
    if (is_free)
        return SEMEL_OK;
    pthread_cond_broadcast(&store->gate_free); /* to those who waited for us to go first */
    return semel_fail(
        err, SEMEL_EBUSY,
        "waited %u ms for another thread's transaction on this store; shorten it, or raise "
        "busy_ms",
        wait_ms);
}

semel_status sqlite_gate_enter(sqlite_store *store, uint32_t wait_ms, semel_error *err)
{
    semel_status status = sql_check_process(store->pid, err);
    if (status)
        return status;
    pthread_mutex_lock(&store->gate);
    status = wait_for_gate(store, wait_ms, err);
    if (!status) {
        store->gate_taken = 1;
        store->gate_owner = pthread_self();
    }
    pthread_mutex_unlock(&store->gate);
    return status;
}

void sqlite_gate_leave(sqlite_store *store)
{
    pthread_mutex_lock(&store->gate);
    store->gate_taken = 0;
    int somebody_is_next = store->gate_next != 0;
    pthread_mutex_unlock(&store->gate);
    if (somebody_is_next)
        pthread_cond_broadcast(&store->gate_free);
    else
        pthread_cond_signal(&store->gate_free);
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
