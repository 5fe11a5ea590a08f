/* The receiving half: a durable pull consumer. */
#ifndef SEMEL_TRANSPORT_NATS_RECEIVER_H
#define SEMEL_TRANSPORT_NATS_RECEIVER_H

#include "base/mem.h"
#include "transport/nats/calls.h"
#include "transport/nats/topology.h"

#include <semel/sys/transport.h>

typedef struct jet_delivery {
    delivery_node node;
    natsMsg *raw; /* has the body, and the subject for its verdict */
    const semel_message *message;
    mem_arena arena;       /* holds the rest of the message */
    int64_t held_until_ms; /* by the steady clock: then the server gives it to anyone */
    int given_back;        /* and the server knows */
    int gone;              /* the stream has another message at its number, or may have */
} jet_delivery;

typedef struct jet_receiver {
    jet_calls *calls;
    jet_link *link; /* its lock guards the rest */
    const jet_facts *facts;
    char inbox[JET_INBOX_ROOM]; /* with a dot at its end */
    jet_subscription subscription;
    int starting; /* a thread subscribes or asks, without the lock */

    uint64_t request;       /* the number of the last one */
    size_t wanted;          /* messages that it has still to bring; 0: it is over */
    int64_t request_end_ms; /* by then the server has said that it is over ... */
    int request_expires;    /* ... if it was told when */

    delivery_list ready;     /* fetched, and not received yet */
    delivery_list unsettled; /* received, in that order */
    delivery_table received; /* the same, by tag */
} jet_receiver;

/* The delivery that a list or the table has; NULL for none. The node is its first member. */
static inline jet_delivery *jet_delivery_of(delivery_node *node)
{
    return (jet_delivery *)node;
}

/* As in <semel/sys/transport.h>. */
semel_status jet_receive(jet_receiver *receiver, semel_delivery deliveries[], size_t max,
                         size_t *count, uint32_t wait_ms, semel_error *err);
semel_status jet_settle(jet_receiver *receiver, const semel_delivery_settlement settles[],
                        size_t count, semel_error *err);
semel_status jet_extend(jet_receiver *receiver, const uint64_t tags[], size_t count,
                        uint32_t *hold_ms, semel_error *err);
int jet_revoked(jet_receiver *receiver, uint64_t tag);
void jet_give_back(jet_receiver *receiver);

/* With each new connection, without the lock. Deliveries that came by the one before go on, if the
 * stream still has what they are of. Else they are gone: their verdicts would be another message's.
 */
void jet_receiver_compare(jet_receiver *receiver, natsConnection *connection);

/* With the lock held. */

/* Fetches no more, and waits for what is on its way, so that it can be given back. */
void jet_receiver_stop(jet_receiver *receiver, int64_t until_ms);
int jet_delivery_is_over(const jet_receiver *receiver, const jet_delivery *one);

/* It is in no list and no table: frees it. */
void jet_delivery_free(jet_delivery *one);

/* At the end, with no connection any more. */
void jet_receiver_free(jet_receiver *receiver);

#endif
