/* The relay as its two kinds share it: leasing from the outbox and settling are the same, what
 * happens in between is not. */
#ifndef SEMEL_CORE_RELAY_H
#define SEMEL_CORE_RELAY_H

#include "core/retention.h"
#include "core/transport.h"
#include "core/unit.h"

#include <semel/relay.h>

/* A message that this relay has leased. */
typedef struct relay_item {
    int64_t seq;
    uint64_t token;
    uint32_t attempts;
    uint32_t refusals;
    const semel_message *message; /* in the batch's arena */
    semel_publish_result result;
    int tried;
    semel_verdict verdict; /* 0: not decided yet */
    uint32_t delay_ms;
    int dead;
    int64_t letter;                 /* that it became, for the observer; 0: none */
    int64_t started_ns, publish_ns; /* for the observer: of the wave that it was sent in */
    const char *why;                /* RETRY: the attempt failed; NULL: not known */
    int lost;        /* its lease is another relay's, or its end is not known: it is left alone */
    uint64_t wave;   /* local hand-off: the number of the last one that it was in ... */
    size_t place;    /* ... and where it stood there */
    uint32_t before; /* the one before it in its group, counted from 1; 0: none in this batch */
    uint32_t chain;  /* the next one in the same bucket, counted from 1 */
} relay_item;

/* Which side cannot be reached. */
enum { RELAY_OUTAGE_STORE = 1, RELAY_OUTAGE_BROKER = 2 };

/* What was leased by one transaction and is settled by another. */
typedef struct relay_batch {
    mem_arena arena;
    relay_item *items;
    size_t count;      /* 0: nothing to send, nothing to settle */
    uint32_t *buckets; /* of groups in this batch: the latest item of each, counted from 1 */
    int64_t leased_at_ms;
} relay_batch;

enum { RELAY_BATCHES = 3 };

struct semel_relay {
    semel_outbox *outbox;
    semel_store *store;
    semel_transport *transport; /* NULL: local hand-off */
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
    semel_relay_options options; /* complete */
    int64_t forget_at_ms;        /* when the next look for old rows of sent messages is due */
    uint32_t forget_failures;    /* looks in a row that failed */
    int forget_reported;         /* the notice knows of them */
    uint32_t limit;              /* of the next batch: falls to 1 after an outage, then doubles */
    uint32_t failures;           /* steps in a row that could not reach the broker or the store */
    int outage;                  /* RELAY_OUTAGE_...: which side's, if the last pass failed */
    int in_outage;               /* RELAY_OUTAGE_... that a run is waiting out */
    atomic_int stopped;
    int cut_short; /* local hand-off: a handler ended early, and the rest of the batch goes back */
    health_log health;
    store_watcher watcher;
    int woken; /* by the last wait */

    relay_batch batches[RELAY_BATCHES];
    relay_batch *last; /* sent, and settled while the next one is */
    relay_batch *now;
    relay_batch *next; /* leased while `now` is under way */
    uint32_t bucket_count;
    size_t leased;      /* messages that the last pass had to send */
    size_t confirmed;   /* and of them, those that the broker has */
    size_t settled;     /* batches that the last pass settled */
    size_t sent;        /* confirmed and settled, in this step or run */
    semel_status ahead; /* of settling and leasing while the broker worked */
    semel_error ahead_why;

    const semel_message **wave; /* what is published together, and where it stands in items[] */
    size_t *wave_index;
    semel_publish_result *results;
    semel_item_settlement *settlements;
    semel_outcome *outcomes; /* local hand-off: of the wave */
    int *buried;
    const char **whys;
    size_t *wave_rows; /* by settlement: its index in the wave */
    size_t wave_lost;  /* leases that ended before the work of the wave did */
    size_t wave_max;   /* messages in the next one; 0: not known */
    uint64_t wave_number;
    retention retention; /* of the inbox; none without one */
};

/* Leases what is due, at most relay->limit; and settles as each item's verdict says: what has none
 * is given back untried. A batch is empty when it is settled, whether that went well or not: then
 * its lease will end by itself. *sent grows by what the broker confirmed. */
semel_status relay_lease(semel_relay *relay, relay_batch *batch, semel_error *err);
semel_status relay_settle(semel_relay *relay, relay_batch *batch, size_t *sent, semel_error *err);

/* Does the item before this one in its group still stand in the way? */
int relay_is_blocked(const relay_batch *batch, const relay_item *item);

/* Does what the broker said count towards attempts_max? */
int relay_is_refused(const semel_relay *relay, const relay_item *item);

/* Has so much of the lease passed that starting on another item is no longer safe? */
int relay_is_late(const semel_relay *relay, const relay_batch *batch);

/* The message has left, or was received locally: counts and reports it. */
void relay_count_sent(semel_relay *relay, const relay_item *item);

uint32_t relay_backoff_ms(const semel_relay *relay, uint32_t attempts);

/* For the terms of a local hand-off: how long a message of this batch that failed waits at most. */
uint32_t relay_retry_ms(void *relay, const semel_message *message);

/* relay->now through a transport, or through the inbox of a local hand-off. `meanwhile` (or NULL)
 * is called once, when the first of it is on its way. */
semel_status relay_publish(semel_relay *relay, semel_meanwhile *meanwhile, semel_error *err);
semel_status relay_receive_local(semel_relay *relay, size_t *done, semel_error *err);

/* relay_local.c: one item of a local hand-off, in a transaction of its own. */
semel_status relay_receive_item(semel_relay *relay, relay_item *item, semel_error *err);

/* relay_sent.c: EUNSUPPORTED if the options ask for a history that the store cannot keep. And one
 * bounded step of removing what is too old, if one is due; that it fails holds up nothing. */
semel_status relay_can_keep_sent(const semel_relay *relay, semel_error *err);
void relay_forget_sent(semel_relay *relay);
void relay_notify(const semel_relay *relay, const semel_error *outage); /* relay.c */

#endif
