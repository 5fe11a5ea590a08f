/* Retention without an index.
 *
 * An index on time would cost every message a second B-tree insert, and a scan of the whole table
 * would slow down all other work. So the sweep walks the table in the order of its pages (a TID
 * range scan, which PostgreSQL 14 and later have): a call looks at the next few pages, deletes what
 * is old in them, skips what is locked, and remembers where it stopped. docs/ARCHITECTURE.md has
 * the figures.
 *
 * It has a connection of its own, and one process at a time makes a round: the advisory lock is
 * held by that connection from the first page to the last, and goes with it if the process dies.
 * Behind a pooler the lock would stay with a session that another client gets next: there each
 * process makes its own rounds, and they skip each other's rows.
 *
 * The statement that deletes also notes the time of the newest marker that it removes. */
#include "store/postgres/postgres.h"

#include <string.h>

enum { OID_TID = 27, TID_SIZE = 6, ROWS_PER_PAGE = 64 };

typedef struct tid {
    uint32_t page;
    uint16_t row;
} tid;

static void tid_write(unsigned char out[TID_SIZE], tid at)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(at.page >> (24 - 8 * i));
    out[4] = (unsigned char)(at.row >> 8);
    out[5] = (unsigned char)at.row;
}

static tid tid_read(const void *bytes)
{
    const unsigned char *in = bytes;
    return (tid){(uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3],
                 (uint16_t)(in[4] << 8 | in[5])};
}

/* A process that stops in the middle of a round must not keep the others from sweeping for long:
 * the server ends its idle session, and with it the lock. */
static semel_status connect_sweeper(void **out, void *state, semel_error *err)
{
    postgres_store *store = state;
    pg_connection *on = NULL;
    semel_status status = pg_store_connect(&on, store, store->limits.busy_ms, err);
    if (!status && store->direct) {
        pg_enqueue_plain(on, ST_SWEEP_PATIENCE);
        status = pg_flush(on, 0, NULL, "preparing to sweep", err);
    }
    if (!status)
        *out = on;
    else if (on)
        pg_connection_close(on);
    return status;
}

static semel_status execute_lock(postgres_store *store, pg_statement which, int64_t inbox, int *got,
                                 semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = pg_start(store->sweeper.connection, which);
    pg_int(&q, inbox);
    semel_status status = pg_execute(&answer, &q, "becoming the sweeper", err);
    if (!status)
        *got = (int)pg_answer_int(answer, 0, 0);
    PQclear(answer);
    return status;
}

static semel_status lock_round(void *state, int64_t inbox, int *got, semel_error *err)
{
    postgres_store *store = state;
    *got = !store->direct;
    return *got ? SEMEL_OK : execute_lock(store, ST_SWEEP_LOCK, inbox, got, err);
}

static void unlock_round(void *state, int64_t inbox)
{
    postgres_store *store = state;
    const pg_connection *on = store->sweeper.connection;
    int ignored;
    if (store->direct && !on->lost)
        (void)execute_lock(store, ST_SWEEP_UNLOCK, inbox, &ignored, NULL);
}

typedef struct step_result {
    size_t removed;
    int64_t pages; /* of the table */
    tid last;      /* removed */
} step_result;

static semel_status remove_old(step_result *out, postgres_store *store, int64_t inbox,
                               int64_t cutoff_ms, tid from, tid to, uint32_t rows, semel_error *err)
{
    unsigned char bounds[2][TID_SIZE];
    pg_connection *on = store->sweeper.connection;
    PGresult *answer = NULL;
    tid_write(bounds[0], from);
    tid_write(bounds[1], to);
    pg_begin_relaxed(on);
    pg_query q = pg_start(on, ST_SWEEP);
    pg_int(&q, inbox);
    pg_int(&q, cutoff_ms);
    pg_raw(&q, OID_TID, bounds[0], TID_SIZE);
    pg_raw(&q, OID_TID, bounds[1], TID_SIZE);
    pg_int(&q, rows);
    semel_status status = pg_execute(&answer, &q, "removing old markers", err);
    if (!status) {
        out->removed = (size_t)pg_answer_int(answer, 0, 0);
        out->last = out->removed ? tid_read(PQgetvalue(answer, 0, 1)) : to;
        out->pages = pg_answer_int(answer, 0, 2);
    }
    PQclear(answer);
    return status ? status : seam_fault(store->seam, "sweep.removed", err);
}

static semel_status commit_sweep(postgres_store *store, semel_error *err)
{
    pg_connection *on = store->sweeper.connection;
    pg_enqueue_plain(on, ST_COMMIT);
    semel_status status = pg_flush(on, 0, NULL, "committing a sweep", err);
    return status ? status : seam_fault(store->seam, "sweep.committed", err);
}

/* The pages from *position on, as many as `rows` markers may lie in. */
static semel_status sweep_step(void *state, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                               semel_sweep_position *position, size_t *swept, semel_error *err)
{
    postgres_store *store = state;
    step_result result = {0};
    tid from = position->len == TID_SIZE ? tid_read(position->key) : (tid){0, 0};
    tid to = {from.page + (from.row == UINT16_MAX) + rows / ROWS_PER_PAGE, UINT16_MAX};
    semel_status status = seam_fault(store->seam, "sweep.looked", err);
    if (!status)
        status = remove_old(&result, store, inbox, cutoff_ms, from, to, rows, err);
    if (!status)
        status = commit_sweep(store, err);
    if (status)
        return status;
    tid reached = result.removed == rows ? result.last : to;
    int at_end = result.removed < rows && (int64_t)to.page + 1 >= result.pages;
    position->len = at_end ? 0 : TID_SIZE;
    tid_write(position->key, reached);
    *swept = result.removed;
    return SEMEL_OK;
}

const sql_sweep_calls pg_sweep_calls = {connect_sweeper, lock_round, unlock_round, sweep_step};

semel_status postgres_sweep(void *state, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                            semel_sweep_position *position, size_t *swept, semel_error *err)
{
    postgres_store *store = state;
    return sql_sweep(&store->sweeper, inbox, cutoff_ms, rows, position, swept, err);
}
