/* `semel run` with a sql handler against the library alone, and what the program takes: time to
 * start, memory, disk.
 *
 * Both sides consume a full queue of their store and insert one row for each message in the
 * marker's transaction (queued mode), with the same options. The program also reads its
 * configuration, counts outcomes and takes the values out of the message by their names; once more
 * with a value out of a JSON body, which it parses. */
#include "run.h"

#include <string.h>
#include <sys/stat.h>

enum { LIBRARY, PROGRAM, PROGRAM_JSON, CONTENDERS };

typedef struct pace {
    uint32_t batch, workers; /* batch 0: the default, which adapts */
} pace;

static void configure(program_side *side, pace how, const char *value)
{
    char batch[32] = "", file[100];
    if (how.batch)
        snprintf(batch, sizeof batch, ", batch: %u", how.batch);
    snprintf(file, sizeof file, "%s.yaml", side->stage.name);
    program_configure(&side->program, file,
                      "version: 1\n"
                      "store: \"%s\"\n"
                      "queues:\n"
                      "  bench: { url: store, workers: %u%s }\n"
                      "inboxes:\n"
                      "  bench:\n"
                      "    from: bench\n"
                      "    sql: \"INSERT INTO %s (body) VALUES (%s)\"\n",
                      side->stage.url, how.workers, batch, side->stage.effect, value);
}

static void report_pace(const run_comparison *d, pace how)
{
    char name[100], batch[32] = "default batch";
    if (how.batch)
        snprintf(batch, sizeof batch, "batches of %u", how.batch);
    snprintf(name, sizeof name, "sql, %s, %u worker%s", batch, how.workers,
             how.workers == 1 ? "" : "s");
    report_comparison(name, &d->rates, PROGRAM, LIBRARY, how.batch ? AT_LEAST(0.8) : NO_AIM);
    run_report_cost(d, PROGRAM, LIBRARY);
    report_comparison("  with a value out of JSON", &d->rates, PROGRAM_JSON, LIBRARY, NO_AIM);
    run_report_cost(d, PROGRAM_JSON, LIBRARY);
}

static void measure_pace(const server *on, const char *url, pace how)
{
    static library_side library;
    static program_side programs[2];
    run_comparison d = {.rates = {.rounds = choose_rounds(7, 3), .contenders = CONTENDERS}};
    const size_t messages = choose(40000, 20000);
    const run_side sides[CONTENDERS] = {[LIBRARY] = {library_turn, &library},
                                        [PROGRAM] = {program_turn, &programs[0]},
                                        [PROGRAM_JSON] = {program_turn, &programs[1]}};
    library = (library_side){.mode = SEMEL_QUEUED, .batch = how.batch, .workers = how.workers};
    stage_open(&library.stage, on, url, "bench_library");
    stage_open(&programs[0].stage, on, url, "bench_program");
    stage_open(&programs[1].stage, on, url, "bench_json");
    configure(&programs[0], how, ":body");
    configure(&programs[1], how, ":json/order");
    run_rounds(&d, sides, messages, "semel run, sql");
    report_pace(&d, how);
    stage *stages[] = {&library.stage, &programs[0].stage, &programs[1].stage};
    for (size_t i = 0; i < CONTENDERS; i++) {
        stage_check_effects(stages[i], messages * (d.rates.rounds + 1));
        stage_close(stages[i]);
    }
}

static void measure_server(const server *on, const char *url)
{
    char title[100];
    report_section("run-sql", server_title(title, on, "semel run, sql"), "library/s", "program/s");
    measure_pace(on, url, (pace){100, 1});
    measure_pace(on, url, (pace){0, 1});
    measure_pace(on, url, (pace){0, 4});
}

void section_run_sql(void)
{
    report_section("run-sql", "SQLite: semel run, sql", "library/s", "program/s");
    measure_pace(NULL, NULL, (pace){100, 1});
    measure_pace(NULL, NULL, (pace){0, 1});
    one_server("postgres", measure_server);
}

/* --- what the program takes ------------------------------------------------------------------- */

static void measure_start(program_side *side)
{
    double ready[ROUNDS_MAX], resident[ROUNDS_MAX];
    size_t rounds = choose_rounds(21, 9);
    for (size_t i = 0; i < rounds; i++) {
        progress("start", i, rounds);
        program_start(&side->program);
        program_watch(&side->program);
        ready[i] = side->program.ready_ms;
        resident[i] = side->program.resident_mib;
        program_stop(&side->program);
    }
    report_value("from start until ready", spread_of(ready, rounds).median, "ms", AT_MOST(50));
    report_value("resident when idle", spread_of(resident, rounds).median, "MiB", AT_MOST(16));
}

static void measure_load(program_side *side)
{
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    messages_make(&set, &keys, choose(50000, 10000));
    (void)program_turn(side, &set);
    messages_free(&set);
    report_value("resident under load, at most", side->program.resident_mib, "MiB", NO_AIM);
}

void section_run_start(void)
{
    static program_side side;
    struct stat about;
    char path[512];
    report_section("run-start", "SQLite: what semel run takes", "", "");
    stage_open(&side.stage, NULL, NULL, "bench_start");
    configure(&side, (pace){0, 1}, ":body");
    measure_start(&side);
    measure_load(&side);
    if (stat(program_path(path, "semel"), &about) != 0)
        die("cannot look at %s", path);
    report_value("the program as a file", (double)about.st_size / 1048576, "MiB", NO_AIM);
    stage_close(&side.stage);
}
