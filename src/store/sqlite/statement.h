/* A connection with its prepared statements, and what is needed to run one without ceremony. */
#ifndef SEMEL_SQLITE_STATEMENT_H
#define SEMEL_SQLITE_STATEMENT_H

#include <semel/message.h>
#include <sqlite3.h>

/* The texts are in statement.c, in this order. */
typedef enum sqlite_statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_SAVEPOINT,
    ST_RELEASE,
    ST_ROLLBACK_TO,
    ST_SHARE_SAVEPOINT,
    ST_SHARE_RELEASE,
    ST_SHARE_ROLLBACK_TO,
    ST_CLOCK_READ,
    ST_CLOCK_WRITE,
    ST_SCOPE_FIND,
    ST_SCOPE_ADD,
    ST_NOTE_READ,
    ST_NOTE_ADD,
    ST_NOTE_WRITE,
    ST_NOTE_RAISE,
    ST_MARK_INSERT,
    ST_MARK_READ,
    ST_MARK_TAKE_OVER,
    ST_MARK_OPEN,
    ST_MARK_REOPEN,
    ST_MARK_FINISH,
    ST_MARK_RENEW,
    ST_MARK_LET_GO,
    ST_MARK_STATE,
    ST_MARK_DELETE,
    ST_MARK_LETTER_GONE,
    ST_RESULT_SET,
    ST_RESULT_GET,
    ST_SWEEP_LOOK,
    ST_SWEEP_DELETE,
    ST_OUTBOX_PUT,
    ST_OUTBOX_FREE,
    ST_OUTBOX_NEXT_GROUP,
    ST_OUTBOX_OF_GROUP,
    ST_OUTBOX_LEASE,
    ST_OUTBOX_REMOVE,
    ST_OUTBOX_RETRY,
    ST_OUTBOX_RELEASE,
    ST_OUTBOX_EXTEND,
    ST_OUTBOX_COUNT,
    ST_OUTBOX_OLDEST,
    ST_GROUP_DUE,
    ST_GROUP_PARK,
    ST_GROUP_SET,
    ST_GROUP_MOVE,
    ST_GROUP_NOTE,
    ST_GROUP_LEAVE,
    ST_STATS_OUTBOX,
    ST_STATS_DEAD,
    ST_STATS_CLAIMS,
    ST_LIST_MARKERS,
    ST_LIST_MARKER,
    ST_LIST_OUTGOING,
    ST_LIST_SENT,
    ST_LIST_SENT_BACK,
    ST_SENT_KEEP,
    ST_SENT_SWEEP,
    ST_DEAD_PUT,
    ST_DEAD_DROP,
    ST_DEAD_LIST,
    ST_DEAD_LIST_KEY,
    ST_DEAD_LIST_CAUSE,
    ST_DEAD_LIST_RETRY,
    ST_DEAD_LIST_NAME,
    ST_DEAD_RETRY,
    ST_NAMES,
    ST_OUTBOX_WAKE,
    ST_OUTBOX_DISCARD,
    ST_OUTBOX_READ,
    ST_GROUP_HASTEN,
    ST_AUDIT_ADD,
    ST_AUDIT_WRITE,
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
    ST_COUNT
} sqlite_statement;

/* A statement of the application's, see queue.c. */
typedef struct sqlite_queued {
    sqlite3_stmt *stmt;
    uint64_t used; /* connection.queued_uses at its last use */
} sqlite_queued;

enum { QUEUED_KEPT = 16 };

typedef struct sqlite_connection {
    sqlite3 *db;
    sqlite3_stmt *prepared[ST_COUNT];
    sqlite_queued queued[QUEUED_KEPT];
    uint64_t queued_uses;
    unsigned ends;       /* transactions that ended on it, also by a handler */
    int64_t deadline_ms; /* of the wait for another process's lock */
    int relaxed;         /* synchronous is NORMAL right now */
    int committing;      /* by us */
    int in_unit;         /* a transaction must be open on it; without, nothing may be written */
} sqlite_connection;

/* A statement that is being bound, from the first parameter on. */
typedef struct sqlite_query {
    sqlite_connection *on;
    sqlite3_stmt *stmt;
    int next;
    int code;            /* the first thing that went wrong */
    semel_status status; /* of sqlite_query_row() when it returns -1 */
} sqlite_query;

sqlite_query sqlite_query_start(sqlite_connection *on, sqlite_statement which);
void sqlite_query_int(sqlite_query *q, int64_t value);
void sqlite_query_int_or_null(sqlite_query *q, int64_t value); /* 0 is NULL */
void sqlite_query_bytes(sqlite_query *q, semel_bytes value);   /* data NULL is NULL */
void sqlite_query_text(sqlite_query *q, const char *value);    /* NULL is NULL */

/* A row: 1, none (any more): 0, trouble: -1 and `err` is filled. After 0 or -1 it is reset. */
int sqlite_query_row(sqlite_query *q, const char *doing, semel_error *err);
void sqlite_query_end(sqlite_query *q); /* if rows may be left */

/* Runs to the end. *changed, if not NULL, is the number of rows it changed. */
semel_status sqlite_query_run(sqlite_query *q, int *changed, const char *doing, semel_error *err);

int64_t sqlite_row_int(const sqlite_query *q, int column);
int sqlite_row_is_null(const sqlite_query *q, int column);
semel_bytes sqlite_row_bytes(const sqlite_query *q, int column);
const char *sqlite_row_text(const sqlite_query *q, int column);

/* 1 if a column of the row could not be read for want of memory: what was returned for it is
 * wrong. */
int sqlite_row_lost(const sqlite_query *q);

/* `err` from SQLite's code, by number. */
semel_status sqlite_connection_fail(const sqlite_connection *on, int code, const char *doing,
                                    semel_error *err);

/* The transaction of a unit is over, and the unit is not: the error says what ended it. */
semel_status sqlite_connection_ended(const sqlite_connection *on, semel_error *err);
semel_status sqlite_connection_exec(sqlite_connection *on, const char *sql, const char *doing,
                                    semel_error *err);

/* Runs one of the statements above that has no parameters. */
semel_status sqlite_connection_run(sqlite_connection *on, sqlite_statement which, const char *doing,
                                   semel_error *err);
void sqlite_connection_finalize(sqlite_connection *on);

/* Ends reads that a handler left open: they would keep old pages alive. */
void sqlite_connection_reset_reads(sqlite_connection *on);

#endif
