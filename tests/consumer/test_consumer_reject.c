/* reject_dead: what becomes a dead letter by its delivery goes to the broker's own dead letters,
 * too: once, and not lost if the process dies between the letter and the verdict.
 * support/scenario/crash_letters.c kills a process there. */
#include "support/fake/no_delay_transport.h"
#include "support/process/process.h"

enum { SOON_MS = 60000 };

typedef struct reject_case {
    no_delay broker;
    semel_transport *transport;
} reject_case;

static void open_case(reject_case *c, fixture *f)
{
    *c = (reject_case){0};
    c->broker.inner = fixture_queue(f, "memory:");
    c->transport = no_delay_open(f, &c->broker, NULL);
}

static semel_consumer *open_consumer(reject_case *c, fixture *f, const semel_route *routes,
                                     size_t count, uint32_t batch)
{
    semel_consumer_options options = {.size = sizeof options,
                                      .batch = batch,
                                      .backoff_ms = 1,
                                      .backoff_max_ms = 2,
                                      .reject_dead = 1};
    return fixture_consumer(f, c->transport, routes, count, &options);
}

static void publish_typed(reject_case *c, const char *id, const char *type)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    message.type = type;
    OK(semel_transport_publish(&result, c->broker.inner, &one, 1, 0, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static void publish(reject_case *c, const char *id)
{
    publish_typed(c, id, "order.placed");
}

static void step_until(reject_case *c, semel_consumer *consumer, unsigned acked, unsigned rejected)
{
    size_t settled;
    for (int64_t deadline = process_now_ms() + SOON_MS; process_now_ms() < deadline;) {
        OK(semel_consumer_step(&settled, consumer, 10, &last_error));
        if (atomic_load(&c->broker.acked) + atomic_load(&c->broker.rejected) >= acked + rejected)
            break;
    }
    assert_int_equal(c->broker.acked, acked);
    assert_int_equal(c->broker.rejected, rejected);
}

static void reject_in(fixture *f, semel_mode mode, uint32_t batch)
{
    reject_case c;
    scripted_handler todo = {.failures = 9, .only = "bad", .failure = SEMEL_EGIVEUP};
    semel_inbox_options inbox = {.size = sizeof inbox, .mode = mode};
    semel_route route = {"*", fixture_inbox(f, "inbox", &inbox), scripted_handler_run, &todo};
    open_case(&c, f);
    semel_consumer *consumer = open_consumer(&c, f, &route, 1, batch);
    publish(&c, "good");
    publish(&c, "bad");
    publish(&c, "fine");
    step_until(&c, consumer, 2, 1);
    publish(&c, "bad"); /* a later copy */
    publish(&c, "good");
    step_until(&c, consumer, 4, 1);
    assert_string_equal(fixture_only_letter(f).message_id, "bad");
    assert_int_equal(fixture_counters(f).dead, 2);
}

static void a_dead_message_is_rejected_once(void **state)
{
    reject_in(*state, SEMEL_TRANSACTION, 1);
}

static void it_is_in_claim_mode(void **state)
{
    reject_in(*state, SEMEL_CLAIM, 1);
}

static void it_is_in_a_batch(void **state)
{
    reject_in(*state, SEMEL_TRANSACTION, 5);
}

static void it_is_after_its_last_attempt(void **state)
{
    fixture *f = *state;
    reject_case c;
    scripted_handler todo = {.failures = 9};
    semel_inbox_options inbox = {.size = sizeof inbox, .attempts_max = 3};
    semel_route route = {"*", fixture_inbox(f, "inbox", &inbox), scripted_handler_run, &todo};
    open_case(&c, f);
    publish(&c, "bad");
    step_until(&c, open_consumer(&c, f, &route, 1, 1), 0, 1);
    assert_int_equal(todo.runs, 3);
}

/* The process that buried it has died before it could say so. */
static void a_redelivery_of_a_dead_message_is_rejected(void **state)
{
    fixture *f = *state;
    reject_case c;
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_route route = {"*", inbox, scripted_handler_run, &todo};
    semel_delivery delivery;
    size_t count = 0;
    open_case(&c, f);
    publish(&c, "bad");
    OK(semel_transport_receive(c.broker.inner, &delivery, 1, &count, 0, &last_error));
    assert_int_equal(count, 1);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, delivery.message, &todo);
    semel_delivery_settlement back = {delivery.tag, SEMEL_VERDICT_RETRY, 0};
    OK(semel_transport_settle(c.broker.inner, &back, 1, &last_error));
    step_until(&c, open_consumer(&c, f, &route, 1, 1), 0, 1);
    assert_int_equal(todo.runs, 1);
}

/* The verdict is that of all routes: it waits for those that are not done. */
static void it_is_when_its_other_routes_are_done(void **state)
{
    fixture *f = *state;
    reject_case c;
    scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP}, slow = {.failures = 2};
    semel_route routes[] = {{"*", fixture_inbox(f, "a", NULL), scripted_handler_run, &hopeless},
                            {"*", fixture_inbox(f, "b", NULL), scripted_handler_run, &slow}};
    open_case(&c, f);
    publish(&c, "1");
    step_until(&c, open_consumer(&c, f, routes, 2, 1), 0, 1);
    assert_int_equal(hopeless.runs, 1);
    assert_int_equal(slow.runs, 3);
    assert_int_equal(fixture_counters(f).processed, 1);
}

static void what_is_refused_or_has_no_route_is_rejected(void **state)
{
    fixture *f = *state;
    reject_case c;
    scripted_handler todo = {0};
    semel_route route = {"order.*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    open_case(&c, f);
    publish_typed(&c, "1", "bill.paid");
    publish(&c, ""); /* no key */
    publish(&c, "2");
    step_until(&c, open_consumer(&c, f, &route, 1, 1), 1, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 2);
}

static void it_is_acknowledged_unless_asked_for(void **state)
{
    fixture *f = *state;
    reject_case c;
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    open_case(&c, f);
    publish(&c, "bad");
    step_until(&c, fixture_consumer(f, c.transport, &route, 1, NULL), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a dead message is rejected once", a_dead_message_is_rejected_once),
        ON_BOTH("it is in claim mode", it_is_in_claim_mode),
        ON_BOTH("it is in a batch", it_is_in_a_batch),
        ON_BOTH("it is after its last attempt", it_is_after_its_last_attempt),
        ON_BOTH("a redelivery of a dead message is rejected",
                a_redelivery_of_a_dead_message_is_rejected),
        ON_BOTH("it is when its other routes are done", it_is_when_its_other_routes_are_done),
        ON_BOTH("what is refused or has no route is rejected",
                what_is_refused_or_has_no_route_is_rejected),
        ON_BOTH("it is acknowledged unless asked for", it_is_acknowledged_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
