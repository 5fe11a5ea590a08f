/* kafka://: Apache Kafka, and others that speak its protocol, by librdkafka.
 *
 * A transport has up to three clients: one that publishes, one in the group that receives, and one
 * that writes dead letters. Each is made when it is first needed, and has threads of librdkafka's;
 * a thread of the transport's own serves the one in the group. When the transport is opened, a
 * client that is closed again looks at the topics. */
#include "transport/kafka/inspect.h"
#include "transport/kafka/publisher.h"

#include <semel/sys/transport.h>
#include <string.h>

extern const semel_transport_driver kafka_transport_driver;

typedef struct kafka {
    kafka_address address;
    kafka_publisher publisher;
    kafka_receiver receiver;
    semel_durability durability;
    char warnings[KAFKA_WARNINGS_ROOM];
} kafka;

/* --- opening and closing ---------------------------------------------------------------------- */

static semel_status look_at_topic(kafka *self, semel_error *err)
{
    kafka_facts facts;
    int refuse = 0;
    semel_status status = kafka_inspect(&facts, &self->address, err);
    if (status)
        return status;
    self->durability = kafka_facts_durability(&facts);
    kafka_facts_warnings(self->warnings, &refuse, &facts, &self->address);
    if (refuse && !self->address.allow_loss)
        return semel_fail(err, SEMEL_EINVAL,
                          "messages could get lost: %.*s (loss=warn accepts that)",
                          (int)strcspn(self->warnings, "\n"), self->warnings);
    return SEMEL_OK;
}

static semel_status open_parts(kafka *self, semel_error *err)
{
    semel_status status = kafka_publisher_init(&self->publisher, &self->address, err);
    if (status)
        return status;
    status = kafka_receiver_init(&self->receiver, &self->address, err);
    if (status)
        kafka_publisher_close(&self->publisher);
    return status;
}

static semel_status need_group(const kafka_address *address, semel_error *err)
{
    return *address->group
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EMISUSE, "this URL names no group= to receive with");
}

static semel_status kafka_check_url(const char *text, int receives, semel_error *err)
{
    kafka_address address;
    semel_status status = kafka_address_read(&address, text, err);
    if (status)
        return status;
    status = kafka_client_check(&address, err);
    if (!status && receives)
        status = need_group(&address, err);
    kafka_address_free(&address);
    return status;
}

/* The seam's clock is not Kafka's: all waits here are for others to act. */
static semel_status kafka_open(void *transport, const char *text,
                               const semel_transport_settings *settings, semel_error *err)
{
    kafka *self = transport;
    (void)settings;
    semel_status status = kafka_address_read(&self->address, text, err);
    if (status)
        return status;
    status = look_at_topic(self, err);
    if (!status)
        status = open_parts(self, err);
    if (status)
        kafka_address_free(&self->address);
    return status;
}

static void kafka_close(void *transport)
{
    kafka *self = transport;
    kafka_receiver_close(&self->receiver);
    kafka_publisher_close(&self->publisher);
    kafka_address_free(&self->address);
}

/* --- publishing ------------------------------------------------------------------------------- */

static semel_status kafka_publish_while(void *transport, semel_publish_result results[],
                                        const semel_message *const messages[], size_t count,
                                        uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                        semel_error *err)
{
    kafka *self = transport;
    return kafka_publisher_publish(&self->publisher, results, messages, count, wait_ms, meanwhile,
                                   context, err);
}

static semel_status kafka_publish(void *transport, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  uint32_t wait_ms, semel_error *err)
{
    return kafka_publish_while(transport, results, messages, count, wait_ms, NULL, NULL, err);
}

/* --- receiving -------------------------------------------------------------------------------- */

static semel_status kafka_receive(void *transport, semel_delivery deliveries[], size_t max,
                                  size_t *count, uint32_t wait_ms, semel_error *err)
{
    kafka *self = transport;
    semel_status status = need_group(&self->address, err);
    return status ? status
                  : kafka_receiver_receive(&self->receiver, deliveries, max, count, wait_ms, err);
}

static semel_status kafka_settle(void *transport, const semel_delivery_settlement settles[],
                                 size_t count, semel_error *err)
{
    kafka *self = transport;
    return kafka_receiver_settle(&self->receiver, settles, count, err);
}

static void kafka_give_back(void *transport)
{
    kafka *self = transport;
    kafka_receiver_give_back(&self->receiver);
}

static int kafka_revoked(void *transport, uint64_t tag)
{
    kafka *self = transport;
    return kafka_receiver_revoked(&self->receiver, tag);
}

static int kafka_keeps_rejected(const void *transport)
{
    const kafka *self = transport;
    return *self->address.dead != 0;
}

static semel_status kafka_count_ready(void *transport, uint64_t *ready, semel_error *err)
{
    kafka *self = transport;
    semel_status status = need_group(&self->address, err);
    return status ? status : kafka_depth(&self->address, &self->receiver, ready, err);
}

/* --- the rest --------------------------------------------------------------------------------- */

static semel_durability kafka_durability(const void *transport)
{
    const kafka *self = transport;
    return self->durability;
}

static const char *kafka_warnings(const void *transport)
{
    const kafka *self = transport;
    return self->warnings;
}

const semel_transport_driver kafka_transport_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS |
                 SEMEL_TRANSPORT_POSITIONS,
    .scheme = "kafka",
    .transport_size = sizeof(kafka),
    .open = kafka_open,
    .close = kafka_close,
    .durability = kafka_durability,
    .publish = kafka_publish,
    .receive = kafka_receive,
    .settle = kafka_settle,
    .warnings = kafka_warnings,
    .give_back = kafka_give_back,
    .publish_while = kafka_publish_while,
    .keeps_rejected = kafka_keeps_rejected,
    .depth = kafka_count_ready,
    .revoked = kafka_revoked,
    .check_url = kafka_check_url,
};
