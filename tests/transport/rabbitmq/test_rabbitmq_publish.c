/* Publishing to a real broker: one answer for each message, whatever the others get, and never a
 * confirmation of something that is not in a queue. What is there afterwards is looked at with
 * other clients. */
#include "support/process/threads.h"
#include "support/servers/proxy.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <stdatomic.h>

enum { LONG_TEXT = 300 };

#define SOME_ROUTES "declare=yes&type=classic&bind=here.%23,orders"

static const char *long_text(void)
{
    static char text[LONG_TEXT + 1];
    memset(text, 'x', LONG_TEXT);
    return text;
}

static semel_message addressed(const char *id, const char *topic, const char *body)
{
    semel_message message = text_message(id, body);
    message.topic = topic;
    return message;
}

static void open_publisher(rabbit_kit *kit)
{
    kit_open(kit, SOME_ROUTES);
    kit_publish_only(kit, "");
}

static void expect_ready(rabbit_kit *kit, int64_t count)
{
    EVENTUALLY(broker_ready(&kit->broker, kit->queue) == count);
}

/* --- one batch, many results ------------------------------------------------------------------ */

static void each_message_of_a_mixed_batch_has_its_own_result(void **state)
{
    static char value[SEMEL_HEADER_MAX - 16];
    semel_header headers[32];
    memset(value, 'v', sizeof value);
    for (size_t i = 0; i < 32; i++)
        headers[i] = (semel_header){"large", {value, sizeof value}};
    const struct {
        semel_message message;
        semel_publish_result expected;
    } cases[] = {
        {addressed("1", "here.a", "a"), SEMEL_PUBLISH_CONFIRMED},
        {addressed("2", "nowhere", "a"), SEMEL_PUBLISH_UNROUTABLE},
        {addressed("2", "nowhere", "a"), SEMEL_PUBLISH_UNROUTABLE}, /* a copy */
        {addressed("2", "here.a", "a"), SEMEL_PUBLISH_CONFIRMED},
        {addressed("1", "here.a", "a"), SEMEL_PUBLISH_CONFIRMED}, /* a copy */
        {addressed("", "nowhere", "a"), SEMEL_PUBLISH_UNROUTABLE},
        {addressed("", "here.a", "a"), SEMEL_PUBLISH_CONFIRMED},
        {addressed("", "nowhere", ""), SEMEL_PUBLISH_UNROUTABLE},
        {addressed(long_text(), "nowhere", "b"), SEMEL_PUBLISH_UNROUTABLE},
        {addressed(long_text(), "here.a", "b"), SEMEL_PUBLISH_CONFIRMED},
        {addressed("3", long_text(), "a"), SEMEL_PUBLISH_REFUSED}, /* no routing key is so long */
        {addressed("4", NULL, "a"), SEMEL_PUBLISH_UNROUTABLE},
        {addressed("5", "here.b", ""), SEMEL_PUBLISH_CONFIRMED},
        {addressed("6", "here.b", "headers"), SEMEL_PUBLISH_REFUSED}, /* more than a frame */
        {addressed("7", "nowhere.else", "z"), SEMEL_PUBLISH_UNROUTABLE},
        {addressed("8", "here.c", "z"), SEMEL_PUBLISH_CONFIRMED},
    };
    enum { COUNT = sizeof cases / sizeof *cases };
    semel_message messages[COUNT];
    semel_publish_result results[COUNT];
    rabbit_kit kit;
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        messages[i] = cases[i].message;
    messages[13].headers = headers;
    messages[13].header_count = 32;
    open_publisher(&kit);
    OK(kit_publish(&kit, results, messages, COUNT, KIT_WAIT_MS));
    for (size_t i = 0; i < COUNT; i++)
        if (results[i] != cases[i].expected)
            fail_msg("message %zu: %d, not %d", i, (int)results[i], (int)cases[i].expected);
    expect_ready(&kit, 7);
    kit_close(&kit);
}

static void without_an_exchange_a_topic_is_the_name_of_a_queue(void **state)
{
    semel_publish_result results[2];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, SOME_ROUTES);
    semel_message messages[] = {addressed("1", kit.queue, "a"), addressed("2", "no-queue", "a")};
    semel_transport_close(kit.transport);
    kit.transport = NULL;
    OK(semel_transport_open(&kit.transport, kit.broker.url, NULL, &last_error));
    OK(kit_publish(&kit, results, messages, 2, KIT_WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(results[1], SEMEL_PUBLISH_UNROUTABLE);
    expect_ready(&kit, 1);
    kit_close(&kit);
}

/* Where headers decide, messages that are the same otherwise cannot be told apart by what comes
 * back: then none of them passes for confirmed that was not routed, and those that were may be
 * taken for unroutable. */
static void what_a_headers_exchange_returns_is_not_taken_for_its_twin(void **state)
{
    static const semel_header good[] = {{"kind", {"good", 4}}}, bad[] = {{"kind", {"bad", 3}}};
    enum { COUNT = 40 };
    semel_message messages[COUNT];
    semel_publish_result results[COUNT];
    char said[KIT_SAID];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, "declare=yes&type=quorum&exchange_type=headers&bind=x");
    kit_publish_only(&kit, "exchange_type=headers");
    kit_pika(said, &kit,
             "channel.queue_unbind(queue, queue, \"x\")\n"
             "channel.queue_bind(queue, queue, \"\", {\"x-match\": \"all\", \"kind\": \"good\"})");
    for (size_t i = 0; i < COUNT; i++) {
        messages[i] = addressed("", "orders", "a");
        messages[i].headers = i % 2 ? bad : good;
        messages[i].header_count = 1;
    }
    OK(kit_publish(&kit, results, messages, COUNT, KIT_WAIT_MS));
    for (size_t i = 1; i < COUNT; i += 2)
        assert_int_equal(results[i], SEMEL_PUBLISH_UNROUTABLE);
    expect_ready(&kit, COUNT / 2);
    kit_close(&kit);
}

static void a_body_that_is_too_large_is_refused(void **state)
{
    char *body = calloc(1, SEMEL_BODY_MAX + 1);
    rabbit_kit kit;
    (void)state;
    open_publisher(&kit);
    semel_message messages[] = {addressed("1", "nowhere", "x"), addressed("2", "here.a", "x"),
                                addressed("3", "nowhere", "y"), addressed("4", "here.a", "y")};
    semel_publish_result results[4];
    messages[0].body = messages[1].body = (semel_bytes){body, SEMEL_BODY_MAX + 1};
    messages[2].body = messages[3].body = (semel_bytes){body, SEMEL_BODY_MAX};
    OK(kit_publish(&kit, results, messages, 4, KIT_WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_REFUSED);
    assert_int_equal(results[1], SEMEL_PUBLISH_REFUSED);
    assert_int_equal(results[2], SEMEL_PUBLISH_UNROUTABLE);
    assert_int_equal(results[3], SEMEL_PUBLISH_CONFIRMED);
    expect_ready(&kit, 1);
    free(body);
    kit_close(&kit);
}

static void thousands_go_in_one_batch(void **state)
{
    enum { COUNT = 5000 };
    semel_message *messages = calloc(COUNT, sizeof *messages);
    semel_publish_result *results = calloc(COUNT, sizeof *results);
    char(*ids)[16] = calloc(COUNT, sizeof *ids);
    rabbit_kit kit;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "m%zu", i);
        messages[i] = addressed(ids[i], i % 5 == 4 ? "nowhere" : "here.a", "10 EUR");
    }
    open_publisher(&kit);
    OK(kit_publish(&kit, results, messages, COUNT, KIT_WAIT_MS));
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(results[i],
                         i % 5 == 4 ? SEMEL_PUBLISH_UNROUTABLE : SEMEL_PUBLISH_CONFIRMED);
    expect_ready(&kit, COUNT / 5 * 4);
    kit_close(&kit);
    free(ids);
    free(results);
    free(messages);
}

/* --- a full queue ----------------------------------------------------------------------------- */

static void make_small(const rabbit_kit *kit)
{
    char said[KIT_SAID];
    kit_pika(said, kit,
             "channel.exchange_declare(queue, \"topic\", durable=True)\n"
             "channel.queue_declare(queue, durable=True, arguments={\"x-max-length\": 3,\n"
             "    \"x-overflow\": \"reject-publish\"})\n"
             "channel.queue_bind(queue, queue, \"here.#\")");
}

static void a_queue_that_is_full_says_no_until_there_is_room(void **state)
{
    semel_message messages[6];
    semel_publish_result results[6];
    server_place shared;
    broker_message first;
    rabbit_kit kit;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(&kit, &shared, "");
    make_small(&kit);
    kit_publish_only(&kit, "declare=no");
    for (size_t i = 0; i < 6; i++)
        messages[i] = addressed("1", i == 1 ? "nowhere" : "here.a", "a");
    OK(kit_publish(&kit, results, messages, 6, KIT_WAIT_MS));
    size_t confirmed = 0, nacked = 0;
    for (size_t i = 0; i < 6; i++) {
        confirmed += results[i] == SEMEL_PUBLISH_CONFIRMED;
        nacked += results[i] == SEMEL_PUBLISH_NACKED;
    }
    assert_int_equal(results[1], SEMEL_PUBLISH_UNROUTABLE);
    assert_int_equal(confirmed, 3);
    assert_int_equal(nacked, 2);
    assert_int_equal(kit_publish_one(&kit, &messages[0]), SEMEL_PUBLISH_NACKED);
    assert_true(broker_get(&first, &shared, kit.queue));
    broker_message_free(&first);
    EVENTUALLY(kit_publish_one(&kit, &messages[0]) == SEMEL_PUBLISH_CONFIRMED);
    kit_close(&kit);
}

/* --- an exchange that goes and comes ---------------------------------------------------------- */

static void an_exchange_deleted_between_calls_is_waited_for(void **state)
{
    semel_message messages[] = {addressed("1", "here.a", "a"), addressed("2", "here.a", "b")};
    semel_publish_result results[2];
    server_place shared;
    rabbit_kit kit;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(&kit, &shared, "");
    broker_make_exchange(&shared, kit.queue, "topic");
    broker_make_queue(&shared, kit.queue, "classic");
    broker_bind(&shared, kit.queue, kit.queue, "#");
    kit_publish_only(&kit, "");
    OK(kit_publish(&kit, results, messages, 2, KIT_WAIT_MS));
    broker_delete_exchange(&shared, kit.queue);
    for (int i = 0; i < 3; i++) { /* by the channel that was open, and by new ones */
        results[0] = results[1] = SEMEL_PUBLISH_CONFIRMED;
        FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, results, messages, 2, KIT_WAIT_MS));
        SAYS(kit.queue);
        assert_true(last_error.retryable);
        assert_int_equal(results[0], SEMEL_PUBLISH_UNKNOWN);
        assert_int_equal(results[1], SEMEL_PUBLISH_UNKNOWN);
    }
    broker_make_exchange(&shared, kit.queue, "topic");
    OK(kit_publish(&kit, results, messages, 2, KIT_WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_UNROUTABLE); /* it has lost its bindings */
    broker_bind(&shared, kit.queue, kit.queue, "#");
    OK(kit_publish(&kit, results, messages, 2, KIT_WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_CONFIRMED);
    expect_ready(&kit, 4);
    kit_close(&kit);
}

static void an_exchange_is_made_again_if_so_asked(void **state)
{
    semel_message message = addressed("1", "here.a", "a");
    semel_publish_result result;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, SOME_ROUTES);
    kit_send(&kit, "0");
    broker_delete_exchange(&kit.broker, kit.queue);
    FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &message, 1, KIT_WAIT_MS));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(kit_publish_one(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    kit_close(&kit);
}

static void an_exchange_that_is_not_there_is_refused_at_open(void **state)
{
    semel_transport *transport = NULL;
    server_place shared;
    rabbit_kit kit;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(&kit, &shared, "declare=check");
    FAILS(SEMEL_ETRANSPORT, semel_transport_open(&transport, kit.url, NULL, &last_error));
    SAYS(kit.queue);
    SAYS("declare=yes");
    assert_null(transport);
}

/* --- several at once, and late answers -------------------------------------------------------- */

typedef struct publish_case {
    rabbit_kit *kit;
    atomic_uint wrong;
} publish_case;

enum { PUBLISHERS = 4, PUBLISHER_BATCHES = 15, PUBLISHER_BATCH = 20 };

static void publish_beside_others(test_thread *member)
{
    publish_case *all = member->context;
    for (unsigned batch = 0; batch < PUBLISHER_BATCHES; batch++) {
        semel_message messages[PUBLISHER_BATCH];
        const semel_message *pointers[PUBLISHER_BATCH];
        semel_publish_result results[PUBLISHER_BATCH];
        for (unsigned i = 0; i < PUBLISHER_BATCH; i++) { /* all look alike, but for where they go */
            messages[i] =
                addressed("same", (i + member->index) % 3 ? "here.a" : "nowhere", "the same");
            pointers[i] = &messages[i];
        }
        semel_error err;
        if (semel_transport_publish(results, all->kit->transport, pointers, PUBLISHER_BATCH,
                                    KIT_WAIT_MS, &err))
            atomic_fetch_add(&all->wrong, 1000);
        for (unsigned i = 0; i < PUBLISHER_BATCH; i++)
            atomic_fetch_add(&all->wrong,
                             results[i] != ((i + member->index) % 3 ? SEMEL_PUBLISH_CONFIRMED
                                                                    : SEMEL_PUBLISH_UNROUTABLE));
    }
}

static void threads_get_the_results_of_their_own_batches(void **state)
{
    rabbit_kit kit;
    publish_case all = {.kit = &kit};
    int64_t expected = 0;
    (void)state;
    open_publisher(&kit);
    assert_true(threads_run(PUBLISHERS, publish_beside_others, &all));
    assert_int_equal(atomic_load(&all.wrong), 0);
    for (unsigned member = 0; member < PUBLISHERS; member++)
        for (unsigned i = 0; i < PUBLISHER_BATCH; i++)
            expected += (i + member) % 3 ? PUBLISHER_BATCHES : 0;
    expect_ready(&kit, expected);
    kit_close(&kit);
}

/* Of the batch, two are for the queue. Again with more time, if this thread slept and not all was
 * sent. */
static void publish_unanswered(rabbit_kit *kit, const semel_message messages[3])
{
    enum { HELD_MS = 1500, HELD_MAX_MS = 12000 };
    for (uint32_t held_ms = HELD_MS; held_ms <= HELD_MAX_MS; held_ms *= 2) {
        semel_publish_result results[3];
        int64_t before = broker_ready(&kit->broker, kit->queue);
        FAILS(SEMEL_EUNAVAILABLE, kit_publish(kit, results, messages, 3, held_ms));
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(results[i], SEMEL_PUBLISH_UNKNOWN);
        for (int64_t until = process_now_ms() + held_ms; process_now_ms() < until; process_nap())
            if (broker_ready(&kit->broker, kit->queue) >= before + 2)
                return;
    }
    fail_msg("the messages do not arrive");
}

/* The answers to a batch that the publisher has given up come while the next one is under way. */
static void late_answers_do_not_count_for_the_next_batch(void **state)
{
    semel_message messages[] = {addressed("1", "here.a", "a"), addressed("2", "nowhere", "b"),
                                addressed("3", "here.a", "c")};
    semel_message others[] = {addressed("4", "nowhere", "d"), addressed("5", "here.a", "e"),
                              addressed("6", "nowhere", "f")};
    semel_publish_result results[3];
    char through[SERVER_URL_ROOM];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, SOME_ROUTES);
    proxy *between = proxy_open(kit.url);
    memcpy(kit.broker.url, proxy_url(through, between, kit.broker.url), sizeof through);
    kit_publish_only(&kit, "heartbeat=0"); /* what is kept back are answers */
    kit_send(&kit, "0");
    expect_ready(&kit, 1);
    proxy_hold(between, 1);
    publish_unanswered(&kit, messages);
    assert_true(proxy_wait_held(between, KIT_WAIT_MS));
    proxy_hold(between, 0);
    OK(kit_publish(&kit, results, others, 3, KIT_WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_UNROUTABLE);
    assert_int_equal(results[1], SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(results[2], SEMEL_PUBLISH_UNROUTABLE);
    kit_close(&kit);
    proxy_close(between);
}

/* --- what others see -------------------------------------------------------------------------- */

static int same(amqp_bytes_t bytes, const char *text)
{
    return bytes.len == strlen(text) && memcmp(bytes.bytes, text, bytes.len) == 0;
}

static void look_at_properties(const broker_message *seen, int persistent)
{
    const amqp_basic_properties_t *is = &seen->message.properties;
    const amqp_field_value_t *trace = broker_header(seen, "traceparent");
    assert_string_equal(seen->key, "here.a");
    assert_int_equal(is->delivery_mode, persistent ? 2 : 1);
    assert_true(same(is->message_id, "order-17"));
    assert_true(same(is->type, "order.paid"));
    assert_true(same(is->app_id, "shop"));
    assert_true(same(is->correlation_id, "c-1"));
    assert_true(same(is->content_type, "text/plain"));
    assert_int_equal(is->timestamp, 1700000000);
    assert_non_null(trace);
    assert_int_equal(trace->kind, AMQP_FIELD_KIND_UTF8);
    assert_true(same(trace->value.bytes, "00-ab-01"));
    assert_true(same(seen->message.body, "10 EUR"));
}

static void publish_and_look(const char *parameters, int persistent)
{
    static const semel_header trace = {"traceparent", {"00-ab-01", 8}};
    semel_message message = addressed("order-17", "here.a", "10 EUR");
    broker_message seen;
    rabbit_kit kit;
    message.correlation_id = semel_str("c-1");
    message.content_type = "text/plain";
    message.time_ms = INT64_C(1700000000000);
    message.headers = &trace;
    message.header_count = 1;
    kit_open(&kit, parameters);
    kit_publish_only(&kit, persistent ? "" : "persistent=no&loss=warn");
    assert_int_equal(kit_publish_one(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    assert_true(broker_get(&seen, &kit.broker, kit.queue));
    look_at_properties(&seen, persistent);
    broker_message_free(&seen);
    kit_close(&kit);
}

static void another_client_finds_the_properties_where_it_looks_for_them(void **state)
{
    (void)state;
    publish_and_look(SOME_ROUTES, 1);
}

static void messages_are_transient_only_if_asked_for(void **state)
{
    (void)state;
    publish_and_look(SOME_ROUTES, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_of_a_mixed_batch_has_its_own_result),
        cmocka_unit_test(without_an_exchange_a_topic_is_the_name_of_a_queue),
        cmocka_unit_test(what_a_headers_exchange_returns_is_not_taken_for_its_twin),
        cmocka_unit_test(a_body_that_is_too_large_is_refused),
        cmocka_unit_test(thousands_go_in_one_batch),
        cmocka_unit_test(a_queue_that_is_full_says_no_until_there_is_room),
        cmocka_unit_test(an_exchange_deleted_between_calls_is_waited_for),
        cmocka_unit_test(an_exchange_is_made_again_if_so_asked),
        cmocka_unit_test(an_exchange_that_is_not_there_is_refused_at_open),
        cmocka_unit_test(threads_get_the_results_of_their_own_batches),
        cmocka_unit_test(late_answers_do_not_count_for_the_next_batch),
        cmocka_unit_test(another_client_finds_the_properties_where_it_looks_for_them),
        cmocka_unit_test(messages_are_transient_only_if_asked_for),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("publishing to RabbitMQ", tests, NULL, NULL);
}
