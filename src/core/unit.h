/* The unit as the core sees it: the driver's transaction, or a claim between two of them. */
#ifndef SEMEL_CORE_UNIT_H
#define SEMEL_CORE_UNIT_H

#include "core/inbox.h"

#include <stdalign.h>

typedef enum unit_phase {
    UNIT_IDLE,     /* nothing is open */
    UNIT_OPEN,     /* a transaction of the driver's is open */
    UNIT_CLAIMING, /* claim mode: the claim is stored, no transaction is open */
    UNIT_PLANNING  /* queued mode: the handler says what is to be done, nothing is open */
} unit_phase;

/* While no transaction is open: a message, and a statement, that wait for the commit. */
typedef struct unit_pending {
    struct unit_pending *next;
    semel_outbox *outbox;
    const semel_message *message;
} unit_pending;

/* A message that was sent: to which outbox, and the one before it. */
typedef struct unit_capture {
    const struct unit_capture *before;
    semel_outbox *outbox;
} unit_capture;

typedef struct unit_statement {
    struct unit_statement *next;
    const char *sql;
    const semel_value *values;
    size_t count;
} unit_statement;

/* What the caller holds of a unit: each life of a unit has another one, so that a handle that is
 * kept for too long is not taken for another caller's unit. */
struct semel_unit {
    work_unit *of;
};

enum { UNIT_LIVES = 64 }; /* a handle is given again after so many */

/* What belongs to one message of a unit. A batch has many, one after the other. */
typedef struct unit_item {
    semel_inbox *inbox;           /* of the key that was claimed; NULL if none was */
    const semel_message *message; /* borrowed */
    semel_bytes whole_key;
    semel_mark mark; /* inbox 0: without protection */
    uint32_t attempt;
    const char *failure;   /* for the observer: why it failed or was not claimed; NULL: not known */
    semel_outcome refused; /* for the observer: why the inbox has refused what is buried now */
    const char *kept_as;   /* for the observer: the letter's name; NULL: that of the inbox */
    semel_outcome known;   /* steps: it was not claimed, which is reported when the unit ends */
    int64_t handler_ns;    /* how long the handler took, for the observer; 0: it did not run */
    int64_t started_ns;    /* when it was called; 0: it was not, or no observer asks */
    /* what the tracer says its work belongs to; "": what the message says */
    char traceparent[SEMEL_TRACEPARENT_SIZE];
    int claimed;        /* the claim said SEMEL_CLAIMED: there is something to commit */
    int counted;        /* the attempt was stored beforehand, and may have to be taken back */
    int stale;          /* the inbox has forgotten keys of its age, and knows nothing of its key */
    int replaying;      /* the caller asked for this very message: it cannot be stale */
    int bodiless;       /* its letter is kept without its body */
    int buried;         /* it became a dead letter by this unit */
    int64_t letter;     /* for the observer: the number of that letter; 0: none */
    semel_bytes result; /* data NULL: none was set */
    void *replay;       /* the stored result of a duplicate, from mem_alloc */
    size_t replay_len;
} unit_item;

/* How long the handlers of a batch may keep its transaction open, and how long they did. Once the
 * budget is used up, or the program stops, the messages that are left are not handled: they are
 * what they were before, and their outcome is SEMEL_UNDECIDED although the call succeeds. Measured
 * by the store's seam. */
typedef struct unit_pace {
    uint32_t budget_ms;
    int64_t used_ms; /* by the handlers of the transaction that is open, or was */
    int begun;       /* one of them has run */
    int cut;         /* messages were left */
} unit_pace;

/* What the owner of the rows that the messages of a batch come from does inside its transaction, so
 * that the rows leave with the commit. What is not handled in that transaction stays undecided, and
 * the owner receives it by itself; after a stop no further handler is called. Indices are those of
 * the caller's arrays. */
typedef struct batch_settler {
    void *context;
    int counts; /* the owner counts the attempts, and this is the first one: no marker counts it */
    const char **why; /* by index: why a handler failed, as long as settle runs; NULL: not wanted */
    /* 1 if the message may be handled now; else it stays undecided. NULL: each may. */
    int (*may_start)(void *context, size_t index);
    /* After the handlers: the outcomes from `from` on are known, and may be set back to undecided.
     * A failure undoes the transaction. */
    semel_status (*settle)(void *context, work_unit *unit, size_t from, size_t count,
                           semel_error *err);
} batch_settler;

/* Bytes of an error text that are kept with a message. */
enum { SETTLER_ERROR_MAX = 300 };

/* What the consumer or relay that receives a message adds to the options of the inbox. All zero:
 * nothing. */
typedef struct unit_terms {
    atomic_int *stopped; /* 1 once the consumer or relay was asked to stop; NULL: it cannot be */
    int endless;         /* the broker limits the attempts: none of them makes a dead letter */
    unit_pace *pace;     /* NULL: nothing is measured or limited */
    const batch_settler *settler; /* batches only; NULL: none */
    /* for the observer: the longest time until a message that has failed is tried again; 0: not
     * known. NULL: it never is */
    uint32_t (*retry_ms)(void *context, const semel_message *message);
    void *retry_context;
} unit_terms;

/* For the next transaction: its first message is handled however long those before took. */
void pace_restart(const unit_terms *terms);

/* 1 if there is no time for the messages that are left, or the program stops. The terms may be
 * NULL. */
int pace_is_over(const unit_terms *terms);

/* Ending the unit is the library's business while a handler runs. */
typedef enum unit_handler {
    HANDLER_IDLE = 0,
    HANDLER_RUNS,
    HANDLER_ENDED_UNIT /* it runs, and has tried to end the unit */
} unit_handler;

struct work_unit {
    work_unit *next; /* in the store's list of free ones */
    semel_store *store;
    semel_unit handles[UNIT_LIVES];
    unsigned life;    /* which of them is in use */
    atomic_int alive; /* 0: it has ended, and waits in the list */
    unit_handler handler;
    int at_once; /* its transactions begin now or not at all: nothing is waited for */
    unit_phase phase;
    int64_t began_ns; /* its transaction; 0: the store measures none */
    semel_operation operation;
    int joined;
    int final_try; /* it is not begun anew once more */
    unit_terms terms;
    unit_item item;
    size_t captured;
    const unit_capture *captures; /* the last of them */
    store_scopes sent_to; /* the outboxes of what it captured, and maybe of what it took back */
    size_t marks;         /* keys that its transaction has marked or claimed */
    int full; /* a message was refused because the transaction has no room for more changes */
    unit_pending *pending_first;
    unit_pending *pending_last;
    unit_statement *statement_first;
    unit_statement *statement_last;
    mem_arena arena;                            /* all that lives until the unit ends */
    alignas(max_align_t) unsigned char state[]; /* the driver's */
};

semel_status unit_new(work_unit **out, semel_store *store, semel_error *err);
semel_unit *unit_handle(work_unit *unit); /* of its current life */
void unit_free(work_unit *unit);          /* back to the list; the driver's unit has ended */
void unit_free_all(semel_store *store);

semel_status unit_tx_begin(work_unit *unit, semel_begin durability, semel_error *err);
void unit_tx_rollback(work_unit *unit); /* rolls the driver's transaction back, if one is open */
semel_status unit_tx_commit(work_unit *unit, semel_error *err); /* commits it */

/* begin ... work ... commit; rolled back if one of them fails. */
typedef semel_status unit_work(work_unit *unit, void *context, semel_error *err);
semel_status unit_transact(work_unit *unit, semel_begin durability, unit_work *work, void *context,
                           semel_error *err);

/* The same in a unit of its own. */
semel_status store_transact(semel_store *store, semel_begin durability, unit_work *work,
                            void *context, semel_error *err);

/* Computes the key, fingerprint and so on into the unit. *missing is 1 if the message has no key
 * and the policy does not allow that, or if its key cannot be computed; `err` then says why. With
 * SEMEL_MISSING_KEY_PROCESS mark.inbox is 0. */
semel_status unit_identify(int *missing, work_unit *unit, semel_inbox *inbox,
                           const semel_message *message, semel_error *err);

/* inbox_details.c: adds type, source and time of receipt to the mark, if the inbox keeps them. May
 * ask the store, so a transaction that is open and unused is rolled back first. */
semel_status unit_add_details(work_unit *unit, semel_error *err);

/* The decision of semel_unit_claim(); leaves the unit in whatever phase the outcome needs. */
semel_status unit_claim_key(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                            const semel_message *message, semel_error *err);

/* As semel_unit_claim(), send, queue. */
semel_status unit_claim(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                        const semel_message *message, semel_error *err);
semel_status unit_send(work_unit *unit, semel_outbox *outbox, const semel_message *message,
                       semel_error *err);
semel_status unit_queue(work_unit *unit, const char *sql, const semel_value values[], size_t count,
                        semel_error *err);
semel_status unit_renew(work_unit *unit, uint32_t lease_ms, semel_error *err);

/* Gives a claim back with one attempt less, rolls back, frees. */
void unit_rollback(work_unit *unit);

/* statement.c */
semel_status unit_check(work_unit *unit, const char *sql, size_t count, size_t *position,
                        semel_error *err);

/* Takes a counted attempt back that ended without a failure of the handler, as far as that can be
 * done. */
void unit_uncount(work_unit *unit);

/* Rolls back as if the attempt had never begun, claim and count included. */
void unit_take_back(work_unit *unit);

/* What waits for the commit is forgotten; and that it has captured anything. */
void unit_drop_pending(work_unit *unit);
void unit_drop_captured(work_unit *unit);

/* After the handler has failed: OK if that was by its own fault, else what became of the unit;
 * `err` says it then. */
semel_status unit_verify(work_unit *unit, semel_error *err);

/* The work ran into a limit of the server, or took its connection down: that is an outage only if
 * the store does not answer now. Records the failure, which is the question: OK if it could be
 * recorded. */
semel_status unit_record_limit(semel_outcome *out, work_unit *unit, const semel_error *why,
                               semel_error *err);

/* 1 if a commit that failed with this status failed by what the handler had queued. */
int unit_blames_handler(semel_status status);

/* 1 if neither message nor handler caused the failure, and nothing was committed: the attempt does
 * not count. */
int unit_blames_store(semel_status status);

/* Inside an open transaction: pending statements and messages are stored. */
semel_status unit_flush_pending(work_unit *unit, semel_error *err);

/* Where the pending ones end, and back to there. */
typedef struct unit_bookmark {
    const unit_capture *captures;
    unit_pending *pending;
    unit_statement *statement;
    size_t captured;
} unit_bookmark;
unit_bookmark unit_bookmark_set(const work_unit *unit);
void unit_bookmark_return(work_unit *unit, unit_bookmark to);

/* After unit_tx_rollback() or on a claim: records the failure in a transaction of its own. */
semel_status unit_record_failure(semel_outcome *out, work_unit *unit, const semel_error *why,
                                 semel_error *err);

/* After unit_tx_rollback(): stores the dead letter of the unit's message in a transaction that does
 * `first` before; ELOST, and nothing is stored, if that says so. */
semel_status unit_bury(work_unit *unit, const char *why, unit_work *first, void *context,
                       semel_error *err);

/* inbox_fault.c: announces a dead letter in the inbox's outbox for faults, if it has one, inside
 * the open transaction. `id` is that of the announcement; empty: a new one. */
semel_status unit_announce_fault(work_unit *unit, semel_bytes id, const char *why,
                                 semel_error *err);

/* dead.c: stores a letter, with its cause, inside the open transaction. If the store has an
 * observer, dead->id is its number. */
semel_status unit_put_letter(work_unit *unit, semel_dead *dead, semel_error *err);

/* Is a message that failed like this in its attempt a dead letter? */
static inline int unit_gives_up(const work_unit *unit, semel_status failure)
{
    const semel_inbox *inbox = unit->item.inbox;
    int last = !unit->terms.endless && unit->item.attempt >= inbox->options.attempts_max;
    return inbox->store->driver->dead && (failure == SEMEL_EGIVEUP || last);
}

/* The header of a letter that was kept without its body: there is nothing left to handle. */
#define LETTER_BODILESS "semel-bodiless"

/* The same inside the open transaction; ELOST if another unit has the key by now. */
semel_status unit_note_failure(work_unit *unit, int dead, const char *why, semel_error *err);

/* What was sent is committed: counts it, and wakes the relays that wait for it. */
void unit_count_captured(work_unit *unit);

/* Counts and reports an outcome of the unit's message, before the unit is freed. `err` is what the
 * event says unless the item has a failure; it may be NULL. */
uint32_t terms_retry_ms(const unit_terms *terms, semel_outcome outcome,
                        const semel_message *message); /* the terms may be NULL */
/* The transaction of the unit is over: to those who watch transactions. */
void unit_report_transaction(work_unit *unit, int is_committed);
/* Tells the tracer of the store, if it has one, that the handler is about to run. */
void unit_announce(work_unit *unit, const semel_message *message);

void unit_report(const work_unit *unit, semel_inbox *inbox, semel_outcome outcome,
                 const semel_error *err);

/* Ends like semel_unit_commit(), but keeps the unit for its result; the caller frees it. */
semel_status unit_complete(work_unit *unit, semel_error *err);

/* The handler, with its status made sure to be no success when it is none. */
semel_status unit_run(work_unit *unit, semel_handler *handler, const semel_message *message,
                      void *context, semel_error *err);

/* semel_inbox_receive() and semel_inbox_receive_batch(), on the caller's terms (NULL: none). Both
 * also tell whether a message with the outcome SEMEL_DEAD became a dead letter by this call;
 * `buried` may be NULL. With a settler a batch that failed as a whole is no error if one message
 * may have been the cause: all of it is undecided then. */
semel_status inbox_receive(semel_outcome *out, int *buried, semel_inbox *inbox,
                           const semel_message *message, semel_handler *handler, void *context,
                           const unit_terms *terms, semel_error *err);
semel_status inbox_receive_batch(semel_outcome out[], int buried[], semel_inbox *inbox,
                                 const semel_message *const messages[], size_t count,
                                 semel_handler *handler, void *context, const unit_terms *terms,
                                 semel_error *err);

#endif
