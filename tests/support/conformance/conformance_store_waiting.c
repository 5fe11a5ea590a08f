/* Messages that an operator wants to be sent now, or not at all: in an outbox, in a group, in a
 * queue. */
#include "support/conformance/conformance_store.h"

#include <semel/operate.h>
#include <semel/queue.h>
#include <semel/sys/transport.h>
#include <stdio.h>
#include <string.h>

enum { LONG = 1000 }; /* grains */

static void send_later(semel_outbox *outbox, const char *id, const char *group, uint32_t delay_ms)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    message.topic = id;
    message.delay_ms = delay_ms;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    send_later(outbox, id, group, 0);
}

typedef struct searched {
    const char *id;
    int64_t seq;
} searched;

static semel_status see_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    searched *s = context;
    (void)err;
    if (outgoing->message->id.len == strlen(s->id) &&
        memcmp(outgoing->message->id.data, s->id, strlen(s->id)) == 0)
        s->seq = outgoing->seq;
    return SEMEL_OK;
}

/* 0 if the message is not there. */
static int64_t seq_of(semel_outbox *outbox, const char *id)
{
    searched s = {.id = id};
    OK(semel_outbox_list(outbox, NULL, see_row, &s, &last_error));
    return s.seq;
}

static void expect_sent(const semel_transport *broker, const char *expected)
{
    char ids[256];
    recorded_ids(ids, sizeof ids, broker);
    assert_string_equal(ids, expected);
}

/* A relay whose messages wait for long if they fail. */
static semel_relay *open_slow_relay(store_fixture *f, semel_outbox *outbox, semel_transport *broker)
{
    semel_relay_options options = {.size = sizeof options,
                                   .backoff_ms = grains(f, LONG),
                                   .backoff_max_ms = grains(f, LONG),
                                   .lease_ms = grains(f, LONG)};
    return open_relay(f, outbox, broker, &options);
}

/* The relay leases and dies before it has published anything. */
static void lease_and_die(store_fixture *f, semel_relay *relay)
{
    size_t sent;
    semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
}

/* --- now -------------------------------------------------------------------------------------- */

static void a_message_that_waits_is_sent_at_once_when_it_is_woken(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_slow_relay(f, outbox, broker);
    send_id(outbox, "failed", NULL);
    send_later(outbox, "delayed", NULL, grains(f, LONG));
    semel_test_recorder_answer(broker, "failed", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_all(relay), 0);
    OK(semel_outbox_wake(outbox, seq_of(outbox, "failed"), semel_str("failed"), &last_error));
    assert_int_equal(relay_all(relay), 1);
    OK(semel_outbox_wake(outbox, seq_of(outbox, "delayed"), semel_str("delayed"), &last_error));
    assert_int_equal(relay_all(relay), 1);
    expect_sent(broker, "failed delayed");
}

/* A message that is due stays so. */
static void waking_a_message_that_is_due_changes_nothing(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    send_id(outbox, "1", NULL);
    pass_ms(f, grains(f, 10));
    send_id(outbox, "2", NULL);
    OK(semel_outbox_wake(outbox, seq_of(outbox, "1"), semel_str("1"), &last_error));
    assert_int_equal(relay_all(open_slow_relay(f, outbox, broker)), 2);
    expect_sent(broker, "1 2");
}

static void the_first_of_a_group_is_sent_when_it_is_woken_and_the_others_follow(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_slow_relay(f, outbox, broker);
    send_id(outbox, "1", "g");
    send_id(outbox, "2", "g");
    send_later(outbox, "late", "h", grains(f, LONG));
    semel_test_recorder_answer(broker, "1", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_all(relay), 0);
    send_id(outbox, "3", "g");
    assert_int_equal(relay_all(relay), 0);
    OK(semel_outbox_wake(outbox, seq_of(outbox, "2"), semel_str("2"), &last_error));
    assert_int_equal(relay_all(relay), 0); /* it is behind another one */
    OK(semel_outbox_wake(outbox, seq_of(outbox, "1"), semel_str("1"), &last_error));
    assert_int_equal(relay_all(relay), 3);
    OK(semel_outbox_wake(outbox, seq_of(outbox, "late"), semel_str("late"), &last_error));
    assert_int_equal(relay_all(relay), 1);
    expect_sent(broker, "1 2 3 late");
}

static void what_has_left_or_is_leased_cannot_be_woken(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail"), *other = open_outbox(f, "other");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_slow_relay(f, outbox, broker);
    send_id(outbox, "1", NULL);
    int64_t seq = seq_of(outbox, "1");
    FAILS(SEMEL_ENOTFOUND, semel_outbox_wake(other, seq, semel_str("1"), &last_error));
    lease_and_die(f, relay);
    FAILS(SEMEL_EBUSY, semel_outbox_wake(outbox, seq, semel_str("1"), &last_error));
    pass_ms(f, grains(f, LONG + 10));
    OK(semel_outbox_wake(outbox, seq, semel_str("1"), &last_error));
    assert_int_equal(relay_all(relay), 1);
    FAILS(SEMEL_ENOTFOUND, semel_outbox_wake(outbox, seq, semel_str("1"), &last_error));
}

/* --- not at all ------------------------------------------------------------------------------- */

static void a_message_that_is_skipped_is_a_letter(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_slow_relay(f, outbox, broker);
    semel_message message = *full_message();
    letters found;
    int64_t id = 0, seq;
    message.id = semel_str("m-1");
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_all(relay), 0);
    seq = seq_of(outbox, "m-1");
    OK(semel_outbox_skip(&id, outbox, seq, semel_str(""), "the customer\nis gone", &last_error));
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].id, id);
    assert_int_equal(found.all[0].origin, SEMEL_DEAD_OUTBOX);
    assert_string_equal(found.all[0].name, "mail");
    assert_string_equal(found.all[0].error, "the customer is gone");
    assert_int_equal(found.all[0].attempts, 1);
    assert_int_equal(found.all[0].cause, semel_cause("mail", "the customer is gone"));
    MESSAGE_EQUAL(&message, found.all[0].message);
    letters_free(&found);
    assert_int_equal(counters_of(f).unsent, 0);
    FAILS(SEMEL_ENOTFOUND,
          semel_outbox_skip(&id, outbox, seq, semel_str(""), "again", &last_error));
    OK(semel_outbox_replay(outbox, id, &last_error));
    assert_int_equal(relay_all(relay), 1);
}

/* Each of these is a letter of its own, although their ids are the same. */
static void messages_with_one_id_are_skipped_one_by_one(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    int64_t first = 0, second = 0;
    send_id(outbox, "same", NULL);
    send_id(outbox, "same", NULL);
    OK(semel_outbox_skip(&first, outbox, seq_of(outbox, "same"), semel_str("same"), NULL,
                         &last_error));
    OK(semel_outbox_skip(&second, outbox, seq_of(outbox, "same"), semel_str("same"), NULL,
                         &last_error));
    assert_int_not_equal(first, second);
    assert_int_equal(count_letters(f), 2);
}

static void the_next_of_a_group_is_sent_when_the_first_is_skipped(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_slow_relay(f, outbox, broker);
    send_id(outbox, "1", "g");
    send_id(outbox, "2", "g");
    semel_test_recorder_answer(broker, "1", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_all(relay), 0);
    send_id(outbox, "3", "g");
    assert_int_equal(relay_all(relay), 0);
    OK(semel_outbox_skip(NULL, outbox, seq_of(outbox, "1"), semel_str("1"), "stuck", &last_error));
    assert_int_equal(relay_all(relay), 2);
    expect_sent(broker, "2 3");
    send_id(outbox, "4", "g");
    assert_int_equal(relay_all(relay), 1);
}

/* The only one of its group, and one in the middle. */
static void any_message_of_a_group_may_be_skipped(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_slow_relay(f, outbox, broker);
    send_later(outbox, "alone", "h", grains(f, LONG));
    send_later(outbox, "1", "g", grains(f, LONG));
    send_id(outbox, "2", "g");
    send_id(outbox, "3", "g");
    assert_int_equal(relay_all(relay), 0);
    OK(semel_outbox_skip(NULL, outbox, seq_of(outbox, "alone"), semel_str("alone"), "stuck",
                         &last_error));
    OK(semel_outbox_skip(NULL, outbox, seq_of(outbox, "2"), semel_str("2"), "stuck", &last_error));
    assert_int_equal(relay_all(relay), 0);
    pass_ms(f, grains(f, LONG + 10));
    assert_int_equal(relay_all(relay), 2);
    expect_sent(broker, "1 3");
    send_id(outbox, "5", "h");
    assert_int_equal(relay_all(relay), 1);
}

static void what_is_leased_cannot_be_skipped(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay *relay = open_slow_relay(f, outbox, open_recorder(f));
    send_id(outbox, "1", NULL);
    int64_t seq = seq_of(outbox, "1"), id = 7;
    lease_and_die(f, relay);
    FAILS(SEMEL_EBUSY, semel_outbox_skip(&id, outbox, seq, semel_str(""), "stuck", &last_error));
    assert_int_equal(id, 7);
    assert_int_equal(count_letters(f), 0);
    pass_ms(f, grains(f, LONG + 10));
    OK(semel_outbox_skip(&id, outbox, seq, semel_str(""), "stuck", &last_error));
    assert_int_equal(count_letters(f), 1);
    assert_int_equal(relay_all(relay), 0);
}

/* Whether the store gives the number of a message that has left to the next one or not. */
static void a_message_that_came_after_the_one_that_is_meant_stays_as_it_is(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay *relay = open_slow_relay(f, outbox, open_recorder(f));
    send_id(outbox, "old", NULL);
    int64_t seq = seq_of(outbox, "old");
    assert_int_equal(relay_all(relay), 1);
    send_later(outbox, "new", NULL, grains(f, LONG));
    FAILS(SEMEL_ENOTFOUND, semel_outbox_wake(outbox, seq, semel_str("old"), &last_error));
    assert_int_equal(relay_all(relay), 0);
    FAILS(SEMEL_ENOTFOUND,
          semel_outbox_skip(NULL, outbox, seq, semel_str("old"), "stuck", &last_error));
    assert_int_equal(count_letters(f), 0);
    OK(semel_outbox_wake(outbox, seq_of(outbox, "new"), semel_str("new"), &last_error));
    assert_int_equal(relay_all(relay), 1);
}

/* --- a queue ---------------------------------------------------------------------------------- */

static void publish_ids(semel_transport *queue, const char *const ids[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        semel_message message = text_message(ids[i], "work");
        const semel_message *one = &message;
        semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
        OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
        assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    }
}

static semel_status count_row(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    (void)outgoing;
    (void)err;
    ++*(size_t *)context;
    return SEMEL_OK;
}

static size_t count_rows(semel_transport *queue)
{
    size_t count = 0;
    OK(semel_queue_list(queue, NULL, count_row, &count, &last_error));
    return count;
}

static void a_queue_is_emptied_but_for_what_consumers_have(void **state)
{
    static const char *const ids[] = {"1", "2", "3", "4", "5", "6"};
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    semel_queue_options options = {.size = sizeof options, .lease_ms = grains(f, LONG)};
    semel_delivery out[2];
    size_t count = 0, removed = 0;
    OK(semel_queue_open(&queue, f->base.store, "work", &options, &last_error));
    fixture_keep_transport(&f->base, queue);
    publish_ids(queue, ids, 6);
    OK(semel_transport_receive(queue, out, 2, &count, 0, &last_error));
    assert_int_equal(count, 2);
    OK(semel_queue_purge(&removed, queue, 0, 0, 3, &last_error));
    assert_int_equal(removed, 3);
    OK(semel_queue_purge(&removed, queue, 0, 0, 0, &last_error));
    assert_int_equal(removed, 1);
    OK(semel_queue_purge(&removed, queue, 0, 0, 0, &last_error));
    assert_int_equal(removed, 0);
    assert_int_equal(count_rows(queue), 2);
    assert_int_equal(count_letters(f), 0);
    pass_ms(f, grains(f, LONG + 10));
    OK(semel_queue_purge(&removed, queue, 0, 0, 1, &last_error));
    assert_int_equal(removed, 1);
    assert_int_equal(count_rows(queue), 1);
}

static semel_status see_last(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    semel_outgoing *last = context;
    (void)err;
    last->seq = outgoing->seq;
    last->captured_ms = outgoing->captured_ms;
    return SEMEL_OK;
}

static void what_comes_after_a_queue_was_listed_stays(void **state)
{
    static const char *const ids[] = {"1", "2", "3"};
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    semel_outgoing last = {0};
    size_t removed = 0;
    OK(semel_queue_open(&queue, f->base.store, "work", NULL, &last_error));
    fixture_keep_transport(&f->base, queue);
    publish_ids(queue, ids, 2);
    OK(semel_queue_list(queue, NULL, see_last, &last, &last_error));
    publish_ids(queue, ids + 2, 1);
    OK(semel_queue_purge(&removed, queue, last.seq, 0, 1, &last_error));
    assert_int_equal(removed, 1);
    OK(semel_queue_purge(&removed, queue, last.seq, last.captured_ms, 0, &last_error));
    assert_int_equal(removed, 1);
    OK(semel_queue_purge(&removed, queue, last.seq, last.captured_ms, 0, &last_error));
    assert_int_equal(removed, 0);
    assert_int_equal(count_rows(queue), 1);
}

/* Whether the store gives the number of the message that has left to the next one or not. */
static void what_comes_after_all_that_was_listed_has_left_stays(void **state)
{
    static const char *const ids[] = {"1", "2"};
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    semel_outgoing last = {0};
    size_t removed = 0;
    OK(semel_queue_open(&queue, f->base.store, "work", NULL, &last_error));
    fixture_keep_transport(&f->base, queue);
    publish_ids(queue, ids, 1);
    OK(semel_queue_list(queue, NULL, see_last, &last, &last_error));
    OK(semel_queue_purge(&removed, queue, 0, 0, 0, &last_error));
    assert_int_equal(removed, 1);
    pass_ms(f, grains(f, 2));
    publish_ids(queue, ids + 1, 1);
    OK(semel_queue_purge(&removed, queue, last.seq, last.captured_ms, 0, &last_error));
    assert_int_equal(removed, 0);
    assert_int_equal(count_rows(queue), 1);
}

static void only_a_queue_can_be_emptied(void **state)
{
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    size_t removed;
    FAILS(SEMEL_EINVAL, semel_queue_purge(&removed, open_recorder(f), 0, 0, 0, &last_error));
    OK(semel_queue_open(&queue, f->base.store, "work", NULL, &last_error));
    fixture_keep_transport(&f->base, queue);
    FAILS(SEMEL_ELIMIT, semel_queue_purge(&removed, queue, 0, 0, SEMEL_PAGE_MAX + 1, &last_error));
}

enum { WITH_LETTERS = IN_ANY_MODE | NEEDS_OUTBOX | NEEDS_DEAD };

const store_test store_waiting_tests[] = {
    STORE_TEST_WITH(a_message_that_waits_is_sent_at_once_when_it_is_woken, WITH_LETTERS),
    STORE_TEST_WITH(waking_a_message_that_is_due_changes_nothing, WITH_LETTERS),
    STORE_TEST_WITH(the_first_of_a_group_is_sent_when_it_is_woken_and_the_others_follow,
                    WITH_LETTERS),
    STORE_TEST_WITH(what_has_left_or_is_leased_cannot_be_woken, WITH_LETTERS),
    STORE_TEST_WITH(a_message_that_is_skipped_is_a_letter, WITH_LETTERS),
    STORE_TEST_WITH(messages_with_one_id_are_skipped_one_by_one, WITH_LETTERS),
    STORE_TEST_WITH(the_next_of_a_group_is_sent_when_the_first_is_skipped, WITH_LETTERS),
    STORE_TEST_WITH(any_message_of_a_group_may_be_skipped, WITH_LETTERS),
    STORE_TEST_WITH(what_is_leased_cannot_be_skipped, WITH_LETTERS),
    STORE_TEST_WITH(a_message_that_came_after_the_one_that_is_meant_stays_as_it_is, WITH_LETTERS),
    STORE_TEST_WITH(a_queue_is_emptied_but_for_what_consumers_have, WITH_LETTERS),
    STORE_TEST_WITH(what_comes_after_a_queue_was_listed_stays, WITH_LETTERS),
    STORE_TEST_WITH(what_comes_after_all_that_was_listed_has_left_stays, WITH_LETTERS),
    STORE_TEST_WITH(only_a_queue_can_be_emptied, WITH_LETTERS),
    {NULL, NULL, 0}};
