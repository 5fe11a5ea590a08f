/* What SQLite's errors mean. They are told apart by number. */
#include "store/sqlite/statement.h"

static semel_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return SEMEL_EBUSY;
    case SQLITE_NOMEM:
        return SEMEL_ENOMEM;
    case SQLITE_MISUSE:
        return SEMEL_EMISUSE;
    case SQLITE_TOOBIG:
        return SEMEL_ELIMIT;
    default:
        return SEMEL_ESTORE;
    }
}

static const char *advice_for(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "; another process keeps the database locked";
    case SQLITE_FULL:
        return "; the disk is full";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return "; check that the file and its directory may be written";
    case SQLITE_NOTADB:
        return "; is it an SQLite file?";
    default:
        return "";
    }
}

semel_status sqlite_connection_fail(const sqlite_connection *on, int code, const char *doing,
                                    semel_error *err)
{
    const char *text = on->db ? sqlite3_errmsg(on->db) : sqlite3_errstr(code);
    int extended = on->db ? sqlite3_extended_errcode(on->db) : code;
    semel_status status =
        semel_fail(err, status_of(code), "sqlite, %s: %s%s", doing, text, advice_for(code));
    if (err)
        err->native = extended;
    return status;
}

/* After some errors SQLite itself undoes the whole transaction: then the error is the news, not the
 * end. */
static int undone_by_sqlite(const sqlite_connection *on)
{
    int code = sqlite3_errcode(on->db) & 0xff;
    return sqlite3_get_autocommit(on->db) &&
           (code == SQLITE_NOMEM || code == SQLITE_FULL || code == SQLITE_IOERR ||
            code == SQLITE_BUSY || code == SQLITE_INTERRUPT);
}

semel_status sqlite_connection_ended(const sqlite_connection *on, semel_error *err)
{
    if (undone_by_sqlite(on))
        return sqlite_connection_fail(on, sqlite3_errcode(on->db), "which undid the transaction",
                                      err);
    return semel_fail(
        err, SEMEL_EMISUSE,
        "the transaction was ended inside the unit, by the handler's own COMMIT or ROLLBACK "
        "or by SQLite after an error that the handler ignored");
}
