/* The application's queued statements: their values are written in place of the marks, so that they
 * travel in the same text as everything else. Whatever they are, values cannot be more than values;
 * see writer.h. */
#include "store/mariadb/mariadb.h"
#include "store/sql/sql.h"

#include <mysqld_error.h>
#include <string.h>

static size_t quoted_length(const char *at)
{
    size_t len = 1;
    for (; at[len] && at[len] != *at; len++)
        len += *at != '`' && at[len] == '\\' && at[len + 1];
    return len + (at[len] != 0);
}

/* Of a quoted text or a comment, in which a ? is no mark; else 0. A doubled quote is two texts side
 * by side. */
static size_t opaque_length(const char *at)
{
    if (*at == '\'' || *at == '"' || *at == '`')
        return quoted_length(at);
    if (sql_is_line_comment(SQL_MARIADB, at))
        return strcspn(at, "\n");
    if (at[0] != '/' || at[1] != '*')
        return 0;
    const char *end = strstr(at + 2, "*/");
    return end ? (size_t)(end - at) + 2 : strlen(at);
}

/* Up to the next mark. */
static size_t plain_length(const char *at)
{
    size_t len = 0;
    while (at[len] && at[len] != '?') {
        size_t opaque = opaque_length(at + len);
        len += opaque ? opaque : 1;
    }
    return len;
}

static semel_status write_values(text_buffer *to, const char *text, const semel_value values[],
                                 size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t used = 0; !status; used++) {
        size_t len = plain_length(text);
        text_append(to, text, len);
        text += len;
        if (!*text || used == count) /* the translation has counted: both at once */
            break;
        status = maria_value(to, &values[used], err);
        text++;
    }
    return status;
}

static size_t size_of(const char *text, const semel_value values[], size_t count)
{
    enum { NUMBER_TEXT = 48 };
    size_t size = strlen(text);
    for (size_t i = 0; i < count; i++)
        size += NUMBER_TEXT + 2 * values[i].bytes.len;
    return size;
}

static int begins_with(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i < len; i++)
        if (text_lower(text[i]) != word[i])
            return 0;
    return (unsigned char)text[len] <= ' ' || strchr("('\"`;/-#", text[len]) != NULL;
}

/* A procedure returns as many results as it likes: those of the statements behind it could not be
 * told apart. */
static int has_many_results(const char *text)
{
    while (*text && ((unsigned char)*text <= ' ' || *text == '(' || opaque_length(text))) {
        size_t opaque = opaque_length(text);
        text += opaque ? opaque : 1;
    }
    return begins_with(text, "call") || begins_with(text, "execute") ||
           begins_with(text, "analyze");
}

semel_status mariadb_queue(void *unit_state, const char *sql, const semel_value values[],
                           size_t count, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    const char *text = NULL;
    semel_status status = sql_translate(&text, &unit->on->scratch, SQL_MARIADB, sql, count, err);
    if (!status)
        status = maria_unit_make_room(unit, size_of(text, values, count), err);
    if (status)
        return status;
    int many = has_many_results(text), may_commit = many || !sql_only_changes_rows(text);
    if (may_commit)
        maria_unit_watch(unit);
    maria_query q = maria_unit_enqueue_text(unit, "");
    status = write_values(&unit->on->out.text, text, values, count, err);
    maria_step *s = maria_end(&q);
    s->kind = STEP_QUEUED;
    s->open_ended = many;
    unit->wrote = 1;
    if (may_commit)
        maria_unit_watched(unit);
    return status;
}

/* --- checking and running --------------------------------------------------------------------- */

/* Of what the application wrote: the server's own words. */
static semel_status blame_text(const maria_connection *on, semel_status status, const char *text,
                               semel_error *err)
{
    if (on->lost || status == SEMEL_EBUSY || status == SEMEL_ECONFLICT ||
        status == SEMEL_EUNAVAILABLE || status == SEMEL_ENOMEM)
        return status;
    if (!err)
        return SEMEL_EINVAL;
    semel_error native = *err;
    semel_fail(err, SEMEL_EINVAL, "%s", text);
    err->native = native.native;
    memcpy(err->sqlstate, native.sqlstate, sizeof err->sqlstate);
    return SEMEL_EINVAL;
}

/* A few statements cannot be prepared, and can be run: nothing is known of them. */
static semel_status prepare_text(maria_connection *on, MYSQL_STMT *stmt, const char *text,
                                 size_t count, semel_error *err)
{
    if (mysql_stmt_prepare(stmt, text, (unsigned long)strlen(text)))
        return mysql_stmt_errno(stmt) == ER_UNSUPPORTED_PS
                   ? SEMEL_OK
                   : blame_text(on, maria_fail_statement(on, stmt, "checking a statement", err),
                                mysql_stmt_error(stmt), err);
    if (mysql_stmt_param_count(stmt) != count)
        return semel_fail(err, SEMEL_EINVAL,
                          "queued statement: MariaDB does not see one statement with %zu marks",
                          count);
    return SEMEL_OK;
}

semel_status maria_check_text(maria_connection *on, const char *text, size_t count,
                              semel_error *err)
{
    maria_library_call call;
    maria_enter(&call, on);
    MYSQL_STMT *stmt = mysql_stmt_init(on->my);
    semel_status status = stmt ? prepare_text(on, stmt, text, count, err)
                               : semel_fail(err, SEMEL_ENOMEM, "out of memory for a statement");
    if (stmt)
        (void)mysql_stmt_close(stmt);
    maria_leave(&call);
    return status;
}

/* The server does not tell where in the text it found the mistake. */
semel_status mariadb_check(void *unit_state, const char *sql, size_t count, size_t *position,
                           semel_error *err)
{
    mariadb_unit *unit = unit_state;
    const char *text = NULL;
    semel_status status =
        sql_translate_at(&text, &unit->on->scratch, SQL_MARIADB, sql, count, position, err);
    if (!status)
        status = maria_unit_begin_alone(unit, err);
    if (!status)
        status = maria_check_text(unit->on, text, count, err);
    return status;
}

static semel_status run_text(maria_connection *on, const char *sql, semel_error *err)
{
    const char *text = NULL;
    semel_error why;
    semel_status status = sql_translate_alone(&text, &on->scratch, SQL_MARIADB, sql, err);
    if (status)
        return status;
    maria_query q = maria_start(&on->out, text, (maria_bound){PATIENT, 0});
    (void)maria_end(&q);
    maria_enqueue_plain(on, ST_COMMIT);
    status = maria_flush(on, NULL, "running a statement", &why);
    if (status && err)
        *err = why;
    return status ? blame_text(on, status, mysql_error(on->my), err) : SEMEL_OK;
}

semel_status mariadb_run(void *state, const char *sql, semel_error *err)
{
    maria_connection *on = NULL;
    semel_status status = maria_borrow_pooled(&on, state, err);
    if (status)
        return status;
    status = run_text(on, sql, err);
    if (!on->lost)
        maria_push_rollback(on);
    arena_reset(&on->scratch);
    maria_give_back(state, on);
    return status;
}
