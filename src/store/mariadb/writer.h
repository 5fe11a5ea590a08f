/* The statements for the server, with their values written into them.
 *
 * The server takes several statements in one text, and stops at the first one that fails: so all
 * that stands or falls together is one round trip. Values are written so that no value can be
 * anything else: numbers as digits, bytes in hexadecimal. Nothing is escaped, so there is nothing
 * to get wrong about character sets. */
#ifndef SEMEL_MARIADB_WRITER_H
#define SEMEL_MARIADB_WRITER_H

#include "base/mem.h"
#include "base/text.h"

#include <mysql.h>
#include <semel/statement.h>

/* The texts are in statement.c, in this order. */
typedef enum maria_statement {
    ST_START,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_GUARD,
    ST_GUARD_RELEASE,
    ST_JOIN,
    ST_JOIN_RELEASE,
    ST_JOIN_ROLLBACK,
    ST_ITEM,
    ST_ITEM_ROLLBACK,
    ST_BATCH,
    ST_BATCH_ROLLBACK,
    ST_DURABLE,
    ST_RELAXED,
    ST_LOOKING,
    ST_NOW,
    ST_NOTHING,
    ST_EXPECT,
    ST_WHERE,
    ST_TOUCHED_CLEAR,
    ST_TOUCHED,
    ST_SCHEMA_VERSIONS,
    ST_SCHEMA_STRANGERS,
    ST_SCHEMA_MAKE,
    ST_SCHEMA_RECORD,
    ST_SCHEMA_NEEDS,
    ST_SCHEMA_STEPS,
    ST_INSPECT,
    ST_INSPECT_ENGINES,
    ST_SCHEMA_FUNCTIONS,
    ST_SCHEMA_MODE,
    ST_LOCK,
    ST_UNLOCK,
    ST_IDENTITY,
    ST_SCOPE_FIND,
    ST_SCOPE_ADD,
    ST_NOTE_READ,
    ST_NOTE_READ_SHARED,
    ST_NOTE_READ_EXCLUSIVE,
    ST_NOTE_ADD,
    ST_NOTE_WRITE,
    ST_NOTE_RAISE,
    ST_MARK,
    ST_MARK_MANY,
    ST_ASSUME,
    ST_CLAIM,
    ST_FAILED,
    ST_LOOK,
    ST_LOOK_LOCKED,
    ST_TABLE_FREE,
    ST_TAKE_OVER,
    ST_REOPEN,
    ST_FINISH,
    ST_RENEW,
    ST_LET_GO,
    ST_SET_STATE,
    ST_FORGET,
    ST_UNMARK,
    ST_LETTER_GONE,
    ST_RESULT_SET,
    ST_RESULT_THERE,
    ST_RESULT_GET,
    ST_SWEEPER,
    ST_SWEEP_LOOK,
    ST_SWEEP_LOCK,
    ST_SWEEP_DELETE,
    ST_PUT,
    ST_LEASE_FREE,
    ST_LEASE_TIMED,
    ST_LEASE_HEADS,
    ST_LEASE_ROWS,
    ST_LEASE_LOCK,
    ST_LEASE,
    ST_REMOVABLE,
    ST_REMOVE,
    ST_EXTEND,
    ST_RETRY,
    ST_RELEASE,
    ST_PARK_LOCK,
    ST_PARK_ROWS,
    ST_PARK,
    ST_GROUP_EARLIER,
    ST_GROUP_SET,
    ST_GROUP_LEAVE,
    ST_GROUP_NOTE,
    ST_PARK_NOTED,
    ST_UNLEASED,
    ST_WAKE,
    ST_DROP,
    ST_UNSENT,
    ST_STATS_OUTBOX,
    ST_STATS_DEAD,
    ST_STATS_MARKERS,
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
    ST_DEAD_LIST_ASKED,
    ST_DEAD_LIST_CAUSE,
    ST_DEAD_LIST_KEY,
    ST_DEAD_LIST_NAME,
    ST_DEAD_LIST_LETTER,
    ST_DEAD_LOCK_RETRY,
    ST_DEAD_SET_RETRY,
    ST_NAMES,
    ST_AUDIT_ADD,
    ST_AUDIT_ADDED,
    ST_AUDIT_LOCK,
    ST_AUDIT_SET,
    ST_AUDIT_LIST,
    ST_PROCESS_PUT,
    ST_PROCESS_REMOVE,
    ST_PROCESS_SILENT,
    ST_PROCESS_LIST,
    ST_HISTORY_PUT,
    ST_HISTORY_LIST,
    ST_HISTORY_LIST_NAME,
    ST_HISTORY_LIST_KEY,
    ST_HISTORY_OLD,
    ST_HISTORY_TRIM,
    ST_HISTORY_BOUNDS,
    ST_COUNT
} maria_statement;

/* The table that says which steps of the schema were taken. */
#define MARIA_MAKE_SCHEMA                                                       \
    "CREATE TABLE IF NOT EXISTS `{}schema` (version INT NOT NULL PRIMARY KEY, " \
    "name VARBINARY(64) NOT NULL, applied_ms BIGINT NOT NULL) ENGINE = InnoDB"

/* The statements with the names of the tables filled in: `name` stands for {}. NULL if memory is
 * out. */
const char *const *maria_statements(mem_arena *arena, const char *name);

/* What the failure of a statement means. */
typedef enum maria_step_kind {
    STEP_PLAIN,
    STEP_QUEUED, /* the application's: its failure is the handler's */
    STEP_ASSUME, /* a duplicate key here is a duplicate message */
    STEP_GUARD,  /* a missing savepoint here means that the transaction is not ours any more */
    STEP_EXPECT, /* a number out of range here means that a row is not as it was believed */
    STEP_COMMIT,
    STEP_BLOCK /* all of a queued unit: see marker_assume.c */
} maria_step_kind;

/* The answer to a statement that returns no rows. */
typedef struct maria_reply {
    uint64_t changed;
    uint64_t id; /* LAST_INSERT_ID */
} maria_reply;

/* A row; its columns are texts, whatever their type. */
typedef struct maria_row {
    MYSQL_ROW columns;
    const unsigned long *lengths;
} maria_row;

typedef semel_status maria_row_call(const maria_row *r, void *context, semel_error *err);

typedef struct maria_step {
    size_t start; /* in the text */
    maria_step_kind kind;
    int open_ended;       /* it may have more than one result: positions behind it tell nothing */
    maria_reply *answer;  /* may be NULL */
    maria_row_call *call; /* may be NULL: rows are thrown away */
    void *context;
} maria_step;

typedef struct maria_script {
    text_buffer text; /* with a ; behind each statement but the last */
    maria_step *steps;
    size_t count;
    size_t room;
    int failed; /* memory ran out: nothing of it may be sent */
} maria_script;

void maria_script_clear(maria_script *s);
void maria_script_free(maria_script *s);
void maria_script_keep(maria_script *s, size_t count); /* the first ones only */

void maria_script_rotate(maria_script *s); /* the last, a short one, becomes the first */

/* Where the text of a step ends: before its semicolon. */
size_t maria_script_end(const maria_script *s, size_t index);

/* --- writing ---------------------------------------------------------------------------------- */

/* How long a statement may wait for locks. */
typedef struct maria_bound {
    enum {
        PATIENT = 0, /* as long as the server's setting is, for each: 1205 */
        IMPATIENT,   /* not at all for those of rows: 1205 */
        UNLOCKED,    /* nor for those of tables: 1205 */
        FOR_SECONDS, /* for each: 1205 */
        FOR_MS       /* for the whole statement: 1969 */
    } kind;
    uint32_t amount;
} maria_bound;

/* A statement that is being written. Each value takes the place of the next ? in its text. */
typedef struct maria_query {
    maria_script *to;
    const char *at;   /* what is left of the text */
    const char *tail; /* what follows after the last repetition; NULL: nothing was repeated */
} maria_query;

maria_query maria_start(maria_script *to, const char *text, maria_bound limit);
void maria_int(maria_query *q, int64_t value);
void maria_uint(maria_query *q, uint64_t value);
void maria_int_or_null(maria_query *q, int64_t value);   /* 0 is NULL */
void maria_uint_or_null(maria_query *q, uint64_t value); /* 0 is NULL */
void maria_bytes(maria_query *q, semel_bytes value);     /* data NULL is NULL */
void maria_text(maria_query *q, const char *value);      /* as bytes; NULL is NULL */
void maria_sql(maria_query *q, const char *sql);         /* as it is: not for what others wrote */
void maria_ints(maria_query *q, const int64_t values[], size_t count); /* with commas */

/* Where the text has a ~, the pattern (with ?s of its own) is added once more, after a comma. */
void maria_more(maria_query *q, const char *pattern);

/* Ends the repetition: values go on behind it. */
void maria_rest(maria_query *q);

/* Ends one statement and goes on with another one, with this between them; and what follows behind
 * the last. */
void maria_chain(maria_query *q, const char *between, const char *text);
void maria_tail(maria_query *q, const char *sql);

/* Ends it. What is returned lives until the next one begins, and may be given a receiver for its
 * answer. */
maria_step *maria_end(maria_query *q);

/* A value of the application's; EINVAL if there is no such number in SQL. */
semel_status maria_value(text_buffer *to, const semel_value *value, semel_error *err);

/* --- reading ---------------------------------------------------------------------------------- */

int64_t maria_column_int(const maria_row *r, unsigned column); /* 0 for NULL */
uint64_t maria_column_uint(const maria_row *r, unsigned column);
semel_bytes maria_column_bytes(const maria_row *r, unsigned column); /* data NULL for NULL */
const char *maria_column_text(const maria_row *r, unsigned column);

#endif
