/* The observer: one call for each outcome, for metrics, traces and logs.
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
    /* SEMEL_PROCESSED: how many messages were captured in its transaction */
    uint32_t captured;
};

SEMEL_END_DECLS

#endif
