/* Values of messages in statements and templates: the first line of an input is a statement, and a
 * value by itself; the rest is the body of a message.
 *
 *  - A mistake lies inside the text, and is told in one line without control characters.
 *  - What was copied from a statement is found again where it was written.
 *  - The library's own reader of statements sees as many marks as there are values, or refuses the
 *    statement: never another number of marks.
 *  - A body is JSON here if and only if it is JSON to the library.
 *  - What a value gives is text, a number or nothing; its JSON can be written and is JSON. */
#include "base/json_text.h"
#include "program/handler/value_sql.h"
#include "program/support/strict_json.h"
#include "property.h"
#include "store/sql/sql.h"

#include <json-c/json.h>

/* --- statements ------------------------------------------------------------------------------- */

static void check_mistake(const value_mistake *wrong, const char *text)
{
    HOLDS(wrong->text[0]);
    HOLDS_FOR(wrong->text, strlen(wrong->text) < sizeof wrong->text);
    for (const char *at = wrong->text; *at; at++)
        HOLDS_FOR(wrong->text, (unsigned char)*at >= ' ');
    HOLDS_FOR(text, wrong->offset + wrong->len <= strlen(text));
}

static int is_changed(const value_sql *statement, size_t at)
{
    for (size_t i = 0; i < statement->change_count; i++)
        if (at >= statement->changes[i].at &&
            at < statement->changes[i].at + statement->changes[i].now)
            return 1;
    return 0;
}

static void check_places(const value_sql *statement, const char *written)
{
    for (size_t i = 0; statement->text[i]; i++) {
        size_t at = value_sql_written(statement, i);
        HOLDS_FOR(written, at < strlen(written));
        HOLDS_FOR(written, is_changed(statement, i) || written[at] == statement->text[i]);
    }
}

static void check_marks(const value_sql *statement, sql_dialect dialect)
{
    for (size_t n = 0; n <= statement->count + 1 && n <= SEMEL_VALUES_MAX; n++) {
        mem_arena arena = {0};
        const char *out = NULL;
        semel_status status = sql_translate(&out, &arena, dialect, statement->text, n, NULL);
        HOLDS_FOR(statement->text, status || n == statement->count);
        arena_free(&arena);
    }
}

static void check_statement(const char *text)
{
    static const sql_dialect dialects[] = {[SQL_KIND_SQLITE] = SQL_SQLITE,
                                           [SQL_KIND_POSTGRES] = SQL_POSTGRES,
                                           [SQL_KIND_MARIADB] = SQL_MARIADB};
    for (int kind = SQL_KIND_SQLITE; kind <= SQL_KIND_MARIADB; kind++) {
        region memory = {0};
        value_sql statement = {0};
        value_mistake wrong = {0};
        if (value_sql_read(&statement, &memory, (sql_kind)kind, text, &wrong)) {
            check_places(&statement, text);
            check_marks(&statement, dialects[kind]);
        } else {
            check_mistake(&wrong, text);
        }
        region_free(&memory);
    }
}

/* --- values ----------------------------------------------------------------------------------- */

static void check_json(const value_name *of, value_source *source)
{
    struct json_object *tree = NULL;
    semel_error err = {0};
    semel_status status = value_get_json(&tree, of, source, &err);
    if (status) {
        check_error(status, &err);
        return;
    }
    const char *text = json_object_to_json_string_ext(tree, JSON_C_TO_STRING_PLAIN);
    HOLDS_FOR(text, strict_json_check(semel_str(text), 2 * VALUE_DEPTH_MAX, NULL));
    json_object_put(tree);
}

static void check_value(const value_name *of, semel_bytes body)
{
    semel_message message = {
        .size = sizeof message, .id = semel_str("m-1"), .type = "order.placed", .body = body};
    value_source source = {.message = &message, .inbox = "payments"};
    semel_error err = {0};
    semel_value out = {.kind = SEMEL_VALUE_BYTES};
    semel_bytes text = {NULL, 0};
    semel_status status = value_get(&out, of, &source, &err);
    if (status)
        check_error(status, &err);
    else
        HOLDS((unsigned)out.kind <= SEMEL_VALUE_BYTES);
    check_json(of, &source);
    status = value_get_text(&text, of, &source, &err);
    HOLDS(status || !text.data || strlen(text.data) == text.len);
    value_source_free(&source);
}

static void check_single(const char *text, semel_bytes body)
{
    region memory = {0};
    value_name of;
    value_mistake wrong = {0};
    if (value_parse(&of, &memory, text, &wrong)) {
        HOLDS_FOR(text, strcmp(of.written, text) == 0);
        check_value(&of, body);
    } else {
        check_mistake(&wrong, text);
    }
    region_free(&memory);
}

static void check_body(semel_bytes body)
{
    json_facts facts;
    int beyond = 0;
    int theirs = json_text_check(&facts, body, VALUE_DEPTH_MAX);
    int ours = strict_json_check(body, VALUE_DEPTH_MAX, &beyond);
    HOLDS(theirs == ours);
    HOLDS(!ours || facts.beyond_64_bits == beyond);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t len = end ? (size_t)(end - data) : size;
    size_t rest = end ? size - len - 1 : 0;
    char *text = exact_text(data, len);
    void *body = exact_copy(end ? end + 1 : data, rest);
    check_statement(text);
    check_single(text, (semel_bytes){body, rest});
    check_body((semel_bytes){body, rest});
    free(body);
    free(text);
    return 0;
}
