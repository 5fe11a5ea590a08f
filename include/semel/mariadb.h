/* MariaDB and MySQL: the native handle of a unit, and units inside a transaction that the caller has open.
 *
 *     mariadb://user:password@host:3306/database?prefix=semel_&pool=8&isolation=read-committed
 *
 * The client's usual places count, too (option files, see `options`). Parameters:
 *     prefix     of its tables' names; default semel_
 *     pool       connections at most; default 8
 *     isolation  read-committed, repeatable-read or serializable; default: the server's setting
 *     socket     path of a Unix socket, instead of host and port
 *     options    group of the client's option files (my.cnf) to read; default: none
 *     connect_timeout, read_timeout, write_timeout   seconds
 *     tls        off, on (encrypted), or verify (default when tls_ca is given: the server's certificate and name)
 *     tls_ca, tls_cert, tls_key   files
 *
 * What the process does with SIGPIPE stays as it is, though libmariadb by itself would ignore it. The store's own calls
 * never raise it. With TLS a handler's may, when the connection is cut: ignore it then.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_MARIADB_H
#define SEMEL_MARIADB_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

struct st_mysql; /* MYSQL of <mysql.h> */

/* The connection that the unit's transaction is open on: do the handler's work on it. NULL if the store is
 * not MariaDB, or where no transaction is open (claim and queued mode). Leave it as it was: all results read,
 * the transaction open. A handler that ends the transaction (in MariaDB a CREATE TABLE does, too) gets
 * SEMEL_EMISUSE. */
SEMEL_API struct st_mysql *semel_unit_mariadb(semel_unit *unit);

/* A unit inside the transaction that the caller has open on `connection`, which must be one to the store's
 * database. Commit and rollback of such a unit end the unit only, by a savepoint: the transaction remains
 * the caller's, who alone commits it. Claims of it must not be of inboxes in claim mode. */
SEMEL_API semel_status semel_unit_join_mariadb(semel_unit **out, semel_store *store,
                                               struct st_mysql *connection, semel_error *err);

SEMEL_END_DECLS

#endif
