/* Routes that promise less: those without an inbox, whose handlers run for every copy, and those
 * that share an inbox, whose handlers run in one unit. An effect is a message in the outbox: it is
 * there if, and only if, the handler's unit was committed. */
#include "support/fake/no_delay_transport.h"

static void publish_typed(semel_transport *transport, const char *id, const char *type)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    message.type = type;
    OK(semel_transport_publish(&result, transport, &one, 1, 1000, &last_error));
}

/* Steps, letting time pass after each; how many deliveries were acknowledged. */
static size_t steps(fixture *f, semel_consumer *consumer, int count)
{
    size_t settled = 0;
    for (int i = 0; i < count; i++) {
        size_t now = 0;
        OK(semel_consumer_step(&now, consumer, 0, &last_error));
        settled += now;
        semel_test_advance_ms(f->seam, 60000);
    }
    return settled;
}

static uint64_t unsent(fixture *f)
{
    return fixture_counters(f).unsent;
}

/* --- without an inbox ------------------------------------------------------------------------- */

static void each_copy_runs_a_route_without_an_inbox(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_message event = text_message(NULL, "event");
    scripted_handler once = {0}, each = {.outbox = fixture_outbox(f, "out"), .sends = &event};
    semel_route routes[] = {{"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &once},
                            {"order.*", NULL, scripted_handler_run, &each}};
    semel_consumer_options options = {.size = sizeof options, .batch = 10, .store = f->store};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 2, &options);
    publish_typed(queue, "1", "order.placed");
    publish_typed(queue, "1", "order.placed");
    publish_typed(queue, "2", "invoice.paid");
    assert_int_equal(steps(f, consumer, 2), 3);
    assert_string_equal(once.ids, "1 2 ");
    assert_string_equal(each.ids, "1 1 ");
    assert_int_equal(unsent(f), 2);
    assert_int_equal(fixture_counters(f).dead, 0);
}

/* What it sent before it failed is gone with its unit; the others of the batch are not. */
static void the_unit_of_a_route_without_an_inbox_is_all_or_nothing(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_message event = text_message(NULL, "event");
    scripted_handler todo = {
        .failures = 1, .only = "b", .outbox = fixture_outbox(f, "out"), .sends = &event};
    semel_route route = {"*", NULL, scripted_handler_run, &todo};
    semel_consumer_options options = {.size = sizeof options, .batch = 3, .store = f->store};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, &options);
    publish_typed(queue, "a", "order.placed");
    publish_typed(queue, "b", "order.placed");
    publish_typed(queue, "c", "order.placed");
    assert_int_equal(steps(f, consumer, 1), 2);
    assert_int_equal(unsent(f), 2);
    assert_int_equal(steps(f, consumer, 1), 1);
    assert_string_equal(todo.ids, "a b c b ");
    assert_int_equal(unsent(f), 3);
}

/* Attempts are counted in memory, whether the broker takes the delivery back or the consumer keeps
 * it. */
static void without_an_inbox_the_last_attempt_is_a_dead_letter(void **state)
{
    fixture *f = *state;
    no_delay around = {.inner = fixture_queue(f, "memory:")};
    semel_transport *transports[] = {fixture_queue(f, "memory:"),
                                     no_delay_open(f, &around, f->host)};
    for (size_t i = 0; i < 2; i++) {
        scripted_handler todo = {.failures = 3};
        semel_route route = {"order.*", NULL, scripted_handler_run, &todo};
        semel_consumer_options options = {
            .size = sizeof options, .store = f->store, .attempts_max = 3};
        semel_consumer *consumer = fixture_consumer(f, transports[i], &route, 1, &options);
        semel_outcome outcome;
        publish_typed(i ? around.inner : transports[0], "1", "order.placed");
        assert_int_equal(steps(f, consumer, 9), 1);
        assert_int_equal(todo.runs, 3);
        letter one = fixture_only_letter(f);
        assert_string_equal(one.name, "order.*");
        assert_string_equal(one.message_id, "1");
        assert_int_equal(one.attempts, 3);
        OK(semel_consumer_replay(&outcome, consumer, one.id, &last_error));
        OUTCOME(SEMEL_PROCESSED, outcome);
        assert_int_equal(todo.runs, 4);
        FAILS(SEMEL_ENOTFOUND, semel_consumer_replay(&outcome, consumer, one.id, &last_error));
    }
}

static void a_route_that_is_done_does_not_run_again_while_another_fails(void **state)
{
    fixture *f = *state;
    no_delay around = {.inner = fixture_queue(f, "memory:")};
    semel_transport *transport = no_delay_open(f, &around, f->host);
    scripted_handler done = {0}, failing = {.failures = 3};
    semel_route routes[] = {{"*", NULL, scripted_handler_run, &done},
                            {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &failing}};
    semel_consumer_options options = {.size = sizeof options, .store = f->store};
    semel_consumer *consumer = fixture_consumer(f, transport, routes, 2, &options);
    publish_typed(around.inner, "1", "order.placed");
    assert_int_equal(steps(f, consumer, 3), 0);
    assert_int_equal(done.runs, 1);

    /* Another process gets the delivery, and knows nothing of what the first has done. */
    OK(semel_consumer_open(&consumer, transport, routes, 2, &options, &last_error));
    semel_consumer *first = f->things[--f->thing_count].thing;
    semel_consumer_close(first);
    assert_int_equal(steps(f, consumer, 3), 1);
    assert_int_equal(done.runs, 2);
    assert_int_equal(failing.runs, 4);
    semel_consumer_close(consumer);
}

/* The store fails after the route without an inbox is done: the job remembers that. */
static void a_route_that_is_done_does_not_run_again_after_an_outage(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler done = {0}, second = {0};
    semel_route routes[] = {{"*", NULL, scripted_handler_run, &done},
                            {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &second}};
    semel_consumer_options options = {.size = sizeof options, .store = f->store};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 2, &options);
    size_t settled;
    publish_typed(queue, "1", "order.placed");
    semel_test_fault(f->seam, "receive.marked", 2, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, consumer, 0, &last_error));
    assert_int_equal(steps(f, consumer, 2), 1);
    assert_int_equal(done.runs, 1);
    assert_int_equal(second.runs, 1);
}

static void without_an_inbox_a_store_must_be_named(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {0};
    semel_route route = {"order.*", NULL, scripted_handler_run, &todo};
    semel_consumer_options options = {.size = sizeof options};
    semel_consumer *consumer;
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
    SAYS("semel_consumer_options.store");
    options.store = f->store;
    consumer = fixture_consumer(f, queue, &route, 1, &options);
    publish_typed(queue, "1", "invoice.paid");
    publish_typed(queue, "1", "invoice.paid");
    assert_int_equal(steps(f, consumer, 2), 2);
    assert_string_equal(fixture_only_letter(f).name, "unrouted");
}

static void letters_that_would_be_mixed_up_are_refused(void **state)
{
    static char long_pattern[SEMEL_NAME_MAX + 2];
    static const char *const bad[] = {"unrouted", "unusable", "orders",
                                      "order.*",  "a\xff",    long_pattern};
    fixture *f = *state;
    semel_consumer_options options = {.size = sizeof options, .store = f->store};
    semel_consumer *consumer;
    memset(long_pattern, 'x', sizeof long_pattern - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        semel_route routes[] = {{"order.*", NULL, scripted_handler_run, NULL},
                                {"*", fixture_inbox(f, "orders", NULL), scripted_handler_run, NULL},
                                {bad[i], NULL, scripted_handler_run, f}};
        FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, fixture_queue(f, "memory:"), routes, 3,
                                                &options, &last_error));
        SAYS(i == 3 ? "routes 1 and 3" : "route 3");
    }
}

/* --- several routes with one inbox ------------------------------------------------------------ */

typedef struct pipeline {
    semel_outbox *outbox;
    semel_message event;
    scripted_handler first, second, other;
    semel_route routes[3];
    semel_transport *queue;
    semel_consumer *consumer;
} pipeline;

static void open_pipeline(pipeline *p, fixture *f, semel_inbox *inbox, uint32_t batch)
{
    semel_consumer_options options = {.size = sizeof options, .batch = batch, .shared_inboxes = 1};
    p->outbox = fixture_outbox(f, "out");
    p->event = text_message(NULL, "event");
    p->first.outbox = p->second.outbox = p->outbox;
    p->first.sends = p->second.sends = &p->event;
    p->routes[0] = (semel_route){"*", inbox, scripted_handler_run, &p->first};
    p->routes[1] =
        (semel_route){"*", fixture_inbox(f, "other", NULL), scripted_handler_run, &p->other};
    p->routes[2] = (semel_route){"order.*", inbox, scripted_handler_run, &p->second};
    p->queue = fixture_queue(f, "memory:");
    p->consumer = fixture_consumer(f, p->queue, p->routes, 3, &options);
}

static void share(fixture *f, uint32_t batch, semel_mode mode)
{
    semel_inbox_options by_mode = {.size = sizeof by_mode, .mode = mode};
    pipeline p = {.second = {.failures = 1}};
    open_pipeline(&p, f, fixture_inbox(f, "inbox", &by_mode), batch);
    publish_typed(p.queue, "1", "order.placed");
    publish_typed(p.queue, "2", "invoice.paid");
    assert_int_equal(steps(f, p.consumer, 2), batch == 1 ? 1 : 2);
    assert_int_equal(steps(f, p.consumer, 3), batch == 1 ? 1 : 0);
    assert_string_equal(p.second.ids, "1 1 ");
    assert_int_equal(p.first.runs, 3); /* 1, 2, and 1 once more with the second handler */
    assert_string_equal(p.other.ids, "1 2 ");
    assert_int_equal(unsent(f), 3);
    publish_typed(p.queue, "1", "order.placed");
    publish_typed(p.queue, "2", "invoice.paid");
    assert_int_equal(steps(f, p.consumer, 3), 2);
    assert_int_equal(p.first.runs + p.second.runs + p.other.runs, 3 + 2 + 2);
}

static void routes_of_one_inbox_run_in_one_unit(void **state)
{
    share(*state, 1, SEMEL_TRANSACTION);
}

static void routes_of_one_inbox_run_in_one_unit_of_a_batch(void **state)
{
    share(*state, 5, SEMEL_TRANSACTION);
}

static void routes_of_one_inbox_run_under_one_claim(void **state)
{
    share(*state, 1, SEMEL_CLAIM);
}

static void routes_of_one_inbox_queue_together(void **state)
{
    share(*state, 1, SEMEL_QUEUED);
}

static void a_letter_of_a_shared_inbox_is_replayed_through_all_routes(void **state)
{
    fixture *f = *state;
    pipeline p = {.second = {.failures = 1, .failure = SEMEL_EGIVEUP}};
    semel_outcome outcome;
    open_pipeline(&p, f, fixture_inbox(f, "inbox", NULL), 1);
    publish_typed(p.queue, "1", "order.placed");
    assert_int_equal(steps(f, p.consumer, 2), 1);
    letter one = fixture_only_letter(f);
    assert_string_equal(one.name, "inbox");
    assert_int_equal(unsent(f), 0);
    OK(semel_consumer_replay(&outcome, p.consumer, one.id, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    assert_int_equal(p.first.runs, 2);
    assert_int_equal(p.second.runs, 2);
    assert_int_equal(unsent(f), 2);
}

static void an_inbox_is_shared_by_one_handle_only(void **state)
{
    fixture *f = *state;
    semel_route routes[] = {{"a", fixture_inbox(f, "inbox", NULL), scripted_handler_run, NULL},
                            {"b", fixture_inbox(f, "inbox", NULL), scripted_handler_run, NULL}};
    semel_consumer_options options = {.size = sizeof options, .shared_inboxes = 1};
    semel_consumer *consumer;
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, fixture_queue(f, "memory:"), routes, 2,
                                            &options, &last_error));
    SAYS("two handles");
}

/* --- several patterns of one handler ---------------------------------------------------------- */

/* Once for a message that both patterns fit, with an inbox and without; not if the contexts
 * differ. */
static void a_handler_with_several_patterns_runs_once(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler keyed = {0}, other = {0}, each = {.failures = 3};
    semel_route routes[] = {{"order.*", inbox, scripted_handler_run, &keyed},
                            {"order.*", inbox, scripted_handler_run, &other},
                            {"*.placed", inbox, scripted_handler_run, &keyed},
                            {"order.*", NULL, scripted_handler_run, &each},
                            {"*.placed", NULL, scripted_handler_run, &each}};
    semel_consumer_options options = {
        .size = sizeof options, .store = f->store, .shared_inboxes = 1, .attempts_max = 2};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 5, &options);
    publish_typed(queue, "1", "order.placed");
    publish_typed(queue, "2", "bid.placed");
    assert_int_equal(steps(f, consumer, 9), 2);
    assert_string_equal(keyed.ids, "1 2 ");
    assert_string_equal(other.ids, "1 ");
    assert_string_equal(each.ids, "1 1 2 2 "); /* two attempts of the first, which is dead then */
    letter one = fixture_only_letter(f);
    assert_string_equal(one.name, "order.*");
    assert_string_equal(one.message_id, "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("each copy runs a route without an inbox", each_copy_runs_a_route_without_an_inbox),
        ON_BOTH("the unit of a route without an inbox is all or nothing",
                the_unit_of_a_route_without_an_inbox_is_all_or_nothing),
        ON_BOTH("without an inbox the last attempt is a dead letter",
                without_an_inbox_the_last_attempt_is_a_dead_letter),
        ON_BOTH("a route that is done does not run again while another fails",
                a_route_that_is_done_does_not_run_again_while_another_fails),
        ON_BOTH("a route that is done does not run again after an outage",
                a_route_that_is_done_does_not_run_again_after_an_outage),
        ON_BOTH("without an inbox a store must be named", without_an_inbox_a_store_must_be_named),
        ON_MEMORY("letters that would be mixed up are refused",
                  letters_that_would_be_mixed_up_are_refused),
        ON_BOTH("routes of one inbox run in one unit", routes_of_one_inbox_run_in_one_unit),
        ON_BOTH("routes of one inbox run in one unit of a batch",
                routes_of_one_inbox_run_in_one_unit_of_a_batch),
        ON_BOTH("routes of one inbox run under one claim", routes_of_one_inbox_run_under_one_claim),
        ON_SQLITE("routes of one inbox queue together", routes_of_one_inbox_queue_together),
        ON_BOTH("a letter of a shared inbox is replayed through all routes",
                a_letter_of_a_shared_inbox_is_replayed_through_all_routes),
        ON_MEMORY("an inbox is shared by one handle only", an_inbox_is_shared_by_one_handle_only),
        ON_BOTH("a handler with several patterns runs once",
                a_handler_with_several_patterns_runs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
