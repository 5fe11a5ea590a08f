/* `semel run` with handlers outside of it, which it calls in claim mode: warm workers and http.
 *
 * The program cannot be faster than either of its halves: the library in claim mode with a handler
 * that does nothing, and the bare calls with nothing around them. What it is measured against is
 * the slower of the two, round by round. All have four threads, and four processes or
 * connections. */
#include "run.h"

enum { CLAIM, CALLS, PROGRAM, CONTENDERS };

typedef struct kind {
    const char *section, *title, *label, *calls;
    run_side bare;
    char handler[600]; /* of the configuration */
} kind;

static void configure(program_side *side, const char *handler)
{
    program_configure(&side->program, "bench_calls.yaml",
                      "version: 1\n"
                      "store: \"%s\"\n"
                      "queues:\n"
                      "  bench: { url: store, workers: %d }\n"
                      "inboxes:\n"
                      "  bench:\n"
                      "    from: bench\n"
                      "    %s\n",
                      side->stage.url, RUN_PROCESSES, handler);
}

static void report_calls(const run_comparison *d, const kind *k)
{
    char name[100];
    comparison slower = run_slower(&d->rates, CLAIM, CALLS);
    snprintf(name, sizeof name, "%s, by the slower of these", k->label);
    report_comparison(name, &slower, PROGRAM, CLAIM, AT_LEAST(0.8));
    report_comparison("  by claim mode, an empty handler", &d->rates, PROGRAM, CLAIM, NO_AIM);
    run_report_cost(d, PROGRAM, CLAIM);
    report_comparison(k->calls, &d->rates, PROGRAM, CALLS, NO_AIM);
}

static void measure(const server *on, const char *url, const kind *k)
{
    static library_side claim;
    static program_side whole;
    run_comparison d = {.rates = {.rounds = choose_rounds(7, 3), .contenders = CONTENDERS}};
    const run_side sides[CONTENDERS] = {
        [CLAIM] = {library_turn, &claim}, [CALLS] = k->bare, [PROGRAM] = {program_turn, &whole}};
    const size_t messages = choose(10000, 4000);
    claim = (library_side){.mode = SEMEL_CLAIM, .workers = RUN_PROCESSES};
    stage_open(&claim.stage, on, url, "bench_claim");
    stage_open(&whole.stage, on, url, "bench_calls");
    configure(&whole, k->handler);
    run_rounds(&d, sides, messages, k->section);
    report_calls(&d, k);
    stage_check_completed(&claim.stage, messages * (d.rates.rounds + 1));
    stage_check_completed(&whole.stage, messages * (d.rates.rounds + 1));
    stage_close(&claim.stage);
    stage_close(&whole.stage);
}

static const kind *on_server; /* of the section that is running */

static void measure_server(const server *on, const char *url)
{
    char title[100];
    report_section(on_server->section, server_title(title, on, on_server->title), "reference/s",
                   "program/s");
    measure(on, url, on_server);
}

static void measure_all(const kind *k)
{
    char title[100];
    snprintf(title, sizeof title, "SQLite: %s", k->title);
    report_section(k->section, title, "reference/s", "program/s");
    measure(NULL, NULL, k);
    on_server = k;
    one_server("postgres", measure_server);
}

void section_run_worker(void)
{
    static echo_process processes[RUN_PROCESSES];
    char path[512];
    kind k = {"run-worker",
              "semel run, warm workers",
              "4 workers",
              "  by a bare loop over pipes",
              {echo_turn, processes},
              ""};
    snprintf(k.handler, sizeof k.handler, "worker: { command: [\"%s\", %s], processes: %d }",
             program_path(path, "semel-bench"), ECHO_ARGUMENT, RUN_PROCESSES);
    echo_start(processes);
    measure_all(&k);
    echo_stop(processes);
}

void section_run_http(void)
{
    static http_sink sink;
    kind k = {"run-http",
              "semel run, http",
              "4 connections",
              "  by a bare loop of libcurl",
              {http_sink_turn, &sink},
              ""};
    http_sink_open(&sink);
    snprintf(k.handler, sizeof k.handler, "http: { url: \"%s\" }", sink.url);
    measure_all(&k);
}
