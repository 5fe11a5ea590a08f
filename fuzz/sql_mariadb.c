/* MariaDB gets values as part of the text. A unit that has joined a caller's transaction says
 * nothing by itself, so it can be queued to without a server; what it would send is compared with
 * the model's text.
 *
 * Every value must be one token, apart from its neighbours: behind LIMIT, a 5 without a space is a
 * name. */
#include "property.h"
#include "sql_model.h"
#include "sql_parts.h"
#include "store/mariadb/mariadb.h"

enum { TEXT_MAX = 1 << 20 };

/* One of each kind in turn. */
static semel_value value_of(size_t index, const char *text)
{
    switch (index % 6) {
    case 0:
        return semel_text(text);
    case 1:
        return semel_int(-1 - (int64_t)index);
    case 2:
        return semel_blob(semel_str(text));
    case 3:
        return semel_null();
    case 4:
        return semel_real(-1.0 / 3);
    default:
        return semel_int(INT64_MAX);
    }
}

/* The whole of a value's text, by hand. */
static void write_value(text_buffer *to, size_t index, void *context)
{
    const char *text = context;
    semel_value value = value_of(index, text);
    char number[64];
    if (value.kind == SEMEL_VALUE_TEXT)
        text_append_z(to, "_utf8mb4 ");
    if (value.kind == SEMEL_VALUE_TEXT || value.kind == SEMEL_VALUE_BYTES) {
        text_append_z(to, "x'");
        for (; *text; text++) {
            (void)snprintf(number, sizeof number, "%02x", (unsigned char)*text);
            text_append_z(to, number);
        }
        text_append_z(to, "'");
        return;
    }
    if (value.kind == SEMEL_VALUE_REAL)
        (void)snprintf(number, sizeof number, "(%.16e)", value.real);
    else if (value.kind == SEMEL_VALUE_INT)
        (void)snprintf(number, sizeof number, value.integer < 0 ? "(%lld)" : "%lld",
                       (long long)value.integer);
    else
        (void)snprintf(number, sizeof number, "NULL");
    text_append_z(to, number);
}

/* The text of the one statement that is the application's: others may stand beside it. */
static char *queued_text(const maria_script *enqueued)
{
    char *text = NULL;
    for (size_t i = 0; i < enqueued->count; i++) {
        size_t start = enqueued->steps[i].start;
        if (enqueued->steps[i].kind != STEP_QUEUED)
            continue;
        HOLDS(!text);
        text = exact_text(enqueued->text.bytes + start, maria_script_end(enqueued, i) - start);
    }
    HOLDS(text);
    return text;
}

static void check_text(const maria_script *enqueued, char *sql)
{
    sql_model model;
    char *text = queued_text(enqueued);
    sql_model_run(&model, SQL_MARIADB, sql, write_value, sql);
    HOLDS_FOR(text, strcmp(text, model.text.bytes) == 0);
    mem_free(model.text.bytes);
    free(text);
}

void check_mariadb_queue(const char *sql, long accepted)
{
    semel_value values[64];
    mariadb_store store = {0};
    maria_connection on = {.text_max = TEXT_MAX};
    mariadb_unit unit = {.store = &store, .on = &on, .joined = 1};
    semel_error err = {0};
    char *copy = exact_text(sql, strlen(sql));
    size_t count = accepted < 0 ? 0 : (size_t)accepted;
    for (size_t i = 0; i < count; i++)
        values[i] = value_of(i, copy);
    semel_status status = mariadb_queue(&unit, copy, values, count, &err);
    HOLDS_FOR(err.text, !status == (accepted >= 0));
    if (!status)
        check_text(&on.out, copy);
    free(copy);
    maria_script_free(&on.out);
    arena_free(&on.scratch);
}
