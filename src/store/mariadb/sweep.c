/* Retention without an index on time.
 *
 * InnoDB keeps the markers in the order of their keys. A sweep looks at them in that order, a
 * bounded number at a time, by a read that locks nothing; then it locks the expired ones among
 * them, as they are now, skips what others have locked, and deletes them, in one short transaction.
 * Every row is looked at once in a round whatever its state, so there is none that no sweep can
 * see.
 *
 * It has a connection of its own, and one process at a time makes a round: a named lock is held by
 * that connection from the first step to the last. The server drops it when the connection goes,
 * which it does by itself after a minute without a step; so a round that its process does not
 * continue keeps no other process from beginning one.
 *
 * The same transaction notes the time of the newest marker that it removes. Units that handle old
 * messages hold the note, so the sweep waits for them before it locks a marker.
 *
 * If the process dies in between, the next round looks again; the position is not worth storing. */
#include "store/mariadb/mariadb.h"
#include "store/sql/keys.h"

#include <stdio.h>

/* --- the sweeper ------------------------------------------------------------------------------ */

static void name_round(char name[32], int64_t inbox)
{
    (void)snprintf(name, 32, "sweep:%lld", (long long)inbox);
}

static semel_status connect_sweeper(void **out, void *state, semel_error *err)
{
    mariadb_store *store = state;
    maria_connection *on = NULL;
    semel_status status =
        maria_open(&on, &store->at, store->texts, store->limits, store->limits.busy_ms, err);
    if (status)
        return status;
    (void)maria_enqueue_mode(on, MODE_RELAXED);
    maria_enqueue_plain(on, ST_SWEEPER);
    status = maria_flush(on, NULL, "preparing to sweep", err);
    if (!status)
        *out = on;
    else
        maria_close(on);
    return status;
}

static semel_status lock_round(void *state, int64_t inbox, int *got, semel_error *err)
{
    mariadb_store *store = state;
    char name[32];
    name_round(name, inbox);
    return maria_get_lock(store->sweeper.connection, store, name, 0, got, err);
}

static void unlock_round(void *state, int64_t inbox)
{
    mariadb_store *store = state;
    maria_connection *on = store->sweeper.connection;
    char name[32];
    name_round(name, inbox);
    if (!on->lost)
        maria_release_lock(on, store, name);
}

/* --- a step ----------------------------------------------------------------------------------- */

/* The markers that the sweep removes. */
typedef struct locked_keys {
    sql_keys keys;
    int64_t newest_ms; /* the newest last change among them */
} locked_keys;

static semel_status note_looked(const maria_row *r, void *context, semel_error *err)
{
    return sql_keys_look(context, maria_column_bytes(r, 0), maria_column_int(r, 1) != 0, err);
}

static semel_status note_locked(const maria_row *r, void *context, semel_error *err)
{
    locked_keys *locked = context;
    int64_t at_ms = maria_column_int(r, 1);
    if (!locked->keys.count || at_ms > locked->newest_ms)
        locked->newest_ms = at_ms;
    return sql_keys_keep(&locked->keys, maria_column_bytes(r, 0), err);
}

static semel_status find_old(sql_keys *out, mariadb_store *store, int64_t inbox, int64_t cutoff_ms,
                             uint32_t rows, const semel_sweep_position *from, semel_error *err)
{
    maria_connection *on = store->sweeper.connection;
    maria_query q = maria_enqueue(on, ST_SWEEP_LOOK);
    maria_int(&q, cutoff_ms);
    maria_int(&q, inbox);
    maria_bytes(&q, (semel_bytes){from->key, from->len});
    maria_uint(&q, rows);
    maria_step *s = maria_end(&q);
    s->call = note_looked;
    s->context = out;
    maria_enqueue_plain(on, ST_COMMIT); /* the end of what it sees */
    semel_status status = maria_flush(on, NULL, "looking for old markers", err);
    return status ? status : seam_fault(store->seam, "sweep.looked", err);
}

/* `which` with the keys from `from` on, as many as go into a list. */
static maria_query enqueue_keys(maria_connection *on, maria_statement which, int64_t inbox,
                                const sql_keys *found, size_t from)
{
    maria_query q = maria_enqueue(on, which);
    maria_int(&q, inbox);
    for (size_t i = from; i < found->count && i < from + LIST_MAX; i++) {
        if (i > from)
            maria_more(&q, "?");
        maria_bytes(&q, found->keys[i]);
    }
    return q;
}

/* The note first: units hold it while they handle old messages, and the sweep must not hold
 * markers while it waits for them. */
static semel_status lock_old(locked_keys *out, mariadb_store *store, int64_t inbox,
                             int64_t cutoff_ms, const sql_keys *found, semel_error *err)
{
    maria_connection *on = store->sweeper.connection;
    maria_query forgotten = maria_enqueue(on, ST_NOTE_ADD);
    maria_int(&forgotten, inbox);
    maria_int(&forgotten, SEMEL_NOTE_FORGOTTEN);
    (void)maria_end(&forgotten);
    for (size_t from = 0; from < found->count; from += LIST_MAX) {
        maria_query q = enqueue_keys(on, ST_SWEEP_LOCK, inbox, found, from);
        maria_rest(&q);
        maria_int(&q, cutoff_ms);
        maria_step *s = maria_end(&q);
        s->call = note_locked;
        s->context = out;
    }
    return maria_flush(on, NULL, "locking old markers", err);
}

/* As many as go in one text, in one compound statement if the server takes those; *at is moved
 * behind them. */
static void enqueue_deletes(maria_connection *on, int64_t inbox, const sql_keys *locked, size_t *at)
{
    const char *text = on->texts[ST_SWEEP_DELETE];
    size_t first = *at;
    maria_query q = on->blocks
                        ? maria_start(&on->out, "BEGIN NOT ATOMIC ", (maria_bound){PATIENT, 0})
                        : maria_enqueue(on, ST_SWEEP_DELETE);
    for (; *at < locked->count && on->out.text.len < on->text_max / 2; ++*at) {
        if (on->blocks)
            maria_chain(&q, *at > first ? ";" : "", text);
        else if (*at > first)
            break;
        maria_int(&q, inbox);
        maria_bytes(&q, locked->keys[*at]);
    }
    if (on->blocks)
        maria_tail(&q, ";END");
    (void)maria_end(&q);
}

/* In the transaction that removes them: the inbox must not forget a key without knowing that it
 * did. */
static semel_status note_forgotten(mariadb_store *store, int64_t inbox, int64_t newest_ms,
                                   semel_error *err)
{
    maria_connection *on = store->sweeper.connection;
    maria_query q = maria_enqueue(on, ST_NOTE_RAISE);
    maria_int(&q, inbox);
    maria_int(&q, SEMEL_NOTE_FORGOTTEN);
    maria_int(&q, newest_ms);
    (void)maria_end(&q);
    return maria_flush(on, NULL, "noting what a sweep removes", err);
}

/* Row by row: for a list of most of a table the server may choose to read all of it, and then
 * waits for rows that units have locked. */
static semel_status delete_locked(mariadb_store *store, int64_t inbox, const locked_keys *locked,
                                  semel_error *err)
{
    maria_connection *on = store->sweeper.connection;
    semel_status status = SEMEL_OK;
    for (size_t at = 0; !status && at < locked->keys.count;) {
        enqueue_deletes(on, inbox, &locked->keys, &at);
        status = maria_flush(on, NULL, "removing old markers", err);
    }
    if (!status)
        status = seam_fault(store->seam, "sweep.removed", err);
    if (!status && locked->keys.count)
        status = note_forgotten(store, inbox, locked->newest_ms, err);
    if (status)
        return status;
    maria_enqueue_plain(on, ST_COMMIT);
    status = maria_flush(on, NULL, "committing a sweep", err);
    return status ? status : seam_fault(store->seam, "sweep.committed", err);
}

static semel_status sweep_step(void *state, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                               semel_sweep_position *position, size_t *swept, semel_error *err)
{
    mariadb_store *store = state;
    maria_connection *on = store->sweeper.connection;
    mem_arena *arena = &on->scratch;
    arena_reset(arena);
    sql_keys found;
    locked_keys locked = {.newest_ms = 0};
    semel_status status = sql_keys_init(&found, arena, rows, err);
    if (!status)
        status = sql_keys_init(&locked.keys, arena, rows, err);
    if (!status)
        status = find_old(&found, store, inbox, cutoff_ms, rows, position, err);
    if (!status && found.count)
        status = lock_old(&locked, store, inbox, cutoff_ms, &found, err);
    if (!status && found.count)
        status = delete_locked(store, inbox, &locked, err);
    if (status)
        return status;
    *position = found.looked < rows ? (semel_sweep_position){0} : found.last;
    *swept = locked.keys.count;
    return SEMEL_OK;
}

const sql_sweep_calls maria_sweep_calls = {connect_sweeper, lock_round, unlock_round, sweep_step};

semel_status mariadb_sweep(void *state, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                           semel_sweep_position *position, size_t *swept, semel_error *err)
{
    mariadb_store *store = state;
    return sql_sweep(&store->sweeper, inbox, cutoff_ms, rows, position, swept, err);
}
