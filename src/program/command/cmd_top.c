/* semel top: live activity, on a screen or as blocks of text. */
#include "program/cli.h"
#include "program/watch/screen.h"
#include "program/watch/top.h"
#include "program/watch/watching.h"

const char top_help[] =
    "usage: semel top [--inbox NAME] [--every D] [--plain | --json]\n"
    "\n"
    "Shows rates, durations, dead letters and what waits, of the last minute, and draws it again "
    "every\n"
    "two seconds. Rates and durations come from the running processes, the rest from the store. A "
    "narrow\n"
    "terminal does without P50, P99, IN PROGRESS and DUPL/S, in this order.\n"
    "\n"
    "  --inbox NAME        exact, or a prefix and *; repeat to match any of several\n"
    "  --every D           how often; default: 2s\n"
    "  --plain             print blocks of text instead, as in a pipe: for screen readers\n"
    "  --json              print one JSON object in a line each time instead, until it is stopped\n"
    "\n"
    "Keys: q quit, p pause, s sort, / filter by name, d dead letters, ? help.\n"
    "Common options: semel help common. Exit status: 0, 4 no such inbox, 75 store unreachable, "
    "130\n"
    "stopped by Ctrl-C.\n";

enum { EVERY_DEFAULT_MS = 2000, EVERY_LEAST_MS = 100 };

int cmd_top(int argc, char **argv)
{
    static tool_options given;
    static filter_options filter;
    static argument_list rest;
    static top_options top = {.every_ms = EVERY_DEFAULT_MS};
    const argument_option options[] = {TOOL_OPTIONS(&given),
                                       FILTER_INBOX(&filter),
                                       {"--every", 0, ARGUMENT_PERIOD, &top.every_ms},
                                       {"--plain", 0, ARGUMENT_FLAG, &top.plain},
                                       {0}};
    tool t = {0};
    int status = arguments_read("top", argc, argv, options, &rest);
    if (!status && rest.count)
        status = cli_usage("top", "it takes options only, and there is \"%s\"", rest.items[0]);
    if (!status && top.every_ms < EVERY_LEAST_MS)
        status = cli_usage("top", "--every takes 100ms or more");
    if (status)
        return status;
    top.plain |= given.json || !screen_is_possible();
    top.inboxes = &filter.inboxes;
    watching_use_zone(&given);
    status = tool_open(&t, "top", &given);
    if (!status)
        status = watching_check_inboxes(&t, &filter.inboxes);
    if (!status)
        status = top.plain ? top_print(&t, &top) : top_screen(&t, &top);
    tool_close(&t);
    return status;
}
