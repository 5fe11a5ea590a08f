/* A state machine. In all states but CODE a character is copied, whatever it is. */
#include "sql_model.h"

#include <stdio.h>
#include <string.h>

typedef enum mode { CODE, LINE_COMMENT, BLOCK_COMMENT, QUOTE, DOLLAR_QUOTE } mode;

typedef struct machine {
    sql_dialect dialect;
    const char *at;
    sql_model *out;
    sql_filler *fill;
    void *context;
    mode in;
    int depth;         /* of comments */
    char quote;        /* that ends it */
    int backslash;     /* ... and one that a backslash takes its meaning */
    const char *tag;   /* of a dollar quote, both dollars included */
    size_t tag_len;    /* ... */
    int in_word;       /* the last character was of a word */
    int escaped_ended; /* an E'' has just ended, and may go on on the next line */
    int newline_since; /* ... which has come */
} machine;

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int touches_words(char c)
{
    return is_letter(c) || is_digit(c) || c == '$';
}

static void copy(machine *m, size_t len)
{
    text_append(&m->out->text, m->at, len);
    m->at += len;
}

/* --- where something begins ------------------------------------------------------------------- */

static int begins_line_comment(const machine *m)
{
    if (m->dialect == SQL_MARIADB)
        return m->at[0] == '#' || (m->at[0] == '-' && m->at[1] == '-' &&
                                   ((unsigned char)m->at[2] <= ' ' || m->at[2] == 0x7f));
    return m->at[0] == '-' && m->at[1] == '-';
}

/* The length of $tag$ if there is one here; else 0. */
static size_t tag_length(const machine *m)
{
    size_t len = 1;
    if (m->dialect != SQL_POSTGRES || m->at[0] != '$' || m->in_word || is_digit(m->at[1]))
        return 0;
    while (is_letter(m->at[len]) || is_digit(m->at[len]))
        len++;
    return m->at[len] == '$' ? len + 1 : 0;
}

static int begins_quote(const machine *m)
{
    switch (*m->at) {
    case '\'':
    case '"':
        return 1;
    case '`':
        return m->dialect != SQL_POSTGRES;
    case '[':
        return m->dialect == SQL_SQLITE;
    default:
        return 0;
    }
}

static void enter_quote(machine *m, int escaped)
{
    int continued = m->escaped_ended && m->newline_since && *m->at == '\'';
    m->in = QUOTE;
    m->quote = *m->at == '[' ? ']' : *m->at;
    m->backslash = escaped || continued || (m->dialect == SQL_MARIADB && m->quote != '`');
    copy(m, 1);
}

/* --- a step in each state --------------------------------------------------------------------- */

static void step_line_comment(machine *m)
{
    if (*m->at == '\n' || (*m->at == '\r' && m->dialect == SQL_POSTGRES))
        m->in = CODE;
    else
        copy(m, 1);
}

static void step_block_comment(machine *m)
{
    int closes = m->at[0] == '*' && m->at[1] == '/';
    int opens = m->dialect == SQL_POSTGRES && m->at[0] == '/' && m->at[1] == '*';
    m->depth += opens - closes;
    copy(m, opens || closes ? 2 : 1);
    if (!m->depth)
        m->in = CODE;
}

static void leave_quote(machine *m)
{
    m->in = CODE;
    m->in_word = 0;
    m->escaped_ended = m->dialect == SQL_POSTGRES && m->backslash;
    m->newline_since = 0;
}

static void step_quote(machine *m)
{
    char c = *m->at, after = m->at[1];
    if (m->backslash && c == '\\' && after)
        copy(m, 2);
    else if (c == m->quote && after == m->quote && m->quote != ']')
        copy(m, 2);
    else {
        copy(m, 1);
        if (c == m->quote)
            leave_quote(m);
    }
}

static void step_dollar_quote(machine *m)
{
    if (strncmp(m->at, m->tag, m->tag_len) != 0) {
        copy(m, 1);
        return;
    }
    copy(m, m->tag_len);
    m->in = CODE;
    m->in_word = 0;
}

static char last_of(const machine *m)
{
    return m->out->text.len ? m->out->text.bytes[m->out->text.len - 1] : 0;
}

/* PostgreSQL's numbers, and the values that MariaDB gets, must not run into what stands beside
 * them. */
static void put_mark(machine *m)
{
    char number[32], before = last_of(m), after = m->at[1];
    int maria = m->dialect == SQL_MARIADB;
    int apart = maria || m->dialect == SQL_POSTGRES;
    if (apart && (touches_words(before) || (maria && (before == '.' || before == '@'))))
        text_append_z(&m->out->text, " ");
    m->out->marks++;
    (void)snprintf(number, sizeof number, m->dialect == SQL_POSTGRES ? "$%zu" : "?", m->out->marks);
    if (m->fill)
        m->fill(&m->out->text, m->out->marks - 1, m->context);
    else
        text_append_z(&m->out->text, number);
    if (apart && (touches_words(after) || (maria && (after == '.' || after == '@'))))
        text_append_z(&m->out->text, " ");
    m->at++;
    m->in_word = 0;
}

static void note_word(machine *m)
{
    char c = *m->at;
    m->in_word = is_letter(c) || is_digit(c) || (c == '$' && m->in_word);
}

static void note_gap(machine *m)
{
    char c = *m->at;
    m->newline_since |= c == '\n' || c == '\r';
    if (c != ' ' && !(c >= '\t' && c <= '\r'))
        m->escaped_ended = 0;
}

static void step_code(machine *m)
{
    if (begins_line_comment(m)) {
        m->in = LINE_COMMENT;
        m->in_word = 0;
        if (m->at[0] != '-')
            m->escaped_ended = 0;
        copy(m, 1);
    } else if (m->at[0] == '/' && m->at[1] == '*') {
        m->in = BLOCK_COMMENT;
        m->depth = 1;
        m->in_word = m->escaped_ended = 0;
        copy(m, 2);
    } else if ((m->tag_len = tag_length(m))) {
        m->in = DOLLAR_QUOTE;
        m->tag = m->at;
        m->escaped_ended = 0;
        copy(m, m->tag_len);
    } else if (m->dialect == SQL_POSTGRES && !m->in_word && (*m->at | 0x20) == 'e' &&
               m->at[1] == '\'') {
        copy(m, 1);
        enter_quote(m, 1);
    } else if (begins_quote(m)) {
        enter_quote(m, 0);
    } else if (m->dialect == SQL_POSTGRES && m->at[0] == '?' && m->at[1] == '?') {
        copy(m, 1);
        m->at++;
        m->in_word = m->escaped_ended = 0;
    } else if (*m->at == '?') {
        m->escaped_ended = 0;
        put_mark(m);
    } else {
        note_word(m);
        note_gap(m);
        copy(m, 1);
    }
}

void sql_model_run(sql_model *out, sql_dialect dialect, const char *sql, sql_filler *fill,
                   void *context)
{
    static void (*const steps[])(machine *) = {step_code, step_line_comment, step_block_comment,
                                               step_quote, step_dollar_quote};
    machine m = {.dialect = dialect, .at = sql, .out = out, .fill = fill, .context = context};
    *out = (sql_model){0};
    while (*m.at && !(m.in == CODE && *m.at == ';'))
        steps[m.in](&m);
    out->ended = m.in == CODE || m.in == LINE_COMMENT;
    text_append(&out->text, "", 1);
}
