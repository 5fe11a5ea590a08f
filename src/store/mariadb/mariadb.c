/* The MariaDB store: opening, names, and the driver table.
 *
 * A pool of connections, one per unit that is open. The database is the application's own: semel
 * has its tables in it, under a prefix, and touches nothing else. All names are qualified with the
 * database, so a USE of the application does not matter. The clock is the server's: one for all
 * clients. */
#include "store/mariadb/mariadb.h"

#include <semel/mariadb.h>
#include <stdio.h>
#include <string.h>

/* --- connections ------------------------------------------------------------------------------ */

static semel_status connect_for_pool(void **out, void *context, uint32_t wait_ms, semel_error *err)
{
    mariadb_store *store = context;
    maria_connection *on = NULL;
    semel_status status = maria_open(&on, &store->at, store->texts, store->limits, wait_ms, err);
    if (!status)
        *out = on;
    return status;
}

static const pool_calls calls = {connect_for_pool, maria_is_alive, maria_close};

static semel_status take_pooled(maria_connection **out, mariadb_store *store, semel_error *err)
{
    void *taken = NULL;
    semel_status status = pool_take(&taken, &store->connections, store->limits.busy_ms, err);
    if (status)
        return status;
    *out = taken;
    (*out)->fresh = 1;
    return SEMEL_OK;
}

/* A look leaves the session in autocommit, where several statements are no transaction. */
semel_status maria_borrow_pooled(maria_connection **out, mariadb_store *store, semel_error *err)
{
    semel_status status = take_pooled(out, store, err);
    if (status || (*out)->mode != MODE_LOOKING)
        return status;
    (void)maria_enqueue_mode(*out, MODE_RELAXED);
    status = maria_flush(*out, NULL, "preparing a session", err);
    (*out)->fresh = 1; /* nothing of the caller's */
    if (!status)
        return SEMEL_OK;
    (*out)->mode = MODE_UNKNOWN;
    maria_give_back(store, *out);
    return status;
}

semel_status maria_borrow_looking(maria_connection **out, mariadb_store *store, semel_error *err)
{
    semel_status status = take_pooled(out, store, err);
    if (!status)
        (void)maria_enqueue_mode(*out, MODE_LOOKING);
    return status;
}

void maria_give_back(mariadb_store *store, maria_connection *on)
{
    maria_script_clear(&on->out);
    arena_reset(&on->scratch);
    pool_give(&store->connections, on, !on->lost);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Both names were checked: neither has a quote in it. */
static semel_status prepare_texts(mariadb_store *store, semel_error *err)
{
    size_t room = strlen(store->at.database) + strlen(store->at.prefix) + sizeof "`.`";
    char *name = arena_alloc(&store->arena, room);
    if (name) {
        (void)snprintf(name, room, "%s`.`%s", store->at.database, store->at.prefix);
        store->name = name;
        store->texts = maria_statements(&store->arena, name);
    }
    return store->texts ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
}

/* Connecting now tells a wrong URL now; and what the server is set to decides what a commit is
 * worth. */
static semel_status look_at_server(mariadb_store *store, semel_error *err)
{
    maria_connection *on = NULL;
    semel_status status = maria_borrow_pooled(&on, store, err);
    if (status)
        return status;
    store->durability = on->safe_commits ? SEMEL_DURABLE_POWER : SEMEL_DURABLE_PROCESS;
    store->packet_max = on->packet_max;
    maria_give_back(store, on);
    return SEMEL_OK;
}

static void mariadb_close(void *state)
{
    mariadb_store *store = state;
    sql_sweeper_destroy(&store->sweeper);
    pool_destroy(&store->connections);
    sql_cursors_free(&store->cursors);
    pthread_mutex_destroy(&store->lock);
    arena_free(&store->arena);
}

static semel_status mariadb_check_url(const char *text, semel_error *err)
{
    maria_address address;
    mem_arena arena = {0};
    semel_status status = maria_address_read(&address, &arena, text, err);
    arena_free(&arena);
    return status;
}

static semel_status mariadb_open(void *state, const void *text,
                                 const semel_store_settings *settings, semel_error *err)
{
    mariadb_store *store = state;
    store->seam = settings->seam;
    store->limits = (maria_limits){settings->busy_ms, settings->answer_ms};
    semel_status status = maria_address_read(&store->at, &store->arena, text, err);
    if (!status)
        status = prepare_texts(store, err);
    if (!status)
        status = pool_init(&store->connections, &calls, store, store->at.pool, err);
    if (status) {
        arena_free(&store->arena);
        return status;
    }
    pthread_mutex_init(&store->lock, NULL);
    sql_sweeper_init(&store->sweeper, &maria_sweep_calls, store, &store->connections);
    status = look_at_server(store, err);
    if (status)
        mariadb_close(store);
    return status;
}

static semel_durability mariadb_durability(const void *state)
{
    return ((const mariadb_store *)state)->durability;
}

/* --- time and names --------------------------------------------------------------------------- */

static semel_status keep_number(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = maria_column_int(r, 0);
    return SEMEL_OK;
}

static semel_status mariadb_now(void *state, int64_t *out_ms, semel_error *err)
{
    maria_connection *on = NULL;
    int64_t now = 0;
    semel_status status = maria_borrow_pooled(&on, state, err);
    if (status)
        return status;
    maria_query q = maria_enqueue(on, ST_NOW);
    maria_step *s = maria_end(&q);
    s->call = keep_number;
    s->context = &now;
    status = maria_flush(on, NULL, "asking for the time", err);
    maria_give_back(state, on);
    if (!status)
        *out_ms = now;
    return status;
}

static semel_status find_scope(maria_connection *on, semel_scope kind, const char *name,
                               int64_t *out, semel_error *err)
{
    maria_query q = maria_enqueue(on, ST_SCOPE_FIND);
    maria_int(&q, kind);
    maria_text(&q, name);
    maria_step *s = maria_end(&q);
    s->call = keep_number;
    s->context = out;
    return maria_flush(on, NULL, "looking up a name", err);
}

/* The second process that adds a name gets the number of the first. */
static semel_status add_scope(maria_connection *on, semel_scope kind, const char *name,
                              int64_t *out, semel_error *err)
{
    maria_reply answer = {0};
    maria_query q = maria_enqueue(on, ST_SCOPE_ADD);
    maria_int(&q, kind);
    maria_text(&q, name);
    maria_end(&q)->answer = &answer;
    maria_enqueue_plain(on, ST_COMMIT);
    semel_status status = maria_flush(on, NULL, "storing a name", err);
    *out = (int64_t)answer.id;
    return status;
}

static semel_status mariadb_scope(void *state, semel_scope kind, const char *name, int64_t *out,
                                  semel_error *err)
{
    maria_connection *on = NULL;
    int64_t found = 0;
    semel_status status = maria_borrow_pooled(&on, state, err);
    if (status)
        return status;
    status = maria_schema_check(state, on, err);
    if (!status)
        status = find_scope(on, kind, name, &found, err);
    if (!status && !found)
        status = add_scope(on, kind, name, &found, err);
    if (!on->lost)
        maria_push_rollback(on);
    maria_give_back(state, on);
    if (!status)
        *out = found;
    return status;
}

/* --- the table -------------------------------------------------------------------------------- */

static const semel_store_units units = {
    .begin = mariadb_begin,
    .join = mariadb_join,
    .commit = mariadb_commit,
    .rollback = mariadb_rollback,
    .queue = mariadb_queue,
    .check = mariadb_check,
    .savepoint = mariadb_savepoint,
    .keep = mariadb_keep,
    .undo = mariadb_undo,
    .used = mariadb_used,
    .verify = mariadb_verify,
    .native = mariadb_native,
};

static const semel_store_markers markers = {
    .look = mariadb_look,
    .mark = mariadb_mark,
    .assume = mariadb_assume,
    .claim = mariadb_claim,
    .finish = mariadb_finish,
    .renew = mariadb_renew,
    .fail = mariadb_fail,
    .bury = mariadb_bury,
    .unmark = mariadb_unmark,
    .forget = mariadb_forget,
    .result_set = mariadb_result_set,
    .result_get = mariadb_result_get,
    .sweep = mariadb_sweep,
    .letter_gone = mariadb_letter_gone,
};

static const semel_store_notes notes = {
    .read = mariadb_note_read,
    .write = mariadb_note_write,
};

static const semel_store_outbox outbox = {
    .put = mariadb_put,
    .put_many = mariadb_put_many,
    .lease = mariadb_take,
    .settle = mariadb_settle,
    .extend = mariadb_extend,
    .unsent = mariadb_unsent,
};

static const semel_store_dead dead_letters = {
    .put = mariadb_dead_put,
    .drop = mariadb_dead_drop,
    .list = mariadb_dead_list,
};

extern const semel_store_driver mariadb_store_driver;

const semel_store_driver mariadb_store_driver = {
    .version = SEMEL_STORE_DRIVER_VERSION,
    .abilities =
        SEMEL_STORE_TRANSACTIONS | SEMEL_STORE_JOIN | SEMEL_STORE_SHARED | SEMEL_STORE_DISTANT,
    .scheme = "mariadb",
    .store_size = sizeof(mariadb_store),
    .unit_size = sizeof(mariadb_unit),
    .open = mariadb_open,
    .check_url = mariadb_check_url,
    .close = mariadb_close,
    .migrate = mariadb_migrate,
    .now = mariadb_now,
    .durability = mariadb_durability,
    .scope = mariadb_scope,
    .stats = mariadb_stats,
    .run = mariadb_run,
    .units = &units,
    .markers = &markers,
    .notes = &notes,
    .outbox = &outbox,
    .dead = &dead_letters,
    .lists = &mariadb_lists,
    .inspection = &mariadb_inspection,
    .operation = &mariadb_operation,
    .history = &mariadb_history,
};
