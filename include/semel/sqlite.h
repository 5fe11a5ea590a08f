/* SQLite: the native handle of a unit, and units inside a transaction that the caller has open.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SQLITE_H
#define SEMEL_SQLITE_H

#include <semel/unit.h>
#include <sqlite3.h>

SEMEL_BEGIN_DECLS

/* The connection that the unit's transaction is open on: do the handler's work on it. NULL if the store
 * is not SQLite, or in claim mode, where no transaction is open. Do not close it, and do not end the
 * transaction: a handler that does gets SEMEL_EMISUSE. */
SEMEL_API sqlite3 *semel_unit_sqlite(semel_unit *unit);

/* A unit inside the transaction that the caller has open on `db` (begin it with BEGIN IMMEDIATE). The
 * file must be the one that `store` has open. Commit and rollback of such a unit end the unit only,
 * by a savepoint: the transaction remains the caller's, who alone commits it. Claims of it must be of
 * inboxes in transaction mode. */
SEMEL_API semel_status semel_unit_join_sqlite(semel_unit **out, semel_store *store, sqlite3 *db,
                                              semel_error *err);

SEMEL_END_DECLS

#endif
