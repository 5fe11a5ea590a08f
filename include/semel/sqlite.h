/* SQLite: the native connection of a unit, and units inside a transaction of the caller's.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SQLITE_H
#define SEMEL_SQLITE_H

#include <semel/unit.h>
#include <sqlite3.h>

SEMEL_BEGIN_DECLS

/* The connection on which the unit's transaction is open; the handler does its work on it. NULL if the store is not
 * SQLite, or in claim mode, where no transaction is open. The handler must neither close the connection nor end the
 * transaction; if it ends the transaction, the result is SEMEL_EMISUSE. */
SEMEL_API sqlite3 *semel_unit_sqlite(semel_unit *unit);

/* Opens a unit inside the transaction that the caller has open on `db` (begin it with BEGIN IMMEDIATE). The file must
 * be the one that `store` has open. Commit and rollback of such a unit release or undo a savepoint and end the unit
 * only; the transaction remains the caller's, and only the caller commits it. The unit must not claim keys of inboxes
 * in claim mode. */
SEMEL_API semel_status semel_unit_join_sqlite(semel_unit **out, semel_store *store, sqlite3 *db,
                                              semel_error *err);

SEMEL_END_DECLS

#endif
