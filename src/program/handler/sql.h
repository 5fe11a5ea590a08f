/* The statements of an inbox, and those of `setup`, against a store. */
#ifndef SEMEL_PROGRAM_HANDLER_SQL_H
#define SEMEL_PROGRAM_HANDLER_SQL_H

#include "program/config/config.h"
#include "program/handler/value.h"

/* What is wrong with one statement of several. */
typedef struct sql_mistake {
    size_t statement; /* its number, from 0 on */
    int has_place;    /* `what` has an offset and a length in it, as it was written */
    value_mistake what;
} sql_mistake;

/* 1 if all statements can be read, else 0 and the first that cannot. Opens nothing. */
int sql_read(const config_list *statements, const char *store_url, sql_mistake *wrong);

/* Asks the store about each statement, in a transaction that is rolled back: nothing changes.
 * Before that, `setup`, which may be NULL, is run in the same transaction, so that tables that are
 * not there yet are (not in MariaDB, whose CREATE cannot be undone). SEMEL_EINVAL and *wrong: the
 * text is the database's own. SEMEL_EUNSUPPORTED: the store has no SQL, or cannot check, or in
 * MariaDB what the statement lacks may come with `setup`. */
semel_status sql_check(semel_store *store, const char *store_url, const config_list *setup,
                       const config_list *statements, sql_mistake *wrong, semel_error *err);

/* Runs `setup`. *failed is the number of the statement that failed. In MariaDB each commits by
 * itself; elsewhere all of them or none take effect. */
semel_status sql_setup(semel_store *store, const config_list *setup, size_t *failed,
                       semel_error *err);

/* Queues `setup`, which may be NULL, in a unit that the caller rolls back. In MariaDB, whose CREATE
 * cannot be undone, nothing is queued. */
semel_status sql_queue_setup(semel_unit *unit, const char *store_url, const config_list *setup,
                             semel_error *err);

#endif
