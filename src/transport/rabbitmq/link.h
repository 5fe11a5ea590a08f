/* A link: one connection to the broker with one channel, and the threads that use it.
 *
 * rabbitmq-c's connections are for one thread at a time, so a link has a lock, which also guards
 * what its owner keeps. No thread waits for the broker while holding it: rabbit_link_wait()
 * releases it, and of several waiting threads one watches the socket for all. A lost link stays
 * lost until a caller needs it: then it is connected anew, with backoff after failures. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_LINK_H
#define SEMEL_TRANSPORT_RABBITMQ_LINK_H

#include "transport/rabbitmq/address.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <pthread.h>
#include <semel/store.h>
#include <stdatomic.h>

enum { RABBIT_CHANNEL = 1, RABBIT_REASON_ROOM = 256 };

typedef struct rabbit_link rabbit_link;

/* What the owner does; all are called with the lock held. */
typedef struct rabbit_owner {
    /* The connection is there: set the channel up. */
    semel_status (*connected)(void *owner, rabbit_link *link, semel_error *err);
    /* A frame of the channel. What it points to is valid during the call, and longer only if
     * `keeps`. */
    void (*frame)(void *owner, rabbit_link *link, const amqp_frame_t *frame);
    /* 1: memory of earlier frames is still needed. */
    int (*keeps)(const void *owner);
    /* The connection is gone, and what was under way on it. */
    void (*lost)(void *owner);
} rabbit_owner;

struct rabbit_link {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* frames have come, or the link was lost */
    const rabbit_address *address;
    const semel_seam *seam;
    const rabbit_owner *calls;
    void *owner;

    amqp_connection_state_t connection; /* NULL: none */
    int up;
    int watched; /* a thread waits at the socket, without the lock */
    unsigned broker_major;
    int patient;       /* a refusal is waited out: it was let in once */
    uint32_t failures; /* to connect, in a row */
    int64_t retry_at_ms;
    int64_t up_since_ms;
    int64_t connect_until_ms;         /* while it is being made */
    semel_error trouble;              /* why it is not up */
    unsigned closed_by;               /* the broker's code, if it closed the channel; 0 */
    char blocked[RABBIT_REASON_ROOM]; /* the broker takes no messages, and why; "" if it does */

    pthread_mutex_t fd_lock; /* guards fd for threads without the lock */
    int fd;
    _Atomic int64_t write_until_ms; /* 0: no thread writes */
};

semel_status rabbit_link_init(rabbit_link *link, const rabbit_address *address,
                              const semel_seam *seam, const rabbit_owner *calls, void *owner,
                              semel_error *err);
void rabbit_link_close(rabbit_link *link); /* says goodbye, for at most a second */

/* --- with the lock held ----------------------------------------------------------------------- */

/* SEMEL_OK: it is up, perhaps since just now. Else it is tried once, when the backoff after the
 * last failure is over, if that is before `until_ms` of wait_clock_ms(). */
semel_status rabbit_link_need(rabbit_link *link, int64_t until_ms, semel_error *err);

/* Deals with what has come, without waiting. Keeps the heartbeat going, too. */
void rabbit_link_pump(rabbit_link *link);

/* Until something has come, at most until `until_ms`. Gives up the lock meanwhile. */
void rabbit_link_wait(rabbit_link *link, int64_t until_ms);

/* Around calls of rabbitmq-c that write: if they hang beyond `until_ms` the connection is cut. */
void rabbit_link_write_begin(rabbit_link *link, int64_t until_ms);
void rabbit_link_write_end(rabbit_link *link);

/* 1: what is small can be written without waiting. */
int rabbit_link_has_room(const rabbit_link *link);

/* The connection is of no more use: `code` is what rabbitmq-c returned, `doing` what was tried. */
void rabbit_link_broke(rabbit_link *link, int code, const char *doing);
void rabbit_link_lose(rabbit_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends the connection in good order, for at most a second; the next caller that needs it makes
 * another. */
void rabbit_link_leave(rabbit_link *link, const char *why);

/* The failure of the last synchronous call on the link, in words; SEMEL_ETRANSPORT if the broker
 * refused. */
semel_status rabbit_link_refused(const rabbit_link *link, const char *doing, semel_error *err);

/* --- without the lock ------------------------------------------------------------------------- */

/* For the thread that looks after the links: heartbeat, and writes that hang. */
void rabbit_link_tend(rabbit_link *link);

#endif
