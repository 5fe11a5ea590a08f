/* The versions of a store's tables: the files in sql/NAME, embedded at build time
 * (cmake/EmbedSql.cmake). */
#ifndef SEMEL_STORE_SQL_SCHEMA_H
#define SEMEL_STORE_SQL_SCHEMA_H

#include <semel/error.h>

/* One of a list, which counts from version 1 without a gap and ends with one of zeros. */
typedef struct sql_migration {
    int version;
    const char *name;
    const char *sql;
} sql_migration;

/* The step that follows this version, 0 being none; NULL behind the last one. */
const sql_migration *sql_schema_next(const sql_migration *steps, int64_t version);

/* ESCHEMA if the tables are newer than the last step: going on would destroy. */
semel_status sql_schema_check_not_newer(const sql_migration *steps, int64_t version,
                                        semel_error *err);

/* ESCHEMA unless the tables are there, in the version of the last step. */
semel_status sql_schema_check(const sql_migration *steps, int64_t version, semel_error *err);

#endif
