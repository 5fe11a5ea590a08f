/* What the errors of server and client mean to the core: by SQLSTATE, never by text, and what an
 * operator can do about them. A state that is not in the table is an unexpected error of the
 * store. */
#include "store/postgres/connection.h"

#include <string.h>

int pg_in_class(const char *sqlstate, const char *class)
{
    return strncmp(sqlstate, class, strlen(class)) == 0;
}

semel_status pg_sqlstate_status(const char *sqlstate)
{
    static const struct {
        const char *begins;
        semel_status status;
    } known[] = {{"40001", SEMEL_ECONFLICT}, /* serialization failure */
                 {"40P01", SEMEL_ECONFLICT}, /* deadlock */
                 {"26000", SEMEL_ECONFLICT}, /* the statements were deallocated: prepare anew */
                 {"3B001", SEMEL_EMISUSE},   /* our savepoint is gone: the handler's ROLLBACK */
                 {"55P03", SEMEL_EBUSY},     /* lock timeout */
                 {"57014", SEMEL_EBUSY},     /* cancelled: a timeout, ours or the server's */
                 {"08P01", SEMEL_ESTORE},    /* a value that is none of its type */
                 {"08", SEMEL_EUNAVAILABLE},
                 {"57P", SEMEL_EUNAVAILABLE},   /* shutting down, starting up, session terminated */
                 {"53", SEMEL_EUNAVAILABLE},    /* disk full, no memory, too many connections */
                 {"25006", SEMEL_EUNAVAILABLE}, /* a standby, which an operator may promote */
                 {"25P03", SEMEL_EUNAVAILABLE}, /* idle in transaction for too long */
                 {"25P04", SEMEL_EUNAVAILABLE}, /* in transaction for too long */
                 {"42P01", SEMEL_ESCHEMA},
                 {"42703", SEMEL_ESCHEMA},
                 {"3F000", SEMEL_ESCHEMA},
                 {"54", SEMEL_ELIMIT},
                 {"22021", SEMEL_EINVAL}}; /* not a text in the database's encoding */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pg_in_class(sqlstate, known[i].begins))
            return known[i].status;
    return SEMEL_ESTORE;
}

const char *pg_advice(const char *sqlstate)
{
    if (pg_in_class(sqlstate, "28"))
        return "; check user and password (URL, PGPASSWORD, PGPASSFILE) and the server's "
               "pg_hba.conf";
    if (pg_in_class(sqlstate, "42501"))
        return "; grant the user what is missing, or let another one call semel_store_migrate()";
    if (pg_in_class(sqlstate, "42P01") || pg_in_class(sqlstate, "3F000"))
        return "; if it is semel's, call semel_store_migrate() first";
    if (pg_in_class(sqlstate, "53100"))
        return "; the server's disk is full";
    if (pg_in_class(sqlstate, "25006"))
        return "; is it a standby? semel needs the primary (target_session_attrs=read-write)";
    if (pg_in_class(sqlstate, "53300"))
        return "; raise max_connections, or lower pool in the URL";
    return "";
}

/* libpq ends its messages with a newline, and joins several. */
int pg_first_line(const char *text)
{
    return (int)strcspn(text, "\n");
}

static semel_status fail_silent(const pg_connection *on, const char *doing, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNAVAILABLE,
                      "postgres, %s: the server has not answered for %u ms longer than it may wait "
                      "for locks (answer_ms); the connection is given up",
                      doing, on->limits.answer_ms);
}

semel_status pg_fail_unreachable(pg_connection *on, const char *doing, semel_error *err)
{
    if (on->silent)
        return fail_silent(on, doing, err);
    const char *text = on->pg ? PQerrorMessage(on->pg) : "out of memory";
    int len = pg_first_line(text);
    return semel_fail(err, SEMEL_EUNAVAILABLE, "postgres, %s: %.*s", doing, len ? len : 21,
                      len ? text : "the connection is lost");
}

/* FATAL or PANIC: the session, or the server, ends with it. A server always says which it is. An
 * answer that does not say so comes from a pooler, which has lost its session with the server. */
int pg_is_final(const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return !severity || strcmp(severity, "ERROR") != 0;
}

semel_status pg_fail(pg_connection *on, const PGresult *result, const char *doing, semel_error *err)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (!state)
        return pg_fail_unreachable(on, doing ? doing : "checking a statement", err);
    int final = pg_is_final(result);
    semel_status meant =
        final && pg_in_class(state, "08") ? SEMEL_EUNAVAILABLE : pg_sqlstate_status(state);
    semel_status status = doing ? semel_fail(err, meant, "postgres, %s: %s (%s)%s", doing,
                                             text ? text : "", state, pg_advice(state))
                                : semel_fail(err, meant, "%s", text ? text : state);
    if (err)
        memcpy(err->sqlstate, state, 5);
    if (final || pg_in_class(state, "26000"))
        on->lost = 1;
    return status;
}
