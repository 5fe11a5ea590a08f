/* amqp:// and amqps://: RabbitMQ, and others that speak AMQP 0-9-1 with its extensions (confirms,
 * basic.nack, consumer_cancel_notify, connection.blocked).
 *
 * Two links, because a broker that is in trouble blocks connections that publish, and those that
 * acknowledge must go on. Each is connected when it is first used, one of them when the transport
 * is opened: so a wrong password, a missing queue, or one that could lose messages are found then.
 * A thread tends both: it answers heartbeats while handlers work, and cuts a connection on which a
 * write hangs. */
#include "base/mem.h"
#include "base/thread.h"
#include "base/wait.h"
#include "transport/common/losses.h"
#include "transport/rabbitmq/depth.h"
#include "transport/rabbitmq/publisher.h"
#include "transport/rabbitmq/receiver.h"

#include <semel/sys/transport.h>
#include <string.h>

enum { TEND_MS = 500, LOSSES_ROOM = 2048 };

extern const semel_transport_driver rabbitmq_transport_driver;

typedef struct rabbit {
    rabbit_address address;
    rabbit_receiver receiver;
    rabbit_publisher publisher;
    char losses[LOSSES_ROOM];

    pthread_t tender;
    pthread_mutex_t ending_lock;
    pthread_cond_t ending_changed;
    int ending;
} rabbit;

/* --- the thread ------------------------------------------------------------------------------- */

static int wait_for_end(rabbit *self)
{
    struct timespec until = wait_until(wait_clock_ms() + TEND_MS);
    pthread_mutex_lock(&self->ending_lock);
    if (!self->ending)
        (void)pthread_cond_timedwait(&self->ending_changed, &self->ending_lock, &until);
    int ending = self->ending;
    pthread_mutex_unlock(&self->ending_lock);
    return ending;
}

static void *tend(void *context)
{
    rabbit *self = context;
    while (!wait_for_end(self)) {
        rabbit_receiver_tend(&self->receiver);
        rabbit_link_tend(&self->publisher.link);
    }
    return NULL;
}

static semel_status start_tender(rabbit *self, semel_error *err)
{
    int error = pthread_mutex_init(&self->ending_lock, NULL);
    if (!error && (error = wait_condition_init(&self->ending_changed)) != 0)
        pthread_mutex_destroy(&self->ending_lock);
    if (!error && (error = thread_start(&self->tender, tend, self)) != 0) {
        pthread_cond_destroy(&self->ending_changed);
        pthread_mutex_destroy(&self->ending_lock);
    }
    if (error)
        return semel_fail(err, SEMEL_ETRANSPORT, "no thread for the broker's heartbeat: %s",
                          strerror(error));
    return SEMEL_OK;
}

static void stop_tender(rabbit *self)
{
    pthread_mutex_lock(&self->ending_lock);
    self->ending = 1;
    pthread_cond_signal(&self->ending_changed);
    pthread_mutex_unlock(&self->ending_lock);
    pthread_join(self->tender, NULL);
    pthread_cond_destroy(&self->ending_changed);
    pthread_mutex_destroy(&self->ending_lock);
}

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status refuse_losses(const rabbit *self, semel_error *err)
{
    return losses_refuse(self->losses, self->address.allow_loss, err);
}

static semel_status refuse_losses_of_url(const rabbit_address *address, semel_error *err)
{
    char found[LOSSES_ROOM];
    rabbit_address_losses(found, sizeof found, address, 0);
    return losses_refuse(found, address->allow_loss, err);
}

static semel_status need_queue(const rabbit_address *address, semel_error *err)
{
    return address->queue[0]
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EMISUSE, "this URL names no queue= to receive from");
}

static semel_status rabbit_check_url(const char *url, int receives, semel_error *err)
{
    rabbit_address address;
    semel_status status = rabbit_address_read(&address, url, err);
    if (!status)
        status = refuse_losses_of_url(&address, err);
    if (!status && receives)
        status = need_queue(&address, err);
    explicit_bzero(&address, sizeof address);
    return status;
}

/* What the URL alone shows is refused before anything is touched; what depends on the broker,
 * afterwards. */
static semel_status first_connection(rabbit *self, semel_error *err)
{
    rabbit_link *link = self->address.queue[0] ? &self->receiver.link : &self->publisher.link;
    semel_status status = refuse_losses_of_url(&self->address, err);
    if (status)
        return status;
    pthread_mutex_lock(&link->lock);
    status = rabbit_link_need(link, 0, err);
    pthread_mutex_unlock(&link->lock);
    if (status)
        return status;
    rabbit_address_losses(self->losses, sizeof self->losses, &self->address, link->broker_major);
    return refuse_losses(self, err);
}

static semel_status open_links(rabbit *self, const semel_seam *seam, semel_error *err)
{
    semel_status status = rabbit_receiver_init(&self->receiver, &self->address, seam, err);
    if (status)
        return status;
    status = rabbit_publisher_init(&self->publisher, &self->address, seam, err);
    if (status)
        rabbit_receiver_close(&self->receiver);
    return status;
}

static void close_links(rabbit *self)
{
    rabbit_publisher_close(&self->publisher);
    rabbit_receiver_close(&self->receiver);
}

static void forget_password(rabbit *self)
{
    explicit_bzero(self->address.password, sizeof self->address.password);
}

static semel_status rabbit_open(void *transport, const char *url,
                                const semel_transport_settings *settings, semel_error *err)
{
    rabbit *self = transport;
    semel_status status = rabbit_address_read(&self->address, url, err);
    if (!status)
        status = open_links(self, settings->seam, err);
    if (status) {
        forget_password(self);
        return status;
    }
    status = first_connection(self, err);
    if (!status) {
        self->receiver.link.patient = self->publisher.link.patient = 1;
        status = start_tender(self, err);
    }
    if (status) {
        close_links(self);
        forget_password(self);
    }
    return status;
}

static void rabbit_close(void *transport)
{
    rabbit *self = transport;
    rabbit_receiver_finish(&self->receiver); /* while the thread still cuts writes that hang */
    stop_tender(self);
    close_links(self);
    forget_password(self);
}

/* --- the rest --------------------------------------------------------------------------------- */

static semel_durability rabbit_durability(const void *transport)
{
    const rabbit *self = transport;
    return self->address.durable && self->address.persistent ? SEMEL_DURABLE_POWER
                                                             : SEMEL_DURABLE_NOT;
}

static const char *rabbit_warnings(const void *transport)
{
    const rabbit *self = transport;
    return self->losses;
}

static semel_status rabbit_publish_while(void *transport, semel_publish_result results[],
                                         const semel_message *const messages[], size_t count,
                                         uint32_t wait_ms, semel_meanwhile *meanwhile,
                                         void *context, semel_error *err)
{
    rabbit *self = transport;
    return rabbit_publisher_publish(&self->publisher, results, messages, count, wait_ms, meanwhile,
                                    context, err);
}

static semel_status rabbit_publish(void *transport, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    return count
               ? rabbit_publish_while(transport, results, messages, count, wait_ms, NULL, NULL, err)
               : SEMEL_OK;
}

static semel_status rabbit_receive(void *transport, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    rabbit *self = transport;
    semel_status status = need_queue(&self->address, err);
    return status ? status
                  : rabbit_receiver_receive(&self->receiver, deliveries, max, count, wait_ms, err);
}

static semel_status rabbit_settle(void *transport, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    rabbit *self = transport;
    return rabbit_receiver_settle(&self->receiver, settles, count, err);
}

static void rabbit_give_back(void *transport)
{
    rabbit *self = transport;
    rabbit_receiver_give_back(&self->receiver);
}

/* A dead-letter exchange that a policy gives to the queue cannot be seen: a URL that accepts losses
 * is believed. */
static int rabbit_keeps_rejected(const void *transport)
{
    const rabbit *self = transport;
    return self->address.has_dead_letter || self->address.allow_loss;
}

static semel_status rabbit_count_ready(void *transport, uint64_t *ready, semel_error *err)
{
    const rabbit *self = transport;
    return rabbit_depth(&self->address, self->publisher.link.seam, ready, err);
}

const semel_transport_driver rabbitmq_transport_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_COUNTS,
    .scheme = "amqp",
    .transport_size = sizeof(rabbit),
    .open = rabbit_open,
    .close = rabbit_close,
    .durability = rabbit_durability,
    .publish = rabbit_publish,
    .receive = rabbit_receive,
    .settle = rabbit_settle,
    .warnings = rabbit_warnings,
    .give_back = rabbit_give_back,
    .publish_while = rabbit_publish_while,
    .keeps_rejected = rabbit_keeps_rejected,
    .depth = rabbit_count_ready,
    .check_url = rabbit_check_url,
};
