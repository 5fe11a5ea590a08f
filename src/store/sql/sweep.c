#include "store/sql/sweep.h"

void sql_sweeper_init(sql_sweeper *s, const sql_sweep_calls *calls, void *store,
                      const pool *connections)
{
    *s = (sql_sweeper){.calls = calls, .connections = connections, .store = store};
    pthread_mutex_init(&s->lock, NULL);
}

/* With the connection goes the lock. */
static void drop_connection(sql_sweeper *s)
{
    if (s->connection)
        s->connections->calls->close(s->connection);
    s->connection = NULL;
    s->inbox = 0;
}

void sql_sweeper_destroy(sql_sweeper *s)
{
    if (!pool_is_inherited(s->connections)) /* or it would be a goodbye in the parent's name */
        drop_connection(s);
    pthread_mutex_destroy(&s->lock);
}

static void end_round(sql_sweeper *s)
{
    if (s->inbox)
        s->calls->unlock(s->store, s->inbox);
    s->inbox = 0;
}

/* One round at a time on our connection, too: another inbox's is given up for this one, and begins
 * again later. */
static semel_status begin_round(sql_sweeper *s, int64_t inbox, int *got, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (s->connection && !s->connections->calls->is_alive(s->connection))
        drop_connection(s);
    *got = s->inbox == inbox;
    if (*got)
        return SEMEL_OK;
    if (!s->connection)
        status = s->calls->connect(&s->connection, s->store, err);
    if (status)
        return status;
    end_round(s);
    status = s->calls->lock(s->store, inbox, got, err);
    if (!status && *got)
        s->inbox = inbox;
    return status;
}

/* After trouble the connection is closed: another process may be luckier. */
static semel_status sweep_some(sql_sweeper *s, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                               semel_sweep_position *position, size_t *swept, semel_error *err)
{
    int got = 0;
    semel_status status = begin_round(s, inbox, &got, err);
    int sweeps = got || position->beside;
    if (!status && sweeps)
        status = s->calls->step(s->store, inbox, cutoff_ms, rows, position, swept, err);
    if (!status && !sweeps)
        *position = (semel_sweep_position){0};
    if (status)
        drop_connection(s);
    else if (got && !position->len)
        end_round(s);
    return status;
}

semel_status sql_sweep(sql_sweeper *s, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                       semel_sweep_position *position, size_t *swept, semel_error *err)
{
    semel_sweep_position next = *position;
    size_t removed = 0;
    semel_status status = pool_check_process(s->connections, err); /* its lock is the parent's */
    if (status)
        return status;
    pthread_mutex_lock(&s->lock);
    status = sweep_some(s, inbox, cutoff_ms, rows, &next, &removed, err);
    pthread_mutex_unlock(&s->lock);
    if (status)
        return status;
    *position = next;
    *swept = removed;
    return SEMEL_OK;
}
