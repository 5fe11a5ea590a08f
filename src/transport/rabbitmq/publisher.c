/* A batch is written as fast as the socket takes it, answers are read in between, and then the rest
 * is waited for.
 *
 * The results are right at every moment: UNKNOWN until the broker has spoken. If the process dies,
 * or the connection, the messages may be there or not; their sender sends them again, under the
 * same id. A broker that is low on memory or disk blocks publishers: the publisher notices that
 * before it writes, if the broker has said so, or when no answer comes. */
#include "transport/rabbitmq/publisher.h"

#include "base/message.h"
#include "base/wait.h"
#include "transport/rabbitmq/confirms.h"
#include "transport/rabbitmq/topology.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum { READ_EVERY = 65536, MESSAGE_COST = 1024 }; /* bytes */
enum { GRACE_MS = 2000, BLOCKED_MS = 1000 };

/* --- the link --------------------------------------------------------------------------------- */

static semel_status enter_confirm_mode(void *owner, rabbit_link *link, semel_error *err)
{
    rabbit_publisher *self = owner;
    semel_status status = rabbit_topology(link, err);
    if (status)
        return status;
    if (!amqp_confirm_select(link->connection, RABBIT_CHANNEL))
        return rabbit_link_refused(link, "asking for confirmations", err);
    self->numbered = 0;
    self->owed = 0;
    return SEMEL_OK;
}

static int publisher_keeps(const void *owner)
{
    const rabbit_publisher *self = owner;
    return self->content.method != NULL;
}

/* The broker refuses a message by closing the channel, without saying which one. If only one was
 * under way it is that: too large (406), or a topic that this user may not publish to (403), which
 * an operator may yet allow. */
static void blame_open_messages(rabbit_publisher *self)
{
    rabbit_batch *batch = &self->batch;
    int forbidden = self->link.closed_by == AMQP_ACCESS_REFUSED;
    if (!batch->open || !(forbidden || self->link.closed_by == AMQP_PRECONDITION_FAILED))
        return;
    self->careful = 1;
    self->forbidden |= forbidden;
    if (batch->open == 1 && !self->owed)
        batch->results[batch->slots[batch->lowest]] =
            forbidden ? SEMEL_PUBLISH_NACKED : SEMEL_PUBLISH_REFUSED;
}

/* No more answers to what was sent. */
static void publisher_lost(void *owner)
{
    rabbit_publisher *self = owner;
    rabbit_content_end(&self->content);
    blame_open_messages(self);
    self->batch.open = 0;
    self->batch.sent = 0;
}

semel_status rabbit_publisher_init(rabbit_publisher *publisher, const rabbit_address *address,
                                   const semel_seam *seam, semel_error *err)
{
    static const rabbit_owner calls = {enter_confirm_mode, rabbit_confirms_accept, publisher_keeps,
                                       publisher_lost};
    publisher->writer.persistent = address->persistent;
    publisher->writer.cloudevents = address->cloudevents;
    return rabbit_link_init(&publisher->link, address, seam, &calls, publisher, err);
}

void rabbit_publisher_close(rabbit_publisher *publisher)
{
    rabbit_link_close(&publisher->link);
    rabbit_content_free(&publisher->content);
    arena_free(&publisher->writer.arena);
    mem_free(publisher->batch.slots);
}

/* --- one at a time ---------------------------------------------------------------------------- */

static semel_status begin_publishing(rabbit_publisher *self, int64_t until_ms, semel_error *err)
{
    while (self->busy) {
        struct timespec until = wait_until(until_ms);
        if (wait_clock_ms() >= until_ms)
            return semel_fail(err, SEMEL_EBUSY, "another thread publishes by this transport");
        (void)pthread_cond_timedwait(&self->link.changed, &self->link.lock,
                                     &until); /* looks again */
    }
    self->busy = 1;
    return SEMEL_OK;
}

static void end_publishing(rabbit_publisher *self)
{
    self->busy = 0;
    self->owed |= self->batch.open > 0;
    self->batch.open = self->batch.sent = 0;
    pthread_cond_broadcast(&self->link.changed);
}

/* --- sending ---------------------------------------------------------------------------------- */

static semel_status start_batch(rabbit_publisher *self, semel_publish_result results[],
                                const semel_message *const messages[], size_t count,
                                semel_error *err)
{
    rabbit_batch *batch = &self->batch;
    if (count > batch->room) {
        size_t *slots = mem_resize(batch->slots, count * sizeof *slots);
        if (!slots)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory to publish %zu messages", count);
        batch->slots = slots;
        batch->room = count;
    }
    batch->messages = messages;
    batch->results = results;
    batch->sent = batch->lowest = batch->open = 0;
    batch->first = self->numbered + 1;
    return SEMEL_OK;
}

/* Frames go out in full packets, not each by itself. What cannot be set does not matter. */
static void cork(const rabbit_link *link, int on)
{
    (void)setsockopt(link->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

/* The broker adds to the headers of what comes again, and then they must still fit into one
 * frame. */
static size_t header_room(const rabbit_link *link)
{
    size_t frame_max = (size_t)amqp_get_frame_max(link->connection);
    return frame_max - frame_max / 32;
}

/* What AMQP cannot carry, or what no receiver would take for a message, is refused; `err` says why.
 * Its slot is taken before it is written: an answer may come while the rest is. */
static void send_one(rabbit_publisher *self, size_t index, semel_error *err)
{
    rabbit_link *link = &self->link;
    rabbit_batch *batch = &self->batch;
    const semel_message *message = batch->messages[index];
    rabbit_envelope envelope;
    amqp_bytes_t body = {message->body.len, (void *)(uintptr_t)message->body.data};
    semel_status status = message_check(message, err);
    if (!status)
        status = rabbit_envelope_write(&envelope, &self->writer, message, header_room(link), err);
    if (status) {
        if (status != SEMEL_ENOMEM)
            batch->results[index] = SEMEL_PUBLISH_REFUSED;
        return;
    }
    batch->slots[batch->sent++] = index;
    batch->open++;
    self->numbered++;
    int code = amqp_basic_publish(link->connection, RABBIT_CHANNEL,
                                  amqp_cstring_bytes(link->address->exchange), envelope.routing_key,
                                  1, 0, &envelope.properties, body);
    if (code != AMQP_STATUS_OK) {
        rabbit_link_pump(link); /* the broker may have said that it takes no more */
        rabbit_link_broke(link, code, "publishing");
    }
}

/* As many as there is time for; the others stay unknown. Answers are read in between, or they would
 * fill the broker's side, and it may say that it takes no more. */
static size_t send_some(rabbit_publisher *self, size_t from, size_t to, int64_t until_ms,
                        semel_error *err)
{
    rabbit_link *link = &self->link;
    size_t unread = 0, i = from;
    for (; i < to && link->up && !link->blocked[0] && wait_clock_ms() < until_ms; i++) {
        send_one(self, i, err);
        unread += MESSAGE_COST + self->batch.messages[i]->body.len;
        if (unread >= READ_EVERY) {
            rabbit_link_pump(link);
            unread = 0;
        }
    }
    return i;
}

static size_t send_all(rabbit_publisher *self, size_t from, size_t to, int64_t until_ms,
                       semel_error *err)
{
    rabbit_link *link = &self->link;
    if (to - from > 1)
        cork(link, 1);
    rabbit_link_write_begin(link, until_ms + GRACE_MS);
    size_t next = send_some(self, from, to, until_ms, err);
    rabbit_link_write_end(link);
    if (link->up && to - from > 1)
        cork(link, 0);
    return next;
}

/* --- the answers ------------------------------------------------------------------------------ */

static semel_status fail_blocked(const rabbit_link *link, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNAVAILABLE,
                      "the broker at %s:%u takes no messages at present: %s", link->address->host,
                      (unsigned)link->address->port, link->blocked);
}

static semel_status status_of_results(const rabbit_publisher *self, size_t count, semel_error *err)
{
    const rabbit_link *link = &self->link;
    size_t unknown = 0;
    for (size_t i = 0; i < count; i++)
        unknown += self->batch.results[i] == SEMEL_PUBLISH_UNKNOWN;
    if (!unknown)
        return SEMEL_OK;
    if (!link->up ||
        self->forbidden) { /* then it may be up again, and the reason is still the same */
        *err = link->trouble;
        return link->trouble.status;
    }
    if (link->blocked[0])
        return fail_blocked(link, err);
    if (err->status == SEMEL_ENOMEM)
        return SEMEL_ENOMEM;
    return semel_fail(err, SEMEL_EUNAVAILABLE,
                      "%zu of %zu messages were not confirmed in time by the broker at %s:%u",
                      unknown, count, link->address->host, (unsigned)link->address->port);
}

static semel_status wait_while_blocked(rabbit_link *link, int64_t until_ms, semel_error *err)
{
    int64_t enough_ms = wait_clock_ms() + BLOCKED_MS;
    until_ms = until_ms < enough_ms ? until_ms : enough_ms;
    rabbit_link_pump(link);
    while (link->up && link->blocked[0] && wait_clock_ms() < until_ms)
        rabbit_link_wait(link, until_ms);
    return link->up && link->blocked[0] ? fail_blocked(link, err) : SEMEL_OK;
}

/* If nothing at all was let through, it is not the messages that are wrong. */
static void blame_the_broker(rabbit_publisher *self, size_t count)
{
    semel_publish_result *results = self->batch.results;
    int let_through = 0;
    for (size_t i = 0; i < count; i++)
        let_through |= results[i] == SEMEL_PUBLISH_CONFIRMED;
    for (size_t i = 0; i < count && !let_through; i++)
        if (results[i] == SEMEL_PUBLISH_NACKED)
            results[i] = SEMEL_PUBLISH_UNKNOWN;
}

static semel_status get_ready(rabbit_link *link, int64_t until_ms, semel_error *err)
{
    semel_status status = rabbit_link_need(link, until_ms, err);
    if (!status)
        status = wait_while_blocked(link, until_ms, err);
    return status ? status : rabbit_link_need(link, until_ms, err);
}

/* Without the lock: the other thread keeps the heartbeat, and takes answers. Those that have come
 * by then are taken in any case, however late it is. */
static void do_meanwhile(rabbit_publisher *self)
{
    semel_meanwhile *meanwhile = self->meanwhile;
    if (!meanwhile)
        return;
    self->meanwhile = NULL;
    pthread_mutex_unlock(&self->link.lock);
    meanwhile(self->meanwhile_context);
    pthread_mutex_lock(&self->link.lock);
    rabbit_link_wait(&self->link, 0);
}

/* *sent grows by what was sent and answered, or is given up. 0: that is all for this time. */
static int send_more(rabbit_publisher *self, size_t *sent, size_t count, int64_t until_ms,
                     semel_error *err)
{
    rabbit_link *link = &self->link;
    size_t before = *sent;
    int one_by_one = self->one_by_one;
    *sent = send_all(self, before, one_by_one ? before + 1 : count, until_ms, err);
    if (!one_by_one) /* else the others would wait for it */
        do_meanwhile(self);
    while (link->up && self->batch.open && wait_clock_ms() < until_ms)
        rabbit_link_wait(link, until_ms);
    return one_by_one && *sent > before && self->batch.results[before] != SEMEL_PUBLISH_UNKNOWN;
}

static semel_status publish_batch(rabbit_publisher *self, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  int64_t until_ms, semel_error *err)
{
    rabbit_link *link = &self->link;
    semel_status status = SEMEL_OK;
    self->forbidden = 0;
    self->one_by_one = self->careful;
    if (!link->up || link->blocked[0])
        do_meanwhile(self); /* the broker may let itself be waited for */
    for (size_t sent = 0; sent < count;) {
        status = get_ready(link, until_ms, err);
        if (!status)
            status = start_batch(self, results, messages, count, err);
        if (status || !send_more(self, &sent, count, until_ms, err))
            break; /* in the middle of it, what was sent has its result */
    }
    if (!status && self->one_by_one && link->up)
        self->careful = 0;
    if (self->forbidden)
        blame_the_broker(self, count);
    return status ? status : status_of_results(self, count, err);
}

semel_status rabbit_publisher_publish(rabbit_publisher *publisher, semel_publish_result results[],
                                      const semel_message *const messages[], size_t count,
                                      uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                      semel_error *err)
{
    semel_error why = {.status = SEMEL_OK}; /* also of single messages, which is not the caller's */
    int64_t until_ms = wait_clock_ms() + wait_ms;
    pthread_mutex_lock(&publisher->link.lock);
    semel_status status = begin_publishing(publisher, until_ms, &why);
    if (!status) {
        publisher->meanwhile = meanwhile;
        publisher->meanwhile_context = context;
        status = publish_batch(publisher, results, messages, count, until_ms, &why);
        meanwhile = publisher->meanwhile;
        end_publishing(publisher);
    }
    pthread_mutex_unlock(&publisher->link.lock);
    if (meanwhile)
        meanwhile(context); /* nothing was sent, or one by one */
    if (status && err)
        *err = why;
    return status;
}
