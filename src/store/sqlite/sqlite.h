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
#include "store/sql/schema.h"
#include "store/sqlite/statement.h"

#include <pthread.h>
#include <semel/sys/store.h>
#include <sys/types.h>

/* A thread that waits for the gate. On its stack. */
typedef struct sqlite_waiter {
    struct sqlite_waiter *next;
    pthread_cond_t ready;
    pthread_t thread;
    int shares;  /* its unit may share a commit */
    int granted; /* the gate is its, and an open transaction with it */
} sqlite_waiter;

/* A unit that has handed its transaction on and waits for the commit. On its thread's stack. */
typedef struct sqlite_member {
    struct sqlite_member *next;
    int settled; /* what became of the commit is known: */
    semel_status status;
    semel_error *err;
} sqlite_member;

/* The transaction that several units share: see share.c. The thread that has the gate changes it,
 * under the gate's mutex where other threads look at it, too. */
typedef struct sqlite_share {
    int allowed;        /* ?share=on, and commits are durable */
    unsigned units_max; /* the bounds: see share.c */
    int64_t gather_min_ns;
    int64_t gather_max_ns;
    int open;               /* the open transaction may be handed on */
    unsigned units;         /* that have taken part in it, and ... */
    unsigned kept;          /* ... whose work is in it, without that of the unit at work */
    int64_t began_ns;       /* by wait_clock_ns() */
    int64_t began_ms;       /* by the store's clock */
    sqlite_member *members; /* under the mutex, as what follows */
    int committing;         /* and they wait for the disk, not for another unit any more */
    pthread_cond_t settled;
    pthread_cond_t arrived;
    int awaiting;       /* the thread that has the gate waits for another one to arrive */
    unsigned company;   /* so many more transactions are begun so that they can be handed on */
    unsigned pause;     /* ... and before that so many so that they cannot */
    unsigned returning; /* members of the last commit that have not come back yet */
    unsigned vain;      /* how often in a row it was waited in vain */
    unsigned skip;      /* so many times more it is not waited */
    int64_t commit_ns;  /* how long a commit takes, and ... */
    int64_t unit_ns;    /* ... a unit before it: running estimates */
} sqlite_share;

typedef struct sqlite_store {
    const semel_seam *seam;
    uint32_t busy_ms;
    int relaxed_always; /* ?synchronous=normal */
    int foreign_keys;   /* ?foreign_keys=on */
    pid_t pid;          /* of the process that opened it */

    /* SQLite has one writer, so the store has one writing connection, and threads queue for it here
     * instead of polling the file. */
    sqlite_connection writer;
    pthread_mutex_t gate;
    int gate_taken;
    pthread_t gate_owner;
    sqlite_waiter *gate_waiters;    /* in the order in which they came */
    const sqlite_waiter *gate_next; /* was passed over and goes next; NULL: any */
    sqlite_share share;

    sqlite_connection reader; /* for looking without keeping writers waiting */
    pthread_mutex_t reader_lock;
    int reader_checked; /* the tables were usable the last time they were looked at */

    /* The clock: store time = base_store_ms + (steady - base_steady_ms), once it is loaded. Set
     * once. */
    pthread_mutex_t clock_lock; /* for loading it */
    _Atomic int clock_loaded;
    int64_t base_store_ms;
    int64_t base_steady_ms;
    int64_t clock_saved_ms;

    mem_arena scratch;   /* of the writer: what take and sweep collect */
    sql_cursor *cursors; /* one per outbox that was leased from */
    sql_joined *joined;  /* units on callers' connections; under the gate's mutex */
} sqlite_store;

/* How a unit has passed the gate. */
typedef enum sqlite_entry {
    ENTERED,            /* it begins a transaction */
    ENTERED_IN_COMPANY, /* ... which may be handed on: other threads want the gate, too */
    HANDED              /* it goes on in the transaction of others */
} sqlite_entry;

typedef struct sqlite_unit {
    sqlite_store *store;
    sqlite_connection *on; /* the store's writer, or `own` */
    sqlite_connection own; /* joined: the caller's database, our statements */
    semel_begin durability;
    uint32_t wait_ms;
    int alone;           /* it is not to share a commit */
    int shares;          /* it may */
    sqlite_entry entry;  /* how it has passed the gate */
    int64_t began_ns;    /* if it shares a transaction */
    int closes;          /* no other unit may come after it in its transaction */
    int unsettled;       /* a key that it wants was taken by a unit that is not committed yet */
    unsigned ends;       /* on->ends when it began */
    int changes;         /* of the connection when it began */
    sql_joined place;    /* joined: in the store's list */
    int marked;          /* it has taken keys */
    mem_arena scratch;   /* joined: as the store's */
    int queued;          /* it has run queued statements */
    semel_error failure; /* of one: what is left is to undo it */
} sqlite_unit;

/* The store's scratch belongs to the unit that has passed the gate, which a joined unit has not. */
static inline mem_arena *sqlite_unit_scratch(sqlite_unit *unit)
{
    return unit->on == &unit->own ? &unit->scratch : &unit->store->scratch;
}

/* gate.c */
/* Sets unit->entry. */
semel_status sqlite_gate_enter(sqlite_store *store, sqlite_unit *unit, semel_error *err);
/* With the gate's mutex locked. The second gives the gate, and the open transaction with it, to a
 * thread that waits; 0 if there is none whose unit may share. */
void sqlite_gate_leave_locked(sqlite_store *store);
int sqlite_gate_hand_on_locked(sqlite_store *store);
int sqlite_gate_has_heir_locked(const sqlite_store *store);
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
int sqlite_unit_ended(const sqlite_unit *unit); /* its transaction is over, and not by us */
/* Begins a transaction for a unit that has the gate and none open. */
semel_status sqlite_unit_start(sqlite_unit *unit, semel_error *err);
void sqlite_unit_note_start(sqlite_unit *unit);
/* COMMIT. After a failure nothing is open any more. */
semel_status sqlite_unit_run_commit(sqlite_unit *unit, semel_error *err);

/* share.c */
int sqlite_share_init(sqlite_share *share, int allowed); /* 0, or an errno */
void sqlite_share_destroy(sqlite_share *share);
semel_status sqlite_share_open(sqlite_unit *unit, semel_error *err);
semel_status sqlite_share_join(sqlite_unit *unit, semel_error *err);
semel_status sqlite_share_commit(sqlite_unit *unit, semel_error *err);
void sqlite_share_rollback(sqlite_unit *unit);
/* 1 if a marker that was found may be another unit's that is not committed yet. */
int sqlite_share_is_unsettled(const sqlite_unit *unit, const sql_marker_row *found);
/* Commits what the others have done, and begins a transaction for a unit that has not written
 * anything yet. ECONFLICT if it has. */
semel_status sqlite_share_settle_others(sqlite_unit *unit, int has_written, semel_error *err);

/* join.c */
semel_status sqlite_join(void *store, void *unit, void *native, semel_error *err);
int sqlite_is_joined(const sqlite_unit *unit);
/* Releases the savepoint of a joined unit, or rolls back to it. The transaction itself is the
 * caller's. */
semel_status sqlite_end_joined(sqlite_unit *unit, int keep, semel_error *err);

/* queue.c */
semel_status sqlite_queue(void *unit, const char *sql, const semel_value values[], size_t count,
                          semel_error *err);
semel_status sqlite_check(void *unit, const char *sql, size_t count, size_t *position,
                          semel_error *err);
semel_status sqlite_queue_failure(const sqlite_unit *unit,
                                  semel_error *err); /* OK if there was none */

/* schema.c */
semel_status sqlite_migrate(void *store, semel_error *err);
semel_status sqlite_migrate_to(void *store, int32_t version, semel_error *err);
semel_status sqlite_schema(void *store, semel_schema_visitor *visitor, void *context,
                           semel_error *err);
semel_status sqlite_schema_versions(sql_versions *out, sqlite_connection *on, semel_error *err);
semel_status sqlite_schema_check(sqlite_connection *on, semel_error *err);

/* inspect.c */
extern const semel_store_inspection sqlite_inspection;

/* clock.c */
semel_status sqlite_clock_load(sqlite_store *store, semel_error *err);
int64_t sqlite_clock_now(const sqlite_store *store);
semel_status sqlite_clock_save(sqlite_store *store,
                               semel_error *err); /* inside a transaction, now and then */
semel_status sqlite_now(void *store, int64_t *out_ms, semel_error *err);

/* marker.c, marker_claim.c */
semel_status sqlite_marker_read(sql_marker_row *out, sqlite_unit *unit, const semel_mark *mark,
                                semel_error *err);
/* A statement that must change one row, and otherwise means that the row is not as the caller
 * believes. */
semel_status sqlite_marker_change(sqlite_query *q, semel_status otherwise, const char *doing,
                                  semel_error *err);

/* Binds fingerprint, type, source and time of receipt. */
void sqlite_marker_details(sqlite_query *q, const semel_mark *mark);

semel_status sqlite_look(void *unit, semel_mark *mark, semel_error *err);
semel_status sqlite_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err);
semel_status sqlite_claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status sqlite_finish(void *unit, const semel_mark *mark, semel_error *err);
semel_status sqlite_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status sqlite_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status sqlite_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status sqlite_forget(void *unit, const semel_mark *mark, semel_error *err);
semel_status sqlite_letter_gone(void *unit, const semel_mark *mark, semel_error *err);
semel_status sqlite_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err);
semel_status sqlite_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err);

/* note.c */
semel_status sqlite_note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                              semel_note_value *out, semel_error *err);
semel_status sqlite_note_write(void *unit, int64_t inbox, semel_note note,
                               const semel_note_value *value, semel_error *err);
/* The unit removes markers of the inbox, the newest of which was last changed at newest_ms. */
semel_status sqlite_note_forgotten(sqlite_unit *unit, int64_t inbox, int64_t newest_ms,
                                   semel_error *err);

/* stats.c */
semel_status sqlite_stats(void *store, const semel_stats_of *of, uint32_t deadline_ms,
                          semel_stats *out, semel_error *err);

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
semel_status sqlite_dead_set_retry(void *unit, int64_t id, semel_retry from, semel_retry to,
                                   const char *error, semel_error *err);

/* list.c */
extern const semel_store_lists sqlite_lists;

typedef semel_status sqlite_row_call(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                                     void *context, semel_error *err);

/* A query whose parameters `bind` writes, and each row of which `show` gets. */
typedef struct sqlite_list {
    sqlite_statement which;
    void (*bind)(sqlite_query *q, int64_t scope, const void *filter);
    int64_t scope;
    const void *filter;
    sqlite_row_call *show;
    void *context; /* for `show` */
} sqlite_list;

/* On the reading connection. */
semel_status sqlite_list_run(sqlite_store *store, const sqlite_list *list, semel_error *err);

/* A row of an outbox, of a list or of a unit: the columns of OUTGOING_COLUMNS, headers and body. */
semel_status sqlite_outgoing_show(const sqlite_query *q, const sqlite_store *store,
                                  mem_arena *arena, semel_outgoing_visitor *visitor, void *context,
                                  semel_error *err);

/* operation.c */
extern const semel_store_operation sqlite_operation;

/* columns.c: the ten columns of a message, the same in two tables. */
semel_status sqlite_message_bind(sqlite_query *q, mem_arena *arena, const semel_message *message,
                                 semel_error *err);
semel_status sqlite_message_read(semel_message *out, mem_arena *arena, const sqlite_query *q,
                                 int first_column, semel_error *err);

#endif
