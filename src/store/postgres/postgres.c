/* The PostgreSQL store: opening, names, and the driver table.
 *
 * A pool of connections, one per unit that is open. The database is the application's own: semel
 * has its tables in a schema and touches nothing else. All names are qualified with the schema, so
 * a search_path of the application does not matter. The clock is the server's: one for all
 * clients. */
#include "store/postgres/postgres.h"

#include <semel/postgres.h>
#include <stdio.h>
#include <string.h>

/* --- connections ------------------------------------------------------------------------------ */

static semel_status connect_with(pg_connection **out, postgres_store *store, int bounded,
                                 uint32_t wait_ms, semel_error *err)
{
    const pg_address *at = &store->at;
    semel_status status = pg_connection_open(out, at->keywords, bounded ? at->bounded : at->values,
                                             store->texts, store->limits, wait_ms, err);
    if (status)
        return status;
    (*out)->session_ms = bounded ? store->limits.busy_ms : 0;
    (*out)->named = store->direct;
    return SEMEL_OK;
}

/* A session that gives up waiting for locks by itself costs nothing. A pooler in between may not
 * let such a setting through (08P01), or may drop it, which is looked for when the store is opened:
 * then each transaction says it. */
semel_status pg_store_connect(pg_connection **out, postgres_store *store, uint32_t wait_ms,
                              semel_error *err)
{
    semel_error local, *why = err ? err : &local;
    int bounded = atomic_load(&store->bounded);
    semel_status status = connect_with(out, store, bounded, wait_ms, why);
    if (!status || !bounded || strcmp(why->sqlstate, "08P01") != 0)
        return status;
    status = connect_with(out, store, 0, wait_ms, why);
    if (!status) /* 08P01 may have had another reason */
        atomic_store(&store->bounded, 0);
    return status;
}

static semel_status connect_for_pool(void **out, void *context, uint32_t wait_ms, semel_error *err)
{
    pg_connection *on = NULL;
    semel_status status = pg_store_connect(&on, context, wait_ms, err);
    if (!status)
        *out = on;
    return status;
}

static const pool_calls calls = {connect_for_pool, pg_connection_is_alive, pg_connection_close};

semel_status pg_store_borrow(pg_connection **out, postgres_store *store, semel_error *err)
{
    void *taken = NULL;
    semel_status status = pool_take(&taken, &store->connections, store->limits.busy_ms, err);
    if (!status)
        *out = taken;
    return status;
}

void pg_store_give_back(postgres_store *store, pg_connection *on)
{
    pool_give(&store->connections, on, !on->lost);
}

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status prepare_texts(postgres_store *store, semel_error *err)
{
    enum { NAME_TEXT = 64 };
    char *quoted = arena_alloc(&store->arena, NAME_TEXT);
    char *channel = arena_alloc(&store->arena, NAME_TEXT);
    if (!quoted || !channel)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
    (void)snprintf(quoted, NAME_TEXT, "\"%s\"", store->at.schema);
    (void)snprintf(channel, NAME_TEXT, "semel.%s", store->at.schema);
    store->quoted = quoted;
    store->channel = channel;
    store->texts = pg_statements_fill(&store->arena, quoted, store->at.isolation);
    return store->texts ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
}

/* TID range scans came with version 14; texts are UTF-8. */
static semel_status check_server(const pg_connection *on, const char *encoding, semel_error *err)
{
    enum { OLDEST = 140000 };
    int version = PQserverVersion(on->pg);
    if (version < OLDEST)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "the server is PostgreSQL %d; semel needs 14 or later", version / 10000);
    if (strcmp(encoding, "UTF8") != 0)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "the database's encoding is %s; semel needs one in UTF8", encoding);
    return SEMEL_OK;
}

/* A pooler does not tell its client the number of the session, but a number of its own. Behind a
 * pooler, each transaction may have another session, which other clients use in between: the driver
 * keeps nothing in it, neither statements under a name nor locks nor settings. */
static void note_session(postgres_store *store, pg_connection *on, int64_t number, int64_t lock_ms)
{
    store->direct = number == PQbackendPID(on->pg);
    on->named = store->direct;
    if (store->direct && lock_ms == store->limits.busy_ms)
        return;
    atomic_store(&store->bounded, 0);
    on->session_ms = 0;
}

/* Connecting now tells a wrong URL now; and what the server is set to decides what a commit is
 * worth. */
static semel_status look_at_server(postgres_store *store, semel_error *err)
{
    pg_connection *on = NULL;
    PGresult *answer = NULL;
    semel_status status = pg_store_borrow(&on, store, err);
    if (status)
        return status;
    pg_query q = pg_start(on, ST_SETTINGS);
    status = pg_execute(&answer, &q, "reading the server's settings", err);
    if (!status) {
        int safe = pg_answer_int(answer, 0, 0) && pg_answer_int(answer, 0, 1);
        store->durability = safe ? SEMEL_DURABLE_POWER : SEMEL_DURABLE_PROCESS;
        (void)snprintf(store->timeout, sizeof store->timeout, "%s", PQgetvalue(answer, 0, 2));
        note_session(store, on, pg_answer_int(answer, 0, 5), pg_answer_int(answer, 0, 4));
        status = check_server(on, PQgetvalue(answer, 0, 3), err);
    }
    PQclear(answer);
    pg_store_give_back(store, on);
    return status;
}

static void postgres_close(void *state)
{
    postgres_store *store = state;
    postgres_unwatch(store);
    sql_sweeper_destroy(&store->sweeper);
    pool_destroy(&store->connections);
    sql_cursors_free(&store->cursors);
    pthread_mutex_destroy(&store->lock);
    arena_free(&store->arena);
}

static semel_status postgres_check_url(const char *text, semel_error *err)
{
    pg_address address;
    mem_arena arena = {0};
    semel_status status = pg_address_read(&address, &arena, text, err);
    arena_free(&arena);
    return status;
}

static semel_status postgres_open(void *state, const void *text,
                                  const semel_store_settings *settings, semel_error *err)
{
    postgres_store *store = state;
    store->seam = settings->seam;
    store->limits = (pg_limits){settings->busy_ms, settings->answer_ms};
    atomic_init(&store->bounded, 1);
    semel_status status = pg_address_read(&store->at, &store->arena, text, err);
    if (!status)
        status = pg_address_bound(&store->at, &store->arena, settings->busy_ms, err);
    if (!status)
        status = prepare_texts(store, err);
    if (!status)
        status = pool_init(&store->connections, &calls, store, store->at.pool, err);
    if (status) {
        arena_free(&store->arena);
        return status;
    }
    pthread_mutex_init(&store->lock, NULL);
    sql_sweeper_init(&store->sweeper, &pg_sweep_calls, store, &store->connections);
    status = look_at_server(store, err);
    if (status)
        postgres_close(store);
    return status;
}

static semel_durability postgres_durability(const void *state)
{
    return ((const postgres_store *)state)->durability;
}

static semel_status postgres_now(void *state, int64_t *out_ms, semel_error *err)
{
    pg_connection *on = NULL;
    PGresult *answer = NULL;
    semel_status status = pg_store_borrow(&on, state, err);
    if (status)
        return status;
    pg_query q = pg_start(on, ST_NOW);
    status = pg_execute(&answer, &q, "asking for the time", err);
    if (!status)
        *out_ms = pg_answer_int(answer, 0, 0);
    PQclear(answer);
    pg_store_give_back(state, on);
    return status;
}

/* --- names ------------------------------------------------------------------------------------ */

static pg_query scope_query(pg_connection *on, pg_statement which, semel_scope kind,
                            const char *name)
{
    pg_query q = pg_start(on, which);
    pg_int(&q, kind);
    pg_text(&q, name);
    return q;
}

static semel_status find_scope(pg_connection *on, semel_scope kind, const char *name, int64_t *out,
                               semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = scope_query(on, ST_SCOPE_FIND, kind, name);
    semel_status status = pg_execute_alone(&answer, &q, "looking up a name", err);
    if (!status)
        *out = PQntuples(answer) ? pg_answer_int(answer, 0, 0) : 0;
    PQclear(answer);
    return status;
}

static semel_status find_or_add_scope(postgres_store *store, pg_connection *on, semel_scope kind,
                                      const char *name, int64_t *out, semel_error *err)
{
    size_t added = 0;
    int64_t found = 0;
    semel_status status = pg_schema_check(store, on, err);
    if (!status)
        status = find_scope(on, kind, name, &found, err);
    if (!status && !found) {
        pg_query q = scope_query(on, ST_SCOPE_ADD, kind, name);
        pg_bound_alone(on);
        status = pg_execute_change(&q, &added, "adding a name", err);
        if (!status)
            status = find_scope(on, kind, name, &found, err);
    }
    if (!status && !found)
        status = semel_fail(err, SEMEL_ESTORE, "a name was stored and is not there");
    if (!status)
        *out = found;
    return status;
}

static semel_status postgres_scope(void *state, semel_scope kind, const char *name, int64_t *out,
                                   semel_error *err)
{
    enum { CONFLICTS_MAX = 10 };
    int tries = 0;
    pg_connection *on = NULL;
    semel_status status = pg_store_borrow(&on, state, err);
    if (status)
        return status;
    do /* another process adds the same name, and the server's isolation is strict */
        status = find_or_add_scope(state, on, kind, name, out, err);
    while (status == SEMEL_ECONFLICT && ++tries < CONFLICTS_MAX);
    pg_store_give_back(state, on);
    return status;
}

static const semel_store_units units = {
    .begin = postgres_begin,
    .join = postgres_join,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .queue = postgres_queue,
    .check = postgres_check,
    .savepoint = postgres_savepoint,
    .keep = postgres_keep,
    .undo = postgres_undo,
    .used = postgres_used,
    .verify = postgres_verify,
    .native = postgres_native,
};

static const semel_store_markers markers = {
    .look = postgres_look,
    .mark = postgres_mark,
    .assume = postgres_assume,
    .claim = postgres_claim,
    .finish = postgres_finish,
    .renew = postgres_renew,
    .fail = postgres_fail,
    .bury = postgres_bury,
    .unmark = postgres_unmark,
    .forget = postgres_forget,
    .result_set = postgres_result_set,
    .result_get = postgres_result_get,
    .sweep = postgres_sweep,
    .letter_gone = postgres_letter_gone,
};

static const semel_store_notes notes = {
    .read = postgres_note_read,
    .write = postgres_note_write,
};

static const semel_store_outbox outbox = {
    .put = postgres_put,
    .put_many = postgres_put_many,
    .lease = postgres_take,
    .settle = postgres_settle,
    .extend = postgres_extend,
    .unsent = postgres_unsent,
};

static const semel_store_dead dead_letters = {
    .put = postgres_dead_put,
    .drop = postgres_dead_drop,
    .list = postgres_dead_list,
};

static const semel_store_watch watching = {
    .watch = postgres_watch,
    .heard = postgres_heard,
    .unwatch = postgres_unwatch,
};

extern const semel_store_driver postgres_store_driver;
const semel_store_driver postgres_store_driver = {
    .version = SEMEL_STORE_DRIVER_VERSION,
    .abilities =
        SEMEL_STORE_TRANSACTIONS | SEMEL_STORE_JOIN | SEMEL_STORE_SHARED | SEMEL_STORE_DISTANT,
    .scheme = "postgres",
    .store_size = sizeof(postgres_store),
    .unit_size = sizeof(postgres_unit),
    .open = postgres_open,
    .check_url = postgres_check_url,
    .close = postgres_close,
    .migrate = postgres_migrate,
    .now = postgres_now,
    .durability = postgres_durability,
    .scope = postgres_scope,
    .stats = postgres_stats,
    .units = &units,
    .markers = &markers,
    .notes = &notes,
    .outbox = &outbox,
    .dead = &dead_letters,
    .watch = &watching,
    .lists = &postgres_lists,
    .inspection = &postgres_inspection,
    .operation = &postgres_operation,
    .history = &postgres_history,
};
