/* semel, the program: a table of commands and the help for them. A command is a cmd_*.c file and a
 * line in the table. Data goes to stdout, messages to stderr; cli.h has the exit statuses. */
#include "program/cli.h"
#include "program/command/help_topics.h"
#include "program/config/reference.h"
#include "program/support/arguments.h"
#include "program/support/colour.h"
#include "program/support/nearest.h"
#include "program/support/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semel/semel.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

#define GROUP_MORE "more" /* only the names are listed */

/* Named in the line of the command before it: "; tail: message by message". */
#define BESIDE ""

static const command commands[] = {
    {"start", "init", "write a ready-to-run config", init_help, cmd_init},
    {"start", "check", "validate a config and report all errors", check_help, cmd_check},
    {"start", "test", "run the config's tests, with duplicates and crashes", test_help, cmd_test},
    {"start", "run", "receive, handle, relay and sweep until stopped", run_help, cmd_run},
    {"start", "publish", "publish a message to a queue, once or several times", publish_help,
     cmd_publish},
    {"start", "exec", "run a command once per key", exec_help, cmd_exec},
    {"inspect", "top", "live activity", top_help, cmd_top},
    {BESIDE, "tail", "message by message", tail_help, cmd_tail},
    {BESIDE, "stats", "totals", stats_help, cmd_stats},
    {BESIDE, "health", "health check", health_help, cmd_health},
    {"inspect", "inbox", "remembered keys: ls, show, forget, purge", inbox_help, cmd_inbox},
    {"inspect", "queue", "messages waiting to be handled: ls, purge", queue_help, cmd_queue},
    {"inspect", "outbox", "messages waiting to be sent: ls, show, lag, requeue, skip", outbox_help,
     cmd_outbox},
    {"inspect", "dead", "dead letters: groups, ls, show, retry, discard, export", dead_help,
     cmd_dead},
    {"inspect", "audit", "manual changes and who made them", audit_help, cmd_audit},
    {"set up", "doctor", "check whether run would work here, and how safely", doctor_help,
     cmd_doctor},
    {"set up", "migrate", "semel's own tables: status, up, sql", migrate_help, cmd_migrate},
    {"set up", "config", "dump, explain", config_help, cmd_config},
    {BESIDE, "schema", "for editors", schema_help, cmd_schema},
    {BESIDE, "completion", "for shells", completion_help, cmd_completion},
    {GROUP_MORE, "demo", "watch two shops being killed again and again, and what they charge",
     demo_help, cmd_demo},
    {GROUP_MORE, "bench", "a quick measurement of your own store", bench_help, cmd_bench},
    {GROUP_MORE, "version", "the version of semel, and what is built in",
     "usage: semel version [--json]\n\nPrints the version of semel and what is built into it.\n\n"
     "  --json      print {\"version\":\"...\"}\n",
     cmd_version},
    {GROUP_MORE, "help", "this list, or what a command does: semel help demo",
     "usage: semel help [COMMAND]\n\nLists the commands, or says what one of them does, or what "
     "several have in common\n(common, filters, keys, config, handlers, guarantees, exit).\n",
     cmd_help},
    {NULL, "demo-worker", NULL, NULL, cmd_demo_worker},
    {NULL, "manual", NULL, NULL, cmd_manual},
};
static const size_t command_count = sizeof commands / sizeof *commands;

const command *cli_commands(size_t *count)
{
    *count = command_count;
    return commands;
}

/* --- help and version ------------------------------------------------------------------------- */

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    nearest meant = {.typed = name};
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].summary) /* those that people type */
            nearest_offer(&meant, commands[i].name);
    (void)fprintf(stderr, "semel: there is no command \"%s\"", name);
    if (meant.name)
        (void)fprintf(stderr, "; did you mean \"%s\"?\n", meant.name);
    else
        (void)fprintf(stderr, "\ntry: semel help\n");
    return CLI_USAGE;
}

/* The commands that are named beside `first` follow it in the table. */
static void list_line(FILE *out, const command *first, const char *group)
{
    int in_colour = colour_on(fileno(out));
    (void)fprintf(out, "  %-8s %s%-11s%s %s", group, colour_begin(in_colour, COLOUR_NAME),
                  first->name, colour_end(in_colour), first->summary);
    for (const command *next = first + 1;
         next < commands + command_count && next->group && strcmp(next->group, BESIDE) == 0; next++)
        (void)fprintf(out, "; %s: %s", next->name, next->summary);
    (void)fputc('\n', out);
}

static void list_more(FILE *out)
{
    const char *before = "  " GROUP_MORE "     ";
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].group && strcmp(commands[i].group, GROUP_MORE) == 0) {
            (void)fprintf(out, "%s%s", before, commands[i].name);
            before = ", ";
        }
    (void)fputc('\n', out);
}

static void list_commands(FILE *out)
{
    const char *before = "";
    (void)fputs("semel: exactly-once effects over at-least-once messaging\n\n"
                "usage: semel COMMAND [OPTION...]\n\n",
                out);
    for (size_t i = 0; i < command_count; i++) {
        const char *group = commands[i].group;
        if (!group || strcmp(group, BESIDE) == 0 || strcmp(group, GROUP_MORE) == 0)
            continue;
        list_line(out, &commands[i], strcmp(group, before) == 0 ? "" : group);
        before = group;
    }
    list_more(out);
    (void)fputs(
        "\nTo find a message: semel inbox show KEY. To see why it failed and retry it: semel "
        "dead show, semel dead retry.\n"
        "More: semel help COMMAND, or semel help TOPIC: common, filters, keys, config, "
        "handlers, guarantees, exit\n",
        out);
}

/* `semel help config` lists every option. */
static void print_options(void)
{
    buffer text = {0};
    reference_help(&text);
    (void)fputs(text.data, stdout);
    buffer_free(&text);
}

static int cmd_help(int argc, char **argv)
{
    static argument_list names;
    int status = arguments_read("help", argc, argv, &(argument_option){0}, &names);
    if (status)
        return status;
    if (names.count > 1)
        return cli_usage("help", "it takes one command, not %zu", names.count);
    if (!names.count) {
        list_commands(stdout);
        return CLI_OK;
    }
    const char *wanted = names.items[0];
    pager_begin(0);
    for (const help_topic *topic = help_topics; topic->name; topic++)
        if (strcmp(topic->name, wanted) == 0)
            return fputs(topic->text, stdout) < 0 ? CLI_FAILED : CLI_OK;
    const command *about = find_command(wanted);
    if (!about || !about->help)
        return unknown_command(wanted);
    (void)fputs(about->help, stdout);
    if (about->run == cmd_config)
        print_options();
    return CLI_OK;
}

static int cmd_version(int argc, char **argv)
{
    int json = 0;
    static argument_list rest;
    const argument_option options[] = {{"--json", 0, ARGUMENT_FLAG, &json}, {0}};
    int status = arguments_read("version", argc, argv, options, &rest);
    if (status)
        return status;
    if (rest.count)
        return cli_usage("version", "it takes no arguments, and there is \"%s\"", rest.items[0]);
    if (json)
        (void)printf("{\"version\":\"%s\"}\n", semel_version());
    else
        (void)printf("semel %s\n%s; handlers: sql http exec worker\n", semel_version(),
                     semel_build_options());
    return CLI_OK;
}

/* --- dispatch --------------------------------------------------------------------------------- */

static int asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return 1;
    return 0;
}

static int run_command(int argc, char **argv)
{
    const char *name = argv[0];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const command *called = find_command(name);
    if (!called)
        return unknown_command(name);
    if (called->help && asks_for_help(argc, argv)) {
        pager_begin(0);
        (void)fputs(called->help, stdout);
        return CLI_OK;
    }
    return called->run(argc, argv);
}

/* A file that is opened later must not become the standard input or output by accident. */
static int keep_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd < 0 ? -1 : close(fd);
}

static void do_nothing(int number)
{
    (void)number;
}

/* A reader that has had enough (| head) closes the pipe. A handler, and not SIG_IGN, because
 * programs that semel starts do not inherit it. */
static void survive_closed_pipe(void)
{
    struct sigaction before, action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGPIPE, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        (void)sigaction(SIGPIPE, &action, NULL);
}

static int is_closed(int pipe)
{
    struct pollfd end = {.fd = pipe, .events = POLLOUT};
    return poll(&end, 1, 0) == 1 && (end.revents & POLLERR);
}

int main(int argc, char **argv)
{
    if (keep_standard_files() != 0)
        return CLI_FAILED;
    survive_closed_pipe();
    int status = CLI_OK;
    if (argc < 2)
        list_commands(stdout);
    else
        status = run_command(argc - 1, argv + 1);
    pager_end();
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK && !is_closed(STDOUT_FILENO))
        return cli_failed(argc < 2 ? "help" : argv[1], "cannot write the output: %s",
                          strerror(errno));
    return status;
}
