/* Copies among new messages on a database server, against the loop by hand, with one transaction
 * for each message. A driver that expects copies, or expects none, gains here or loses: by how
 * many of the messages are copies, by whether they come in runs, and by whether a copy comes
 * while the first one is being handled. */
#include "server.h"

#include <string.h>

typedef enum mix_kind {
    MIX_NEW,    /* no copies */
    MIX_SHARE,  /* of so many messages one is a copy, at random */
    MIX_RUNS,   /* so many copies, then as many new ones */
    MIX_COPIES, /* nothing else */
    MIX_TWICE   /* each message twice in succession: both are handled at the same time */
} mix_kind;

typedef struct mix {
    const char *name;
    mix_kind kind;
    size_t number;
} mix;

static const mix mixes[] = {
    {"no copies", MIX_NEW, 0},
    {"1 copy in 100", MIX_SHARE, 100},
    {"1 copy in 10", MIX_SHARE, 10},
    {"1 copy in 2", MIX_SHARE, 2},
    {"runs of 50", MIX_RUNS, 50},
    {"copies only", MIX_COPIES, 0},
    {"each twice at once", MIX_TWICE, 0},
};

enum { MIXES = sizeof mixes / sizeof *mixes, MIX_WORKERS = 4 };

/* --- the messages ----------------------------------------------------------------------------- */

static int is_copy(const mix *m, size_t index, uint64_t *random)
{
    switch (m->kind) {
    case MIX_SHARE:
        return next_random(random) % m->number == 0;
    case MIX_RUNS:
        return index / m->number % 2 == 0;
    case MIX_COPIES:
        return 1;
    case MIX_TWICE:
        return index % 2 == 1;
    default:
        return 0;
    }
}

/* Copies are of the messages of `handled`, or of the one right before. Returns how many are new. */
static size_t put_copies(message_set *set, const message_set *handled, const mix *m,
                         uint64_t *random)
{
    size_t new_count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (!is_copy(m, i, random))
            new_count++;
        else
            memcpy(set->ids[i], m->kind == MIX_TWICE ? set->ids[i - 1] : handled->ids[i],
                   sizeof set->ids[i]);
    return new_count;
}

/* --- the rounds ------------------------------------------------------------------------------- */

enum { M_RAW, M_SEMEL, M_QUEUED, M_COUNT };

static const char *const names[M_COUNT] = {"bench_raw", "bench_semel", "bench_queued"};

/* The round with number 0 handles the messages that the others have copies of. Returns how many
 * are new. */
static size_t run_rounds(comparison *out, const contender contenders[M_COUNT], const mix *m,
                         const char *label)
{
    message_set handled = {0}, set = {0};
    key_source keys;
    uint64_t random = 1;
    size_t count = transactions(1200, 300), new_count = count;
    *out = (comparison){.rounds = choose_rounds(9, 3), .contenders = M_COUNT};
    keys_begin(&keys, KEYS_RANDOM);
    messages_make(&handled, &keys, count);
    comparison_round(out, 0, contenders, &handled, count);
    for (size_t round = 1; round <= out->rounds; round++) {
        progress(label, round, out->rounds);
        messages_make(&set, &keys, count);
        new_count += put_copies(&set, &handled, m, &random);
        comparison_round(out, round, contenders, &set, count / 10);
        comparison_settle(out, round);
    }
    progress_clear();
    messages_free(&handled);
    messages_free(&set);
    return new_count;
}

/* Each message had one effect, with every contender. */
static void check_effects(const server *on, const char *url, size_t expected)
{
    raw_connection *c = on->open(url, NULL);
    for (size_t i = 0; i < M_COUNT; i++) {
        char table[100], sql[SQL_TEXT];
        snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM %s",
                 room_table(table, on, names[i], "effect"));
        int64_t found = on->number(c, sql);
        if (found != (int64_t)expected)
            die("%s has %lld rows and should have %zu", table, (long long)found, expected);
    }
    on->close(c);
}

static void compare_mix(comparison *out, const server *on, const char *url, const mix *m)
{
    raw_workers raw = {.on = on, .workers = MIX_WORKERS, .batch = 1, .work = on->receive};
    semel_server semel = {.on = on, .workers = MIX_WORKERS, .batch = 1, .mixed = 1};
    semel_server queued = semel;
    char label[100];
    const contender contenders[M_COUNT] = {
        [M_RAW] = {.context = &raw, .run = raw_workers_run},
        [M_SEMEL] = {.context = &semel, .run = semel_server_receive},
        [M_QUEUED] = {.context = &queued, .run = semel_server_receive}};
    queued.mode = SEMEL_QUEUED;
    queued.queues = 1;
    for (size_t i = 0; i < M_COUNT; i++)
        room_make(on, url, names[i]);
    raw_workers_open(&raw, url, names[M_RAW]);
    semel_server_open(&semel, url, names[M_SEMEL]);
    semel_server_open(&queued, url, names[M_QUEUED]);
    snprintf(label, sizeof label, "%s, %s", on->name, m->name);
    size_t expected = run_rounds(out, contenders, m, label);
    raw_workers_close(&raw);
    semel_server_close(&semel);
    semel_server_close(&queued);
    check_effects(on, url, expected);
    for (size_t i = 0; i < M_COUNT; i++)
        room_remove(on, url, names[i]);
}

static void measure_mix(const server *on, const char *url)
{
    static comparison comparisons[MIXES];
    char title[100];
    for (size_t i = 0; i < MIXES; i++)
        compare_mix(&comparisons[i], on, url, &mixes[i]);
    report_section("server-mix", server_title(title, on, "copies among new, 4 connections"),
                   "raw/s", "semel/s");
    for (size_t i = 0; i < MIXES; i++)
        report_comparison(mixes[i].name, &comparisons[i], M_SEMEL, M_RAW, NO_AIM);
    report_section("server-mix", server_title(title, on, "copies among new, queued"), "raw/s",
                   "queued/s");
    for (size_t i = 0; i < MIXES; i++)
        report_comparison(mixes[i].name, &comparisons[i], M_QUEUED, M_RAW, NO_AIM);
}

void section_server_mix(void)
{
    each_server(measure_mix);
}
