/* `semel run` with the history of deliveries and without it: first messages and copies.
 *
 * Both sides consume the same messages with a sql handler. A turn of copies fills the queue with
 * messages that the side has handled in this round before. The history is as large as it is by
 * default, so that it is trimmed, too. */
#include "run.h"

#include <string.h>

enum { WITHOUT, WITH, CONTENDERS };

static void configure(program_side *side, const char *more)
{
    char file[100];
    snprintf(file, sizeof file, "%s.yaml", side->stage.name);
    program_configure(&side->program, file,
                      "version: 1\n"
                      "store: \"%s\"\n"
                      "queues:\n"
                      "  bench: { url: store, workers: 4 }\n"
                      "inboxes:\n"
                      "  bench:\n"
                      "    from: bench\n"
                      "    sql: \"INSERT INTO %s (body) VALUES (:body)\"\n"
                      "%s",
                      side->stage.url, side->stage.effect, more);
}

static run_figure copies_turn(void *side, const message_set *set)
{
    (void)program_turn(side, set);
    return program_turn(side, set);
}

static void measure_turns(const server *on, const char *url, const char *name,
                          run_figure (*turn)(void *, const message_set *), bench_aim wanted)
{
    static program_side sides[CONTENDERS];
    run_comparison d = {.rates = {.rounds = choose_rounds(7, 3), .contenders = CONTENDERS}};
    const size_t messages = choose(40000, 20000);
    const run_side turns[CONTENDERS] = {{turn, &sides[WITHOUT]}, {turn, &sides[WITH]}};
    memset(sides, 0, sizeof sides);
    stage_open(&sides[WITHOUT].stage, on, url, "bench_without");
    stage_open(&sides[WITH].stage, on, url, "bench_with");
    configure(&sides[WITHOUT], "history: false\n");
    configure(&sides[WITH], "");
    run_rounds(&d, turns, messages, name);
    report_comparison(name, &d.rates, WITH, WITHOUT, wanted);
    run_report_cost(&d, WITH, WITHOUT);
    for (size_t i = 0; i < CONTENDERS; i++) {
        stage_check_effects(&sides[i].stage, messages * (d.rates.rounds + 1));
        stage_close(&sides[i].stage);
    }
}

static void measure_both(const server *on, const char *url)
{
    measure_turns(on, url, "first messages", program_turn, NO_AIM);
    measure_turns(on, url, "copies", copies_turn, AT_LEAST(0.9));
}

static void measure_server(const server *on, const char *url)
{
    char title[100];
    report_section("history", server_title(title, on, "semel run with a history"), "without/s",
                   "with/s");
    measure_both(on, url);
}

void section_history(void)
{
    report_section("history", "SQLite: semel run with a history", "without/s", "with/s");
    measure_both(NULL, NULL);
    one_server("postgres", measure_server);
}
