/* A store with a full queue. How much of it is left is asked for over a connection of its own, in
 * the same way for all contenders, and not often enough to be in their way. */
#include "run.h"

#include <semel/queue.h>
#include <string.h>
#include <time.h>

enum { FILL = 500, PATIENCE_S = 120, LOOK_MS = 10 };

static void open_sqlite(stage *s)
{
    char path[512];
    snprintf(s->url, sizeof s->url, "sqlite:%s", scratch_path(path, s->name));
    snprintf(s->effect, sizeof s->effect, "effect");
    snprintf(s->left_sql, sizeof s->left_sql, "SELECT count(*) FROM semel_outbox");
    must_sqlite(sqlite3_open(path, &s->db), s->db);
    must_sqlite(sqlite3_exec(s->db, EFFECT_TABLE, NULL, NULL, NULL), s->db);
}

static void open_server(stage *s)
{
    char with_room[1024], table[100];
    room_make(s->on, s->server_url, s->name);
    snprintf(s->url, sizeof s->url, "%s", room_url(with_room, s->on, s->server_url, s->name));
    room_table(s->effect, s->on, s->name, "effect");
    snprintf(s->left_sql, sizeof s->left_sql, "SELECT count(*) FROM %s",
             room_semel_table(table, s->on, s->name, "outbox"));
    s->connection = s->on->open(s->server_url, NULL);
}

void stage_open(stage *s, const server *on, const char *server_url, const char *name)
{
    semel_error err;
    semel_store *store;
    *s = (stage){.on = on, .server_url = server_url, .name = name};
    if (on)
        open_server(s);
    else
        open_sqlite(s);
    must(semel_store_open(&store, s->url, NULL, &err), &err);
    must(semel_store_migrate(store, &err), &err);
    semel_store_close(store);
}

void stage_close(stage *s)
{
    if (s->on) {
        s->on->close(s->connection);
        room_remove(s->on, s->server_url, s->name);
    } else {
        sqlite3_close(s->db);
        scratch_remove(s->name);
    }
}

static int64_t number(stage *s, const char *sql)
{
    return s->on ? s->on->number(s->connection, sql) : raw_number(s->db, sql);
}

void stage_fill(stage *s, const message_set *set)
{
    semel_publish_result results[FILL];
    semel_store *store;
    semel_transport *queue;
    semel_error err;
    must(semel_store_open(&store, s->url, NULL, &err), &err);
    must(semel_queue_open(&queue, store, "bench", NULL, &err), &err);
    for (size_t done = 0, some; done < set->count; done += some) {
        some = set->count - done < FILL ? set->count - done : FILL;
        must(semel_transport_publish(results, queue, set->pointers + done, some, 0, &err), &err);
    }
    semel_transport_close(queue);
    semel_store_close(store);
}

/* How many are left, once at most so many are. */
static size_t wait_for(stage *s, size_t at_most, program *by)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    double end = now_s() + PATIENCE_S;
    for (;;) {
        size_t left = (size_t)number(s, s->left_sql);
        if (left <= at_most)
            return left;
        program_watch(by);
        stop_if_asked();
        if (now_s() > end)
            die("%zu messages are still in the queue", left);
        nanosleep(&pause, NULL);
    }
}

run_figure stage_measure(stage *s, size_t filled, program *by)
{
    size_t left = wait_for(s, filled - filled / 5, by);
    double start = now_s(), cpu = program_cpu_s(by);
    if (!left)
        die("%zu messages are too few to be timed", filled);
    (void)wait_for(s, 0, by);
    return (run_figure){.rate = (double)left / (now_s() - start),
                        .cpu_us = (program_cpu_s(by) - cpu) * 1e6 / (double)left};
}

static void check_number(stage *s, const char *sql, size_t expected)
{
    int64_t found = number(s, sql);
    if (found != (int64_t)expected)
        die("%s: %lld of %zu", sql, (long long)found, expected);
}

void stage_check_effects(stage *s, size_t expected)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", s->effect);
    check_number(s, sql, expected);
}

void stage_check_completed(stage *s, size_t expected)
{
    char sql[200], table[100] = "semel_marker";
    if (s->on)
        room_semel_table(table, s->on, s->name, "marker");
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE state = 0", table);
    check_number(s, sql, expected);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void keep_figure(run_comparison *d, size_t which, size_t round, run_figure figure)
{
    d->rates.rate[which][round] = figure.rate;
    d->costs.rate[which][round] = figure.cpu_us > 0 ? 1e6 / figure.cpu_us : 0;
}

void run_rounds(run_comparison *d, const run_side sides[], size_t messages, const char *label)
{
    message_set set = {0};
    key_source keys;
    size_t contenders = d->costs.contenders = d->rates.contenders;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round <= d->rates.rounds; round++) {
        progress(label, round, d->rates.rounds + 1);
        messages_make(&set, &keys, messages);
        for (size_t i = 0; i < contenders; i++) {
            size_t which = round % 2 ? contenders - 1 - i : i;
            run_figure figure = sides[which].turn(sides[which].context, &set);
            if (round)
                keep_figure(d, which, round - 1, figure);
            stop_if_asked();
        }
        comparison_settle(&d->rates, round);
    }
    d->costs.rounds = d->rates.rounds;
    progress_clear();
    messages_free(&set);
}

void run_report_cost(const run_comparison *d, size_t which, size_t against)
{
    report_row("    processor time, us a message", 1e6 / comparison_rate(&d->costs, against).median,
               1e6 / comparison_rate(&d->costs, which).median,
               comparison_ratio(&d->costs, which, against), NO_AIM);
}

comparison run_slower(const comparison *d, size_t kept, size_t other)
{
    comparison slower = *d;
    for (size_t i = 0; i < d->rounds; i++)
        if (d->rate[other][i] < d->rate[kept][i])
            slower.rate[kept][i] = d->rate[other][i];
    return slower;
}
