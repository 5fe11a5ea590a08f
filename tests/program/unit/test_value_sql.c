/* Values in statements: what is one, what is not, where it was written, and where mistakes are. */
#include "program/handler/value_sql.h"
#include "support/fixture/fixture.h"

static region memory;

static int close_memory(void **state)
{
    (void)state;
    region_free(&memory);
    return 0;
}

enum { LITE = 1 << SQL_KIND_SQLITE, POST = 1 << SQL_KIND_POSTGRES, MARIA = 1 << SQL_KIND_MARIADB };
enum { ALL = LITE | POST | MARIA };

static const struct good {
    int kinds;
    const char *written;
    const char *text;
    size_t count;
} goods[] = {
    {ALL, "INSERT INTO l VALUES (:json/order_id, :json/amount)", "INSERT INTO l VALUES (?, ?)", 2},
    {ALL, "SELECT 1", "SELECT 1", 0},
    {ALL, "SELECT :id||:type", "SELECT ?||?", 2},
    {ALL, "SELECT :{header:X-Id}, :{json:/a/b}", "SELECT ?, ?", 2},
    {ALL, "SELECT :attempt-1, :correlation-id-1", "SELECT ?-1, ?-1", 2},
    {ALL, "SELECT :json/amount / 100", "SELECT ? / 100", 1},
    /* casts, assignments, slices */
    {POST, "SELECT :json/a::int, x::text", "SELECT ?::int, x::text", 1},
    {POST, "SELECT a[1:2], a[:json/i], f(x := :id)", "SELECT a[1:2], a[?], f(x := ?)", 2},
    {MARIA, "SELECT @a := :id", "SELECT @a := ?", 1},
    {POST, "SELECT x :: int, ':'::text", "SELECT x :: int, ':'::text", 0},
    /* quoted */
    {ALL, "SELECT ':id', \":id\", 'it''s :id'", "SELECT ':id', \":id\", 'it''s :id'", 0},
    {ALL, "SELECT ':id' || :id", "SELECT ':id' || ?", 1},
    {LITE | MARIA, "SELECT `:id`, :id", "SELECT `:id`, ?", 1},
    {LITE, "SELECT [:id], :id", "SELECT [:id], ?", 1},
    {POST, "SELECT $$ :id $$, $a$ :id $$ :id $a$, :id", "SELECT $$ :id $$, $a$ :id $$ :id $a$, ?",
     1},
    {POST, "SELECT E'\\':id', :id", "SELECT E'\\':id', ?", 1},
    {POST, "SELECT E'a'\n'\\':id', :id", "SELECT E'a'\n'\\':id', ?", 1},
    {POST, "SELECT '\\', :id", "SELECT '\\', ?", 1},
    {LITE, "SELECT '\\', :id", "SELECT '\\', ?", 1},
    {MARIA, "SELECT '\\':id', :id", "SELECT '\\':id', ?", 1},
    {POST, "SELECT nameE, 'x', :id", "SELECT nameE, 'x', ?", 1},
    /* comments */
    {ALL, "SELECT 1 -- :id 'open\n, :id", "SELECT 1 -- :id 'open\n, ?", 1},
    {ALL, "SELECT /* :id ' */ :id", "SELECT /* :id ' */ ?", 1},
    {POST, "SELECT /* /* :id */ :id */ :id", "SELECT /* /* :id */ :id */ ?", 1},
    {LITE | MARIA, "SELECT /* /* :id */ :id", "SELECT /* /* :id */ ?", 1},
    {MARIA, "SELECT 1 # :id\n+ :id", "SELECT 1 # :id\n+ ?", 1},
    {MARIA, "SELECT 1--:id", "SELECT 1--?", 1},
    {LITE | POST, "SELECT 1--:id", "SELECT 1--:id", 0},
    /* question marks */
    {POST, "SELECT a ? :id, a ?| b, '?'", "SELECT a ?? ?, a ??| b, '?'", 1},
    {POST, "SELECT :id?:id, :id??x, a?:id", "SELECT ? ?? ?, ? ????x, a?? ?", 4},
    {ALL, "SELECT :id:type", "SELECT ? ?", 2},
    {LITE | MARIA, "SELECT '?', :id -- ?", "SELECT '?', ? -- ?", 1},
};

static void values_become_marks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++)
        for (int kind = SQL_KIND_SQLITE; kind <= SQL_KIND_MARIADB; kind++) {
            value_sql out = {0};
            value_mistake wrong = {0};
            if (!(goods[i].kinds & 1 << kind))
                continue;
            if (!value_sql_read(&out, &memory, (sql_kind)kind, goods[i].written, &wrong))
                fail_msg("%s: %s", goods[i].written, wrong.text);
            assert_string_equal(out.text, goods[i].text);
            assert_int_equal(out.count, goods[i].count);
        }
}

static const struct bad {
    int kinds;
    const char *written;
    size_t offset, len;
    const char *said;
} bads[] = {
    {ALL, "INSERT INTO ledger (order_id, amount) VALUES (:json/order_id, :jason/amount)", 62, 13,
     "unknown value \":jason\"; did you mean \":json\"?"},
    {ALL, "SELECT :order_id", 7, 9, "unknown value \":order_id\""},
    {ALL, "SELECT :json/a/b", 7, 9,
     "\":json/a/b\" can be read in two ways; write :{json:/a/b} for a pointer, :json/a / b for a "
     "division"},
    {ALL, "SELECT :{json:/a", 7, 9, "\":{\" without a closing \"}\""},
    {ALL, "SELECT 'open :id", 7, 1, "this quote or comment does not end"},
    {ALL, "SELECT /* :id", 7, 1, "this quote or comment does not end"},
    {POST, "SELECT $a$ :id $$", 7, 1, "this quote or comment does not end"},
    {LITE | MARIA, "SELECT ?", 7, 1,
     "? stands for nothing here; name the value, as in :json/order_id"},
};

static void mistakes_are_found_where_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++)
        for (int kind = SQL_KIND_SQLITE; kind <= SQL_KIND_MARIADB; kind++) {
            value_sql out = {0};
            value_mistake wrong = {0};
            if (!(bads[i].kinds & 1 << kind))
                continue;
            if (value_sql_read(&out, &memory, (sql_kind)kind, bads[i].written, &wrong))
                fail_msg("%s is read as %s", bads[i].written, out.text);
            assert_string_equal(wrong.text, bads[i].said);
            assert_int_equal(wrong.offset, bads[i].offset);
            assert_int_equal(wrong.len, bads[i].len);
        }
}

/* Each byte that was copied is found where it was written. */
static void places_are_those_of_what_was_written(void **state)
{
    static const char written[] = "UPDATE t SET a = :json/a, b = b ? :{header:x} WHERE nonesuch";
    value_sql out = {0};
    value_mistake wrong = {0};
    (void)state;
    assert_true(value_sql_read(&out, &memory, SQL_KIND_POSTGRES, written, &wrong));
    assert_string_equal(out.text, "UPDATE t SET a = ?, b = b ?? ? WHERE nonesuch");
    for (size_t i = 0; out.text[i]; i++)
        if (out.text[i] != '?')
            assert_int_equal(written[value_sql_written(&out, i)], out.text[i]);
    assert_int_equal(value_sql_written(&out, 17), 17);
    assert_int_equal(value_sql_written(&out, (size_t)(strstr(out.text, "nonesuch") - out.text)),
                     strstr(written, "nonesuch") - written);
}

static void the_dialect_is_that_of_the_url(void **state)
{
    (void)state;
    assert_int_equal(sql_kind_of("sqlite:shop.db"), SQL_KIND_SQLITE);
    assert_int_equal(sql_kind_of("postgres://u@h/d"), SQL_KIND_POSTGRES);
    assert_int_equal(sql_kind_of("postgresql://u@h/d"), SQL_KIND_POSTGRES);
    assert_int_equal(sql_kind_of("mariadb://u@h/d"), SQL_KIND_MARIADB);
    assert_int_equal(sql_kind_of("memory:"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_become_marks),
        cmocka_unit_test(mistakes_are_found_where_they_are),
        cmocka_unit_test(places_are_those_of_what_was_written),
        cmocka_unit_test(the_dialect_is_that_of_the_url),
    };
    return cmocka_run_group_tests_name("value_sql", tests, NULL, close_memory);
}
