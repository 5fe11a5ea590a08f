/* semel dead: dead letters, from finding them to being done with them. Each of its verbs is a file
 * operate/dead_*.c. */
#include "program/cli.h"
#include "program/command/subcommand.h"
#include "program/operate/dead.h"

#include <string.h>

const char dead_help[] =
    "usage: semel dead groups               group letters by common cause\n"
    "       semel dead ls                   list letters, one per line\n"
    "       semel dead show LETTER          show error, time, headers, body (--body: only the "
    "body, as received)\n"
    "       semel dead retry LETTER...      make one more attempt; if it fails, the letter stays\n"
    "       semel dead discard LETTER...    delete letters; their keys stay dead (--forget: later "
    "copies run)\n"
    "       semel dead export LETTER...     print CloudEvents, one per line, for semel publish "
    "--cloudevents --lines\n"
    "Instead of LETTER, give filters to select all matching letters.\n"
    "  --cause ID         a cause listed by semel dead groups\n"
    "  --inbox --outbox --type --key --error --since --until --limit        see semel help "
    "filters\n"
    "  --wait D           retry: time to wait for outcomes; default 30s\n"
    "  --here             retry: call the handler from this process, not from a running semel\n";

typedef struct dead_verb {
    const char *name;
    const char *command; /* for messages */
    int (*run)(dead_work *w);
    int changes;
    int takes_letters;
} dead_verb;

static const dead_verb verbs[] = {
    {"groups", "dead groups", dead_groups, 0, 0},    {"ls", "dead ls", dead_ls, 0, 0},
    {"show", "dead show", dead_show, 0, 1},          {"retry", "dead retry", dead_retry, 1, 1},
    {"discard", "dead discard", dead_discard, 1, 1}, {"export", "dead export", dead_export, 0, 1}};

static const dead_verb *find_verb(const char *name)
{
    const dead_verb *verb = verbs;
    while (strcmp(verb->name, name) != 0)
        verb++;
    return verb;
}

static int check_usage(const dead_verb *verb, const dead_options *o)
{
    if (o->letters.count && !verb->takes_letters)
        return cli_usage(verb->command, "it takes filters, not \"%s\"", o->letters.items[0]);
    if (o->letters.count && dead_names_a_set(o) > 1)
        return cli_usage(verb->command, "give letters or filters, not both");
    if (verb->changes && !dead_names_a_set(o))
        return cli_usage(verb->command, "give letters or filters; for all letters: --inbox '*'");
    if (verb->run == dead_show && o->letters.count != 1)
        return cli_usage(verb->command, "it takes one letter");
    return CLI_OK;
}

static int run_verb(const dead_verb *verb, const dead_options *o)
{
    dead_work w = {0};
    int status = check_usage(verb, o);
    if (status)
        return status;
    status = dead_begin(&w, verb->command, o);
    if (!status)
        status = verb->run(&w);
    dead_end(&w);
    return status;
}

static int run_dead(int argc, char **argv)
{
    static dead_options o;
    const argument_option options[] = {TOOL_OPTIONS(&o.tool),
                                       TOOL_CHANGE_OPTIONS(&o.tool),
                                       FILTER_INBOX(&o.filter),
                                       FILTER_OUTBOX(&o.filter),
                                       FILTER_TYPE(&o.filter),
                                       FILTER_KEY(&o.filter),
                                       FILTER_ERROR(&o.filter),
                                       FILTER_SINCE(&o.filter),
                                       FILTER_UNTIL(&o.filter),
                                       FILTER_LIMIT(&o.filter),
                                       FILTER_AFTER(&o.filter),
                                       FILTER_CAUSE(&o.filter),
                                       FILTER_UP_TO(&o.filter),
                                       {"--wait", 0, ARGUMENT_PERIOD, &o.wait_ms},
                                       {"--here", 0, ARGUMENT_FLAG, &o.here},
                                       {"--forget", 0, ARGUMENT_FLAG, &o.forget},
                                       {"--body", 0, ARGUMENT_FLAG, &o.body},
                                       {0}};
    const dead_verb *verb = find_verb(argv[0]);
    int status = arguments_read(verb->command, argc, argv, options, &o.letters);
    return status ? status : run_verb(verb, &o);
}

int cmd_dead(int argc, char **argv)
{
    static const subcommand subcommands[] = {{"groups", run_dead},
                                             {"ls", run_dead},
                                             {"show", run_dead},
                                             {"retry", run_dead},
                                             {"discard", run_dead},
                                             {"export", run_dead},
                                             {0}};
    return subcommand_run("dead", subcommands, argc, argv);
}
