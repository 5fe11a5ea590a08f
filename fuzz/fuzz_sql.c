/* Queued statements: the input is the text of one, as an application would write it. In each
 * dialect:
 *
 *  - There is at most one number of values with which a statement is accepted, and it is the number
 *    of marks that the model counts (sql_model.h). What comes out is what the model says: quoted
 *    texts and comments as they were, every mark in its place and apart from words, nothing behind
 *    the semicolon.
 *  - Whatever the input is, in any kind of quotes or comment of the dialect it is left alone, and
 *    the mark behind it is found.
 *  - SQLite itself agrees wherever it understands the statement: it counts as many parameters, sees
 *    one statement and no more, and none that begins or ends a transaction; and a statement that it
 *    takes is not refused.
 *  - What MariaDB gets to read, values included, is the text with the values in place of the marks
 *    (sql_mariadb.c).
 *  - The beginning that errors show ends before the first value, and between characters.
 *  - A name that is accepted needs no quoting, and filling in {} for {} changes nothing. */
#include "base/utf8.h"
#include "property.h"
#include "sql_model.h"
#include "sql_parts.h"

#include <sqlite3.h>

enum { MARKS_MAX = 40, QUOTED_MAX = 2000 };

/* --- translation ------------------------------------------------------------------------------ */

static size_t count_characters(const char *text, char c)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == c;
    return count;
}

static void check_translation(sql_dialect dialect, const char *sql, size_t values, const char *out)
{
    sql_model model;
    sql_model_run(&model, dialect, sql, NULL, NULL);
    HOLDS_FOR(out, model.ended);
    HOLDS_FOR(out, model.marks == values);
    HOLDS_FOR(out, strcmp(model.text.bytes, out) == 0);
    mem_free(model.text.bytes);
}

/* The number of values with which it is accepted; -1 if there is none. */
static long accepted_values(sql_dialect dialect, const char *sql)
{
    size_t most = count_characters(sql, '?');
    long accepted = -1;
    for (size_t values = 0; values <= most; values++) {
        mem_arena arena = {0};
        semel_error err = {0};
        const char *out = NULL;
        semel_status status = sql_translate(&out, &arena, dialect, sql, values, &err);
        if (status) {
            check_error(status, &err);
            HOLDS(status == SEMEL_EINVAL && !out);
        } else {
            HOLDS_FOR(out, accepted < 0);
            accepted = (long)values;
            check_translation(dialect, sql, values, out);
        }
        arena_free(&arena);
    }
    return accepted;
}

/* --- SQLite's own opinion --------------------------------------------------------------------- */

static int saw_transaction;

/* Called while a statement is compiled. Pragmas are refused, since some act even then. */
static int authorize(void *context, int action, const char *a, const char *b, const char *c,
                     const char *d)
{
    (void)context, (void)a, (void)b, (void)c, (void)d;
    saw_transaction |= action == SQLITE_TRANSACTION || action == SQLITE_SAVEPOINT;
    return action == SQLITE_PRAGMA || action == SQLITE_ATTACH ? SQLITE_DENY : SQLITE_OK;
}

static sqlite3 *database(void)
{
    static sqlite3 *db;
    if (db)
        return db;
    HOLDS(sqlite3_open(":memory:", &db) == SQLITE_OK);
    HOLDS(sqlite3_exec(db, "CREATE TABLE t (a, b, c); CREATE TABLE charge (id, customer, cents);",
                       NULL, NULL, NULL) == SQLITE_OK);
    HOLDS(sqlite3_set_authorizer(db, authorize, NULL) == SQLITE_OK);
    return db;
}

/* SQLite has understood a text that was accepted with so many values. */
static void check_accepted(sqlite3_stmt *stmt, const char *tail, size_t values, const char *out)
{
    HOLDS_FOR(out, stmt); /* NULL: it saw no statement */
    HOLDS_FOR(out, !*tail);
    HOLDS_FOR(out, (size_t)sqlite3_bind_parameter_count(stmt) == values);
    HOLDS_FOR(out, !saw_transaction || sqlite3_stmt_isexplain(stmt));
}

static int has_named_parameters(sqlite3_stmt *stmt)
{
    for (int i = sqlite3_bind_parameter_count(stmt); i; i--)
        if (sqlite3_bind_parameter_name(stmt, i))
            return 1;
    return 0;
}

/* Left out is what sql.h refuses by itself. SQLite ends an open comment at the end, and passes over
 * semicolons. */
static void check_refused(sqlite3_stmt *stmt, const char *sql)
{
    HOLDS(!stmt || saw_transaction || has_named_parameters(stmt) || strstr(sql, "/*") ||
          strchr(sql, ';'));
}

static void check_with_sqlite(const char *sql, long accepted)
{
    sqlite3_stmt *stmt = NULL;
    const char *tail = NULL, *out = sql;
    mem_arena arena = {0};
    if (accepted >= 0)
        HOLDS(sql_translate(&out, &arena, SQL_SQLITE, sql, (size_t)accepted, NULL) == SEMEL_OK);
    saw_transaction = 0;
    int code = sqlite3_prepare_v2(database(), out, -1, &stmt, &tail);
    if (code == SQLITE_OK && accepted >= 0)
        check_accepted(stmt, tail, (size_t)accepted, out);
    if (code == SQLITE_OK && accepted < 0)
        check_refused(stmt, sql);
    (void)sqlite3_finalize(stmt);
    arena_free(&arena);
}

/* --- whatever is in quotes -------------------------------------------------------------------- */

enum { L = 1 << SQL_SQLITE, P = 1 << SQL_POSTGRES, M = 1 << SQL_MARIADB };

static const struct quoting {
    int dialects;
    const char *begin, *end;
    const char *doubled; /* characters that are written twice */
    const char *not_in;  /* texts with any of these characters cannot be written so */
} quotings[] = {
    {L | P, "'", "'", "'", ""},
    {L | P, "\"", "\"", "\"", ""},
    {M, "'", "'", "'\\", ""},
    {M, "\"", "\"", "\"\\", ""},
    {L | M, "`", "`", "`", ""},
    {L, "[", "]", "", "]"},
    {P, "E'", "'", "'\\", ""},
    {P, "$q$", "$q$", "", "$"},
    {P, "$$", "$$", "", "$"},
    {L | P | M, "/* ", " */", "", "*"},
    {L | P | M, "-- ", "\n", "", "\r\n"},
    {M, "#", "\n", "", "\n"},
};

static void append_doubling(text_buffer *to, const char *text, const char *doubled)
{
    for (; *text; text++) {
        text_append(to, text, 1);
        if (strchr(doubled, *text))
            text_append(to, text, 1);
    }
}

static void check_quoting(const struct quoting *q, sql_dialect dialect, const char *text)
{
    text_buffer sql = {0};
    mem_arena arena = {0};
    const char *out = NULL;
    if (strpbrk(text, q->not_in))
        return;
    text_append_z(&sql, "SELECT ");
    text_append_z(&sql, q->begin);
    append_doubling(&sql, text, q->doubled);
    text_append_z(&sql, q->end);
    size_t before = sql.len;
    text_append(&sql, ",?", sizeof ",?");
    HOLDS_FOR(sql.bytes, sql_translate(&out, &arena, dialect, sql.bytes, 1, NULL) == SEMEL_OK);
    HOLDS_FOR(out, strncmp(out, sql.bytes, before) == 0);
    HOLDS_FOR(out, strcmp(out + before, dialect == SQL_POSTGRES ? ",$1" : ",?") == 0);
    mem_free(sql.bytes);
    arena_free(&arena);
}

static void check_quotings(const char *text)
{
    for (size_t i = 0; i < sizeof quotings / sizeof *quotings; i++)
        for (sql_dialect d = SQL_SQLITE; d <= SQL_MARIADB; d++)
            if (quotings[i].dialects & (1 << d))
                check_quoting(&quotings[i], d, text);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void check_head(const char *sql)
{
    size_t head = sql_head(sql);
    HOLDS(head <= SQL_NAME_MAX && head <= strlen(sql));
    HOLDS(strcspn(sql, "'\"`([$?=<>") >= head);
    HOLDS(!utf8_valid(sql, strlen(sql)) || utf8_valid(sql, head));
}

static void check_names(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    semel_error err = {0};
    mem_arena arena = {0};
    semel_status status = sql_check_name("name", name, &err);
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789");
    int good = *name && strchr(letters, *name) && !name[len] && len <= SQL_NAME_MAX;
    HOLDS(status == (good ? SEMEL_OK : SEMEL_EINVAL));
    if (status)
        check_error(status, &err);
    HOLDS(strcmp(sql_fill(&arena, name, "{}"), name) == 0);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *sql = exact_text(data, size);
    check_head(sql);
    check_names(sql);
    (void)sql_only_changes_rows(sql);
    if (count_characters(sql, '?') <= MARKS_MAX) {
        check_with_sqlite(sql, accepted_values(SQL_SQLITE, sql));
        (void)accepted_values(SQL_POSTGRES, sql);
        check_mariadb_queue(sql, accepted_values(SQL_MARIADB, sql));
    }
    if (strlen(sql) <= QUOTED_MAX)
        check_quotings(sql);
    free(sql);
    return 0;
}
