/* A table of the application whose rows are sent (outboxes.NAME.table), as preset and options
 * describe it, and the SQL that captures it. A trigger puts each row that is inserted into the
 * outbox, in the transaction that inserts it. So nothing polls, and a row may be deleted right
 * after it was inserted. All names were checked (check_table.c): they have letters, digits,
 * underscores and dots. */
#ifndef SEMEL_PROGRAM_CAPTURE_LAYOUT_H
#define SEMEL_PROGRAM_CAPTURE_LAYOUT_H

#include "program/config/config.h"
#include "program/handler/value_sql.h"

enum { CAPTURE_STATEMENTS_MAX = 12 };

/* "" is a column that is absent. */
typedef struct capture_layout {
    sql_kind kind;
    const char *place; /* PostgreSQL: the schema of semel's tables; MariaDB: their prefix */
    const char *outbox;
    const char *table;
    const char *id, *type, *group, *topic, *body;
    const char *prefix; /* of the topic */
} capture_layout;

capture_layout capture_layout_of(region *memory, const config *all, const outbox_config *outbox);

/* "semel_capture" on PostgreSQL, where a trigger belongs to its table; elsewhere "semel_capture_"
 * and the name of the table. */
const char *capture_trigger_name(region *memory, const capture_layout *layout);

/* What the trigger is in the catalogue, as capture_look() compares it: on PostgreSQL its arguments,
 * on MariaDB its body, on SQLite all of it. */
const char *capture_definition(region *memory, const capture_layout *layout, int body_is_bytes);

/* What captures the table, one statement after the other on one connection: rows from before the
 * trigger are sent once, whatever dies in between, and all of it may be repeated. A trigger that is
 * there and differs is replaced, but on MariaDB only with `replaces`. Returns their number. */
typedef struct capture_how {
    int replaces;
    int has_rowid; /* SQLite: so the rows have an order */
    int as_role;   /* MariaDB: a role is active, and the trigger is to have its rights */
} capture_how;
size_t capture_statements(region *memory, const capture_layout *layout, capture_how how,
                          const char *out[CAPTURE_STATEMENTS_MAX]);

/* MariaDB: sends the rows from before the trigger that a process has left behind between the
 * creation of the trigger and this. */
const char *capture_release(region *memory, const capture_layout *layout);

/* What it removes, for the trigger of a table: DROP TRIGGER ... */
const char *capture_removal(region *memory, sql_kind kind, const char *trigger, const char *table);

#endif
