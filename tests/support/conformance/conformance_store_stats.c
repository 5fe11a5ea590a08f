/* What the store says that it holds: messages that wait, those of them that are due, dead letters
 * and open claims; of the whole store, of an inbox and of an outbox; what is committed only. */
#include "support/conformance/conformance_store.h"

#include <semel/queue.h>
#include <string.h>

enum { DEADLINE_MS = 60000 };

static semel_stats of_store(store_fixture *f)
{
    semel_stats found;
    OK(semel_store_stats(&found, sizeof found, f->base.store, DEADLINE_MS, &last_error));
    assert_int_equal(found.open_claims, -1);
    assert_int_equal(found.keys, -1);
    return found;
}

static semel_stats of_outbox(semel_outbox *outbox)
{
    semel_stats found;
    OK(semel_outbox_stats(&found, sizeof found, outbox, DEADLINE_MS, &last_error));
    assert_int_equal(found.open_claims, -1);
    assert_int_equal(found.keys, -1);
    return found;
}

static semel_stats of_inbox(semel_inbox *inbox)
{
    semel_stats found;
    OK(semel_inbox_stats(&found, sizeof found, inbox, DEADLINE_MS, &last_error));
    assert_int_equal(found.unsent, 0);
    return found;
}

static void send_after(semel_outbox *outbox, uint32_t delay_ms)
{
    semel_message message = text_message(NULL, "paid");
    message.delay_ms = delay_ms;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

/* --- messages that wait ----------------------------------------------------------------------- */

static void an_empty_store_holds_nothing(void **state)
{
    store_fixture *f = *state;
    int64_t now = now_of(f);
    semel_stats found = of_store(f);
    assert_int_equal(found.unsent + found.due + found.dead, 0);
    assert_int_equal(found.oldest_unsent_ms, 0);
    assert_int_equal(found.oldest_due_ms, 0);
    IS_ABOUT(now, f, found.at_ms + f->passed_ms);
    assert_int_equal(of_inbox(open_inbox(f, "in", NULL)).open_claims, 0);
}

static void what_waits_is_counted_by_outbox(void **state)
{
    store_fixture *f = *state;
    semel_outbox *first = open_outbox(f, "first"), *second = open_outbox(f, "second");
    int64_t began = now_of(f);
    send_after(first, 0);
    pass_ms(f, grains(f, 10));
    int64_t later = now_of(f);
    send_after(first, 0);
    send_after(second, 0);
    assert_int_equal(of_outbox(first).unsent, 2);
    assert_int_equal(of_outbox(first).due, 2);
    STORED_AT(began, f, of_outbox(first).oldest_unsent_ms);
    STORED_AT(began, f, of_outbox(first).oldest_due_ms);
    assert_int_equal(of_outbox(second).unsent, 1);
    STORED_AT(later, f, of_outbox(second).oldest_unsent_ms);
    assert_int_equal(of_store(f).unsent, 3);
    assert_int_equal(of_store(f).due, 3);
    STORED_AT(began, f, of_store(f).oldest_unsent_ms);
}

static void what_waits_in_a_queue_is_not_unsent(void **state)
{
    store_fixture *f = *state;
    semel_transport *queue;
    semel_publish_result result;
    semel_message message = text_message("q", "queued");
    const semel_message *one = &message;
    OK(semel_queue_open(&queue, f->base.store, "mail", NULL, &last_error));
    OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
    assert_int_equal(of_store(f).unsent, 0);
    assert_int_equal(of_store(f).due, 0);
    send_after(open_outbox(f, "mail"), 0);
    assert_int_equal(of_store(f).unsent, 1);
    assert_int_equal(of_outbox(open_outbox(f, "mail")).unsent, 1);
    semel_transport_close(queue);
}

static void what_is_delayed_is_not_due_before_its_time(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    int64_t due = now_of(f) + grains(f, 50);
    send_after(outbox, grains(f, 50));
    assert_int_equal(of_outbox(outbox).unsent, 1);
    assert_int_equal(of_outbox(outbox).due, 0);
    assert_int_equal(of_outbox(outbox).oldest_due_ms, 0);
    pass_ms(f, grains(f, 60));
    assert_int_equal(of_outbox(outbox).due, 1);
    STORED_AT(due, f, of_outbox(outbox).oldest_due_ms);
}

/* The relay dies with the message: another one has it when the lease is over. */
static void what_is_leased_is_not_due_before_its_lease_ends(void **state)
{
    size_t sent;
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay_options options = {.size = sizeof options, .lease_ms = grains(f, 50)};
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), &options);
    send_after(outbox, 0);
    pass_ms(f, grains(f, 100));
    int64_t end = now_of(f) + grains(f, 50);
    semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(of_outbox(outbox).unsent, 1);
    assert_int_equal(of_outbox(outbox).due, 0);
    pass_ms(f, grains(f, 60));
    assert_int_equal(of_outbox(outbox).due, 1);
    STORED_AT(end, f, of_outbox(outbox).oldest_due_ms);
}

static void what_failed_is_not_due_before_its_next_attempt(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = grains(f, 50), .backoff_max_ms = grains(f, 50)};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    send_after(outbox, 0);
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_NACKED, 1);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(of_outbox(outbox).unsent, 1);
    assert_int_equal(of_outbox(outbox).due, 0);
    pass_ms(f, grains(f, 60));
    assert_int_equal(of_outbox(outbox).due, 1);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(of_outbox(outbox).unsent, 0);
}

/* Counting waits for no unit, and sees nothing of it before its commit. */
static void what_is_not_committed_is_not_counted(void **state)
{
    store_fixture *f = *state;
    semel_unit *unit = NULL;
    semel_message message = text_message("m", "paid");
    semel_outbox *outbox = open_outbox(f, "mail");
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_send(unit, outbox, &message, &last_error));
    assert_int_equal(of_outbox(outbox).unsent, 0);
    assert_int_equal(of_store(f).due, 0);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(of_outbox(outbox).unsent, 1);
}

/* --- dead letters ----------------------------------------------------------------------------- */

static void dead_letters_are_counted_by_origin(void **state)
{
    store_fixture *f = *state;
    scripted_handler bad = {.failures = 9, .failure = SEMEL_EGIVEUP};
    semel_inbox *first = open_inbox(f, "mail", NULL), *second = open_inbox(f, "second", NULL);
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, first, "a", &bad);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, first, "b", &bad);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, second, "a", &bad);
    send_after(outbox, 0);
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 1);
    (void)relay_once(open_relay(f, outbox, broker, &options));
    assert_int_equal(of_inbox(first).dead, 2);
    assert_int_equal(of_inbox(second).dead, 1);
    assert_int_equal(of_outbox(outbox).dead, 1);
    assert_int_equal(of_outbox(outbox).unsent, 0);
    assert_int_equal(of_store(f).dead, 4);
}

/* --- claims ----------------------------------------------------------------------------------- */

static void claims_are_open_until_they_end(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .lease_ms = grains(f, 50)};
    semel_inbox *inbox = open_inbox(f, "in", &options), *other = open_inbox(f, "other", &options);
    scripted_handler good = {0}, bad = {.failures = 1};
    semel_message a = text_message("a", ""), b = text_message("b", "");
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "done", &good);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "failed", &bad);
    semel_unit *unit = claim_message(f, inbox, &a);
    abandon_claim(f, inbox, &b);
    assert_int_equal(of_inbox(inbox).open_claims, 2);
    assert_int_equal(of_inbox(inbox).keys, 4);
    assert_int_equal(of_inbox(other).open_claims, 0);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(of_inbox(inbox).open_claims, 1);
    pass_ms(f, grains(f, 60));
    assert_int_equal(of_inbox(inbox).open_claims, 0);
}

static void keys_of_an_inbox_are_counted(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "in", NULL), *other = open_inbox(f, "other", NULL);
    scripted_handler good = {0};
    assert_int_equal(of_inbox(inbox).keys, 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &good);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "a", &good);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "b", &good);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, other, "a", &good);
    assert_int_equal(of_inbox(inbox).keys, 2);
    assert_int_equal(of_inbox(other).keys, 1);
}

const store_test store_stats_tests[] = {
    STORE_TEST(an_empty_store_holds_nothing),
    STORE_TEST(keys_of_an_inbox_are_counted),
    STORE_TEST_WITH(what_waits_is_counted_by_outbox, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(what_waits_in_a_queue_is_not_unsent, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(what_is_delayed_is_not_due_before_its_time, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(what_is_leased_is_not_due_before_its_lease_ends, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(what_failed_is_not_due_before_its_next_attempt, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(what_is_not_committed_is_not_counted, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(dead_letters_are_counted_by_origin, NEEDS_OUTBOX | NEEDS_DEAD),
    STORE_TEST_WITH(claims_are_open_until_they_end, IN_CLAIM_MODE),
    {NULL, NULL, 0},
};
