/* What the tests of SQLite's own side stand on: a file with semel's tables and one of the application's,
 * `effect (id TEXT)`, into which handlers write. The clock is the system's. */
#ifndef SEMEL_TESTS_SQLITE_CASE_H
#define SEMEL_TESTS_SQLITE_CASE_H

#include "support/check.h"
#include "support/scratch.h"
#include "support/work.h"

#include <semel/sqlite.h>

typedef struct sqlite_case {
    scratch directory;
    char path[SCRATCH_PATH];
    char url[SCRATCH_PATH];
    semel_store *store;
    semel_inbox *inbox;   /* "orders", in transaction mode */
    semel_inbox *claims;  /* "tasks", in claim mode */
    semel_outbox *outbox; /* "mail" */
    sqlite3 *other;       /* a connection of somebody else's, opened by lite_other() */
} sqlite_case;

/* For cmocka: with the store open and migrated, or with the directory alone. */
int lite_setup(void **state);
int lite_setup_empty(void **state);
int lite_teardown(void **state);

/* Opens what lite_setup opens, with a busy_ms. The other one closes it; the file stays. */
void lite_open(sqlite_case *c, uint32_t busy_ms);
void lite_close(sqlite_case *c);

/* A connection to the file that is not the store's. */
sqlite3 *lite_other(sqlite_case *c);

/* Must succeed. */
#define SQL(db, sql) lite_run((db), (sql), __FILE__, __LINE__)
void lite_run(sqlite3 *db, const char *sql, const char *file, int line);
int64_t lite_number(sqlite3 *db, const char *sql);

/* As seen by the other connection: what is committed. */
int64_t lite_effects(sqlite_case *c);
int64_t lite_markers(sqlite_case *c);

/* A handler that writes an effect with the id of the message on the unit's connection, and then does as
 * `work` says, which is its context. */
semel_status lite_handle(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err);

semel_status lite_write_effect(semel_unit *unit, const semel_message *message, semel_error *err);

/* Receives a message with this id by lite_handle. */
#define HANDLES(status, outcome, inbox, id, work) \
    lite_receive((status), (outcome), (inbox), (id), lite_handle, (work), __FILE__, __LINE__)
#define HANDLES_BY(status, outcome, inbox, id, handler, context) \
    lite_receive((status), (outcome), (inbox), (id), (handler), (context), __FILE__, __LINE__)
void lite_receive(semel_status status, semel_outcome outcome, semel_inbox *inbox, const char *id,
                  semel_handler *handler, void *context, const char *file, int line);

#endif
