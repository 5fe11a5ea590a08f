/* semel run: receives, handles, relays and sweeps until it is stopped. */
#include "program/cli.h"
#include "program/command/common.h"
#include "program/config/definition.h"
#include "program/run/service.h"
#include "program/support/show.h"

#include <stdio.h>

const char run_help[] =
    "usage: semel run [OPTION...]\n"
    "\n"
    "Receives, handles, relays and sweeps as the configuration says, until it is stopped. SIGTERM "
    "and\n"
    "Ctrl-C finish the work in progress, for at most `drain`; a second one stops at once, safely.\n"
    "SIGHUP reads the configuration again and keeps the old one if the new one is wrong.\n"
    "\n" COMMON_HELP "  --once              stop when nothing is due\n"
    "  --accept PATH       accept that key, fingerprint or mode of inboxes.NAME has changed\n"
    "  --log-format auto|text|json\n"
    "  -v, -q              log more (debug), or warnings and errors only\n"
    "\n"
    "Exit status: 0 stopped, 1 failed, 2 called wrongly, 3 the configuration is wrong, 75 "
    "unreachable\n"
    "(with --once), 130 or 143 stopped by a second signal.\n";

typedef struct run_arguments {
    common_options common;
    int once, verbose, quiet;
    const char *log_format;
    argument_list accept, rest;
} run_arguments;

static int load_again(config **out, void *context, diagnostics *found)
{
    const run_arguments *given = context;
    return common_load_quietly(out, &given->common, found) == CLI_OK;
}

/* Options of the command line are overrides of the configuration: each has a path there. */
static int add_overrides(run_arguments *given)
{
    enum { OVERRIDES = 3 };
    argument_list *sets = &given->common.sets;
    static char format[64];
    if (sets->count + OVERRIDES > ARGUMENTS_MAX)
        return cli_usage("run", "--set is given too often");
    if (given->verbose)
        sets->items[sets->count++] = "log.level=debug";
    if (given->quiet)
        sets->items[sets->count++] = "log.level=warning";
    if (given->log_format) {
        (void)snprintf(format, sizeof format, "log.format=%s", given->log_format);
        sets->items[sets->count++] = format;
    }
    return CLI_OK;
}

/* A path that names no inbox would be a change that is not accepted after all. */
static int check_accepted(const config *all, const argument_list *accept)
{
    for (size_t i = 0; i < accept->count; i++) {
        size_t at = 0;
        while (at < all->inbox_count && !definition_is_named(&all->inboxes[at], accept->items[i]))
            at++;
        if (at == all->inbox_count)
            return cli_usage("run", "--accept %s: there is no such inbox; it takes inboxes.NAME",
                             accept->items[i]);
    }
    return CLI_OK;
}

int cmd_run(int argc, char **argv)
{
    static run_arguments given;
    const argument_option options[] = {COMMON_OPTIONS(&given.common),
                                       {"--once", 0, ARGUMENT_FLAG, &given.once},
                                       {"--accept", 0, ARGUMENT_LIST, &given.accept},
                                       {"--log-format", 0, ARGUMENT_TEXT, &given.log_format},
                                       {"--verbose", 'v', ARGUMENT_FLAG, &given.verbose},
                                       {"--quiet", 'q', ARGUMENT_FLAG, &given.quiet},
                                       {0}};
    int64_t started_ns = steady_clock_ns();
    config *all = NULL;
    int status = arguments_read("run", argc, argv, options, &given.rest);
    if (!status && given.rest.count)
        status =
            cli_usage("run", "it takes options only, and there is \"%s\"", given.rest.items[0]);
    if (!status)
        status = add_overrides(&given);
    if (!status)
        status = common_load(&all, &given.common);
    if (!status && (status = check_accepted(all, &given.accept)))
        config_free(all);
    if (status)
        return status;
    return service_run(all, &(service_options){.once = given.once,
                                               .load = load_again,
                                               .load_context = &given,
                                               .unload = config_free,
                                               .started_ns = started_ns,
                                               .accept = given.accept.items,
                                               .accept_count = given.accept.count});
}
