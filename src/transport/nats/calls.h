/* Requests whose answers come by an inbox, many at a time: messages that are published, and
 * acknowledgements. Every request has a number, which is the last token of its reply subject. */
#ifndef SEMEL_TRANSPORT_NATS_CALLS_H
#define SEMEL_TRANSPORT_NATS_CALLS_H

#include "transport/common/deliveries.h"
#include "transport/nats/link.h"

typedef struct jet_batch jet_batch;

/* What the server answered. Other numbers are those of its errors, 10000 and more. */
enum { JET_YES = 0, JET_NO_ANSWER = -1, JET_NOBODY = 503, JET_NONSENSE = 1, JET_EMPTY = 2 };

typedef struct jet_call jet_call;
struct jet_call {
    delivery_node node; /* its tag is the number; 0: no answer is expected */
    jet_batch *batch;
    int32_t answer;
    jet_call *next; /* of those that are answered, in that order */
};

/* The requests of one caller. */
struct jet_batch {
    jet_call *calls;
    size_t count;
    size_t open;     /* of them without an answer */
    uint64_t epoch;  /* of the connection that they go by */
    int of_verdicts; /* to which a server's answer is empty; it never is to a message */
    int eager;       /* the caller wants each answer when it comes, and not all together */
    jet_call *first; /* answered, and not taken by the caller yet */
    jet_call **last;
};

enum { JET_INBOX_ROOM = 128, JET_REPLY_ROOM = JET_INBOX_ROOM + 24 };

typedef struct jet_calls {
    jet_link *link;
    char inbox[JET_INBOX_ROOM]; /* with a dot at its end */
    jet_subscription subscription;
    delivery_table open;
} jet_calls;

/* With each new connection, without the lock. */
semel_status jet_calls_begin(jet_calls *calls, natsConnection *connection, semel_error *err);
/* With the lock held, before the connection is closed. */
void jet_calls_end(jet_calls *calls);

/* --- with the lock held ----------------------------------------------------------------------- */

/* Calls 0 to count - 1, none of them open. SEMEL_ENOMEM. */
semel_status jet_batch_init(jet_batch *batch, jet_calls *calls, size_t count, semel_error *err);
/* Answers that come later are nobody's. */
void jet_batch_free(jet_batch *batch, jet_calls *calls);

/* From now on its answer is expected; 0: out of memory. */
int jet_batch_open(jet_batch *batch, jet_calls *calls, size_t index);
void jet_batch_cancel(jet_batch *batch, jet_calls *calls, size_t index); /* it was not sent */

/* One more call that is answered, or NULL. */
jet_call *jet_batch_take(jet_batch *batch);

/* Until there is an answer to take, or no call is open, or the connection is lost. 0: the time is
 * over, or there is nothing to wait for. */
int jet_batch_wait(jet_batch *batch, jet_calls *calls, int64_t until_ms);

/* --- without the lock ------------------------------------------------------------------------- */

/* The reply subject of a call that is open. */
void jet_call_reply(char out[JET_REPLY_ROOM], const jet_calls *calls, const jet_call *call);

/* What a server says to a request of JetStream: JET_YES, JET_EMPTY (a verdict was heard),
 * JET_NOBODY, or the number of its error. JET_NONSENSE: it is no server's. */
int32_t jet_answer_of(natsMsg *message);

#endif
