/* See no_delay_transport.h. The driver's state is a pointer to the test's own no_delay, so the test
 * sees it as it changes. */
#include "support/fake/no_delay_transport.h"

static no_delay *no_delay_of(void *transport)
{
    return *(no_delay **)transport;
}

static semel_status broken(int status, semel_error *err)
{
    return semel_fail(err, (semel_status)status, "the broker was told to be away");
}

static semel_status start(void *transport, const char *argument,
                          const semel_transport_settings *settings, semel_error *err)
{
    (void)settings;
    (void)err;
    memcpy(transport, &argument, sizeof argument);
    return SEMEL_OK;
}

static void end(void *transport)
{
    (void)transport;
}

static semel_durability durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status publish(void *transport, semel_publish_result results[],
                            const semel_message *const messages[], size_t count, uint32_t wait_ms,
                            semel_error *err)
{
    return semel_transport_publish(results, no_delay_of(transport)->inner, messages, count, wait_ms,
                                   err);
}

static void count_inflight(no_delay *self, int more)
{
    int now = atomic_fetch_add(&self->inflight, more) + more;
    int most = atomic_load(&self->inflight_most);
    while (now > most && !atomic_compare_exchange_weak(&self->inflight_most, &most, now))
        continue;
}

static semel_status receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err)
{
    no_delay *self = no_delay_of(transport);
    int status = atomic_load(&self->receive_broken);
    atomic_fetch_add(&self->receives, 1);
    if (status)
        return broken(status, err);
    status = (int)semel_transport_receive(self->inner, deliveries, max, count, wait_ms, err);
    if (status)
        return (semel_status)status;
    atomic_fetch_add(&self->received, (unsigned)*count);
    count_inflight(self, (int)*count);
    return SEMEL_OK;
}

static void count_verdict(no_delay *self, const semel_delivery_settlement *settle)
{
    enum { TAGS = sizeof self->retried_tags / sizeof *self->retried_tags };
    if (settle->verdict == SEMEL_VERDICT_ACK) {
        atomic_fetch_add(&self->acked, 1);
    } else if (settle->verdict == SEMEL_VERDICT_REJECT) {
        atomic_fetch_add(&self->rejected, 1);
    } else {
        unsigned before = atomic_fetch_add(&self->retried, 1);
        if (before < TAGS)
            self->retried_tags[before] = settle->tag;
    }
}

/* One by one, because a delay must not be kept. */
static semel_status settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err)
{
    no_delay *self = no_delay_of(transport);
    int away = atomic_load(&self->settle_broken);
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < count; i++) {
        if (settles[i].tag <= atomic_load(&self->lost))
            away = SEMEL_EUNAVAILABLE;
        if (away)
            continue;
        semel_delivery_settlement at_once = {settles[i].tag, settles[i].verdict, 0};
        semel_status one = semel_transport_settle(self->inner, &at_once, 1, err);
        if (!one)
            count_verdict(self, &settles[i]);
        status = one ? one : status;
    }
    count_inflight(self, -(int)count);
    return away ? broken(away, err) : status;
}

static int revoked(void *transport, uint64_t tag)
{
    const semel_transport *inner = no_delay_of(transport)->inner;
    const semel_transport_driver *of = semel_transport_driver_of(inner);
    return of->revoked && of->revoked(semel_transport_state(inner, of), tag);
}

static const semel_transport_driver driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_COUNTS,
    .scheme = "no-delay",
    .transport_size = sizeof(no_delay *),
    .open = start,
    .close = end,
    .durability = durability,
    .publish = publish,
    .receive = receive,
    .settle = settle,
    .revoked = revoked,
};

static void close_transport(void *thing)
{
    semel_transport_close(thing);
}

semel_transport *no_delay_open(fixture *f, no_delay *self, const semel_seam *seam)
{
    semel_transport *transport = NULL;
    semel_transport_options options = {.size = sizeof options, .seam = seam};
    OK(semel_transport_open_driver(&transport, &driver, self, &options, &last_error));
    fixture_keep(f, close_transport, transport);
    return transport;
}
