/* `semel config`: the effective configuration, and what an option means. */
#include "program/cli.h"
#include "program/command/common.h"
#include "program/config/dump.h"
#include "program/config/explain.h"
#include "program/config/reference.h"

#include <string.h>

const char config_help[] =
    "usage: semel config dump [-c FILE] [--set PATH=VALUE]...\n"
    "       semel config explain PATH [-c FILE] [--set PATH=VALUE]...\n"
    "       semel config reference\n\n"
    "dump       the effective config as YAML: each value with its origin, secrets hidden\n"
    "explain    one option: its value, where it was set, what it overrides and means;\n"
    "           semel config explain 'inboxes[\"mail.receipt\"].attempts_max'\n"
    "reference  all options as a page of Markdown\n\n"
    "Exit status: 0 done, 2 called wrongly, 3 the config is not valid, 4 there is no such "
    "option.\n";

static int print(buffer *text)
{
    (void)fputs(text->data ? text->data : "", stdout);
    buffer_free(text);
    return CLI_OK;
}

static int dump(const config *all)
{
    buffer text = {0};
    dump_config(&text, all);
    return print(&text);
}

static int explain(const config *all, const char *path)
{
    buffer text = {0};
    if (explain_path(&text, all, path))
        return print(&text);
    (void)cli_failed("config explain", "%s: %s", path, text.data);
    buffer_free(&text);
    return CLI_NOT_FOUND;
}

static int run(const char *what, const char *path, const common_options *options)
{
    const config_arguments from = common_arguments(options);
    config *all = NULL;
    if (!locate_config(&all, &from, (diagnostic_form){.errors_only = 1}))
        return CLI_CONFIG;
    int status = strcmp(what, "dump") == 0 ? dump(all) : explain(all, path);
    config_free(all);
    return status;
}

static int dispatch(const argument_list *words, const common_options *options)
{
    buffer text = {0};
    if (words->count == 1 && strcmp(words->items[0], "reference") == 0) {
        reference_markdown(&text);
        return print(&text);
    }
    if (words->count == 1 && strcmp(words->items[0], "dump") == 0)
        return run("dump", NULL, options);
    if (words->count == 2 && strcmp(words->items[0], "explain") == 0)
        return run("explain", words->items[1], options);
    return cli_usage("config", "expected dump, explain PATH or reference");
}

int cmd_config(int argc, char **argv)
{
    static common_options common;
    static argument_list words;
    const argument_option options[] = {COMMON_OPTIONS(&common), {0}};
    int status = arguments_read("config", argc, argv, options, &words);
    return status ? status : dispatch(&words, &common);
}
