/* Queues in PostgreSQL and MariaDB: several processes, leases that are extended, counters,
 * replay. */
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/deadline.h"
#include "support/scenario/queue_processes.h"
#include "support/servers/server_each.h"

#include <semel/sys/transport.h>

enum { LEASE_MS = 60000, GRAIN_MS = 20000, SOME = 3 };

static char url[SERVER_URL_ROOM];

static int setup(void **state)
{
    server_place shared;
    deadline_begin();
    server_find(&shared, kind_of_state(state));
    server_fresh(url, &shared);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    server_drop(url);
    deadline_end();
    return 0;
}

static void consumers_keep_the_order_of_each_group(void **state)
{
    (void)state;
    queue_processes_keep_the_order(url);
}

static void nothing_is_lost_when_processes_are_killed(void **state)
{
    (void)state;
    queue_processes_are_killed(url);
}

/* --- by one process --------------------------------------------------------------------------- */

static semel_store *open_store(void)
{
    semel_store *store = NULL;
    OK(semel_store_open(&store, url, NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    return store;
}

static semel_transport *open_queue(semel_store *store)
{
    semel_queue_options options = {.size = sizeof options, .lease_ms = LEASE_MS};
    semel_transport *queue = NULL;
    OK(semel_queue_open(&queue, store, "orders", &options, &last_error));
    return queue;
}

static void publish(semel_transport *queue, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result;
    message.group = group;
    OK(semel_transport_publish(&result, queue, &pointer, 1, 1000, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static size_t receive(semel_transport *queue, semel_delivery out[SOME])
{
    size_t count = 9;
    OK(semel_transport_receive(queue, out, SOME, &count, 0, &last_error));
    return count;
}

static void an_extended_delivery_stays_out(void **state)
{
    semel_store *store = open_store();
    semel_transport *queue = open_queue(store);
    const semel_transport_driver *driver = semel_transport_driver_of(queue);
    void *self = semel_transport_state(queue, driver);
    semel_delivery out[SOME], none[SOME];
    uint32_t hold_ms = 0;
    (void)state;
    publish(queue, "m-1", NULL);
    publish(queue, "m-2", "g");
    assert_int_equal(receive(queue, out), 2);
    const uint64_t tags[3] = {out[0].tag, 4711, out[1].tag};
    for (int i = 0; i < SOME; i++) {
        server_pass_ms(url, LEASE_MS - GRAIN_MS);
        OK(driver->extend(self, tags, 3, &hold_ms, &last_error));
        OK(driver->extend(self, tags, 3, &hold_ms, &last_error)); /* in the same millisecond, too */
        assert_int_equal(hold_ms, LEASE_MS);
        assert_int_equal(receive(queue, none), 0);
    }
    server_pass_ms(url, LEASE_MS);
    assert_int_equal(receive(queue, none), 2);
    OK(driver->extend(self, tags, 3, &hold_ms, &last_error)); /* lost: passed over */
    for (int i = 0; i < 2; i++) {
        semel_delivery_settlement late = {out[i].tag, SEMEL_VERDICT_ACK, 0};
        FAILS(SEMEL_EINVAL, semel_transport_settle(queue, &late, 1, &last_error));
        semel_delivery_settlement ack = {none[i].tag, SEMEL_VERDICT_ACK, 0};
        OK(semel_transport_settle(queue, &ack, 1, &last_error));
    }
    semel_transport_close(queue);
    semel_store_close(store);
}

static void what_is_queued_is_not_unsent(void **state)
{
    semel_store *store = open_store();
    semel_transport *queue = open_queue(store);
    semel_outbox *outbox = NULL;
    semel_message message = text_message("sent", "10 EUR");
    semel_counters counters = {0};
    (void)state;
    publish(queue, "queued", NULL);
    publish(queue, "grouped", "g");
    OK(semel_store_counters(&counters, sizeof counters, store, &last_error));
    assert_int_equal(counters.unsent, 0);
    assert_int_equal(counters.oldest_unsent_ms, 0);
    OK(semel_outbox_open(&outbox, store, "orders", &last_error));
    OK(semel_outbox_send(outbox, &message, &last_error));
    OK(semel_store_counters(&counters, sizeof counters, store, &last_error));
    assert_int_equal(counters.unsent, 1);
    assert_true(counters.oldest_unsent_ms > 0);
    semel_outbox_close(outbox);
    semel_transport_close(queue);
    semel_store_close(store);
}

static semel_status note_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = dead->id;
    return SEMEL_OK;
}

static void what_is_rejected_can_be_replayed(void **state)
{
    semel_store *store = open_store();
    semel_transport *queue = open_queue(store);
    semel_dead_filter filter = {
        .size = sizeof filter, .origin = SEMEL_DEAD_QUEUE, .name = "orders"};
    semel_delivery out[SOME];
    int64_t id = 0;
    (void)state;
    publish(queue, "m-1", NULL);
    assert_int_equal(receive(queue, out), 1);
    semel_delivery_settlement reject = {out[0].tag, SEMEL_VERDICT_REJECT, 0};
    OK(semel_transport_settle(queue, &reject, 1, &last_error));
    assert_int_equal(receive(queue, out), 0);
    OK(semel_dead_list(store, &filter, note_letter, &id, &last_error));
    OK(semel_queue_replay(queue, id, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_queue_replay(queue, id, &last_error));
    assert_int_equal(receive(queue, out), 1);
    BYTES_EQUAL(semel_str("m-1"), out[0].message->id);
    assert_int_equal(out[0].message->delivery, 1);
    semel_transport_close(queue);
    semel_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(an_extended_delivery_stays_out, setup, teardown),
        ON_EACH(what_is_queued_is_not_unsent, setup, teardown),
        ON_EACH(what_is_rejected_can_be_replayed, setup, teardown),
        ON_EACH(consumers_keep_the_order_of_each_group, setup, teardown),
        ON_EACH(nothing_is_lost_when_processes_are_killed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
