/* What is particular to queues in a store: opening, rejecting and replaying, extending, giving
 * back, and names and counters that are apart from those of outboxes. What all transports must do
 * is in the conformance suite. */
#include "store/memory/memory.h"
#include "support/base/check.h"
#include "support/base/scratch.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/deadline.h"

#include <semel/sys/transport.h>
#include <semel/test.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    scratch dir;
    char url[SCRATCH_PATH];
    semel_test_seam *seam;
    semel_store *store;
    semel_transport *queue;
} fixture;

enum { LEASE_MS = 10000, SOME = 4 };

static semel_transport *open_queue(fixture *f, const char *name)
{
    semel_queue_options options = {.size = sizeof options, .lease_ms = LEASE_MS};
    semel_transport *queue = NULL;
    OK(semel_queue_open(&queue, f->store, name, &options, &last_error));
    return queue;
}

/* *state: "sqlite" or "memory". */
static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const char *kind = *state;
    if (!f)
        return -1;
    *state = f;
    deadline_begin();
    scratch_open(&f->dir);
    OK(semel_test_seam_open(&f->seam, 1, &last_error));
    semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(f->seam)};
    scratch_sqlite(f->url, &f->dir, "store.db");
    OK(semel_store_open(&f->store, strcmp(kind, "memory") == 0 ? "memory:" : f->url, &options,
                        &last_error));
    OK(semel_store_migrate(f->store, &last_error));
    f->queue = open_queue(f, "orders");
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    semel_transport_close(f->queue);
    semel_store_close(f->store);
    semel_test_seam_close(f->seam);
    scratch_close(&f->dir);
    free(f);
    deadline_end();
    return 0;
}

/* --- tools ------------------------------------------------------------------------------------ */

static void publish(semel_transport *queue, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result;
    message.group = group;
    OK(semel_transport_publish(&result, queue, &pointer, 1, 1000, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static semel_delivery receive(semel_transport *queue, const char *id, uint32_t delivery)
{
    semel_delivery got;
    size_t count = 0;
    OK(semel_transport_receive(queue, &got, 1, &count, 0, &last_error));
    assert_int_equal(count, 1);
    BYTES_EQUAL(semel_str(id), got.message->id);
    assert_int_equal(got.message->delivery, delivery);
    return got;
}

static void receive_nothing(semel_transport *queue)
{
    semel_delivery got;
    size_t count = 9;
    OK(semel_transport_receive(queue, &got, 1, &count, 0, &last_error));
    assert_int_equal(count, 0);
}

static void settle(semel_transport *queue, semel_delivery delivery, semel_verdict verdict)
{
    semel_delivery_settlement one = {delivery.tag, verdict, 0};
    OK(semel_transport_settle(queue, &one, 1, &last_error));
}

static const semel_transport_driver *driver_of(const semel_transport *queue, void **state)
{
    const semel_transport_driver *driver = semel_transport_driver_of(queue);
    *state = semel_transport_state(queue, driver);
    return driver;
}

/* --- names and counters ----------------------------------------------------------------------- */

static void a_queue_and_an_outbox_of_one_name_do_not_meet(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = NULL;
    semel_relay *relay = NULL;
    semel_transport *recorder = NULL;
    semel_message message = text_message("sent", "10 EUR");
    size_t sent = 9;
    OK(semel_outbox_open(&outbox, f->store, "orders", &last_error));
    publish(f->queue, "queued", NULL);
    OK(semel_test_recorder_open(&recorder, &last_error));
    OK(semel_relay_open(&relay, outbox, recorder, NULL, &last_error));
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 0);
    OK(semel_outbox_send(outbox, &message, &last_error));
    settle(f->queue, receive(f->queue, "queued", 1), SEMEL_VERDICT_ACK);
    receive_nothing(f->queue);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    semel_relay_close(relay);
    semel_transport_close(recorder);
    semel_outbox_close(outbox);
}

static void what_is_queued_is_not_unsent(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = NULL;
    semel_message message = text_message("sent", "10 EUR");
    semel_counters counters = {0};
    publish(f->queue, "queued", NULL);
    publish(f->queue, "grouped", "g");
    OK(semel_store_counters(&counters, sizeof counters, f->store, &last_error));
    assert_int_equal(counters.unsent, 0);
    assert_int_equal(counters.oldest_unsent_ms, 0);
    semel_test_advance_ms(f->seam, 5000);
    int64_t now = 0;
    OK(semel_store_now(&now, f->store, &last_error));
    OK(semel_outbox_open(&outbox, f->store, "orders", &last_error));
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_outbox_close(outbox);
    OK(semel_store_counters(&counters, sizeof counters, f->store, &last_error));
    assert_int_equal(counters.unsent, 1);
    assert_int_equal(counters.oldest_unsent_ms, now);
}

typedef struct listing {
    unsigned rows, leased;
} listing;

static semel_status count_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    listing *seen = context;
    (void)err;
    seen->rows++;
    seen->leased += outgoing->leased != 0;
    return SEMEL_OK;
}

static void what_is_queued_is_listed(void **state)
{
    fixture *f = *state;
    listing seen = {0};
    semel_transport *recorder = NULL;
    publish(f->queue, "a", NULL);
    publish(f->queue, "b", NULL);
    semel_delivery out = receive(f->queue, "a", 1);
    OK(semel_queue_list(f->queue, NULL, count_row, &seen, &last_error));
    assert_int_equal(seen.rows, 2);
    assert_int_equal(seen.leased, 1);
    settle(f->queue, out, SEMEL_VERDICT_ACK);
    OK(semel_test_recorder_open(&recorder, &last_error));
    FAILS(SEMEL_EINVAL, semel_queue_list(recorder, NULL, count_row, &seen, &last_error));
    semel_transport_close(recorder);
}

static void two_queues_do_not_meet(void **state)
{
    fixture *f = *state;
    semel_transport *other = open_queue(f, "bills");
    publish(other, "bill", NULL);
    receive_nothing(f->queue);
    settle(other, receive(other, "bill", 1), SEMEL_VERDICT_ACK);
    semel_transport_close(other);
}

/* --- rejecting and replaying ------------------------------------------------------------------ */

typedef struct found {
    unsigned count;
    int64_t id;
    uint32_t attempts;
} found;

static semel_status note_letter(const semel_dead *dead, void *context, semel_error *err)
{
    found *all = context;
    (void)err;
    all->count += dead->origin == SEMEL_DEAD_QUEUE && strcmp(dead->name, "orders") == 0;
    all->id = dead->id;
    all->attempts = dead->attempts;
    return SEMEL_OK;
}

static found letters_of(fixture *f)
{
    found all = {0};
    semel_dead_filter filter = {.size = sizeof filter, .origin = SEMEL_DEAD_QUEUE};
    OK(semel_dead_list(f->store, &filter, note_letter, &all, &last_error));
    return all;
}

static void what_is_rejected_can_be_replayed(void **state)
{
    fixture *f = *state;
    publish(f->queue, "m-1", NULL);
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_RETRY);
    settle(f->queue, receive(f->queue, "m-1", 2), SEMEL_VERDICT_REJECT);
    receive_nothing(f->queue);
    found dead = letters_of(f);
    assert_int_equal(dead.count, 1);
    assert_int_equal(dead.attempts, 2);
    OK(semel_queue_replay(f->queue, dead.id, &last_error));
    assert_int_equal(letters_of(f).count, 0);
    FAILS(SEMEL_ENOTFOUND, semel_queue_replay(f->queue, dead.id, &last_error));
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_ACK);
    receive_nothing(f->queue);
}

static void each_of_two_with_one_id_has_its_letter(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        publish(f->queue, "m-1", NULL);
        settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_REJECT);
    }
    assert_int_equal(letters_of(f).count, 2);
}

static void a_letter_of_another_queue_is_not_found(void **state)
{
    fixture *f = *state;
    semel_transport *other = open_queue(f, "bills");
    publish(f->queue, "m-1", NULL);
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_REJECT);
    FAILS(SEMEL_ENOTFOUND, semel_queue_replay(other, letters_of(f).id, &last_error));
    assert_int_equal(letters_of(f).count, 1);
    semel_transport_close(other);
}

/* A late reject must not make a letter of what another consumer has. */
static void a_lost_delivery_leaves_no_letter(void **state)
{
    fixture *f = *state;
    semel_transport *other = open_queue(f, "orders");
    publish(f->queue, "m-1", NULL);
    semel_delivery late = receive(f->queue, "m-1", 1);
    semel_test_advance_ms(f->seam, LEASE_MS);
    semel_delivery again = receive(other, "m-1", 2);
    semel_delivery_settlement reject = {late.tag, SEMEL_VERDICT_REJECT, 0};
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->queue, &reject, 1, &last_error));
    assert_int_equal(letters_of(f).count, 0);
    settle(other, again, SEMEL_VERDICT_ACK);
    semel_transport_close(other);
}

/* --- extending and giving back ---------------------------------------------------------------- */

static void an_extended_delivery_stays_out(void **state)
{
    fixture *f = *state;
    void *queue = NULL;
    const semel_transport_driver *driver = driver_of(f->queue, &queue);
    semel_transport *other = open_queue(f, "orders");
    uint32_t hold_ms = 0;
    OK(driver->extend(queue, NULL, 0, &hold_ms, &last_error));
    assert_int_equal(hold_ms, LEASE_MS);
    publish(f->queue, "m-1", NULL);
    semel_delivery plain = receive(f->queue, "m-1", 1);
    publish(f->queue, "m-2", "g");
    semel_delivery grouped = receive(f->queue, "m-2", 1);
    const uint64_t tags[3] = {plain.tag, 4711, grouped.tag};
    for (int i = 0; i < SOME; i++) {
        semel_test_advance_ms(f->seam, LEASE_MS - 1);
        OK(driver->extend(queue, tags, 3, &hold_ms, &last_error));
        receive_nothing(other);
    }
    settle(f->queue, plain, SEMEL_VERDICT_ACK);
    semel_test_advance_ms(f->seam, LEASE_MS);
    settle(other, receive(other, "m-2", 2), SEMEL_VERDICT_ACK);
    OK(driver->extend(queue, tags, 3, &hold_ms, &last_error)); /* another had it: passed over */
    receive_nothing(other);
    semel_transport_close(other);
}

/* Untried: the attempt does not count, and its place is the old one. */
static void what_is_given_back_keeps_its_place(void **state)
{
    fixture *f = *state;
    void *queue = NULL;
    const semel_transport_driver *driver = driver_of(f->queue, &queue);
    publish(f->queue, "m-1", "g");
    semel_delivery first = receive(f->queue, "m-1", 1);
    publish(f->queue, "m-2", "g");
    driver->give_back(queue);
    semel_delivery again = receive(f->queue, "m-1", 1);
    BYTES_EQUAL(semel_str("m-1"), first.message->id); /* readable until it is settled */
    settle(f->queue, first, SEMEL_VERDICT_RETRY);
    receive_nothing(f->queue);
    settle(f->queue, again, SEMEL_VERDICT_ACK);
    settle(f->queue, receive(f->queue, "m-2", 1), SEMEL_VERDICT_ACK);
}

static void closing_gives_back(void **state)
{
    fixture *f = *state;
    semel_transport *other = open_queue(f, "orders");
    publish(f->queue, "m-1", NULL);
    (void)receive(other, "m-1", 1);
    receive_nothing(f->queue);
    semel_transport_close(other);
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_ACK);
}

/* --- groups and publishing -------------------------------------------------------------------- */

static void a_group_has_one_consumer_at_a_time(void **state)
{
    fixture *f = *state;
    semel_transport *other = open_queue(f, "orders");
    publish(f->queue, "a-1", "a");
    publish(f->queue, "a-2", "a");
    publish(f->queue, "b-1", "b");
    semel_delivery held = receive(f->queue, "a-1", 1);
    settle(other, receive(other, "b-1", 1), SEMEL_VERDICT_ACK);
    receive_nothing(other);
    settle(f->queue, held, SEMEL_VERDICT_RETRY);
    settle(other, receive(other, "a-1", 2), SEMEL_VERDICT_ACK);
    settle(f->queue, receive(f->queue, "a-2", 1), SEMEL_VERDICT_ACK);
    semel_transport_close(other);
}

static void a_delay_holds_a_message_back(void **state)
{
    fixture *f = *state;
    semel_message message = text_message("m-1", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result;
    message.delay_ms = 5000;
    OK(semel_transport_publish(&result, f->queue, &pointer, 1, 1000, &last_error));
    receive_nothing(f->queue);
    semel_test_advance_ms(f->seam, 5000);
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_ACK);
}

/* What an outbox has held back for its delay is not held back once more. */
static void a_relayed_message_is_delayed_once(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = NULL;
    semel_relay *relay = NULL;
    semel_message message = text_message("m-1", "10 EUR");
    size_t sent = 0;
    message.delay_ms = 5000;
    OK(semel_outbox_open(&outbox, f->store, "orders", &last_error));
    OK(semel_relay_open(&relay, outbox, f->queue, NULL, &last_error));
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_advance_ms(f->seam, 5000);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_ACK);
    semel_relay_close(relay);
    semel_outbox_close(outbox);
}

static void a_message_without_an_id_gets_one(void **state)
{
    fixture *f = *state;
    semel_message message = {.size = sizeof message, .body = {"x", 1}};
    const semel_message *pointer = &message;
    semel_publish_result result;
    semel_delivery got;
    size_t count = 0;
    OK(semel_transport_publish(&result, f->queue, &pointer, 1, 1000, &last_error));
    OK(semel_transport_receive(f->queue, &got, 1, &count, 0, &last_error));
    assert_int_equal(count, 1);
    assert_int_equal(got.message->id.len, 36);
    settle(f->queue, got, SEMEL_VERDICT_ACK);
}

/* All or nothing: one that cannot be stored takes the others with it. */
static void a_bad_message_keeps_its_batch_out(void **state)
{
    fixture *f = *state;
    semel_message good = text_message("good", "10 EUR"), bad = good;
    const semel_message *pointers[] = {&good, &bad};
    semel_publish_result results[2];
    bad.body = (semel_bytes){NULL, 7};
    FAILS(SEMEL_EINVAL, semel_transport_publish(results, f->queue, pointers, 2, 1000, &last_error));
    assert_int_equal(results[0], SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(results[1], SEMEL_PUBLISH_UNKNOWN);
    receive_nothing(f->queue);
}

static void a_verdict_that_is_none_changes_nothing(void **state)
{
    fixture *f = *state;
    publish(f->queue, "m-1", NULL);
    semel_delivery got = receive(f->queue, "m-1", 1);
    semel_delivery_settlement none = {got.tag, (semel_verdict)9, 0};
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->queue, &none, 1, &last_error));
    settle(f->queue, got, SEMEL_VERDICT_ACK);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void a_bad_name_or_option_is_refused(void **state)
{
    fixture *f = *state;
    semel_transport *queue = NULL;
    semel_queue_options unset = {.lease_ms = 1};
    FAILS(SEMEL_EINVAL, semel_queue_open(&queue, f->store, "or ders", NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_queue_open(&queue, f->store, NULL, NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_queue_open(&queue, f->store, "orders", &unset, &last_error));
    SAYS("semel_queue_options.size");
}

/* At opening, and not at the first delivery that takes too long. */
static void a_store_that_cannot_extend_is_refused(void **state)
{
    semel_store_outbox outbox = *memory_store_driver.outbox;
    semel_store_driver driver = memory_store_driver;
    semel_store *store = NULL;
    semel_transport *queue = NULL;
    (void)state;
    outbox.extend = NULL;
    driver.outbox = &outbox;
    OK(semel_store_open_driver(&store, &driver, "memory:", NULL, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_queue_open(&queue, store, "orders", NULL, &last_error));
    SAYS("queue");
    semel_store_close(store);
}

static void only_a_queue_is_replayed_into(void **state)
{
    semel_transport *memory = NULL;
    (void)state;
    OK(semel_transport_open(&memory, "memory:", NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_queue_replay(memory, 1, &last_error));
    semel_transport_close(memory);
}

static void a_url_and_a_handle_name_one_queue(void **state)
{
    fixture *f = *state;
    char url[SCRATCH_PATH + 32];
    semel_transport *by_url = NULL;
    semel_transport_options options = {.size = sizeof options,
                                       .seam = semel_test_seam_get(f->seam)};
    (void)snprintf(url, sizeof url, "store:%s#orders", f->url);
    OK(semel_transport_open(&by_url, url, &options, &last_error));
    assert_string_equal(semel_transport_warnings(by_url), "");
    publish(f->queue, "m-1", NULL);
    settle(by_url, receive(by_url, "m-1", 1), SEMEL_VERDICT_REJECT);
    OK(semel_queue_replay(by_url, letters_of(f).id, &last_error));
    settle(f->queue, receive(f->queue, "m-1", 1), SEMEL_VERDICT_ACK);
    semel_transport_close(by_url);
}

/* clang-format off */
#define ON(test, kind) {#test ", " kind, test, setup, teardown, (void *)(uintptr_t)(kind)}
#define ON_BOTH(test) ON(test, "sqlite"), ON(test, "memory")
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_queue_and_an_outbox_of_one_name_do_not_meet),
        ON_BOTH(what_is_queued_is_not_unsent),
        ON_BOTH(what_is_queued_is_listed),
        ON_BOTH(two_queues_do_not_meet),
        ON_BOTH(what_is_rejected_can_be_replayed),
        ON_BOTH(each_of_two_with_one_id_has_its_letter),
        ON_BOTH(a_letter_of_another_queue_is_not_found),
        ON_BOTH(a_lost_delivery_leaves_no_letter),
        ON_BOTH(an_extended_delivery_stays_out),
        ON_BOTH(what_is_given_back_keeps_its_place),
        ON_BOTH(closing_gives_back),
        ON_BOTH(a_group_has_one_consumer_at_a_time),
        ON_BOTH(a_delay_holds_a_message_back),
        ON_BOTH(a_relayed_message_is_delayed_once),
        ON_BOTH(a_message_without_an_id_gets_one),
        ON_BOTH(a_bad_message_keeps_its_batch_out),
        ON_BOTH(a_verdict_that_is_none_changes_nothing),
        ON_BOTH(a_bad_name_or_option_is_refused),
        ON(a_store_that_cannot_extend_is_refused, "memory"),
        ON(only_a_queue_is_replayed_into, "memory"),
        ON(a_url_and_a_handle_name_one_queue, "sqlite"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
