/* The transport store: one queue in a store. See queue.c. */
#ifndef SEMEL_TRANSPORT_STORE_QUEUE_H
#define SEMEL_TRANSPORT_STORE_QUEUE_H

#include "core/store.h"
#include "core/unit.h"
#include "transport/common/deliveries.h"

#include <semel/queue.h>
#include <semel/sys/transport.h>

/* A message that was received and is not settled. */
typedef struct queue_delivery {
    delivery_node node;
    int64_t seq;
    uint64_t token; /* of its lease */
    uint32_t attempts;
    /* by give_back: another receiver may get the message, and this one may still read it */
    int released;
    semel_message *message;
    struct queue_delivery *next; /* of those that were just leased */
} queue_delivery;

/* Those that are out. */
typedef struct queue_deliveries {
    delivery_table table;
    delivery_list list;
} queue_deliveries;

/* What a thread that waits is woken by. Kept when it has waited, so that the next one need not
 * begin to listen. */
typedef struct queue_waiter {
    store_watcher watcher;
    int in_use;
    struct queue_waiter *next;
} queue_waiter;

typedef struct store_queue {
    semel_store *store;
    int owns_store; /* it was opened by a URL, and is closed with the transport */
    int64_t scope;
    char name[SEMEL_NAME_MAX + 1];
    uint32_t lease_ms;
    uint32_t poll_ms;
    pid_t pid;
    pthread_mutex_t lock; /* over what follows; never held while the store is asked */
    queue_deliveries out;
    queue_waiter *waiters;
} store_queue;

/* --- deliveries.c ----------------------------------------------------------------------------- */

int queue_deliveries_init(queue_deliveries *out); /* 0: out of memory */
void queue_deliveries_free(queue_deliveries *out);

/* A delivery with a copy of the item's message, in no list. */
semel_status queue_delivery_new(queue_delivery **out, const semel_item *item, semel_error *err);
void queue_delivery_free(queue_delivery *delivery);

void queue_deliveries_add(queue_deliveries *out, queue_delivery *delivery); /* gives it a tag */
queue_delivery *queue_deliveries_find(const queue_deliveries *out, uint64_t tag);
queue_delivery *queue_deliveries_remove(queue_deliveries *out, uint64_t tag);

/* --- address.c -------------------------------------------------------------------------------- */

/* What a URL says. */
typedef struct queue_address {
    char *store_url; /* to be freed */
    char name[SEMEL_NAME_MAX + 1];
    uint32_t lease_ms, poll_ms; /* 0: not said */
} queue_address;

semel_status queue_address_read(queue_address *out, const char *text, semel_error *err);

/* --- queue.c ---------------------------------------------------------------------------------- */

/* What is done in a unit; it may roll the unit back itself, if there is nothing to commit. */
typedef semel_status queue_work(store_queue *queue, work_unit *unit, void *context,
                                semel_error *err);

/* One kind of unit. */
typedef struct queue_step {
    queue_work *work;
    semel_begin durability;
    const char *stored, *committed; /* the fault points right before and right after its commit */
} queue_step;

/* Begins a unit, does the work, commits, and begins anew after a conflict. */
semel_status queue_transact(store_queue *queue, const queue_step *step, void *context,
                            semel_error *err);

/* For members that end as the broker's connection does: a commit whose end is not known is an
 * outage to a consumer, since what was not committed comes again. */
semel_status queue_outage(semel_status status, semel_error *err);

/* The queue of a transport, if it is one, and of this process. */
semel_status queue_find(store_queue **out, semel_transport *transport, semel_error *err);

/* --- the members of the driver table ---------------------------------------------------------- */

semel_status queue_publish(void *transport, semel_publish_result results[],
                           const semel_message *const messages[], size_t count, uint32_t wait_ms,
                           semel_error *err);
semel_status queue_receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                           uint32_t wait_ms, semel_error *err);
semel_status queue_settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                          semel_error *err);
semel_status queue_settle_in(void *transport, semel_unit *handle,
                             const semel_delivery_settlement settles[], size_t count,
                             semel_error *err);
void queue_settled(void *transport, const semel_delivery_settlement settles[], size_t count);
semel_status queue_extend(void *transport, const uint64_t tags[], size_t count, uint32_t *hold_ms,
                          semel_error *err);
void queue_give_back(void *transport);

#endif
