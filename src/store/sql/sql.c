/* An application's statement is read piece by piece: space, comment, word, quoted text, mark, or
 * one character of anything else. What a piece is depends on the dialect; what is done with it does
 * not. No statement is understood beyond its first two words.
 *
 * This guards against mistakes, not against malice: the author of the statements can run others.
 * The list of words catches what would commit half a unit; the drivers notice what slips through (a
 * procedure that commits) by the state of the connection. */
#include "store/sql/sql.h"

#include "base/text.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

semel_status sql_check_name(const char *what, const char *name, semel_error *err)
{
    size_t len = strlen(name), at = 0;
    while (at < len && ((is_letter(name[at]) && text_lower(name[at]) == name[at]) ||
                        (at && is_digit(name[at]))))
        at++;
    if (!len)
        return semel_fail(err, SEMEL_EINVAL, "%s: it is empty", what);
    if (at < len) {
        int shown = (int)utf8_sequence((const unsigned char *)name + at, len - at);
        return semel_fail(
            err, SEMEL_EINVAL,
            "%s: character %zu (%.*s) is not a small letter, _ or, but for the first, "
            "a digit",
            what, at + 1, shown, name + at);
    }
    if (len > SQL_NAME_MAX)
        return semel_fail(err, SEMEL_EINVAL, "%s: %zu characters; at most %d are allowed", what,
                          len, SQL_NAME_MAX);
    return SEMEL_OK;
}

const char *sql_fill(mem_arena *arena, const char *text, const char *name)
{
    size_t len = strlen(text), name_len = strlen(name), places = 0;
    for (const char *at = text; (at = strstr(at, "{}")); at += 2)
        places++;
    char *out = arena_alloc(arena, len + places * name_len + 1), *to = out;
    if (!out)
        return NULL;
    for (const char *at; (at = strstr(text, "{}")); text = at + 2) {
        memcpy(to, text, (size_t)(at - text));
        to += at - text;
        memcpy(to, name, name_len);
        to += name_len;
    }
    memcpy(to, text, strlen(text) + 1);
    return out;
}

size_t sql_head(const char *sql)
{
    size_t len = strcspn(sql, "'\"`([$?=<>");
    if (len > SQL_NAME_MAX)
        len = SQL_NAME_MAX;
    while (len && ((unsigned char)sql[len] & 0xC0) == 0x80) /* inside a character */
        len--;
    while (len && sql[len - 1] == ' ')
        len--;
    return len;
}

/* --- pieces: their lengths -------------------------------------------------------------------- */

static const size_t unended = (size_t)-1;

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Of names and numbers, once they have begun. */
static int is_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '$' || (unsigned char)c >= 0x80;
}

static size_t space_length(const char *at)
{
    size_t len = 0;
    while (is_space(at[len]))
        len++;
    return len;
}

/* SQLite takes a byte order mark for a space: behind one, COMMIT is still COMMIT. */
static size_t order_mark_length(sql_dialect dialect, const char *at)
{
    static const char mark[] = "\xef\xbb\xbf";
    return dialect == SQL_SQLITE && strncmp(at, mark, 3) == 0 ? 3 : 0;
}

static size_t word_length(const char *at)
{
    size_t len = 0;
    while (is_word(at[len]) && (len || *at != '$'))
        len++;
    return len;
}

int sql_is_line_comment(sql_dialect dialect, const char *at)
{
    enum { DEL = 0x7f };
    if (dialect == SQL_MARIADB && at[0] == '#')
        return 1;
    if (at[0] != '-' || at[1] != '-')
        return 0;
    return dialect != SQL_MARIADB || (unsigned char)at[2] <= ' ' || at[2] == DEL;
}

/* Only PostgreSQL nests them. */
static size_t block_comment_length(sql_dialect dialect, const char *at)
{
    size_t len = 2;
    for (int depth = 1; depth; len++) {
        if (!at[len])
            return unended;
        if (at[len] == '*' && at[len + 1] == '/') {
            depth--;
            len++;
        } else if (dialect == SQL_POSTGRES && at[len] == '/' && at[len + 1] == '*') {
            depth++;
            len++;
        }
    }
    return len;
}

static size_t comment_length(sql_dialect dialect, const char *at)
{
    if (sql_is_line_comment(dialect, at))
        return strcspn(at, dialect == SQL_POSTGRES ? "\r\n" : "\n");
    return at[0] == '/' && at[1] == '*' ? block_comment_length(dialect, at) : 0;
}

/* From one quote to the other; a doubled one is inside. */
static size_t quoted_length(const char *at, char end, int backslash)
{
    for (size_t i = 1; at[i]; i++) {
        int escaped = backslash && at[i] == '\\' && at[i + 1];
        int doubled = at[i] == end && end != ']' && at[i + 1] == end;
        if (escaped || doubled)
            i++;
        else if (at[i] == end)
            return i + 1;
    }
    return unended;
}

/* PostgreSQL: a string goes on on the next line, as in E'a' <newline> 'b', and is an E'' there,
 * too. */
static size_t gap_length(const char *at)
{
    size_t len = 0, before;
    do {
        before = len;
        len += space_length(at + len);
        if (at[len] == '-' && at[len + 1] == '-')
            len += comment_length(SQL_POSTGRES, at + len);
    } while (len > before);
    int has_newline = strcspn(at, "\r\n") < len;
    return at[len] == '\'' && has_newline ? len : 0;
}

static size_t escaped_length(const char *at)
{
    size_t len = 1, gap = 0;
    if (at[1] != '\'')
        return 0;
    do {
        size_t more = quoted_length(at + len + gap, '\'', 1);
        if (more == unended)
            return unended;
        len += gap + more;
    } while ((gap = gap_length(at + len)));
    return len;
}

/* $$ ... $$ or $tag$ ... $tag$; 0 if it is neither. */
static size_t dollar_length(const char *at)
{
    size_t tag = 1;
    while (is_word(at[tag]) && at[tag] != '$')
        tag++;
    if (at[tag++] != '$')
        return 0;
    for (const char *end = at + tag; (end = strchr(end, '$')); end++)
        if (strncmp(end, at, tag) == 0)
            return (size_t)(end - at) + tag;
    return unended;
}

static size_t quote_length(sql_dialect dialect, const char *at)
{
    int backslash = dialect == SQL_MARIADB;
    switch (*at) {
    case '\'':
    case '"':
        return quoted_length(at, *at, backslash);
    case '`':
        return dialect == SQL_POSTGRES ? 0 : quoted_length(at, '`', 0);
    case '[':
        return dialect == SQL_SQLITE ? quoted_length(at, ']', 0) : 0;
    case '$':
        return dialect == SQL_POSTGRES ? dollar_length(at) : 0;
    case 'e':
    case 'E':
        return dialect == SQL_POSTGRES ? escaped_length(at) : 0;
    default:
        return 0;
    }
}

/* --- pieces: what they are -------------------------------------------------------------------- */

typedef enum piece_kind {
    PIECE_SPACE = 1, /* or a comment */
    PIECE_WORD,
    PIECE_QUOTED,
    PIECE_MARK,
    PIECE_QUESTION, /* ?? */
    PIECE_SEMICOLON,
    PIECE_OTHER
} piece_kind;

typedef struct piece {
    piece_kind kind;
    size_t len;
    const char *wrong; /* what, if it is */
} piece;

/* Marks that the database knows and we do not: they would take values that are not theirs. */
static int is_foreign_mark(sql_dialect dialect, const char *at)
{
    if (*at == '?')
        return is_digit(at[1]);
    if (dialect == SQL_POSTGRES)
        return *at == '$' && is_digit(at[1]);
    return dialect == SQL_SQLITE && (*at == ':' || *at == '@' || *at == '$' || *at == '#') &&
           is_word(at[1]);
}

/* MariaDB runs what is in them. */
static int is_executable_comment(sql_dialect dialect, const char *at)
{
    return dialect == SQL_MARIADB && (strncmp(at, "/*!", 3) == 0 || strncmp(at, "/*M!", 4) == 0);
}

static piece make_piece(piece_kind kind, size_t len)
{
    return (piece){kind, len, len == unended ? "it does not end" : NULL};
}

static piece next_piece(sql_dialect dialect, const char *at)
{
    size_t len;
    if (is_executable_comment(dialect, at))
        return (piece){PIECE_SPACE, 0, "a comment that the server would run"};
    if ((len = space_length(at)) || (len = order_mark_length(dialect, at)) ||
        (len = comment_length(dialect, at)))
        return make_piece(PIECE_SPACE, len);
    if (is_foreign_mark(dialect, at))
        return (piece){PIECE_MARK, 0, "values are marked by ? alone, in their order"};
    if ((len = quote_length(dialect, at)))
        return make_piece(PIECE_QUOTED, len);
    if ((len = word_length(at)))
        return make_piece(PIECE_WORD, len);
    if (at[0] == '?' && at[1] == '?')
        return (piece){PIECE_QUESTION, 2,
                       dialect == SQL_POSTGRES ? NULL : "no operator has a question mark here"};
    return make_piece(*at == '?' ? PIECE_MARK : *at == ';' ? PIECE_SEMICOLON : PIECE_OTHER, 1);
}

/* --- what must not be queued ------------------------------------------------------------------ */

enum {
    LITE = 1 << SQL_SQLITE,
    POST = 1 << SQL_POSTGRES,
    MARIA = 1 << SQL_MARIADB,
    ALL = LITE | POST | MARIA
};

/* The first word and, where it decides, the second; or any second but one. */
static const struct refusal {
    const char *first, *second, *but;
    int dialects;
    int commits; /* by the way: outside of a unit there is nothing to spoil */
} refusals[] = {
    {"BEGIN", NULL, NULL, ALL, 0},
    {"COMMIT", NULL, NULL, ALL, 0},
    {"END", NULL, NULL, ALL, 0},
    {"ROLLBACK", NULL, NULL, ALL, 0},
    {"SAVEPOINT", NULL, NULL, ALL, 0},
    {"RELEASE", NULL, NULL, ALL, 0},
    {"START", NULL, NULL, POST | MARIA, 0},
    {"ABORT", NULL, NULL, POST, 0},
    {"PREPARE", "TRANSACTION", NULL, POST, 0},
    {"SET", "TRANSACTION", NULL, POST, 0},
    {"SET", "SESSION", NULL, POST, 0},
    {"COPY", NULL, NULL, POST, 0}, /* waits for data that semel does not send */
    {"SET", NULL, NULL, MARIA, 0}, /* SET autocommit = 1 commits */
    {"XA", NULL, NULL, MARIA, 0},
    {"LOCK", NULL, NULL, MARIA, 0}, /* from here on, too */
    {"UNLOCK", NULL, NULL, MARIA, 0},
    {"CREATE", NULL, "TEMPORARY", MARIA, 1},
    {"DROP", NULL, "TEMPORARY", MARIA, 1},
    {"ALTER", NULL, NULL, MARIA, 1},
    {"TRUNCATE", NULL, NULL, MARIA, 1},
    {"RENAME", NULL, NULL, MARIA, 1},
    {"GRANT", NULL, NULL, MARIA, 1},
    {"REVOKE", NULL, NULL, MARIA, 1},
    {"ANALYZE", NULL, NULL, MARIA, 1},
    {"CHECK", NULL, NULL, MARIA, 1},
    {"OPTIMIZE", NULL, NULL, MARIA, 1},
    {"REPAIR", NULL, NULL, MARIA, 1},
    {"CACHE", NULL, NULL, MARIA, 1},
    {"LOAD", "INDEX", NULL, MARIA, 1},
    {"FLUSH", NULL, NULL, MARIA, 1},
    {"RESET", NULL, NULL, MARIA, 1},
    {"CHANGE", NULL, NULL, MARIA, 1},
    {"STOP", NULL, NULL, MARIA, 1},
    {"INSTALL", NULL, NULL, MARIA, 1},
    {"UNINSTALL", NULL, NULL, MARIA, 1},
};

typedef struct word {
    const char *at; /* NULL: there is none, or it is no word */
    size_t len;
} word;

static int word_is(word w, const char *capitals)
{
    size_t i = 0;
    while (i < w.len && capitals[i] && text_lower(w.at[i]) == text_lower(capitals[i]))
        i++;
    return i == w.len && !capitals[i];
}

static int is_refused(sql_dialect dialect, int alone, word first, word second)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        if (!(alone && r->commits) && (r->dialects & (1 << dialect)) && word_is(first, r->first) &&
            (!r->second || word_is(second, r->second)) && !(r->but && word_is(second, r->but)))
            return 1;
    }
    return 0;
}

int sql_only_changes_rows(const char *sql)
{
    static const char *const harmless[] = {"INSERT", "UPDATE", "DELETE", "REPLACE",
                                           "MERGE",  "SELECT", "WITH",   "VALUES"};
    word first = {.at = sql + strspn(sql, " \t\r\n\f(")};
    first.len = word_length(first.at);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (word_is(first, harmless[i]))
            return 1;
    return 0;
}

/* --- translation ------------------------------------------------------------------------------ */

typedef struct translation {
    sql_dialect dialect;
    const char *sql;
    const char *at;
    char *out;
    size_t len;
    size_t values;
    int alone; /* it is run outside of a unit */
    size_t marks;
    size_t tokens;
    word words[2];   /* the first two tokens */
    const char *end; /* the ; */
} translation;

static semel_status wrong(const translation *t, const char *at, const char *why, semel_error *err)
{
    return semel_fail(err, SEMEL_EINVAL, "queued statement, at character %zu: %s",
                      (size_t)(at - t->sql) + 1, why);
}

static void copy(translation *t, const char *from, size_t len)
{
    memcpy(t->out + t->len, from, len);
    t->len += len;
}

/* What comes in the place of a mark must not run into what stands beside it. For PostgreSQL that is
 * $1, and a$1 is a name. For MariaDB it is the value itself: LIMIT5 is a name, @5 a variable and
 * 5.5 a number. */
static int runs_into(sql_dialect dialect, char c)
{
    return is_word(c) || (dialect == SQL_MARIADB && (c == '.' || c == '@'));
}

static void put_apart(translation *t, const char *mark)
{
    char text[32];
    int before = t->len && runs_into(t->dialect, t->out[t->len - 1]);
    int after = runs_into(t->dialect, t->at[1]);
    int len = snprintf(text, sizeof text, "%s%s%s", before ? " " : "", mark, after ? " " : "");
    copy(t, text, (size_t)len);
}

static semel_status put_mark(translation *t, semel_error *err)
{
    if (++t->marks > t->values)
        return semel_fail(
            err, SEMEL_EINVAL,
            "queued statement, at character %zu: mark number %zu, but there are %zu values",
            (size_t)(t->at - t->sql) + 1, t->marks, t->values);
    char number[24];
    (void)snprintf(number, sizeof number, "$%zu", t->marks);
    if (t->dialect == SQL_SQLITE)
        copy(t, "?", 1);
    else
        put_apart(t, t->dialect == SQL_POSTGRES ? number : "?");
    return SEMEL_OK;
}

static semel_status put_piece(translation *t, const piece *p, semel_error *err)
{
    if (p->wrong)
        return wrong(t, t->at, p->wrong, err);
    if (p->kind != PIECE_SPACE && t->end)
        return wrong(t, t->at, "more than one statement", err);
    if (p->kind == PIECE_SEMICOLON)
        t->end = t->at;
    if (t->end)
        return SEMEL_OK;
    if (p->kind != PIECE_SPACE && t->tokens++ < 2)
        t->words[t->tokens - 1] = p->kind == PIECE_WORD ? (word){t->at, p->len} : (word){NULL, 0};
    if (p->kind == PIECE_MARK)
        return put_mark(t, err);
    copy(t, t->at, p->kind == PIECE_QUESTION ? 1 : p->len);
    return SEMEL_OK;
}

/* What can be said when all of it was seen. */
static semel_status check_whole(const translation *t, semel_error *err)
{
    const word *first = &t->words[0];
    const char *end = t->end ? t->end : t->at;
    if (!t->tokens)
        return wrong(t, end, "there is no statement", err);
    if (first->at && is_refused(t->dialect, t->alone, *first, t->words[1]))
        return semel_fail(
            err, SEMEL_EINVAL,
            "queued statement, at character %zu: %.*s cannot be queued: the transaction "
            "and the connection are semel's to control",
            (size_t)(first->at - t->sql) + 1, (int)first->len, first->at);
    if (t->marks < t->values)
        return semel_fail(
            err, SEMEL_EINVAL,
            "queued statement, at character %zu: it ends after %zu marks, but there are "
            "%zu values",
            (size_t)(end - t->sql) + 1, t->marks, t->values);
    return SEMEL_OK;
}

static semel_status check_limits(size_t len, size_t values, semel_error *err)
{
    if (len > SEMEL_SQL_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "a queued statement of over %zu bytes, which is SEMEL_SQL_MAX",
                          SEMEL_SQL_MAX);
    if (values > SEMEL_VALUES_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "a queued statement with %zu values; SEMEL_VALUES_MAX is %zu", values,
                          SEMEL_VALUES_MAX);
    return SEMEL_OK;
}

static semel_status translate(translation *t, mem_arena *arena, semel_error *err)
{
    enum { MARK_GROWTH = sizeof " $1000 " - sizeof "?" };
    size_t len = strnlen(t->sql, SEMEL_SQL_MAX + 1);
    semel_status status = check_limits(len, t->values, err);
    t->at = t->sql;
    if (status)
        return status;
    t->out = arena_alloc(arena, len + t->values * MARK_GROWTH + 1);
    if (!t->out)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a statement");
    while (!status && *t->at) {
        piece p = next_piece(t->dialect, t->at);
        status = put_piece(t, &p, err);
        t->at += status ? 0 : p.len;
    }
    if (!status)
        status = check_whole(t, err);
    t->out[t->len] = 0;
    return status;
}

semel_status sql_translate(const char **out, mem_arena *arena, sql_dialect dialect, const char *sql,
                           size_t values, semel_error *err)
{
    return sql_translate_at(out, arena, dialect, sql, values, NULL, err);
}

semel_status sql_translate_at(const char **out, mem_arena *arena, sql_dialect dialect,
                              const char *sql, size_t values, size_t *position, semel_error *err)
{
    translation t = {.dialect = dialect, .sql = sql, .values = values};
    semel_status status = translate(&t, arena, err);
    if (!status)
        *out = t.out;
    else if (position)
        *position = (size_t)(t.at - sql) + 1;
    return status;
}

semel_status sql_translate_alone(const char **out, mem_arena *arena, sql_dialect dialect,
                                 const char *sql, semel_error *err)
{
    translation t = {.dialect = dialect, .sql = sql, .alone = 1};
    semel_status status = translate(&t, arena, err);
    if (!status)
        *out = t.out;
    return status;
}

/* What the translation copies stays as long as it is; only a mark grows or shrinks. */
size_t sql_position(mem_arena *arena, sql_dialect dialect, const char *sql, size_t values,
                    size_t translated)
{
    translation t = {.dialect = dialect, .sql = sql, .at = sql, .values = values};
    enum { MARK_GROWTH = sizeof " $1000 " - sizeof "?" };
    t.out = arena_alloc(arena, strlen(sql) + values * MARK_GROWTH + 1);
    for (size_t before = 0; t.out && *t.at; before = t.len) {
        piece p = next_piece(dialect, t.at);
        if (put_piece(&t, &p, NULL))
            break;
        if (translated < t.len)
            return (size_t)(t.at - sql) + (p.kind == PIECE_MARK ? 0 : translated - before) + 1;
        t.at += p.len;
    }
    return 0;
}
