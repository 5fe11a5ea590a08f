/* A statement is read piece by piece: comment, word, quoted text, value, or one character of
 * anything else. What is quoted must be what the library's own reader takes for quoted
 * (src/store/sql/sql.c has the rules, dialect by dialect), and what the database does: a value
 * inside quotes would else be bound, or a bound one be read as text. If they disagree, the numbers
 * of marks do, and the library refuses the statement when it is checked. */
#include "program/handler/value_sql.h"

#include <string.h>

sql_kind sql_kind_of(const char *store_url)
{
    static const struct {
        const char *scheme;
        sql_kind kind;
    } known[] = {{"sqlite:", SQL_KIND_SQLITE},
                 {"postgres:", SQL_KIND_POSTGRES},
                 {"postgresql:", SQL_KIND_POSTGRES},
                 {"mariadb:", SQL_KIND_MARIADB},
                 {"mysql:", SQL_KIND_MARIADB}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(store_url, known[i].scheme, strlen(known[i].scheme)) == 0)
            return known[i].kind;
    return (sql_kind)0;
}

sql_kind statement_kind_of(const char *store_url)
{
    static const char *const redis[] = {"redis:", "rediss:", "valkey:", "valkeys:"};
    for (size_t i = 0; i < sizeof redis / sizeof *redis; i++)
        if (strncmp(store_url, redis[i], strlen(redis[i])) == 0)
            return SQL_KIND_REDIS;
    if (strncmp(store_url, "dynamodb:", strlen("dynamodb:")) == 0)
        return SQL_KIND_DYNAMODB;
    return sql_kind_of(store_url);
}

/* --- pieces ----------------------------------------------------------------------------------- */

static const size_t unended = (size_t)-1;

/* The others have neither comments nor backquotes, and backslashes in what is between ". */
static int is_sql(sql_kind kind)
{
    return kind != SQL_KIND_REDIS && kind != SQL_KIND_DYNAMODB;
}

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

static size_t word_length(const char *at)
{
    size_t len = 0;
    while (is_word(at[len]) && (len || *at != '$'))
        len++;
    return len;
}

static int is_line_comment(sql_kind kind, const char *at)
{
    enum { DEL = 0x7f };
    if (kind == SQL_KIND_MARIADB && *at == '#')
        return 1;
    if (at[0] != '-' || at[1] != '-')
        return 0;
    return kind != SQL_KIND_MARIADB || (unsigned char)at[2] <= ' ' || at[2] == DEL;
}

/* Only PostgreSQL nests them. */
static size_t block_comment_length(sql_kind kind, const char *at)
{
    size_t len = 2;
    for (int depth = 1; depth; len++) {
        if (!at[len])
            return unended;
        int ends = at[len] == '*' && at[len + 1] == '/';
        int begins = kind == SQL_KIND_POSTGRES && at[len] == '/' && at[len + 1] == '*';
        depth += begins - ends;
        len += (size_t)(begins || ends);
    }
    return len;
}

static size_t comment_length(sql_kind kind, const char *at)
{
    if (!is_sql(kind))
        return 0;
    if (is_line_comment(kind, at))
        return strcspn(at, kind == SQL_KIND_POSTGRES ? "\r\n" : "\n");
    return at[0] == '/' && at[1] == '*' ? block_comment_length(kind, at) : 0;
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

/* PostgreSQL: E'a' goes on behind a line break, as 'b' there, in which a backslash still
 * escapes. */
static size_t gap_length(const char *at)
{
    size_t len = 0, before;
    do {
        before = len;
        while (is_space(at[len]))
            len++;
        if (is_line_comment(SQL_KIND_POSTGRES, at + len))
            len += comment_length(SQL_KIND_POSTGRES, at + len);
    } while (len > before);
    return at[len] == '\'' && strcspn(at, "\r\n") < len ? len : 0;
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

static size_t quote_length(sql_kind kind, const char *at)
{
    int is_postgres = kind == SQL_KIND_POSTGRES;
    switch (*at) {
    case '\'':
    case '"':
        return quoted_length(at, *at, kind == SQL_KIND_MARIADB || (!is_sql(kind) && *at == '"'));
    case '`':
        return is_postgres || !is_sql(kind) ? 0 : quoted_length(at, '`', 0);
    case '[':
        return kind == SQL_KIND_SQLITE ? quoted_length(at, ']', 0) : 0;
    case '$':
        return is_postgres ? dollar_length(at) : 0;
    case 'e':
    case 'E':
        return is_postgres ? escaped_length(at) : 0;
    default:
        return 0;
    }
}

/* What is copied as it is, at least one character; `unended` if it does not end. */
static size_t opaque_length(sql_kind kind, const char *at)
{
    size_t len = comment_length(kind, at);
    if (!len)
        len = quote_length(kind, at);
    if (!len)
        len = word_length(at);
    if (!len && kind != SQL_KIND_REDIS && at[0] == ':' && (at[1] == ':' || at[1] == '='))
        len = 2;
    return len ? len : 1;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct scan {
    sql_kind kind;
    region *memory;
    const char *written;
    size_t len;
    size_t at;
    buffer text;
    size_t mark_end; /* of the text: behind the last mark */
    value_name *values;
    size_t count;
    struct value_sql_change *changes;
    size_t change_count;
    value_mistake *wrong;
} scan;

static int is_value(const char *at)
{
    return at[0] == ':' &&
           (at[1] == '{' || (is_word(at[1]) && at[1] != '$' && !(at[1] >= '0' && at[1] <= '9')));
}

/* Doubles the room for one more when the count is a power of two. */
static void *room_for(region *memory, void *old, size_t count, size_t size)
{
    if (count & (count - 1))
        return old;
    void *more = region_alloc(memory, (count ? 2 * count : 1) * size);
    if (count)
        memcpy(more, old, count * size);
    return more;
}

static void replace(scan *s, const char *by, size_t was)
{
    s->changes = room_for(s->memory, s->changes, s->change_count, sizeof *s->changes);
    s->changes[s->change_count++] = (struct value_sql_change){s->text.len, strlen(by), was};
    buffer_text(&s->text, by);
    s->at += was;
}

/* Two marks side by side would be one question mark. In a command of Redis a space would make two
 * words of one. */
static const char *mark(const scan *s)
{
    if (!s->text.len || s->text.data[s->text.len - 1] != '?')
        return "?";
    return s->kind == SQL_KIND_REDIS ? "''?" : " ?";
}

static int take_value(scan *s)
{
    s->values = room_for(s->memory, s->values, s->count, sizeof *s->values);
    size_t used = value_read(&s->values[s->count], s->memory, s->written, s->at, s->len, s->wrong);
    if (!used)
        return 0;
    if (++s->count > SEMEL_VALUES_MAX)
        return value_wrong(s->wrong, s->at, used, NULL, "more than %zu values in one statement",
                           SEMEL_VALUES_MAX);
    replace(s, mark(s), used);
    s->mark_end = s->text.len;
    return 1;
}

static int take_question(scan *s)
{
    if (s->kind != SQL_KIND_POSTGRES)
        return value_wrong(s->wrong, s->at, 1, NULL,
                           "? stands for nothing here; name the value, as in :json/order_id");
    replace(s, s->text.len && s->text.len == s->mark_end ? " ??" : "??", 1);
    return 1;
}

static int take_opaque(scan *s)
{
    size_t len = opaque_length(s->kind, s->written + s->at);
    if (len == unended)
        return value_wrong(s->wrong, s->at, 1, NULL, "this quote or comment does not end");
    buffer_add(&s->text, s->written + s->at, len);
    s->at += len;
    return 1;
}

static int take_piece(scan *s)
{
    const char *at = s->written + s->at;
    return is_value(at) ? take_value(s) : *at == '?' ? take_question(s) : take_opaque(s);
}

static int check_length(scan *s)
{
    return s->len <= SEMEL_SQL_MAX ||
           value_wrong(s->wrong, 0, 0, NULL, "a statement of %zu bytes; the most is %zu", s->len,
                       SEMEL_SQL_MAX);
}

int value_sql_read(value_sql *out, region *memory, sql_kind kind, const char *written,
                   value_mistake *wrong)
{
    scan s = {
        .kind = kind, .memory = memory, .written = written, .len = strlen(written), .wrong = wrong};
    int ok = check_length(&s);
    while (ok && s.at < s.len)
        ok = take_piece(&s);
    if (ok)
        *out = (value_sql){region_copy(memory, s.text.data, s.text.len), s.values, s.count,
                           s.changes, s.change_count};
    buffer_free(&s.text);
    return ok;
}

size_t value_sql_written(const value_sql *statement, size_t at)
{
    size_t moved = 0, back = 0;
    for (size_t i = 0; i < statement->change_count; i++) {
        const struct value_sql_change *c = &statement->changes[i];
        if (at < c->at)
            break;
        if (at < c->at + c->now)
            return c->at + moved - back;
        moved += c->was;
        back += c->now;
    }
    return at + moved - back;
}
