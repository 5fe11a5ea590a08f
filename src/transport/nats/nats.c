/* nats:// and natss://: streams of NATS JetStream, and their durable pull consumers.
 *
 * One connection for all of it: a server in trouble does not block a connection that publishes, and
 * nats.c writes and reads by threads of its own. It is made when the transport is opened: so a
 * wrong password, a missing stream, or one that could lose messages are found then. */
#include "base/mem.h"
#include "transport/common/losses.h"
#include "transport/nats/publisher.h"
#include "transport/nats/receiver.h"
#include "transport/nats/topology_losses.h"

#include <string.h>

extern const semel_transport_driver nats_transport_driver;

typedef struct jet {
    jet_address address;
    jet_link link;
    jet_calls calls;
    jet_receiver receiver;
    jet_facts facts;
} jet;

/* --- connecting ------------------------------------------------------------------------------- */

static void forget_subscriptions(jet *self)
{
    jet_subscription *const all[] = {&self->calls.subscription, &self->receiver.subscription};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        natsSubscription_Destroy(all[i]->subscription);
        all[i]->subscription = NULL;
    }
}

/* Durability and losses stay as they were found at first, since the core has shown them. */
static void keep_facts(jet *self, const jet_facts *now)
{
    if (!self->link.was_up)
        self->facts = *now;
    self->facts.hold_ms = now->hold_ms;
    self->facts.batch_max = now->batch_max;
    self->facts.expires_max_ms = now->expires_max_ms;
}

static semel_status set_up(void *owner, natsConnection *connection, semel_error *err)
{
    jet *self = owner;
    jet_facts now = {.hold_ms = 0};
    forget_subscriptions(self);
    semel_status status = jet_calls_begin(&self->calls, connection, err);
    if (!status)
        status = jet_topology(&now, &self->address, connection, err);
    if (!status)
        status = losses_refuse(now.losses, self->address.allow_loss, err);
    if (status)
        return status;
    jet_receiver_compare(&self->receiver, connection);
    pthread_mutex_lock(&self->link.lock);
    keep_facts(self, &now);
    self->receiver.wanted = 0; /* the request went with its connection */
    pthread_mutex_unlock(&self->link.lock);
    return SEMEL_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static void forget_secrets(jet *self)
{
    explicit_bzero(self->address.password, sizeof self->address.password);
    explicit_bzero(self->address.user, sizeof self->address.user); /* it may be a token */
}

static void close_all(jet *self)
{
    jet_link_close(&self->link);
    forget_subscriptions(self);
    jet_receiver_free(&self->receiver);
    delivery_table_free(&self->calls.open);
    forget_secrets(self);
}

static semel_status first_connection(jet *self, semel_error *err)
{
    pthread_mutex_lock(&self->link.lock);
    semel_status status = jet_link_use(&self->link, err);
    if (!status)
        jet_link_done(&self->link);
    pthread_mutex_unlock(&self->link.lock);
    return status;
}

static semel_status nats_open(void *transport, const char *url,
                              const semel_transport_settings *settings, semel_error *err)
{
    jet *self = transport;
    semel_status status = jet_address_read(&self->address, url, err);
    if (!status)
        status = jet_link_init(&self->link, &self->address, settings->seam, set_up, self, err);
    if (status) {
        forget_secrets(self);
        return status;
    }
    self->calls.link = self->receiver.link = &self->link;
    self->receiver.calls = &self->calls;
    self->receiver.facts = &self->facts;
    status = first_connection(self, err);
    if (status)
        close_all(self);
    return status;
}

static semel_status need_consumer(const jet_address *address, semel_error *err)
{
    return address->consumer[0]
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EMISUSE, "this URL names no consumer= to receive from");
}

/* What it says of losses without having looked at a stream follows from the URL. */
static semel_status nats_check_url(const char *url, int receives, semel_error *err)
{
    jet_address address;
    char found[JET_LOSSES_ROOM];
    semel_status status = jet_address_read(&address, url, err);
    if (!status) {
        jet_topology_losses(found, &address, NULL, NULL);
        status = losses_refuse(found, address.allow_loss, err);
    }
    if (!status && receives)
        status = need_consumer(&address, err);
    explicit_bzero(&address, sizeof address);
    return status;
}

static void nats_close(void *transport)
{
    jet *self = transport;
    jet_give_back(&self->receiver);
    close_all(self);
}

/* --- the rest --------------------------------------------------------------------------------- */

static semel_durability nats_durability(const void *transport)
{
    const jet *self = transport;
    return self->facts.durability;
}

static const char *nats_warnings(const void *transport)
{
    const jet *self = transport;
    return self->facts.warnings;
}

static semel_status nats_publish_while(void *transport, semel_publish_result results[],
                                       const semel_message *const messages[], size_t count,
                                       uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                       semel_error *err)
{
    jet *self = transport;
    return jet_publish(&self->calls, results, messages, count, wait_ms, meanwhile, context, err);
}

static semel_status nats_publish(void *transport, semel_publish_result results[],
                                 const semel_message *const messages[], size_t count,
                                 uint32_t wait_ms, semel_error *err)
{
    return count ? nats_publish_while(transport, results, messages, count, wait_ms, NULL, NULL, err)
                 : SEMEL_OK;
}

static semel_status nats_receive(void *transport, semel_delivery deliveries[], size_t max,
                                 size_t *count, uint32_t wait_ms, semel_error *err)
{
    jet *self = transport;
    semel_status status = need_consumer(&self->address, err);
    return status ? status : jet_receive(&self->receiver, deliveries, max, count, wait_ms, err);
}

static semel_status nats_settle(void *transport, const semel_delivery_settlement settles[],
                                size_t count, semel_error *err)
{
    jet *self = transport;
    return jet_settle(&self->receiver, settles, count, err);
}

static semel_status nats_extend(void *transport, const uint64_t tags[], size_t count,
                                uint32_t *hold_ms, semel_error *err)
{
    jet *self = transport;
    return jet_extend(&self->receiver, tags, count, hold_ms, err);
}

static int nats_revoked(void *transport, uint64_t tag)
{
    jet *self = transport;
    return jet_revoked(&self->receiver, tag);
}

static void nats_give_back(void *transport)
{
    jet *self = transport;
    jet_give_back(&self->receiver);
}

/* Without a copy it is in the stream still, if at all, and nobody is told which one it is. */
static int nats_keeps_rejected(const void *transport)
{
    const jet *self = transport;
    return self->address.dead[0] != 0;
}

static semel_status nats_depth(void *transport, uint64_t *ready, semel_error *err)
{
    jet *self = transport;
    jet_link *link = &self->link;
    semel_status status = need_consumer(&self->address, err);
    if (status)
        return status;
    pthread_mutex_lock(&link->lock);
    status = jet_link_use(link, err);
    if (!status) {
        natsConnection *connection = link->connection;
        pthread_mutex_unlock(&link->lock);
        status = jet_topology_depth(ready, &self->address, connection, err);
        pthread_mutex_lock(&link->lock);
        jet_link_done(link);
    }
    pthread_mutex_unlock(&link->lock);
    return status;
}

const semel_transport_driver nats_transport_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS |
                 SEMEL_TRANSPORT_DELAYS,
    .scheme = "nats",
    .transport_size = sizeof(jet),
    .open = nats_open,
    .close = nats_close,
    .durability = nats_durability,
    .publish = nats_publish,
    .receive = nats_receive,
    .settle = nats_settle,
    .extend = nats_extend,
    .warnings = nats_warnings,
    .give_back = nats_give_back,
    .publish_while = nats_publish_while,
    .keeps_rejected = nats_keeps_rejected,
    .depth = nats_depth,
    .revoked = nats_revoked,
    .check_url = nats_check_url,
};
