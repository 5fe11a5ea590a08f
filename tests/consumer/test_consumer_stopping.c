/* Stopping: a handler can ask whether it should come to an end. What it leaves undone is not
 * counted, in any mode, and comes again. */
#include "support/fake/no_delay_transport.h"

typedef struct slow_handler {
    void (*stop)(void *target); /* called while the handler runs */
    void *target;
    int runs;
    int saw_before; /* semel_unit_stopping() before the stop, and after it */
    int saw_after;
    uint32_t attempt;
    int goes_on; /* it finishes although it is asked to stop */
    semel_outbox *outbox;
} slow_handler;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    slow_handler *self = context;
    semel_message event = text_message(NULL, "event");
    (void)message;
    self->runs++;
    self->attempt = semel_unit_attempt(unit);
    self->saw_before = semel_unit_stopping(unit);
    if (self->outbox)
        OK(semel_unit_send(unit, self->outbox, &event, &last_error));
    if (self->stop)
        self->stop(self->target);
    self->saw_after = semel_unit_stopping(unit);
    return self->saw_after && !self->goes_on
               ? semel_fail(err, SEMEL_ESTOPPED, "not now: the program stops")
               : SEMEL_OK;
}

static void publish(semel_transport *transport, const char *id)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, transport, &one, 1, 1000, &last_error));
}

static void stop_consumer(void *consumer)
{
    semel_consumer_stop(consumer);
}

/* The first consumer stops in its handler; the second one handles the same message as for the first
 * time. */
static void stop_in_mode(fixture *f, semel_transport *queue, semel_mode mode, uint32_t batch)
{
    semel_inbox_options options = {.size = sizeof options, .mode = mode};
    semel_consumer_options consumer_options = {.size = sizeof consumer_options, .batch = batch};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    slow_handler slow = {.stop = stop_consumer, .outbox = fixture_outbox(f, "out")},
                 quick = {.outbox = slow.outbox};
    semel_route route = {"*", inbox, handle, &slow};
    semel_consumer *first, *second;
    semel_message message = text_message("1", "a");
    publish(queue, "1");
    if (batch > 1)
        publish(queue, "2");
    OK(semel_consumer_open(&first, queue, &route, 1, &consumer_options, &last_error));
    slow.target = first;
    OK(semel_consumer_run(first, &last_error));
    assert_int_equal(slow.saw_before, batch > 1 && mode != SEMEL_CLAIM);
    assert_int_equal(slow.saw_after, 1);
    assert_int_equal(fixture_counters(f).failed, 0);
    assert_int_equal(fixture_counters(f).unsent, 0);
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    semel_consumer_close(first);

    route.context = &quick;
    consumer_options.batch = 1;
    second = fixture_consumer(f, queue, &route, 1, &consumer_options);
    for (uint32_t i = 0; i < batch; i++) {
        size_t settled = 0;
        OK(semel_consumer_step(&settled, second, 0, &last_error));
        assert_int_equal(settled, 1);
    }
    assert_int_equal(quick.runs, batch);
    assert_int_equal(quick.saw_after, 0);
    assert_int_equal(fixture_counters(f).unsent, batch);
}

static void a_stopping_consumer_is_seen_in_a_transaction(void **state)
{
    stop_in_mode(*state, fixture_queue(*state, "memory:"), SEMEL_TRANSACTION, 1);
}

static void a_stopping_consumer_is_seen_in_a_batch(void **state)
{
    stop_in_mode(*state, fixture_queue(*state, "memory:"), SEMEL_TRANSACTION, 2);
}

static void a_stopping_consumer_is_seen_under_a_claim(void **state)
{
    stop_in_mode(*state, fixture_queue(*state, "memory:"), SEMEL_CLAIM, 1);
}

static void a_stopping_consumer_is_seen_in_queued_mode(void **state)
{
    stop_in_mode(*state, fixture_queue(*state, "memory:"), SEMEL_QUEUED, 1);
}

static void a_held_delivery_goes_back_when_the_consumer_is_closed(void **state)
{
    fixture *f = *state;
    no_delay around = {.inner = fixture_queue(f, "memory:")};
    stop_in_mode(f, no_delay_open(f, &around, f->host), SEMEL_TRANSACTION, 1);
    assert_int_equal(around.retried, 1);
}

static void a_handler_may_finish_although_the_consumer_stops(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    slow_handler slow = {.stop = stop_consumer, .goes_on = 1};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), handle, &slow};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    publish(queue, "1");
    slow.target = consumer;
    OK(semel_consumer_run(consumer, &last_error));
    assert_int_equal(slow.saw_after, 1);
    assert_int_equal(fixture_counters(f).processed, 1);
}

/* A handler that always stops, asked or not, is tried again after a pause and never counted. */
static void a_handler_that_stops_unasked_is_tried_again(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {.failures = 20, .failure = SEMEL_ESTOPPED};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    size_t settled = 0;
    publish(queue, "1");
    for (int i = 0; i < 20; i++) {
        OK(semel_consumer_step(&settled, consumer, 0, &last_error));
        assert_int_equal(settled, 0);
        OK(semel_consumer_step(&settled, consumer, 0, &last_error)); /* it waits */
        assert_int_equal(todo.runs, i + 1);
        semel_test_advance_ms(f->seam, 60000);
    }
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    assert_int_equal(settled, 1);
    assert_int_equal(todo.attempt, 1);
}

static void a_plain_receive_is_never_asked_to_stop(void **state)
{
    fixture *f = *state;
    slow_handler slow = {0};
    semel_outcome outcome;
    semel_message message = text_message("1", "a");
    OK(semel_inbox_receive(&outcome, fixture_inbox(f, "inbox", NULL), &message, handle, &slow,
                           &last_error));
    assert_int_equal(slow.saw_after, 0);
    assert_int_equal(semel_unit_stopping(NULL), 0);
}

/* --- local hand-off --------------------------------------------------------------------------- */

static void stop_relay(void *relay)
{
    semel_relay_stop(relay);
}

static void a_stopping_relay_is_seen_in_a_hand_off(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "source");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    slow_handler slow = {.stop = stop_relay}, quick = {0};
    semel_relay *first = fixture_local_relay(f, outbox, inbox, handle, &slow, NULL);
    semel_relay *second = fixture_local_relay(f, outbox, inbox, handle, &quick, NULL);
    for (int i = 0; i < 3; i++) {
        semel_message message = text_message((const char *const[]){"1", "2", "3"}[i], "a");
        OK(semel_outbox_send(outbox, &message, &last_error));
    }
    slow.target = first;
    OK(semel_relay_run(first, &last_error));
    assert_int_equal(slow.runs, 1); /* those behind it are not begun */
    assert_int_equal(slow.saw_before, 0);
    assert_int_equal(slow.saw_after, 1);
    assert_int_equal(fixture_counters(f).unsent, 3);
    assert_int_equal(fixture_drain(second), 3);
    assert_int_equal(quick.runs, 3);
    assert_int_equal(quick.attempt, 1);
    assert_int_equal(quick.saw_after, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a stopping consumer is seen in a transaction",
                a_stopping_consumer_is_seen_in_a_transaction),
        ON_BOTH("a stopping consumer is seen in a batch", a_stopping_consumer_is_seen_in_a_batch),
        ON_BOTH("a stopping consumer is seen under a claim",
                a_stopping_consumer_is_seen_under_a_claim),
        ON_SQLITE("a stopping consumer is seen in queued mode",
                  a_stopping_consumer_is_seen_in_queued_mode),
        ON_BOTH("a held delivery goes back when the consumer is closed",
                a_held_delivery_goes_back_when_the_consumer_is_closed),
        ON_BOTH("a handler may finish although the consumer stops",
                a_handler_may_finish_although_the_consumer_stops),
        ON_BOTH("a handler that stops unasked is tried again",
                a_handler_that_stops_unasked_is_tried_again),
        ON_BOTH("a plain receive is never asked to stop", a_plain_receive_is_never_asked_to_stop),
        ON_BOTH("a stopping relay is seen in a hand-off", a_stopping_relay_is_seen_in_a_hand_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
