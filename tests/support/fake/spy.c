/* See spy.h. The driver's state is a pointer to the test's own spy, so the test sees it as it
 * changes. */
#include "support/fake/spy.h"

static spy *spy_of(void *transport)
{
    return *(spy **)transport;
}

static semel_status broken(semel_status status, semel_error *err)
{
    return semel_fail(err, status, "the spy was told to be broken");
}

static semel_status spy_start(void *transport, const char *argument,
                              const semel_transport_settings *settings, semel_error *err)
{
    (void)settings;
    (void)err;
    memcpy(transport, &argument, sizeof argument);
    return SEMEL_OK;
}

static void spy_end(void *transport)
{
    (void)transport;
}

static semel_durability spy_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status spy_publish(void *transport, semel_publish_result results[],
                                const semel_message *const messages[], size_t count,
                                uint32_t wait_ms, semel_error *err)
{
    spy *self = spy_of(transport);
    self->publishes++;
    self->last_count = count;
    self->wait_ms = wait_ms;
    if (self->on_publish)
        self->on_publish(self, messages, count);
    if (self->broken || self->publish_broken)
        return broken(self->broken ? self->broken : self->publish_broken, err);
    return semel_transport_publish(results, self->inner, messages, count, wait_ms, err);
}

static semel_status spy_receive(void *transport, semel_delivery deliveries[], size_t max,
                                size_t *count, uint32_t wait_ms, semel_error *err)
{
    spy *self = spy_of(transport);
    size_t found = 0;
    self->receives++;
    semel_status status =
        self->broken ? broken(self->broken, err)
                     : semel_transport_receive(self->inner, deliveries, max, &found, wait_ms, err);
    if (self->on_receive)
        self->on_receive(self, deliveries, found);
    if (!status)
        *count = found;
    return status;
}

static semel_status spy_settle(void *transport, const semel_delivery_settlement settles[],
                               size_t count, semel_error *err)
{
    spy *self = spy_of(transport);
    for (size_t i = 0; i < count && self->settle_count < SPY_SETTLES_MAX; i++)
        self->settles[self->settle_count++] = settles[i];
    if (self->broken)
        return broken(self->broken, err);
    return semel_transport_settle(self->inner, settles, count, err);
}

static int spy_revoked(void *transport, uint64_t tag)
{
    const semel_transport *inner = spy_of(transport)->inner;
    const semel_transport_driver *of = semel_transport_driver_of(inner);
    return of->revoked && of->revoked(semel_transport_state(inner, of), tag);
}

#define DRIVER(more_abilities)                                                                 \
    {                                                                                          \
        .version = SEMEL_TRANSPORT_DRIVER_VERSION,                                             \
        .abilities = SEMEL_TRANSPORT_COUNTS | SEMEL_TRANSPORT_DELAYS | (more_abilities),       \
        .scheme = "spy", .transport_size = sizeof(spy *), .open = spy_start, .close = spy_end, \
        .durability = spy_durability, .publish = spy_publish, .receive = spy_receive,          \
        .settle = spy_settle, .revoked = spy_revoked                                           \
    }

static const semel_transport_driver plain = DRIVER(0);
static const semel_transport_driver keeps_order = DRIVER(SEMEL_TRANSPORT_ORDERED);

static void close_transport(void *thing)
{
    semel_transport_close(thing);
}

semel_transport *spy_open(fixture *f, spy *self, int ordered)
{
    semel_transport *transport = NULL;
    semel_transport_options options = {.size = sizeof options, .seam = f->host};
    OK(semel_transport_open_driver(&transport, ordered ? &keeps_order : &plain, self, &options,
                                   &last_error));
    fixture_keep(f, close_transport, transport);
    return transport;
}
