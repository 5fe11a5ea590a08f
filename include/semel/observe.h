/* The observer: one call for each outcome, for metrics, traces and logs. And the hooks of a tracer.
 *
 *     static void observe(void *context, const semel_event *event)
 *     {
 *         printf("%s %s\n", event->name, semel_outcome_name(event->outcome));
 *     }
 *     semel_store_options options = {.size = sizeof options, .observer = observe};
 *
 * The library calls the observer of a store after the outcome is final: after the commit or
 * rollback, outside of every transaction and lock, in the thread that did the work. What the
 * observer does cannot change the outcome; a process that dies before the call has reported
 * nothing. A slow observer delays its thread. Several threads may call it at once. The observer may
 * use the store, but not the relay, the consumer or the transport that is at work. A unit that has
 * joined the caller's transaction is reported when the unit ends, inside of that transaction: then
 * the observer must not use the store, either. SPDX-License-Identifier: MIT */
#ifndef SEMEL_OBSERVE_H
#define SEMEL_OBSERVE_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

typedef enum semel_event_kind {
    SEMEL_EVENT_RECEIVED = 1, /* an inbox has decided about a message */
    /* a relay has settled a message: SEMEL_PROCESSED if the broker (or the local inbox) has it,
     * SEMEL_FAILED if it is tried again, SEMEL_DEAD if it is a dead letter of the outbox now. Of a
     * local hand-off only SEMEL_PROCESSED: the inbox's event tells the rest */
    SEMEL_EVENT_SENT
} semel_event_kind;

/* Everything is borrowed for the call. */
struct semel_event {
    size_t size;
    semel_event_kind kind;
    /* of the inbox or outbox; of a message that a consumer has kept as a dead letter because no
     * route fits it or it is no proper message: "unrouted" or "unusable", as the letter */
    const char *name;
    const semel_message *message; /* for a relay: as it was sent */
    semel_bytes key;              /* received: as semel_unit_key(); {NULL, 0} without a key */
    semel_outcome outcome; /* never SEMEL_UNDECIDED; SEMEL_FAILED for a claim that was lost */
    uint32_t attempt;      /* from 1; 0 if there was none, as for a duplicate */
    /* received: how long the handler took; 0 if it did not run, or in steps. In queued mode it may
     * have run for a duplicate */
    int64_t handler_ns;
    const char *error; /* NULL if there was none */
    /* SEMEL_FAILED: it is tried again within this time, as the consumer or relay decides; 0: not
     * known. Jitter may take off up to half of it */
    uint32_t retry_ms;
    /* SEMEL_DEAD: the inbox has refused it for this (SEMEL_MISMATCH, SEMEL_STALE or
     * SEMEL_MISSING_KEY, which has an event of its own, too); else SEMEL_UNDECIDED */
    semel_outcome refused;
    /* SEMEL_DEAD: the number of the dead letter that it became just now; 0 if it became none, as a
     * copy of one */
    int64_t letter;
    /* sent: how long it took from handing over the batch that the message was in until the broker
     * had answered for all of it; 0 for a local hand-off. With a full batch the relay does other
     * work meanwhile, and if that takes longer it counts, too */
    int64_t publish_ns;
    /* when the handler was called, or when that batch was handed over, by CLOCK_MONOTONIC; 0 if
     * neither was, or in steps */
    int64_t started_ns;
    /* SEMEL_PROCESSED: how many messages were captured in its transaction */
    uint32_t captured;
};

/* --- transactions ----------------------------------------------------------------------------- */

typedef enum semel_operation {
    SEMEL_OPERATION_OTHER = 0, /* retention, dead letters, history, what a person asks for */
    /* an inbox decides about one message or several. In transaction mode and in queued mode what
     * the handlers did is in it; in claim mode the claim is one transaction, and the end another */
    SEMEL_OPERATION_RECEIVE,
    SEMEL_OPERATION_RELAY, /* a relay leases messages of its outbox, or settles them */
    SEMEL_OPERATION_QUEUE  /* messages are put into, leased from or settled in a queue of the store
                            */
} semel_operation;

/* A transaction that the library has begun is over. Borrowed for the call. */
struct semel_transaction_end {
    size_t size;
    semel_operation operation;
    int is_committed; /* 0: rolled back, or whether it is committed is not known */
    int64_t took_ns;  /* from before its begin until the store has answered its end */
};

/* semel_store_options.transactions is called for each, by the thread that did the work, which may
 * have locks: it must neither use the store nor wait. A transaction that the caller has begun, and
 * a unit has joined, is not reported, nor is one that could not be begun. */

/* --- for tracing ------------------------------------------------------------------------------ */

#define SEMEL_TRACEPARENT_SIZE 56 /* 55 characters of W3C Trace Context and a NUL */

/* A handler is about to run. Everything is borrowed for the call. */
typedef struct semel_start {
    size_t size;
    const char *name; /* of the inbox */
    const semel_message *message;
    semel_bytes key;    /* as in the event */
    uint32_t attempt;   /* from 1 */
    int64_t started_ns; /* as in the event */
} semel_start;

typedef enum semel_transfer_kind {
    SEMEL_TRANSFER_RECEIVED = 1, /* the transport has delivered messages to a consumer */
    SEMEL_TRANSFER_SETTLED       /* the consumer has acknowledged, postponed or rejected them */
} semel_transfer_kind;

/* What a consumer and its transport did for several messages at once. Borrowed for the call. */
typedef struct semel_transfer {
    size_t size;
    semel_transfer_kind kind;
    const char *scheme;              /* of the transport */
    const char *queue;               /* its name in a pipeline; NULL: not known */
    const semel_bytes *traceparents; /* the headers of the messages; {NULL, 0}: it has none */
    size_t count;                    /* messages; 0: the transport failed to receive */
    int64_t started_ns;              /* by CLOCK_MONOTONIC */
    int64_t took_ns;   /* of receiving: until the first messages were there, waiting included */
    const char *error; /* NULL if there was none */
} semel_transfer;

/* What a tracer needs beyond the outcomes: semel_store_options.tracing. Several threads may call
 * these at once. Each may be NULL. */
typedef struct semel_tracing {
    size_t size;
    void *context;
    /* Before a handler, in its thread, and inside of its transaction: so it must not use the store,
     * and must not wait. What it writes as a traceparent is the context of the handler's work: what
     * the handler sends has it, and semel_unit_traceparent() returns it. If it writes nothing, that
     * is the context of the message. A handler that is called again because a transaction was begun
     * anew is announced again; the event has the last one's started_ns. */
    void (*start)(void *context, const semel_start *start,
                  char traceparent[SEMEL_TRACEPARENT_SIZE]);
    /* After messages were received or settled, outside of every lock and transaction. Not called
     * for messages of a queue in the store that are settled by the commit of their work. */
    void (*transfer)(void *context, const semel_transfer *transfer);
} semel_tracing;

/* The traceparent that the work of the unit belongs to: what semel_tracing.start has written, else
 * the header of the message. {NULL, 0}: none. Valid as long as the unit and its message. */
SEMEL_API semel_bytes semel_unit_traceparent(const semel_unit *unit);

SEMEL_END_DECLS

#endif
