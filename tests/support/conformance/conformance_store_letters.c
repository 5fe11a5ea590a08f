/* How long dead letters live, and what lives and ends with them: markers, expiry, many replays at
 * once, letters without a route, announcements. */
#include "support/conformance/conformance_store.h"

#include <semel/operate.h>
#include <stdio.h>
#include <string.h>

enum { KEPT = 1000, LONGER = 1001 }; /* grains: a retention, and more than it */

static semel_inbox *open_keeping(store_fixture *f, uint64_t dead_retention_ms)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .retention_ms = grains(f, KEPT),
                                   .dead_retention_ms = dead_retention_ms,
                                   .clock_margin_ms = grains(f, 10)};
    return open_inbox(f, "orders", &options);
}

static void bury(semel_inbox *inbox, const char *id)
{
    scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, id, &hopeless);
}

static size_t sweep_round(semel_inbox *inbox, uint32_t rows)
{
    size_t all = 0, some;
    int more = 1;
    for (int steps = 0; more; steps++) {
        assert_true(steps < 10000);
        OK(semel_inbox_sweep(&some, &more, inbox, rows, &last_error));
        all += some;
    }
    return all;
}

/* --- markers and letters ---------------------------------------------------------------------- */

/* Nor does the inbox believe that it has forgotten anything: an old first copy still runs. */
static void a_dead_marker_stays_as_long_as_its_letter(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_keeping(f, 0);
    scripted_handler never = {0}, first = {0};
    semel_message old = text_message("m-2", "10 EUR");
    old.time_ms = wall_of(f);
    bury(inbox, "m-1");
    for (int i = 0; i < 3; i++) {
        pass_ms(f, grains(f, LONGER));
        assert_int_equal(sweep_round(inbox, 10), 0);
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &never);
    }
    assert_int_equal(never.runs, 0);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &old, &first);
}

static void a_discarded_key_that_is_forgotten_runs_again(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_keeping(f, 0);
    scripted_handler done = {0};
    bury(inbox, "m-1");
    bury(inbox, "m-2");
    letters found;
    letters_read(&found, f->base.store, NULL);
    OK(semel_dead_discard(f->base.store, found.all[0].id, SEMEL_DISCARD_FORGET_KEY, &last_error));
    letters_free(&found);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    assert_int_equal(done.attempt, 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-2", &done);
    assert_int_equal(count_letters(f), 1);
}

/* The letter would stay without its key. */
static void the_key_of_a_letter_is_not_forgotten_alone(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_keeping(f, 0);
    scripted_handler done = {0};
    letters found;
    bury(inbox, "m-1");
    letters_read(&found, f->base.store, NULL);
    FAILS(SEMEL_EREJECTED, semel_inbox_forget_key(inbox, semel_str("m-1"), &last_error));
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &done);
    OK(semel_dead_discard(f->base.store, found.all[0].id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    OK(semel_inbox_forget_key(inbox, semel_str("m-1"), &last_error));
    letters_free(&found);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
}

static void a_discarded_key_that_stays_dead_is_counted_and_swept_in_the_end(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_keeping(f, 0);
    scripted_handler never = {0}, again = {0};
    bury(inbox, "m-1");
    pass_ms(f, grains(f, LONGER));
    OK(semel_dead_discard(f->base.store, only_letter(f), SEMEL_DISCARD_KEEP_DEAD, &last_error));
    assert_int_equal(count_letters(f), 0);
    assert_int_equal(sweep_round(inbox, 10), 0); /* the retention begins when it is discarded */
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &never);
    assert_int_equal(counters_of(f).dead, 2);
    assert_int_equal(never.runs, 0);
    pass_ms(f, grains(f, LONGER));
    assert_int_equal(sweep_round(inbox, 10), 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &again);
}

static void discarding_leaves_the_keys_of_others_alone(void **state)
{
    store_fixture *f = *state;
    semel_inbox *orders = open_inbox(f, "orders", NULL), *bills = open_inbox(f, "bills", NULL);
    scripted_handler never = {0};
    bury(orders, "m-1");
    bury(bills, "m-1");
    FAILS(SEMEL_EINVAL, semel_dead_discard(f->base.store, 1, (semel_discard)7, &last_error));
    letters found;
    letters_read(&found, f->base.store,
                 &(semel_dead_filter){.size = sizeof(semel_dead_filter), .name = "bills"});
    OK(semel_dead_discard(f->base.store, found.all[0].id, SEMEL_DISCARD_FORGET_KEY, &last_error));
    letters_free(&found);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, orders, "m-1", &never);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, bills, "m-1", &never);
}

/* --- retention of letters --------------------------------------------------------------------- */

static void letters_expire_with_their_markers(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_keeping(f, grains(f, 5 * KEPT));
    scripted_handler never = {0};
    semel_message late = text_message("m-1", "10 EUR"), copy = text_message("m-2", "10 EUR");
    late.time_ms = wall_of(f);
    for (int i = 1; i <= 5; i++)
        bury(inbox, (const char *[]){"", "m-1", "m-2", "m-3", "m-4", "m-5"}[i]);
    pass_ms(f, grains(f, 3 * KEPT));
    bury(inbox, "young");
    assert_int_equal(sweep_round(inbox, 2), 0);
    pass_ms(f, grains(f, 3 * KEPT));
    assert_int_equal(sweep_round(inbox, 2), 5);
    assert_int_equal(count_letters(f), 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "young", &never);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &late,
             &never); /* the inbox knows that it forgot */
    assert_int_equal(never.runs, 0);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &copy, &never); /* its age is not known */
}

static void refuse(semel_outbox *outbox, semel_transport *broker, store_fixture *f)
{
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_message message = text_message("sent", "10 EUR");
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 1);
    (void)relay_once(open_relay(f, outbox, broker, &options));
}

static void letters_of_any_origin_can_be_swept(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_keeping(f, 0);
    size_t removed;
    int more;
    semel_dead_filter filter = {.size = sizeof filter, .origin = SEMEL_DEAD_OUTBOX};
    bury(inbox, "m-1");
    refuse(open_outbox(f, "mail"), open_recorder(f), f);
    assert_int_equal(count_letters(f), 2);
    OK(semel_dead_sweep(&removed, &more, f->base.store, &filter, grains(f, KEPT), 0, &last_error));
    assert_int_equal(removed, 0);
    pass_ms(f, grains(f, LONGER));
    OK(semel_dead_sweep(&removed, &more, f->base.store, &filter, SEMEL_RETENTION_FOREVER, 0,
                        &last_error));
    assert_int_equal(removed, 0);
    OK(semel_dead_sweep(&removed, &more, f->base.store, &filter, grains(f, KEPT), 0, &last_error));
    assert_int_equal(removed, 1);
    assert_int_equal(more, 0);
    assert_int_equal(count_letters(f), 1);
    OK(semel_dead_sweep(&removed, &more, f->base.store, NULL, SEMEL_RETENTION_NONE, 1,
                        &last_error));
    assert_int_equal(removed, 1);
    assert_int_equal(count_letters(f), 0);
}

/* --- what a letter tells ---------------------------------------------------------------------- */

static void a_letter_tells_when_the_first_attempt_was(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 3};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    scripted_handler failing = {.failures = 99};
    semel_message message = text_message("m-1", "10 EUR");
    int64_t first = now_of(f);
    for (message.delivery = 1; message.delivery < 3; message.delivery++) {
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &failing);
        pass_ms(f, grains(f, 100));
    }
    int64_t last = now_of(f);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &failing);
    letters found;
    letters_read(&found, f->base.store, NULL);
    STORED_AT(first, f, found.all[0].first_ms);
    STORED_AT(last, f, found.all[0].at_ms);
    letters_free(&found);
}

static void letters_are_found_by_type_and_time(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler hopeless = {.failures = 2, .failure = SEMEL_EGIVEUP};
    semel_message one = text_message("m-1", "a"), two = text_message("m-2", "a");
    one.type = "order.placed";
    two.type = "order.paid";
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &one, &hopeless);
    pass_ms(f, grains(f, 100));
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &two, &hopeless);
    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 2);
    int64_t later = found.all[1].at_ms;
    letters_free(&found);
    const semel_dead_filter filters[] = {{.type = "order.placed"},
                                         {.type = "order.paid"},
                                         {.type = "order"},
                                         {.until_ms = later},
                                         {.since_ms = later},
                                         {.since_ms = later, .type = "order.placed"},
                                         {.since_ms = 1, .until_ms = later + 1}};
    const char *const expected[] = {"m-1", "m-2", "", "m-1", "m-2", "", "m-1m-2"};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        semel_dead_filter filter = filters[i];
        char ids[64] = "";
        filter.size = sizeof filter;
        letters_read(&found, f->base.store, &filter);
        for (size_t j = 0; j < found.count; j++)
            (void)strncat(ids, found.all[j].key, found.all[j].key_len);
        assert_string_equal(ids, expected[i]);
        letters_free(&found);
    }
}

/* --- many at once ----------------------------------------------------------------------------- */

static void all_letters_are_replayed_and_counted(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {.failures = 2, .only = "m-2"}, again = {0};
    size_t replayed = 9, failed = 9;
    bury(open_inbox(f, "others", NULL), "m-1");
    for (int i = 1; i <= 4; i++)
        bury(inbox, (const char *[]){"", "m-1", "m-2", "m-3", "m-4"}[i]);
    OK(semel_inbox_replay_all(&replayed, &failed, inbox, NULL, scripted_handler_run, &done,
                              &last_error));
    assert_int_equal(replayed, 3);
    assert_int_equal(failed, 1);
    assert_non_null(strstr(last_error.text, "out of paper"));
    assert_string_equal(done.ids, "m-1 m-2 m-3 m-4 ");
    OK(semel_inbox_replay_all(&replayed, &failed, inbox, NULL, scripted_handler_run, &again,
                              &last_error));
    assert_int_equal(replayed, 1);
    assert_int_equal(failed, 0);
    assert_string_equal(again.ids, "m-2 ");
    assert_int_equal(count_letters(f), 1);
}

static void all_letters_of_an_outbox_are_replayed(void **state)
{
    store_fixture *f = *state;
    semel_outbox *mail = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    size_t replayed, failed;
    for (int i = 0; i < 3; i++)
        refuse(mail, broker, f);
    refuse(open_outbox(f, "others"), open_recorder(f), f);
    assert_int_equal(count_letters(f), 4);
    OK(semel_outbox_replay_all(&replayed, &failed, mail, NULL, &last_error));
    assert_int_equal(replayed, 3);
    assert_int_equal(failed, 0);
    assert_int_equal(count_letters(f), 1);
    assert_int_equal(counters_of(f).unsent, 3);
}

/* --- letters without a route ------------------------------------------------------------------ */

static void publish(semel_transport *queue, const char *id, const char *type)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *one = &message;
    semel_publish_result result;
    message.type = type;
    OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
}

static void step_until_empty(semel_consumer *consumer)
{
    size_t settled;
    do
        OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    while (settled);
}

static void leave_unrouted(store_fixture *f, semel_transport *queue, const semel_route *route)
{
    semel_consumer *consumer = NULL;
    (void)f;
    OK(semel_consumer_open(&consumer, queue, route, 1, NULL, &last_error));
    publish(queue, "m-1", "bill.paid");
    publish(queue, "m-2", "bill.paid");
    step_until_empty(consumer);
    semel_consumer_close(consumer);
}

static void an_unrouted_letter_is_replayed_once_it_has_routes(void **state)
{
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    semel_consumer *consumer = NULL;
    scripted_handler none = {0}, bills = {0}, ledger = {.failures = 1};
    semel_outcome outcome;
    semel_route routes[] = {
        {"order.*", open_inbox(f, "orders", NULL), scripted_handler_run, &none},
        {"bill.*", open_inbox(f, "bills", NULL), scripted_handler_run, &bills},
        {"*.paid", open_inbox(f, "ledger", NULL), scripted_handler_run, &ledger}};
    OK(semel_transport_open(&queue, "memory:", NULL, &last_error));
    leave_unrouted(f, queue, routes);
    assert_int_equal(count_letters(f), 2);
    OK(semel_consumer_open(&consumer, queue, routes, 3, NULL, &last_error));
    letters found;
    letters_read(&found, f->base.store, NULL);
    int64_t id = found.all[0].id;
    letters_free(&found);
    /* One route has handled it, the other has failed: the letter stays. */
    FAILS(SEMEL_EHANDLER, semel_consumer_replay(&outcome, consumer, id, &last_error));
    assert_int_equal(bills.runs, 1);
    int ledger_buried = f->mode == SEMEL_CLAIM; /* as a replay in claim mode does */
    assert_int_equal(count_letters(f), 2 + ledger_buried);
    OK(semel_consumer_replay(&outcome, consumer, id, &last_error));
    assert_int_equal(bills.runs, 1);
    assert_int_equal(ledger.runs, 2 - ledger_buried);
    assert_int_equal(count_letters(f), 1 + ledger_buried);
    FAILS(SEMEL_ENOTFOUND, semel_consumer_replay(&outcome, consumer, id, &last_error));
    publish(queue, "m-1", "bill.paid"); /* a later copy */
    step_until_empty(consumer);
    assert_int_equal(bills.runs, 1);
    assert_int_equal(ledger.runs, 2 - ledger_buried);
    semel_consumer_close(consumer);
    semel_transport_close(queue);
}

static void a_consumer_replays_all_letters_of_its_routes(void **state)
{
    store_fixture *f = *state;
    semel_transport *queue = NULL;
    semel_consumer *consumer = NULL;
    scripted_handler none = {0}, bills = {0};
    size_t replayed, failed;
    semel_inbox *paid = open_inbox(f, "bills", NULL);
    semel_route routes[] = {{"order.*", open_inbox(f, "orders", NULL), scripted_handler_run, &none},
                            {"bill.*", paid, scripted_handler_run, &bills}};
    OK(semel_transport_open(&queue, "memory:", NULL, &last_error));
    leave_unrouted(f, queue, routes);
    bury(paid, "m-3");
    bury(open_inbox(f, "anothers", NULL), "m-4");
    assert_int_equal(count_letters(f), 4);
    OK(semel_consumer_open(&consumer, queue, routes, 2, NULL, &last_error));
    OK(semel_consumer_replay_all(&replayed, &failed, consumer, NULL, &last_error));
    assert_int_equal(replayed, 3);
    assert_int_equal(failed, 0);
    assert_string_equal(bills.ids, "m-1 m-2 m-3 ");
    assert_int_equal(count_letters(f), 1);
    semel_consumer_close(consumer);
    semel_transport_close(queue);
}

/* --- announcements ---------------------------------------------------------------------------- */

static void expect_header(const semel_message *fault, const char *name, const char *value)
{
    BYTES_EQUAL(semel_str(value), semel_message_header(fault, name));
}

/* What the sender wrote need not be text. */
static void an_announcement_carries_the_failed_message(void **state)
{
    store_fixture *f = *state;
    semel_outbox *faults = open_outbox(f, "faults");
    semel_inbox_options options = {
        .size = sizeof options, .faults = faults, .attempts_max = 2, .fault_body = 1};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_transport *broker = open_recorder(f);
    scripted_handler failing = {.failures = 2};
    const semel_header headers[] = {{"traceparent", semel_str("00-aa-bb-01")},
                                    {"Semel-Inbox", semel_str("mine")},
                                    {"\xff", semel_str("no name")},
                                    {SEMEL_HEADER_DUE, semel_str("1")}};
    semel_message message = text_message("m-1", "10 EUR");
    message.type = "order.\xff";
    message.source = "shop";
    message.topic = "orders";
    message.correlation_id = semel_str("c-1");
    message.content_type = "text/\xfe";
    message.headers = headers;
    message.header_count = 4;
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &failing);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &failing);
    assert_int_equal(counters_of(f).captured, 1);
    assert_int_equal(relay_once(open_relay(f, faults, broker, NULL)), 1);
    const semel_message *fault = semel_test_recorder_message(broker, 0);
    assert_string_equal(fault->type, "semel.fault");
    expect_header(fault, "semel-inbox", "orders");
    expect_header(fault, "semel-type", message.type);
    expect_header(fault, "semel-source", "shop");
    expect_header(fault, "semel-topic", "orders");
    expect_header(fault, "semel-attempts", "2");
    expect_header(fault, "traceparent", "00-aa-bb-01");
    expect_header(fault, "original-semel-inbox", "mine");
    expect_header(fault, "semel-dropped-headers", "1");
    assert_null(semel_message_header(fault, SEMEL_HEADER_DUE).data);
    assert_int_equal(semel_message_header(fault, "semel-first-time").len, 24);
    assert_int_equal(semel_message_header(fault, "semel-last-time").len, 24);
    BYTES_EQUAL(semel_str("c-1"), fault->correlation_id);
    BYTES_EQUAL(semel_str("10 EUR"), fault->body);
    assert_null(fault->content_type);
}

const store_test store_letter_tests[] = {
    STORE_TEST_WITH(a_dead_marker_stays_as_long_as_its_letter, NEEDS_SWEEP),
    STORE_TEST(a_discarded_key_that_is_forgotten_runs_again),
    STORE_TEST(the_key_of_a_letter_is_not_forgotten_alone),
    STORE_TEST_WITH(a_discarded_key_that_stays_dead_is_counted_and_swept_in_the_end, NEEDS_SWEEP),
    STORE_TEST(discarding_leaves_the_keys_of_others_alone),
    STORE_TEST_WITH(letters_expire_with_their_markers, NEEDS_SWEEP),
    STORE_TEST_WITH(letters_of_any_origin_can_be_swept, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST(a_letter_tells_when_the_first_attempt_was),
    STORE_TEST_WITH(letters_are_found_by_type_and_time, IN_ANY_MODE),
    STORE_TEST(all_letters_are_replayed_and_counted),
    STORE_TEST_WITH(all_letters_of_an_outbox_are_replayed, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST(an_unrouted_letter_is_replayed_once_it_has_routes),
    STORE_TEST(a_consumer_replays_all_letters_of_its_routes),
    STORE_TEST_WITH(an_announcement_carries_the_failed_message, NEEDS_OUTBOX),
    {NULL, NULL, 0},
};
