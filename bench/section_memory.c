/* The memory store against a bare hash set, what a key costs there, and what the receive path
 * allocates. */
#include "base/mem.h"
#include "bench.h"
#include "core/store.h"

#include <malloc.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { CHUNK = 1000, SIDES_MAX = 5, UNIT_ROOM = 4096 };
_Static_assert((int)SIDES_MAX <= (int)CONTENDERS_MAX, "a comparison has room for all of them");

typedef struct side {
    const char *row; /* NULL: the bare set */
    int store_alone; /* the driver's begin, mark, commit, without the inbox around them */
    const semel_inbox_options *options; /* else: of the inbox */
    size_t batch;
    bench_aim aim;
    semel_sqlite semel_sqlite;
    hashset *set;
    double bytes; /* allocated when it was full */
} side;

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void side_open(side *s)
{
    if (s->row)
        semel_sqlite_open(&s->semel_sqlite, "memory:", s->options, s->batch);
    else
        s->set = hashset_new();
    if (s->store_alone && s->semel_sqlite.store->driver->unit_size > UNIT_ROOM)
        die("UNIT_ROOM is too small");
}

static void side_close(side *s)
{
    if (s->row)
        semel_sqlite_close(&s->semel_sqlite);
    else
        hashset_free(s->set);
}

static void mark_alone(const semel_sqlite *s, const message_set *set, semel_mark_state expected)
{
    static _Alignas(max_align_t) unsigned char unit[UNIT_ROOM];
    const semel_store_driver *driver = s->store->driver;
    semel_error err;
    for (size_t i = 0; i < set->count; i++) {
        semel_mark mark = {.inbox = 1, .key = set->pointers[i]->id};
        memset(unit, 0, driver->unit_size);
        must(driver->units->begin(s->store->state, unit, SEMEL_BEGIN_DURABLE, 0, &err), &err);
        must(driver->markers->mark(unit, &mark, 1, 0, &err), &err);
        must(driver->units->commit(unit, &err), &err);
        if (mark.state != expected)
            die("a marker is in state %d and should be in %d", (int)mark.state, (int)expected);
    }
}

/* `new_keys`: what hashset_add() must say of each. */
static void side_receive(side *s, const message_set *set, int new_keys)
{
    if (s->store_alone) {
        mark_alone(&s->semel_sqlite, set, new_keys ? SEMEL_MARK_TAKEN : SEMEL_MARK_DONE);
        return;
    }
    if (s->row) {
        s->semel_sqlite.expected = new_keys ? SEMEL_PROCESSED : SEMEL_DUPLICATE;
        semel_sqlite_receive_idly(&s->semel_sqlite, set);
        return;
    }
    for (size_t i = 0; i < set->count; i++)
        if (hashset_add(s->set, set->pointers[i]->id.data, set->pointers[i]->id.len) != new_keys)
            die("the set has lost a key, or found one");
}

/* This section waits for no disk and no other thread, so it measures the processor's time: other
 * programs on the machine do not count. */
static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Messages are made in small lots outside of the timing, as a consumer meets them: fresh in the
 * cache. */
static double fill(side *s, size_t keys_count)
{
    message_set set = {0};
    key_source keys;
    double took = 0;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t done = 0; done < keys_count; done += CHUNK) {
        messages_make(&set, &keys, CHUNK);
        double start = cpu_s();
        side_receive(s, &set, 1);
        took += cpu_s() - start;
    }
    messages_free(&set);
    return (double)keys_count / took;
}

/* Copies of keys drawn at random from all that are there. */
static double copy(side *s, size_t keys_count)
{
    message_set all = {0}, some = {0};
    key_source keys;
    uint64_t random = 5;
    double took = 0;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    messages_make(&all, &keys, keys_count);
    messages_make(&some, &keys, CHUNK);
    for (size_t done = 0; done < keys_count; done += CHUNK) {
        for (size_t i = 0; i < CHUNK; i++)
            memcpy(some.ids[i], all.ids[next_random(&random) % keys_count], ID_TEXT);
        double start = cpu_s();
        side_receive(s, &some, 0);
        took += cpu_s() - start;
    }
    messages_free(&all);
    messages_free(&some);
    return (double)keys_count / took;
}

/* --- the section ------------------------------------------------------------------------------ */

static double ns(spread rate)
{
    return 1e9 / rate.median;
}

/* Costs, so that the ratio is semel's time by the set's. */
static void report_costs(const char *name, const comparison *d, size_t which, bench_aim aim)
{
    report_row(name, ns(comparison_rate(d, 0)), ns(comparison_rate(d, which)),
               comparison_ratio(d, 0, which), aim);
}

static void run_side(side *s, size_t keys_count, double *first, double *second)
{
    size_t before = allocated();
    side_open(s);
    *first = fill(s, keys_count);
    s->bytes = (double)(allocated() - before) / (double)keys_count;
    *second = copy(s, keys_count);
    side_close(s);
    stop_if_asked();
}

static void compare_contenders(side *sides, size_t count, size_t keys_count, comparison *first,
                               comparison *second)
{
    *first = *second = (comparison){.rounds = choose_rounds(9, 3), .contenders = count};
    for (size_t round = 0; round < first->rounds; round++) {
        for (size_t turn = 0; turn < count; turn++) {
            size_t which = round % 2 ? count - 1 - turn : turn;
            progress("memory store", round * count + turn, first->rounds * count);
            run_side(&sides[which], keys_count, &first->rate[which][round],
                     &second->rate[which][round]);
        }
        comparison_settle(first, round + 1);
    }
    second->rounds = first->rounds;
}

void section_memory(void)
{
    static const semel_inbox_options key_only = {
        .size = sizeof key_only, .on_mismatch = SEMEL_MISMATCH_IGNORE, .age = SEMEL_AGE_IGNORE};
    side sides[SIDES_MAX] = {
        {.row = NULL},
        {.row = "receive", .batch = 1, .aim = AT_MOST(1.5)},
        {.row = "       without fingerprint and age", .batch = 1, .options = &key_only},
        {.row = "       batches of 100", .batch = 100},
        {.row = "the store alone: begin, mark, commit",
         .batch = 1,
         .store_alone = 1,
         .aim = AT_MOST(1.5)}};
    size_t keys_count = choose(1000000, 200000);
    char title[100];
    comparison first, second;
    compare_contenders(sides, SIDES_MAX, keys_count, &first, &second);
    snprintf(title, sizeof title, "memory store, 0 to %zu keys", keys_count);
    report_section("memory", title, "set, ns", "semel, ns");
    for (size_t i = 1; i < SIDES_MAX; i++)
        report_costs(sides[i].row, &first, i, sides[i].aim);
    report_costs("a copy, keys at random", &second, 1, NO_AIM);
    report_row("bytes for a live key of 36", sides[0].bytes, sides[1].bytes,
               spread_unknown(sides[1].bytes / sides[0].bytes), NO_AIM);
    report_note("the set is a bare one: the same SipHash and keys, no lock, clock, state or undo. "
                "Here the");
    report_note("ratio is of times, semel by set.");
}

/* --- allocations ------------------------------------------------------------------------------ */

enum { WARM_UP = 2000, COUNTED = 2000 };

/* A store that grows must allocate now and then for its keys, so the steady state is one that was
 * full before: the keys were there, were swept, and others come. */
static double allocations_of(semel_sqlite *s, const message_set *set)
{
    long before = mem_allocations();
    semel_sqlite_receive_idly(s, set);
    return (double)(mem_allocations() - before) / (double)set->count;
}

static void sweep_all(semel_sqlite *s)
{
    semel_error err;
    size_t swept;
    int more = 1;
    while (more)
        must(semel_inbox_sweep(&swept, &more, s->inbox, 0, &err), &err);
}

static void report_allocations(const char *url, const char *name, size_t batch)
{
    static const semel_inbox_options forgetful = {
        .size = sizeof forgetful, .retention_ms = SEMEL_RETENTION_NONE, .age = SEMEL_AGE_IGNORE};
    char row[100];
    semel_sqlite s;
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    messages_make(&set, &keys, WARM_UP);
    semel_sqlite_open(&s, url, &forgetful, batch);
    semel_sqlite_receive_idly(&s, &set);
    sweep_all(&s);
    messages_make(&set, &keys, COUNTED);
    long sqlite_before = sqlite_allocations();
    double first = allocations_of(&s, &set);
    double sqlites = (double)(sqlite_allocations() - sqlite_before) / COUNTED;
    s.expected = SEMEL_DUPLICATE;
    double copy = allocations_of(&s, &set);
    snprintf(row, sizeof row, "%s, %s, first copy", name,
             batch > 1 ? "batches of 100" : "one by one");
    report_value(row, first, "per message", batch > 1 ? NO_AIM : AT_MOST(0));
    snprintf(row, sizeof row, "%s, %s, copy", name, batch > 1 ? "batches of 100" : "one by one");
    report_value(row, copy, "per message", batch > 1 ? NO_AIM : AT_MOST(0));
    if (sqlites > 0)
        report_value("       SQLite's own, first copies", sqlites, "per message", NO_AIM);
    semel_sqlite_close(&s);
    messages_free(&set);
}

void section_heap(void)
{
    static const size_t batches[] = {1, 100};
    char path[512], url[600];
    snprintf(url, sizeof url, "sqlite:%s", scratch_path(path, "heap.db"));
    report_section("heap", "heap allocations by semel, steady state", "", "");
    for (size_t i = 0; i < 2; i++) {
        report_allocations("memory:", "memory", batches[i]);
        report_allocations(url, "sqlite", batches[i]);
        scratch_remove("heap.db");
    }
}
