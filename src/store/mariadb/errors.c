/* What the errors of server and client mean to the core: by number, never by text, and what an
 * operator can do about them. A number that is not in the table is an unexpected error of the
 * store. */
#include "store/mariadb/connection.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <string.h>

/* Not in mysqld_error.h of all versions. */
enum { ER_CONNECTION_WAS_KILLED = 1927, ER_STATEMENT_TOOK_TOO_LONG = 1969 };

typedef struct meaning {
    unsigned number;
    semel_status status;
    const char *advice;
} meaning;

static const meaning meanings[] = {
    {ER_LOCK_DEADLOCK, SEMEL_ECONFLICT, ""},
    {ER_LOCK_WAIT_TIMEOUT, SEMEL_EBUSY, "; another transaction keeps a row or a table locked"},
    {ER_CHECKREAD, SEMEL_ECONFLICT, ""},
    {ER_XA_RBDEADLOCK, SEMEL_ECONFLICT, ""},
    {ER_XA_RBTIMEOUT, SEMEL_ECONFLICT, ""},
    {ER_STATEMENT_TOOK_TOO_LONG, SEMEL_EBUSY, ""},
    {ER_QUERY_INTERRUPTED, SEMEL_EUNAVAILABLE, "; an operator or a limit killed the statement"},
    {ER_CONNECTION_WAS_KILLED, SEMEL_EUNAVAILABLE,
     "; an operator or a limit killed the connection"},
    {ER_SERVER_SHUTDOWN, SEMEL_EUNAVAILABLE, ""},
    {ER_NORMAL_SHUTDOWN, SEMEL_EUNAVAILABLE, ""},
    {ER_NEW_ABORTING_CONNECTION, SEMEL_EUNAVAILABLE, ""},
    {ER_CON_COUNT_ERROR, SEMEL_EUNAVAILABLE,
     "; raise max_connections, or use a smaller ?pool= in each process"},
    {ER_TOO_MANY_USER_CONNECTIONS, SEMEL_EUNAVAILABLE,
     "; raise max_user_connections, or use a smaller ?pool= in each process"},
    {ER_USER_LIMIT_REACHED, SEMEL_EUNAVAILABLE, "; the account has a limit"},
    {ER_HOST_IS_BLOCKED, SEMEL_EUNAVAILABLE, "; run mariadb-admin flush-hosts on the server"},
    {ER_OPTION_PREVENTS_STATEMENT, SEMEL_EUNAVAILABLE, "; is it a replica?"},
    {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, SEMEL_EUNAVAILABLE, "; is it a replica?"},
    {CR_CONNECTION_ERROR, SEMEL_EUNAVAILABLE, ""},
    {CR_CONN_HOST_ERROR, SEMEL_EUNAVAILABLE, ""},
    {CR_IPSOCK_ERROR, SEMEL_EUNAVAILABLE, ""},
    {CR_SOCKET_CREATE_ERROR, SEMEL_EUNAVAILABLE, ""},
    {CR_UNKNOWN_HOST, SEMEL_EUNAVAILABLE, ""},
    {CR_SERVER_GONE_ERROR, SEMEL_EUNAVAILABLE, ""},
    {CR_SERVER_LOST, SEMEL_EUNAVAILABLE, ""},
    {CR_SERVER_LOST_EXTENDED, SEMEL_EUNAVAILABLE, ""},
    {CR_SERVER_HANDSHAKE_ERR, SEMEL_EUNAVAILABLE, ""},
    {CR_MALFORMED_PACKET, SEMEL_EUNAVAILABLE, ""},
    {CR_OUT_OF_MEMORY, SEMEL_ENOMEM, ""},
    {CR_COMMANDS_OUT_OF_SYNC, SEMEL_EMISUSE,
     "; the handler left results on the connection that it has not read"},
    {CR_SSL_CONNECTION_ERROR, SEMEL_EINVAL, "; see tls, tls_ca, tls_cert and tls_key in the URL"},
    {ER_ACCESS_DENIED_ERROR, SEMEL_EINVAL, "; check the user and the password in the URL"},
    {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, SEMEL_EINVAL, "; check the user in the URL"},
    {ER_DBACCESS_DENIED_ERROR, SEMEL_EINVAL, "; GRANT the user the rights to that database"},
    {ER_BAD_DB_ERROR, SEMEL_EINVAL, "; CREATE DATABASE it first"},
    {ER_HOST_NOT_PRIVILEGED, SEMEL_EINVAL, "; the server does not let this host in"},
    {ER_NOT_SUPPORTED_AUTH_MODE, SEMEL_EINVAL, ""},
    {CR_AUTH_PLUGIN_CANNOT_LOAD, SEMEL_EINVAL, "; the client lacks that authentication plugin"},
    {CR_UNKNOWN_ERROR, SEMEL_ESTORE, ""},
    {ER_TABLEACCESS_DENIED_ERROR, SEMEL_ESTORE, "; GRANT the user the rights to semel's tables"},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, SEMEL_ESTORE, "; GRANT the user that right"},
    {ER_NO_SUCH_TABLE, SEMEL_ESCHEMA, "; if it is semel's, call semel_store_migrate() first"},
    {ER_BAD_FIELD_ERROR, SEMEL_ESCHEMA, "; are these semel's tables?"},
    {ER_DISK_FULL, SEMEL_ESTORE, "; the server's disk is full"},
    {ER_RECORD_FILE_FULL, SEMEL_ESTORE, "; the server's disk, or a limit of it, is full"},
    {ER_NET_PACKET_TOO_LARGE, SEMEL_ELIMIT, "; raise max_allowed_packet on the server"},
};

static meaning meaning_of(unsigned number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].number == number)
            return meanings[i];
    return (meaning){number, SEMEL_ESTORE, ""};
}

int maria_is_conflict(unsigned number)
{
    return meaning_of(number).status == SEMEL_ECONFLICT;
}

int maria_is_lost(unsigned number)
{
    int is_clients = (number >= CR_MIN_ERROR && number <= CR_MAX_ERROR) ||
                     (number >= 5000 && number < 6000); /* the second range is MariaDB's own */
    if (number == CR_COMMANDS_OUT_OF_SYNC ||
        number == CR_OUT_OF_MEMORY) /* the other end is there */
        return 0;
    int is_networks =
        number >= ER_NET_READ_ERROR_FROM_PIPE - 4 && number <= ER_NET_WRITE_INTERRUPTED;
    return is_clients || is_networks || number == ER_SERVER_SHUTDOWN ||
           number == ER_NORMAL_SHUTDOWN || number == ER_CONNECTION_WAS_KILLED ||
           number == ER_NEW_ABORTING_CONNECTION || number == ER_NET_PACKET_TOO_LARGE;
}

static semel_status fail_with(semel_error *err, unsigned number, const char *text,
                              const char *sqlstate, const char *doing)
{
    meaning of = meaning_of(number);
    semel_status status = semel_fail(err, of.status, "mariadb, %s: %s%s", doing,
                                     number ? text : "no answer", of.advice);
    if (err) {
        err->native = (int32_t)number;
        memcpy(err->sqlstate, sqlstate, sizeof err->sqlstate - 1);
    }
    return status;
}

semel_status maria_fail(maria_connection *on, const char *doing, semel_error *err)
{
    unsigned number = mysql_errno(on->my);
    on->lost |= maria_is_lost(number) || number == CR_COMMANDS_OUT_OF_SYNC;
    return fail_with(err, number, mysql_error(on->my), mysql_sqlstate(on->my), doing);
}

semel_status maria_fail_statement(maria_connection *on, MYSQL_STMT *stmt, const char *doing,
                                  semel_error *err)
{
    unsigned number = mysql_stmt_errno(stmt);
    on->lost |= maria_is_lost(number) || number == CR_COMMANDS_OUT_OF_SYNC;
    return fail_with(err, number, mysql_stmt_error(stmt), mysql_stmt_sqlstate(stmt), doing);
}
