/* `semel migrate`: the steps of semel's own tables. `status` shows them, `up` takes those that are
 * pending, `sql` prints them as a script for a database administrator.
 *
 * Each step is recorded by the library with its own work, or in MariaDB after it: when this process
 * dies, the next call goes on with the step that is not recorded. */
#include "program/cli.h"
#include "program/command/migrate_tables.h"
#include "program/operate/table.h"
#include "program/operate/tool.h"
#include "program/support/nearest.h"
#include "program/support/newer_tables.h"
#include "program/support/show.h"
#include "program/support/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char migrate_help[] =
    "usage: semel migrate status          list the steps of semel's own tables\n"
    "       semel migrate up [--to N]     take the steps that are pending\n"
    "       semel migrate sql [--to N]    print them as SQL for a database administrator\n\n"
    "semel run takes pending steps by itself when it starts, if its role may create tables.\n"
    "sql also prints the triggers of tables whose rows are sent (outboxes.NAME.table), unless\n"
    "they are there as the config wants them, or --to is given.\n"
    "docs/UPGRADING.md says how long each step locks what.\n\n"
    "  --to N              the last step to take or print; default: all\n"
    "  -c, --config FILE   config file; default: $SEMEL_CONFIG, ./semel.yaml, "
    "/etc/semel/semel.yaml\n"
    "  --store URL         use a store without a config; write passwords as ${NAME} or "
    "${file:PATH}\n"
    "  -n, --dry-run       up: show what would be done\n"
    "  --json              print JSON objects, one per line\n"
    "  -q, --quiet         no hints\n"
    "  --utc               times in UTC\n"
    "  --timeout D         of the store; default: 10s\n\n"
    "Exit status: 0 done, 1 failed, 2 called wrongly, 3 invalid config, 75 store unreachable.\n";

typedef struct migrate_call {
    tool_options options;
    uint32_t to;
    tool tool;
    newer_tables newer;
    char *temporary; /* the directory of a store that stands in for a file that is not there */
} migrate_call;

/* --- the steps -------------------------------------------------------------------------------- */

typedef struct step {
    struct step *next;
    semel_schema_step is;
} step;

typedef struct step_list {
    region *memory;
    step *first, **end;
} step_list;

static semel_status keep_step(const semel_schema_step *shown, void *context, semel_error *err)
{
    (void)err;
    step_list *list = context;
    step *added = region_alloc(list->memory, sizeof *added);
    added->is = *shown;
    added->is.name = region_copy(list->memory, shown->name, strlen(shown->name));
    added->is.locks = region_copy(list->memory, shown->locks, strlen(shown->locks));
    added->is.sql = region_copy(list->memory, shown->sql, strlen(shown->sql));
    *list->end = added;
    list->end = &added->next;
    return SEMEL_OK;
}

/* All steps; an error is said, also if it is that the tables are newer, when all are known. */
static int read_steps(step **out, migrate_call *call)
{
    step_list list = {.memory = &call->tool.memory};
    semel_error why = {0};
    list.end = &list.first;
    semel_status status = semel_store_schema(call->tool.store, keep_step, &list, &why);
    *out = list.first;
    for (const step *s = list.first; s; s = s->next)
        newer_tables_note(&call->newer, &s->is);
    return status ? tool_failed(&call->tool, &why) : CLI_OK;
}

static int is_due(const step *s)
{
    return !s->is.applied_ms || s->is.incomplete;
}

static int is_pending(const migrate_call *call, const step *s)
{
    return is_due(s) && (!call->to || (uint32_t)s->is.version <= call->to);
}

/* Nothing is pending. */
static void say_current(const migrate_call *call)
{
    buffer text = {0};
    if (call->newer.there)
        newer_tables_text(&text, &call->newer);
    else
        buffer_text(&text, "semel's tables are current: nothing to do");
    tool_say(&call->tool, "%s", text.data);
    buffer_free(&text);
}

/* --to N: is there such a step? */
static int check_target(const migrate_call *call)
{
    int32_t last = call->newer.known;
    if (call->to <= (uint32_t)last)
        return CLI_OK;
    return tool_refuse(&call->tool, CLI_NOT_FOUND,
                       "there is no version %u of semel's tables; this semel knows 1 to %d",
                       (unsigned)call->to, (int)last);
}

/* --- status ----------------------------------------------------------------------------------- */

static const table_column status_columns[] = {{"VERSION", "version", 1, 0},
                                              {"CONTENTS", "contents", 0, 0},
                                              {"STATE", "state", 0, 0},
                                              {"LOCKS", "locks", 0, 0},
                                              {NULL, "applied_at", 0, 0},
                                              {NULL, "needs", 1, 0},
                                              {0}};

static void say_next(const migrate_call *call, int pending)
{
    if (pending)
        tool_say(&call->tool, "next: semel migrate up, or for a DBA: semel migrate sql");
    else if (call->newer.there)
        say_current(call);
}

static int run_status(migrate_call *call)
{
    step *first = NULL;
    int pending = 0;
    int status = read_steps(&first, call);
    table t = {.columns = status_columns, .json = call->options.json, .utc = call->options.utc};
    for (const step *s = first; s; s = s->next) {
        table_number(&t, s->is.version);
        table_text(&t, s->is.name);
        table_text(&t, s->is.newer         ? "newer"
                       : !s->is.applied_ms ? "pending"
                       : is_due(s)         ? "incomplete"
                                           : "applied");
        table_text(&t, is_due(s) ? s->is.locks : NULL);
        table_moment(&t, s->is.applied_ms);
        table_number(&t, s->is.needs);
        table_end_row(&t);
        pending |= is_due(s);
    }
    if (!first && !status)
        tool_say(&call->tool, "this store has no tables");
    table_print(&t, stdout);
    (void)fflush(stdout);
    if (!status)
        say_next(call, pending);
    return status;
}

/* --- up --------------------------------------------------------------------------------------- */

static const table_column up_columns[] = {{NULL, "version", 1, 0}, {NULL, "contents", 0, 0},
                                          {NULL, "state", 0, 0},   {NULL, "took_ms", 1, 0},
                                          {NULL, "locks", 0, 0},   {0}};

static void print_up_json(const step *s, int64_t took_ns)
{
    table t = {.columns = up_columns, .json = 1};
    table_number(&t, s->is.version);
    table_text(&t, s->is.name);
    table_text(&t, took_ns < 0 ? "pending" : "applied");
    if (took_ns < 0)
        table_text(&t, NULL);
    else
        table_duration(&t, took_ns / 1000000);
    table_text(&t, s->is.locks);
    table_end_row(&t);
    table_print(&t, stdout);
}

/* At once, since the next step may take long. */
static void print_up(const migrate_call *call, const step *s, int64_t took_ns)
{
    buffer took = {0};
    if (call->options.json) {
        print_up_json(s, took_ns);
    } else if (took_ns < 0) {
        (void)printf("pending  %d  %s; locks: %s\n", (int)s->is.version, s->is.name, s->is.locks);
    } else {
        show_duration(&took, took_ns);
        (void)printf("applied  %d  %s (%s)\n", (int)s->is.version, s->is.name, took.data);
        buffer_free(&took);
    }
    (void)fflush(stdout);
}

static int take_step(migrate_call *call, const step *s)
{
    semel_error why = {0};
    int64_t began = steady_clock_ns();
    if (call->options.dry_run) {
        print_up(call, s, -1);
        return CLI_OK;
    }
    if (semel_store_migrate_to(call->tool.store, s->is.version, &why))
        return tool_failed(&call->tool, &why);
    print_up(call, s, steady_clock_ns() - began);
    return CLI_OK;
}

static int take_steps(migrate_call *call, const step *first)
{
    int status = CLI_OK, taken = 0;
    for (const step *s = first; !status && s; s = s->next)
        if (is_pending(call, s)) {
            status = take_step(call, s);
            taken += !status;
        }
    if (!status && call->options.dry_run)
        tool_say(&call->tool, "%d pending; nothing was changed", taken);
    else if (!status && !taken)
        say_current(call);
    return status;
}

/* A step may have had to leave something out, that `run` can do without. */
static void say_incomplete(migrate_call *call)
{
    step *first = NULL;
    if (call->options.dry_run || read_steps(&first, call))
        return;
    for (const step *s = first; s; s = s->next)
        if (is_pending(call, s))
            tool_say(&call->tool, "step %d is incomplete; to see what is missing: semel doctor",
                     (int)s->is.version);
}

static int run_up(migrate_call *call)
{
    step *first = NULL;
    int status = read_steps(&first, call);
    if (!status)
        status = check_target(call);
    if (!status)
        status = take_steps(call, first);
    if (!status)
        say_incomplete(call);
    return status;
}

/* --- sql -------------------------------------------------------------------------------------- */

static const table_column sql_columns[] = {{NULL, "version", 0, 0},
                                           {NULL, "contents", 0, 0},
                                           {NULL, "locks", 0, 0},
                                           {NULL, "sql", 0, 0},
                                           {0}};

static void print_json(const step *s)
{
    table t = {.columns = sql_columns, .json = 1};
    table_number(&t, s->is.version);
    table_text(&t, s->is.name);
    table_text(&t, s->is.locks);
    table_text(&t, s->is.sql);
    table_end_row(&t);
    table_print(&t, stdout);
}

static void print_script(const migrate_call *call, const step *first)
{
    for (const step *s = first; s; s = s->next)
        if (is_pending(call, s) && call->options.json)
            print_json(s);
        else if (is_pending(call, s))
            (void)printf("-- semel %s, step %d: %s; safe to run twice\n-- locks: %s\n%s\n",
                         semel_version(), (int)s->is.version, s->is.name, s->is.locks, s->is.sql);
}

static int run_sql(migrate_call *call)
{
    step *first = NULL;
    int pending = 0;
    int status = read_steps(&first, call);
    if (!status)
        status = check_target(call);
    if (status)
        return status;
    for (const step *s = first; s; s = s->next)
        pending |= is_pending(call, s);
    print_script(call, first);
    if (!call->to && migrate_print_tables(&call->tool, !call->temporary))
        pending = 1;
    if (!pending)
        say_current(call);
    return CLI_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

typedef struct subcommand {
    const char *name;
    int (*run)(migrate_call *call);
    int changes;
} subcommand;

static const subcommand subcommands[] = {
    {"status", run_status, 0}, {"up", run_up, 1}, {"sql", run_sql, 0}};

static const subcommand *find_subcommand(const char *name)
{
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (strcmp(subcommands[i].name, name) == 0)
            return &subcommands[i];
    return NULL;
}

static int unknown_subcommand(const char *name)
{
    nearest meant = {.typed = name};
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        nearest_offer(&meant, subcommands[i].name);
    return meant.name
               ? cli_usage("migrate", "there is no \"%s\"; did you mean \"%s\"?", name, meant.name)
               : cli_usage("migrate", "there is no \"%s\"; it is status, up or sql", name);
}

/* All steps of a file that is not there are pending; an empty store in another place tells them. */
static int open_stand_in(migrate_call *call)
{
    semel_error why = {0};
    call->temporary = temporary_directory();
    if (!call->temporary)
        return tool_refuse(&call->tool, CLI_FAILED, "no temporary directory: %s", strerror(errno));
    const char *url = region_printf(&call->tool.memory, "sqlite:%s/migrate.db", call->temporary);
    return semel_store_open(&call->tool.store, url, NULL, &why) ? tool_failed(&call->tool, &why)
                                                                : CLI_OK;
}

static int open_and_run(migrate_call *call, const subcommand *which)
{
    const char *caller = which->changes          ? "migrate up"
                         : which->name[1] == 't' ? "migrate status"
                                                 : "migrate sql";
    int makes = which->changes && !call->options.dry_run;
    int status = makes ? tool_open_any(&call->tool, caller, &call->options)
                       : tool_open_existing(&call->tool, caller, &call->options);
    if (!status && !call->tool.store)
        status = open_stand_in(call);
    if (!status)
        status = which->run(call);
    tool_close(&call->tool);
    temporary_remove(call->temporary);
    return status;
}

int cmd_migrate(int argc, char **argv)
{
    static migrate_call call;
    argument_list words = {0};
    const argument_option options[] = {TOOL_OPTIONS(&call.options),
                                       {"--dry-run", 'n', ARGUMENT_FLAG, &call.options.dry_run},
                                       {"--to", 0, ARGUMENT_COUNT, &call.to},
                                       {0}};
    int status = arguments_read("migrate", argc, argv, options, &words);
    if (status)
        return status;
    if (words.count != 1)
        return cli_usage("migrate", "it takes one of status, up and sql");
    const subcommand *which = find_subcommand(words.items[0]);
    return which ? open_and_run(&call, which) : unknown_subcommand(words.items[0]);
}
