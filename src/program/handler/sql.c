/* sql: the statements of an inbox, queued into the marker's transaction, with values of the message
 * bound to them. If the process dies before the commit, none of them has run; after it, all
 * have. */
#include "program/handler/sql.h"

#include "program/handler/handler.h"
#include "program/handler/value_sql.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct sql_state {
    region memory;
    const char *inbox;
    value_sql *statements;
    size_t count;
} sql_state;

/* --- opening ---------------------------------------------------------------------------------- */

static int read_all(value_sql *out, region *memory, const config_list *statements,
                    const char *store_url, sql_mistake *wrong)
{
    sql_kind kind = statement_kind_of(store_url);
    for (size_t i = 0; i < statements->count; i++)
        if (!value_sql_read(&out[i], memory, kind, statements->items[i], &wrong->what)) {
            wrong->statement = i;
            wrong->has_place = 1;
            return 0;
        }
    return 1;
}

int sql_read(const config_list *statements, const char *store_url, sql_mistake *wrong)
{
    region memory = {0};
    value_sql *read = region_alloc(&memory, statements->count * sizeof *read);
    int ok = read_all(read, &memory, statements, store_url, wrong);
    region_free(&memory);
    return ok;
}

static void close_sql(void *opened)
{
    sql_state *state = opened;
    region_free(&state->memory);
    free(state);
}

static semel_status open_sql(void **out, const config *all, const inbox_config *inbox,
                             semel_error *err)
{
    sql_mistake wrong = {0};
    if (!statement_kind_of(all->store_url))
        return semel_fail(err, SEMEL_EINVAL,
                          "the store has no SQL; use sqlite:, postgres:, mariadb: "
                          "or, for its own commands, redis:");
    sql_state *state = must_alloc(sizeof *state);
    state->inbox = inbox->name;
    state->count = inbox->sql.count;
    state->statements =
        region_alloc(&state->memory, (state->count + 1) * sizeof *state->statements);
    if (!read_all(state->statements, &state->memory, &inbox->sql, all->store_url, &wrong)) {
        close_sql(state);
        return semel_fail(err, SEMEL_EINVAL, "statement %zu, at byte %zu: %s", wrong.statement + 1,
                          wrong.what.offset + 1, wrong.what.text);
    }
    *out = state;
    return SEMEL_OK;
}

/* --- one message ------------------------------------------------------------------------------ */

static semel_status queue_statement(semel_unit *unit, const value_sql *statement,
                                    value_source *source, semel_error *err)
{
    semel_value *values = region_alloc(&source->memory, (statement->count + 1) * sizeof *values);
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < statement->count; i++)
        status = value_get(&values[i], &statement->values[i], source, err);
    return status ? status : semel_unit_queue(unit, statement->text, values, statement->count, err);
}

static semel_status handle_sql(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    const sql_state *state = context;
    value_source source = {.message = message, .unit = unit, .inbox = state->inbox};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < state->count; i++)
        status = queue_statement(unit, &state->statements[i], &source, err);
    value_source_free(&source);
    return status;
}

const handler_class sql_handler = {HANDLER_SQL, "sql",     SEMEL_QUEUED,
                                   open_sql,    close_sql, handle_sql};

/* --- before the first message ----------------------------------------------------------------- */

semel_status sql_queue_setup(semel_unit *unit, const char *store_url, const config_list *setup,
                             semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (!setup || sql_kind_of(store_url) == SQL_KIND_MARIADB)
        return SEMEL_OK;
    for (size_t i = 0; !status && i < setup->count; i++)
        status = semel_unit_queue(unit, setup->items[i], NULL, 0, err);
    return status;
}

/* Of the word at which the statement is wrong, for the caret. */
static size_t word_at(const char *text, size_t at)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t len = strspn(text + at, word);
    return len ? len : text[at] != 0;
}

static void place_mistake(sql_mistake *wrong, const value_sql *statement, const char *written,
                          size_t position, const semel_error *why)
{
    (void)value_wrong(&wrong->what, 0, 0, NULL, "%s", why->text);
    wrong->has_place = position > 0;
    if (!position)
        return;
    wrong->what.offset = value_sql_written(statement, position - 1);
    wrong->what.len = word_at(written, wrong->what.offset);
}

/* Of MariaDB, which cannot run `setup` only to see. */
enum { NO_SUCH_TABLE = 1146, NO_SUCH_COLUMN = 1054 };

/* 1 if what is wrong may be right once `setup` has been run: a table is not there, or a column if
 * it changes tables. */
static int setup_may_mend(const char *store_url, const config_list *setup, const semel_error *why)
{
    if (!setup || sql_kind_of(store_url) != SQL_KIND_MARIADB)
        return 0;
    for (size_t i = 0; i < setup->count; i++)
        if (why->native == NO_SUCH_TABLE ||
            (why->native == NO_SUCH_COLUMN &&
             strncasecmp(setup->items[i] + strspn(setup->items[i], " \t\n"), "ALTER", 5) == 0))
            return 1;
    return 0;
}

/* A unit for each: after one that is wrong there may be nothing but a rollback. */
static semel_status check_one(semel_store *store, const char *store_url, const config_list *setup,
                              const value_sql *statement, size_t *position, semel_error *err)
{
    semel_unit *unit = NULL;
    semel_status status = semel_unit_begin(&unit, store, err);
    if (status)
        return status;
    status = sql_queue_setup(unit, store_url, setup, err);
    if (!status)
        status = semel_unit_check(unit, statement->text, statement->count, position, err);
    semel_unit_rollback(unit);
    return status;
}

static semel_status check_all(semel_store *store, const char *store_url, const config_list *setup,
                              const config_list *statements, const value_sql *read,
                              sql_mistake *wrong, semel_error *err)
{
    for (size_t i = 0; i < statements->count; i++) {
        semel_error why = {0};
        size_t position = 0;
        semel_status status = check_one(store, store_url, setup, &read[i], &position, &why);
        if (status == SEMEL_EINVAL && setup_may_mend(store_url, setup, &why))
            status = semel_fail(&why, SEMEL_EUNSUPPORTED,
                                "a table or column is not there yet, and MariaDB cannot run setup "
                                "only to see; run checks them after setup");
        if (status && err)
            *err = why;
        wrong->statement = i;
        if (status == SEMEL_EINVAL)
            place_mistake(wrong, &read[i], statements->items[i], position, &why);
        if (status)
            return status;
    }
    return SEMEL_OK;
}

semel_status sql_check(semel_store *store, const char *store_url, const config_list *setup,
                       const config_list *statements, sql_mistake *wrong, semel_error *err)
{
    region memory = {0};
    value_sql *read = region_alloc(&memory, (statements->count + 1) * sizeof *read);
    *wrong = (sql_mistake){0};
    semel_status status = read_all(read, &memory, statements, store_url, wrong)
                              ? check_all(store, store_url, setup, statements, read, wrong, err)
                              : semel_fail(err, SEMEL_EINVAL, "%s", wrong->what.text);
    region_free(&memory);
    return status;
}

semel_status sql_setup(semel_store *store, const config_list *setup, size_t *failed,
                       semel_error *err)
{
    return setup->count ? semel_store_run(store, setup->items, setup->count, failed, err)
                        : SEMEL_OK;
}
