/* See sqlite_case.h. */
#include "support/sqlite_case.h"

#include "support/deadline.h"

#include <stdlib.h>
#include <string.h>

/* --- opening and closing -------------------------------------------------------------------------- */

int lite_setup_empty(void **state)
{
    sqlite_case *c = calloc(1, sizeof *c);
    if (!c)
        return -1;
    deadline_begin();
    scratch_open(&c->directory);
    scratch_file(c->path, &c->directory, "shop.db");
    scratch_sqlite(c->url, &c->directory, "shop.db");
    *state = c;
    return 0;
}

void lite_open(sqlite_case *c, uint32_t busy_ms)
{
    semel_store_options options = {.size = sizeof options, .busy_ms = busy_ms};
    semel_inbox_options claims = {.size = sizeof claims, .mode = SEMEL_CLAIM};
    OK(semel_store_open(&c->store, c->url, &options, &last_error));
    OK(semel_store_migrate(c->store, &last_error));
    OK(semel_inbox_open(&c->inbox, c->store, "orders", NULL, &last_error));
    OK(semel_inbox_open(&c->claims, c->store, "tasks", &claims, &last_error));
    OK(semel_outbox_open(&c->outbox, c->store, "mail", &last_error));
}

void lite_close(sqlite_case *c)
{
    semel_inbox_close(c->inbox);
    semel_inbox_close(c->claims);
    semel_outbox_close(c->outbox);
    semel_store_close(c->store);
    c->inbox = c->claims = NULL;
    c->outbox = NULL;
    c->store = NULL;
}

int lite_setup(void **state)
{
    if (lite_setup_empty(state))
        return -1;
    lite_open(*state, 2000);
    SQL(lite_other(*state), "CREATE TABLE effect (id TEXT)");
    return 0;
}

int lite_teardown(void **state)
{
    sqlite_case *c = *state;
    sqlite3_close_v2(c->other);
    lite_close(c);
    scratch_close(&c->directory);
    free(c);
    deadline_end();
    return 0;
}

sqlite3 *lite_other(sqlite_case *c)
{
    if (!c->other)
        assert_int_equal(sqlite3_open(c->path, &c->other), SQLITE_OK);
    return c->other;
}

/* --- SQL ------------------------------------------------------------------------------------------ */

void lite_run(sqlite3 *db, const char *sql, const char *file, int line)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return;
    print_error("%s\n    %s\n", sql, sqlite3_errmsg(db));
    _fail(file, line);
}

int64_t lite_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        number = sqlite3_column_int64(stmt, 0);
    else
        print_error("%s\n    %s\n", sql, sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
    assert_true(number >= 0);
    return number;
}

int64_t lite_effects(sqlite_case *c)
{
    return lite_number(lite_other(c), "SELECT count(*) FROM effect");
}

int64_t lite_markers(sqlite_case *c)
{
    return lite_number(lite_other(c), "SELECT count(*) FROM semel_marker WHERE state = 0");
}

/* --- handling ------------------------------------------------------------------------------------- */

semel_status lite_write_effect(semel_unit *unit, const semel_message *message, semel_error *err)
{
    sqlite3 *db = semel_unit_sqlite(unit);
    sqlite3_stmt *stmt = NULL;
    int code = db ? sqlite3_prepare_v2(db, "INSERT INTO effect (id) VALUES (?)", -1, &stmt, NULL)
                  : SQLITE_MISUSE;
    if (code == SQLITE_OK)
        code = sqlite3_bind_text64(stmt, 1, message->id.data, message->id.len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    return code == SQLITE_DONE ? SEMEL_OK : semel_fail(err, SEMEL_EHANDLER, "the effect: %d", code);
}

semel_status lite_handle(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    semel_status status = lite_write_effect(unit, message, err);
    return status ? status : work_do(unit, message, context, err);
}

void lite_receive(semel_status status, semel_outcome outcome, semel_inbox *inbox, const char *id,
                  semel_handler *handler, void *context, const char *file, int line)
{
    semel_outcome found = SEMEL_UNDECIDED;
    semel_message message = text_message(id, "10 EUR");
    check_forget();
    semel_status got = semel_inbox_receive(&found, inbox, &message, handler, context, &last_error);
    if (found != outcome) {
        print_error("the outcome is %s, not %s (%s: %s)\n", semel_outcome_name(found),
                    semel_outcome_name(outcome), semel_status_name(got), last_error.text);
        _fail(file, line);
    }
    check_status(status, got, "semel_inbox_receive", file, line);
}
