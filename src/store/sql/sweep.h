/* The sweep of a server's store has a connection of its own, because retention must not compete for
 * the pool. One process at a time makes a round through an inbox, under a lock of the server that
 * ends with the connection.
 *
 * The driver decides how a round walks through the markers. */
#ifndef SEMEL_STORE_SQL_SWEEP_H
#define SEMEL_STORE_SQL_SWEEP_H

#include "store/sql/pool.h"

#include <semel/sys/store.h>

typedef struct sql_sweep_calls {
    /* A connection, ready to sweep. */
    semel_status (*connect)(void **out, void *store, semel_error *err);
    /* The lock of an inbox's round, without a wait: *got. And its end; what becomes of that is not
     * asked. */
    semel_status (*lock)(void *store, int64_t inbox, int *got, semel_error *err);
    void (*unlock)(void *store, int64_t inbox);
    /* A member of the store's table: some more rows, from *position on. */
    semel_status (*step)(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                         semel_sweep_position *position, size_t *swept, semel_error *err);
} sql_sweep_calls;

typedef struct sql_sweeper {
    const sql_sweep_calls *calls;
    const pool *connections; /* it is none of these, but is looked at and closed as they are */
    void *store;
    pthread_mutex_t lock; /* over what follows */
    void *connection;     /* NULL: none */
    int64_t inbox;        /* the inbox of the round, 0: none */
} sql_sweeper;

void sql_sweeper_init(sql_sweeper *s, const sql_sweep_calls *calls, void *store,
                      const pool *connections);
void sql_sweeper_destroy(sql_sweeper *s);

/* The member `sweep` of the store's table. */
semel_status sql_sweep(sql_sweeper *s, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                       semel_sweep_position *position, size_t *swept, semel_error *err);

#endif
