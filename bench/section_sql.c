/* Receiving in SQL (docs/SQL.md): the same loop by hand, once with semel's function and once with a
 * plain INSERT ... ON CONFLICT DO NOTHING (PostgreSQL) or ON DUPLICATE KEY UPDATE (MariaDB) in its
 * place. Each message has a row as its work, and a transaction of its own. MariaDB misses the aim
 * of 0.9 (about 0.7): docs/SQL.md says what its functions cost. */
#include "server.h"

static const size_t connections[] = {1, 4, 8};
enum { COUNTS = sizeof connections / sizeof *connections, BY_HAND = 0, FUNCTION, CONTENDERS };

static const char *const rooms[CONTENDERS] = {"bench_raw", "bench_function"};

static void compare(comparison *out, const server *on, const char *url, size_t workers)
{
    raw_workers loops[CONTENDERS];
    contender contenders[CONTENDERS];
    key_source keys;
    char label[100];
    for (int i = 0; i < CONTENDERS; i++) {
        loops[i] = (raw_workers){.on = on,
                                 .workers = workers,
                                 .batch = 1,
                                 .work = i == FUNCTION ? on->receive_function : on->receive};
        room_make(on, url, rooms[i]);
        raw_workers_open(&loops[i], url, rooms[i]);
        contenders[i] = (contender){.context = &loops[i], .run = raw_workers_run};
    }
    snprintf(label, sizeof label, "%s, SQL function, %zu connections", on->name, workers);
    keys_begin(&keys, KEYS_RANDOM);
    comparison_run(out, contenders, CONTENDERS, &keys, 1,
                   transactions(workers == 1 ? 400 : 1200, workers == 1 ? 100 : 300),
                   choose_rounds(9, 3), label);
    for (int i = 0; i < CONTENDERS; i++) {
        raw_workers_close(&loops[i]);
        room_remove(on, url, rooms[i]);
    }
}

static void measure(const server *on, const char *url)
{
    comparison comparisons[COUNTS];
    char name[100];
    for (size_t i = 0; i < COUNTS; i++)
        compare(&comparisons[i], on, url, connections[i]);
    report_section("sql-receive", server_title(name, on, "semel_receive in SQL"), "by hand/s",
                   "function/s");
    for (size_t i = 0; i < COUNTS; i++) {
        snprintf(name, sizeof name, "%zu connection%s", connections[i],
                 connections[i] == 1 ? " (*)" : "s");
        report_comparison(name, &comparisons[i], FUNCTION, BY_HAND,
                          connections[i] == 1 ? NO_AIM : AT_LEAST(0.9));
    }
}

void section_sql_receive(void)
{
    each_server(measure);
}
