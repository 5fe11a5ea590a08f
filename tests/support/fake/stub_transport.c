/* See stub_transport.h. */
#include "support/fake/stub_transport.h"

typedef struct stub {
    stub_publish *publish;
    void *context;
} stub;

static semel_status stub_open(void *transport, const char *argument,
                              const semel_transport_settings *settings, semel_error *err)
{
    (void)settings;
    (void)err;
    *(stub *)transport = *(const stub *)(const void *)argument;
    return SEMEL_OK;
}

static void stub_close(void *transport)
{
    (void)transport;
}

static semel_durability stub_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status stub_publish_all(void *transport, semel_publish_result results[],
                                     const semel_message *const messages[], size_t count,
                                     uint32_t wait_ms, semel_error *err)
{
    const stub *self = transport;
    (void)wait_ms;
    return self->publish(self->context, results, messages, count, err);
}

static semel_status stub_receive(void *transport, semel_delivery deliveries[], size_t max,
                                 size_t *count, uint32_t wait_ms, semel_error *err)
{
    (void)transport;
    (void)deliveries;
    (void)max;
    (void)wait_ms;
    (void)err;
    *count = 0;
    return SEMEL_OK;
}

static semel_status stub_settle(void *transport, const semel_delivery_settlement settles[],
                                size_t count, semel_error *err)
{
    (void)transport;
    (void)settles;
    (void)count;
    (void)err;
    return SEMEL_OK;
}

static const semel_transport_driver stub_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .scheme = "stub",
    .transport_size = sizeof(stub),
    .open = stub_open,
    .close = stub_close,
    .durability = stub_durability,
    .publish = stub_publish_all,
    .receive = stub_receive,
    .settle = stub_settle,
};

semel_status stub_transport_open(semel_transport **out, stub_publish *publish, void *context,
                                 semel_error *err)
{
    stub wanted = {publish, context};
    return semel_transport_open_driver(out, &stub_driver, &wanted, NULL, err);
}
