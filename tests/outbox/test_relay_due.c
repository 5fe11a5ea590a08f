/* The age of a message that was delayed counts from its due time, that of a replayed one from its
 * replay: semel itself asked the message to wait, so the wait makes it no copy. */
#include "base/message.h"
#include "support/fixture/fixture.h"

#include <semel/queue.h>
#include <semel/sys/transport.h>
#include <stdio.h>

static const int64_t day_ms = 24 * 3600000;
static const uint32_t eight_days_ms = 8 * 24 * 3600000U;

static int64_t now(fixture *f)
{
    return f->host->wall_ms(f->host->context);
}

static semel_message delayed(const char *id)
{
    semel_message message = text_message(id, "a");
    message.delay_ms = eight_days_ms;
    return message;
}

/* The inbox handles something now; eight days later it has forgotten that. So all that was made up
 * to now is stale then, unless it says that it was delayed. */
static semel_inbox *forgetful_inbox(fixture *f)
{
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    fixture_forget(f, inbox, eight_days_ms);
    return inbox;
}

/* It runs; its copies are duplicates for as long as the inbox remembers, and stale afterwards. */
static void assert_runs_once(fixture *f, semel_inbox *inbox, const semel_message *got)
{
    scripted_handler todo = {0};
    semel_message *message = NULL;
    OK(semel_message_copy(&message, got, &last_error));
    message->delivery = 1;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, message, &todo);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, message, &todo);
    semel_test_advance_ms(f->seam, 8 * day_ms);
    fixture_sweep(inbox);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, message, &todo);
    assert_int_equal(todo.runs, 1);
    semel_message_free(message);
}

static void a_message_delayed_by_eight_days_runs(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    semel_message message = delayed("1"), plain = text_message("2", "a");
    plain.time_ms = now(f);
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_inbox *inbox = forgetful_inbox(f);
    assert_int_equal(fixture_drain(relay), 1);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &plain, &(scripted_handler){0});
    assert_runs_once(f, inbox, semel_test_recorder_message(recorder, 0));
}

static void a_message_delayed_by_eight_days_is_handed_over(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = delayed("1");
    scripted_handler todo = {0};
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_inbox *inbox = forgetful_inbox(f);
    semel_relay *relay = fixture_local_relay(f, outbox, inbox, scripted_handler_run, &todo, NULL);
    assert_int_equal(fixture_drain(relay), 1);
    assert_int_equal(todo.runs, 1);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static semel_transport *open_queue(fixture *f)
{
    semel_transport *queue = NULL;
    OK(semel_queue_open(&queue, f->store, "orders", NULL, &last_error));
    fixture_keep(f, (void (*)(void *))semel_transport_close, queue);
    return queue;
}

static semel_delivery take(semel_transport *queue)
{
    semel_delivery delivery = {0};
    size_t count = 0;
    OK(semel_transport_receive(queue, &delivery, 1, &count, 0, &last_error));
    assert_int_equal(count, 1);
    return delivery;
}

static void a_message_delayed_in_a_queue_runs(void **state)
{
    fixture *f = *state;
    semel_transport *queue = open_queue(f);
    semel_message message = delayed("1"), nameless = delayed("");
    const semel_message *const both[] = {&message, &nameless};
    semel_publish_result results[2];
    message.time_ms = nameless.time_ms = now(f);
    OK(semel_transport_publish(results, queue, both, 2, 0, &last_error));
    semel_inbox *inbox = forgetful_inbox(f);
    for (int i = 0; i < 2; i++)
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, take(queue).message, &(scripted_handler){0});
}

/* --- replays ---------------------------------------------------------------------------------- */

static void a_letter_of_an_outbox_that_is_replayed_after_eight_days_runs(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    semel_message message = text_message("1", "a");
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(fixture_drain(relay), 0);
    semel_inbox *inbox = forgetful_inbox(f);
    OK(semel_outbox_replay(outbox, fixture_only_letter(f).id, &last_error));
    assert_int_equal(fixture_drain(relay), 1);
    assert_runs_once(f, inbox, semel_test_recorder_message(recorder, 0));
}

static void a_letter_of_a_queue_that_is_replayed_after_eight_days_runs(void **state)
{
    fixture *f = *state;
    semel_transport *queue = open_queue(f);
    semel_message message = *full_message();
    const semel_message *one = &message;
    semel_publish_result result;
    message.time_ms = now(f);
    OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
    semel_delivery_settlement rejected = {.tag = take(queue).tag, .verdict = SEMEL_VERDICT_REJECT};
    OK(semel_transport_settle(queue, &rejected, 1, &last_error));
    semel_inbox *inbox = forgetful_inbox(f);
    OK(semel_queue_replay(queue, fixture_only_letter(f).id, &last_error));
    semel_delivery delivery = take(queue);
    MESSAGE_EQUAL_BUT_DUE(&message, delivery.message);
    assert_runs_once(f, inbox, delivery.message);
}

/* Replayed again and again it has one such header, and it is that of the last time. */
static void a_replay_replaces_the_header(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    semel_message message = *full_message();
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture_drain(relay), 0);
        semel_test_advance_ms(f->seam, day_ms);
        OK(semel_outbox_replay(outbox, fixture_only_letter(f).id, &last_error));
    }
    assert_int_equal(fixture_drain(relay), 1);
    const semel_message *got = semel_test_recorder_message(recorder, 0);
    char due[32];
    (void)snprintf(due, sizeof due, "%lld", (long long)now(f));
    MESSAGE_EQUAL_BUT_DUE(&message, got);
    BYTES_EQUAL(semel_str(due), semel_message_header(got, SEMEL_HEADER_DUE));
}

/* --- no room ---------------------------------------------------------------------------------- */

static semel_message with_all_headers(const char *id)
{
    static semel_header headers[SEMEL_HEADERS_MAX];
    semel_message message = text_message(id, "a");
    for (size_t i = 0; i < SEMEL_HEADERS_MAX; i++)
        headers[i] = (semel_header){"X-Some", semel_str("x")};
    message.headers = headers;
    message.header_count = SEMEL_HEADERS_MAX;
    return message;
}

/* A message that cannot say that it was delayed is not delayed; one that cannot say that it was
 * replayed is replayed nevertheless. */
static void a_message_with_all_headers_cannot_be_delayed_but_replayed(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    semel_message message = with_all_headers("1");
    message.time_ms = now(f);
    message.delay_ms = 1;
    FAILS(SEMEL_ELIMIT, semel_outbox_send(outbox, &message, &last_error));
    SAYS(SEMEL_HEADER_DUE);
    message.delay_ms = 0;
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(fixture_drain(relay), 0);
    OK(semel_outbox_replay(outbox, fixture_only_letter(f).id, &last_error));
    assert_int_equal(fixture_drain(relay), 1);
    MESSAGE_EQUAL(&message, semel_test_recorder_message(recorder, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a message delayed by eight days runs", a_message_delayed_by_eight_days_runs),
        ON_BOTH("a message delayed by eight days is handed over",
                a_message_delayed_by_eight_days_is_handed_over),
        ON_BOTH("a message delayed in a queue runs", a_message_delayed_in_a_queue_runs),
        ON_BOTH("a letter of an outbox that is replayed after eight days runs",
                a_letter_of_an_outbox_that_is_replayed_after_eight_days_runs),
        ON_BOTH("a letter of a queue that is replayed after eight days runs",
                a_letter_of_a_queue_that_is_replayed_after_eight_days_runs),
        ON_BOTH("a replay replaces the header", a_replay_replaces_the_header),
        ON_BOTH("a message with all headers cannot be delayed, but replayed",
                a_message_with_all_headers_cannot_be_delayed_but_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
