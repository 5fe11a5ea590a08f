/* See tree_fault.h. libyaml says where it stopped and what it was reading; the line there shows
 * what the writer meant. */
#include "program/config/tree_fault.h"

#include "program/support/encoding.h"

#include <string.h>
#include <yaml.h>

typedef struct mistake {
    tree_fault *out;
    region *memory;
    place at;         /* where libyaml stopped */
    const char *line; /* that line */
    size_t len;
    size_t offset; /* the byte of the line where it stopped */
} mistake;

static int find_line(mistake *m, const config_source *source, uint32_t line, uint32_t column)
{
    m->at = (place){source, line, column, 1};
    m->line = tree_line(source, line, &m->len);
    m->offset = m->line ? encoding_bytes(m->line, m->len, column - 1) : 0;
    return m->line != NULL;
}

static int found(const mistake *m, size_t from, size_t len, const char *code, const char *text)
{
    place at = m->at;
    at.column = encoding_characters(m->line, from) + 1;
    at.length = encoding_characters(m->line + from, len);
    *m->out = (tree_fault){at, code, text};
    return 1;
}

/* --- a tab in front --------------------------------------------------------------------------- */

static int tab_in_indentation(const mistake *m)
{
    size_t spaces = 0;
    while (spaces < m->len && m->line[spaces] == ' ')
        spaces++;
    return spaces < m->len && m->line[spaces] == '\t' &&
           found(m, spaces, 1, "tab", "tab in indentation; indent YAML with spaces");
}

/* --- a pattern without quotes ----------------------------------------------------------------- */

static int alias_at(const mistake *m, size_t from)
{
    size_t end = from;
    if (from >= m->len || m->line[from] != '*')
        return 0;
    while (end < m->len && !strchr(" \t,]}", m->line[end]) &&
           !(m->line[end] == ':' && (end + 1 == m->len || m->line[end + 1] == ' ')))
        end++;
    const char *text =
        region_printf(m->memory, "an unquoted * is a YAML alias; quote the pattern: \"%.*s\"",
                      (int)(end - from), m->line + from);
    return found(m, from, end - from, "alias", text);
}

void tree_fault_alias(tree_fault *out, region *memory, place at)
{
    mistake m = {.out = out, .memory = memory};
    if (find_line(&m, at.source, at.line, at.column) && alias_at(&m, m.offset))
        return;
    *out = (tree_fault){at, "alias", "YAML aliases are not used here; write the value"};
}

/* --- text behind a quoted string -------------------------------------------------------------- */

/* The quoted text that ends right before `end`, in a line without one that is open. */
static size_t opening_quote(const mistake *m, size_t end)
{
    for (size_t i = 0; i < end;) {
        char quote = m->line[i];
        size_t close = i + 1;
        if ((quote != '"' && quote != '\'') || (i && !strchr(" [{,", m->line[i - 1]))) {
            i++;
            continue;
        }
        while (close < m->len && m->line[close] != quote)
            close += m->line[close] == '\\' && quote == '"' ? 2 : 1;
        if (close + 1 == end)
            return i;
        i = close + 1;
    }
    return SIZE_MAX;
}

static int text_behind_quotes(const mistake *m)
{
    size_t end = m->offset;
    if (end == 0 || end >= m->len || strchr(" \t,:]}#", m->line[end]))
        return 0;
    size_t start = opening_quote(m, end), last = end;
    if (start == SIZE_MAX)
        return 0;
    while (last < m->len && !strchr(" \t,]}", m->line[last]))
        last++;
    const char *quotes = memchr(m->line + start, '"', last - start) ? "'" : "\"";
    const char *text = region_printf(m->memory,
                                     "unexpected text after the quoted string; quote the whole "
                                     "value: %s%.*s%s",
                                     quotes, (int)(last - start), m->line + start, quotes);
    return found(m, start, end - start, "quotes", text);
}

/* --- ${...} between brackets ------------------------------------------------------------------ */

static int brackets_of_substitution(const mistake *m)
{
    for (size_t i = m->offset < m->len ? m->offset + 1 : m->len; i-- > 1;)
        if (m->line[i] == '{' && m->line[i - 1] == '$')
            return found(m, i - 1, 2, "substitution",
                         "quote a value with ${...} between [ ] or { }: \"${NAME}\"");
    return 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int explain_line(mistake *m, const config_source *source, yaml_mark_t mark)
{
    return find_line(m, source, (uint32_t)mark.line + source->first_line,
                     (uint32_t)mark.column + 1) &&
           (tab_in_indentation(m) || alias_at(m, m->offset) || text_behind_quotes(m) ||
            brackets_of_substitution(m));
}

static void generic(mistake *m, const config_source *source, const yaml_parser_t *parser)
{
    const char *what = parser->problem ? parser->problem : "it cannot be read";
    size_t len = 0;
    const char *line =
        tree_line(source, (uint32_t)parser->problem_mark.line + source->first_line, &len);
    /* at the end of the file nothing is to be seen: what was begun there is shown */
    yaml_mark_t mark =
        parser->context && (!line || !len) ? parser->context_mark : parser->problem_mark;
    place at = {source, (uint32_t)mark.line + source->first_line, (uint32_t)mark.column + 1, 1};
    if (parser->error == YAML_READER_ERROR) {
        at = (place){source, 0, 0, 0};
        *m->out = (tree_fault){at, "encoding", "this is not UTF-8 text"};
        return;
    }
    const char *text =
        region_printf(m->memory, "not valid YAML: %s%s%s", what, parser->context ? " " : "",
                      parser->context ? parser->context : "");
    *m->out = (tree_fault){at, "yaml", text};
}

void tree_fault_explain(tree_fault *out, region *memory, const config_source *source,
                        const yaml_parser_t *parser)
{
    mistake m = {.out = out, .memory = memory};
    if (parser->error == YAML_SCANNER_ERROR || parser->error == YAML_PARSER_ERROR)
        if (explain_line(&m, source, parser->problem_mark) ||
            (parser->context && explain_line(&m, source, parser->context_mark)))
            return;
    generic(&m, source, parser);
}
