/* The units of a store that are in callers' transactions: one at a time on a connection. Such a
 * unit is a savepoint; savepoints nest, and two units that end in any order do not. */
#ifndef SEMEL_STORE_SQL_JOINED_H
#define SEMEL_STORE_SQL_JOINED_H

#include <pthread.h>
#include <semel/error.h>

/* A part of the driver's unit. */
typedef struct sql_joined {
    struct sql_joined *next;
    const void *connection; /* the caller's */
} sql_joined;

/* EMISUSE if there is one on this connection already. `lock` is the list's. */
semel_status sql_joined_add(sql_joined *unit, sql_joined **list, pthread_mutex_t *lock,
                            const void *connection, semel_error *err);

/* When it has ended: the connection may be joined again. */
void sql_joined_remove(const sql_joined *unit, sql_joined **list, pthread_mutex_t *lock);

#endif
