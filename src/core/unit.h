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

typedef struct unit_statement {
    struct unit_statement *next;
    const char *sql;
    const semel_value *values;
    size_t count;
} unit_statement;

/* What the caller holds of a unit: each life of a unit has another one, so that a handle that is kept for too long is
 * not taken for somebody else's unit. */
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
    int claimed;        /* the claim said SEMEL_CLAIMED: there is something to commit */
    int counted;        /* the attempt was stored beforehand, and may have to be taken back */
    int replaying;      /* the caller asked for this very message: it cannot be stale */
    int bodiless;       /* its letter is kept without its body */
    semel_bytes result; /* data NULL: none was set */
    void *replay;       /* the stored result of a duplicate, from mem_alloc */
    size_t replay_len;
} unit_item;

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
    int joined;
    int final_try; /* it is not begun anew once more */
    unit_item item;
    size_t captured;
    size_t marks; /* keys that its transaction has marked or claimed */
    int full;     /* a message was refused because the transaction has no room for more changes */
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

/* Computes the key, fingerprint and so on into the unit. *missing is 1 if the message has no key and the
 * policy does not allow that, or if its key cannot be computed; `err` then says why. With
 * SEMEL_MISSING_KEY_PROCESS mark.inbox is 0. */
semel_status unit_identify(int *missing, work_unit *unit, semel_inbox *inbox,
                           const semel_message *message, semel_error *err);

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

/* The counted attempt came to nothing through nobody's fault: takes it back, as far as that can be done. */
void unit_uncount(work_unit *unit);

/* What waits for the commit is forgotten. */
void unit_drop_pending(work_unit *unit);

/* After the handler has failed: OK if that was by its own fault, else what became of the unit; `err` says it then. */
semel_status unit_verify(work_unit *unit, semel_error *err);

/* The work ran into a limit of the server, or took its connection down: that is an outage only if the store does not
 * answer now. Records the failure, which is the question: OK if it could be recorded. */
semel_status unit_record_limit(semel_outcome *out, work_unit *unit, const semel_error *why,
                               semel_error *err);

/* 1 if a commit that failed with this status failed by what the handler had queued. */
int unit_blames_handler(semel_status status);

/* 1 if it failed by nobody's fault, and nothing was committed: the attempt does not count. */
int unit_blames_nobody(semel_status status);

/* Inside an open transaction: pending statements and messages are stored. */
semel_status unit_flush_pending(work_unit *unit, semel_error *err);

/* Where the pending ones end, and back to there. */
typedef struct unit_bookmark {
    unit_pending *pending;
    unit_statement *statement;
    size_t captured;
} unit_bookmark;
unit_bookmark unit_bookmark_set(const work_unit *unit);
void unit_bookmark_return(work_unit *unit, unit_bookmark to);

/* After unit_tx_rollback() or on a claim: records the failure in a transaction of its own. */
semel_status unit_record_failure(semel_outcome *out, work_unit *unit, const semel_error *why,
                                 semel_error *err);

/* The header of a letter that was kept without its body: there is nothing left to handle. */
#define LETTER_BODILESS "semel-bodiless"

/* The same inside the open transaction; ELOST if the key is someone else's by now. */
semel_status unit_note_failure(work_unit *unit, int dead, const char *why, semel_error *err);

/* Ends like semel_unit_commit(), but keeps the unit for its result; the caller frees it. */
semel_status unit_complete(work_unit *unit, semel_error *err);

/* The handler, with its status made sure to be no success when it is none. */
semel_status unit_run(work_unit *unit, semel_handler *handler, const semel_message *message,
                      void *context, semel_error *err);

#endif
