/* The receiver asks the server for as many messages as its caller wants, and for as long as it
 * waits, and a little longer; the server sends them to an inbox as they come, and nats.c's thread
 * makes deliveries of them. One request is under way at a time. It may outlive the call that made
 * it; what it brings then is there for the next call.
 *
 * A message is the consumer's from the moment the server sends it, and goes to another one when the
 * consumer's ack wait is over. What has waited here for so long is not handed out any more.
 *
 * If the process dies, the server delivers all of it again after the ack wait. Deliveries outlive
 * their connection: the server does not mind by which one a verdict comes. But it knows a delivery
 * by the message's number only, and numbers are used again: by a stream that was deleted and made
 * anew, and by a server that lost its last messages with the power. So each new connection looks
 * whether the newest of the messages that are out here is still the one of its number; then all
 * older ones are, too. If it is not, or the server does not say, all of them are forgotten: those
 * that are still there come again after the ack wait. */
#include "transport/nats/receiver.h"

#include "base/seam.h"
#include "base/sigpipe.h"
#include "base/wait.h"
#include "transport/nats/envelope.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FETCH_MAX = 1000, EXPIRES_MORE_MS = 2000, ANSWER_MS = 1000, GRACE_MS = 5000 };
enum { STATUS_HEARTBEAT = 100, STATUS_NO_MESSAGES = 404, STATUS_TIMEOUT = 408 };
enum { NS_PER_MS = 1000000, REQUEST_ROOM = 96 };

/* --- deliveries ------------------------------------------------------------------------------- */

void jet_delivery_free(jet_delivery *one)
{
    natsMsg_Destroy(one->raw);
    arena_free(&one->arena);
    mem_free(one);
}

int jet_delivery_is_over(const jet_receiver *receiver, const jet_delivery *one)
{
    return one->gone || seam_steady_ms(receiver->link->seam) >= one->held_until_ms;
}

/* NULL when out of memory. */
static jet_delivery *make_delivery(const jet_receiver *self, natsMsg *raw, const jet_origin *origin)
{
    jet_delivery *one = mem_alloc(sizeof *one);
    if (!one)
        return NULL;
    one->held_until_ms = seam_steady_ms(self->link->seam) + self->facts->hold_ms;
    one->message = jet_envelope_read(&one->arena, raw, origin, self->link->address->subject);
    if (one->message) {
        one->raw = raw;
        return one;
    }
    arena_free(&one->arena);
    mem_free(one);
    return NULL;
}

/* --- coming in: by nats.c's thread ------------------------------------------------------------ */

static void accept_status(jet_receiver *self, uint64_t request, long status)
{
    if (status == STATUS_HEARTBEAT || request != self->request)
        return;
    self->wanted = 0;
    if (status != STATUS_NO_MESSAGES && status != STATUS_TIMEOUT)
        jet_link_lose(self->link,
                      "the consumer %s of the stream %s was deleted, or is not "
                      "available (status %ld)",
                      self->link->address->consumer, self->link->address->stream, status);
    pthread_cond_broadcast(&self->link->changed);
}

static void read_status(jet_receiver *self, natsMsg *raw)
{
    const char *text = NULL, *subject = natsMsg_GetSubject(raw);
    size_t prefix = strlen(self->inbox);
    if (natsMsgHeader_Get(raw, "Status", &text) != NATS_OK ||
        strncmp(subject, self->inbox, prefix) != 0)
        return;
    pthread_mutex_lock(&self->link->lock);
    accept_status(self, strtoull(subject + prefix, NULL, 10), strtol(text, NULL, 10));
    pthread_mutex_unlock(&self->link->lock);
}

static void accept_delivery(jet_receiver *self, jet_delivery *one)
{
    pthread_mutex_lock(&self->link->lock);
    delivery_list_append(&self->ready, &one->node);
    self->wanted -= self->wanted > 0;
    pthread_cond_broadcast(&self->link->changed);
    pthread_mutex_unlock(&self->link->lock);
}

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *raw,
                       void *closure)
{
    jet_receiver *self = closure;
    jet_origin origin;
    (void)subscription;
    if (!jet_origin_read(&origin, natsMsg_GetReply(raw))) {
        read_status(self, raw);
        natsMsg_Destroy(raw);
        return;
    }
    jet_delivery *one = make_delivery(self, raw, &origin);
    if (one) {
        accept_delivery(self, one);
        return;
    }
    /* Out of memory: it goes back. If that fails, it does so by itself, later. */
    (void)natsConnection_PublishString(connection, natsMsg_GetReply(raw), "-NAK");
    natsMsg_Destroy(raw);
}

/* --- asking ----------------------------------------------------------------------------------- */

static semel_status subscribe(jet_receiver *self, natsConnection *connection, semel_error *err)
{
    natsInbox *inbox = NULL;
    char all[JET_INBOX_ROOM + 2];
    natsStatus code = natsInbox_Create(&inbox);
    if (code != NATS_OK)
        return jet_fail(self->link->address, code, "making an inbox", err);
    (void)snprintf(self->inbox, sizeof self->inbox, "%s.", inbox);
    (void)snprintf(all, sizeof all, "%s*", self->inbox);
    natsInbox_Destroy(inbox);
    return jet_link_subscribe(self->link, connection, &self->subscription, all, on_message, self,
                              err);
}

/* Longer than the caller waits. A request that ends while a message is given back makes a server of
 * version 2.9 forget that for the time of the ack wait, and deliver another message twice. */
static int64_t expires_of(const jet_receiver *self, int64_t wait_ms)
{
    int64_t most = self->facts->expires_max_ms;
    wait_ms += EXPIRES_MORE_MS;
    return most && wait_ms > most ? most : wait_ms;
}

static size_t batch_of(const jet_receiver *self, size_t max)
{
    size_t most = self->facts->batch_max ? self->facts->batch_max : FETCH_MAX;
    most = most < FETCH_MAX ? most : FETCH_MAX;
    return max < most ? max : most;
}

/* Without the lock. */
static natsStatus send_request(const jet_receiver *self, natsConnection *connection, size_t batch,
                               int64_t expires_ms)
{
    const jet_address *a = self->link->address;
    char subject[2 * JET_NAME_ROOM + 64], reply[JET_REPLY_ROOM], request[REQUEST_ROOM];
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", a->stream,
                   a->consumer);
    (void)snprintf(reply, sizeof reply, "%s%" PRIu64, self->inbox, self->request);
    if (expires_ms)
        (void)snprintf(request, sizeof request, "{\"batch\":%zu,\"expires\":%" PRId64 "}", batch,
                       expires_ms * NS_PER_MS);
    else
        (void)snprintf(request, sizeof request, "{\"batch\":%zu,\"no_wait\":true}", batch);
    return natsConnection_PublishRequestString(connection, subject, reply, request);
}

/* With the lock held, which is given up meanwhile; `starting` keeps others from doing the same. */
static semel_status ask(jet_receiver *self, size_t max, int64_t wait_ms, semel_error *err)
{
    jet_link *link = self->link;
    natsConnection *connection = link->connection;
    size_t batch = batch_of(self, max);
    int64_t expires_ms = wait_ms > 0 ? expires_of(self, wait_ms) : 0;
    semel_status status = SEMEL_OK;
    sigpipe_guard guard;
    self->starting = 1;
    self->request++;
    self->wanted = batch;
    self->request_end_ms = wait_clock_ms() + expires_ms + GRACE_MS;
    self->request_expires = expires_ms > 0;
    pthread_mutex_unlock(&link->lock);
    sigpipe_guard_up(&guard, link->address->tls);
    if (!self->subscription.subscription)
        status = subscribe(self, connection, err);
    if (!status) {
        natsStatus code = send_request(self, connection, batch, expires_ms);
        if (code == NATS_OK)
            (void)jet_flush(connection, wait_clock_ms() + ANSWER_MS); /* the loss is told else */
        else
            status = jet_fail(link->address, code, "asking for messages", err);
    }
    sigpipe_guard_down(&guard);
    pthread_mutex_lock(&link->lock);
    self->starting = 0;
    pthread_cond_broadcast(&link->changed);
    return status;
}

/* The server says when a request ends. If it does not, there is no such consumer: the next
 * connection looks for it, or makes it. One that does not wait is queued by the server all the
 * same, and never ends, while others have all that may be out. */
static int is_request_over(jet_receiver *self)
{
    if (self->wanted && wait_clock_ms() >= self->request_end_ms) {
        self->wanted = 0;
        if (!self->request_expires)
            return 1;
        jet_link_lose(self->link, "the consumer %s of the stream %s does not answer",
                      self->link->address->consumer, self->link->address->stream);
    }
    return !self->wanted;
}

/* --- handing out ------------------------------------------------------------------------------ */

/* What is over comes again; its place is free for that. */
static size_t hand_out(jet_receiver *self, semel_delivery deliveries[], size_t max)
{
    size_t count = 0;
    for (jet_delivery *one; count < max && (one = jet_delivery_of(self->ready.first)) != NULL;) {
        int over = jet_delivery_is_over(self, one);
        if (!over && !delivery_table_add(&self->received, &one->node))
            break; /* out of memory: later */
        delivery_list_remove(&self->ready, &one->node);
        if (over) {
            jet_delivery_free(one);
            continue;
        }
        delivery_list_append(&self->unsettled, &one->node);
        deliveries[count++] =
            (semel_delivery){.tag = one->node.tag, .message = one->message, .position = -1};
    }
    return count;
}

typedef struct wait_for {
    size_t max;
    int64_t until_ms;
    int is_waiting; /* else only the server's answer is waited for */
    int has_asked;
    uint64_t epoch;
} wait_for;

static int may_wait(const jet_receiver *self, const wait_for *w)
{
    if (self->link->epoch != w->epoch || wait_clock_ms() >= w->until_ms)
        return 0;
    return w->is_waiting || !w->has_asked || self->wanted;
}

/* Until something is ready. */
static semel_status wait_for_messages(jet_receiver *self, wait_for *w, semel_error *err)
{
    int64_t now_ms = wait_clock_ms();
    if (self->starting || !is_request_over(self)) {
        w->has_asked |= !self->starting;
        jet_link_wait(self->link, w->until_ms < self->request_end_ms || !self->wanted
                                      ? w->until_ms
                                      : self->request_end_ms);
        return SEMEL_OK;
    }
    if (self->link->epoch != w->epoch)
        return SEMEL_OK; /* the request has ended in that way */
    w->has_asked = 1;
    return ask(self, w->max, w->is_waiting ? w->until_ms - now_ms : 0, err);
}

static semel_status receive_ready(jet_receiver *self, semel_delivery deliveries[], size_t *count,
                                  wait_for *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    w->epoch = self->link->epoch;
    while ((*count = hand_out(self, deliveries, w->max)) == 0 && !status && may_wait(self, w))
        status = wait_for_messages(self, w, err);
    if (*count || (!status && self->link->epoch == w->epoch))
        return SEMEL_OK;
    if (!status && err)
        *err = self->link->trouble;
    return status ? status : self->link->trouble.status;
}

semel_status jet_receive(jet_receiver *receiver, semel_delivery deliveries[], size_t max,
                         size_t *count, uint32_t wait_ms, semel_error *err)
{
    jet_link *link = receiver->link;
    wait_for w = {.max = max,
                  .until_ms = wait_clock_ms() + (wait_ms ? wait_ms : ANSWER_MS),
                  .is_waiting = wait_ms > 0};
    size_t found = 0;
    pthread_mutex_lock(&link->lock);
    semel_status status = jet_link_use(link, err);
    if (!status) {
        status = receive_ready(receiver, deliveries, &found, &w, err);
        jet_link_done(link);
    }
    pthread_mutex_unlock(&link->lock);
    if (!status)
        *count = found;
    return status;
}

/* --- the next connection ---------------------------------------------------------------------- */

static void find_newest(jet_origin *newest, const delivery_list *list)
{
    for (delivery_node *node = list->first; node; node = node->behind) {
        jet_origin origin;
        const jet_delivery *one = jet_delivery_of(node);
        if (!one->gone && jet_origin_read(&origin, natsMsg_GetReply(one->raw)) &&
            origin.sequence > newest->sequence)
            *newest = origin;
    }
}

static void free_list(delivery_list *list)
{
    for (delivery_node *one; (one = list->first) != NULL;) {
        delivery_list_remove(list, one);
        jet_delivery_free(jet_delivery_of(one));
    }
}

void jet_receiver_compare(jet_receiver *receiver, natsConnection *connection)
{
    jet_link *link = receiver->link;
    jet_origin newest = {.sequence = 0};
    pthread_mutex_lock(&link->lock);
    find_newest(&newest, &receiver->unsettled);
    find_newest(&newest, &receiver->ready);
    pthread_mutex_unlock(&link->lock);
    if (!newest.sequence ||
        jet_topology_has(link->address, connection, newest.sequence, newest.stored_ns))
        return;
    pthread_mutex_lock(&link->lock);
    free_list(&receiver->ready);
    for (delivery_node *node = receiver->unsettled.first; node; node = node->behind)
        jet_delivery_of(node)->gone = 1;
    pthread_mutex_unlock(&link->lock);
}

/* --- the end ---------------------------------------------------------------------------------- */

void jet_receiver_stop(jet_receiver *receiver, int64_t until_ms)
{
    while (receiver->starting) /* that has an end */
        pthread_cond_wait(&receiver->link->changed, &receiver->link->lock);
    receiver->starting = 1;
    jet_link_unsubscribe(receiver->link, &receiver->subscription, 1, until_ms);
    receiver->wanted = 0;
    receiver->starting = 0;
    pthread_cond_broadcast(&receiver->link->changed);
}

void jet_receiver_free(jet_receiver *receiver)
{
    free_list(&receiver->ready);
    free_list(&receiver->unsettled);
    delivery_table_free(&receiver->received);
}
