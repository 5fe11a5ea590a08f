/* The memory store against a bare hash set, what a key costs there, and what the receive path allocates. */
#include "base/mem.h"
#include "bench.h"

#include <malloc.h>
#include <math.h>
#include <string.h>

typedef struct memory_side {
    subject subject;
    const semel_inbox_options *options;
    size_t batch;
    double bytes; /* allocated by a full store, at the last round */
    size_t allocated_before;
} memory_side;

typedef struct set_side {
    key_set *set;
} set_side;

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* --- first copies ---------------------------------------------------------------------------------------- */

static void open_memory(void *context)
{
    memory_side *side = context;
    side->allocated_before = allocated();
    subject_open(&side->subject, "memory:", side->options, side->batch);
}

static void fill_memory(void *context, const message_set *set)
{
    memory_side *side = context;
    subject_receive_idly(&side->subject, set);
}

static void close_memory(void *context, const message_set *set)
{
    memory_side *side = context;
    (void)set;
    side->bytes = (double)(allocated() - side->allocated_before);
    subject_close(&side->subject);
}

static void open_set(void *context)
{
    set_side *side = context;
    side->set = key_set_new();
}

static void fill_set(void *context, const message_set *set)
{
    set_side *side = context;
    for (size_t i = 0; i < set->count; i++)
        if (!key_set_add(side->set, set->pointers[i]->id.data, set->pointers[i]->id.len))
            die("the set has a key twice");
}

static void close_set(void *context, const message_set *set)
{
    set_side *side = context;
    (void)set;
    key_set_free(side->set);
}

/* --- copies ------------------------------------------------------------------------------------------------ */

static void look_up_set(void *context, const message_set *set)
{
    set_side *side = context;
    for (size_t i = 0; i < set->count; i++)
        if (key_set_add(side->set, set->pointers[i]->id.data, set->pointers[i]->id.len))
            die("the set has lost a key");
}

/* --- the section --------------------------------------------------------------------------------------------- */

static double ns(spread rate)
{
    return 1e9 / rate.median;
}

/* Costs, so that the ratio is semel's time by the set's. */
static void report_costs(const char *name, const duel *d, size_t who, size_t against, bench_aim aim)
{
    report_row(name, ns(duel_rate(d, against)), ns(duel_rate(d, who)), duel_ratio(d, against, who),
               aim);
}

enum { SET, DEFAULTS, KEY_ONLY, BATCH };

static void report_first_copies(size_t keys_count)
{
    static const semel_inbox_options key_only = {.size = sizeof key_only,
                                                 .on_mismatch = SEMEL_MISMATCH_IGNORE,
                                                 .age = SEMEL_AGE_IGNORE};
    set_side set;
    memory_side defaults = {.batch = 1};
    memory_side plain = {.batch = 1, .options = &key_only};
    memory_side batch = {.batch = 100};
    const contender all[] = {[SET] = {&set, fill_set, open_set, close_set},
                             [DEFAULTS] = {&defaults, fill_memory, open_memory, close_memory},
                             [KEY_ONLY] = {&plain, fill_memory, open_memory, close_memory},
                             [BATCH] = {&batch, fill_memory, open_memory, close_memory}};
    duel d;
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    duel_run(&d, all, 4, &keys, keys_count, choose(9, 5), "filling the memory store");
    report_costs("first copy, receive", &d, DEFAULTS, SET, AT_MOST(1.5));
    report_costs("       without fingerprint and age", &d, KEY_ONLY, SET, NO_AIM);
    report_costs("       batches of 100", &d, BATCH, SET, NO_AIM);
    report_value("bytes for a live key of 36 bytes", defaults.bytes / (double)keys_count, "bytes",
                 NO_AIM);
}

static void report_copies(size_t keys_count)
{
    subject s;
    set_side set;
    duel d = {.rounds = choose(9, 5), .contenders = 2};
    message_set messages = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    messages_make(&messages, &keys, keys_count);
    subject_open(&s, "memory:", NULL, 1);
    open_set(&set);
    subject_receive_idly(&s, &messages);
    fill_set(&set, &messages);
    messages_shuffle(&messages);
    s.expected = SEMEL_DUPLICATE;
    for (size_t round = 0; round < d.rounds; round++) {
        progress("copies in the memory store", round, d.rounds);
        double start = now_s();
        look_up_set(&set, &messages);
        double between = now_s();
        subject_receive_idly(&s, &messages);
        d.rate[SET][round] = (double)keys_count / (between - start);
        d.rate[DEFAULTS][round] = (double)keys_count / (now_s() - between);
        stop_if_asked();
    }
    report_costs("copy, in random order", &d, DEFAULTS, SET, NO_AIM);
    close_set(&set, NULL);
    subject_close(&s);
    messages_free(&messages);
}

void section_memory(void)
{
    size_t keys_count = choose(1000000, 300000);
    char title[100];
    snprintf(title, sizeof title, "memory store, from empty to %zu keys", keys_count);
    report_section("memory", title, "set, ns", "semel, ns");
    report_first_copies(keys_count);
    report_copies(keys_count);
    report_note("the set is a bare one: the same SipHash and keys, no lock, clock, state or undo. Here the");
    report_note("ratio is of times, semel by set.");
}

/* --- allocations -------------------------------------------------------------------------------------------- */

enum { WARM_UP = 2000, COUNTED = 2000 };

/* A store that grows must allocate now and then for its keys, so the steady state is one that was full
 * before: the keys were there, were swept, and others come. */
static double allocations_of(subject *s, const message_set *set)
{
    long before = mem_allocations();
    subject_receive_idly(s, set);
    return (double)(mem_allocations() - before) / (double)set->count;
}

static void sweep_all(subject *s)
{
    semel_error err;
    size_t swept;
    int more = 1;
    while (more)
        must(semel_inbox_sweep(&swept, &more, s->inbox, 0, &err), &err);
}

static void report_allocations(const char *url, const char *name, size_t batch)
{
    static const semel_inbox_options forgetful = {.size = sizeof forgetful,
                                                  .retention_ms = SEMEL_RETENTION_NONE,
                                                  .age = SEMEL_AGE_IGNORE};
    char row[100];
    subject s;
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    messages_make(&set, &keys, WARM_UP);
    subject_open(&s, url, &forgetful, batch);
    subject_receive_idly(&s, &set);
    sweep_all(&s);
    messages_make(&set, &keys, COUNTED);
    long sqlite_before = sqlite_allocations();
    double first = allocations_of(&s, &set);
    double sqlites = (double)(sqlite_allocations() - sqlite_before) / COUNTED;
    s.expected = SEMEL_DUPLICATE;
    double copy = allocations_of(&s, &set);
    snprintf(row, sizeof row, "%s, %s, first copy", name, batch > 1 ? "batches of 100" : "one by one");
    report_value(row, first, "per message", batch > 1 ? NO_AIM : AT_MOST(0));
    snprintf(row, sizeof row, "%s, %s, copy", name, batch > 1 ? "batches of 100" : "one by one");
    report_value(row, copy, "per message", batch > 1 ? NO_AIM : AT_MOST(0));
    if (sqlites > 0)
        report_value("       SQLite's own, first copies", sqlites, "per message", NO_AIM);
    subject_close(&s);
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
