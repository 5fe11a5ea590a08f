/* An inbox that remembers positions, against one that remembers keys and against the bare effect:
 * the same rows in the same transactions without any protection. Keys are random, and their table
 * has been filled before, as after a week of work. There is one partition. */
#include "server.h"

#include <semel/sqlite.h>
#include <stdlib.h>

enum { BARE, POSITIONS, KEYS, CONTENDERS, BATCH_LARGEST = 1000 };

static const size_t batches[] = {1, 100, BATCH_LARGEST};

/* --- positions, wherever the store is --------------------------------------------------------- */

typedef struct log_reader {
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
    size_t batch;
    int64_t next;
    int64_t positions[BATCH_LARGEST];
    semel_outcome outcomes[BATCH_LARGEST];
} log_reader;

static const semel_inbox_options remember_positions = {.size = sizeof remember_positions,
                                                       .remember = SEMEL_REMEMBER_POSITIONS};

static void read_log(void *context, const message_set *set)
{
    log_reader *r = context;
    for (size_t done = 0; done < set->count;) {
        semel_error err;
        size_t count = set->count - done < r->batch ? set->count - done : r->batch;
        for (size_t i = 0; i < count; i++)
            r->positions[i] = r->next++;
        const semel_run run = {.size = sizeof run,
                               .partition = "orders/0",
                               .origin = "bench",
                               .positions = r->positions,
                               .messages = set->pointers + done,
                               .count = count};
        must(semel_inbox_receive_run(r->outcomes, r->inbox, &run, r->handler, r->context, &err),
             &err);
        for (size_t i = 0; i < count; i++)
            if (r->outcomes[i] != SEMEL_PROCESSED)
                die("a position has the outcome \"%s\"", semel_outcome_name(r->outcomes[i]));
        done += count;
    }
}

static void report_positions(const comparison *d, size_t batch, size_t markers)
{
    char name[100];
    snprintf(name, sizeof name, "%4zu in a transaction, against the bare effect", batch);
    report_comparison(name, d, POSITIONS, BARE, batch == BATCH_LARGEST ? AT_LEAST(0.95) : NO_AIM);
    snprintf(name, sizeof name, "     against keys, %zu markers", markers);
    report_comparison(name, d, POSITIONS, KEYS,
                      batch == BATCH_LARGEST && markers >= 10000000 ? AT_LEAST(10) : NO_AIM);
}

/* --- SQLite ----------------------------------------------------------------------------------- */

/* In the order of the keys, which is fast; those that come later fall in between. */
static void load_markers(const char *path, size_t count)
{
    char sql[600];
    sqlite3 *db;
    snprintf(sql, sizeof sql,
             "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; "
             "PRAGMA cache_size = -262144; BEGIN; "
             "INSERT INTO semel_marker (inbox, key, state, at_ms, fingerprint) "
             "WITH RECURSIVE c (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < %zu) "
             "SELECT 1, CAST(printf('%%08x-%%04x-4000-8000-%%012x', (n * %lld) >> 16, "
             "(n * %lld) & 65535, n) AS BLOB), 0, %lld, n FROM c; COMMIT; "
             "PRAGMA wal_checkpoint(TRUNCATE)",
             count - 1, (long long)(INT64_C(281474976710656) / (int64_t)count),
             (long long)(INT64_C(281474976710656) / (int64_t)count), (long long)raw_now_ms());
    must_sqlite(sqlite3_open(path, &db), NULL);
    must_sqlite(sqlite3_exec(db, sql, NULL, NULL, NULL), db);
    must_sqlite(sqlite3_close(db), NULL);
}

static void run_bare_sqlite(void *context, const message_set *set)
{
    raw_db *raw = context;
    for (size_t done = 0; done < set->count;) {
        size_t end = set->count - done < raw->batch ? set->count : done + raw->batch;
        raw_step(raw->begin);
        for (; done < end; done++)
            effect_insert(raw->effect, set->pointers[done]->body);
        raw_step(raw->commit);
    }
}

static const char *sqlite_url(char out[600], const char *name)
{
    char path[512];
    snprintf(out, 600, "sqlite:%s", scratch_path(path, name));
    return out;
}

static void compare_on_sqlite(size_t batch, size_t markers)
{
    char path[512], url[600];
    raw_db bare = {.batch = batch};
    semel_sqlite positions, keys;
    comparison d;
    key_source source;
    log_reader *reader = must_alloc(sizeof *reader);
    raw_open(&bare, scratch_path(path, "bare.db"));
    semel_sqlite_open(&positions, sqlite_url(url, "positions.db"), &remember_positions, batch);
    *reader = (log_reader){.inbox = positions.inbox,
                           .handler = semel_sqlite_handler,
                           .context = &positions,
                           .batch = batch};
    semel_sqlite_open(&keys, sqlite_url(url, "keys.db"), NULL, batch);
    load_markers(scratch_path(path, "keys.db"), markers);
    const contender all[] = {[BARE] = {&bare, run_bare_sqlite},
                             [POSITIONS] = {reader, read_log},
                             [KEYS] = {&keys, semel_sqlite_receive}};
    keys_begin(&source, KEYS_RANDOM);
    comparison_run(&d, all, CONTENDERS, &source, batch,
                   batch == 1     ? transactions(600, 300)
                   : batch == 100 ? transactions(100, 50)
                                  : 20,
                   choose_rounds(15, 5), "positions on SQLite");
    report_positions(&d, batch, markers);
    raw_close(&bare);
    semel_sqlite_close(&positions);
    semel_sqlite_close(&keys);
    scratch_remove("bare.db");
    scratch_remove("positions.db");
    scratch_remove("keys.db");
    free(reader);
}

/* --- PostgreSQL ------------------------------------------------------------------------------- */

static void compare_on_server(const server *on, const char *url, size_t batch)
{
    comparison d;
    key_source source;
    semel_error err;
    log_reader *reader = must_alloc(sizeof *reader);
    raw_workers bare = {.on = on, .workers = 1, .batch = batch, .work = on->effects};
    semel_server positions = {
        .on = on, .workers = 1, .batch = batch, .mode = SEMEL_QUEUED, .queues = 1};
    semel_server keys = positions;
    room_make(on, url, "bench_bare");
    room_make(on, url, "bench_log");
    room_make(on, url, "bench_keys");
    raw_workers_open(&bare, url, "bench_bare");
    semel_server_open(&positions, url, "bench_log");
    semel_server_open(&keys, url, "bench_keys");
    semel_inbox_options options_of = remember_positions;
    options_of.mode = SEMEL_QUEUED;
    *reader = (log_reader){
        .handler = semel_server_handler(&positions), .context = &positions, .batch = batch};
    must(semel_inbox_open(&reader->inbox, positions.store, "log", &options_of, &err), &err);
    const contender all[] = {[BARE] = {&bare, raw_workers_run},
                             [POSITIONS] = {reader, read_log},
                             [KEYS] = {&keys, semel_server_receive}};
    keys_begin(&source, KEYS_RANDOM);
    comparison_run(&d, all, CONTENDERS, &source, batch,
                   batch == 1     ? transactions(600, 300)
                   : batch == 100 ? transactions(100, 50)
                                  : 20,
                   choose_rounds(15, 5), "positions on a server");
    report_positions(&d, batch, 0);
    semel_inbox_close(reader->inbox);
    raw_workers_close(&bare);
    semel_server_close(&positions);
    semel_server_close(&keys);
    room_remove(on, url, "bench_bare");
    room_remove(on, url, "bench_log");
    room_remove(on, url, "bench_keys");
    free(reader);
}

static void measure_server(const server *on, const char *url)
{
    char title[100];
    report_section("positions", server_title(title, on, "positions instead of keys"), "other/s",
                   "positions/s");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        compare_on_server(on, url, batches[i]);
}

void section_positions(void)
{
    report_section("positions", "SQLite: positions instead of keys", "other/s", "positions/s");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        compare_on_sqlite(batches[i], choose(10000000, 1000000));
    one_server("postgres", measure_server);
}
