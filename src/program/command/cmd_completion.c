/* `semel completion`: a script for a shell, made of the table of commands and of their help. Names
 * and options are words of lower-case letters and hyphens; only summaries need quotes. */
#include "program/cli.h"
#include "program/command/help_text.h"

#include <stdio.h>
#include <string.h>

const char completion_help[] =
    "usage: semel completion bash|zsh|fish\n\n"
    "Prints a completion script for a shell; make install puts all three in their places. To try "
    "it:\n\n"
    "  eval \"$(semel completion bash)\"\n";

typedef void visitor(buffer *out, const command *each);

static void visit(buffer *out, visitor *each)
{
    size_t count;
    const command *all = cli_commands(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].summary)
            each(out, &all[i]);
}

/* A quoted text: an apostrophe ends the quotes, stands for itself, and begins them again. */
static void add_quoted(buffer *out, const char *text)
{
    buffer_text(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            buffer_text(out, "'\\'");
        buffer_add(out, text, 1);
    }
    buffer_text(out, "'");
}

static void add_name(buffer *out, const command *each)
{
    buffer_printf(out, "%s ", each->name);
}

/* "run) long='--once ' follow='' ;;", for bash and zsh; in zsh `options` and `words` are taken. */
static void add_case(buffer *out, const command *each)
{
    buffer options = {0}, words = {0};
    help_options(&options, each);
    help_words(&words, each);
    buffer_printf(out, "    %s) long='%s' follow='%s' ;;\n", each->name, options.data,
                  words.data ? words.data : "");
    buffer_free(&options);
    buffer_free(&words);
}

/* Where neither options nor words fit, bash completes names of files by itself (-o default). */
static void add_bash(buffer *out)
{
    buffer_text(out, "# bash completion for semel\n"
                     "_semel() {\n"
                     "    local word=${COMP_WORDS[COMP_CWORD]} long='' follow=''\n"
                     "    case ${COMP_WORDS[1]} in\n");
    visit(out, add_case);
    buffer_text(out, "    esac\n"
                     "    [ \"$COMP_CWORD\" -ne 1 ] || follow='");
    visit(out, add_name);
    buffer_text(out, "--help --version'\n"
                     "    [ \"$COMP_CWORD\" -le 2 ] || follow=''\n"
                     "    case $word in -*) [ \"$COMP_CWORD\" -eq 1 ] || follow=$long ;; esac\n"
                     "    mapfile -t COMPREPLY < <(compgen -W \"$follow\" -- \"$word\")\n"
                     "}\n"
                     "complete -o default -F _semel semel\n");
}

static void add_description(buffer *out, const command *each)
{
    buffer line = {0};
    buffer_printf(&line, "%s:%s", each->name, each->summary);
    buffer_text(out, "    ");
    add_quoted(out, line.data);
    buffer_text(out, "\n");
    buffer_free(&line);
}

static void add_zsh(buffer *out)
{
    buffer_text(out, "#compdef semel\n"
                     "local long='' follow=''\n"
                     "local -a commands=(\n");
    visit(out, add_description);
    buffer_text(out, ")\n"
                     "if ((CURRENT == 2)); then\n"
                     "    _describe command commands\n"
                     "    return\n"
                     "fi\n"
                     "case $words[2] in\n");
    visit(out, add_case);
    buffer_text(out, "esac\n"
                     "if [[ $PREFIX == -* ]]; then\n"
                     "    compadd -- ${=long}\n"
                     "elif ((CURRENT == 3)) && [[ -n $follow ]]; then\n"
                     "    compadd -- ${=follow}\n"
                     "else\n"
                     "    _files\n"
                     "fi\n");
}

static void add_fish_options(buffer *out, const command *each)
{
    buffer options = {0};
    help_options(&options, each);
    for (const char *at = options.data; *at;) {
        size_t len = strcspn(at, " ");
        buffer_printf(out, "complete -c semel -n '__fish_seen_subcommand_from %s' -l %.*s\n",
                      each->name, (int)(len - 2), at + 2);
        at += len + (at[len] == ' ');
    }
    buffer_free(&options);
}

static void add_fish_command(buffer *out, const command *each)
{
    buffer words = {0};
    buffer_printf(out, "complete -c semel -n __fish_use_subcommand -f -a %s -d ", each->name);
    add_quoted(out, each->summary);
    buffer_text(out, "\n");
    help_words(&words, each);
    if (words.data)
        buffer_printf(out, "complete -c semel -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                      each->name, words.data);
    buffer_free(&words);
    add_fish_options(out, each);
}

int cmd_completion(int argc, char **argv)
{
    buffer text = {0};
    const char *shell = argc == 2 ? argv[1] : "";
    if (strcmp(shell, "bash") == 0)
        add_bash(&text);
    else if (strcmp(shell, "zsh") == 0)
        add_zsh(&text);
    else if (strcmp(shell, "fish") == 0)
        visit(&text, add_fish_command);
    else
        return cli_usage("completion", "expected bash, zsh or fish");
    (void)fputs(text.data, stdout);
    buffer_free(&text);
    return CLI_OK;
}
