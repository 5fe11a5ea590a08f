/* The relay: what each answer of the broker means for a message, how often and when it is tried
 * again, and how the relay feels its way after trouble. */
#include "core/relay.h"
#include "support/fake/failing_store.h"
#include "support/fake/spy.h"

#include <stdio.h>

static void send(semel_outbox *outbox, const char *id)
{
    semel_message message = text_message(id, "a");
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void send_many(semel_outbox *outbox, int count)
{
    for (int i = 0; i < count; i++)
        send(outbox, NULL);
}

static size_t step(semel_relay *relay)
{
    size_t sent = 99;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    return sent;
}

/* --- options ---------------------------------------------------------------------------------- */

static void each_preset_has_its_values(void **state)
{
    static const uint32_t expected[][6] = {{100, 30000, 1000, 10, 200, 60000},
                                           {1000, 60000, 200, 10, 100, 30000},
                                           {10, 30000, 2000, 25, 1000, 600000}};
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    for (int preset = SEMEL_RELAY_BALANCED; preset <= SEMEL_RELAY_CAREFUL; preset++) {
        semel_relay_options options = {.size = sizeof options,
                                       .preset = (semel_relay_preset)preset};
        const semel_relay_options *got = &fixture_relay(f, outbox, recorder, &options)->options;
        const uint32_t values[] = {got->batch,        got->lease_ms,   got->poll_ms,
                                   got->attempts_max, got->backoff_ms, got->backoff_max_ms};
        assert_memory_equal(values, expected[preset], sizeof values);
    }
    const semel_relay_options *plain = &fixture_relay(f, outbox, recorder, NULL)->options;
    assert_int_equal(plain->batch, 100);
}

static void what_is_set_overrides_the_preset(void **state)
{
    fixture *f = *state;
    spy s = {.inner = fixture_recorder(f)};
    semel_relay_options options = {
        .size = sizeof options, .preset = SEMEL_RELAY_THROUGHPUT, .batch = 3, .lease_ms = 500};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    send_many(outbox, 5);
    assert_int_equal(step(relay), 3);
    assert_int_equal(s.last_count, 3);
    assert_int_equal(s.wait_ms, 250);
    assert_int_equal(relay->options.poll_ms, 200);
    assert_int_equal(step(relay), 2);
    assert_int_equal(step(relay), 0);
}

/* --- what the answers mean -------------------------------------------------------------------- */

static void what_is_confirmed_is_gone(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    const semel_message *message = full_message();
    OK(semel_outbox_send(outbox, message, &last_error));
    assert_int_equal(fixture_counters(f).unsent, 1);
    assert_true(fixture_counters(f).oldest_unsent_ms > 0);
    assert_int_equal(step(relay), 1);
    assert_int_equal(step(relay), 0);
    MESSAGE_EQUAL(message, semel_test_recorder_message(recorder, 0));
    semel_counters counters = fixture_counters(f);
    assert_int_equal(counters.sent, 1);
    assert_int_equal(counters.resent, 0);
    assert_int_equal(counters.send_failed, 0);
    assert_int_equal(counters.unsent, 0);
    assert_int_equal(counters.oldest_unsent_ms, 0);
}

static void what_is_refused_to_the_end_is_a_dead_letter(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 3};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    send(outbox, "bad");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture_letters(f, NULL, 0), 0);
        assert_int_equal(step(relay), 0);
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(step(relay), 0);
    letter one = fixture_only_letter(f);
    assert_string_equal(one.name, "out");
    assert_int_equal(one.origin, SEMEL_DEAD_OUTBOX);
    assert_string_equal(one.message_id, "bad");
    assert_int_equal(one.attempts, 3);
    assert_non_null(strstr(one.error, "refused"));
    assert_int_equal(fixture_counters(f).unsent, 0);
    assert_int_equal(fixture_counters(f).dead, 1);
    assert_int_equal(fixture_counters(f).send_failed, 3);
    assert_int_equal(semel_test_recorder_count(recorder), 0);
}

static void what_is_unroutable_waits_for_its_place(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    send(outbox, "early");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNROUTABLE, 20);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_NACKED, 20);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
    for (int i = 0; i < 41; i++) { /* the one refusal is the first, whatever was said before */
        assert_int_equal(step(relay), 0);
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
    assert_int_equal(fixture_counters(f).send_failed, 41);
    assert_int_equal(step(relay), 1);
    assert_int_equal(fixture_counters(f).unsent, 0);
}

/* As soon as it is answered, it is not sent again before its backoff is over. */
static void what_is_unroutable_is_not_tried_in_a_hot_loop(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    send(outbox, "early");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNROUTABLE, 1);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_NACKED, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(step(relay), 0);
        assert_int_equal(step(relay), 0);
        assert_int_equal(fixture_counters(f).send_failed, i + 1);
        semel_test_advance_ms(f->seam, 400);
    }
    assert_int_equal(step(relay), 1);
}

static void what_is_unroutable_to_the_end_is_a_dead_letter_if_asked_for(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {
        .size = sizeof options, .attempts_max = 3, .on_unroutable = SEMEL_UNROUTABLE_DEAD};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    send(outbox, "bad");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_NACKED, 5);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNROUTABLE, 2);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fixture_letters(f, NULL, 0), 0);
        assert_int_equal(step(relay), 0);
        semel_test_advance_ms(f->seam, 60000);
    }
    letter one = fixture_only_letter(f);
    assert_string_equal(one.message_id, "bad");
    assert_non_null(strstr(one.error, "no queue was bound for topic \"orders\""));
    assert_int_equal(fixture_counters(f).unsent, 0);
}

static void a_choice_that_does_not_exist_is_refused(void **state)
{
    fixture *f = *state;
    semel_relay *relay = NULL;
    semel_relay_options options = {.size = sizeof options, .on_unroutable = (semel_on_unroutable)2};
    FAILS(SEMEL_EINVAL, semel_relay_open(&relay, fixture_outbox(f, "out"), fixture_recorder(f),
                                         &options, &last_error));
    SAYS("on_unroutable");
}

static void a_replayed_letter_is_sent_again_under_its_id(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out"), *other = fixture_outbox(f, "other");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    semel_message message = *full_message();
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 2);
    assert_int_equal(step(relay), 0);
    int64_t id = fixture_only_letter(f).id;
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(other, id, &last_error));
    OK(semel_outbox_replay(outbox, id, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(outbox, id, &last_error)); /* it is gone */
    assert_int_equal(step(relay), 0); /* refused again: its attempts began anew, and are over */
    OK(semel_outbox_replay(outbox, fixture_only_letter(f).id, &last_error));
    assert_int_equal(step(relay), 1);
    MESSAGE_EQUAL_BUT_DUE(&message, semel_test_recorder_message(recorder, 0));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void what_has_no_answer_is_tried_for_ever(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    size_t sent;
    send(outbox, NULL);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNKNOWN, 40);
    for (int i = 0; i < 40; i++) {
        FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(step(relay), 1);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
    assert_int_equal(fixture_counters(f).resent, 1);
    assert_int_equal(semel_test_recorder_count(recorder), 41);
    for (size_t i = 1; i < 41; i++) /* so that the receiver knows the copies */
        BYTES_EQUAL(semel_test_recorder_message(recorder, 0)->id,
                    semel_test_recorder_message(recorder, i)->id);
    assert_int_equal(semel_test_recorder_message(recorder, 0)->id.len, 36);
}

static void each_message_has_its_own_answer(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    char ids[64];
    send(outbox, "a");
    semel_message refused = text_message("b", "a");
    refused.topic = "refused";
    OK(semel_outbox_send(outbox, &refused, &last_error));
    send(outbox, "c");
    semel_test_recorder_answer(recorder, "refused", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(step(relay), 2);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "a c ");
    semel_test_advance_ms(f->seam, 200);
    assert_int_equal(step(relay), 1);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "a c b ");
}

static void a_message_that_is_put_off_leaves_when_it_is_due(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    semel_message later = text_message("later", "a");
    char ids[64];
    later.delay_ms = 5000;
    OK(semel_outbox_send(outbox, &later, &last_error));
    send(outbox, "now");
    assert_int_equal(step(relay), 1);
    semel_test_advance_ms(f->seam, 4999);
    assert_int_equal(step(relay), 0);
    semel_test_advance_ms(f->seam, 1);
    assert_int_equal(step(relay), 1);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "now later ");
    assert_int_equal(fixture_counters(f).resent, 0);
}

/* --- backoff ---------------------------------------------------------------------------------- */

/* How long until the message is tried again, to the millisecond. */
static int64_t time_until_tried(fixture *f, semel_relay *relay, const spy *s)
{
    size_t before = s->publishes;
    int64_t waited = 0;
    while (s->publishes == before && waited < 10000) {
        semel_test_advance_ms(f->seam, 1);
        waited++;
        (void)step(relay);
    }
    return waited;
}

static void delays_double_with_jitter_up_to_the_limit(void **state)
{
    fixture *f = *state;
    spy s = {.inner = fixture_recorder(f)};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {
        .size = sizeof options, .attempts_max = 100, .backoff_ms = 20, .backoff_max_ms = 200};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    int between = 0;
    send(outbox, "bad");
    semel_test_recorder_answer(s.inner, NULL, SEMEL_PUBLISH_REFUSED, 100);
    (void)step(relay);
    for (int i = 0; i < 8; i++) {
        int64_t most = i < 4 ? 20 << i : 200, waited = time_until_tried(f, relay, &s);
        assert_in_range(waited, most / 2, most);
        between += waited != most && waited != most / 2;
    }
    assert_true(between >= 5);
}

/* --- after trouble ---------------------------------------------------------------------------- */

static void after_trouble_the_batch_is_one_and_then_doubles(void **state)
{
    fixture *f = *state;
    spy s = {.inner = fixture_recorder(f), .publish_broken = SEMEL_EUNAVAILABLE};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .batch = 10};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    static const size_t expected[] = {1, 2, 4, 8, 10, 10};
    size_t sent = 99;
    send_many(outbox, 60);
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    SAYS("told to be broken");
    assert_int_equal(sent, 99);
    assert_int_equal(s.last_count, 10);
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(s.last_count, 1);
    s.publish_broken = SEMEL_OK;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(step(relay), expected[i]);
    semel_test_advance_ms(f->seam, 60000); /* what failed is due again */
    assert_int_equal(35 + fixture_drain(relay), 60);
    assert_int_equal(fixture_counters(f).unsent, 0);
}

static void a_refused_message_is_no_trouble(void **state)
{
    fixture *f = *state;
    spy s = {.inner = fixture_recorder(f)};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .batch = 10};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    send_many(outbox, 20);
    semel_test_recorder_answer(s.inner, NULL, SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(step(relay), 9);
    assert_int_equal(step(relay), 10);
}

/* Before the broker was asked nothing has happened; after it, the message is sent again under its
 * id. */
static void wherever_the_store_fails_nothing_is_lost(void **state)
{
    static const struct {
        const char *point;
        size_t copies; /* that the broker has in the end */
    } cases[] = {{"relay.leased", 1},
                 {"relay.taken", 1},
                 {"relay.published", 2},
                 {"relay.settled", 2},
                 {"relay.done", 1}};
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        semel_transport *recorder = fixture_recorder(f);
        semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
        size_t sent;
        send(outbox, NULL);
        semel_test_fault(f->seam, cases[i].point, 1, SEMEL_EUNAVAILABLE);
        FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
        semel_test_advance_ms(f->seam, 30000); /* the lease */
        (void)step(relay);
        assert_int_equal(fixture_counters(f).unsent, 0);
        assert_int_equal(semel_test_recorder_count(recorder), cases[i].copies);
        if (cases[i].copies == 2)
            BYTES_EQUAL(semel_test_recorder_message(recorder, 0)->id,
                        semel_test_recorder_message(recorder, 1)->id);
    }
}

/* Relays side by side in a server may lock each other up. */
static void a_conflict_is_begun_anew_and_nothing_is_sent_twice(void **state)
{
    static const char *const points[] = {"relay.leased", "relay.settled"};
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        send(outbox, NULL);
        semel_test_fault(f->seam, points[i], 1, SEMEL_ECONFLICT);
        assert_int_equal(step(relay), 1);
        assert_int_equal(semel_test_recorder_count(recorder), i + 1);
        assert_int_equal(fixture_counters(f).unsent, 0);
    }
}

static void conflicts_without_an_end_come_to_an_end(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    size_t sent;
    send(outbox, NULL);
    failing_store_open(f);
    failing_store_break_commits(100, SEMEL_ECONFLICT);
    FAILS(SEMEL_ECONFLICT, semel_relay_step(&sent, relay, 0, &last_error));
    assert_true(last_error.retryable);
    assert_int_equal(semel_test_recorder_count(recorder), 0);
    failing_store_break_commits(3, SEMEL_ECONFLICT);
    assert_int_equal(step(relay), 1);
    assert_int_equal(semel_test_recorder_count(recorder), 1);
}

static void a_send_that_conflicts_is_sent_once(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("m-1", "paid");
    failing_store_open(f);
    failing_store_break_commits(3, SEMEL_ECONFLICT);
    OK(semel_outbox_send(outbox, &message, &last_error));
    assert_int_equal(fixture_counters(f).unsent, 1);
    assert_int_equal(fixture_counters(f).captured, 1);
    failing_store_break_commits(100, SEMEL_ECONFLICT);
    FAILS(SEMEL_ECONFLICT, semel_outbox_send(outbox, &message, &last_error));
    failing_store_break_commits(0, SEMEL_OK);
    assert_int_equal(fixture_counters(f).unsent, 1);
}

/* The broker is full: what it did not take stays, and the relay does nothing else. */
static void a_full_broker_loses_nothing(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:?messages_max=5");
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, queue, NULL);
    semel_delivery deliveries[20];
    size_t arrived = 0, count, sent;
    send_many(outbox, 20);
    for (int i = 0; i < 40 && arrived < 20; i++) {
        (void)semel_relay_step(&sent, relay, 0, NULL);
        OK(semel_transport_receive(queue, deliveries, 20, &count, 0, &last_error));
        for (size_t j = 0; j < count; j++) {
            semel_delivery_settlement ack = {.tag = deliveries[j].tag,
                                             .verdict = SEMEL_VERDICT_ACK};
            OK(semel_transport_settle(queue, &ack, 1, &last_error));
        }
        arrived += count;
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(arrived, 20);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* An outage costs attempts and proves nothing about the message: its first refusal is its first. */
static void lost_answers_do_not_count_as_refusals(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    size_t sent;
    send(outbox, "1");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNKNOWN, 5);
    for (int i = 0; i < 5; i++) {
        FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
        semel_test_advance_ms(f->seam, 60000);
    }
    for (int refusals = 1; refusals <= 2; refusals++) {
        semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
        assert_int_equal(step(relay), 0);
        assert_int_equal(fixture_letters(f, NULL, 0), refusals == 2);
        semel_test_advance_ms(f->seam, 60000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("lost answers do not count as refusals", lost_answers_do_not_count_as_refusals),
        ON_MEMORY("each preset has its values", each_preset_has_its_values),
        ON_BOTH("what is set overrides the preset", what_is_set_overrides_the_preset),
        ON_BOTH("what is confirmed is gone", what_is_confirmed_is_gone),
        ON_BOTH("what is refused to the end is a dead letter",
                what_is_refused_to_the_end_is_a_dead_letter),
        ON_BOTH("what is unroutable waits for its place", what_is_unroutable_waits_for_its_place),
        ON_BOTH("what is unroutable is not tried in a hot loop",
                what_is_unroutable_is_not_tried_in_a_hot_loop),
        ON_BOTH("what is unroutable to the end is a dead letter, if asked for",
                what_is_unroutable_to_the_end_is_a_dead_letter_if_asked_for),
        ON_MEMORY("a choice that does not exist is refused",
                  a_choice_that_does_not_exist_is_refused),
        ON_BOTH("a replayed letter is sent again under its id",
                a_replayed_letter_is_sent_again_under_its_id),
        ON_BOTH("what has no answer is tried for ever", what_has_no_answer_is_tried_for_ever),
        ON_BOTH("each message has its own answer", each_message_has_its_own_answer),
        ON_BOTH("a message that is put off leaves when it is due",
                a_message_that_is_put_off_leaves_when_it_is_due),
        ON_BOTH("delays double with jitter up to the limit",
                delays_double_with_jitter_up_to_the_limit),
        ON_BOTH("after trouble the batch is one, and then doubles",
                after_trouble_the_batch_is_one_and_then_doubles),
        ON_BOTH("a refused message is no trouble", a_refused_message_is_no_trouble),
        ON_BOTH("wherever the store fails nothing is lost",
                wherever_the_store_fails_nothing_is_lost),
        ON_BOTH("a conflict is begun anew and nothing is sent twice",
                a_conflict_is_begun_anew_and_nothing_is_sent_twice),
        ON_BOTH("conflicts without an end come to an end", conflicts_without_an_end_come_to_an_end),
        ON_BOTH("a send that conflicts is sent once", a_send_that_conflicts_is_sent_once),
        ON_BOTH("a full broker loses nothing", a_full_broker_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
