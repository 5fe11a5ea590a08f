/* Statements with values in them: INSERT INTO ledger VALUES (:json/order_id, :json/amount). */
#ifndef SEMEL_PROGRAM_HANDLER_VALUE_SQL_H
#define SEMEL_PROGRAM_HANDLER_VALUE_SQL_H

#include "program/handler/value.h"

/* What is quoted, and where comments end. */
typedef enum sql_kind {
    SQL_KIND_SQLITE = 1,
    SQL_KIND_POSTGRES,
    SQL_KIND_MARIADB,
    SQL_KIND_REDIS,   /* no SQL: one command */
    SQL_KIND_DYNAMODB /* a statement of PartiQL, or an item in JSON */
} sql_kind;

/* By the scheme of a store's URL; 0 if the store has no SQL, or is none that is known. */
sql_kind sql_kind_of(const char *store_url);

/* The same for what an inbox may queue, which need not be SQL. */
sql_kind statement_kind_of(const char *store_url);

/* A statement as semel_unit_queue() takes it. */
typedef struct value_sql {
    const char *text; /* ? for a value, ?? for a question mark */
    const value_name *values;
    size_t count;
    /* where the text differs from what was written: behind `at` bytes of it, `now` bytes stand for
     * `was` bytes */
    const struct value_sql_change {
        size_t at;
        size_t now;
        size_t was;
    } * changes;
    size_t change_count;
} value_sql;

/* Finds the values of a statement: outside of quotes and comments, a colon that is followed by a
 * letter, _ or {. Casts (::int), assignments (:=) and slices ([1:2]) are no values. In a command of
 * Redis order::id is a word, whose end is a value. In an item of DynamoDB a colon of JSON is
 * followed by a space. 1, or 0 and *wrong. All goes to `memory`. */
int value_sql_read(value_sql *out, region *memory, sql_kind kind, const char *written,
                   value_mistake *wrong);

/* Where the byte `at` of the text was written, both from 0 on. */
size_t value_sql_written(const value_sql *statement, size_t at);

#endif
