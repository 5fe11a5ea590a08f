/* What the observer hears of relays, of a local hand-off and of a consumer: one event for each
 * outcome, after its commit, with the text that a dead letter has. See observed.h for what is
 * checked at each event. */
#include "support/fixture/observed.h"

#include <stdio.h>

static void send_id(semel_outbox *outbox, const char *id)
{
    semel_message message = text_message(id, "body");
    message.topic = id;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void step(semel_relay *relay)
{
    size_t sent;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
}

/* --- a relay ---------------------------------------------------------------------------------- */

/* One message, all answers that a broker can give. */
static void each_answer_of_the_broker_is_one_event(void **state)
{
    observed o;
    fixture *f = *state;
    observed_open(&o, f, NULL);
    semel_outbox *outbox = fixture_outbox(f, "mail");
    semel_transport *broker = fixture_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay = fixture_relay(f, outbox, broker, &options);
    static const struct {
        semel_publish_result result;
        semel_outcome outcome;
        const char *error;
    } answers[] = {{SEMEL_PUBLISH_REFUSED, SEMEL_FAILED, "refused"},
                   {SEMEL_PUBLISH_UNROUTABLE, SEMEL_FAILED, "no queue is bound"},
                   {SEMEL_PUBLISH_NACKED, SEMEL_FAILED, "cannot take"},
                   {SEMEL_PUBLISH_UNKNOWN, SEMEL_FAILED, "no answer"},
                   {SEMEL_PUBLISH_CONFIRMED, SEMEL_PROCESSED, NULL}};
    send_id(outbox, "a");
    for (uint32_t i = 0; i < 5; i++) {
        size_t sent;
        int lost = answers[i].result == SEMEL_PUBLISH_UNKNOWN;
        semel_test_recorder_answer(broker, NULL, answers[i].result, 1);
        FAILS(lost ? SEMEL_EUNAVAILABLE : SEMEL_OK, semel_relay_step(&sent, relay, 0, &last_error));
        SENT(&o, answers[i].outcome, "mail", "a", i + 1, answers[i].error);
        assert_true(!o.events[i].retry_ms == (answers[i].outcome == SEMEL_PROCESSED));
        assert_true(o.events[i].published);
        semel_test_advance_ms(f->seam, 3600000);
    }
    step(relay);
    NO_MORE(&o);
}

static void check_dead(fixture *f, semel_publish_result result)
{
    observed o;
    observed_open(&o, f, NULL);
    o.sent = fixture_outbox(f, "mail");
    semel_transport *broker = fixture_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .attempts_max = 1, .on_unroutable = SEMEL_UNROUTABLE_DEAD};
    semel_relay *relay = fixture_relay(f, o.sent, broker, &options);
    semel_test_recorder_answer(broker, NULL, result, 1);
    send_id(o.sent, "a");
    step(relay);
    SENT(&o, SEMEL_DEAD, "mail", "a", 1, fixture_only_letter(f).error);
    NO_MORE(&o);
}

static void a_refused_message_is_dead_once(void **state)
{
    check_dead(*state, SEMEL_PUBLISH_REFUSED);
}

static void an_unroutable_message_is_dead_once(void **state)
{
    check_dead(*state, SEMEL_PUBLISH_UNROUTABLE);
}

/* A settlement that must be begun anew does not send again, and is reported once. */
static void a_conflict_while_settling_is_one_event(void **state)
{
    observed o;
    fixture *f = *state;
    observed_open(&o, f, NULL);
    o.sent = fixture_outbox(f, "mail");
    semel_relay *relay = fixture_relay(f, o.sent, fixture_recorder(f), NULL);
    send_id(o.sent, "a");
    semel_test_fault(f->seam, "relay.settled", 1, SEMEL_ECONFLICT);
    step(relay);
    SENT(&o, SEMEL_PROCESSED, "mail", "a", 1, NULL);
    NO_MORE(&o);
}

/* Nothing is reported that was not settled: it is sent again. */
static void what_was_not_settled_is_no_event(void **state)
{
    size_t sent;
    observed o;
    fixture *f = *state;
    observed_open(&o, f, NULL);
    o.sent = fixture_outbox(f, "mail");
    semel_relay *relay = fixture_relay(f, o.sent, fixture_recorder(f), NULL);
    send_id(o.sent, "a");
    semel_test_fault(f->seam, "relay.settled", 1, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(o.count, 0);
    semel_test_advance_ms(f->seam, 3600000);
    step(relay);
    SENT(&o, SEMEL_PROCESSED, "mail", "a", 2, NULL);
    NO_MORE(&o);
}

/* --- a local hand-off ------------------------------------------------------------------------- */

typedef struct handoff {
    observed o;
    semel_outbox *outbox, *faults;
    semel_inbox *inbox;
    semel_relay *relay;
    scripted_handler todo;
} handoff;

static void open_handoff(handoff *h, fixture *f)
{
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    *h = (handoff){0};
    observed_open(&h->o, f, NULL);
    h->outbox = fixture_outbox(f, "mail");
    h->faults = fixture_outbox(f, "faults");
    h->inbox = observed_inbox(&h->o, "in", (semel_inbox_options){.faults = h->faults});
    h->relay =
        fixture_local_relay(f, h->outbox, h->inbox, scripted_handler_run, &h->todo, &options);
}

static void a_local_hand_off_is_received_and_sent(void **state)
{
    handoff h;
    open_handoff(&h, *state);
    send_id(h.outbox, "a");
    send_id(h.outbox, "a");
    step(h.relay);
    RECEIVED(&h.o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    RECEIVED(&h.o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    SENT(&h.o, SEMEL_PROCESSED, "mail", "a", 1, NULL);
    SENT(&h.o, SEMEL_PROCESSED, "mail", "a", 1, NULL);
    assert_false(h.o.events[2].published);
    NO_MORE(&h.o);
}

/* The letter is the inbox's: for the outbox the message has left. */
static void a_local_failure_is_received_only(void **state)
{
    handoff h;
    fixture *f = *state;
    semel_counters c;
    open_handoff(&h, f);
    h.todo.failures = 9;
    send_id(h.outbox, "a");
    step(h.relay);
    RECEIVED(&h.o, SEMEL_FAILED, "in", "a", 1, 1, "out of paper");
    TRIED_AGAIN_IN(&h.o, 200);
    semel_test_advance_ms(f->seam, 3600000);
    step(h.relay);
    RECEIVED(&h.o, SEMEL_DEAD, "in", "a", 2, 1, "out of paper");
    SENT(&h.o, SEMEL_PROCESSED, "mail", "a", 2, NULL);
    NO_MORE(&h.o);
    semel_outbox_counters(&c, sizeof c, h.faults);
    assert_int_equal(c.captured, 1);
}

/* As what it is, and as a dead letter of the inbox. */
static void a_refused_local_message_is_reported_as_both(void **state)
{
    handoff h;
    scripted_handler good = {0};
    semel_message other = text_message("a", "another body");
    open_handoff(&h, *state);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, h.inbox, &other, &good);
    RECEIVED(&h.o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    send_id(h.outbox, "a");
    step(h.relay);
    RECEIVED(&h.o, SEMEL_DEAD, "in", "a", 0, 0, "other content");
    RECEIVED(&h.o, SEMEL_MISMATCH, "in", "a", 0, 0, "other content");
    SENT(&h.o, SEMEL_PROCESSED, "mail", "a", 1, NULL);
    NO_MORE(&h.o);
}

static void a_local_conflict_is_one_event(void **state)
{
    handoff h;
    fixture *f = *state;
    open_handoff(&h, f);
    send_id(h.outbox, "a");
    semel_test_fault(f->seam, "handoff.handled", 1, SEMEL_ECONFLICT);
    step(h.relay);
    assert_int_equal(h.todo.runs, 2);
    RECEIVED(&h.o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    SENT(&h.o, SEMEL_PROCESSED, "mail", "a", 1, NULL);
    NO_MORE(&h.o);
}

/* --- a consumer ------------------------------------------------------------------------------- */

static void publish(semel_transport *queue, const char *id, const char *type)
{
    semel_publish_result result;
    semel_message message = text_message(id, "body");
    const semel_message *one = &message;
    message.type = type;
    OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
}

static void consume(observed *o, semel_consumer_options options)
{
    size_t acked;
    fixture *f = o->f;
    scripted_handler todo = {.failures = 1, .only = "bad"};
    semel_inbox_options how = {.on_missing_key = SEMEL_MISSING_KEY_REJECT};
    semel_route route = {"order", observed_inbox(o, "in", how), scripted_handler_run, &todo};
    semel_transport *queue = fixture_queue(f, "memory:");
    options.size = sizeof options;
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, &options);
    static const char *const ids[] = {"a", "a", "bad", ""};
    for (size_t i = 0; i < 4; i++)
        publish(queue, ids[i], "order");
    publish(queue, "x", "other");
    for (int i = 0; i < 12; i++) {
        OK(semel_consumer_step(&acked, consumer, 0, &last_error));
        if (i > 5) /* the failed one comes again when the others are done */
            semel_test_advance_ms(f->seam, 3600000);
    }
}

static void a_consumer_reports_each_outcome_once(void **state)
{
    observed o;
    observed_open(&o, *state, NULL);
    consume(&o, (semel_consumer_options){.batch = 1});
    RECEIVED(&o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    RECEIVED(&o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    RECEIVED(&o, SEMEL_FAILED, "in", "bad", 1, 1, "out of paper");
    TRIED_AGAIN_IN(&o, 200);
    RECEIVED(&o, SEMEL_MISSING_KEY, "in", "", 0, 0, "finds nothing");
    RECEIVED(&o, SEMEL_DEAD, "in", "", 0, 0, "refused by the inbox");
    REFUSED_FOR(&o, SEMEL_MISSING_KEY);
    RECEIVED(&o, SEMEL_DEAD, "unrouted", "x", 0, 0, "no route");
    REFUSED_FOR(&o, SEMEL_UNDECIDED);
    RECEIVED(&o, SEMEL_PROCESSED, "in", "bad", 2, 1, NULL);
    NO_MORE(&o);
}

static void a_consumer_of_batches_reports_each_outcome_once(void **state)
{
    observed o;
    observed_open(&o, *state, NULL);
    consume(&o, (semel_consumer_options){.batch = 16});
    RECEIVED(&o, SEMEL_DEAD, "unrouted", "x", 0, 0, "no route");
    REFUSED_FOR(&o, SEMEL_UNDECIDED);
    RECEIVED(&o, SEMEL_MISSING_KEY, "in", "", 0, 0, "finds nothing");
    RECEIVED(&o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    RECEIVED(&o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    RECEIVED(&o, SEMEL_FAILED, "in", "bad", 1, 1, "out of paper");
    TRIED_AGAIN_IN(&o, 200);
    RECEIVED(&o, SEMEL_DEAD, "in", "", 0, 0, "refused by the inbox");
    REFUSED_FOR(&o, SEMEL_MISSING_KEY);
    RECEIVED(&o, SEMEL_PROCESSED, "in", "bad", 2, 1, NULL);
    NO_MORE(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("each answer of the broker is one event", each_answer_of_the_broker_is_one_event),
        ON_BOTH("a refused message is dead once", a_refused_message_is_dead_once),
        ON_BOTH("an unroutable message is dead once", an_unroutable_message_is_dead_once),
        ON_BOTH("a conflict while settling is one event", a_conflict_while_settling_is_one_event),
        ON_BOTH("what was not settled is no event", what_was_not_settled_is_no_event),
        ON_BOTH("a local hand-off is received and sent", a_local_hand_off_is_received_and_sent),
        ON_BOTH("a local failure is received only", a_local_failure_is_received_only),
        ON_BOTH("a refused local message is reported as both",
                a_refused_local_message_is_reported_as_both),
        ON_BOTH("a local conflict is one event", a_local_conflict_is_one_event),
        ON_BOTH("a consumer reports each outcome once", a_consumer_reports_each_outcome_once),
        ON_BOTH("a consumer of batches reports each outcome once",
                a_consumer_of_batches_reports_each_outcome_once)};
    return cmocka_run_group_tests_name("observer of relays", tests, NULL, NULL);
}
