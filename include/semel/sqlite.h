/* SQLite: the native connection of a unit, and units inside a transaction of the caller's.
 *
 * A SQLite file has one writer at a time. In transaction mode the unit is that writer from the
 * claim of its key until its commit, so a slow handler makes every other writer of the file
 * wait, in this process and in others; after busy_ms they return SEMEL_EBUSY. Keep these
 * handlers short, use claim mode (no transaction is open during the work) or queued mode (it
 * begins after the handler) for slow ones, or a store on a server. Readers never wait.
 *
 * Units of several threads share a commit, since every durable commit waits for the disk: while
 * other threads wait for the writer, a unit that is done hands its transaction to the next one
 * instead of committing it. The last one commits for all, and each call returns when that commit is
 * durable. A unit that fails is undone by itself. Up to 64 units share, for about as long as a
 * commit takes, but 8 ms at most; slow handlers do not. What to know about it:
 *  - A handler sees what units before it in the same transaction have done; all are committed
 *    together.
 *  - If a handler ends the transaction, or if the commit fails, the other units are begun anew, and
 *    their handlers run again (for a unit of the caller's own, semel_unit_commit() returns
 *    SEMEL_ECONFLICT).
 *  - A call that waits for another unit's handler for longer than busy_ms returns SEMEL_EUNKNOWN.
 * With share=off in the URL each unit commits by itself.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SQLITE_H
#define SEMEL_SQLITE_H

#include <semel/unit.h>
#include <sqlite3.h>

SEMEL_BEGIN_DECLS

/* The connection on which the unit's transaction is open; the handler does its work on it. NULL if
 * the store is not SQLite, or in claim mode, where no transaction is open. The handler must neither
 * close the connection nor end the transaction; if it ends the transaction, the result is
 * SEMEL_EMISUSE. */
SEMEL_API sqlite3 *semel_unit_sqlite(semel_unit *unit);

/* Opens a unit inside the transaction that the caller has open on `db` (begin it with BEGIN
 * IMMEDIATE). The file must be the one that `store` has open. Commit and rollback of such a unit
 * release or undo a savepoint and end the unit only; the transaction remains the caller's, and only
 * the caller commits it. The unit must not claim keys of inboxes in claim mode. */
SEMEL_API semel_status semel_unit_join_sqlite(semel_unit **out, semel_store *store, sqlite3 *db,
                                              semel_error *err);

SEMEL_END_DECLS

#endif
