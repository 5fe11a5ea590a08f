/* A connection, and the statements on it.
 *
 * Statements are sent ahead (libpq's pipeline mode) and their answers read when the driver needs
 * one: everything that was sent since is then one round trip. Each statement sent is a `pg_step`,
 * which says what its failure means; the first one that fails ends the whole, since the server
 * skips what follows it. */
#ifndef SEMEL_POSTGRES_CONNECTION_H
#define SEMEL_POSTGRES_CONNECTION_H

#include "base/mem.h"

#include <libpq-fe.h>
#include <semel/message.h>
#include <semel/statement.h>

/* The texts are in statement.c, in this order. */
typedef enum pg_statement {
    ST_BEGIN,
    ST_BEGIN_ASKED, /* with the isolation that the URL asks for */
    ST_BEGIN_RELAXED,
    ST_RELAX,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_SAVEPOINT,
    ST_RELEASE,
    ST_ROLLBACK_TO,
    ST_MARK_SAVEPOINT,
    ST_MARK_RELEASE,
    ST_MARK_ROLLBACK_TO,
    ST_BEGAN,
    ST_COMMITTED,
    ST_GUARD,
    ST_STOP,
    ST_WRITTEN,
    ST_PATIENCE,
    ST_PATIENCE_WHOLE,
    ST_NOW,
    ST_SETTINGS,
    ST_SCHEMA_THERE,
    ST_SCHEMA_VERSIONS,
    ST_SCHEMA_RECORD,
    ST_SCHEMA_NEEDS,
    ST_SCHEMA_STEPS,
    ST_INSPECT,
    ST_INSPECT_RIGHTS,
    ST_INSPECT_FUNCTIONS,
    ST_IDENTITY,
    ST_SCOPE_FIND,
    ST_SCOPE_ADD,
    ST_NOTE_READ,
    ST_NOTE_READ_SHARED,
    ST_NOTE_READ_EXCLUSIVE,
    ST_NOTE_ADD,
    ST_NOTE_WRITE,
    ST_MARK,
    ST_MARK_MANY,
    ST_MARK_LOOK,
    ST_MARK_LOOK_MANY,
    ST_MARK_TAKE_OVER,
    ST_MARK_ASSUME,
    ST_MARK_CLAIM,
    ST_MARK_FINISH,
    ST_MARK_RENEW,
    ST_MARK_LET_GO,
    ST_MARK_STATE,
    ST_MARK_DELETE,
    ST_MARK_DELETE_MANY,
    ST_MARK_LETTER_GONE,
    ST_MARK_TABLE_LOCKED,
    ST_RESULT_SET,
    ST_RESULT_GET,
    ST_SWEEP_PATIENCE,
    ST_SWEEP_LOCK,
    ST_SWEEP_UNLOCK,
    ST_SWEEP,
    ST_OUTBOX_PUT,
    ST_OUTBOX_PUT_MANY,
    ST_OUTBOX_FREE,
    ST_OUTBOX_GROUPS,
    ST_OUTBOX_OF_GROUPS,
    ST_OUTBOX_PARK,
    ST_OUTBOX_REMOVE,
    ST_OUTBOX_REMOVE_SENT,
    ST_OUTBOX_RETRY,
    ST_OUTBOX_RELEASE,
    ST_OUTBOX_EXTEND,
    ST_OUTBOX_UNSENT,
    ST_NOTIFY,
    ST_GROUPS_LOCK,
    ST_OUTBOX_WAKE,
    ST_OUTBOX_DROP,
    ST_GROUPS_DUE,
    ST_STATS_OUTBOX,
    ST_STATS_DEAD,
    ST_STATS_MARKERS,
    ST_LIST_MARKERS,
    ST_LIST_MARKER,
    ST_LIST_OUTGOING,
    ST_LIST_SENT,
    ST_LIST_SENT_BACK,
    ST_SENT_SWEEP,
    ST_DEAD_PUT,
    ST_DEAD_DROP,
    ST_DEAD_LIST,
    ST_DEAD_LIST_ASKED,
    ST_DEAD_LIST_CAUSE,
    ST_DEAD_LIST_KEY,
    ST_DEAD_LIST_NAME,
    ST_DEAD_LIST_LETTER,
    ST_DEAD_SET_RETRY,
    ST_NAMES,
    ST_AUDIT_ADD,
    ST_AUDIT_SET,
    ST_AUDIT_LIST,
    ST_PROCESS_PUT,
    ST_PROCESS_REMOVE,
    ST_PROCESS_LIST,
    ST_HISTORY_PUT,
    ST_HISTORY_LIST,
    ST_HISTORY_LIST_NAME,
    ST_HISTORY_LIST_KEY,
    ST_HISTORY_TRIM,
    ST_HISTORY_BOUNDS,
    ST_COUNT,
    ST_APPLICATIONS = ST_COUNT /* a queued statement */
} pg_statement;

/* What the failure of a step means. */
typedef enum pg_step_kind {
    STEP_PLAIN,
    STEP_PREPARE,
    STEP_SYNC,   /* not a statement: the end of what stands or falls together */
    STEP_QUEUED, /* the application's statement */
    STEP_CHECK,  /* the same, prepared only: its error is shown as the server words it */
    STEP_ASSUME, /* a duplicate key here is a duplicate message */
    STEP_HOLD,   /* a division by zero here means that a row is not as it was believed: ELOST */
    STEP_STOP,   /* it always fails: nothing before it in the pipeline is to happen */
    STEP_GUARD,  /* the same means that the transaction is not ours any more */
    STEP_COMMIT
} pg_step_kind;

typedef struct pg_step {
    pg_step_kind kind;
    pg_statement which;
    PGresult **answer; /* where the result goes; NULL: it is not wanted */
    unsigned number;   /* of the application's: which */
    int reused;        /* it was prepared before: a table may have changed since */
} pg_step;

enum { KEPT_STATEMENTS = 32, KEPT_TEXT_MAX = 4096 };

/* One of the application's statements, prepared under the name semel_q<number>. */
typedef struct pg_kept_statement {
    char *text; /* NULL: the place is free */
    uint64_t used;
    unsigned number;
    int distrusted; /* a table may have changed since it was prepared */
} pg_kept_statement;

enum { PATIENCE_TEXT = 32 };

/* How long is waited. */
typedef struct pg_limits {
    uint32_t busy_ms;   /* by the server, for a lock */
    uint32_t answer_ms; /* by us, for an answer, beyond that */
} pg_limits;

typedef struct pg_connection {
    PGconn *pg;
    pg_limits limits;
    uint32_t session_ms; /* its lock_timeout, if it is known; 0: each transaction says how long */
    const char *const *texts; /* the statements, with the schema filled in */
    int named;    /* statements are prepared and kept under a name: the session is ours alone */
    int borrowed; /* it is the caller's */
    unsigned char prepared[ST_COUNT];
    pg_step *steps; /* sent and not answered, in order */
    size_t step_count;
    size_t step_room;
    size_t stale; /* the first so many are of a unit that has ended: their answers are ignored */
    int unsynced; /* steps behind the last STEP_SYNC */
    int lost;     /* it cannot be used any more */
    int silent;   /* ... because an answer did not come in time */
    int unreplicated;             /* a commit did not wait for the synchronous standby to the end */
    int was_nonblocking;          /* the caller's connection: as it is to be again ... */
    char patience[PATIENCE_TEXT]; /* ... and so is its lock_timeout */
    int bounded;                  /* which we have changed */
    semel_status
        refusal; /* nothing is sent while this is set: the transaction is not what it should be */
    semel_error refusal_is;
    char last_error[6]; /* SQLSTATE of the last error, the application's included, or "" */
    char conflict
        [6]; /* SQLSTATE of a conflict that the application's own statements ran into, or "" */
    mem_arena scratch;   /* what lives until the unit ends */
    int64_t deadline_ms; /* of the current wait */
    int ended;           /* a statement that ends or begins a transaction has been answered */
    int expects_copies;  /* the last key was known: the next one may be, too */
    pg_kept_statement kept[KEPT_STATEMENTS];
    uint64_t kept_uses;
    unsigned kept_numbers;
} pg_connection;

/* How a round trip ended: of the first step that failed. */
typedef struct pg_failure {
    pg_step_kind kind;
    pg_statement which;
    char sqlstate[6];
    int is_final; /* FATAL or PANIC: the session, or the server, ended with it */
    int position; /* in the statement, in characters from 1 on; 0: not told */
} pg_failure;

semel_status pg_connection_open(pg_connection **out, const char *const *keywords,
                                const char *const *values, const char *const *texts,
                                pg_limits bounds, uint32_t wait_ms, semel_error *err);
void pg_connection_close(void *connection);
int pg_connection_is_alive(void *connection);

/* Before the first statement of a unit: has the server closed the connection? Statements sent after
 * that are known not to have happened. */
void pg_connection_check(pg_connection *on);

/* `on` on the caller's connection, which is idle inside a transaction. */
void pg_connection_borrow(pg_connection *on, PGconn *pg, const char *const *texts,
                          pg_limits bounds);
void pg_connection_return(pg_connection *on); /* leaves it as it was */

/* Ends what stands together, and waits for all answers. The server itself gives up waiting for
 * locks, after busy_ms or the wait_ms that it was told; if it says nothing for answer_ms longer,
 * the connection is given up. On failure *failed says where, and `err` is filled. */
semel_status pg_flush(pg_connection *on, uint32_t wait_ms, pg_failure *failed, const char *doing,
                      semel_error *err);

/* Statements in one text, without parameters, outside of the pipeline. */
semel_status pg_execute_text(pg_connection *on, const char *text, uint32_t wait_ms,
                             const char *doing, semel_error *err);

/* Sends what is there and leaves the answers for later. */
void pg_connection_push(pg_connection *on);

/* Out of pipeline mode, for a handler that uses libpq directly. All answers must have been read. */
semel_status pg_connection_leave_pipeline(pg_connection *on, semel_error *err);

/* `err` from a result or, if that is NULL, from the connection itself. By SQLSTATE. */
semel_status pg_fail(pg_connection *on, const PGresult *result, const char *doing,
                     semel_error *err);
semel_status pg_fail_unreachable(pg_connection *on, const char *doing, semel_error *err);
semel_status pg_sqlstate_status(const char *sqlstate);
int pg_in_class(const char *sqlstate, const char *class); /* it begins so */
const char *pg_advice(const char *sqlstate);              /* what a person can do about it, or "" */
int pg_is_final(
    const PGresult *result);         /* FATAL or PANIC: the session, or the server, ends with it */
int pg_first_line(const char *text); /* its length: libpq joins several */

/* --- statements ------------------------------------------------------------------------------- */

enum { PARAMETERS_MAX = 26 };

/* A statement and its parameters, from the first one on. All are binary. */
typedef struct pg_query {
    pg_connection *on;
    pg_statement which;
    pg_step_kind kind;
    PGresult **answer;
    int count;
    Oid types[PARAMETERS_MAX];
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX];
    unsigned char numbers[PARAMETERS_MAX][8];
} pg_query;

pg_query pg_start(pg_connection *on, pg_statement which);
void pg_int(pg_query *q, int64_t value);
void pg_time(pg_query *q, int64_t value);        /* a moment as an answer has told it */
void pg_int_or_null(pg_query *q, int64_t value); /* 0 is NULL */
void pg_bytes(pg_query *q, semel_bytes value);   /* data NULL is NULL */
void pg_text(pg_query *q, const char *value);    /* NULL is NULL */
void pg_raw(pg_query *q, Oid type, const void *data, size_t len);

/* One more step is on its way, if `sent`. The next flush reports what goes wrong. */
void pg_connection_add_step(pg_connection *on, const pg_step *added, int sent);
int pg_connection_enter_pipeline(pg_connection *on); /* into pipeline mode; 0 if it is lost */

/* Sends it as one more step. */
void pg_enqueue(pg_query *q);
void pg_enqueue_plain(pg_connection *on, pg_statement which); /* one without parameters */
void pg_begin_relaxed(
    pg_connection *on); /* BEGIN of a transaction that may be lost with the power */

/* The application's statement, translated already. queue.c. */
void pg_enqueue_check(pg_connection *on, const char *text); /* prepares it, and forgets it */
semel_status pg_enqueue_queued(pg_connection *on, const char *text, const semel_value values[],
                               size_t count, mem_arena *arena, semel_error *err);
void pg_queued_forget(pg_connection *on, unsigned number);   /* its preparation failed */
void pg_queued_distrust(pg_connection *on, unsigned number); /* it failed: prepare it anew */

/* Sends it, waits for it and all before it. The answer is the caller's to PQclear. */
semel_status pg_execute(PGresult **out, pg_query *q, const char *doing, semel_error *err);

/* The same outside of a unit: a transaction of its own, that waits for locks no longer than
 * busy_ms. */
semel_status pg_execute_alone(PGresult **out, pg_query *q, const char *doing, semel_error *err);
void pg_bound_alone(pg_connection *on); /* what it says for that first, if it has to */

/* From here on until the transaction ends, statements wait for a lock for this long. */
void pg_patience(pg_connection *on, const char *lock_timeout);
void pg_patience_ms(pg_connection *on, uint32_t ms);

/* As pg_execute(), for a statement that changes rows: how many. */
semel_status pg_execute_change(pg_query *q, size_t *changed, const char *doing, semel_error *err);

/* The texts with the names filled in; NULL if memory is out. */
const char *const *pg_statements_fill(mem_arena *arena, const char *schema, const char *isolation);

/* --- answers ---------------------------------------------------------------------------------- */

int64_t pg_answer_int(const PGresult *answer, int row,
                      int column); /* int2, int4, int8, bool; NULL is 0 */
semel_bytes pg_answer_bytes(const PGresult *answer, int row, int column); /* {NULL, 0} for NULL */
const char *pg_answer_text(const PGresult *answer, int row, int column);  /* NULL for NULL */

#endif
