/* MariaDB and MySQL: the native connection of a unit, and units inside a transaction of the
 * caller's.
 *
 *     mariadb://user:password@host:3306/database?prefix=semel_&pool=8&isolation=read-committed
 *
 * Settings may also come from the client's option files (see `options`). Parameters:
 *     prefix     prefix of the names of semel's tables; default semel_
 *     pool       largest number of connections; default 8
 *     isolation  read-committed, repeatable-read or serializable; default: the server's setting
 *     socket     path of a Unix socket, instead of host and port
 *     options    the group of the client's option files (my.cnf) to read; default: none
 *     connect_timeout, read_timeout, write_timeout   seconds
 *     tls        off, on (encrypted), or verify (also checks the server's certificate and name; the
 *                default when tls_ca is given)
 *     tls_ca, tls_cert, tls_key   files
 *
 * The store leaves the process's disposition of SIGPIPE as it is, although libmariadb alone would
 * set it to "ignore". The store's own calls never raise SIGPIPE. With TLS, a handler's own
 * statements may raise it when the connection is cut; a program with such handlers should ignore
 * the signal.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_MARIADB_H
#define SEMEL_MARIADB_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

struct st_mysql; /* MYSQL of <mysql.h> */

/* The connection on which the unit's transaction is open; the handler does its work on it. NULL if
 * the store is not MariaDB, or if no transaction is open (claim and queued mode). The handler must
 * leave the connection as it found it: all results read, the transaction open. If the handler ends
 * the transaction (in MariaDB a CREATE TABLE ends it, too), the result is SEMEL_EMISUSE. */
SEMEL_API struct st_mysql *semel_unit_mariadb(semel_unit *unit);

/* Opens a unit inside the transaction that the caller has open on `connection`, which must be a
 * connection to the store's database. Commit and rollback of such a unit release or undo a
 * savepoint and end the unit only; the transaction remains the caller's, and only the caller
 * commits it. The unit must not claim keys of inboxes in claim mode. */
SEMEL_API semel_status semel_unit_join_mariadb(semel_unit **out, semel_store *store,
                                               struct st_mysql *connection, semel_error *err);

SEMEL_END_DECLS

#endif
