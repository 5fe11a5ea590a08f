/* The application's queued statements. SQLite is no round trip away, so each is run at once.
 *
 * One that fails is the handler's failure, and nothing of the unit may be committed then, even if
 * the handler passes over it: on a server the transaction would be over, and the same handler shall
 * not half work here. So the failure is kept with the unit until it is undone.
 *
 * A handler queues the same few texts again and again: each connection keeps the last QUEUED_KEPT
 * of them prepared. A joined unit has a connection structure of its own, and keeps them for as long
 * as it lives. */
#include "store/sql/sql.h"
#include "store/sqlite/sqlite.h"

#include <string.h>

/* --- failures --------------------------------------------------------------------------------- */

/* Not about the statement: it may well work another time. */
static int is_the_stores(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_NOMEM:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
    case SQLITE_MISUSE:
        return 1;
    default:
        return 0;
    }
}

static semel_status fail_statement(const sqlite_connection *on, int code, const char *text,
                                   semel_error *err)
{
    if (is_the_stores(code))
        return sqlite_connection_fail(on, code, "running a queued statement", err);
    semel_fail(err, SEMEL_EHANDLER, "sqlite, queued statement (%.*s): %s", (int)sql_head(text),
               text, sqlite3_errmsg(on->db));
    err->native = sqlite3_extended_errcode(on->db);
    return SEMEL_EHANDLER;
}

semel_status sqlite_queue_failure(const sqlite_unit *unit, semel_error *err)
{
    if (unit->failure.status && err)
        *err = unit->failure;
    return unit->failure.status;
}

/* --- prepared statements ---------------------------------------------------------------------- */

/* The one with this text, or else the place for it: an empty one, or that of the longest unused. */
static sqlite_queued *find_kept(sqlite_connection *on, const char *text)
{
    sqlite_queued *place = &on->queued[0];
    for (sqlite_queued *at = on->queued; at < on->queued + QUEUED_KEPT; at++) {
        if (at->stmt && strcmp(sqlite3_sql(at->stmt), text) == 0)
            return at;
        if (place->stmt && (!at->stmt || at->used < place->used))
            place = at;
    }
    sqlite3_finalize(place->stmt);
    place->stmt = NULL;
    return place;
}

/* We and SQLite must have read the same in the text, or values would go where they do not
 * belong. */
static semel_status check_reading(sqlite3_stmt *stmt, const char *tail, size_t count,
                                  semel_error *err)
{
    if (!stmt || *tail || (size_t)sqlite3_bind_parameter_count(stmt) != count)
        return semel_fail(err, SEMEL_EINVAL,
                          "queued statement: SQLite does not see one statement with %zu marks",
                          count);
    return SEMEL_OK;
}

static semel_status prepare_kept(sqlite3_stmt **out, sqlite_connection *on, const char *text,
                                 size_t count, semel_error *err)
{
    sqlite_queued *q = find_kept(on, text);
    if (!q->stmt) {
        const char *tail = NULL;
        int code = sqlite3_prepare_v3(on->db, text, -1, SQLITE_PREPARE_PERSISTENT, &q->stmt, &tail);
        if (code != SQLITE_OK)
            return fail_statement(on, code, text, err);
        semel_status status = check_reading(q->stmt, tail, count, err);
        if (status) {
            sqlite3_finalize(q->stmt);
            q->stmt = NULL;
            return status;
        }
    }
    q->used = ++on->queued_uses;
    *out = q->stmt;
    return SEMEL_OK;
}

/* --- running ---------------------------------------------------------------------------------- */

/* A pointer that is NULL would bind NULL, not the empty value. */
static int bind_value(sqlite3_stmt *stmt, int at, const semel_value *value)
{
    const void *data = value->bytes.data ? value->bytes.data : "";
    switch (value->kind) {
    case SEMEL_VALUE_NULL:
        return sqlite3_bind_null(stmt, at);
    case SEMEL_VALUE_INT:
        return sqlite3_bind_int64(stmt, at, value->integer);
    case SEMEL_VALUE_REAL:
        return sqlite3_bind_double(stmt, at, value->real);
    case SEMEL_VALUE_TEXT:
        return sqlite3_bind_text64(stmt, at, data, value->bytes.len, SQLITE_STATIC, SQLITE_UTF8);
    case SEMEL_VALUE_BYTES:
        return sqlite3_bind_blob64(stmt, at, data, value->bytes.len, SQLITE_STATIC);
    }
    return SQLITE_MISUSE; /* check_kinds() has seen to it */
}

static semel_status check_kinds(const semel_value values[], size_t count, semel_error *err)
{
    for (size_t i = 0; i < count; i++)
        if ((unsigned)values[i].kind > SEMEL_VALUE_BYTES)
            return semel_fail(err, SEMEL_EINVAL, "queued statement: value %zu is of no kind",
                              i + 1);
    return SEMEL_OK;
}

static semel_status run_queued(sqlite_connection *on, const char *text, const semel_value values[],
                               size_t count, semel_error *err)
{
    sqlite3_stmt *stmt = NULL;
    semel_status status = prepare_kept(&stmt, on, text, count, err);
    if (status)
        return status;
    int code = SQLITE_OK;
    for (size_t i = 0; code == SQLITE_OK && i < count; i++)
        code = bind_value(stmt, (int)i + 1, &values[i]);
    if (code == SQLITE_OK)
        do
            code = sqlite3_step(stmt);
        while (code == SQLITE_ROW);
    if (code != SQLITE_DONE)
        status = fail_statement(on, code, text, err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt); /* they point to what is the caller's */
    return status;
}

static semel_status run_translated(sqlite_unit *unit, const char *sql, const semel_value values[],
                                   size_t count, semel_error *err)
{
    const char *text = NULL;
    mem_arena *scratch = sqlite_unit_scratch(unit);
    if (sqlite3_get_autocommit(unit->on->db)) /* it would commit by itself */
        return sqlite_connection_ended(unit->on, err);
    arena_reset(scratch);
    unit->queued = 1;
    semel_status status = check_kinds(values, count, err);
    if (!status)
        status = sql_translate(&text, scratch, SQL_SQLITE, sql, count, err);
    return status ? status : run_queued(unit->on, text, values, count, err);
}

/* A text that was refused changed nothing; anything else has failed. */
semel_status sqlite_queue(void *unit_state, const char *sql, const semel_value values[],
                          size_t count, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    semel_error why;
    semel_status status = sqlite_queue_failure(unit, err);
    if (status)
        return status;
    status = run_translated(unit, sql, values, count, &why);
    if (status && status != SEMEL_EINVAL && status != SEMEL_ELIMIT)
        unit->failure = why;
    if (status && err)
        *err = why;
    return status;
}

/* --- checking --------------------------------------------------------------------------------- */

/* SQLite counts bytes, from 0 on; -1: it does not know. */
static size_t error_position(sqlite_unit *unit, const char *sql, size_t count)
{
#if SQLITE_VERSION_NUMBER >= 3038000
    int offset = sqlite3_error_offset(unit->on->db);
    return offset < 0
               ? 0
               : sql_position(sqlite_unit_scratch(unit), SQL_SQLITE, sql, count, (size_t)offset);
#else
    (void)unit;
    (void)sql;
    (void)count;
    return 0;
#endif
}

static semel_status fail_check(sqlite_unit *unit, int code, const char *sql, size_t count,
                               size_t *position, semel_error *err)
{
    const sqlite_connection *on = unit->on;
    if (is_the_stores(code))
        return sqlite_connection_fail(on, code, "checking a statement", err);
    *position = error_position(unit, sql, count);
    semel_fail(err, SEMEL_EINVAL, "%s", sqlite3_errmsg(on->db));
    if (err)
        err->native = sqlite3_extended_errcode(on->db);
    return SEMEL_EINVAL;
}

semel_status sqlite_check(void *unit_state, const char *sql, size_t count, size_t *position,
                          semel_error *err)
{
    sqlite_unit *unit = unit_state;
    const char *text = NULL, *tail = NULL;
    sqlite3_stmt *stmt = NULL;
    semel_status status = sqlite_queue_failure(unit, err);
    arena_reset(sqlite_unit_scratch(unit));
    if (!status)
        status = sql_translate_at(&text, sqlite_unit_scratch(unit), SQL_SQLITE, sql, count,
                                  position, err);
    if (status)
        return status;
    int code = sqlite3_prepare_v2(unit->on->db, text, -1, &stmt, &tail);
    status = code == SQLITE_OK ? check_reading(stmt, tail, count, err)
                               : fail_check(unit, code, sql, count, position, err);
    sqlite3_finalize(stmt);
    return status;
}
