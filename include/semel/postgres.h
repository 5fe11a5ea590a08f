/* PostgreSQL: the native connection of a unit, and units inside a transaction of the caller's.
 *
 *     postgres://user:password@host:5432/database?schema=semel&pool=8&isolation=serializable
 *
 * The URL may have every parameter of libpq (sslmode, connect_timeout, host=/run/postgresql ...);
 * libpq also reads its usual sources (PGPASSFILE, ~/.pg_service.conf, the environment). semel adds
 * these parameters:
 *     schema     the schema of semel's tables; default public
 *     pool       largest number of connections; default 8
 *     isolation  read-committed, repeatable-read or serializable; default: the server's setting
 *     notify     on (the default): sending wakes relays in other processes by NOTIFY, a few times a
 *                second. Behind a pooler, relays listen only if the URL says notify=on, which needs
 *                a session for each relay (pool_mode=session)
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_POSTGRES_H
#define SEMEL_POSTGRES_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

struct pg_conn; /* PGconn of <libpq-fe.h> */

/* The connection on which the unit's transaction is open; the handler does its work on it. NULL if
 * the store is not PostgreSQL, or if no transaction is open (claim and queued mode). The handler
 * must leave the connection as it found it: in blocking mode, outside of pipeline mode, all results
 * read, the transaction open. If the handler ends the transaction, the result is SEMEL_EMISUSE. If
 * it ignores that a statement has failed, the handler has failed (SEMEL_EHANDLER). */
SEMEL_API struct pg_conn *semel_unit_postgres(semel_unit *unit);

/* Opens a unit inside the transaction that the caller has open on `connection`, which must be a
 * connection to the store's database. Commit and rollback of such a unit release or undo a
 * savepoint and end the unit only; the transaction remains the caller's, and only the caller
 * commits it. The unit must not claim keys of inboxes in claim mode. */
SEMEL_API semel_status semel_unit_join_postgres(semel_unit **out, semel_store *store,
                                                struct pg_conn *connection, semel_error *err);

SEMEL_END_DECLS

#endif
