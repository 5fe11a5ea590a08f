/* One value from a database, for the expectations of a test. */
#ifndef SEMEL_PROGRAM_TEST_PLACE_QUERY_H
#define SEMEL_PROGRAM_TEST_PLACE_QUERY_H

#include "program/handler/value_sql.h"
#include "program/support/memory.h"

#include <semel/error.h>

/* Appends the first column of the first row, as text; nothing for NULL or no row. */
semel_status query_first(buffer *out, sql_kind kind, const char *store_url, const char *sql,
                         semel_error *err);

#endif
