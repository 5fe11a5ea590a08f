/* Tables of the application whose rows are sent (outboxes.NAME.table), against a store: are the
 * columns there, is the trigger there and as it should be, and making it so. */
#ifndef SEMEL_PROGRAM_CAPTURE_CAPTURE_H
#define SEMEL_PROGRAM_CAPTURE_CAPTURE_H

#include "program/capture/layout.h"
#include "program/config/diagnostic.h"

#include <semel/operate.h>

/* 1 if an outbox has a table. */
int capture_is_wanted(const config *all);

/* --- install.c -------------------------------------------------------------------------------- */

/* Makes the store send the rows of the tables of all outboxes; it may be called again. Nothing is
 * done if no outbox has a table, or the store has no SQL. */
semel_status capture_install(const config *all, semel_error *err);

/* A script for a database administrator, which does the same and may be run twice. */
void capture_script(buffer *to, const config *all, const outbox_config *outbox, int has_rowid);

/* --- look.c ----------------------------------------------------------------------------------- */

typedef enum capture_state {
    CAPTURE_AS_WANTED,
    CAPTURE_MISSING,  /* rows are not sent */
    CAPTURE_DIFFERS,  /* made for other columns, another outbox, by another version */
    CAPTURE_DISABLED, /* PostgreSQL: rows are not sent */
    CAPTURE_LEFT      /* of a table that no outbox of the configuration has */
} capture_state;

typedef struct capture_finding {
    capture_state state;
    semel_severity severity;
    const outbox_config *outbox; /* NULL: CAPTURE_LEFT */
    const char *text;
    const char *fix; /* "" if it is as wanted */
    int has_rowid;   /* for capture_script() */
} capture_finding;

typedef void capture_visitor(const capture_finding *found, void *context);

/* Looks at the triggers of the tables of all outboxes that are there, and at those that are left.
 * Changes nothing. */
semel_status capture_look(const config *all, semel_store *store, capture_visitor *visit,
                          void *context, semel_error *err);

/* --- columns.c -------------------------------------------------------------------------------- */

/* Reports tables and columns that the store does not have. With `with_setup` the statements of
 * `setup` come first, in a transaction that is rolled back (not in MariaDB). A status that is not
 * SEMEL_OK means that the store could not be asked. */
semel_status capture_verify(diagnostics *found, const config *all, semel_store *store,
                            int with_setup, semel_error *err);

/* A table as the database knows it. */
typedef struct capture_column {
    struct capture_column *next;
    const char *name;
    int is_bytes;
} capture_column;

typedef struct capture_table {
    const char *shown; /* its name as the catalogue of triggers shows it; NULL: there is none */
    capture_column *columns;
    int has_rowid; /* SQLite */
} capture_table;

semel_status capture_ask_table(capture_table *out, region *memory, semel_unit *unit,
                               const capture_layout *layout, semel_error *err);

/* Names of columns are compared with case on PostgreSQL only. NULL: there is no such column. */
const capture_column *capture_find_column(const capture_table *in, sql_kind kind, const char *name);

#endif
