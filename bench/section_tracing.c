/* What tracing costs `semel run`: the same queue and the same sql handler without tracing, with a
 * hundredth of the traces sampled, and with all of them. The collector is a server that takes every
 * request and does nothing, in the process of the benchmark: what it costs is not counted as
 * processor time of the program, but takes a share of the machine. */
#include "run.h"

#include <stdio.h>

enum { WITHOUT, HUNDREDTH, ALL, CONTENDERS };

static void configure(program_side *side, const char *collector, const char *sample)
{
    char file[100], tracing[200] = "";
    snprintf(file, sizeof file, "%s.yaml", side->stage.name);
    if (sample)
        snprintf(tracing, sizeof tracing, "tracing: { endpoint: \"%s\", sample: %s }\n", collector,
                 sample);
    program_configure(&side->program, file,
                      "version: 1\n"
                      "store: \"%s\"\n"
                      "queues:\n"
                      "  bench: { url: store, workers: 1, batch: 100 }\n"
                      "inboxes:\n"
                      "  bench:\n"
                      "    from: bench\n"
                      "    sql: \"INSERT INTO %s (body) VALUES (:body)\"\n"
                      "%s",
                      side->stage.url, side->stage.effect, tracing);
}

void section_tracing(void)
{
    static program_side programs[CONTENDERS];
    static const char *const names[] = {"bench_untraced", "bench_traced", "bench_all"};
    static const char *const samples[] = {NULL, "0.01", "1"};
    slice_side sides[CONTENDERS];
    comparison d = {.rounds = choose_rounds(ROUNDS_MAX, 10),
                    .contenders = CONTENDERS,
                    .tolerance = 0.004,
                    .seconds = 35};
    http_sink collector;
    report_section("tracing", "SQLite: semel run with tracing, by processor time", "without/s",
                   "with/s");
    http_sink_open(&collector);
    for (size_t i = 0; i < CONTENDERS; i++) {
        stage_open(&programs[i].stage, NULL, NULL, names[i]);
        configure(&programs[i], collector.url, samples[i]);
        sides[i] = (slice_side){.of = &programs[i]};
    }
    run_slices(&d, sides, choose(300000, 150000), "semel run, traced");
    report_comparison("sampled: 1 %", &d, HUNDREDTH, WITHOUT, AT_LEAST(0.98));
    report_comparison("sampled: all", &d, ALL, WITHOUT, NO_AIM);
    for (size_t i = 0; i < CONTENDERS; i++)
        stage_close(&programs[i].stage);
}
