/* Receiving through SQLite, against the loop in raw.c: one message in a transaction, batches,
 * copies, and claims. */
#include "bench.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* --- limits ----------------------------------------------------------------------------------- */

enum { PAGE = 4096, PAGES = 256 };

static double overwrites_per_s(int fd, size_t count)
{
    static unsigned char page[PAGE];
    double start = now_s();
    for (size_t i = 0; i < count; i++) {
        page[i % PAGE]++;
        if (pwrite(fd, page, PAGE, (off_t)(i % PAGES) * PAGE) != PAGE || fdatasync(fd) != 0)
            die("cannot write to the scratch file");
    }
    return (double)count / (now_s() - start);
}

/* In a file that is written already, so that nothing is allocated. */
static spread measure_disk(size_t rounds, size_t count)
{
    char path[512];
    double rates[ROUNDS_MAX];
    static const unsigned char nothing[PAGE];
    int fd = open(scratch_path(path, "limits"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (size_t i = 0; i < PAGES; i++)
        if (fd < 0 || pwrite(fd, nothing, PAGE, (off_t)i * PAGE) != PAGE)
            die("cannot write %s", path);
    fsync(fd);
    for (size_t i = 0; i < rounds; i++) {
        progress("limits", i, rounds);
        rates[i] = overwrites_per_s(fd, count);
        stop_if_asked();
    }
    close(fd);
    scratch_remove("limits");
    return spread_of(rates, rounds);
}

size_t transactions(size_t full, size_t brief)
{
    enum { AT_LEAST_SO_MANY = 20 };
    static double in_time; /* that fit into a tenth of a second */
    size_t wanted = choose(full, brief);
    if (in_time == 0)
        in_time = measure_disk(5, 40).median / 10;
    if ((double)wanted <= in_time || wanted <= AT_LEAST_SO_MANY)
        return wanted;
    return in_time > AT_LEAST_SO_MANY ? (size_t)in_time : AT_LEAST_SO_MANY;
}

void section_limits(void)
{
    spread rate = measure_disk(choose_rounds(9, 5), transactions(500, 200));
    report_section("limits", "raw limits, for orientation", "", "per second");
    report_value("fdatasync after overwriting 4 KiB", rate.median, "", NO_AIM);
}

/* --- one message in a transaction, and batches ------------------------------------------------ */

enum { RAW, SEMEL, RAW_SAVEPOINTS };

typedef struct sqlite_case {
    raw_db raw, savepoints;
    semel_sqlite semel;
} sqlite_case;

static const char *url_of(char out[600], const char *path)
{
    snprintf(out, 600, "sqlite:%s", path);
    return out;
}

static void sqlite_case_open(sqlite_case *a, size_t batch)
{
    char path[512], url[600];
    *a = (sqlite_case){.raw = {.batch = batch},
                       .savepoints = {.batch = batch, .with_savepoints = 1}};
    raw_open(&a->raw, scratch_path(path, "raw.db"));
    raw_open(&a->savepoints, scratch_path(path, "savepoints.db"));
    semel_sqlite_open(&a->semel, url_of(url, scratch_path(path, "semel.db")), NULL, batch);
}

static void sqlite_case_close(sqlite_case *a)
{
    raw_close(&a->raw);
    raw_close(&a->savepoints);
    semel_sqlite_close(&a->semel);
    scratch_remove("raw.db");
    scratch_remove("savepoints.db");
    scratch_remove("semel.db");
}

static void compare_contenders(comparison *out, size_t batch, key_order order, size_t contenders,
                               size_t batches, size_t rounds)
{
    sqlite_case a;
    key_source keys;
    char label[100];
    sqlite_case_open(&a, batch);
    const contender all[] = {[RAW] = {.context = &a.raw, .run = raw_receive},
                             [SEMEL] = {.context = &a.semel, .run = semel_sqlite_receive},
                             [RAW_SAVEPOINTS] = {.context = &a.savepoints, .run = raw_receive}};
    snprintf(label, sizeof label, "receive %zu at once, %s", batch, order_name(order));
    keys_begin(&keys, order);
    comparison_run(out, all, contenders, &keys, batch, batches, rounds, label);
    sqlite_case_close(&a);
}

void section_receive(void)
{
    report_section("receive", "receive, one message in a transaction", "raw/s", "semel/s");
    for (key_order order = KEYS_IN_TIME_ORDER; order <= KEYS_RANDOM; order++) {
        comparison d;
        compare_contenders(&d, 1, order, 2, transactions(600, 300), choose_rounds(25, 7));
        report_comparison(order_name(order), &d, SEMEL, RAW, AT_LEAST(0.95));
    }
}

static void report_batch(const comparison *d, size_t batch, key_order order)
{
    char name[100];
    snprintf(name, sizeof name, "%4zu at once, %s", batch, order_name(order));
    report_comparison(name, d, SEMEL, RAW, AT_LEAST(0.8));
    report_comparison("       the same against raw with savepoints", d, SEMEL, RAW_SAVEPOINTS,
                      NO_AIM);
}

void section_batch(void)
{
    static const size_t batches[] = {10, 100, 1000};
    report_section("batch", "receive, batches in one transaction", "raw/s", "semel/s");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (key_order order = KEYS_IN_TIME_ORDER; order <= KEYS_RANDOM; order++) {
            comparison d;
            size_t in_round = batches[i] == 1000 ? 10 : transactions(100, 50);
            compare_contenders(&d, batches[i], order, 3, in_round, choose_rounds(15, 5));
            report_batch(&d, batches[i], order);
        }
}

/* --- copies ----------------------------------------------------------------------------------- */

static void receive_first(void *context, const message_set *set)
{
    semel_sqlite *s = context;
    s->expected = SEMEL_PROCESSED;
    semel_sqlite_receive(s, set);
}

static void receive_copies(void *context, const message_set *set)
{
    semel_sqlite *s = context;
    s->expected = SEMEL_DUPLICATE;
    semel_sqlite_receive(s, set);
}

/* The first copies of a round always come first, so here the contenders do not alternate. */
static void race_copies(comparison *d, semel_sqlite *s, key_order order, double *fsyncs)
{
    message_set set = {0};
    key_source keys;
    long synced = 0;
    size_t per_round = transactions(600, 300), copies = 0;
    *d = (comparison){.rounds = choose_rounds(15, 5), .contenders = 2};
    keys_begin(&keys, order);
    for (size_t round = 0; round < d->rounds; round++) {
        progress("first copies and duplicates", round, d->rounds);
        messages_make(&set, &keys, per_round);
        double start = now_s();
        receive_first(s, &set);
        double between = now_s();
        long before = fsync_count();
        receive_copies(s, &set);
        synced += fsync_count() - before;
        copies += set.count;
        d->rate[0][round] = (double)set.count / (between - start);
        d->rate[1][round] = (double)set.count / (now_s() - between);
        comparison_settle(d, round + 1);
        stop_if_asked();
    }
    *fsyncs = (double)synced / (double)copies;
    messages_free(&set);
}

void section_duplicate(void)
{
    report_section("duplicate", "a copy against the first one, one at a time", "first/s", "copy/s");
    for (key_order order = KEYS_IN_TIME_ORDER; order <= KEYS_RANDOM; order++) {
        char path[512], url[600];
        semel_sqlite s;
        comparison d;
        double fsyncs;
        semel_sqlite_open(&s, url_of(url, scratch_path(path, "copies.db")), NULL, 1);
        race_copies(&d, &s, order, &fsyncs);
        semel_sqlite_close(&s);
        scratch_remove("copies.db");
        report_comparison(order_name(order), &d, 1, 0, AT_LEAST(3));
        report_value("       fsyncs", fsyncs, "per copy", AT_MOST(0));
    }
}

/* --- claims ----------------------------------------------------------------------------------- */

typedef struct counted {
    void *context;
    void (*run)(void *context, const message_set *set);
    long fsyncs;
    size_t messages;
} counted;

static void run_counted(void *context, const message_set *set)
{
    counted *c = context;
    long before = fsync_count();
    c->run(c->context, set);
    c->fsyncs += fsync_count() - before;
    c->messages += set->count;
}

static double fsyncs_per_message(const counted *c)
{
    return (double)c->fsyncs / (double)c->messages;
}

static void compare_claims(key_order order)
{
    char path[512], url[600];
    raw_db raw = {.batch = 1};
    semel_sqlite semel;
    comparison d;
    key_source keys;
    semel_inbox_options inbox = {.size = sizeof inbox, .mode = SEMEL_CLAIM};
    raw_open(&raw, scratch_path(path, "raw.db"));
    semel_sqlite_open(&semel, url_of(url, scratch_path(path, "semel.db")), &inbox, 1);
    counted by_hand = {&raw, raw_receive, 0, 0};
    counted by_semel = {&semel, semel_sqlite_receive_idly, 0, 0};
    const contender both[] = {[RAW] = {.context = &by_hand, .run = run_counted},
                              [SEMEL] = {.context = &by_semel, .run = run_counted}};
    keys_begin(&keys, order);
    comparison_run(&d, both, 2, &keys, 1, transactions(600, 300), choose_rounds(15, 5),
                   "claim and complete");
    report_comparison(order_name(order), &d, SEMEL, RAW, NO_AIM);
    report_row("       fsyncs per message, checkpoints included", fsyncs_per_message(&by_hand),
               fsyncs_per_message(&by_semel), spread_unknown(NAN), NO_AIM);
    raw_close(&raw);
    semel_sqlite_close(&semel);
    scratch_remove("raw.db");
    scratch_remove("semel.db");
}

void section_claim(void)
{
    report_section("claim", "claim mode: claim, handler, complete", "raw/s", "semel/s");
    for (key_order order = KEYS_IN_TIME_ORDER; order <= KEYS_RANDOM; order++)
        compare_claims(order);
    report_note(
        "raw is the one transaction above: marker and effect. A claim is two transactions, of");
    report_note("which only the second waits for the disk; the handler does nothing.");
}
