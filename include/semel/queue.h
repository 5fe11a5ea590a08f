/* A queue by name in a store: a transport without a broker. docs/QUEUE.md says what it promises.
 *
 *     semel_transport *orders = NULL;
 *     status = semel_queue_open(&orders, store, "orders", NULL, &err);
 *
 * By URL it has a store of its own, which is opened and migrated here and closed with it:
 *
 *     store:sqlite:shop.db#orders
 *     store:postgres://user@host/db?schema=x#orders        the queue's name is behind the last #
 *     store:sqlite:shop.db#orders?lease_ms=60000           and its parameters behind its name
 *
 * The parameters of a queue are the options below, by their names, from 1 to 4294967295 and
 * joined with &: lease_ms, poll_ms. Those of the store are before the #.
 *
 * What is published is committed in one transaction: all of a call or nothing. A delivery is
 * leased: if it is not settled in time, it goes to the next consumer that asks. Messages of a
 * group are delivered in their order: while one is out or waits, those behind it wait, too. A
 * message's topic is kept and decides nothing.
 *
 * A consumer with a batch of 2 or more, on a queue that was opened by semel_queue_open() in the
 * store of its inbox, removes messages from the queue in the transaction that handles them.
 *
 * Several processes may use one queue, if they may share the store, and threads a transport.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_QUEUE_H
#define SEMEL_QUEUE_H

#include <semel/look.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

typedef struct semel_queue_options {
    size_t size;
    /* how long a delivery is out before it comes again; default 30000. A consumer extends it
     * while its handlers run */
    uint32_t lease_ms;
    /* how often a receiver that waits looks for what it does not hear of; default 200 */
    uint32_t poll_ms;
} semel_queue_options;

/* The store is borrowed and must outlive the transport. Queues have names of their own: one may be
 * called as an outbox is. SEMEL_EUNSUPPORTED if the store cannot keep a queue. */
SEMEL_API semel_status semel_queue_open(semel_transport **out, semel_store *store, const char *name,
                                        const semel_queue_options *options, semel_error *err);

/* Puts a message that was rejected back into the queue, behind all others, with its attempts set to
 * zero and its id kept. semel_dead_list() with the origin SEMEL_DEAD_QUEUE shows which there are.
 * SEMEL_ENOTFOUND if there is no such letter of this queue (any more). */
SEMEL_API semel_status semel_queue_replay(semel_transport *transport, int64_t id, semel_error *err);

/* Lists what is in the queue, as semel_outbox_list() does: a delivery that is out is leased. */
SEMEL_API semel_status semel_queue_list(semel_transport *transport,
                                        const semel_outgoing_filter *filter,
                                        semel_outgoing_visitor *visitor, void *context,
                                        semel_error *err);

SEMEL_END_DECLS

#endif
