/* The MariaDB store from inside. */
#ifndef SEMEL_MARIADB_MARIADB_H
#define SEMEL_MARIADB_MARIADB_H

#include "base/seam.h"
#include "store/mariadb/connection.h"
#include "store/sql/columns.h"
#include "store/sql/cursor.h"
#include "store/sql/joined.h"
#include "store/sql/marker.h"
#include "store/sql/pool.h"
#include "store/sql/schema.h"
#include "store/sql/sweep.h"

#include <semel/sys/store.h>
#include <stdatomic.h>

enum {
    IDENTITY_TEXT = 65,
    LIST_MAX = 500 /* members of an IN list: beyond 1000 its plan changes */
};

typedef struct mariadb_store {
    const semel_seam *seam;
    maria_limits limits;
    pool connections;
    mem_arena arena; /* what is set when opening and lives as long: texts, names */
    const char *const *texts;
    const char *name; /* of the tables: what {} stands for */
    maria_address at;
    semel_durability durability;
    size_t packet_max;           /* the server's max_allowed_packet */
    atomic_uint copies;          /* in a row: see maria_look_first() */
    atomic_uint_fast64_t blocks; /* numbers them */
    sql_sweeper sweeper;

    pthread_mutex_t lock;         /* over what follows */
    char identity[IDENTITY_TEXT]; /* of the database; "" until it is known */
    sql_joined *joined;           /* units in callers' transactions */
    sql_cursor *cursors;          /* one per outbox that was leased from */
} mariadb_store;

/* Of one message in a batch. */
typedef enum maria_item_state { ITEM_NONE, ITEM_WANTED, ITEM_SET } maria_item_state;

typedef struct mariadb_unit {
    mariadb_store *store;
    maria_connection *on;
    maria_connection borrowed; /* joined: the caller's */
    sql_joined place;          /* joined: in the store's list */
    int joined;
    semel_begin durability;
    int begun;       /* a statement was enqueued */
    int moded;       /* ... and the first of it was the session's mode */
    int sent;        /* something was sent: there may be a transaction */
    int wrote;       /* it has changed rows */
    int locks;       /* it may have locked rows that others wait for */
    int marked;      /* it has marked keys */
    int finished;    /* it makes a claimed key done */
    int shared;      /* the handler has, or had, the connection in its hands */
    int spoiled;     /* ... and left it in a state in which no other unit can use it */
    int watched;     /* a procedure is called that might end the transaction */
    int guarded;     /* the savepoint that tells whether the transaction is still ours is set */
    size_t guard_at; /* its place among the enqueued statements, from 1 on; 0: it was answered */
    maria_item_state item;  /* the savepoint of one message in a batch */
    size_t item_from;       /* WANTED: the statements that were enqueued before it */
    semel_mark *assumed;    /* its answer comes with the commit */
    const semel_mark *kept; /* keys whose markers go with this transaction */
    size_t kept_count;
    uint64_t block;    /* the number of the compound statement that it was sent as */
    size_t block_from; /* ... what it was made of */
    size_t block_steps;
    maria_step block_first;
    semel_status trouble; /* what went wrong where nothing could be returned */
    semel_error trouble_is;
} mariadb_unit;

/* mariadb.c */
semel_status maria_borrow_pooled(maria_connection **out, mariadb_store *store, semel_error *err);
/* For one statement that reads, without a transaction around it. */
semel_status maria_borrow_looking(maria_connection **out, mariadb_store *store, semel_error *err);
void maria_give_back(mariadb_store *store, maria_connection *on);

/* Our own statements wait for locks for as long as the store's busy_ms, in seconds. */
static inline maria_bound maria_patience(const mariadb_store *store)
{
    uint32_t busy_ms = store->limits.busy_ms;
    return (maria_bound){FOR_SECONDS, busy_ms / 1000 + (busy_ms % 1000 != 0)};
}

/* unit.c */
semel_status mariadb_begin(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                           semel_error *err);
semel_status mariadb_commit(void *unit, semel_error *err);
void mariadb_rollback(void *unit);
semel_status mariadb_savepoint(void *unit, semel_error *err);
semel_status mariadb_keep(void *unit, semel_error *err);
semel_status mariadb_undo(void *unit, semel_error *err);
int mariadb_used(void *unit);
void *mariadb_native(void *unit);

/* A statement in the unit. */
maria_query maria_unit_enqueue(mariadb_unit *unit, maria_statement which, maria_bound limit);
maria_query maria_unit_enqueue_text(mariadb_unit *unit, const char *text);
/* Sends what is enqueued, and reads all answers. */
semel_status maria_unit_flush(mariadb_unit *unit, maria_failure *failed, const char *doing,
                              semel_error *err);
/* The transaction has been rolled back by the server, and nothing else was in it: it can begin
 * anew. */
void maria_unit_begin_anew(mariadb_unit *unit);
/* Makes room for a statement of that many bytes: what is enqueued is flushed if they do not go
 * together. ELIMIT if it is too long even by itself. */
semel_status maria_unit_make_room(mariadb_unit *unit, size_t bytes, semel_error *err);
/* Flushes what is enqueued, so that the next statement is the only one. */
semel_status maria_unit_begin_alone(mariadb_unit *unit, semel_error *err);

/* What went wrong where nothing could be returned. */
semel_status maria_unit_trouble(const mariadb_unit *unit, semel_error *err);

/* guard.c: is the transaction still ours? */
semel_status mariadb_verify(void *unit, semel_error *err);
void maria_unit_guard(mariadb_unit *unit); /* sets the savepoint that tells it */
/* Around a statement that might end the transaction, as a procedure may: whether it is still ours
 * is seen before anything else is enqueued or blamed. */
void maria_unit_watch(mariadb_unit *unit);
void maria_unit_watched(mariadb_unit *unit);
/* EMISUSE if the savepoint is gone that was set when the transaction was certainly ours; else it is
 * set anew. */
semel_status maria_look_for_guard(mariadb_unit *unit, semel_error *err);
/* It is gone: EMISUSE, and retryable if nothing of the unit is committed. */
semel_status maria_ended_inside(mariadb_unit *unit, semel_error *err);

/* join.c */
semel_status mariadb_join(void *store, void *unit, void *native, semel_error *err);

/* queue.c */
semel_status mariadb_check(void *unit, const char *sql, size_t count, size_t *position,
                           semel_error *err);
/* Prepares it, and does not run it. err->native is the server's number. */
semel_status maria_check_text(maria_connection *on, const char *text, size_t count,
                              semel_error *err);
semel_status mariadb_run(void *store, const char *sql, semel_error *err);
semel_status mariadb_queue(void *unit, const char *sql, const semel_value values[], size_t count,
                           semel_error *err);

/* schema.c */
semel_status mariadb_migrate(void *store, semel_error *err);
semel_status mariadb_migrate_to(void *store, int32_t version, semel_error *err);
semel_status mariadb_schema(void *store, semel_schema_visitor *visitor, void *context,
                            semel_error *err);
semel_status maria_schema_versions(sql_versions *out, mariadb_store *store, maria_connection *on,
                                   semel_error *err);
semel_status maria_schema_check(mariadb_store *store, maria_connection *on, semel_error *err);
semel_status maria_get_lock(maria_connection *on, const mariadb_store *store, const char *what,
                            uint32_t wait_ms, int *got, semel_error *err);
void maria_release_lock(maria_connection *on, const mariadb_store *store, const char *what);

/* functions.c: the functions for SQL (docs/SQL.md), as the server has them. */
typedef enum maria_function_state {
    FUNCTION_HIDDEN, /* this account may not execute it: whether it is there is not known */
    FUNCTION_MISSING,
    FUNCTION_OUTDATED, /* another version of semel made it */
    FUNCTION_CURRENT
} maria_function_state;

enum { FUNCTIONS_MAX = 64, FUNCTION_NAME = 65, FUNCTION_COMMENT = 65 };

typedef struct maria_function {
    char name[FUNCTION_NAME];       /* with the prefix */
    char comment[FUNCTION_COMMENT]; /* that it should have */
    int step;                       /* of the schema, that makes it */
    maria_function_state state;
} maria_function;

typedef struct maria_functions {
    maria_function all[FUNCTIONS_MAX];
    size_t count;
} maria_functions;

/* Those of the steps up to this version. */
semel_status maria_functions_look(maria_functions *out, mariadb_store *store, maria_connection *on,
                                  int64_t version, semel_error *err);
/* How many of them are so. */
size_t maria_functions_count(const maria_functions *all, maria_function_state state);

/* How a statement of sql/mariadb that creates one begins, and how it ends. */
#define MARIA_CREATE_FUNCTION "CREATE OR REPLACE FUNCTION"
#define MARIA_FUNCTION_END    "\nEND;"

/* inspect.c */
extern const semel_store_inspection mariadb_inspection;

/* marker.c */
/* Fingerprint, type, source and time of receipt. */
void maria_mark_details(maria_query *q, const semel_mark *mark);

semel_status mariadb_look(void *unit, semel_mark *mark, semel_error *err);
semel_status mariadb_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                          semel_error *err);

/* marker_assume.c */
semel_status mariadb_assume(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err);
/* The statement of the marker has failed, or the block that it is in: EREJECTED if the key is not
 * free. */
semel_status maria_assumed_answer(mariadb_unit *unit, const maria_failure *failed,
                                  semel_status status, semel_error *err);
semel_status maria_assumed_failed(mariadb_unit *unit, semel_status status, maria_failure *failed,
                                  int *settled, semel_error *err);

/* compound.c: turns what is enqueued into one compound statement, where that is possible
 * and pays; and back; and finds where it failed. */
void maria_compound(mariadb_unit *unit);
void maria_compound_undo(mariadb_unit *unit);
semel_status maria_compound_locate_failure(mariadb_unit *unit, maria_failure *failed,
                                           semel_error *err);

/* What LAST_INSERT_ID is after OR_REPORT (statement.c) when the row was there; else the fingerprint
 * of a row that is done. */
enum { MARK_INSERTED = 0, MARK_THERE = 1, MARK_DONE = 2 };
#define MARK_THERE_TEXT "1"
#define MARK_DONE_TEXT  "2"

/* marker_existing.c: rows that were there */
/* 1 if the answer alone is enough: `mark` is a duplicate. */
int maria_report_done(semel_mark *mark, uint64_t answer);
void maria_enqueue_look(sql_marker_row *out, mariadb_unit *unit, maria_statement which,
                        const semel_mark *mark);
semel_status maria_look(sql_marker_row *out, mariadb_unit *unit, maria_statement which,
                        const semel_mark *mark, semel_error *err);
/* *known is 1 if the key needed nothing but a look. */
semel_status maria_look_first(mariadb_unit *unit, semel_mark *mark, int *known, semel_error *err);
void maria_note_copy(mariadb_store *store, int is_copy);
semel_status maria_resolve_known(mariadb_unit *unit, semel_mark *const known[], size_t count,
                                 semel_error *err);
semel_status maria_resolve_held(mariadb_unit *unit, semel_mark *const held[], size_t count,
                                semel_error *err);

/* 1 if a statement failed because it would have had to wait. */
int maria_waited(const maria_failure *failed);

/* marker_claim.c */
semel_status mariadb_claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status mariadb_finish(void *unit, const semel_mark *mark, semel_error *err);
semel_status mariadb_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status mariadb_unmark(void *unit, const semel_mark marks[], size_t count, semel_error *err);
semel_status mariadb_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status mariadb_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status mariadb_forget(void *unit, const semel_mark *mark, semel_error *err);
semel_status mariadb_letter_gone(void *unit, const semel_mark *mark, semel_error *err);
semel_status mariadb_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                                semel_error *err);
semel_status mariadb_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                                semel_error *err);

/* note.c */
semel_status mariadb_note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                               semel_note_value *out, semel_error *err);
semel_status mariadb_note_write(void *unit, int64_t inbox, semel_note note,
                                const semel_note_value *value, semel_error *err);

/* stats.c */
semel_status mariadb_stats(void *store, const semel_stats_of *of, uint32_t deadline_ms,
                           semel_stats *out, semel_error *err);

/* sweep.c */
extern const sql_sweep_calls maria_sweep_calls;
semel_status mariadb_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                           semel_sweep_position *position, size_t *swept, semel_error *err);

/* outbox.c, outbox_lease.c */
semel_status mariadb_put(void *unit, int64_t outbox, const semel_message *message,
                         semel_error *err);
semel_status mariadb_put_many(void *unit, int64_t outbox, const semel_message *const messages[],
                              size_t count, semel_error *err);
semel_status mariadb_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                            size_t count, semel_error *err);
semel_status mariadb_extend(void *unit, int64_t outbox, semel_item_settlement leases[],
                            size_t count, uint32_t lease_ms, semel_error *err);
semel_status mariadb_unsent(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);
semel_status mariadb_take(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                          semel_item_sink *sink, void *context, semel_error *err);

/* dead.c */
semel_status mariadb_dead_put(void *unit, const semel_dead *dead, semel_error *err);
semel_status mariadb_dead_drop(void *unit, int64_t id, semel_error *err);
semel_status mariadb_dead_list(void *unit, const semel_dead_filter *filter,
                               semel_dead_visitor *visitor, void *context, semel_error *err);

/* list.c: a query, whose parameters `bind` writes, and what shows each row of its answer. */
typedef struct maria_list {
    maria_statement which;
    void (*bind)(maria_query *q, int64_t scope, const void *filter);
    int64_t scope;
    const void *filter;
    maria_row_call *show;
    void *context; /* for `show` */
} maria_list;
semel_status maria_run_list(mariadb_store *store, const maria_list *list, semel_error *err);
extern const semel_store_lists mariadb_lists;

/* operation.c, outbox_change.c */
extern const semel_store_operation mariadb_operation;

/* history.c */
extern const semel_store_history mariadb_history;
semel_status mariadb_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                          size_t *changed, semel_error *err);
semel_status mariadb_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                            size_t *changed, semel_error *err);

/* columns.c: the ten columns of a message, the same in two tables. */
/* How much text its values are, at most. */
size_t maria_message_size(const semel_message *message);
semel_status maria_message_write(maria_query *q, mem_arena *arena, const semel_message *message,
                                 semel_error *err);
semel_status maria_message_read(semel_message *out, mem_arena *arena, const maria_row *r,
                                unsigned first, semel_error *err);
/* All but the headers and the body, which are ? themselves; then the only statement enqueued, with
 * these two sent apart: for messages that are longer than a text may be. */
void maria_message_write_head(maria_query *q, const semel_message *message);
semel_status maria_unit_execute_large(mariadb_unit *unit, const semel_message *message,
                                      const char *doing, semel_error *err);

/* statement.c: what may be repeated in ST_MARK_MANY, ST_PUT and those that note when groups are
 * due. */
extern const char maria_mark_pattern[];
extern const char maria_put_pattern[];
extern const char maria_history_pattern[];
extern const char maria_group_pattern[];
extern const char maria_now[]; /* the server's clock, as a value */

#endif
