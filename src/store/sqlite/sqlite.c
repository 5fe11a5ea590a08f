/* The SQLite store: opening, names, and the driver table.
 *
 * Two connections: one writer, which every unit uses in turn (gate.c), and one reader for looking
 * without keeping writers waiting. The file is in WAL mode. It is also the application's own
 * database: semel touches nothing in it but its tables, and no setting that outlives the connection
 * but the journal mode. */
#include "store/sqlite/sqlite.h"

#include "base/url.h"
#include "base/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <semel/sqlite.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    CACHE_DEFAULT_KIB = 16384,
    READER_CACHE_KIB = 1024,
    WAL_KEPT_BYTES = 64 << 20,
    PAUSE_MIN_US = 100,
    PAUSE_MAX_US = 5000
};

/* --- opening ---------------------------------------------------------------------------------- */

/* Another process has the lock: sleep a little, a little longer each time, until the deadline. */
static int on_busy(void *context, int times)
{
    sqlite_connection *on = context;
    if (wait_clock_ms() >= on->deadline_ms)
        return 0;
    uint32_t pause = (uint32_t)PAUSE_MIN_US << (times < 6 ? times : 6);
    wait_nap_us(pause < PAUSE_MAX_US ? pause : PAUSE_MAX_US);
    return 1;
}

/* A handler's own COMMIT would make half of a unit durable: it is turned into a rollback, and
 * noticed. */
static int on_commit(void *context)
{
    sqlite_connection *on = context;
    on->ends++;
    return on->in_unit && !on->committing;
}

static void on_rollback(void *context)
{
    ((sqlite_connection *)context)->ends++;
}

/* What the URL asks for. */
typedef struct wishes {
    uint32_t cache_kib;
    int relaxed;
    int foreign_keys;
    int unshared;
} wishes;

/* Where processes open a new file at once, one of them changes its mode, and the others may be told
 * at once that it is locked: SQLite does not call the busy handler there. */
static semel_status configure(sqlite_connection *on, const wishes *wanted, semel_error *err)
{
    char pragmas[256];
    semel_status status;
    int times = 0;
    (void)snprintf(pragmas, sizeof pragmas,
                   "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -%u; "
                   "PRAGMA journal_size_limit = %d; PRAGMA foreign_keys = %d",
                   wanted->cache_kib, WAL_KEPT_BYTES, wanted->foreign_keys);
    do
        status = sqlite_connection_exec(on, pragmas, "configuring the connection", err);
    while (status == SEMEL_EBUSY && on_busy(on, times++));
    return status;
}

static semel_status connect_to(sqlite_connection *on, const char *path, const wishes *wanted,
                               uint32_t busy_ms, semel_error *err)
{
    int code = sqlite3_open_v2(
        path, &on->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK)
        return sqlite_connection_fail(on, code, path, err);
    sqlite3_extended_result_codes(on->db, 1);
    on->deadline_ms = wait_clock_ms() + busy_ms;
    sqlite3_busy_handler(on->db, on_busy, on);
    sqlite3_commit_hook(on->db, on_commit, on);
    sqlite3_rollback_hook(on->db, on_rollback, on);
    return configure(on, wanted, err);
}

/* A new file is the owner's alone: messages may hold what others must not read. SQLite gives its
 * -wal and -shm files the same mode. */
static semel_status make_file(const char *path, semel_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST)
        return semel_fail(err, SEMEL_ESTORE, "sqlite: cannot create %s: %s", path, strerror(errno));
    return SEMEL_OK;
}

/* One of two words. */
static semel_status read_choice(int *second, const url *parsed, const char *name, const char *a,
                                const char *b, semel_error *err)
{
    const char *text = url_text(parsed, name, a);
    *second = strcmp(text, b) == 0;
    if (*second || strcmp(text, a) == 0)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "URL: %s is %s or %s, not \"%s\"", name, a, b, text);
}

static semel_status read_url(url *parsed, const char *text, wishes *out, semel_error *err)
{
    semel_status status = url_parse(parsed, text, err);
    if (!status)
        status = url_only(parsed, "synchronous,cache_kib,foreign_keys,share", err);
    if (!status)
        status =
            url_number(&out->cache_kib, parsed, "cache_kib", CACHE_DEFAULT_KIB, 64, 64 << 20, err);
    if (!status)
        status = read_choice(&out->relaxed, parsed, "synchronous", "full", "normal", err);
    if (!status)
        status = read_choice(&out->foreign_keys, parsed, "foreign_keys", "off", "on", err);
    if (!status)
        status = read_choice(&out->unshared, parsed, "share", "on", "off", err);
    if (!status && (!*parsed->rest || parsed->rest[0] == ':'))
        status =
            semel_fail(err, SEMEL_EINVAL,
                       "sqlite: needs the path of a file, as in sqlite:orders.db; for a store in "
                       "memory use memory:");
    return status;
}

static void destroy_locks(sqlite_store *store)
{
    pthread_mutex_destroy(&store->gate);
    pthread_mutex_destroy(&store->reader_lock);
    pthread_mutex_destroy(&store->clock_lock);
}

static semel_status init_locks(sqlite_store *store, int shares, semel_error *err)
{
    pthread_mutex_init(&store->gate, NULL);
    pthread_mutex_init(&store->reader_lock, NULL);
    pthread_mutex_init(&store->clock_lock, NULL);
    int error = sqlite_share_init(&store->share, shares);
    if (!error)
        return SEMEL_OK;
    destroy_locks(store);
    return semel_fail(err, SEMEL_ENOMEM, "no condition for the gate: %s", strerror(error));
}

static void sqlite_close(void *state)
{
    sqlite_store *store = state;
    sqlite_connection_finalize(&store->writer);
    sqlite_connection_finalize(&store->reader);
    sqlite3_close_v2(store->reader.db);
    sqlite3_close_v2(store->writer.db);
    sql_cursors_free(&store->cursors);
    arena_free(&store->scratch);
    sqlite_share_destroy(&store->share);
    destroy_locks(store);
}

static semel_status sqlite_check_url(const char *text, semel_error *err)
{
    url parsed;
    wishes wanted = {0};
    return read_url(&parsed, text, &wanted, err);
}

static semel_status sqlite_open(void *state, const void *text, const semel_store_settings *settings,
                                semel_error *err)
{
    sqlite_store *store = state;
    url parsed;
    wishes wanted = {0};
    semel_status status = read_url(&parsed, text, &wanted, err);
    if (!status)
        status = make_file(parsed.rest, err);
    if (!status)
        status = init_locks(store, !wanted.relaxed && !wanted.unshared, err);
    if (status)
        return status;
    store->seam = settings->seam;
    store->relaxed_always = wanted.relaxed;
    store->foreign_keys = wanted.foreign_keys;
    store->busy_ms = settings->busy_ms;
    store->pid = getpid();
    status = connect_to(&store->writer, parsed.rest, &wanted, settings->busy_ms, err);
    wanted.cache_kib = READER_CACHE_KIB;
    if (!status)
        status = connect_to(&store->reader, parsed.rest, &wanted, settings->busy_ms, err);
    if (status)
        sqlite_close(store);
    return status;
}

static semel_durability sqlite_durability(const void *state)
{
    const sqlite_store *store = state;
    return store->relaxed_always ? SEMEL_DURABLE_PROCESS : SEMEL_DURABLE_POWER;
}

/* --- names ------------------------------------------------------------------------------------ */

static semel_status find_scope(sqlite_store *store, semel_scope kind, const char *name,
                               int64_t *out, semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->writer, ST_SCOPE_FIND);
    sqlite_query_int(&q, kind);
    sqlite_query_text(&q, name);
    int got = sqlite_query_row(&q, "looking up a name", err);
    *out = got > 0 ? sqlite_row_int(&q, 0) : 0;
    sqlite_query_end(&q);
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status find_or_add(sqlite_store *store, semel_scope kind, const char *name,
                                int64_t *out, semel_error *err)
{
    semel_status status = sqlite_schema_check(&store->writer, err);
    if (!status)
        status = find_scope(store, kind, name, out, err);
    if (status || *out)
        return status;
    sqlite_query q = sqlite_query_start(&store->writer, ST_SCOPE_ADD);
    sqlite_query_int(&q, kind);
    sqlite_query_text(&q, name);
    status = sqlite_query_run(&q, NULL, "storing a name", err);
    *out = sqlite3_last_insert_rowid(store->writer.db);
    return status;
}

static semel_status sqlite_scope(void *state, semel_scope kind, const char *name, int64_t *out,
                                 semel_error *err)
{
    sqlite_store *store = state;
    sqlite_unit unit = {.alone = 1};
    semel_status status = sqlite_begin(store, &unit, SEMEL_BEGIN_DURABLE, store->busy_ms, err);
    if (status)
        return status;
    status = find_or_add(store, kind, name, out, err);
    if (status) {
        sqlite_rollback(&unit);
        return status;
    }
    status = sqlite_commit(&unit, err);
    return status ? status : sqlite_clock_load(store, err);
}

/* --- <semel/sqlite.h> ------------------------------------------------------------------------- */

sqlite3 *semel_unit_sqlite(semel_unit *unit)
{
    return semel_unit_native(unit, "sqlite");
}

semel_status semel_unit_join_sqlite(semel_unit **out, semel_store *store, sqlite3 *db,
                                    semel_error *err)
{
    return semel_unit_join_native(out, store, "sqlite", db, err);
}

/* --- the table -------------------------------------------------------------------------------- */

static const semel_store_units units = {
    .begin = sqlite_begin,
    .join = sqlite_join,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .queue = sqlite_queue,
    .check = sqlite_check,
    .savepoint = sqlite_savepoint,
    .keep = sqlite_keep,
    .undo = sqlite_undo,
    .used = sqlite_used,
    .native = sqlite_native,
};

static const semel_store_markers markers = {
    .look = sqlite_look,
    .mark = sqlite_mark,
    .claim = sqlite_claim,
    .finish = sqlite_finish,
    .renew = sqlite_renew,
    .fail = sqlite_fail,
    .bury = sqlite_bury,
    .forget = sqlite_forget,
    .result_set = sqlite_result_set,
    .result_get = sqlite_result_get,
    .sweep = sqlite_sweep,
    .letter_gone = sqlite_letter_gone,
};

static const semel_store_notes notes = {
    .read = sqlite_note_read,
    .write = sqlite_note_write,
};

static const semel_store_outbox outbox = {
    .put = sqlite_put,
    .lease = sqlite_take,
    .settle = sqlite_settle,
    .extend = sqlite_extend,
    .unsent = sqlite_unsent,
};

static const semel_store_dead dead_letters = {
    .put = sqlite_dead_put,
    .drop = sqlite_dead_drop,
    .list = sqlite_dead_list,
};

extern const semel_store_driver sqlite_store_driver;

const semel_store_driver sqlite_store_driver = {
    .version = SEMEL_STORE_DRIVER_VERSION,
    .abilities = SEMEL_STORE_TRANSACTIONS | SEMEL_STORE_JOIN | SEMEL_STORE_SHARED,
    .scheme = "sqlite",
    .store_size = sizeof(sqlite_store),
    .unit_size = sizeof(sqlite_unit),
    .open = sqlite_open,
    .check_url = sqlite_check_url,
    .close = sqlite_close,
    .migrate = sqlite_migrate,
    .now = sqlite_now,
    .durability = sqlite_durability,
    .scope = sqlite_scope,
    .stats = sqlite_stats,
    .units = &units,
    .markers = &markers,
    .notes = &notes,
    .outbox = &outbox,
    .dead = &dead_letters,
    .lists = &sqlite_lists,
    .inspection = &sqlite_inspection,
    .operation = &sqlite_operation,
    .history = &sqlite_history,
};
