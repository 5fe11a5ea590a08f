/* See help_text.h. */
#include "program/command/help_text.h"

#include "program/command/help_topics.h"
#include "program/support/roff.h"

#include <stdio.h>
#include <string.h>

static const char lower_case[] = "abcdefghijklmnopqrstuvwxyz";

/* --- for completion --------------------------------------------------------------------------- */

static void add_word(buffer *out, const char *word, size_t len)
{
    char wanted[64];
    int size = snprintf(wanted, sizeof wanted, " %.*s ", (int)len, word);
    buffer all = {0};
    buffer_printf(&all, " %s", out->data ? out->data : "");
    if (size > 0 && (size_t)size < sizeof wanted && !strstr(all.data, wanted))
        buffer_text(out, wanted + 1);
    buffer_free(&all);
}

static void add_options(buffer *out, const char *text)
{
    for (const char *at = text; (at = strstr(at, "--")); at += 2) {
        size_t len = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        int begins = at == text || strchr(" [(,\n", at[-1]) != NULL;
        if (begins && len > 0 && at[2] != '-')
            add_word(out, at, len + 2);
    }
}

/* Commands for operators have options in common, which their own pages do not repeat. A command
 * that is named beside another one belongs to its group. */
static int has_common_options(const command *of)
{
    size_t count;
    const char *group = "";
    const command *all = cli_commands(&count);
    for (size_t i = 0; i < count && all + i <= of; i++)
        if (all[i].group && *all[i].group)
            group = all[i].group;
    return strcmp(group, "inspect") == 0;
}

void help_options(buffer *out, const command *of)
{
    add_options(out, of->help);
    if (has_common_options(of))
        add_options(out, help_topics[0].text);
    add_word(out, "--help", strlen("--help"));
}

static void add_commands(buffer *out)
{
    size_t count;
    const command *all = cli_commands(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].summary)
            add_word(out, all[i].name, strlen(all[i].name));
}

/* What follows the name of the command in a line of usage. */
static void add_follower(buffer *out, const char *at)
{
    if (strncmp(at, "[COMMAND]", strlen("[COMMAND]")) == 0)
        add_commands(out);
    for (size_t len; (len = strspn(at, lower_case)) > 0; at += len + (at[len] == '|'))
        add_word(out, at, len);
}

void help_words(buffer *out, const command *of)
{
    static const char usage[] = "usage: ", more[] = "       ";
    char name[64];
    int len = snprintf(name, sizeof name, "semel %s ", of->name);
    for (const char *line = of->help;
         strncmp(line, usage, strlen(usage)) == 0 || strncmp(line, more, strlen(more)) == 0;
         line += strcspn(line, "\n") + 1)
        if (strncmp(line + strlen(usage), name, (size_t)len) == 0)
            add_follower(out, line + strlen(usage) + len);
}

/* --- for manual pages ------------------------------------------------------------------------- */

typedef enum line_kind { LINE_EMPTY, LINE_USAGE, LINE_ITEM, LINE_MORE, LINE_TEXT } line_kind;

/* How long what an item is about is: up to two spaces, or to the end of the line. */
static size_t tag_length(const char *text, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++)
        if (text[i] == ' ' && text[i + 1] == ' ')
            return i;
    return len;
}

static line_kind kind_of(const char *line, size_t len, line_kind before)
{
    size_t indent = strspn(line, " ");
    if (len == 0)
        return LINE_EMPTY;
    if (strncmp(line, "usage:", strlen("usage:")) == 0 || (before == LINE_USAGE && indent))
        return LINE_USAGE;
    if (indent == 2)
        return LINE_ITEM;
    if (indent)
        return LINE_MORE;
    size_t word = strcspn(line, " \n");
    return word + 1 < len && line[word + 1] == ' ' ? LINE_ITEM : LINE_TEXT;
}

static void add_item(buffer *out, const char *line, size_t len)
{
    size_t tag = tag_length(line, len);
    size_t gap = tag + strspn(line + tag, " ");
    buffer_text(out, ".TP\n.B ");
    roff_text(out, line, tag);
    buffer_text(out, "\n");
    if (gap >= len)
        return;
    roff_text(out, line + gap, len - gap);
    buffer_text(out, "\n");
}

static void add_usage(buffer *out, const char *line, size_t len)
{
    size_t skipped = strlen("usage: ");
    roff_text(out, line + (skipped < len ? skipped : len), skipped < len ? len - skipped : 0);
    buffer_text(out, "\n");
}

/* What has to come between a line and the one before it. */
static void change(buffer *out, line_kind before, line_kind now)
{
    if (now == LINE_USAGE && before != LINE_USAGE)
        buffer_text(out, ".EX\n");
    if (before == LINE_USAGE && now != LINE_USAGE)
        buffer_text(out, ".EE\n");
    if (now == LINE_TEXT && before != LINE_TEXT)
        buffer_text(out, ".PP\n");
}

void help_manual(buffer *out, const command *of)
{
    line_kind before = LINE_EMPTY;
    for (const char *line = of->help; *line;) {
        size_t len = strcspn(line, "\n");
        line_kind kind = kind_of(line, len, before);
        change(out, before, kind);
        size_t indent = strspn(line, " ");
        if (kind == LINE_USAGE)
            add_usage(out, line, len);
        else if (kind == LINE_ITEM)
            add_item(out, line + indent, len - indent);
        else if (kind != LINE_EMPTY) {
            roff_text(out, line + indent, len - indent);
            buffer_text(out, "\n");
        }
        before = kind;
        line += len + (line[len] == '\n');
    }
}
