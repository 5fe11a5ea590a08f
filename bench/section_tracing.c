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
                      "  bench: { url: store, workers: 1 }\n"
                      "inboxes:\n"
                      "  bench:\n"
                      "    from: bench\n"
                      "    sql: \"INSERT INTO %s (body) VALUES (:body)\"\n"
                      "%s",
                      side->stage.url, side->stage.effect, tracing);
}

static void measure(const server *on, const char *url)
{
    static program_side programs[CONTENDERS];
    static const char *const names[] = {"bench_untraced", "bench_traced", "bench_all"};
    static const char *const samples[] = {NULL, "0.01", "1"};
    run_side sides[CONTENDERS];
    run_comparison d = {.rates = {.rounds = choose(9, 3), .contenders = CONTENDERS}};
    const size_t messages = choose(40000, 20000);
    http_sink collector;
    http_sink_open(&collector);
    for (size_t i = 0; i < CONTENDERS; i++) {
        stage_open(&programs[i].stage, on, url, names[i]);
        configure(&programs[i], collector.url, samples[i]);
        sides[i] = (run_side){program_turn, &programs[i]};
    }
    run_rounds(&d, sides, messages, "semel run, traced");
    report_comparison("sampled: 1 %", &d.rates, HUNDREDTH, WITHOUT, AT_LEAST(0.98));
    run_report_cost(&d, HUNDREDTH, WITHOUT);
    report_comparison("sampled: all", &d.rates, ALL, WITHOUT, NO_AIM);
    run_report_cost(&d, ALL, WITHOUT);
    for (size_t i = 0; i < CONTENDERS; i++) {
        stage_check_effects(&programs[i].stage, messages * (d.rates.rounds + 1));
        stage_close(&programs[i].stage);
    }
}

void section_tracing(void)
{
    report_section("tracing", "SQLite: semel run with tracing", "without/s", "with/s");
    measure(NULL, NULL);
}
