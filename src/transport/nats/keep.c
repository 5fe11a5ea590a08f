/* Deliveries that are neither finished nor failed: held for longer, given back, or taken back by
 * the server.
 *
 * What is held is told the server without an answer to each (+WPI), and one round trip says that it
 * has read them all. What is given back goes in the order of delivery, and the server delivers it
 * again in that order. A request for messages that is still under way would bring them back here;
 * so the inbox is closed first. */
#include "base/seam.h"
#include "base/sigpipe.h"
#include "base/wait.h"
#include "transport/nats/receiver.h"

#include <string.h>

enum { ANSWER_MS = 10000, GIVE_BACK_MS = 2000 };

int jet_revoked(jet_receiver *receiver, uint64_t tag)
{
    pthread_mutex_lock(&receiver->link->lock);
    const jet_delivery *one = jet_delivery_of(delivery_table_find(&receiver->received, tag));
    int over = one && (one->given_back || jet_delivery_is_over(receiver, one));
    pthread_mutex_unlock(&receiver->link->lock);
    return over;
}

/* --- telling the server of several ------------------------------------------------------------ */

/* Copies of their reply subjects: a delivery may be settled, and freed, while they are sent. */
typedef struct told {
    mem_arena arena;
    const char **subjects;
    size_t count;
    int failed; /* out of memory */
} told;

static void told_begin(told *out, size_t room)
{
    *out = (told){.count = 0};
    out->subjects = arena_alloc(&out->arena, (room + 1) * sizeof *out->subjects);
    out->failed = !out->subjects;
}

static void told_add(told *out, const jet_delivery *one)
{
    const char *subject = natsMsg_GetReply(one->raw);
    const char *copy = out->failed ? NULL : arena_copy(&out->arena, subject, strlen(subject));
    out->failed |= !copy;
    if (copy)
        out->subjects[out->count++] = copy;
}

/* Without the lock. */
static natsStatus tell(const told *out, const jet_link *link, natsConnection *connection,
                       const char *what, int64_t until_ms)
{
    natsStatus code = NATS_OK;
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, link->address->tls);
    for (size_t i = 0; code == NATS_OK && i < out->count; i++)
        code = natsConnection_PublishString(connection, out->subjects[i], what);
    if (code == NATS_OK && out->count && !jet_flush(connection, until_ms))
        code = NATS_TIMEOUT;
    sigpipe_guard_down(&guard);
    return code;
}

/* --- holding ---------------------------------------------------------------------------------- */

static void list_held(told *out, const jet_receiver *self, const uint64_t tags[], size_t count)
{
    told_begin(out, count);
    for (size_t i = 0; i < count; i++) {
        const jet_delivery *one = jet_delivery_of(delivery_table_find(&self->received, tags[i]));
        if (one && !one->given_back && !jet_delivery_is_over(self, one))
            told_add(out, one);
    }
}

static void hold(jet_receiver *self, const uint64_t tags[], size_t count, int64_t until_ms)
{
    for (size_t i = 0; i < count; i++) {
        jet_delivery *one = jet_delivery_of(delivery_table_find(&self->received, tags[i]));
        if (one && !one->given_back && !jet_delivery_is_over(self, one))
            one->held_until_ms = until_ms;
    }
}

static semel_status extend_all(jet_receiver *self, const uint64_t tags[], size_t count,
                               semel_error *err)
{
    jet_link *link = self->link;
    natsConnection *connection = link->connection;
    int64_t until_ms = seam_steady_ms(link->seam) + self->facts->hold_ms;
    told held;
    list_held(&held, self, tags, count);
    pthread_mutex_unlock(&link->lock);
    natsStatus code = held.failed
                          ? NATS_NO_MEMORY
                          : tell(&held, link, connection, "+WPI", wait_clock_ms() + ANSWER_MS);
    arena_free(&held.arena);
    pthread_mutex_lock(&link->lock);
    if (code != NATS_OK)
        return jet_fail(link->address, code, "holding deliveries", err);
    hold(self, tags, count, until_ms);
    return SEMEL_OK;
}

semel_status jet_extend(jet_receiver *receiver, const uint64_t tags[], size_t count,
                        uint32_t *hold_ms, semel_error *err)
{
    jet_link *link = receiver->link;
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&link->lock);
    *hold_ms = receiver->facts->hold_ms;
    if (count && !(status = jet_link_use(link, err))) {
        status = extend_all(receiver, tags, count, err);
        jet_link_done(link);
    }
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* --- giving back ------------------------------------------------------------------------------ */

static size_t length(const delivery_list *list)
{
    size_t count = 0;
    for (const delivery_node *one = list->first; one; one = one->behind)
        count++;
    return count;
}

/* All that are out, then all that were fetched, which are forgotten here. */
static void list_all(told *out, jet_receiver *self)
{
    told_begin(out, length(&self->unsettled) + length(&self->ready));
    for (delivery_node *node = self->unsettled.first; node; node = node->behind) {
        jet_delivery *one = jet_delivery_of(node);
        if (!one->given_back && !jet_delivery_is_over(self, one))
            told_add(out, one);
        one->given_back = 1;
    }
    for (delivery_node *node; (node = self->ready.first) != NULL;) {
        jet_delivery *one = jet_delivery_of(node);
        if (!jet_delivery_is_over(self, one))
            told_add(out, one);
        delivery_list_remove(&self->ready, node);
        jet_delivery_free(one);
    }
}

/* Without a connection there is nobody to tell: they come again after the ack wait. */
void jet_give_back(jet_receiver *receiver)
{
    jet_link *link = receiver->link;
    int64_t until_ms = wait_clock_ms() + GIVE_BACK_MS;
    told all;
    pthread_mutex_lock(&link->lock);
    if (link->up && !jet_link_use(link, NULL)) {
        natsConnection *connection = link->connection;
        jet_receiver_stop(receiver, until_ms);
        list_all(&all, receiver);
        pthread_mutex_unlock(&link->lock);
        (void)tell(&all, link, connection, "-NAK", until_ms); /* or after the ack wait */
        arena_free(&all.arena);
        pthread_mutex_lock(&link->lock);
        jet_link_done(link);
    }
    pthread_mutex_unlock(&link->lock);
}
