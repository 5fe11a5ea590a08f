/* A transport around another one that counts what is received, and what of it came again, and
 * changes nothing. All calls go to the driver of the inner one; its abilities are those of
 * RabbitMQ's, and open refuses any other. */
#include "counted.h"

#include <string.h>

typedef struct counted {
    semel_transport *inner;
    const semel_transport_driver *driver; /* of the inner one, with ... */
    void *state;                          /* ... its state */
    atomic_uint_least64_t *count, *again;
} counted;

enum { ABILITIES = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_COUNTS };

typedef struct request {
    const char *url;
    atomic_uint_least64_t *count, *again;
} request;

static semel_status counted_start(void *transport, const char *argument,
                                  const semel_transport_settings *settings, semel_error *err)
{
    counted *self = transport;
    request wanted;
    (void)settings;
    memcpy(&wanted, argument, sizeof wanted);
    semel_status status = semel_transport_open(&self->inner, wanted.url, NULL, err);
    if (status)
        return status;
    self->driver = semel_transport_driver_of(self->inner);
    self->state = semel_transport_state(self->inner, self->driver);
    self->count = wanted.count;
    self->again = wanted.again;
    if (self->driver->abilities == ABILITIES && self->driver->give_back &&
        self->driver->publish_while)
        return SEMEL_OK;
    semel_transport_close(self->inner);
    return semel_fail(err, SEMEL_EINVAL, "counted.c has other abilities than %s",
                      self->driver->scheme);
}

static void counted_end(void *transport)
{
    semel_transport_close(((counted *)transport)->inner);
}

static semel_durability counted_durability(const void *transport)
{
    const counted *self = transport;
    return self->driver->durability(self->state);
}

static semel_status counted_publish(void *transport, semel_publish_result results[],
                                    const semel_message *const messages[], size_t count,
                                    uint32_t wait_ms, semel_error *err)
{
    counted *self = transport;
    return self->driver->publish(self->state, results, messages, count, wait_ms, err);
}

static semel_status counted_publish_while(void *transport, semel_publish_result results[],
                                          const semel_message *const messages[], size_t count,
                                          uint32_t wait_ms, semel_meanwhile *meanwhile,
                                          void *context, semel_error *err)
{
    counted *self = transport;
    return self->driver->publish_while(self->state, results, messages, count, wait_ms, meanwhile,
                                       context, err);
}

static semel_status counted_receive(void *transport, semel_delivery deliveries[], size_t max,
                                    size_t *count, uint32_t wait_ms, semel_error *err)
{
    counted *self = transport;
    semel_status status = self->driver->receive(self->state, deliveries, max, count, wait_ms, err);
    if (status)
        return status;
    atomic_fetch_add(self->count, *count);
    for (size_t i = 0; i < *count; i++)
        atomic_fetch_add(self->again, deliveries[i].message->delivery >= 2);
    return SEMEL_OK;
}

static semel_status counted_settle(void *transport, const semel_delivery_settlement settles[],
                                   size_t count, semel_error *err)
{
    counted *self = transport;
    return self->driver->settle(self->state, settles, count, err);
}

static const char *counted_warnings(const void *transport)
{
    const counted *self = transport;
    return self->driver->warnings ? self->driver->warnings(self->state) : "";
}

static void counted_give_back(void *transport)
{
    counted *self = transport;
    self->driver->give_back(self->state);
}

static int counted_revoked(void *transport, uint64_t tag)
{
    const counted *self = transport;
    return self->driver->revoked && self->driver->revoked(self->state, tag);
}

static const semel_transport_driver counted_driver = {.version = SEMEL_TRANSPORT_DRIVER_VERSION,
                                                      .abilities = ABILITIES,
                                                      .scheme = "counted",
                                                      .transport_size = sizeof(counted),
                                                      .open = counted_start,
                                                      .close = counted_end,
                                                      .durability = counted_durability,
                                                      .publish = counted_publish,
                                                      .receive = counted_receive,
                                                      .settle = counted_settle,
                                                      .warnings = counted_warnings,
                                                      .give_back = counted_give_back,
                                                      .publish_while = counted_publish_while,
                                                      .revoked = counted_revoked};

semel_status counted_open(semel_transport **out, const char *url, atomic_uint_least64_t *count,
                          atomic_uint_least64_t *again, semel_error *err)
{
    request wanted = {url, count, again};
    return semel_transport_open_driver(out, &counted_driver, &wanted, NULL, err);
}
