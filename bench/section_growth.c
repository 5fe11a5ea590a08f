/* What a message costs when the table is large, with the sweep running.
 *
 * For either order of keys there is one database for each size, loaded with markers in key order
 * (fast, and off the record); a fifth of them is past its retention, wherever it lies. Then all
 * databases take turns. While semel receives, a thread sweeps as a program would: a step of 1000
 * markers every 50 ms. After each turn the new markers are removed again, so the size stays what
 * the row says.
 *
 * The raw loop runs on the same connection, without a sweep: it shows how much of the growth is
 * SQLite's. */
#include "base/uuid.h"
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <semel/sqlite.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZES = 3, SWEEP_EVERY_MS = 50, SWEEP_ROWS = 1000, BATCH = 100, LATENCIES = 100000 };

#define RETENTION_MS INT64_C(604800000)

typedef struct sweeper {
    pthread_t thread;
    semel_inbox *inbox;
    atomic_int stop;
    double busy_s;
    size_t steps;
} sweeper;

typedef struct place {
    char file[40];
    size_t markers;
    semel_sqlite semel;
    raw_db raw;
    sqlite3_stmt *forget;
    sweeper sweeper;
    double bytes_per_marker;
    double one_us[ROUNDS_MAX], batch_us[ROUNDS_MAX];         /* semel, with the sweep */
    double raw_one_us[ROUNDS_MAX], raw_batch_us[ROUNDS_MAX]; /* raw, without */
    double *with_sweep, *without; /* latencies, one message in a transaction */
    size_t with_count, without_count;
} place;

/* --- loading ---------------------------------------------------------------------------------- */

/* The i-th of n keys in ascending order: spread evenly, or in time over a bit more than the
 * retention. */
static void loaded_key(char out[ID_TEXT + 1], key_order order, size_t i, size_t n, int64_t now_ms,
                       uint64_t *random)
{
    unsigned char noise[16];
    uint64_t bits[2] = {next_random(random), next_random(random)};
    memcpy(noise, bits, sizeof noise);
    if (order == KEYS_IN_TIME_ORDER) {
        noise[0] = (unsigned char)(i >> 8);
        noise[1] = (unsigned char)i;
        uuid_v7(out,
                now_ms - RETENTION_MS + (int64_t)((double)i / (double)n * (double)RETENTION_MS),
                noise);
        return;
    }
    double step = 281474976710656.0 / (double)n; /* 2^48, the bits before the version */
    uuid_v7(out, (int64_t)(step * (double)i), noise);
    out[14] = '4';
}

static void load_rows(sqlite3 *db, size_t n, key_order order)
{
    sqlite3_stmt *insert;
    uint64_t random = 3;
    int64_t now_ms = raw_now_ms();
    raw_prepare(&insert, db,
                "INSERT OR IGNORE INTO semel_marker (inbox, key, state, at_ms, fingerprint) "
                "VALUES (1, ?, 0, ?, ?)");
    for (size_t i = 0; i < n; i++) {
        char key[ID_TEXT + 1];
        if (i % 100000 == 0) {
            progress("loading markers", i, n);
            stop_if_asked();
        }
        loaded_key(key, order, i, n, now_ms, &random);
        int64_t age = (int64_t)(next_random(&random) % (uint64_t)(RETENTION_MS / 4 * 5));
        sqlite3_bind_blob(insert, 1, key, ID_TEXT, SQLITE_STATIC);
        sqlite3_bind_int64(insert, 2, now_ms - age);
        sqlite3_bind_int64(insert, 3, (int64_t)next_random(&random));
        raw_step(insert);
    }
    sqlite3_finalize(insert);
}

static void exec(sqlite3 *db, const char *sql)
{
    must_sqlite(sqlite3_exec(db, sql, NULL, NULL, NULL), db);
}

/* Nothing of this is safe, and none of it is measured. */
static void load(place *p, const char *path, key_order order)
{
    sqlite3 *db;
    must_sqlite(sqlite3_open(path, &db), NULL);
    exec(db,
         "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
         "PRAGMA cache_size = -262144; BEGIN");
    int64_t pages = raw_number(db, "PRAGMA page_count");
    load_rows(db, p->markers, order);
    exec(db, "COMMIT");
    pages = raw_number(db, "PRAGMA page_count") - pages;
    p->bytes_per_marker = (double)pages * 4096 / (double)p->markers;
    must_sqlite(sqlite3_close(db), NULL);
}

/* The connection that semel writes with, for what is done to it between turns. */
static sqlite3 *writer_of(const semel_sqlite *s)
{
    semel_error err;
    semel_unit *unit;
    must(semel_unit_begin(&unit, s->store, &err), &err);
    sqlite3 *db = semel_unit_sqlite(unit);
    semel_unit_rollback(unit);
    return db;
}

static void place_open(place *p, key_order order)
{
    char path[512], url[600];
    snprintf(p->file, sizeof p->file, "growth-%zu.db", p->markers);
    snprintf(url, sizeof url, "sqlite:%s", scratch_path(path, p->file));
    semel_sqlite_open(&p->semel, url, NULL, 1); /* makes the tables */
    semel_sqlite_close(&p->semel);
    load(p, path, order);
    sync();
    semel_sqlite_open(&p->semel, url, NULL, BATCH);
    raw_adopt(&p->raw, writer_of(&p->semel));
    raw_prepare(&p->forget, p->raw.db, "DELETE FROM semel_marker WHERE inbox = 1 AND key = ?");
    if (raw_number(p->raw.db, "SELECT count(*) FROM semel_scope WHERE id = 1 AND kind = 1") != 1)
        die("the inbox is not number 1");
    p->with_sweep = must_alloc(LATENCIES * sizeof *p->with_sweep);
    p->without = must_alloc(LATENCIES * sizeof *p->without);
}

static void place_close(place *p)
{
    sqlite3_finalize(p->forget);
    raw_release(&p->raw);
    semel_sqlite_close(&p->semel);
    scratch_remove(p->file);
    free(p->with_sweep);
    free(p->without);
}

/* --- the sweep -------------------------------------------------------------------------------- */

static void *sweep_until_stopped(void *context)
{
    sweeper *s = context;
    struct timespec pause = {0, SWEEP_EVERY_MS * 1000000};
    while (!atomic_load(&s->stop)) {
        size_t removed = 0;
        int more;
        semel_error err;
        double start = now_s();
        must(semel_inbox_sweep(&removed, &more, s->inbox, SWEEP_ROWS, &err), &err);
        s->busy_s += now_s() - start;
        s->steps++;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void sweep_begin(sweeper *s, semel_inbox *inbox)
{
    s->inbox = inbox;
    atomic_store(&s->stop, 0);
    if (pthread_create(&s->thread, NULL, sweep_until_stopped, s) != 0)
        die("cannot start a thread");
}

static void sweep_end(sweeper *s)
{
    atomic_store(&s->stop, 1);
    pthread_join(s->thread, NULL);
}

/* --- turns ------------------------------------------------------------------------------------ */

static double cost_us(void (*run)(void *, const message_set *), void *context,
                      const message_set *set)
{
    double start = now_s();
    run(context, set);
    return (now_s() - start) * 1e6 / (double)set->count;
}

static void forget_all(place *p, const message_set *set)
{
    exec(p->raw.db, "PRAGMA synchronous = NORMAL");
    raw_step(p->raw.begin);
    for (size_t i = 0; i < set->count; i++) {
        sqlite3_bind_blob(p->forget, 1, set->ids[i], ID_TEXT, SQLITE_STATIC);
        raw_step(p->forget);
    }
    raw_step(p->raw.commit);
    exec(p->raw.db, "PRAGMA synchronous = FULL; PRAGMA wal_checkpoint");
}

static double semel_turn(place *p, size_t batch, int with_sweep, double *latencies, size_t *count,
                         const message_set *set)
{
    p->semel.batch = batch;
    p->semel.latencies_s = *count + set->count <= LATENCIES ? latencies : NULL;
    p->semel.latency_count = *count;
    if (with_sweep)
        sweep_begin(&p->sweeper, p->semel.inbox);
    double cost = cost_us(semel_sqlite_receive, &p->semel, set);
    if (with_sweep)
        sweep_end(&p->sweeper);
    if (p->semel.latencies_s)
        *count = p->semel.latency_count;
    p->semel.latencies_s = NULL;
    forget_all(p, set);
    return cost;
}

static double raw_turn(place *p, size_t batch, const message_set *set)
{
    p->raw.batch = batch;
    double cost = cost_us(raw_receive, &p->raw, set);
    forget_all(p, set);
    return cost;
}

static void place_round(place *p, size_t round, key_source *keys)
{
    message_set set = {0};
    size_t none = LATENCIES;
    messages_make(&set, keys, transactions(600, 300));
    p->one_us[round] = semel_turn(p, 1, 1, p->with_sweep, &p->with_count, &set);
    (void)semel_turn(p, 1, 0, p->without, &p->without_count, &set);
    p->raw_one_us[round] = raw_turn(p, 1, &set);
    messages_make(&set, keys, BATCH * transactions(50, 20));
    p->batch_us[round] = semel_turn(p, BATCH, 1, NULL, &none, &set);
    p->raw_batch_us[round] = raw_turn(p, BATCH, &set);
    messages_free(&set);
    stop_if_asked();
}

/* --- the section ------------------------------------------------------------------------------ */

static const char *size_text(char out[32], size_t markers)
{
    if (markers >= 1000000)
        snprintf(out, 32, "%zu million", markers / 1000000);
    else
        snprintf(out, 32, "%zu thousand", markers / 1000);
    return out;
}

/* Costs at a size against those at the smallest, round by round. */
static void report_cost(const char *what, const place *at, const place *small, const double *cost,
                        const double *small_cost, size_t rounds, bench_aim aim)
{
    double ratios[ROUNDS_MAX];
    char name[100], a[32];
    for (size_t i = 0; i < rounds; i++)
        ratios[i] = cost[i] / small_cost[i];
    snprintf(name, sizeof name, "%s at %s", what, size_text(a, at->markers));
    report_row(name, spread_of(small_cost, rounds).median, spread_of(cost, rounds).median,
               spread_of(ratios, rounds), at == small ? NO_AIM : aim);
}

static void report_place(place *at, place *small, size_t rounds, bench_aim last)
{
    report_cost("one in a transaction", at, small, at->one_us, small->one_us, rounds, last);
    report_cost("       raw, no sweep,", at, small, at->raw_one_us, small->raw_one_us, rounds,
                NO_AIM);
    report_cost("100 at once", at, small, at->batch_us, small->batch_us, rounds, last);
    report_cost("       raw, no sweep,", at, small, at->raw_batch_us, small->raw_batch_us, rounds,
                NO_AIM);
}

static void report_latency(place *p)
{
    char name[100], size[32];
    double with = percentile(p->with_sweep, p->with_count, 0.99) * 1e6;
    double without = percentile(p->without, p->without_count, 0.99) * 1e6;
    snprintf(name, sizeof name, "p99, us, no sweep | sweep, %s", size_text(size, p->markers));
    report_row(name, without, with, spread_unknown(with / without), AT_MOST(2));
}

/* No other thread works meanwhile: what the steps themselves cost. */
static void report_sweep_alone(const place *p)
{
    enum { STEPS = 100 };
    size_t removed = 0, all_removed = 0;
    int more;
    semel_error err;
    double start = now_s();
    for (int i = 0; i < STEPS; i++) {
        must(semel_inbox_sweep(&removed, &more, p->semel.inbox, SWEEP_ROWS, &err), &err);
        all_removed += removed;
    }
    double took = now_s() - start;
    report_value("sweep alone: markers looked at", STEPS * SWEEP_ROWS / took, "per second", NO_AIM);
    report_value("sweep alone: of those removed", (double)all_removed / took, "per second", NO_AIM);
}

static void report_sweeper(const place *largest)
{
    const sweeper *s = &largest->sweeper;
    report_sweep_alone(largest);
    report_value("sweep while receiving: a step of 1000", s->busy_s / (double)s->steps * 1000,
                 "ms, waits included", NO_AIM);
    report_value("on disk, loaded in key order", largest->bytes_per_marker, "bytes per marker",
                 NO_AIM);
}

static void grow(key_order order, size_t sizes, size_t rounds)
{
    static place places[SIZES];
    static const size_t markers[SIZES] = {10000, 1000000, 10000000};
    key_source keys;
    char title[100];
    memset(places, 0, sizeof places);
    for (size_t i = 0; i < sizes; i++) {
        places[i].markers = markers[i];
        place_open(&places[i], order);
    }
    keys_begin(&keys, order);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizes; i++) {
            progress("growth", round * sizes + i, rounds * sizes);
            place_round(&places[round % 2 ? sizes - 1 - i : i], round, &keys);
        }
    snprintf(title, sizeof title, "growth, %s, sweep running", order_name(order));
    report_section("growth", title, "10^4, us", "here, us");
    for (size_t i = 1; i < sizes; i++)
        report_place(&places[i], &places[0], rounds, i == sizes - 1 ? AT_MOST(1.5) : NO_AIM);
    report_latency(&places[sizes - 1]);
    report_sweeper(&places[sizes - 1]);
    for (size_t i = 0; i < sizes; i++)
        place_close(&places[i]);
}

void section_growth(void)
{
    for (key_order order = KEYS_IN_TIME_ORDER; order <= KEYS_RANDOM; order++)
        grow(order, choose(SIZES, 2), choose_rounds(choose(9, 5), 3));
}
