/* The connection to a server, and what depends on it.
 *
 * nats.c reads and writes by threads of its own, and calls back from them; its reconnecting is
 * switched off. A connection that is lost stays lost until a caller needs one; then a new one is
 * made, with backoff after failures, and stream and consumer are looked at again. So what was under
 * way ends with its connection, nothing waits in a buffer to be sent later, and there is one way in
 * which a connection begins.
 *
 * One lock guards the whole transport. No thread waits for the server while holding it, and none
 * calls a function of nats.c that writes. */
#ifndef SEMEL_TRANSPORT_NATS_LINK_H
#define SEMEL_TRANSPORT_NATS_LINK_H

#include "transport/nats/address.h"

#include <nats/nats.h>
#include <pthread.h>
#include <semel/store.h>

typedef struct jet_link jet_link;

/* What the owner does with a connection that is new: subscribe, look at stream and consumer.
 * Without the lock, in the thread that needs it; no other thread uses the connection yet. */
typedef semel_status jet_connected(void *owner, natsConnection *connection, semel_error *err);

struct jet_link {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something has come, or the connection was lost */
    const jet_address *address;
    const semel_seam *seam;
    jet_connected *connected;
    void *owner;

    natsConnection *connection; /* NULL: none */
    int up;
    int connecting;     /* a thread does that, without the lock */
    unsigned users;     /* threads that use the connection */
    unsigned callbacks; /* of nats.c that have still to come: then it can be forgotten */
    uint64_t epoch;     /* counts losses: what was under way before is over */
    int was_up;         /* once: a refusal may then be waited out */
    uint32_t failures;  /* to connect, in a row */
    int64_t retry_at_ms;
    int64_t up_since_ms;
    semel_error trouble;  /* why it is not up */
    natsStatus complaint; /* what the server said of the last request that it dropped; or OK */
};

semel_status jet_link_init(jet_link *link, const jet_address *address, const semel_seam *seam,
                           jet_connected *connected, void *owner, semel_error *err);
void jet_link_close(jet_link *link); /* no other thread uses it */

/* With the lock held. SEMEL_OK: the connection is up, perhaps since just now, and is there until
 * jet_link_done(). Else it was tried once, if the backoff after the last failure is over. */
semel_status jet_link_use(jet_link *link, semel_error *err);
void jet_link_done(jet_link *link);

/* With the lock held: the connection is of no more use. */
void jet_link_lose(jet_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* With the lock held, which is given up meanwhile: until `changed`, at most until `until_ms`. */
void jet_link_wait(jet_link *link, int64_t until_ms);

/* A subscription whose messages go to `handler`, in a thread of nats.c. `done` is called after the
 * last of them. Without the lock. */
typedef struct jet_subscription {
    jet_link *link;
    natsSubscription *subscription; /* NULL: none */
    int running;                    /* its thread may still call the handler */
} jet_subscription;

semel_status jet_link_subscribe(jet_link *link, natsConnection *connection, jet_subscription *out,
                                const char *subject, natsMsgHandler handler, void *closure,
                                semel_error *err);

/* With the lock held: ends it, after what has come was given to the handler if `drain`. Waits for
 * that, at most until `until_ms`, and for its thread if it is not draining. */
void jet_link_unsubscribe(jet_link *link, jet_subscription *one, int drain, int64_t until_ms);

/* --- without the lock ------------------------------------------------------------------------- */

/* What was written goes out, and the server has read it. 0: it could not be reached in time. */
int jet_flush(natsConnection *connection, int64_t until_ms);

/* The failure of a call of nats.c, in words. */
semel_status jet_fail(const jet_address *address, natsStatus code, const char *doing,
                      semel_error *err);

/* In connect.c: a connection, and its callbacks go to the link. */
semel_status jet_connect(natsConnection **out, jet_link *link, semel_error *err);

#endif
