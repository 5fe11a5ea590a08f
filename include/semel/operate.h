/* Operation: what tools for operators need. Which names a store knows, which dead letters have a
 * cause in common, which messages are to be sent now or not at all, who changed what by hand, which
 * processes are running, and what became of the deliveries of the last while.
 *
 * Lists are those of <semel/look.h>: they read what is committed, wait for no unit, are read by
 * pages, and their visitors may use the store. Changes are transactions of their own, durable when
 * the call returns. SEMEL_EUNSUPPORTED if the store's driver has no members for it.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_OPERATE_H
#define SEMEL_OPERATE_H

#include <semel/dead.h>
#include <semel/look.h>
#include <semel/observe.h>
#include <semel/queue.h>

SEMEL_BEGIN_DECLS

/* --- names ------------------------------------------------------------------------------------ */

typedef enum semel_name_kind {
    SEMEL_NAME_INBOX = 1,
    SEMEL_NAME_OUTBOX,
    SEMEL_NAME_QUEUE
} semel_name_kind;

/* A name that was opened in this store once. */
typedef struct semel_name {
    size_t size;
    semel_name_kind kind;
    const char *name;
    /* of an inbox, as it was opened last: "key=json:/order_id mode=transaction fingerprint=none".
     * "" if that is not known */
    const char *definition;
} semel_name;

typedef semel_status semel_name_visitor(const semel_name *name, void *context, semel_error *err);

/* All names of a kind, in their order byte by byte. */
SEMEL_API semel_status semel_store_names(semel_store *store, semel_name_kind kind,
                                         semel_name_visitor *visitor, void *context,
                                         semel_error *err);

/* --- keys ------------------------------------------------------------------------------------- */

/* Opens an inbox that the store knows (semel_store_names) without saying what it is: nothing is
 * defined and nothing is changed, and the retention is SEMEL_RETENTION_FOREVER. For looking, for
 * semel_inbox_stats(), and for the two below; a message that it receives has no key. */
SEMEL_API semel_status semel_inbox_open_known(semel_inbox **out, semel_store *store,
                                              const char *name, semel_error *err);

/* As semel_inbox_forget(), for a key as it is stored (semel_marker.key). SEMEL_EREJECTED if it is
 * the key of a dead letter of this inbox, which would stay without its key: see
 * SEMEL_DISCARD_FORGET_KEY. */
SEMEL_API semel_status semel_inbox_forget_key(semel_inbox *inbox, semel_bytes key,
                                              semel_error *err);

/* What semel_unit_idempotency_key() gives the handlers of the inbox of this name for this key, as
 * semel_inbox_key() computes it. */
SEMEL_API semel_status semel_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE],
                                             const char *inbox, semel_bytes key, semel_error *err);

/* One bounded step of semel_inbox_purge(): examines up to `rows` markers (0: SEMEL_SWEEP_BATCH) and
 * goes on where the last call stopped. *more is 0 when all were examined; the next call begins from
 * the start. For one thread at a time. */
SEMEL_API semel_status semel_inbox_purge_step(size_t *removed, int *more, semel_inbox *inbox,
                                              uint64_t older_than_ms, uint32_t rows,
                                              semel_error *err);

/* --- causes of dead letters ------------------------------------------------------------------- */

#define SEMEL_CAUSE_TEXT_SIZE 201 /* a longer text is cut */

/* What errors of one kind have in common: the text of the error, with numbers and ids (<n>) and
 * quoted parts (<s>) taken out. As snprintf(). */
SEMEL_API size_t semel_cause_text(char *out, size_t room, const char *error);

/* A number for an inbox, outbox or queue and a cause: the same in every process and version, and
 * never 0. It is stored with a letter. */
SEMEL_API uint32_t semel_cause(const char *name, const char *error);

typedef struct semel_dead_group {
    size_t size;
    uint32_t cause;
    semel_dead_origin origin;
    const char *name;
    uint64_t letters;
    int64_t first_ms, last_ms; /* when semel gave up on the first and on the last of them */
    int64_t first_id, last_id; /* the smallest and the largest id */
    const char *text;          /* semel_cause_text() of their errors */
} semel_dead_group;

typedef semel_status semel_dead_group_visitor(const semel_dead_group *group, void *context,
                                              semel_error *err);

/* Groups the letters that the filter names (its limit is not used) by name and cause, the largest
 * group first. Reads all these letters, without their bodies. */
SEMEL_API semel_status semel_dead_groups(semel_store *store, const semel_dead_filter *filter,
                                         semel_dead_group_visitor *visitor, void *context,
                                         semel_error *err);

/* --- retries of dead letters by running processes --------------------------------------------- */

/* A tool that has no handler at hand asks for a retry; a process that has one finds the letter by
 * semel_dead_filter.retry, takes it and replays it. */
typedef enum semel_retry {
    SEMEL_RETRY_NONE = 0,
    SEMEL_RETRY_ASKED,
    SEMEL_RETRY_BEGUN, /* a process has taken it, and runs it or died */
    SEMEL_RETRY_FAILED /* the letter stays, with the new error */
} semel_retry;

/* Changes the state of one letter from `from` to `to`, and with SEMEL_RETRY_FAILED also its error
 * and the number of its attempts, which is one more. SEMEL_ENOTFOUND if there is no such letter, or
 * if it is not in the state `from` (any more): then another process was faster. So a letter that
 * was asked for is taken once. A letter may be asked for in every state: `from` is not read then.
 */
SEMEL_API semel_status semel_dead_set_retry(semel_store *store, int64_t id, semel_retry from,
                                            semel_retry to, const char *error, semel_error *err);

/* --- messages that wait ----------------------------------------------------------------------- */

/* Makes a message of the outbox due now, if it waits for its next attempt or for its delay. `id` is
 * that of the message, as it was listed with this seq: a store may give the seq of a message that
 * has left to a new one, and that is not the message that is meant. Empty: whichever message has
 * the seq. SEMEL_ENOTFOUND if the message has left the outbox, SEMEL_EBUSY if a relay has leased
 * it. A message behind others of its group still waits for these. */
SEMEL_API semel_status semel_outbox_wake(semel_outbox *outbox, int64_t seq, semel_bytes id,
                                         semel_error *err);

/* Gives up on a message of the outbox: it becomes a dead letter with the error `why`, in one
 * transaction. *letter, which may be NULL, is the letter's id. `id`, SEMEL_ENOTFOUND and
 * SEMEL_EBUSY as above. */
SEMEL_API semel_status semel_outbox_skip(int64_t *letter, semel_outbox *outbox, int64_t seq,
                                         semel_bytes id, const char *why, semel_error *err);

/* Removes up to `rows` (0: SEMEL_PAGE_DEFAULT) messages of a queue in a store, the oldest first,
 * that no consumer has leased: those with a seq of at most last_seq that were captured at
 * captured_until_ms or before, so that what has come since these were listed stays. Both are
 * needed, because a store may give the seq of a message that has left to a new one. 0: no bound.
 * *removed is their number: 0 when there are none left. */
SEMEL_API semel_status semel_queue_purge(size_t *removed, semel_transport *transport,
                                         int64_t last_seq, int64_t captured_until_ms, uint32_t rows,
                                         semel_error *err);

/* --- audit ------------------------------------------------------------------------------------ */

#define SEMEL_AUDIT_TEXT_MAX ((size_t)4096) /* longer texts are cut */

/* A change that a person made by hand. */
typedef struct semel_audit {
    size_t size;
    int64_t id;
    int64_t at_ms;      /* when it began, by the store's clock */
    const char *who;    /* "ops@host-1" */
    const char *what;   /* "dead retry --cause 7f3a90c1" */
    const char *result; /* "317 processed"; "" as long as nothing is known */
    uint64_t count;     /* how many rows were changed so far */
} semel_audit;

/* Adds an entry if entry->id is 0, and sets it; else replaces result and count of that entry. */
SEMEL_API semel_status semel_audit_write(semel_audit *entry, semel_store *store, semel_error *err);

typedef struct semel_audit_filter {
    size_t size;
    int64_t after_id; /* for the next page */
    uint32_t limit;   /* default SEMEL_PAGE_DEFAULT */
    int64_t since_ms, until_ms;
    const char *who; /* exactly; NULL: any */
} semel_audit_filter;

typedef semel_status semel_audit_visitor(const semel_audit *entry, void *context, semel_error *err);

/* In the order of their ids. */
SEMEL_API semel_status semel_audit_list(semel_store *store, const semel_audit_filter *filter,
                                        semel_audit_visitor *visitor, void *context,
                                        semel_error *err);

/* --- running processes ------------------------------------------------------------------------ */

/* A process that says from time to time that it is running. */
typedef struct semel_process {
    size_t size;
    const char *id; /* a UUID that the process has made for itself */
    const char *host;
    int64_t pid;
    int64_t started_ms; /* by the store's clock, as the next one */
    int64_t seen_ms;    /* when it was last written; set by the call */
    const char *socket; /* of this host, on which it answers; "" if there is none */
    const char *data;   /* what else it says of itself, for the program that wrote it: JSON */
} semel_process;

#define SEMEL_PROCESS_DATA_MAX ((size_t)65536)

/* Adds or replaces the row of this process. Not durable: a power failure may undo it. */
SEMEL_API semel_status semel_process_write(const semel_process *process, semel_store *store,
                                           semel_error *err);

/* Removes the row of a process that ends, and those that were not written for older_than_ms. */
SEMEL_API semel_status semel_process_remove(semel_store *store, const char *id,
                                            uint64_t older_than_ms, semel_error *err);

typedef semel_status semel_process_visitor(const semel_process *process, void *context,
                                           semel_error *err);

SEMEL_API semel_status semel_process_list(semel_store *store, semel_process_visitor *visitor,
                                          void *context, semel_error *err);

/* --- history ---------------------------------------------------------------------------------- */

/* What became of deliveries: an observer makes a row of each event and writes the rows in bulk, so
 * that the timeline of a message can be shown, each suppressed copy included. Nothing that semel
 * decides depends on it: a row may be missing, because the process that had it died or because
 * there were more than it wanted to write. */
typedef enum semel_history_kind {
    SEMEL_HISTORY_RECEIVED = SEMEL_EVENT_RECEIVED,
    SEMEL_HISTORY_SENT = SEMEL_EVENT_SENT,
    SEMEL_HISTORY_GAP /* `count` events of this process were not written; took_ns is their span */
} semel_history_kind;

#define SEMEL_HISTORY_ROWS_MAX ((size_t)10000)   /* of one call of semel_history_write() */
#define SEMEL_HISTORY_BODY_MAX ((size_t)1 << 20) /* more of a body is not kept */

typedef struct semel_history {
    size_t size;
    int64_t id;    /* ascending in the order of writing; not read by semel_history_write() */
    int64_t at_ms; /* by the wall clock of the process that wrote it */
    semel_history_kind kind;
    const char *name; /* as semel_event.name; of a gap "" */
    /* Of what was received: written as in semel_event.key, and listed as it is stored
     * (semel_marker.key). Of what was sent: what it was sent for, as the writer chose. {NULL, 0}:
     * none. */
    semel_bytes key;
    semel_outcome outcome; /* as in semel_event, as the next ones; of a gap SEMEL_UNDECIDED */
    semel_outcome refused;
    uint32_t attempt;
    uint32_t delivery; /* semel_message.delivery */
    uint32_t retry_ms;
    int64_t took_ns; /* received: how long the handler took; sent: how long the broker took, or 0 */
    int64_t letter;  /* the dead letter that it became; 0: none */
    uint64_t count;  /* processed: how many messages its transaction has sent; see also the gap */
    semel_bytes message_id;
    const char *type;    /* of the message; NULL: none */
    const char *source;  /* the same */
    const char *process; /* semel_process.id of the writer; "" if it has none */
    const char *error;   /* "" if there was none */
    size_t body_len;     /* of the message as it was delivered */
    int kept;            /* 1: headers and a part of the body were kept */
    /* With headers and as much of the body as was kept. Written: NULL keeps nothing of it. Listed:
     * NULL if nothing was kept, or the filter does not ask for contents, or the row is damaged. */
    const semel_message *message;
    const char *damage; /* listed: why the message of a damaged row cannot be shown; NULL: it can */
} semel_history;

/* Writes all rows or none, in one round trip if it can. Not durable: a power failure may undo it.
 * A text that is no UTF-8 is mended, an error is cut at SEMEL_AUDIT_TEXT_MAX, and a body at
 * SEMEL_HISTORY_BODY_MAX. */
SEMEL_API semel_status semel_history_write(semel_store *store, const semel_history rows[],
                                           size_t count, semel_error *err);

/* A member that is zero excludes none. There is an index by key and one by name; the others are
 * applied to the rows that these find. */
typedef struct semel_history_filter {
    size_t size;
    semel_history_kind kind;
    const char *name;
    semel_bytes key;   /* exactly this one, as it is stored */
    int64_t before_id; /* for the next page: the id of the last row of this one */
    uint32_t limit;    /* default SEMEL_PAGE_DEFAULT */
    semel_outcome outcome;
    const char *type; /* exactly */
    int64_t since_ms; /* at this time or later ... */
    int64_t until_ms; /* ... and before this time */
    int contents;     /* 1: with the messages */
} semel_history_filter;

typedef semel_status semel_history_visitor(const semel_history *row, void *context,
                                           semel_error *err);

/* The newest first, by id. */
SEMEL_API semel_status semel_history_list(semel_store *store, const semel_history_filter *filter,
                                          semel_history_visitor *visitor, void *context,
                                          semel_error *err);

/* One bounded step: looks at up to `limit` of the oldest rows (0: SEMEL_SWEEP_BATCH), and removes
 * those that are not among the last rows_kept ids (0: no bound) or that are older than
 * older_than_ms (0: no bound). *more is 1 if there may be others. Both may be NULL. */
SEMEL_API semel_status semel_history_trim(size_t *removed, int *more, semel_store *store,
                                          uint64_t rows_kept, uint64_t older_than_ms,
                                          uint32_t limit, semel_error *err);

/* How many rows there are at most (ids may be missing), and when the oldest one was written down:
 * 0 and 0 if there are none. Cheap. */
SEMEL_API semel_status semel_history_size(uint64_t *rows, int64_t *oldest_ms, semel_store *store,
                                          semel_error *err);

/* --- schema ----------------------------------------------------------------------------------- */

/* A step of the schema, from semel's first version on. */
typedef struct semel_schema_step {
    size_t size;
    int32_t version;
    const char *name;   /* what it brings: "markers, outbox, dead letters" */
    const char *locks;  /* what it locks and for how long: "no tables in use, under a second" */
    int64_t applied_ms; /* 0: not yet */
    /* complete statements for a database administrator, with the row that says that the step was
     * taken, safe to run twice */
    const char *sql;
    /* the least version that a program must know to use the tables behind this step */
    int32_t needs;
    /* 1: a newer semel has taken it, and this library does not have it; the name is that in the
     * database, and the texts are empty */
    int newer;
    /* applied, but something that the library itself does without is missing, or was made by
     * another version of it (functions in MariaDB): taking the step again mends it */
    int incomplete;
} semel_schema_step;

typedef semel_status semel_schema_visitor(const semel_schema_step *step, void *context,
                                          semel_error *err);

/* All steps that this library has, in their order, and behind them those of a newer version that
 * were taken. Changes nothing, and works on a database without tables of semel's. SEMEL_ESCHEMA,
 * after all were shown, if a step needs programs that know more than this library. */
SEMEL_API semel_status semel_store_schema(semel_store *store, semel_schema_visitor *visitor,
                                          void *context, semel_error *err);

/* As semel_store_migrate(), up to and including this version; 0: all. SEMEL_EINVAL if there is no
 * such version. Tables of a later version stay as they are. */
SEMEL_API semel_status semel_store_migrate_to(semel_store *store, int32_t version,
                                              semel_error *err);

/* --- inspection ------------------------------------------------------------------------------- */

typedef enum semel_severity {
    SEMEL_SEVERITY_OK = 1,
    SEMEL_SEVERITY_WARNING, /* it works, but not as well or as safely as it could */
    SEMEL_SEVERITY_ERROR    /* it does not work, or not with the guarantees that are promised */
} semel_severity;

/* What a store or a transport finds out about its server and its own rights there. */
typedef struct semel_finding {
    size_t size;
    semel_severity severity;
    const char *subject; /* schema, rights, durability, isolation, clock, ... */
    const char *text;    /* "role shop_app has no DELETE privilege on semel.semel_marker" */
    const char *fix;     /* a statement or a sentence that mends it; "" if there is none */
} semel_finding;

typedef semel_status semel_finding_visitor(const semel_finding *finding, void *context,
                                           semel_error *err);

/* Looks at the database as this store uses it: version, schema, rights on semel's tables,
 * durability, isolation, difference of clocks. Each subject has at least one finding. Changes
 * nothing. */
SEMEL_API semel_status semel_store_inspect(semel_store *store, semel_finding_visitor *visitor,
                                           void *context, semel_error *err);

/* The grade that an inbox of this mode would have, as semel_inbox_grade(); opens nothing. */
SEMEL_API semel_grade semel_store_grade(const semel_store *store, semel_mode mode,
                                        const semel_transport *transport);

SEMEL_END_DECLS

#endif
