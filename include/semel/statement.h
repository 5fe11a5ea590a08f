/* Values of an application's own statement, for semel_unit_queue(). The same text works on every
 * SQL store.
 *
 *     semel_value row[] = {semel_text("ada"), semel_int(1250), semel_blob(message->id)};
 *     semel_unit_queue(unit, "INSERT INTO charge (customer, cents, id) VALUES (?, ?, ?)", row, 3,
 *     err);
 *
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_STATEMENT_H
#define SEMEL_STATEMENT_H

#include <semel/message.h>

SEMEL_BEGIN_DECLS

typedef enum semel_value_kind {
    SEMEL_VALUE_NULL = 0,
    SEMEL_VALUE_INT,
    SEMEL_VALUE_REAL,
    SEMEL_VALUE_TEXT, /* UTF-8 */
    SEMEL_VALUE_BYTES
} semel_value_kind;

typedef struct semel_value {
    semel_value_kind kind;
    int64_t integer;
    double real;
    semel_bytes bytes; /* the value of a text or of bytes */
} semel_value;

static inline semel_value semel_null(void)
{
    semel_value value = {SEMEL_VALUE_NULL, 0, 0, {NULL, 0}};
    return value;
}

static inline semel_value semel_int(int64_t integer)
{
    semel_value value = {SEMEL_VALUE_INT, integer, 0, {NULL, 0}};
    return value;
}

static inline semel_value semel_real(double real)
{
    semel_value value = {SEMEL_VALUE_REAL, 0, real, {NULL, 0}};
    return value;
}

/* A NULL pointer becomes the database's NULL. */
static inline semel_value semel_text(const char *text)
{
    semel_value value = {text ? SEMEL_VALUE_TEXT : SEMEL_VALUE_NULL, 0, 0, {text, 0}};
    value.bytes.len = text ? strlen(text) : 0;
    return value;
}

static inline semel_value semel_blob(semel_bytes bytes)
{
    semel_value value = {bytes.data ? SEMEL_VALUE_BYTES : SEMEL_VALUE_NULL, 0, 0, bytes};
    return value;
}

#define SEMEL_SQL_MAX    ((size_t)65535) /* most bytes of a statement's text */
#define SEMEL_VALUES_MAX ((size_t)1000)  /* most values of one statement */

SEMEL_END_DECLS

#endif
