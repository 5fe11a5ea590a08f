/* The relay: takes messages from an outbox to a transport, and marks a message sent only when the
 * broker confirmed it.
 *
 * Rows are taken by lease and fencing token, never by a cursor; no transaction is open while the broker
 * is talked to. Messages of one group leave in the order of capture, however many relays work side by
 * side; a message that fails or is delayed (delay_ms) holds up those behind it in its own group and nothing
 * else. A relay has one owner at a time. What it is opened with (outbox, transport, inbox) must outlive it.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_RELAY_H
#define SEMEL_RELAY_H

#include <semel/inbox.h>
#include <semel/outbox.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

typedef struct semel_relay semel_relay;

/*                          batch  lease_ms  poll_ms  attempts_max  backoff_ms .. backoff_max_ms */
typedef enum semel_relay_preset {
    SEMEL_RELAY_BALANCED = 0, /* 100   30000     1000     10            200 .. 60000             */
    SEMEL_RELAY_THROUGHPUT,   /* 1000  60000     200      10            100 .. 30000             */
    SEMEL_RELAY_CAREFUL       /* 10    30000     2000     25            1000 .. 600000           */
} semel_relay_preset;

/* What to do with a message for which the broker has no place: no queue is bound for its topic. */
typedef enum semel_on_unroutable {
    SEMEL_UNROUTABLE_WAIT = 0, /* try again, with backoff, until somebody made the place */
    SEMEL_UNROUTABLE_DEAD      /* as if refused: after attempts_max it is a dead letter */
} semel_on_unroutable;

/* Zero means the preset's value. */
typedef struct semel_relay_options {
    size_t size;
    semel_relay_preset preset;
    uint32_t batch;        /* messages taken at once, at most SEMEL_BATCH_MAX */
    uint32_t lease_ms;     /* how long a taken message is this relay's */
    uint32_t poll_ms;      /* how often to look, besides being woken by commits: this process's,
                            * and on PostgreSQL anybody's */
    uint32_t attempts_max; /* refused (or failed, locally) so often, it becomes a dead letter */
    uint32_t backoff_ms;   /* before the second attempt; doubles with each, with jitter */
    uint32_t backoff_max_ms;
    semel_on_unroutable on_unroutable;

    /* Of semel_relay_run(), called by its thread. A broker is back when it has taken a message again. */
    semel_notice *notice;
    void *notice_context;
} semel_relay_options;

SEMEL_API semel_status semel_relay_open(semel_relay **out, semel_outbox *outbox,
                                        semel_transport *transport,
                                        const semel_relay_options *options, semel_error *err);

/* Local hand-off: inbox and outbox of the same store. Each message is taken out of the outbox and
 * marked received in the inbox in the one transaction that the handler's writes go into. The inbox must
 * be in transaction mode. */
SEMEL_API semel_status semel_relay_open_local(semel_relay **out, semel_outbox *outbox,
                                              semel_inbox *inbox, semel_handler *handler,
                                              void *context, const semel_relay_options *options,
                                              semel_error *err);
SEMEL_API void semel_relay_close(semel_relay *relay);

/* One turn: takes what is due, sends it, marks it. Waits up to `wait_ms` for something to do. *sent
 * counts the messages confirmed. A message that failed is not an error of the step; a broker or store
 * that cannot be reached is, and the step may simply be called again. */
SEMEL_API semel_status semel_relay_step(size_t *sent, semel_relay *relay, uint32_t wait_ms,
                                        semel_error *err);

/* Steps until stopped. As long as batches are full it does not wait for the broker before it takes the next: up to three
 * batches are leased then, and given back or settled when it ends. Errors that may pass (retryable) are waited out, with
 * backoff; others end it. */
SEMEL_API semel_status semel_relay_run(semel_relay *relay, semel_error *err);

/* For good: whoever runs it after that returns at once. May be called from any thread and from a signal
 * handler, also before the run; the turn under way is finished. */
SEMEL_API void semel_relay_stop(semel_relay *relay);

SEMEL_END_DECLS

#endif
