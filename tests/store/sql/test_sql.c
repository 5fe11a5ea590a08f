/* Names that become identifiers, and the application's statements in the three dialects. */
#include "store/sql/sql.h"
#include "support/base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 1 << SQL_SQLITE, P = 1 << SQL_POSTGRES, M = 1 << SQL_MARIADB, ALL = L | P | M };

static const char *name_of(sql_dialect dialect)
{
    return dialect == SQL_SQLITE ? "SQLite" : dialect == SQL_POSTGRES ? "PostgreSQL" : "MariaDB";
}

/* --- names ------------------------------------------------------------------------------------ */

static void a_name_is_made_of_few_characters(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a", "_", "semel", "semel_2", "_x9", "abcdefghijklmnopqrstuvwxyz_0123456789_abcdefghij"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        OK(sql_check_name("URL: schema", good[i], &last_error));
    assert_int_equal(strlen(good[5]), SQL_NAME_MAX);
}

static void a_bad_name_is_shown_where_it_is_bad(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says;
    } bad[] = {{"", "empty"},
               {"1a", "character 1 (1)"},
               {"Semel", "character 1 (S)"},
               {"se mel", "character 3 ( )"},
               {"semel;", "character 6 (;)"},
               {"a\"b", "character 2 (\")"},
               {"a$b", "character 2 ($)"},
               {"a-b", "character 2 (-)"},
               {"sch\xc3\xb6n", "character 4 (\xc3\xb6)"},
               {"sch\xc3", "character 4 ()"},
               {"abcdefghijklmnopqrstuvwxyz_0123456789_abcdefghijk", "49 characters"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(SEMEL_EINVAL, sql_check_name("URL: schema", bad[i].name, &last_error));
        SAYS("URL: schema");
        SAYS(bad[i].says);
    }
}

static void names_are_filled_in(void **state)
{
    (void)state;
    mem_arena arena = {0};
    assert_string_equal(sql_fill(&arena, "", "x"), "");
    assert_string_equal(sql_fill(&arena, "SELECT 1", "x"), "SELECT 1");
    assert_string_equal(sql_fill(&arena, "{}", "abc"), "abc");
    assert_string_equal(sql_fill(&arena, "{}.a JOIN {}.b {", "abc"), "abc.a JOIN abc.b {");
    assert_string_equal(sql_fill(&arena, "{}{}", "{}"), "{}{}");
    assert_string_equal(sql_fill(&arena, "a{}b{}", ""), "ab");
    arena_free(&arena);
    mem_fail_at(1);
    assert_null(sql_fill(&arena, "{}", "abc"));
    mem_fail_at(0);
}

static void the_head_of_a_statement_shows_no_values(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *head;
    } heads[] = {
        {"INSERT INTO charge (a) VALUES (?)", "INSERT INTO charge"},
        {"INSERT INTO charge VALUES ('secret')", "INSERT INTO charge VALUES"},
        {"UPDATE t SET pin = 1234", "UPDATE t SET pin"},
        {"SELECT $$secret$$", "SELECT"},
        {"DELETE FROM t WHERE pin < 1234", "DELETE FROM t WHERE pin"},
        {"", ""},
        {"?", ""},
        {"DELETE FROM a_table_with_a_name_that_is_very_long_indeed",
         "DELETE FROM a_table_with_a_name_that_is_very_lon"},
        {"DELETE FROM a_table_with_a_name_that_is_very_lo\xc3\xb6ng",
         "DELETE FROM a_table_with_a_name_that_is_very_lo"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char head[SQL_NAME_MAX + 1] = "";
        memcpy(head, heads[i].sql, sql_head(heads[i].sql));
        assert_string_equal(head, heads[i].head);
    }
}

/* --- what is translated ----------------------------------------------------------------------- */

/* `out` is NULL where it stays as it is. */
static const struct good {
    int dialects;
    size_t values;
    const char *sql, *out;
} goods[] = {
    /* marks */
    {ALL, 0, "DELETE FROM t", NULL},
    {L | M, 2, "INSERT INTO t VALUES (?, ?)", NULL},
    {P, 2, "INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES ($1, $2)"},
    {P, 11, "VALUES (?,?,?,?,?,?,?,?,?,?,?)", "VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)"},
    {P, 3, "SELECT?AND?OR ?", "SELECT $1 AND $2 OR $3"},
    {L, 3, "SELECT?AND?OR ?", NULL},
    {M, 3, "SELECT?AND?OR ?", "SELECT ? AND ? OR ?"}, /* where values are written as text */
    {M, 1, "SELECT a FROM t LIMIT?", "SELECT a FROM t LIMIT ?"},
    {M, 3, "SELECT @?, 5.?, ?.5", "SELECT @ ?, 5. ?, ? .5"},
    {P, 2, "SELECT ?::int + -?", "SELECT $1::int + -$2"},
    {P, 1, "SELECT a ?? 'k' AND b ??| ?", "SELECT a ? 'k' AND b ?| $1"},
    {P, 1, "SELECT a ???", "SELECT a ?$1"},
    /* quotes that all have */
    {L | M, 1, "SELECT '?', ? , \"?\" FROM t", NULL},
    {P, 1, "SELECT '?', ? , \"?\" FROM t", "SELECT '?', $1 , \"?\" FROM t"},
    {ALL, 0, "SELECT 'it''s ? or ?'", NULL},
    {ALL, 0, "SELECT '', \"\", '''?''', \"a\"\"?\"", NULL},
    {ALL, 0, "SELECT '; COMMIT', \"a;b\" FROM t", NULL},
    {ALL, 0, "SELECT '-- ?', '/* ?' FROM t", NULL},
    /* quotes that some have */
    {L | M, 1, "SELECT `?`, `a``?` FROM t WHERE a = ?", NULL},
    {L, 1, "SELECT [?], [a]]?] FROM t WHERE [;]", "SELECT [?], [a]]?] FROM t WHERE [;]"},
    {P, 2, "SELECT a[?], b[?]", "SELECT a[$1], b[$2]"},
    {M, 2, "SELECT a[?], b[?]", NULL},
    {M, 1, "SELECT 'a\\'?', \"b\\\"?\", ?", NULL},
    {L, 1, "SELECT 'a\\', ?", NULL},
    {P, 1, "SELECT 'a\\', ?", "SELECT 'a\\', $1"},
    {M, 0, "SELECT 'a\\\\', `b\\`", NULL},
    {P, 1, "SELECT E'a\\'?', e'''\\\\', ?", "SELECT E'a\\'?', e'''\\\\', $1"},
    {P, 1, "SELECT E'a'\n  '\\'?', ?", "SELECT E'a'\n  '\\'?', $1"},
    {P, 1, "SELECT E'a' -- '\n -- '\n '\\'?', ?", "SELECT E'a' -- '\n -- '\n '\\'?', $1"},
    {L, 1, "SELECT E'a\\', ?", NULL},
    {M, 0, "SELECT E'a\\', ?'", NULL},
    {P, 1, "SELECT `?", "SELECT `$1"},
    {P, 1, "SELECT E'a' '\\', ?", "SELECT E'a' '\\', $1"},
    {P, 1, "SELECT some'\\', ?", "SELECT some'\\', $1"},
    {P, 1, "SELECT U&'\\0061?', b'1', ?", "SELECT U&'\\0061?', b'1', $1"},
    {P, 1, "SELECT $$?'$$, ?", "SELECT $$?'$$, $1"},
    {P, 1, "SELECT $a$ ? $$ $b$ $a $a$, ?", "SELECT $a$ ? $$ $b$ $a $a$, $1"},
    {P, 1, "SELECT $\xc3\xa4_1$;?$\xc3\xa4_1$, ?", "SELECT $\xc3\xa4_1$;?$\xc3\xa4_1$, $1"},
    {P, 1, "SELECT a$$, ?, b$$", "SELECT a$$, $1, b$$"}, /* names */
    {P, 1, "SELECT a$1, ?", "SELECT a$1, $1"},
    {M, 1, "SELECT $$, ?, $a$", NULL},
    {L, 1, "SELECT a$b, ?", NULL},
    {M, 1, "SELECT @x := ?, @@y, :z", NULL},
    {P, 1, "SELECT a :b @> @c #> ?", "SELECT a :b @> @c #> $1"},
    /* comments */
    {L, 1, "/* ? ' */ SELECT -- ? '\n ? -- ?", NULL},
    {M, 1, "/* ? ' */ SELECT -- ? '\n ? -- ?", NULL},
    {P, 1, "/* ? ' */ SELECT -- ? '\n ? -- ?", "/* ? ' */ SELECT -- ? '\n $1 -- ?"},
    {P, 1, "SELECT /* a /* ? */ ? */ ?", "SELECT /* a /* ? */ ? */ $1"},
    {L | M, 1, "SELECT /* a /* ? */ ?", NULL},
    {ALL, 0, "SELECT 1 /*/ ? */", NULL},
    {P, 1, "SELECT -- ?\r ?", "SELECT -- ?\r $1"},
    {L | M, 0, "SELECT -- ?\r ?", NULL},
    {M, 1, "SELECT 1 # ? '\n, ?", NULL},
    {M, 2, "SELECT 1--?, ?--", NULL}, /* arithmetic; at the end a comment */
    {M, 0, "SELECT 1--\t?", NULL},
    {M, 1, "SELECT 1--\x7f?\n, ?", NULL},
    {P, 1, "SELECT 1 # ?", "SELECT 1 # $1"},
    {L, 0, "SELECT 1--?", NULL},
    {L | P, 0, "SELECT /*! ? */ 1", NULL},
    {M, 0, "SELECT /*+ NO_ICP(t) */ 1", NULL},
    /* the end */
    {ALL, 0, "DELETE FROM t;", "DELETE FROM t"},
    {ALL, 0, " DELETE FROM t ; \n\t -- ? ;\n /* ; */ ", " DELETE FROM t "},
    {L, 1, "\xef\xbb\xbfSELECT ?", NULL}, /* behind a byte order mark, which is a space there */
    /* what looks like the words below and is none */
    {ALL, 0, "INSERT INTO t SELECT 'COMMIT'", NULL},
    {ALL, 0, "UPDATE t SET begin = 1", NULL},
    {ALL, 0, "WITH commit AS (SELECT 1) DELETE FROM t", NULL},
    {ALL, 0, "(SELECT 1)", NULL},
    {ALL, 0, "\"BEGIN\"", NULL},
    {ALL, 0, "BEGINNING", NULL},
    {ALL, 0, "BEG", NULL},
    {L | P, 0, "CREATE TABLE t (a)", NULL},
    {L | P, 0, "LOCK TABLE t", NULL},
    {P, 0, "SET LOCAL statement_timeout = 1", NULL},
    {P, 0, "PREPARE x AS SELECT 1", NULL},
    {M, 0, "create temporary table t (a int)", NULL},
    {M, 0, "DROP /* */ TEMPORARY TABLE t", NULL},
    {M, 0, "LOAD XML INFILE 'x' INTO TABLE t", NULL},
};

static void check_good(const struct good *g, sql_dialect dialect)
{
    mem_arena arena = {0};
    const char *out = NULL, *expected = g->out ? g->out : g->sql;
    semel_error err = {0};
    semel_status status = sql_translate(&out, &arena, dialect, g->sql, g->values, &err);
    if (status || strcmp(out, expected) != 0) {
        print_error("%s: %s\n  has become: %s\n  instead of: %s\n", name_of(dialect), g->sql,
                    status ? err.text : out, expected);
        fail();
    }
    arena_free(&arena);
}

static void marks_are_translated_and_the_rest_left_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++)
        for (sql_dialect d = SQL_SQLITE; d <= SQL_MARIADB; d++)
            if (goods[i].dialects & (1 << d))
                check_good(&goods[i], d);
}

/* --- what is refused -------------------------------------------------------------------------- */

static const struct bad {
    int dialects;
    size_t values;
    const char *sql;
    size_t position;
    const char *says;
} bads[] = {
    /* counts */
    {ALL, 0, "SELECT ?", 8, "mark number 1, but there are 0"},
    {ALL, 1, "SELECT ?, ?", 11, "mark number 2, but there are 1"},
    {ALL, 1, "SELECT 1", 9, "after 0 marks, but there are 1"},
    {ALL, 3, "SELECT ?, ? ; ", 13, "after 2 marks, but there are 3"},
    {ALL, 1, "SELECT '?'", 11, "after 0 marks"},
    /* marks of others */
    {ALL, 2, "SELECT ?, ?1", 11, "marked by ?"},
    {P, 1, "SELECT $1", 8, "marked by ?"},
    {L, 1, "SELECT $1", 8, "marked by ?"},
    {L, 1, "SELECT :a", 8, "marked by ?"},
    {L, 1, "SELECT @a", 8, "marked by ?"},
    {L, 1, "SELECT #a", 8, "marked by ?"},
    {L, 1, "SELECT $a", 8, "marked by ?"},
    {L | M, 1, "SELECT a ?? ?", 10, "question mark"},
    /* what does not end */
    {ALL, 0, "SELECT 'a", 8, "does not end"},
    {ALL, 0, "SELECT 'a''", 8, "does not end"},
    {ALL, 0, "SELECT \"a", 8, "does not end"},
    {L | M, 0, "SELECT `a", 8, "does not end"},
    {L, 0, "SELECT [a", 8, "does not end"},
    {M, 0, "SELECT 'a\\'", 8, "does not end"},
    {M, 0, "SELECT 'a\\", 8, "does not end"},
    {P, 0, "SELECT E'a\\'", 8, "does not end"},
    {P, 0, "SELECT E'a'\n'\\'", 8, "does not end"},
    {P, 0, "SELECT $$a$", 8, "does not end"},
    {P, 0, "SELECT $a$ $$ $A$", 8, "does not end"},
    {ALL, 0, "SELECT /* a", 8, "does not end"},
    {ALL, 0, "SELECT /*/", 8, "does not end"},
    {P, 0, "SELECT /* /* */", 8, "does not end"},
    {ALL, 0, "SELECT 1; 'a", 11, "does not end"},
    /* none, or more than one */
    {ALL, 0, "", 1, "no statement"},
    {ALL, 0, " \n", 3, "no statement"},
    {ALL, 0, ";", 1, "no statement"},
    {ALL, 0, "-- x", 5, "no statement"},
    {ALL, 0, "/* x */ ;", 9, "no statement"},
    {L, 0, "\xef\xbb\xbf", 4, "no statement"},
    {ALL, 0, "SELECT 1; SELECT 2", 11, "more than one"},
    {ALL, 0, "SELECT 1 ;;", 11, "more than one"},
    {ALL, 1, "SELECT 1; ?", 11, "more than one"},
    {ALL, 0, "SELECT 1; -- x\n COMMIT", 17, "more than one"},
    {P, 0, "SELECT 1; /* /* */ */ x", 23, "more than one"},
    {ALL, 0, "; COMMIT", 3, "more than one"},
    {M, 0, "SELECT 1 /*! ; COMMIT */", 10, "would run"},
    {M, 0, "/*M!100100 COMMIT */", 1, "would run"},
    /* transactions */
    {ALL, 0, "COMMIT", 1, "COMMIT cannot be queued"},
    {ALL, 0, "commit;", 1, "commit cannot be queued"},
    {ALL, 0, "  -- x\n /* y */ CoMmIt WORK", 17, "CoMmIt cannot be queued"},
    {L, 0,
     "\xef\xbb\xbf"
     "COMMIT",
     4, "COMMIT cannot be queued"},
    {ALL, 0, "BEGIN", 1, "BEGIN"},
    {ALL, 0, "BEGIN IMMEDIATE", 1, "BEGIN"},
    {ALL, 0, "END", 1, "END"},
    {ALL, 0, "ROLLBACK", 1, "ROLLBACK"},
    {ALL, 0, "rollback to savepoint x", 1, "rollback"},
    {ALL, 0, "SAVEPOINT x", 1, "SAVEPOINT"},
    {ALL, 0, "RELEASE x", 1, "RELEASE"},
    {P | M, 0, "START TRANSACTION", 1, "START"},
    {P, 0, "ABORT", 1, "ABORT"},
    {P, 0, "PREPARE/**/TRANSACTION 'x'", 1, "PREPARE"},
    {P, 0, "COMMIT PREPARED 'x'", 1, "COMMIT"},
    {P | M, 0, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", 1, "SET"},
    {P | M, 0, "set session characteristics as transaction read only", 1, "set"},
    {P, 0, "COPY t FROM STDIN", 1, "COPY"},
    {M, 0, "SET autocommit = 1", 1, "SET"},
    {M, 0, "# x\nXA END 'x'", 5, "XA"},
    {M, 0, "LOCK TABLES t WRITE", 1, "LOCK"},
    {M, 0, "UNLOCK TABLES", 1, "UNLOCK"},
    /* MariaDB commits first, without a word */
    {M, 0, "CREATE TABLE t (a int)", 1, "CREATE"},
    {M, 0, "CREATE", 1, "CREATE"},
    {M, 0, "CREATE `TEMPORARY`", 1, "CREATE"},
    {M, 0, "DROP TABLE t", 1, "DROP"},
    {M, 0, "ALTER TABLE t ADD b int", 1, "ALTER"},
    {M, 0, "truncate t", 1, "truncate"},
    {M, 0, "RENAME TABLE a TO b", 1, "RENAME"},
    {M, 0, "GRANT ALL ON t TO x", 1, "GRANT"},
    {M, 0, "REVOKE ALL ON t FROM x", 1, "REVOKE"},
    {M, 0, "ANALYZE TABLE t", 1, "ANALYZE"},
    {M, 0, "CHECK TABLE t", 1, "CHECK"},
    {M, 0, "OPTIMIZE TABLE t", 1, "OPTIMIZE"},
    {M, 0, "REPAIR TABLE t", 1, "REPAIR"},
    {M, 0, "CACHE INDEX t IN c", 1, "CACHE"},
    {M, 0, "FLUSH TABLES", 1, "FLUSH"},
    {M, 0, "RESET SLAVE", 1, "RESET"},
    {M, 0, "CHANGE MASTER TO MASTER_PORT = 1", 1, "CHANGE"},
    {M, 0, "STOP SLAVE", 1, "STOP"},
    {M, 0, "INSTALL SONAME 'x'", 1, "INSTALL"},
    {M, 0, "UNINSTALL SONAME 'x'", 1, "UNINSTALL"},
    {M, 0, "LOAD INDEX INTO CACHE t", 1, "LOAD"},
};

static void check_bad(const struct bad *b, sql_dialect dialect)
{
    mem_arena arena = {0};
    const char *out = NULL;
    char place[64];
    semel_error err = {0};
    semel_status status = sql_translate(&out, &arena, dialect, b->sql, b->values, &err);
    (void)snprintf(place, sizeof place, "at character %zu: ", b->position);
    if (status != SEMEL_EINVAL || out || !strstr(err.text, place) || !strstr(err.text, b->says)) {
        print_error("%s: %s\n  %s: %s\n  should say: %s%s\n", name_of(dialect), b->sql,
                    semel_status_name(status), status ? err.text : out, place, b->says);
        fail();
    }
    assert_int_equal(sql_translate(&out, &arena, dialect, b->sql, b->values, NULL), SEMEL_EINVAL);
    arena_free(&arena);
}

static void what_is_wrong_is_refused_and_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++)
        for (sql_dialect d = SQL_SQLITE; d <= SQL_MARIADB; d++)
            if (bads[i].dialects & (1 << d))
                check_bad(&bads[i], d);
}

/* --- limits ----------------------------------------------------------------------------------- */

static char *padded(const char *sql, size_t len)
{
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, ' ', len);
    memcpy(text, sql, strlen(sql));
    text[len] = 0;
    return text;
}

static void limits_are_kept(void **state)
{
    (void)state;
    mem_arena arena = {0};
    const char *out = NULL;
    char *fits = padded("SELECT 1", SEMEL_SQL_MAX),
         *too_long = padded("SELECT 1", SEMEL_SQL_MAX + 1);
    OK(sql_translate(&out, &arena, SQL_POSTGRES, fits, 0, &last_error));
    assert_int_equal(strlen(out), SEMEL_SQL_MAX);
    FAILS(SEMEL_ELIMIT, sql_translate(&out, &arena, SQL_POSTGRES, too_long, 0, &last_error));
    SAYS("SEMEL_SQL_MAX");
    FAILS(SEMEL_ELIMIT,
          sql_translate(&out, &arena, SQL_POSTGRES, "SELECT 1", SEMEL_VALUES_MAX + 1, &last_error));
    SAYS("SEMEL_VALUES_MAX");
    free(fits);
    free(too_long);
    arena_free(&arena);
}

/* As many marks as there can be, each with a space on both sides: the room for them is computed. */
static void the_most_marks_have_room(void **state)
{
    (void)state;
    mem_arena arena = {0};
    const char *out = NULL;
    char *sql = padded("a", 2 * SEMEL_VALUES_MAX + 1);
    for (size_t i = 0; i < SEMEL_VALUES_MAX; i++)
        memcpy(sql + 1 + 2 * i, "?a", 2);
    OK(sql_translate(&out, &arena, SQL_POSTGRES, sql, SEMEL_VALUES_MAX, &last_error));
    assert_non_null(strstr(out, "a $1 a $2 a"));
    assert_string_equal(out + strlen(out) - strlen("a $1000 a"), "a $1000 a");
    free(sql);
    arena_free(&arena);
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    mem_arena arena = {0};
    const char *out = NULL;
    mem_fail_at(1);
    FAILS(SEMEL_ENOMEM, sql_translate(&out, &arena, SQL_SQLITE, "SELECT 1", 0, &last_error));
    mem_fail_at(0);
    assert_null(out);
    arena_free(&arena);
}

/* Every text that can be made of these pieces, up to a length, in every dialect: the sanitizers
 * watch where it reads, and what comes out is never longer than it may be. */
static void whatever_the_text_it_stays_inside(void **state)
{
    (void)state;
    static const char *const pieces[] = {"'",  "\"", "`",  "[", "]", "\\", "$", "?", "-", "/*",
                                         "*/", ";",  "\n", "E", "a", "1",  "!", "#", ":"};
    enum { PIECES = sizeof pieces / sizeof *pieces, LENGTH = 4 };
    mem_arena arena = {0};
    unsigned refused = 0, accepted = 0;
    for (unsigned n = 0; n < PIECES * PIECES * PIECES * PIECES; n++) {
        char *sql =
            calloc(1, 2 * LENGTH + 1); /* just as long as it is, for the address sanitizer */
        assert_non_null(sql);
        for (unsigned i = 0, rest = n; i < LENGTH; i++, rest /= PIECES)
            strcat(sql, pieces[rest % PIECES]);
        sql = realloc(sql, strlen(sql) + 1);
        for (sql_dialect d = SQL_SQLITE; d <= SQL_MARIADB; d++) {
            const char *out = NULL;
            arena_reset(&arena);
            if (sql_translate(&out, &arena, d, sql, n % 3, NULL))
                refused++;
            else
                accepted++;
            assert_true(!out || strlen(out) <= strlen(sql) + (n % 3) * 6);
        }
        free(sql);
    }
    assert_true(refused > accepted && accepted > 1000);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_made_of_few_characters),
        cmocka_unit_test(a_bad_name_is_shown_where_it_is_bad),
        cmocka_unit_test(names_are_filled_in),
        cmocka_unit_test(the_head_of_a_statement_shows_no_values),
        cmocka_unit_test(marks_are_translated_and_the_rest_left_alone),
        cmocka_unit_test(what_is_wrong_is_refused_and_shown),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(the_most_marks_have_room),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(whatever_the_text_it_stays_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
