/* All of it together, over a transport that delivers everything twice, late and out of order, with
 * handlers that fail now and then: every effect happens once. An effect is a message in an
 * outbox. */
#include "support/fixture/fixture.h"
#include "support/process/process.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 500, SOON_MS = 60000 };

static void close_transport(void *thing)
{
    semel_transport_close(thing);
}

static semel_transport *chaos_around(fixture *f, semel_transport *inner, uint32_t copies)
{
    semel_test_chaos_options options = {
        .size = sizeof options, .copies = copies, .hold_max = 40, .seed = 7};
    semel_transport *chaos = NULL;
    OK(semel_test_chaos_open(&chaos, inner, &options, &last_error));
    fixture_keep(f, close_transport, chaos);
    return chaos;
}

static void publish_all(semel_transport *queue)
{
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        semel_publish_result result;
        (void)snprintf(id, sizeof id, "m%d", i);
        semel_message message = text_message(id, "a");
        const semel_message *one = &message;
        OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
    }
}

/* Does what it must by sending, and fails one time in ten, after that. */
typedef struct flaky {
    semel_outbox *outbox;
    uint32_t runs;
    uint32_t failures;
} flaky;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    flaky *self = context;
    char id[64];
    (void)snprintf(id, sizeof id, "from-%.*s", (int)message->id.len,
                   (const char *)message->id.data);
    semel_message event = text_message(id, "event");
    event.group = message->group;
    semel_status status = semel_unit_send(unit, self->outbox, &event, err);
    if (!status && ++self->runs % 10 == 0) {
        self->failures++;
        return semel_fail(err, SEMEL_EHANDLER, "every tenth time");
    }
    return status;
}

/* The chaos transport has the system's clock and keeps no delays: a failing delivery is held back
 * by the consumer, in real time. */
static semel_consumer_options impatient(uint32_t batch)
{
    return (semel_consumer_options){.size = sizeof(semel_consumer_options),
                                    .batch = batch,
                                    .backoff_ms = 1,
                                    .backoff_max_ms = 2};
}

/* Steps until so many are settled, which must be soon; and once more, to see that there is nothing
 * else. */
static void run_dry(semel_consumer *consumer, size_t count)
{
    size_t all = 0, settled = 0;
    for (int64_t end = process_now_ms() + SOON_MS; all < count; all += settled) {
        OK(semel_consumer_step(&settled, consumer, 10, &last_error));
        if (process_now_ms() > end)
            fail_msg("%zu of %zu are settled, and no more", all, count);
    }
    assert_int_equal(all, count);
    OK(semel_consumer_step(&settled, consumer, 10, &last_error));
    assert_int_equal(settled, 0);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The recorder has `count` messages, and no id twice. */
static void assert_each_once(const semel_transport *recorder, size_t count)
{
    const char **ids = calloc(count, sizeof(char *));
    assert_non_null(ids);
    assert_int_equal(semel_test_recorder_count(recorder), count);
    for (size_t i = 0; i < count; i++) /* a copied id has a NUL behind it */
        ids[i] = semel_test_recorder_message(recorder, i)->id.data;
    qsort(ids, count, sizeof(char *), compare_ids);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(ids[i - 1], ids[i]);
    free(ids);
}

static void survive_chaos(fixture *f, uint32_t batch, semel_mode mode, uint32_t copies)
{
    semel_transport *queue = fixture_queue(f, "memory:"), *recorder = fixture_recorder(f);
    semel_inbox_options options = {.size = sizeof options, .mode = mode, .attempts_max = 100};
    semel_consumer_options consumer_options = impatient(batch);
    flaky self = {.outbox = fixture_outbox(f, "out")};
    semel_route route = {"*", fixture_inbox(f, "inbox", &options), handle, &self};
    semel_consumer *consumer =
        fixture_consumer(f, chaos_around(f, queue, copies), &route, 1, &consumer_options);
    publish_all(queue);
    run_dry(consumer, (size_t)COUNT * copies);
    assert_true(self.failures >= COUNT / 10);
    assert_int_equal(self.runs, COUNT + self.failures);
    assert_int_equal(fixture_counters(f).duplicates, COUNT * (copies - 1));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
    fixture_drain(fixture_relay(f, self.outbox, recorder, NULL));
    assert_each_once(recorder, COUNT);
}

static void each_effect_happens_once(void **state)
{
    survive_chaos(*state, 1, SEMEL_TRANSACTION, 2);
}

static void each_effect_happens_once_in_batches(void **state)
{
    survive_chaos(*state, 16, SEMEL_TRANSACTION, 3);
}

static void each_effect_happens_once_with_claims(void **state)
{
    survive_chaos(*state, 4, SEMEL_CLAIM, 2);
}

/* --- end to end ------------------------------------------------------------------------------- */

/* shop (a store of its own) -> relay -> chaos -> consumer -> inbox, handler, outbox -> relay ->
 * recorder */
static void send_orders(semel_outbox *outbox, int count)
{
    for (int i = 0; i < count; i++) {
        char id[16], group[16];
        (void)snprintf(id, sizeof id, "o%03d", i);
        (void)snprintf(group, sizeof group, "customer%d", i % 7);
        semel_message order = text_message(id, "order");
        order.group = group;
        OK(semel_outbox_send(outbox, &order, &last_error));
    }
}

static void from_outbox_to_outbox_everything_arrives_once(void **state)
{
    enum { ORDERS = 200 };
    fixture *f = *state;
    semel_store_options options = {.size = sizeof options, .seam = f->host};
    semel_transport *queue = fixture_queue(f, "memory:"), *recorder = fixture_recorder(f);
    semel_store *shop = NULL;
    semel_outbox *orders = NULL;
    semel_relay *to_queue = NULL;
    flaky self = {.outbox = fixture_outbox(f, "invoices")};
    semel_inbox_options patient = {.size = sizeof patient, .attempts_max = 100};
    semel_route route = {"*", fixture_inbox(f, "orders", &patient), handle, &self};
    semel_consumer_options consumer_options = impatient(1);
    semel_consumer *consumer =
        fixture_consumer(f, chaos_around(f, queue, 2), &route, 1, &consumer_options);
    semel_relay *to_recorder = fixture_relay(f, self.outbox, recorder, NULL);
    OK(semel_store_open(&shop, "memory:", &options, &last_error));
    OK(semel_outbox_open(&orders, shop, "orders", &last_error));
    OK(semel_relay_open(&to_queue, orders, queue, NULL, &last_error));
    send_orders(orders, ORDERS);
    size_t settled = 0;
    for (int turn = 0; turn < 15; turn++) {
        size_t count;
        OK(semel_relay_step(&count, to_queue, 0, &last_error));
        for (int i = 0; i < 10; i++) {
            OK(semel_consumer_step(&count, consumer, 0, &last_error));
            settled += count;
        }
        OK(semel_relay_step(&count, to_recorder, 0, &last_error));
        semel_test_advance_ms(f->seam, 100);
    }
    run_dry(consumer, 2 * ORDERS - settled);
    fixture_drain(to_recorder);
    assert_each_once(recorder, ORDERS);
    assert_int_equal(fixture_counters(f).unsent, 0);
    semel_relay_close(to_queue);
    semel_outbox_close(orders);
    semel_store_close(shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("everything twice, late and out of order: each effect happens once",
                each_effect_happens_once),
        ON_BOTH("everything three times, in batches: each effect happens once",
                each_effect_happens_once_in_batches),
        ON_BOTH("everything twice, with claims: each effect happens once",
                each_effect_happens_once_with_claims),
        ON_BOTH("from outbox to outbox everything arrives once",
                from_outbox_to_outbox_everything_arrives_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
