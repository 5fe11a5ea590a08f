/* See tool.h. */
#include "program/operate/tool.h"

#include "program/cli.h"
#include "program/config/store_url.h"
#include "program/support/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_DEFAULT_MS = 10000 };

/* --- saying ----------------------------------------------------------------------------------- */

static void add_option(buffer *to, const char *name, const char *value)
{
    if (!value)
        return;
    buffer_printf(to, " %s ", name);
    show_argument(to, value);
}

/* A command that is proposed works on the store that this one works on. Options may stand behind
 * arguments, unless these are behind "--": a hint never has that. */
static void add_place(buffer *to, const tool_options *o)
{
    add_option(to, "-c", o->common.path);
    add_option(to, "--store", o->common.store_url);
    for (size_t i = 0; i < o->common.sets.count; i++)
        add_option(to, "--set", o->common.sets.items[i]);
    buffer_text(to, o->utc ? " --utc" : "");
}

/* A command ends before a semicolon, or a comma and a space, that is not in quotes. */
static size_t command_length(const char *at)
{
    size_t len = 0;
    for (int quoted = 0; at[len]; len++) {
        quoted ^= at[len] == '\'';
        if (!quoted && (at[len] == ';' || (at[len] == ',' && at[len + 1] == ' ')))
            break;
    }
    return len;
}

/* The line with the place behind each command in it: "next: semel ...; ...: semel ...". */
static void add_hints(buffer *to, const char *line, const tool_options *o)
{
    static const char sign[] = ": semel ";
    for (const char *at; (at = strstr(line, sign)); line = at) {
        at += sizeof sign - 1;
        at += command_length(at);
        buffer_add(to, line, (size_t)(at - line));
        add_place(to, o);
    }
    buffer_text(to, line);
}

/* The text may have names and errors of others in it. */
static void say(const tool *t, int is_refusal, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = must_alloc((size_t)len + 1);
    buffer line = {0}, whole = {0};
    (void)vsnprintf(text, (size_t)len + 1, format, arguments);
    if (is_refusal)
        buffer_printf(&whole, "semel %s: ", t->command);
    show_text(&line, text, (size_t)len, 0);
    add_hints(&whole, line.data, t->options);
    if (t->host)
        t->host->say(t->host->context, is_refusal, line.data);
    else
        (void)fprintf(cli_errors(), "%s\n", whole.data);
    buffer_free(&line);
    buffer_free(&whole);
    free(text);
}

void tool_say(const tool *t, const char *format, ...)
{
    va_list arguments;
    if (t->options->quiet)
        return;
    va_start(arguments, format);
    say(t, 0, format, arguments);
    va_end(arguments);
}

int tool_refuse(const tool *t, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(t, 1, format, arguments);
    va_end(arguments);
    return status;
}

/* A command line has a line of its own that says where help is. */
int tool_usage(const tool *t, const char *format, ...)
{
    va_list arguments;
    buffer text = {0};
    va_start(arguments, format);
    buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    int status = t->host ? tool_refuse(t, CLI_USAGE, "%s", text.data)
                         : cli_usage(t->command, "%s", text.data);
    buffer_free(&text);
    return status;
}

void tool_count(const tool *t, const char *outcome, uint64_t count)
{
    if (t->host)
        t->host->count(t->host->context, outcome, count);
}

typedef struct schema_state {
    int applied, pending;
} schema_state;

static semel_status count_step(const semel_schema_step *step, void *context, semel_error *err)
{
    schema_state *state = context;
    (void)err;
    *(step->applied_ms ? &state->applied : &state->pending) += 1;
    return SEMEL_OK;
}

static int refuse_pending(const tool *t, const schema_state *state)
{
    (void)tool_refuse(t, CLI_FAILED,
                      state->applied ? "the tables in this store are older than this semel"
                                     : "the store has no tables of semel's yet");
    tool_say(t, "try: semel migrate up");
    return CLI_FAILED;
}

int tool_failed(const tool *t, const semel_error *why)
{
    int status = why->retryable                      ? CLI_TEMPORARY
                 : why->status == SEMEL_EBUSY        ? CLI_TEMPORARY
                 : why->status == SEMEL_EUNAVAILABLE ? CLI_TEMPORARY
                 : why->status == SEMEL_ENOTFOUND    ? CLI_NOT_FOUND
                                                     : CLI_FAILED;
    return tool_refuse(t, status, "%s%s",
                       why->status == SEMEL_EUNAVAILABLE ? "store unreachable: " : "", why->text);
}

int tool_on_terminal(const tool *t)
{
    (void)t;
    return isatty(STDOUT_FILENO);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Warnings are for those who write the configuration: `check` and `run` say them. */
static int load_config(tool *t)
{
    const common_options *common = &t->options->common;
    const config_arguments from = common_arguments(common);
    diagnostics found = {0};
    int status = common_load_quietly(&t->all, common, &found);
    if (status)
        diagnostic_print(stderr, &found, locate_path(&from), (diagnostic_form){0});
    diagnostic_free(&found);
    return status;
}

/* The store is an argument alone, and what is wrong with it is wrong with the command line. */
static int is_argument(const common_options *common)
{
    return common->store_url && !common->path;
}

static int load(tool *t, const char **url, semel_store_options *store)
{
    const common_options *common = &t->options->common;
    if (is_argument(common)) {
        *url = store_url_read(&t->memory, "--store", common->store_url);
        return *url ? CLI_OK : CLI_USAGE;
    }
    int status = load_config(t);
    if (!status) {
        *url = t->all->store_url;
        *store = t->all->store;
    }
    return status;
}

static int is_missing(tool *t, const char *url)
{
    const char *file = store_url_file(&t->memory, url);
    return file && access(file, F_OK) != 0;
}

/* A file that is not there would be made by opening it. */
static int check_file(tool *t, const char *url)
{
    if (!is_missing(t, url))
        return CLI_OK;
    (void)tool_refuse(t, CLI_FAILED, "the store %s does not exist yet",
                      store_url_file(&t->memory, url));
    tool_say(t, "try: semel migrate up");
    return CLI_FAILED;
}

static uint32_t timeout_of(const tool_options *options)
{
    uint64_t ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_DEFAULT_MS;
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* What about a file that is not there? */
typedef enum missing_file { REFUSE_MISSING, LEAVE_MISSING, MAKE_MISSING } missing_file;

static int open_store(tool *out, const char *caller, const tool_options *options,
                      missing_file missing)
{
    const char *url = NULL;
    semel_error why = {0};
    semel_store_options store = {.size = sizeof store};
    *out = (tool){.command = caller, .options = options, .now_ms = wall_clock_ms()};
    int status = load(out, &url, &store);
    if (!status && missing == REFUSE_MISSING)
        status = check_file(out, url);
    if (status || (missing == LEAVE_MISSING && is_missing(out, url)))
        return status;
    store.busy_ms = store.answer_ms = timeout_of(options);
    if (!semel_store_open(&out->store, url, &store, &why))
        return CLI_OK;
    int failed = tool_failed(out, &why);
    return why.status == SEMEL_EINVAL && is_argument(&options->common) ? CLI_USAGE : failed;
}

/* A store that keeps no tables has no steps. */
static int check_tables(tool *t)
{
    semel_error why = {0};
    schema_state state = {0};
    semel_status status = semel_store_schema(t->store, count_step, &state, &why);
    if (status == SEMEL_EUNSUPPORTED)
        status = SEMEL_OK;
    if (!status && state.pending)
        return refuse_pending(t, &state);
    if (!status)
        status = semel_store_now(&t->now_ms, t->store, &why);
    return status ? tool_failed(t, &why) : CLI_OK;
}

int tool_open(tool *out, const char *caller, const tool_options *options)
{
    int status = open_store(out, caller, options, REFUSE_MISSING);
    return status ? status : check_tables(out);
}

int tool_open_any(tool *out, const char *caller, const tool_options *options)
{
    return open_store(out, caller, options, MAKE_MISSING);
}

int tool_open_existing(tool *out, const char *caller, const tool_options *options)
{
    return open_store(out, caller, options, LEAVE_MISSING);
}

int tool_borrow(tool *out, const char *caller, const tool_options *options, const tool_host *host,
                config *all, semel_store *store)
{
    semel_error why = {0};
    *out = (tool){.command = caller, .options = options, .host = host, .all = all, .store = store};
    return semel_store_now(&out->now_ms, store, &why) ? tool_failed(out, &why) : CLI_OK;
}

void tool_return(tool *t)
{
    region_free(&t->memory);
    *t = (tool){0};
}

void tool_close(tool *t)
{
    semel_store_close(t->store);
    config_free(t->all);
    region_free(&t->memory);
    *t = (tool){0};
}
