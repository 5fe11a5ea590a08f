/* Routing: which handlers a message goes to, that each has its own marker and its own failure, and
 * what becomes of messages that no route or no inbox takes. */
#include "support/fixture/fixture.h"

#include <stdio.h>

static void publish(semel_transport *transport, const semel_message *message)
{
    semel_publish_result result;
    OK(semel_transport_publish(&result, transport, &message, 1, 1000, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static void publish_typed(semel_transport *transport, const char *id, const char *type)
{
    semel_message message = text_message(id, "a");
    message.type = type;
    publish(transport, &message);
}

/* One step; how many were acknowledged. */
static size_t step(semel_consumer *consumer)
{
    size_t settled = 99;
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    return settled;
}

/* --- patterns --------------------------------------------------------------------------------- */

static void a_star_stands_for_any_run_of_characters(void **state)
{
    static const struct {
        const char *pattern, *type;
        int fits;
    } cases[] = {{"order.placed", "order.placed", 1},
                 {"order.placed", "order.place", 0},
                 {"order.placed", "order.placed2", 0},
                 {"order.placed", "Order.placed", 0},
                 {"*", "order.placed", 1},
                 {"*", NULL, 1},
                 {"*", "", 1},
                 {"x", NULL, 0},
                 {"order.*", "order.placed", 1},
                 {"order.*", "order.", 1},
                 {"order.*", "order", 0},
                 {"order.*", "reorder.placed", 0},
                 {"*.placed", "order.placed", 1},
                 {"*.placed", ".placed", 1},
                 {"*.placed", "order.placed.late", 0},
                 {"a*b*c", "abc", 1},
                 {"a*b*c", "a-b-c", 1},
                 {"a*b*c", "abcbc", 1},
                 {"a*b*c", "acb", 0},
                 {"a*b*c", "ac", 0},
                 {"a*b*c", "abcd", 0},
                 {"**", "anything", 1},
                 {"a**", "a", 1},
                 {"*a", "banana", 1},
                 {"*an", "banana", 0},
                 {"a?c", "abc", 0},
                 {"a.c", "abc", 0}};
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_consumer_options options = {.size = sizeof options, .on_unrouted = SEMEL_UNROUTED_IGNORE};
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char id[24];
        scripted_handler todo = {0};
        semel_route route = {cases[i].pattern, inbox, scripted_handler_run, &todo};
        semel_consumer *consumer = NULL;
        (void)snprintf(id, sizeof id, "%zu", i);
        publish_typed(queue, id, cases[i].type);
        OK(semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
        assert_int_equal(step(consumer), 1);
        if ((int)todo.runs != cases[i].fits)
            fail_msg("%s and %s", cases[i].pattern, cases[i].type ? cases[i].type : "NULL");
        semel_consumer_close(consumer);
    }
}

/* Matching by trying all that each star may stand for would take 2^18 times as long as this. */
static void many_stars_cost_no_time(void **state)
{
    fixture *f = *state;
    char type[1000];
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {0};
    semel_route route = {"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", fixture_inbox(f, "inbox", NULL),
                         scripted_handler_run, &todo};
    semel_consumer_options options = {.size = sizeof options, .on_unrouted = SEMEL_UNROUTED_IGNORE};
    memset(type, 'a', sizeof type);
    type[sizeof type - 1] = 0;
    publish_typed(queue, "1", type);
    assert_int_equal(step(fixture_consumer(f, queue, &route, 1, &options)), 1);
    assert_int_equal(todo.runs, 0);
}

static void a_message_without_a_type_is_routed_by_its_topic(void **state)
{
    static const char *const types[] = {"order.paid", "", NULL};
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler by_type = {0}, by_topic = {0};
    semel_route routes[] = {
        {"order.*", fixture_inbox(f, "types", NULL), scripted_handler_run, &by_type},
        {"orders", fixture_inbox(f, "topics", NULL), scripted_handler_run, &by_topic}};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 2, NULL);
    for (size_t i = 0; i < 3; i++) {
        publish_typed(queue, (const char *const[]){"1", "2", "3"}[i], types[i]);
        assert_int_equal(step(consumer), 1);
    }
    assert_string_equal(by_type.ids, "1 ");
    assert_string_equal(by_topic.ids, "2 3 ");
}

/* --- tables that are refused ------------------------------------------------------------------ */

static semel_status another_handler(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    return scripted_handler_run(unit, message, context, err);
}

static void a_table_that_would_lose_messages_is_refused(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL), *same = fixture_inbox(f, "inbox", NULL);
    semel_inbox *other = fixture_inbox(f, "other", NULL);
    semel_consumer *consumer = NULL;
    semel_route shared[] = {{"a", inbox, scripted_handler_run, NULL},
                            {"b", same, another_handler, NULL}};
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, queue, shared, 2, NULL, &last_error));
    SAYS("routes 1 and 2 share inbox \"inbox\"");
    shared[1].handler = scripted_handler_run; /* one handler for two patterns is one scope */
    OK(semel_consumer_open(&consumer, queue, shared, 2, NULL, &last_error));
    semel_consumer_close(consumer);
    shared[1] = (semel_route){"b", other, another_handler, NULL};
    OK(semel_consumer_open(&consumer, queue, shared, 2, NULL, &last_error));
    semel_consumer_close(consumer);
}

static void an_incomplete_route_is_refused_by_number(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_route good = {"*", inbox, scripted_handler_run, NULL};
    semel_route bad[] = {{NULL, inbox, scripted_handler_run, NULL},
                         {"", inbox, scripted_handler_run, NULL},
                         {"*", NULL, scripted_handler_run, NULL},
                         {"*", inbox, NULL, NULL}};
    static semel_route many[SEMEL_ROUTES_MAX + 1];
    semel_consumer *consumer = NULL;
    for (size_t i = 0; i < 4; i++) {
        semel_route routes[] = {good, bad[i]};
        FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, queue, routes, 2, NULL, &last_error));
        SAYS("route 2");
    }
    for (size_t i = 0; i <= SEMEL_ROUTES_MAX; i++)
        many[i] = good;
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, queue, &good, 0, NULL, &last_error));
    FAILS(SEMEL_EINVAL,
          semel_consumer_open(&consumer, queue, many, SEMEL_ROUTES_MAX + 1, NULL, &last_error));
    OK(semel_consumer_open(&consumer, queue, many, SEMEL_ROUTES_MAX, NULL, &last_error));
    semel_consumer_close(consumer);
}

static void options_out_of_range_are_refused(void **state)
{
    fixture *f = *state;
    semel_consumer *consumer = NULL;
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, NULL};
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_consumer_options options = {.size = sizeof options, .order = (semel_order)3};
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
    SAYS("order");
    options = (semel_consumer_options){.size = sizeof options, .workers = SEMEL_WORKERS_MAX + 1};
    FAILS(SEMEL_ELIMIT, semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
    SAYS("SEMEL_WORKERS_MAX");
    options = (semel_consumer_options){.size = sizeof options, .inflight_max = UINT32_MAX};
    FAILS(SEMEL_ELIMIT, semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
    SAYS("SEMEL_INFLIGHT_MAX");
}

static void routes_are_copied(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {0};
    char pattern[] = "order.*";
    semel_route route = {pattern, fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    memset(pattern, 'x', sizeof pattern - 1);
    memset(&route, 0, sizeof route);
    publish_typed(queue, "1", "order.placed");
    assert_int_equal(step(consumer), 1);
    assert_int_equal(todo.runs, 1);
}

/* --- one message, several handlers ------------------------------------------------------------ */

static void fan_out(fixture *f, uint32_t batch)
{
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler billing = {0}, shipping = {.failures = 2, .only = "b"}, audit = {0};
    semel_route routes[] = {
        {"order.*", fixture_inbox(f, "billing", NULL), scripted_handler_run, &billing},
        {"*.placed", fixture_inbox(f, "shipping", NULL), scripted_handler_run, &shipping},
        {"*", fixture_inbox(f, "audit", NULL), scripted_handler_run, &audit}};
    semel_consumer_options options = {.size = sizeof options, .batch = batch};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 3, &options);
    size_t settled = 0;
    publish_typed(queue, "a", "order.placed");
    publish_typed(queue, "b", "order.placed");
    publish_typed(queue, "c", "invoice.paid");
    for (int i = 0; i < 3; i++)
        settled += step(consumer);
    assert_int_equal(settled, 2); /* b is not: it is on its way back */
    for (int i = 0; i < 2; i++) {
        semel_test_advance_ms(f->seam, 1000);
        settled += step(consumer);
    }
    assert_int_equal(settled, 3);
    assert_string_equal(billing.ids, "a b ");
    assert_string_equal(shipping.ids, "a b b b ");
    assert_string_equal(audit.ids, "a b c ");
    assert_int_equal(shipping.attempt, 3);
}

static void each_handler_has_its_own_marker_and_failure(void **state)
{
    fan_out(*state, 1);
}

static void each_handler_has_its_own_marker_and_failure_in_batches(void **state)
{
    fan_out(*state, 3);
}

static void a_message_that_fits_two_routes_of_one_inbox_is_handled_once(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler todo = {0};
    semel_route routes[] = {{"order.*", inbox, scripted_handler_run, &todo},
                            {"*", inbox, scripted_handler_run, &todo}};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 2, NULL);
    publish_typed(queue, "1", "order.placed");
    assert_int_equal(step(consumer), 1);
    assert_int_equal(todo.runs, 1);
}

static void what_keeps_failing_is_a_dead_letter_and_acknowledged(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {.failures = 100}, other = {0};
    semel_route routes[] = {{"*", fixture_inbox(f, "fails", NULL), scripted_handler_run, &todo},
                            {"*", fixture_inbox(f, "works", NULL), scripted_handler_run, &other}};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 2, NULL);
    size_t settled = 0;
    publish_typed(queue, "1", "order.placed");
    for (int i = 0; i < 20; i++) {
        settled += step(consumer);
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(settled, 1);
    assert_int_equal(todo.runs, 5);
    assert_int_equal(other.runs, 1);
    letter one = fixture_only_letter(f);
    assert_string_equal(one.name, "fails");
    assert_int_equal(one.attempts, 5);
}

/* --- messages without a route ----------------------------------------------------------------- */

static void an_unrouted_message_is_a_dead_letter_once(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {0};
    semel_route route = {"order.*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    semel_consumer_options options = {.size = sizeof options, .batch = 10};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, &options);
    semel_outcome outcome;
    publish_typed(queue, "1", "invoice.paid");
    publish_typed(queue, "1", "invoice.paid"); /* a copy of it */
    publish_typed(queue, "2", "order.placed");
    assert_int_equal(step(consumer), 3);
    letter one = fixture_only_letter(f);
    assert_string_equal(one.name, "unrouted");
    assert_string_equal(one.message_id, "1");
    assert_non_null(strstr(one.error, "invoice.paid"));
    assert_string_equal(todo.ids, "2 ");
    FAILS(SEMEL_EREJECTED, semel_consumer_replay(&outcome, consumer, one.id, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_consumer_replay(&outcome, consumer, one.id + 1, &last_error));
}

static void an_unrouted_message_can_be_ignored(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_route route = {"order.*", fixture_inbox(f, "inbox", NULL), scripted_handler_run,
                         &(scripted_handler){0}};
    semel_consumer_options options = {.size = sizeof options, .on_unrouted = SEMEL_UNROUTED_IGNORE};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, &options);
    publish_typed(queue, "1", "invoice.paid");
    assert_int_equal(step(consumer), 1);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void refuse(fixture *f, uint32_t batch)
{
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {0};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    semel_consumer_options options = {.size = sizeof options, .batch = batch};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, &options);
    semel_message good = text_message("1", "a"), other = text_message("1", "other content");
    semel_message keyless = text_message("", "a"), stale = text_message("3", "a");
    const semel_message *all[] = {&good, &other, &keyless, &stale};
    letter letters[4];
    size_t settled = 0;
    stale.time_ms = 1;
    fixture_forget(f, route.inbox, SEMEL_RETENTION_DEFAULT_MS);
    for (int copy = 0; copy < 2; copy++) /* everything comes twice */
        for (size_t i = 0; i < 4; i++)
            publish(queue, all[i]);
    for (int i = 0; i < 8; i++)
        settled += step(consumer);
    assert_int_equal(settled, 8);
    assert_int_equal(todo.runs, 1);
    assert_int_equal(fixture_letters(f, letters, 4), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(letters[i].name, "inbox");
        assert_non_null(strstr(letters[i].error, "refused"));
    }
}

static void what_an_inbox_refuses_is_a_dead_letter_once_each(void **state)
{
    refuse(*state, 1);
}

static void what_an_inbox_refuses_is_a_dead_letter_once_each_in_batches(void **state)
{
    refuse(*state, 8);
}

static void a_refused_message_with_the_longest_key_is_kept(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {0};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    static char id[SEMEL_TEXT_MAX];
    memset(id, 'k', sizeof id);
    for (size_t len = SEMEL_KEY_MAX; len <= SEMEL_TEXT_MAX; len += SEMEL_TEXT_MAX - SEMEL_KEY_MAX)
        for (int other = 0; other < 2; other++) {
            semel_message message = {.size = sizeof message, .id = {id, len}};
            message.body = semel_str(other ? "other content" : "a");
            publish(queue, &message);
            assert_int_equal(step(consumer), 1);
        }
    assert_int_equal(todo.runs, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 2);
}

/* Each copy is announced, but under one id: an inbox on the other side lets one of them through. */
static void copies_of_a_refused_message_are_announced_under_one_id(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:"), *recorder = fixture_recorder(f);
    semel_outbox *faults = fixture_outbox(f, "faults");
    semel_inbox_options options = {.size = sizeof options, .faults = faults};
    scripted_handler todo = {0};
    semel_route route = {"*", fixture_inbox(f, "inbox", &options), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    static const char *const bodies[] = {"no key", "no key", "no key either"};
    for (int i = 0; i < 3; i++) {
        semel_message message = {.size = sizeof message, .body = semel_str(bodies[i])};
        publish(queue, &message);
        assert_int_equal(step(consumer), 1);
    }
    assert_int_equal(fixture_drain(fixture_relay(f, faults, recorder, NULL)), 3);
    semel_bytes first = semel_test_recorder_message(recorder, 0)->id;
    semel_bytes third = semel_test_recorder_message(recorder, 2)->id;
    BYTES_EQUAL(first, semel_test_recorder_message(recorder, 1)->id);
    assert_int_equal(first.len, third.len);
    assert_memory_not_equal(first.data, third.data, first.len);
}

static void a_rejected_duplicate_is_acknowledged(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox_options strict = {.size = sizeof strict, .on_duplicate = SEMEL_DUPLICATE_REJECT};
    scripted_handler todo = {0};
    semel_route route = {"*", fixture_inbox(f, "inbox", &strict), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    publish_typed(queue, "1", "order.placed");
    publish_typed(queue, "1", "order.placed");
    assert_int_equal(step(consumer) + step(consumer), 2);
    assert_int_equal(todo.runs, 1);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* A copy that is being handled elsewhere comes back later, unharmed and uncounted. */
static void a_copy_in_progress_elsewhere_comes_back(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {0};
    semel_route route = {"*", inbox, scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    semel_unit *unit;
    semel_outcome outcome;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    publish(queue, &message);
    assert_int_equal(step(consumer), 0);
    OK(semel_unit_commit(unit, &last_error));
    semel_test_advance_ms(f->seam, 1000);
    assert_int_equal(step(consumer), 1);
    assert_int_equal(todo.runs, 0);
}

/* --- replay ----------------------------------------------------------------------------------- */

static void a_dead_letter_is_replayed_through_its_route(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler first = {0}, second = {.failures = 2, .failure = SEMEL_EGIVEUP};
    semel_route routes[] = {{"*", fixture_inbox(f, "first", NULL), scripted_handler_run, &first},
                            {"*", fixture_inbox(f, "second", NULL), scripted_handler_run, &second}};
    semel_consumer *consumer = fixture_consumer(f, queue, routes, 2, NULL);
    semel_outcome outcome;
    publish_typed(queue, "1", "order.placed");
    assert_int_equal(step(consumer), 1);
    int64_t id = fixture_only_letter(f).id;
    FAILS(SEMEL_EGIVEUP, semel_consumer_replay(&outcome, consumer, id, &last_error));
    OUTCOME(SEMEL_FAILED, outcome);
    OK(semel_consumer_replay(&outcome, consumer, id, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    assert_int_equal(first.runs, 1);
    assert_int_equal(second.runs, 3);
    FAILS(SEMEL_ENOTFOUND, semel_consumer_replay(&outcome, consumer, id, &last_error));
    OUTCOME(SEMEL_UNDECIDED, outcome);
}

static void routes_with_one_inbox_and_two_contexts_are_refused(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler one = {0}, two = {0};
    semel_route routes[] = {{"*", inbox, scripted_handler_run, &one},
                            {"*", inbox, scripted_handler_run, &two}};
    semel_consumer *consumer;
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, fixture_queue(f, "memory:"), routes, 2, NULL,
                                            &last_error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("a star stands for any run of characters",
                  a_star_stands_for_any_run_of_characters),
        ON_MEMORY("many stars cost no time", many_stars_cost_no_time),
        ON_MEMORY("a message without a type is routed by its topic",
                  a_message_without_a_type_is_routed_by_its_topic),
        ON_MEMORY("a table that would lose messages is refused",
                  a_table_that_would_lose_messages_is_refused),
        ON_MEMORY("an incomplete route is refused by number",
                  an_incomplete_route_is_refused_by_number),
        ON_MEMORY("options out of range are refused", options_out_of_range_are_refused),
        ON_MEMORY("routes are copied", routes_are_copied),
        ON_BOTH("each handler has its own marker and its own failure",
                each_handler_has_its_own_marker_and_failure),
        ON_BOTH("each handler has its own marker and its own failure, in batches",
                each_handler_has_its_own_marker_and_failure_in_batches),
        ON_BOTH("a message that fits two routes of one inbox is handled once",
                a_message_that_fits_two_routes_of_one_inbox_is_handled_once),
        ON_BOTH("what keeps failing is a dead letter and acknowledged",
                what_keeps_failing_is_a_dead_letter_and_acknowledged),
        ON_BOTH("an unrouted message is a dead letter once",
                an_unrouted_message_is_a_dead_letter_once),
        ON_BOTH("an unrouted message can be ignored", an_unrouted_message_can_be_ignored),
        ON_BOTH("what an inbox refuses is a dead letter once each",
                what_an_inbox_refuses_is_a_dead_letter_once_each),
        ON_BOTH("what an inbox refuses is a dead letter once each, in batches",
                what_an_inbox_refuses_is_a_dead_letter_once_each_in_batches),
        ON_BOTH("a refused message with the longest key is kept",
                a_refused_message_with_the_longest_key_is_kept),
        ON_BOTH("copies of a refused message are announced under one id",
                copies_of_a_refused_message_are_announced_under_one_id),
        ON_BOTH("a rejected duplicate is acknowledged", a_rejected_duplicate_is_acknowledged),
        ON_BOTH("a copy in progress elsewhere comes back", a_copy_in_progress_elsewhere_comes_back),
        ON_BOTH("a dead letter is replayed through its route",
                a_dead_letter_is_replayed_through_its_route),
        ON_BOTH("routes with one inbox and two contexts are refused",
                routes_with_one_inbox_and_two_contexts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
