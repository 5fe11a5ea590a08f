/* Rows of a query, as text, on the connection of a unit: for the catalogues of a database, and for
 * the expectations of a test. */
#ifndef SEMEL_PROGRAM_CAPTURE_ROWS_H
#define SEMEL_PROGRAM_CAPTURE_ROWS_H

#include "program/handler/value_sql.h"

#include <semel/unit.h>

enum { ROWS_COLUMNS_MAX = 8 };

/* A value is NULL if it is NULL in the database, or if the query has no such column. All are
 * borrowed for the call, which must not use the unit. */
typedef void rows_visitor(const char *const values[ROWS_COLUMNS_MAX], void *context);

/* Runs a statement in the unit's transaction; `visit` may be NULL. A server that is away is
 * SEMEL_EUNAVAILABLE, a lock that was waited for in vain SEMEL_EBUSY, what the database does not
 * take SEMEL_ESTORE, with its own text. After an error the unit may only be rolled back. */
semel_status rows_ask(semel_unit *unit, sql_kind kind, const char *sql, rows_visitor *visit,
                      void *context, semel_error *err);

#endif
