/* Receiving on a database server, against loops by hand (raw_*.c): one message in a transaction,
 * batches, copies. All contenders of a table take turns in the same rounds.
 *
 * With one connection most of a message's time is that of waking a sleeping core, which is noise on
 * a virtual machine; such rows are marked, and 4 and more connections are what counts. */
#include "server.h"

#include <string.h>

static const size_t connections[] = {1, 4, 8};
enum { COUNTS = sizeof connections / sizeof *connections };

static const char *count_text(char out[100], size_t workers, const char *what)
{
    snprintf(out, 100, "%zu connection%s%s%s%s", workers, workers == 1 ? "" : "s",
             workers == 1 ? " (*)" : "", *what ? ", " : "", what);
    return out;
}

static void explain_mark(void)
{
    report_note("(*) with one connection it is mostly the waking of cores that is measured: noise");
}

/* --- one message in a transaction ------------------------------------------------------------- */

enum { RAW, SEMEL, QUEUED, BARE, TRIP, FIVE, CONTENDERS };

static const char *const rooms[CONTENDERS] = {
    [RAW] = "bench_raw",   [SEMEL] = "bench_semel", [QUEUED] = "bench_queued",
    [BARE] = "bench_bare", [TRIP] = "bench_trip",   [FIVE] = "bench_five"};

typedef struct server_case {
    raw_workers raw_workers[CONTENDERS];
    semel_server semel, queued;
    contender contenders[CONTENDERS];
} server_case;

static void add_raw_workers(server_case *f, int which, const server *on, const char *url,
                            size_t workers, raw_work *work)
{
    f->raw_workers[which] = (raw_workers){.on = on, .workers = workers, .batch = 1, .work = work};
    raw_workers_open(&f->raw_workers[which], url, rooms[which]);
    f->contenders[which] = (contender){.context = &f->raw_workers[which], .run = raw_workers_run};
}

static void add_semel_server(server_case *f, int which, semel_server *p, const char *url)
{
    semel_server_open(p, url, rooms[which]);
    f->contenders[which] = (contender){.context = p, .run = semel_server_receive};
}

static void server_case_open(server_case *f, const server *on, const char *url, size_t workers)
{
    for (int i = 0; i < CONTENDERS; i++)
        room_make(on, url, rooms[i]);
    f->semel = (semel_server){.on = on, .workers = workers, .batch = 1};
    f->queued =
        (semel_server){.on = on, .workers = workers, .batch = 1, .mode = SEMEL_QUEUED, .queues = 1};
    add_raw_workers(f, RAW, on, url, workers, on->receive);
    add_raw_workers(f, BARE, on, url, workers, on->effect);
    add_raw_workers(f, TRIP, on, url, workers, on->receive_trip);
    add_raw_workers(f, FIVE, on, url, workers, on->check_first);
    add_semel_server(f, SEMEL, &f->semel, url);
    add_semel_server(f, QUEUED, &f->queued, url);
}

static void server_case_close(server_case *f, const server *on, const char *url)
{
    static const int by_hand[] = {RAW, BARE, TRIP, FIVE};
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++)
        raw_workers_close(&f->raw_workers[by_hand[i]]);
    semel_server_close(&f->semel);
    semel_server_close(&f->queued);
    for (int i = 0; i < CONTENDERS; i++)
        room_remove(on, url, rooms[i]);
}

static void report_pair(const server *on, const char *what, const char *left, const char *right,
                        const comparison comparisons[COUNTS], size_t which, size_t against,
                        const bench_aim aims[COUNTS])
{
    char name[100];
    report_section("server-receive", server_title(name, on, what), left, right);
    for (size_t i = 0; i < COUNTS; i++)
        report_comparison(count_text(name, connections[i], ""), &comparisons[i], which, against,
                          aims[i]);
}

static void report_received(const server *on, const comparison comparisons[COUNTS])
{
    static const bench_aim none[COUNTS] = {{0}, {0}, {0}};
    const bench_aim by_raw[COUNTS] = {NO_AIM, AT_LEAST(0.9), AT_LEAST(0.9)};
    const bench_aim by_bare[COUNTS] = {AT_LEAST(0.8), NO_AIM, AT_LEAST(0.95)};
    report_pair(on, "one in a transaction", "raw/s", "semel/s", comparisons, SEMEL, RAW, by_raw);
    report_pair(on, "queued, by the bare effect", "bare/s", "queued/s", comparisons, QUEUED, BARE,
                by_bare);
    report_pair(on, "queued, by raw in one trip", "raw/s", "queued/s", comparisons, QUEUED, TRIP,
                none);
    report_pair(on, "by check-then-insert", "5 trips/s", "semel/s", comparisons, SEMEL, FIVE, none);
    report_pair(on, "queued, by check-then-insert", "5 trips/s", "queued/s", comparisons, QUEUED,
                FIVE, none);
    explain_mark();
}

static void measure_receive(const server *on, const char *url)
{
    comparison comparisons[COUNTS];
    for (size_t i = 0; i < COUNTS; i++) {
        server_case f;
        key_source keys;
        char label[200], count[100];
        size_t workers = connections[i];
        snprintf(label, sizeof label, "%s, %s", on->name, count_text(count, workers, ""));
        server_case_open(&f, on, url, workers);
        keys_begin(&keys, KEYS_RANDOM);
        comparison_run(&comparisons[i], f.contenders, CONTENDERS, &keys, 1,
                       transactions(workers == 1 ? 400 : 1200, workers == 1 ? 100 : 300),
                       choose_rounds(9, 3), label);
        server_case_close(&f, on, url);
    }
    report_received(on, comparisons);
}

void section_server_receive(void)
{
    each_server(measure_receive);
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { B_RAW, B_SEMEL, B_ROWS, B_ONE, B_COUNT, B_WORKERS = 4 };

static void compare_batch(comparison *out, const server *on, const char *url, size_t batch,
                          size_t count)
{
    static const char *const names[B_COUNT] = {"bench_raw", "bench_semel", "bench_rows",
                                               "bench_one"};
    raw_workers raw = {.on = on, .workers = B_WORKERS, .batch = batch, .work = on->batch};
    raw_workers rows = {.on = on, .workers = B_WORKERS, .batch = batch, .work = on->batch_rows};
    semel_server semel = {.on = on, .workers = B_WORKERS, .batch = batch, .queues = 1};
    semel_server one = {.on = on, .workers = B_WORKERS, .batch = 1};
    const contender all[B_COUNT] = {[B_RAW] = {.context = &raw, .run = raw_workers_run},
                                    [B_SEMEL] = {.context = &semel, .run = semel_server_receive},
                                    [B_ROWS] = {.context = &rows, .run = raw_workers_run},
                                    [B_ONE] = {.context = &one, .run = semel_server_receive}};
    char label[100];
    key_source keys;
    for (size_t i = 0; i < B_COUNT; i++)
        room_make(on, url, names[i]);
    raw_workers_open(&raw, url, names[B_RAW]);
    raw_workers_open(&rows, url, names[B_ROWS]);
    semel_server_open(&semel, url, names[B_SEMEL]);
    semel_server_open(&one, url, names[B_ONE]);
    snprintf(label, sizeof label, "%s, batches of %zu", on->name, batch);
    keys_begin(&keys, KEYS_RANDOM);
    size_t batches = batch == 10 ? choose(800, 200) : batch == 100 ? choose(80, 40) : 40;
    comparison_run(out, all, count, &keys, batch, batches, choose_rounds(7, 3), label);
    raw_workers_close(&raw);
    raw_workers_close(&rows);
    semel_server_close(&semel);
    semel_server_close(&one);
    for (size_t i = 0; i < B_COUNT; i++)
        room_remove(on, url, names[i]);
}

static void measure_batch(const server *on, const char *url)
{
    static const size_t batches[] = {10, 100, 1000};
    enum { BATCHES = sizeof batches / sizeof *batches };
    char name[100];
    static comparison comparisons[BATCHES];
    for (size_t i = 0; i < BATCHES; i++)
        compare_batch(&comparisons[i], on, url, batches[i], batches[i] == 100 ? B_COUNT : B_ONE);
    report_section("server-batch", server_title(name, on, "batches"), "raw/s", "semel/s");
    for (size_t i = 0; i < BATCHES; i++) {
        snprintf(name, sizeof name, "%4zu at once, %d connections", batches[i], B_WORKERS);
        report_comparison(name, &comparisons[i], B_SEMEL, B_RAW, AT_LEAST(0.8));
        report_comparison("       by all rows in one statement", &comparisons[i], B_SEMEL, B_ROWS,
                          NO_AIM);
    }
    report_comparison("100 at once by one in a transaction", &comparisons[1], B_SEMEL, B_ONE,
                      AT_LEAST(5));
    report_note(
        "raw has a statement for each business row, sent in one go; the handlers queue theirs");
}

void section_server_batch(void)
{
    each_server(measure_batch);
}

/* --- copies ----------------------------------------------------------------------------------- */

static void race_copies(comparison *d, semel_server *p)
{
    message_set set = {0};
    key_source keys;
    *d = (comparison){.rounds = choose_rounds(9, 3), .contenders = 2};
    keys_begin(&keys, KEYS_RANDOM);
    for (size_t round = 0; round < d->rounds; round++) {
        progress("first copies and duplicates", round, d->rounds);
        messages_make(&set, &keys, transactions(1200, 400));
        double start = now_s();
        p->expected = SEMEL_PROCESSED;
        semel_server_receive(p, &set);
        double between = now_s();
        p->expected = SEMEL_DUPLICATE;
        semel_server_receive(p, &set);
        d->rate[0][round] = (double)set.count / (between - start);
        d->rate[1][round] = (double)set.count / (now_s() - between);
        comparison_settle(d, round + 1);
        stop_if_asked();
    }
    messages_free(&set);
}

static void compare_copies(const server *on, const char *url, size_t workers, int queued)
{
    static const char room[] = "bench_copies";
    char name[100];
    comparison d;
    semel_server p = {.on = on,
                      .workers = workers,
                      .batch = 1,
                      .mode = queued ? SEMEL_QUEUED : SEMEL_TRANSACTION,
                      .queues = queued};
    room_make(on, url, room);
    semel_server_open(&p, url, room);
    race_copies(&d, &p);
    semel_server_close(&p);
    room_remove(on, url, room);
    report_comparison(count_text(name, workers, queued ? "queued" : ""), &d, 1, 0,
                      queued ? NO_AIM : AT_LEAST(2.5));
}

static void measure_duplicate(const server *on, const char *url)
{
    char title[100];
    report_section("server-duplicate", server_title(title, on, "a copy by the first"), "first/s",
                   "copy/s");
    for (int queued = 0; queued < 2; queued++)
        for (size_t i = 0; i < COUNTS; i++)
            if (connections[i] > 1)
                compare_copies(on, url, connections[i], queued);
}

void section_server_duplicate(void)
{
    each_server(measure_duplicate);
}
