/* Relays as people run them: semel_relay_run(), in a thread each, until all is sent.
 *
 * A run ends when it is stopped. So the transport is wrapped in one that counts what the broker
 * confirmed, and stops all relays when that is enough; what was confirmed is still marked sent,
 * within the time that is measured. */
#include "outbox.h"
#include "server.h"

/* --- the transport that counts ---------------------------------------------------------------- */

typedef struct counting {
    relay_side *side;
    const semel_transport_driver *driver; /* of the inner one, with ... */
    void *state;                          /* ... its state */
} counting;

static semel_status counting_open(void *transport, const char *argument,
                                  const semel_transport_settings *settings, semel_error *err)
{
    counting *self = transport;
    (void)settings;
    (void)err;
    self->side = (relay_side *)(uintptr_t)argument;
    self->driver = semel_transport_driver_of(self->side->inner);
    self->state = semel_transport_state(self->side->inner, self->driver);
    return SEMEL_OK;
}

static void counting_close(void *transport)
{
    (void)transport;
}

static semel_durability counting_durability(const void *transport)
{
    const counting *self = transport;
    return self->driver->durability(self->state);
}

static void count_confirmed(const counting *self, const semel_publish_result results[],
                            size_t count)
{
    size_t confirmed = 0;
    for (size_t i = 0; i < count; i++)
        confirmed += results[i] == SEMEL_PUBLISH_CONFIRMED;
    relay_side *s = self->side;
    if (atomic_fetch_add(&s->sent, confirmed) + confirmed < s->wanted)
        return;
    for (size_t i = 0; i < s->count; i++)
        semel_relay_stop(s->relays[i]);
}

static semel_status counting_publish(void *transport, semel_publish_result results[],
                                     const semel_message *const messages[], size_t count,
                                     uint32_t wait_ms, semel_error *err)
{
    const counting *self = transport;
    semel_status status =
        self->driver->publish(self->state, results, messages, count, wait_ms, err);
    count_confirmed(self, results, count);
    return status;
}

static semel_status counting_publish_while(void *transport, semel_publish_result results[],
                                           const semel_message *const messages[], size_t count,
                                           uint32_t wait_ms, semel_meanwhile *meanwhile,
                                           void *context, semel_error *err)
{
    const counting *self = transport;
    semel_status status = self->driver->publish_while(self->state, results, messages, count,
                                                      wait_ms, meanwhile, context, err);
    count_confirmed(self, results, count);
    return status;
}

static semel_status counting_receive(void *transport, semel_delivery deliveries[], size_t max,
                                     size_t *count, uint32_t wait_ms, semel_error *err)
{
    const counting *self = transport;
    return self->driver->receive(self->state, deliveries, max, count, wait_ms, err);
}

static semel_status counting_settle(void *transport, const semel_delivery_settlement settles[],
                                    size_t count, semel_error *err)
{
    const counting *self = transport;
    return self->driver->settle(self->state, settles, count, err);
}

static int counting_revoked(void *transport, uint64_t tag)
{
    const counting *self = transport;
    return self->driver->revoked(self->state, tag);
}

/* With the abilities of the inner one, and no more. */
static semel_transport_driver counting_driver(const semel_transport *inner)
{
    const semel_transport_driver *of = semel_transport_driver_of(inner);
    return (semel_transport_driver){.version = SEMEL_TRANSPORT_DRIVER_VERSION,
                                    .abilities = of->abilities,
                                    .scheme = "counting",
                                    .transport_size = sizeof(counting),
                                    .open = counting_open,
                                    .close = counting_close,
                                    .durability = counting_durability,
                                    .publish = counting_publish,
                                    .receive = counting_receive,
                                    .settle = counting_settle,
                                    .publish_while =
                                        of->publish_while ? counting_publish_while : NULL,
                                    .revoked = of->revoked ? counting_revoked : NULL};
}

/* --- the relays ------------------------------------------------------------------------------- */

void relay_begin(relay_side *s, semel_outbox *outbox, const char *transport_url,
                 const semel_relay_options *options_of)
{
    semel_error err;
    s->count = s->count ? s->count : 1;
    s->outbox = outbox;
    s->options = *options_of;
    must(semel_transport_open(&s->inner, transport_url, NULL, &err), &err);
    s->driver = counting_driver(s->inner);
    must(semel_transport_open_driver(&s->transport, &s->driver, s, NULL, &err), &err);
}

void relay_end(relay_side *s)
{
    semel_transport_close(s->transport);
    semel_transport_close(s->inner);
}

static void run_relay(void *context, size_t worker, const semel_message *const messages[],
                      size_t count)
{
    relay_side *s = context;
    semel_error err;
    (void)messages;
    (void)count;
    must(semel_relay_run(s->relays[worker], &err), &err);
}

void relay_drain(void *context, const message_set *set)
{
    relay_side *s = context;
    const message_set shares = {.count = s->count, .pointers = set->pointers};
    semel_error err;
    s->wanted = set->count;
    atomic_store(&s->sent, 0);
    for (size_t i = 0; i < s->count; i++)
        must(semel_relay_open(&s->relays[i], s->outbox, s->transport, &s->options, &err), &err);
    if (s->count == 1)
        run_relay(s, 0, NULL, 0);
    else
        threads_run(s->count, 1, &shares, run_relay, s);
    for (size_t i = 0; i < s->count; i++)
        semel_relay_close(s->relays[i]);
}
