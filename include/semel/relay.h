/* The relay: sends the messages of an outbox to a transport. It marks a message as sent only after
 * the broker has confirmed it.
 *
 * The relay leases rows and holds a fencing token for each; it never reads by a cursor. No
 * transaction is open while the relay talks to the broker. Messages of one group leave in the order
 * of capture, however many relays work at the same time. A message that fails or is delayed
 * (delay_ms) delays the messages behind it in its group and no others. A relay has one owner at a
 * time. The outbox, transport or inbox that a relay is opened with must outlive it.
 *
 * A running relay with a local hand-off also does the retention of its inbox, in short steps
 * between messages: see sweep_every_ms and semel_inbox_sweep() in inbox.h. A program that calls
 * semel_relay_step() sweeps by itself.
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
} semel_relay_preset;         /* BALANCED has a batch of 500 in a local hand-off                 */

/* What the relay does with an unroutable message: one for whose topic no queue is bound. */
typedef enum semel_on_unroutable {
    SEMEL_UNROUTABLE_WAIT = 0, /* try again, with backoff, until a queue is bound */
    SEMEL_UNROUTABLE_DEAD      /* as if refused: a dead letter after attempts_max */
} semel_on_unroutable;

/* Zero means the preset's value. */
typedef struct semel_relay_options {
    size_t size;
    semel_relay_preset preset;
    uint32_t batch;        /* messages leased at once, at most SEMEL_BATCH_MAX */
    uint32_t lease_ms;     /* how long a lease lasts */
    uint32_t poll_ms;      /* how often the relay looks by itself. Commits wake it, too: those of
                            * its own process, and on PostgreSQL those of every process */
    uint32_t attempts_max; /* refused (or, locally, failed) so often, a message is a dead letter */
    uint32_t backoff_ms;   /* wait before the second attempt; doubles each time, with jitter */
    uint32_t backoff_max_ms;
    semel_on_unroutable on_unroutable;

    /* For semel_relay_run(), which calls it in its own thread. An outage of the broker is over when
     * the broker has accepted a message again. */
    semel_notice *notice;
    void *notice_context;

    /* How long the relay keeps a row of each message that it has sent, for
     * semel_outbox_list_sent(). 0: not at all. The relay writes the row in the transaction that
     * removes the message from the outbox, and removes it later, in small steps between its
     * turns. A store that cannot do that (memory:) is SEMEL_EUNSUPPORTED. */
    uint64_t keep_sent_ms;
} semel_relay_options;

SEMEL_API semel_status semel_relay_open(semel_relay **out, semel_outbox *outbox,
                                        semel_transport *transport,
                                        const semel_relay_options *options, semel_error *err);

/* Local hand-off, between an outbox and an inbox of the same store. One transaction removes the
 * message from the outbox, marks it as received in the inbox and holds the handler's writes. The
 * inbox must be in transaction mode.
 *
 * Messages that are handed over for the first time share such a transaction, as many as take about
 * a tenth of a second together. Each handler runs behind a savepoint: one that fails is undone and
 * tried again later, and the others are committed. A message that was tried or leased before has a
 * transaction of its own, and so has each message of a transaction that failed as a whole; a
 * handler may then run a second time for a message whose first run was undone. */
SEMEL_API semel_status semel_relay_open_local(semel_relay **out, semel_outbox *outbox,
                                              semel_inbox *inbox, semel_handler *handler,
                                              void *context, const semel_relay_options *options,
                                              semel_error *err);
SEMEL_API void semel_relay_close(semel_relay *relay);

/* One step: leases the messages that are due, sends them and settles them. Waits up to `wait_ms` if
 * no message is due. *sent is the number of messages confirmed. A message that fails is not an
 * error of the step. A broker or store that cannot be reached is an error; the caller may simply
 * call the step again. */
SEMEL_API semel_status semel_relay_step(size_t *sent, semel_relay *relay, uint32_t wait_ms,
                                        semel_error *err);

/* Steps until the relay is stopped. While batches are full, the relay leases the next batch before
 * the broker has answered for the current one. It then holds up to three leased batches, which it
 * settles or releases when it ends. The relay waits, with backoff, while errors are retryable; any
 * other error ends the run. */
SEMEL_API semel_status semel_relay_run(semel_relay *relay, semel_error *err);

/* Stops the relay for good: later calls of semel_relay_run() return at once. May be called from any
 * thread and from a signal handler, also before the run. The step that is under way is finished; a
 * handler of a local hand-off may ask (semel_unit_stopping) and end it earlier: when it returns
 * SEMEL_ESTOPPED, its message and those behind it stay in the outbox. */
SEMEL_API void semel_relay_stop(semel_relay *relay);

SEMEL_END_DECLS

#endif
