/* Deliveries come in as the broker sends them, up to the prefetch, whichever thread reads the link;
 * they are delivered in that order. acks.c ends them. */
#include "transport/rabbitmq/receiver.h"

#include "base/wait.h"
#include "transport/rabbitmq/connect.h"
#include "transport/rabbitmq/envelope.h"
#include "transport/rabbitmq/topology.h"

#include <stdio.h>
#include <string.h>

enum { LARGE = 65536, PENDING_MAX = 32, FRAME_ROOM = 1 << 20 };

/* --- the link --------------------------------------------------------------------------------- */

static semel_status consume(rabbit_link *link, semel_error *err)
{
    const rabbit_address *address = link->address;
    char doing[RABBIT_NAME_ROOM + 32];
    (void)snprintf(doing, sizeof doing, "consuming the queue \"%s\"", address->queue);
    if (!amqp_basic_qos(link->connection, RABBIT_CHANNEL, 0, (uint16_t)address->prefetch, 0))
        return rabbit_link_refused(link, "setting the prefetch", err);
    if (!amqp_basic_consume(link->connection, RABBIT_CHANNEL, amqp_cstring_bytes(address->queue),
                            amqp_empty_bytes, 0, 0, 0, amqp_empty_table))
        return rabbit_link_refused(link, doing, err);
    return SEMEL_OK;
}

/* What the broker adds to the headers of a message that comes again (x-delivery-count, x-death) may
 * make its frame larger than was agreed upon; it sends it all the same, and would for ever. We send
 * nothing large by this link. */
static semel_status allow_growth(rabbit_link *link, semel_error *err)
{
    amqp_connection_state_t connection = link->connection;
    if (amqp_release_buffers_ok(connection) && /* it aborts in the middle of a frame */
        amqp_tune_connection(connection, RABBIT_CHANNEL, FRAME_ROOM,
                             amqp_get_heartbeat(connection)) != AMQP_STATUS_OK)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a connection");
    return SEMEL_OK;
}

static semel_status set_up_receiver(void *owner, rabbit_link *link, semel_error *err)
{
    const rabbit_receiver *self = owner;
    semel_status status = allow_growth(link, err);
    if (!status)
        status = rabbit_topology(link, err);
    return status || !self->wanted ? status : consume(link, err);
}

/* Messages come from the first call on that asks for one. A process that only publishes, or has not
 * begun yet, must not keep them from others. */
static semel_status start_consuming(rabbit_receiver *self, int64_t until_ms, semel_error *err)
{
    rabbit_link *link = &self->link;
    semel_error why;
    int begun = self->wanted;
    self->wanted = 1;
    link->connect_until_ms = wait_clock_ms() + link->address->connect_ms;
    semel_status status = begun || !link->up ? SEMEL_OK : rabbit_connect_patience(link, &why);
    if (!status && !begun && link->up)
        status = consume(link, &why);
    if (status)
        rabbit_link_lose(link, "%s", why.text); /* and it is tried anew, as after any loss */
    return rabbit_link_need(link, until_ms, err);
}

static int receiver_keeps(const void *owner)
{
    const rabbit_receiver *self = owner;
    return self->content.method && !self->content.too_large;
}

static void receiver_lost(void *owner)
{
    rabbit_receiver *self = owner;
    rabbit_content_end(&self->content);
    rabbit_deliveries_orphan(&self->deliveries);
    self->pending = 0;
    self->hurry = 0;
}

/* --- coming in -------------------------------------------------------------------------------- */

static int fill_delivery(rabbit_delivery *one, const rabbit_content *content, const char *queue,
                         int counted)
{
    const amqp_basic_deliver_t *deliver = content->method;
    semel_bytes body = {NULL, 0};
    if (!content->too_large && content->body_size) {
        body = (semel_bytes){arena_copy(&one->arena, content->body, (size_t)content->body_size),
                             (size_t)content->body_size};
        if (!body.data)
            return 0;
    }
    rabbit_incoming incoming = {.properties = content->properties,
                                .routing_key = deliver->routing_key,
                                .queue = amqp_cstring_bytes(queue),
                                .redelivered = deliver->redelivered,
                                .counted = counted,
                                .body = body};
    semel_message *message = rabbit_envelope_read(&one->arena, &incoming);
    if (!message)
        return 0;
    if (content->too_large) /* over the limit, for all to see */
        message->body = (semel_bytes){NULL, (size_t)content->body_size};
    one->message = message;
    one->broker_tag = deliver->delivery_tag;
    one->large = content->body_size > LARGE;
    return 1;
}

static void accept_delivery(rabbit_receiver *self, rabbit_link *link)
{
    if (!((const amqp_basic_deliver_t *)self->content.method)->delivery_tag) {
        rabbit_link_lose(link, "the broker sent a delivery without a tag");
        return;
    }
    rabbit_delivery *one = rabbit_deliveries_new(&self->deliveries);
    if (one && fill_delivery(one, &self->content, link->address->queue, link->address->quorum)) {
        rabbit_deliveries_put(&self->deliveries, one);
        return;
    }
    if (one)
        rabbit_deliveries_discard(&self->deliveries, one);
    rabbit_link_lose(link, "out of memory for a delivery: it goes back to the broker");
}

/* A body that is too large is not waited for: its frames are thrown away as they come. */
static void accept_content(rabbit_receiver *self, rabbit_link *link, const amqp_frame_t *frame)
{
    int is_header = frame->frame_type == AMQP_FRAME_HEADER;
    rabbit_piece piece = rabbit_content_add(&self->content, frame);
    if (piece == RABBIT_PIECE_BAD) {
        rabbit_link_lose(link, "the broker's frames make no sense, or there is no memory for them");
        return;
    }
    if (self->content.too_large ? is_header : piece == RABBIT_PIECE_COMPLETE)
        accept_delivery(self, link);
    if (piece == RABBIT_PIECE_COMPLETE)
        rabbit_content_end(&self->content);
}

static void accept_frame(void *owner, rabbit_link *link, const amqp_frame_t *frame)
{
    rabbit_receiver *self = owner;
    if (frame->frame_type != AMQP_FRAME_METHOD)
        accept_content(self, link, frame);
    else if (frame->payload.method.id == AMQP_BASIC_DELIVER_METHOD)
        rabbit_content_start(&self->content, frame->payload.method.decoded);
    else if (frame->payload.method.id == AMQP_BASIC_CANCEL_METHOD)
        rabbit_link_lose(link, "the queue \"%s\" was deleted, or is not available",
                         link->address->queue);
}

/* --- opening ---------------------------------------------------------------------------------- */

semel_status rabbit_receiver_init(rabbit_receiver *receiver, const rabbit_address *address,
                                  const semel_seam *seam, semel_error *err)
{
    static const rabbit_owner calls = {set_up_receiver, accept_frame, receiver_keeps,
                                       receiver_lost};
    if (!rabbit_deliveries_init(&receiver->deliveries, address->prefetch))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a prefetch of %u",
                          (unsigned)address->prefetch);
    receiver->pending_max =
        address->prefetch / 4 < PENDING_MAX ? address->prefetch / 4 : PENDING_MAX;
    semel_status status = rabbit_link_init(&receiver->link, address, seam, &calls, receiver, err);
    if (status)
        rabbit_deliveries_free(&receiver->deliveries);
    return status;
}

void rabbit_receiver_close(rabbit_receiver *receiver)
{
    rabbit_link_close(&receiver->link);
    rabbit_deliveries_free(&receiver->deliveries);
    rabbit_content_free(&receiver->content);
}

/* --- handing out ------------------------------------------------------------------------------ */

static size_t deliver_ready(rabbit_receiver *self, semel_delivery deliveries[], size_t max)
{
    size_t count = 0;
    while (count < max) {
        const rabbit_delivery *one = rabbit_deliveries_receive(&self->deliveries);
        if (!one)
            break;
        deliveries[count++] =
            (semel_delivery){.tag = one->node.tag, .message = one->message, .position = -1};
    }
    return count;
}

/* A link that was lost with nothing to hand out is an error once, so that the consumer knows; the
 * next call connects again. */
static semel_status receive_ready(rabbit_receiver *self, semel_delivery deliveries[], size_t max,
                                  size_t *count, int64_t until_ms, semel_error *err)
{
    rabbit_link *link = &self->link;
    semel_status status = start_consuming(self, until_ms, err);
    if (status)
        return status;
    if (!self->deliveries.ready.first) {
        rabbit_receiver_flush(self);
        rabbit_link_pump(link);
    }
    while (link->up && (*count = deliver_ready(self, deliveries, max)) == 0 &&
           wait_clock_ms() < until_ms)
        rabbit_link_wait(link, until_ms);
    if (link->up || *count)
        return SEMEL_OK;
    if (err)
        *err = link->trouble;
    return link->trouble.status;
}

semel_status rabbit_receiver_receive(rabbit_receiver *receiver, semel_delivery deliveries[],
                                     size_t max, size_t *count, uint32_t wait_ms, semel_error *err)
{
    size_t found = 0;
    pthread_mutex_lock(&receiver->link.lock);
    semel_status status =
        receive_ready(receiver, deliveries, max, &found, wait_clock_ms() + wait_ms, err);
    pthread_mutex_unlock(&receiver->link.lock);
    if (!status)
        *count = found;
    return status;
}
