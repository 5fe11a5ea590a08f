/* semel tail: outcomes as they happen. */
#include "program/cli.h"
#include "program/support/nearest.h"
#include "program/watch/follow.h"
#include "program/watch/watching.h"

#include <string.h>

const char tail_help[] =
    "usage: semel tail [--inbox NAME] [--type TYPE] [--outcome OUTCOME] [--key KEY]\n"
    "\n"
    "Prints outcomes as they happen, one per line, of all processes on this host that use the "
    "store,\n"
    "until Ctrl-C. It never slows a process down: if outcomes come faster than they are printed, "
    "some\n"
    "are left out, and tail says how many. Without a running process it prints new dead letters.\n"
    "\n"
    "  --inbox NAME, --type TYPE   exact, or a prefix and *; repeat to match any of several\n"
    "  --outcome OUTCOME           processed, duplicate, replayed, failed, dead, mismatch, stale,\n"
    "                              'missing key'\n"
    "  --key KEY                   exact; text, hex:, base64: (semel help keys)\n"
    "  --json                      one JSON object per outcome\n"
    "\n"
    "Common options: semel help common. Exit status: 0, 2 called wrongly, 4 no such inbox, 75 "
    "store\n"
    "unreachable, 130 stopped by Ctrl-C.\n";

static int check_outcome(const char *word)
{
    nearest meant = {.typed = word ? word : ""};
    for (int i = SEMEL_PROCESSED; word && i <= SEMEL_DEAD; i++) {
        const char *name = semel_outcome_name((semel_outcome)i);
        if (i == SEMEL_IN_PROGRESS)
            continue;
        if (strcmp(name, word) == 0)
            return CLI_OK;
        nearest_offer(&meant, name);
    }
    if (!word)
        return CLI_OK;
    return meant.name ? cli_usage("tail", "--outcome: unknown word \"%s\"; did you mean \"%s\"?",
                                  word, meant.name)
                      : cli_usage("tail", "--outcome: unknown word \"%s\"", word);
}

static int show_tail(tool *t, const filter_options *given)
{
    filters wanted = {0};
    int status = filters_read(&wanted, t, given);
    if (!status)
        status = watching_check_inboxes(t, &given->inboxes);
    if (!status)
        status = follow(t, &wanted);
    filters_free(&wanted);
    return status;
}

int cmd_tail(int argc, char **argv)
{
    static tool_options given;
    static filter_options filter;
    static argument_list rest;
    const argument_option options[] = {TOOL_OPTIONS(&given), FILTER_INBOX(&filter),
                                       FILTER_TYPE(&filter), FILTER_OUTCOME(&filter),
                                       FILTER_KEY(&filter),  {0}};
    tool t = {0};
    int status = arguments_read("tail", argc, argv, options, &rest);
    if (!status && rest.count)
        status = cli_usage("tail", "it takes options only, and there is \"%s\"", rest.items[0]);
    if (!status)
        status = check_outcome(filter.outcome);
    if (status)
        return status;
    watching_use_zone(&given);
    status = tool_open(&t, "tail", &given);
    if (!status)
        status = show_tail(&t, &filter);
    tool_close(&t);
    return status;
}
