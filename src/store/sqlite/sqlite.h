/* The SQLite store from inside. */
#ifndef SEMEL_SQLITE_SQLITE_H
#define SEMEL_SQLITE_SQLITE_H

#include "base/mem.h"
#include "base/seam.h"
#include "store/sql/columns.h"
#include "store/sql/cursor.h"
#include "store/sql/joined.h"
#include "store/sql/marker.h"
#include "store/sql/process.h"
#include "store/sqlite/statement.h"

#include <pthread.h>
#include <semel/sys/store.h>
#include <sys/types.h>

typedef struct sqlite_store {
    const semel_seam *seam;
    uint32_t busy_ms;
    int relaxed_always; /* ?synchronous=normal */
    pid_t pid;          /* of the process that opened it */

    /* SQLite has one writer, so the store has one writing connection, and threads queue for it here
     * instead of polling the file. */
    sqlite_connection writer;
    pthread_mutex_t gate;
    pthread_cond_t gate_free;
    int gate_taken;
    uint64_t gate_waits; /* numbers those who wait */
    uint64_t gate_next;  /* who goes next, having been passed over; 0: anybody */
    pthread_t gate_owner;

    sqlite_connection reader; /* for looking without keeping writers waiting */
    pthread_mutex_t reader_lock;

    /* The clock: store time = base_store_ms + (steady - base_steady_ms), once it is loaded. Set once. */
    pthread_mutex_t clock_lock; /* for loading it */
    _Atomic int clock_loaded;
    int64_t base_store_ms;
    int64_t base_steady_ms;
    int64_t clock_saved_ms;

    mem_arena scratch;   /* of the writer: what take and sweep collect */
    sql_cursor *cursors; /* one per outbox that was leased from */
    sql_joined *joined;  /* units on callers' connections; under the gate's mutex */
} sqlite_store;

typedef struct sqlite_unit {
    sqlite_store *store;
    sqlite_connection *on; /* the store's writer, or `own` */
    sqlite_connection own; /* joined: the caller's database, our statements */
    unsigned ends;         /* on->ends when it began */
    int changes;           /* of the connection when it began */
    sql_joined place;      /* joined: in the store's list */
    int marked;            /* it has taken keys */
    mem_arena scratch;     /* joined: as the store's */
    int queued;            /* it has run queued statements */
    semel_error failure;   /* of one: what is left is to undo it */
} sqlite_unit;

/* The store's scratch belongs to whoever is behind the gate, where a joined unit is not. */
static inline mem_arena *sqlite_unit_scratch(sqlite_unit *unit)
{
    return unit->on == &unit->own ? &unit->scratch : &unit->store->scratch;
}

/* gate.c */
semel_status sqlite_gate_enter(sqlite_store *store, uint32_t wait_ms, semel_error *err);
void sqlite_gate_leave(sqlite_store *store);
/* The reading connection, and its deadline from now; unless it is not to be used any more. */
semel_status sqlite_reader_enter(sqlite_store *store, semel_error *err);
void sqlite_reader_leave(sqlite_store *store);
/* ESTORE if its file is not the one any more that others find by its name. */
semel_status sqlite_gate_check_file(sqlite3 *db, semel_error *err);

/* unit.c */
semel_status sqlite_begin(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                          semel_error *err);
semel_status sqlite_commit(void *unit, semel_error *err);
void sqlite_rollback(void *unit);
semel_status sqlite_savepoint(void *unit, semel_error *err);
semel_status sqlite_keep(void *unit, semel_error *err);
semel_status sqlite_undo(void *unit, semel_error *err);
int sqlite_used(void *unit);
void *sqlite_native(void *unit);

/* join.c */
semel_status sqlite_join(void *store, void *unit, void *native, semel_error *err);
int sqlite_is_joined(const sqlite_unit *unit);
/* Releases the savepoint of a joined unit, or rolls back to it. The transaction itself is the caller's. */
semel_status sqlite_end_joined(sqlite_unit *unit, int keep, semel_error *err);

/* queue.c */
semel_status sqlite_queue(void *unit, const char *sql, const semel_value values[], size_t count,
                          semel_error *err);
semel_status sqlite_queue_failure(const sqlite_unit *unit,
                                  semel_error *err); /* OK if there was none */

/* schema.c */
semel_status sqlite_migrate(void *store, semel_error *err);
semel_status sqlite_schema_check(sqlite_connection *on, semel_error *err);

/* clock.c */
semel_status sqlite_clock_load(sqlite_store *store, semel_error *err);
int64_t sqlite_clock_now(const sqlite_store *store);
semel_status sqlite_clock_save(sqlite_store *store,
                               semel_error *err); /* inside a transaction, now and then */
semel_status sqlite_now(void *store, int64_t *out_ms, semel_error *err);

/* marker.c, marker_claim.c */
semel_status sqlite_marker_read(sql_marker_row *out, sqlite_unit *unit, const semel_mark *mark,
                                semel_error *err);
/* A statement that must change one row, and otherwise means that the row is not as the caller believes. */
semel_status sqlite_marker_change(sqlite_query *q, semel_status otherwise, const char *doing,
                                  semel_error *err);

semel_status sqlite_look(void *unit, semel_mark *mark, semel_error *err);
semel_status sqlite_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err);
semel_status sqlite_claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status sqlite_finish(void *unit, const semel_mark *mark, semel_error *err);
semel_status sqlite_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status sqlite_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status sqlite_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status sqlite_forget(void *unit, const semel_mark *mark, semel_error *err);
semel_status sqlite_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err);
semel_status sqlite_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err);

/* sweep.c */
semel_status sqlite_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err);

/* outbox.c, outbox_lease.c */
semel_status sqlite_put(void *unit, int64_t outbox, const semel_message *message, semel_error *err);
semel_status sqlite_take(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                         semel_item_sink *sink, void *context, semel_error *err);
semel_status sqlite_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err);
semel_status sqlite_extend(void *unit, int64_t outbox, semel_item_settlement leases[], size_t count,
                           uint32_t lease_ms, semel_error *err);
semel_status sqlite_unsent(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);

/* dead.c */
semel_status sqlite_dead_put(void *unit, const semel_dead *dead, semel_error *err);
semel_status sqlite_dead_drop(void *unit, int64_t id, semel_error *err);
semel_status sqlite_dead_list(void *unit, const semel_dead_filter *filter,
                              semel_dead_visitor *visitor, void *context, semel_error *err);

/* columns.c: the ten columns of a message, the same in two tables. */
semel_status sqlite_message_bind(sqlite_query *q, mem_arena *arena, const semel_message *message,
                                 semel_error *err);
semel_status sqlite_message_read(semel_message *out, mem_arena *arena, const sqlite_query *q,
                                 int first_column, semel_error *err);

#endif
