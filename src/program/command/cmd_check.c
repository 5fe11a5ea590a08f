/* `semel check`: validates configurations and reports all errors. It changes nothing. */
#include "program/capture/capture.h"
#include "program/cli.h"
#include "program/command/check_statements.h"
#include "program/command/common.h"
#include "program/config/readable.h"
#include "program/config/summary.h"

#include <string.h>

const char check_help[] =
    "usage: semel check [FILE...] [-c FILE] [--set PATH=VALUE]... [OPTION...]\n\n"
    "Validates a config, or the YAML blocks of a Markdown file that begin with version:, and\n"
    "reports all errors. It changes nothing.\n\n"
    "  --strict    a warning is an error, too\n"
    "  --offline   do not connect to the store to ask whether it accepts the statements of sql\n"
    "  --all       list all problems, not only the first 20\n"
    "  --json      print JSON objects, one per line\n"
    "  -q, --quiet print problems only\n\n"
    "Exit status: 0 valid, 2 called wrongly, 3 not valid.\n";

typedef struct check_call {
    common_options common;
    argument_list files;
    diagnostic_form form;
    int strict;
    int offline;
    int quiet;
    int failed;
} check_call;

/* --- one configuration ------------------------------------------------------------------------ */

static void say_valid(const config *all, const load_options *options)
{
    (void)fprintf(stderr, "%s", options->path);
    if (options->text)
        (void)fprintf(stderr, ":%u", options->first_line);
    (void)fputs(" is valid: ", stderr);
    summary_counts(stderr, all);
    (void)fputc('\n', stderr);
}

static void check_one(check_call *call, load_options *options)
{
    diagnostics found = {0};
    config *all = NULL;
    buffer unchecked = {0};
    options->sets = call->common.sets.items;
    options->set_count = call->common.sets.count;
    options->store_url = call->common.store_url;
    if (config_load(&all, options, &found))
        check_statements(&found, &unchecked, all,
                         options->is_example ? "it is an example"
                         : call->offline     ? "--offline"
                                             : NULL);
    int is_valid = all && !found.errors && !(call->strict && found.warnings);
    diagnostic_print(call->form.json ? stdout : stderr, &found, options->path, call->form);
    if (unchecked.len)
        (void)fprintf(stderr, "%s: statements of sql%s were not checked: %s\n", options->path,
                      all && capture_is_wanted(all) ? " and tables" : "", unchecked.data);
    if (is_valid && !call->quiet) {
        summary_routes(stdout, all, call->form.json);
        (void)fflush(stdout);
        if (!call->form.json)
            say_valid(all, options);
    }
    call->failed |= !is_valid;
    buffer_free(&unchecked);
    diagnostic_free(&found);
    config_free(all);
}

/* --- Markdown --------------------------------------------------------------------------------- */

static int is_markdown(const char *path)
{
    size_t len = strlen(path);
    return len > 3 && strcmp(path + len - 3, ".md") == 0;
}

static const char *next_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline + 1 : end;
}

static int begins(const char *at, const char *end, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(end - at) >= len && memcmp(at, text, len) == 0;
}

/* 1 if the first line that is neither empty nor a comment says which version it is. */
static int is_config(const char *at, const char *end)
{
    while (at < end && (*at == '#' || *at == '\n' || *at == '\r'))
        at = next_line(at, end);
    return begins(at, end, "version:");
}

static size_t check_blocks(check_call *call, const char *path, const buffer *text)
{
    const char *end = text->data + text->len;
    size_t count = 0;
    uint32_t line = 1;
    for (const char *at = text->data; at < end; at = next_line(at, end), line++) {
        if (!begins(at, end, "```yaml"))
            continue;
        const char *start = next_line(at, end), *stop = start;
        uint32_t first = ++line;
        for (; stop < end && !begins(stop, end, "```"); stop = next_line(stop, end))
            line++;
        load_options options = {.path = path,
                                .text = start,
                                .len = (size_t)(stop - start),
                                .first_line = first,
                                .is_example = 1};
        if (is_config(start, stop)) {
            check_one(call, &options);
            count++;
        }
        at = stop;
        if (at >= end)
            break;
    }
    return count;
}

static void check_markdown(check_call *call, const char *path)
{
    buffer text = {0};
    readable_problem problem = {""};
    enum { DOCUMENT_MAX = 16 * 1024 * 1024 };
    if (!readable_document(&text, path, DOCUMENT_MAX, &problem)) {
        (void)fprintf(stderr, "%s: error: %s\n", path, problem.text);
        call->failed = 1;
    } else if (!text.data || !check_blocks(call, path, &text))
        (void)fprintf(stderr, "%s has no YAML block that begins with version:\n", path);
    buffer_free(&text);
}

/* --- the command ------------------------------------------------------------------------------ */

static void check_path(check_call *call, const char *path)
{
    load_options options = {.path = path};
    if (is_markdown(path))
        check_markdown(call, path);
    else
        check_one(call, &options);
}

int cmd_check(int argc, char **argv)
{
    static check_call call;
    const argument_option options[] = {COMMON_OPTIONS(&call.common),
                                       {"--strict", 0, ARGUMENT_FLAG, &call.strict},
                                       {"--offline", 0, ARGUMENT_FLAG, &call.offline},
                                       {"--all", 0, ARGUMENT_FLAG, &call.form.all},
                                       {"--json", 0, ARGUMENT_FLAG, &call.form.json},
                                       {"--quiet", 'q', ARGUMENT_FLAG, &call.quiet},
                                       {0}};
    int status = arguments_read("check", argc, argv, options, &call.files);
    if (status)
        return status;
    const config_arguments from = common_arguments(&call.common);
    if (!call.files.count)
        check_path(&call, locate_path(&from));
    for (size_t i = 0; i < call.files.count; i++)
        check_path(&call, call.files.items[i]);
    return call.failed ? CLI_CONFIG : CLI_OK;
}
