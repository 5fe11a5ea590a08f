/* semel stats: what the running processes have counted since they started. */
#include "program/cli.h"
#include "program/operate/table.h"
#include "program/support/show.h"
#include "program/watch/watching.h"

#include <stdio.h>

const char stats_help[] =
    "usage: semel stats [--inbox NAME]...\n"
    "\n"
    "Prints what the running processes have counted since they started, for each inbox. Without a\n"
    "running process it prints what the store knows: the dead letters.\n"
    "\n"
    "  --inbox NAME        exact, or a prefix and *; repeat to match any of several\n"
    "  --json              one JSON object per inbox\n"
    "\n"
    "Common options: semel help common. Exit status: 0, 4 no such inbox, 75 store unreachable.\n";

static const table_column columns[] = {{"INBOX", "inbox", 0, 0},
                                       {"PROCESSED", "processed", 1, 0},
                                       {"DUPLICATES", "duplicates", 1, 0},
                                       {"FAILED", "failed", 1, 0},
                                       {"DEAD", "dead", 1, 0},
                                       {"STALE", "stale", 1, 0},
                                       {"MISMATCH", "mismatched", 1, 0},
                                       {"NO KEY", "missing_key", 1, 0},
                                       {NULL, "since", 0, 0},
                                       {0}};

/* The columns are in the order of the counters. Without a process the letters of the store stand
 * for those that processes counted. */
static void print_inboxes(const tool *t, const view *v)
{
    table rows = {.columns = columns, .json = t->options->json, .utc = t->options->utc};
    for (size_t i = 0; i < v->inbox_count; i++) {
        const inbox_view *inbox = &v->inboxes[i];
        table_text(&rows, inbox->name);
        for (size_t k = 0; k < METER_OTHERS; k++)
            table_number(&rows, inbox->has_counters                ? (int64_t)inbox->counts[k]
                                : k == METER_DEAD && !v->processes ? inbox->dead
                                                                   : -1);
        table_moment(&rows, inbox->has_counters ? v->since_ms : 0);
        table_end_row(&rows);
    }
    table_print(&rows, stdout);
}

static void say_since(const tool *t, const view *v)
{
    buffer since = {0};
    show_moment(&since, v->since_ms);
    tool_say(t, "since %s, %zu process%s%s%s%s", since.data, v->processes,
             v->processes == 1 ? "" : "es", v->unreachable ? "; as of its last report: " : "",
             v->others, "");
    buffer_free(&since);
}

static int show_stats(tool *t, const argument_list *inboxes)
{
    view v;
    int status = watching_check_inboxes(t, inboxes);
    if (status)
        return status;
    view_read(&v, t, inboxes, 0);
    if (v.trouble.status) {
        status = tool_failed(t, &v.trouble);
    } else {
        if (!v.processes)
            watching_say_none(t);
        print_inboxes(t, &v);
        (void)fflush(stdout);
        if (v.processes && !t->options->json)
            say_since(t, &v);
    }
    view_free(&v);
    return status;
}

int cmd_stats(int argc, char **argv)
{
    static tool_options given;
    static filter_options filter;
    static argument_list rest;
    const argument_option options[] = {TOOL_OPTIONS(&given), FILTER_INBOX(&filter), {0}};
    tool t = {0};
    int status = arguments_read("stats", argc, argv, options, &rest);
    if (!status && rest.count)
        status = cli_usage("stats", "it takes options only, and there is \"%s\"", rest.items[0]);
    if (status)
        return status;
    watching_use_zone(&given);
    status = tool_open(&t, "stats", &given);
    if (!status)
        status = show_stats(&t, &filter.inboxes);
    tool_close(&t);
    return status;
}
