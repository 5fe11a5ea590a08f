/* Deliveries that a broker takes back after a time are kept while they are handled, and while they
 * wait. */
#include "support/fixture/fixture.h"
#include "support/process/process.h"

#include <semel/sys/transport.h>
#include <stdatomic.h>
#include <string.h>

enum { HOLD_MS = 60, DEADLINE_MS = 60000 };

/* A queue in memory, which says that it takes deliveries back. */
typedef struct lease_transport {
    semel_transport *inner;
    uint32_t hold_ms;
    atomic_int broken;      /* extending fails, with this status */
    atomic_uint calls;      /* with deliveries */
    atomic_uint deliveries; /* of the last one */
    atomic_ullong tag;      /* the first one's */
} lease_transport;

static lease_transport *lease_transport_of(void *transport)
{
    return *(lease_transport **)transport;
}

static semel_status lease_transport_open(void *transport, const char *argument,
                                         const semel_transport_settings *settings, semel_error *err)
{
    (void)settings, (void)err;
    memcpy(transport, &argument, sizeof argument);
    return SEMEL_OK;
}

static void lease_transport_close(void *transport)
{
    (void)transport;
}

static semel_durability lease_transport_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status lease_transport_publish(void *transport, semel_publish_result results[],
                                            const semel_message *const messages[], size_t count,
                                            uint32_t wait_ms, semel_error *err)
{
    return semel_transport_publish(results, lease_transport_of(transport)->inner, messages, count,
                                   wait_ms, err);
}

static semel_status lease_transport_receive(void *transport, semel_delivery deliveries[],
                                            size_t max, size_t *count, uint32_t wait_ms,
                                            semel_error *err)
{
    return semel_transport_receive(lease_transport_of(transport)->inner, deliveries, max, count,
                                   wait_ms, err);
}

static semel_status lease_transport_settle(void *transport,
                                           const semel_delivery_settlement settles[], size_t count,
                                           semel_error *err)
{
    return semel_transport_settle(lease_transport_of(transport)->inner, settles, count, err);
}

static semel_status lease_transport_extend(void *transport, const uint64_t tags[], size_t count,
                                           uint32_t *hold_ms, semel_error *err)
{
    lease_transport *self = lease_transport_of(transport);
    int status = atomic_load(&self->broken);
    *hold_ms = self->hold_ms;
    if (!count)
        return SEMEL_OK;
    atomic_store(&self->deliveries, (unsigned)count);
    atomic_store(&self->tag, tags[0]);
    atomic_fetch_add(&self->calls, 1);
    return status ? semel_fail(err, (semel_status)status, "the broker is away") : SEMEL_OK;
}

#define LENDING(bits)                                                                      \
    {                                                                                      \
        .version = SEMEL_TRANSPORT_DRIVER_VERSION, .abilities = (bits), .scheme = "lease", \
        .transport_size = sizeof(lease_transport *), .open = lease_transport_open,         \
        .close = lease_transport_close, .durability = lease_transport_durability,          \
        .publish = lease_transport_publish, .receive = lease_transport_receive,            \
        .settle = lease_transport_settle, .extend = lease_transport_extend                 \
    }

static const semel_transport_driver shared =
    LENDING(SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_COUNTS);
static const semel_transport_driver unshared = LENDING(SEMEL_TRANSPORT_COUNTS);

/* --- a consumer of it ------------------------------------------------------------------------- */

typedef struct consumer_case {
    fixture *f;
    lease_transport queue;
    semel_transport *transport;
    semel_consumer *consumer;
    semel_route route;
    unsigned handled;
} consumer_case;

/* It takes as long as it takes for its delivery to be kept twice. */
static semel_status handle_slowly(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    consumer_case *s = context;
    unsigned before = atomic_load(&s->queue.calls);
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    (void)unit, (void)message;
    while (atomic_load(&s->queue.calls) < before + 2 && process_now_ms() < deadline)
        process_nap();
    s->handled++;
    semel_consumer_stop(s->consumer);
    return atomic_load(&s->queue.calls) < before + 2
               ? semel_fail(err, SEMEL_EHANDLER, "the delivery was not kept")
               : SEMEL_OK;
}

static void consumer_case_open(consumer_case *s, void **state, uint32_t hold_ms)
{
    semel_message message = text_message("m", "a");
    const semel_message *one = &message;
    semel_publish_result result;
    *s = (consumer_case){.f = *state, .queue.hold_ms = hold_ms};
    s->queue.inner = fixture_queue(s->f, "memory:");
    s->route = (semel_route){"*", fixture_inbox(s->f, "inbox", NULL), handle_slowly, s};
    OK(semel_transport_open_driver(&s->transport, &shared, &s->queue, NULL, &last_error));
    OK(semel_transport_publish(&result, s->transport, &one, 1, DEADLINE_MS, &last_error));
    OK(semel_consumer_open(&s->consumer, s->transport, &s->route, 1, NULL, &last_error));
}

static void consumer_case_close(consumer_case *s)
{
    semel_consumer_close(s->consumer);
    semel_transport_close(s->transport);
}

static void a_delivery_is_kept_while_its_handler_works(void **state)
{
    consumer_case s;
    consumer_case_open(&s, state, HOLD_MS);
    OK(semel_consumer_run(s.consumer, &last_error));
    assert_int_equal(s.handled, 1);
    assert_int_equal(fixture_counters(s.f).processed, 1);
    assert_int_equal(atomic_load(&s.queue.deliveries), 1);
    assert_int_not_equal(atomic_load(&s.queue.tag), 0);
    consumer_case_close(&s);
}

/* The workers meet the outage themselves, if it is one. */
static void keeping_may_fail_for_a_while(void **state)
{
    consumer_case s;
    consumer_case_open(&s, state, HOLD_MS);
    atomic_store(&s.queue.broken, SEMEL_EUNAVAILABLE);
    OK(semel_consumer_run(s.consumer, &last_error));
    assert_int_equal(s.handled, 1);
    assert_int_equal(fixture_counters(s.f).processed, 1);
    consumer_case_close(&s);
}

static semel_status fail_always(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    (void)unit, (void)message, (void)context;
    return semel_fail(err, SEMEL_EHANDLER, "not yet");
}

/* Step by step there is no thread for it; what waits for its backoff is kept by the steps. */
static void a_delivery_that_waits_is_kept_by_the_steps(void **state)
{
    consumer_case s;
    size_t settled = 0;
    consumer_case_open(&s, state, HOLD_MS);
    semel_consumer_close(s.consumer);
    s.route.handler = fail_always;
    OK(semel_consumer_open(&s.consumer, s.transport, &s.route, 1, NULL, &last_error));
    int64_t deadline = process_now_ms() + DEADLINE_MS;
    while (atomic_load(&s.queue.calls) < 2 && process_now_ms() < deadline) {
        OK(semel_consumer_step(&settled, s.consumer, 0, &last_error));
        process_nap();
    }
    assert_true(atomic_load(&s.queue.calls) >= 2);
    assert_int_equal(atomic_load(&s.queue.deliveries), 1);
    consumer_case_close(&s);
}

static void deliveries_without_an_end_are_not_kept(void **state)
{
    consumer_case s;
    consumer_case_open(&s, state, 0);
    s.queue.hold_ms = HOLD_MS; /* it is asked once, at opening */
    semel_consumer_stop(s.consumer);
    OK(semel_consumer_run(s.consumer, &last_error));
    assert_int_equal(atomic_load(&s.queue.calls), 0);
    consumer_case_close(&s);
}

static void a_transport_that_threads_may_not_share_cannot_lend(void **state)
{
    consumer_case s;
    semel_consumer *consumer = NULL;
    semel_transport *transport = NULL;
    consumer_case_open(&s, state, HOLD_MS);
    OK(semel_transport_open_driver(&transport, &unshared, &s.queue, NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, transport, &s.route, 1, NULL, &last_error));
    SAYS("threads may share");
    semel_transport_close(transport);
    consumer_case_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a delivery is kept while its handler works",
                a_delivery_is_kept_while_its_handler_works),
        ON_MEMORY("keeping may fail for a while", keeping_may_fail_for_a_while),
        ON_MEMORY("a delivery that waits is kept by the steps",
                  a_delivery_that_waits_is_kept_by_the_steps),
        ON_MEMORY("deliveries without an end are not kept", deliveries_without_an_end_are_not_kept),
        ON_MEMORY("a transport that threads may not share cannot lend",
                  a_transport_that_threads_may_not_share_cannot_lend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
