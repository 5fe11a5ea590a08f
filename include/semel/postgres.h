/* PostgreSQL: the native handle of a unit, and units inside a transaction that the caller has open.
 *
 *     postgres://user:password@host:5432/database?schema=semel&pool=8&isolation=serializable&notify=off
 *
 * Everything that libpq knows may stand in the URL (sslmode, connect_timeout, host=/run/postgresql ...) or in
 * its usual places (PGPASSFILE, ~/.pg_service.conf, environment). Of semel's own are
 *     schema     where its tables are; default public
 *     pool       connections at most; default 8
 *     isolation  read-committed, repeatable-read or serializable; default: the server's setting
 *     notify     on (default): sending wakes relays in other processes by NOTIFY, a few times a second. Behind a pooler
 *                they listen only if the URL says notify=on, which takes a session of their own (pool_mode=session)
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_POSTGRES_H
#define SEMEL_POSTGRES_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

struct pg_conn; /* PGconn of <libpq-fe.h> */

/* The connection that the unit's transaction is open on: do the handler's work on it. NULL if the store is
 * not PostgreSQL, or where no transaction is open (claim and queued mode). Leave it as it was: in blocking
 * mode, outside of pipeline mode, all results read, the transaction open. A handler that ends the
 * transaction gets SEMEL_EMISUSE. One that ignores that a statement has failed has failed itself (SEMEL_EHANDLER). */
SEMEL_API struct pg_conn *semel_unit_postgres(semel_unit *unit);

/* A unit inside the transaction that the caller has open on `connection`, which must be one to the store's
 * database. Commit and rollback of such a unit end the unit only, by a savepoint: the transaction remains
 * the caller's, who alone commits it. Claims of it must not be of inboxes in claim mode. */
SEMEL_API semel_status semel_unit_join_postgres(semel_unit **out, semel_store *store,
                                                struct pg_conn *connection, semel_error *err);

SEMEL_END_DECLS

#endif
