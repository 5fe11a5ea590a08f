/* The PostgreSQL store from inside. */
#ifndef SEMEL_POSTGRES_POSTGRES_H
#define SEMEL_POSTGRES_POSTGRES_H

#include "base/seam.h"
#include "store/postgres/address.h"
#include "store/postgres/connection.h"
#include "store/sql/columns.h"
#include "store/sql/cursor.h"
#include "store/sql/joined.h"
#include "store/sql/marker.h"
#include "store/sql/pool.h"
#include "store/sql/schema.h"
#include "store/sql/sweep.h"

#include <semel/sys/store.h>
#include <stdatomic.h>

enum { IDENTITY_TEXT = 37 };

typedef struct postgres_store {
    const semel_seam *seam;
    pg_limits limits;
    pool connections;
    mem_arena arena; /* what is set when opening and lives as long: texts, parameters, names */
    const char *const *texts;
    pg_address at;
    const char *quoted;  /* the schema in quotes */
    const char *channel; /* of NOTIFY */
    semel_durability durability;
    char timeout[PATIENCE_TEXT]; /* statement_timeout of our connections */
    atomic_int bounded;          /* their sessions have a lock_timeout of busy_ms */
    int direct; /* no pooler in between: a session is ours alone; 0 while it is not known */
    sql_sweeper sweeper;

    pthread_mutex_t lock;         /* over what follows */
    char identity[IDENTITY_TEXT]; /* of the database; "" until it is known */
    sql_joined *joined;           /* units in callers' transactions */
    sql_cursor *cursors;          /* one per outbox that was leased from */
    int64_t notified_ms;          /* when NOTIFY was last sent, by wait_clock_ms() */
    pg_connection *listener;      /* for NOTIFY; the core calls one at a time */
    uint32_t listen_pause_ms;
    int64_t listen_again_ms;
} postgres_store;

typedef enum pg_savepoint_state {
    SAVEPOINT_NONE,
    SAVEPOINT_WANTED,
    SAVEPOINT_SET
} pg_savepoint_state;

typedef struct postgres_unit {
    postgres_store *store;
    pg_connection *on;
    pg_connection borrowed; /* joined: the caller's */
    sql_joined place;       /* joined: in the store's list */
    int joined;
    semel_begin durability;
    int begun;            /* BEGIN is on its way at least */
    int shared;           /* the handler has the connection in its hands */
    int suspicious;       /* it may have ended the transaction */
    int implicit;         /* no BEGIN, no COMMIT: what is sent up to a sync is one transaction */
    int64_t began_us;     /* the transaction's name: when it began; 0: not known yet */
    uint64_t number;      /* ... and its number, since it has written; 0: not known */
    uint32_t patience_ms; /* how long its statements wait for locks; 0: not said yet */
    pg_savepoint_state savepoint; /* of one message in a batch */
    int marked;                   /* it has marked keys */
    int only_looked;              /* at a key that was known: it has locked nothing */
    int captured;                 /* it has messages */
    int leased; /* it did nothing but lease rows: 1: and changed some, -1: and changed none */
    semel_mark *assumed; /* its answer comes with the commit */
    uint32_t assumed_wait_ms;
} postgres_unit;

/* postgres.c: connections, the pool's and one outside of it. */
semel_status pg_store_connect(pg_connection **out, postgres_store *store, uint32_t wait_ms,
                              semel_error *err);
semel_status pg_store_borrow(pg_connection **out, postgres_store *store, semel_error *err);
void pg_store_give_back(postgres_store *store, pg_connection *on);

/* unit.c, join.c */
semel_status postgres_begin(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                            semel_error *err);
semel_status postgres_join(void *store, void *unit, void *native, semel_error *err);
semel_status postgres_commit(void *unit, semel_error *err);
void postgres_rollback(void *unit);
semel_status postgres_savepoint(void *unit, semel_error *err);
semel_status postgres_keep(void *unit, semel_error *err);
semel_status postgres_undo(void *unit, semel_error *err);
int postgres_used(void *unit);
semel_status postgres_verify(void *unit, semel_error *err);
void *postgres_native(void *unit);
semel_status postgres_queue(void *unit, const char *sql, const semel_value values[], size_t count,
                            semel_error *err);

semel_status postgres_check(void *unit, const char *sql, size_t count, size_t *position,
                            semel_error *err);

/* From here on its statements wait for locks for this long, but not the next transaction's. */
void pg_unit_patience(postgres_unit *unit, uint32_t ms);
/* BEGIN, before the next statement. */
void pg_unit_begin(postgres_unit *unit);
/* A statement in the unit. */
pg_query pg_unit_query(postgres_unit *unit, pg_statement which);
/* BEGIN has been undone: the next statement sends it again. */
void pg_unit_begin_anew(postgres_unit *unit);
/* The moment at which the transaction began, and its number, as the next answer will tell. */
void pg_unit_enqueue_began(postgres_unit *unit, PGresult **answer);
void pg_unit_note_began(postgres_unit *unit, const PGresult *answer);

/* schema.c */
semel_status postgres_migrate(void *store, semel_error *err);
semel_status postgres_migrate_to(void *store, int32_t version, semel_error *err);
semel_status postgres_schema(void *store, semel_schema_visitor *visitor, void *context,
                             semel_error *err);
semel_status pg_schema_versions(sql_versions *out, postgres_store *store, pg_connection *on,
                                semel_error *err);
semel_status pg_schema_check(postgres_store *store, pg_connection *on, semel_error *err);

/* marker.c, marker_claim.c */
semel_status postgres_look(void *unit, semel_mark *mark, semel_error *err);
semel_status postgres_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                           semel_error *err);
semel_status postgres_assume(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err);
semel_status pg_assumed_answer(postgres_unit *unit, const pg_failure *failed, semel_error *err);
semel_status postgres_claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status postgres_finish(void *unit, const semel_mark *mark, semel_error *err);
semel_status postgres_renew(void *unit, const semel_mark *mark, uint32_t lease_ms,
                            semel_error *err);
semel_status postgres_unmark(void *unit, const semel_mark marks[], size_t count, semel_error *err);
semel_status postgres_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status postgres_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status postgres_forget(void *unit, const semel_mark *mark, semel_error *err);
semel_status postgres_letter_gone(void *unit, const semel_mark *mark, semel_error *err);
semel_status postgres_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                                 semel_error *err);
semel_status postgres_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                                 semel_error *err);

/* Type, source and time of receipt. */
void pg_mark_details(pg_query *q, const semel_mark *mark);
semel_status pg_marker_look(sql_marker_row *out, postgres_unit *unit, const semel_mark *mark,
                            semel_error *err);

/* EBUSY if another session has locked the table of markers: then the unit has not waited for a
 * copy. */
semel_status pg_marker_check_table(postgres_unit *unit, semel_error *err);

/* note.c */
semel_status postgres_note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                                semel_note_value *out, semel_error *err);
semel_status postgres_note_write(void *unit, int64_t inbox, semel_note note,
                                 const semel_note_value *value, semel_error *err);

/* stats.c */
semel_status postgres_stats(void *store, const semel_stats_of *of, uint32_t deadline_ms,
                            semel_stats *out, semel_error *err);

/* sweep.c */
extern const sql_sweep_calls pg_sweep_calls;
semel_status postgres_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                            semel_sweep_position *position, size_t *swept, semel_error *err);

/* outbox.c, outbox_lease.c */
semel_status postgres_put(void *unit, int64_t outbox, const semel_message *message,
                          semel_error *err);
semel_status postgres_put_many(void *unit, int64_t outbox, const semel_message *const messages[],
                               size_t count, semel_error *err);
semel_status postgres_take(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                           semel_item_sink *sink, void *context, semel_error *err);
semel_status postgres_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                             size_t count, semel_error *err);
semel_status postgres_extend(void *unit, int64_t outbox, semel_item_settlement leases[],
                             size_t count, uint32_t lease_ms, semel_error *err);
semel_status postgres_unsent(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);

/* dead.c */
semel_status postgres_dead_put(void *unit, const semel_dead *dead, semel_error *err);
semel_status postgres_dead_drop(void *unit, int64_t id, semel_error *err);
semel_status postgres_dead_list(void *unit, const semel_dead_filter *filter,
                                semel_dead_visitor *visitor, void *context, semel_error *err);

/* listen.c */
int postgres_watch(void *store);
int postgres_heard(void *store);
void postgres_unwatch(void *store);
void pg_notify_after_commit(postgres_store *store, pg_connection *on);

/* columns.c: the ten columns of a message, the same in two tables; and arrays of them. */
semel_status pg_message_bind(pg_query *q, mem_arena *arena, const semel_message *message,
                             semel_error *err);
/* The same for a received message, whose texts may not be UTF-8: other bytes become question marks,
 * because a letter that cannot be stored would come again for ever. */
semel_status pg_foreign_message_bind(pg_query *q, mem_arena *arena, const semel_message *message,
                                     semel_error *err);
const char *pg_mended(mem_arena *arena, const char *text); /* as UTF-8; NULL stays NULL */
void pg_foreign_text(pg_query *q, mem_arena *arena, const char *text);
semel_status pg_message_read(semel_message *out, mem_arena *arena, const PGresult *answer, int row,
                             int first_column, semel_error *err);
semel_status pg_messages_bind(pg_query *q, mem_arena *arena, const semel_message *const messages[],
                              size_t count, semel_error *err);

/* inspect.c */
extern const semel_store_inspection postgres_inspection;

/* list.c: a query, whose parameters `bind` writes, and what shows each row of its answer. The row
 * is shown after the connection was given back; the arena is reset behind each. */
typedef struct pg_list {
    pg_statement which;
    void (*bind)(pg_query *q, int64_t scope, const void *filter);
    int64_t scope;
    const void *filter;
    semel_status (*show)(const PGresult *answer, int row, mem_arena *arena, void *context,
                         semel_error *err);
    void *context; /* for `show` */
} pg_list;
semel_status pg_run_list(postgres_store *store, const pg_list *list, semel_error *err);
extern const semel_store_lists postgres_lists;

/* operation.c */
extern const semel_store_operation postgres_operation;

/* history.c */
extern const semel_store_history postgres_history;

/* array.c: one-dimensional arrays in the protocol's binary format. */
typedef struct pg_array {
    unsigned char *bytes;
    size_t len;
    size_t room;
    uint32_t type; /* of the elements */
    int failed;
} pg_array;

enum { ARRAY_BYTEA = 1001, ARRAY_INT8 = 1016, ARRAY_TEXT = 1009 };

/* `size`: of all elements together. */
pg_array pg_array_start(mem_arena *arena, uint32_t element_type, size_t count, size_t size);
void pg_array_add(pg_array *a, const void *data, size_t len); /* data NULL is NULL */
void pg_array_add_int(pg_array *a, int64_t value);
void pg_array_bind(pg_query *q, const pg_array *a);

#endif
