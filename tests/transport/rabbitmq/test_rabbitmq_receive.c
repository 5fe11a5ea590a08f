/* Receiving from a real broker: how much is out at a time, what each verdict does to its own
 * delivery and to no other, how often a message has come, and what other clients make of our
 * messages and we of theirs. */
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#define QUORUM  "declare=yes&type=quorum"
#define CLASSIC "declare=yes&type=classic"

enum { MANY = 60 };

static void send_numbers(rabbit_kit *kit, int count)
{
    semel_message messages[MANY];
    semel_publish_result results[MANY];
    char ids[MANY][8];
    assert_in_range(count, 1, MANY);
    for (int i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%d", i);
        messages[i] = text_message(ids[i], "10 EUR");
    }
    OK(kit_publish(kit, results, messages, (size_t)count, KIT_WAIT_MS));
    for (int i = 0; i < count; i++)
        assert_int_equal(results[i], SEMEL_PUBLISH_CONFIRMED);
}

static int number_of(const semel_delivery *delivery)
{
    char text[16] = "";
    assert_in_range(delivery->message->id.len, 1, sizeof text - 1);
    memcpy(text, delivery->message->id.data, delivery->message->id.len);
    return (int)strtol(text, NULL, 10);
}

/* Everything comes again that is not marked as gone, and nothing else is left in the queue. */
static void expect_the_others(rabbit_kit *kit, const int gone[], int count)
{
    int left = 0, seen[MANY] = {0};
    for (int i = 0; i < count; i++)
        left += !gone[i];
    /* Before closing: of many verdicts at once a quorum queue may forget the last, if the channel
     * goes with them. */
    EVENTUALLY(broker_count(&kit->broker, kit->queue) == left);
    kit_reopen(kit);
    for (int i = 0; i < left; i++) {
        semel_delivery one;
        kit_take(kit, &one, 1);
        int number = number_of(&one);
        assert_in_range(number, 0, count - 1);
        assert_false(gone[number]);
        assert_false(seen[number]++);
        kit_ack(kit, one);
    }
    EVENTUALLY(broker_count(&kit->broker, kit->queue) == 0);
}

/* --- prefetch --------------------------------------------------------------------------------- */

static void no_more_is_out_than_the_prefetch_allows(void **state)
{
    semel_delivery out[20];
    size_t more = 99;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, QUORUM "&prefetch=5");
    send_numbers(&kit, 20);
    kit_take(&kit, out, 5);
    OK(semel_transport_receive(kit.transport, out + 5, 15, &more, 200, &last_error));
    assert_int_equal(more, 0);
    assert_int_equal(broker_count(&kit.broker, kit.queue), 20);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 15);
    kit_ack(&kit, out[1]);
    kit_ack(&kit, out[4]);
    kit_take(&kit, out + 5, 2);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 13);
    kit_close(&kit);
}

/* What the consumer has not taken yet is out, too, as the broker sees it. */
static void what_waits_in_the_transport_is_bounded_as_well(void **state)
{
    semel_delivery one;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, CLASSIC "&prefetch=3");
    send_numbers(&kit, 10);
    kit_take(&kit, &one, 1);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 7);
    kit_ack(&kit, one);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 6);
    kit_close(&kit);
}

static void one_consumer_at_a_time_if_asked_for(void **state)
{
    semel_transport *second = NULL;
    semel_delivery one;
    size_t count = 99;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, QUORUM "&single_active=yes");
    OK(semel_transport_open(&second, kit.url, NULL, &last_error));
    send_numbers(&kit, 2);
    (void)kit_take_id(&kit, "0");
    OK(semel_transport_receive(second, &one, 1, &count, 200, &last_error));
    assert_int_equal(count, 0);
    semel_transport_close(kit.transport);
    kit.transport = second;
    (void)kit_take_id(&kit, "0");
    kit_close(&kit);
}

/* --- verdicts --------------------------------------------------------------------------------- */

static void each_verdict_of_one_call_holds_for_its_own_delivery(void **state)
{
    int gone[8] = {0};
    semel_delivery out[8];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, QUORUM);
    send_numbers(&kit, 8);
    kit_take(&kit, out, 8);
    const semel_delivery_settlement settles[] = {
        {.tag = out[6].tag, .verdict = SEMEL_VERDICT_ACK},
        {.tag = out[2].tag, .verdict = SEMEL_VERDICT_RETRY},
        {.tag = out[0].tag, .verdict = SEMEL_VERDICT_ACK},
        {.tag = out[5].tag, .verdict = SEMEL_VERDICT_REJECT},
        {.tag = out[3].tag, .verdict = SEMEL_VERDICT_ACK},
    };
    OK(semel_transport_settle(kit.transport, settles, 5, &last_error));
    gone[0] = gone[3] = gone[5] = gone[6] = 1; /* not 1, 4 and 7, which were not settled */
    semel_delivery again = kit_take_id(&kit, "2");
    assert_int_equal(again.message->delivery, 2);
    expect_the_others(&kit, gone, 8);
    kit_close(&kit);
}

/* Random verdicts in random portions; a cumulative acknowledgement would take others along. */
static void settle_at_random(rabbit_kit *kit, unsigned seed, int gone[MANY])
{
    semel_delivery out[MANY];
    semel_delivery_settlement settles[MANY];
    send_numbers(kit, MANY);
    kit_take(kit, out, MANY);
    for (int round = 0, left = MANY; round < 10; round++) {
        size_t count = 0;
        for (int i = 0; i < left; i++) {
            seed = seed * 1103515245 + 12345;
            if ((seed >> 16) % 8)
                continue;
            int rejected = (seed >> 20) % 4 == 0;
            gone[number_of(&out[i])] = 1;
            settles[count++] = (semel_delivery_settlement){
                .tag = out[i].tag, .verdict = rejected ? SEMEL_VERDICT_REJECT : SEMEL_VERDICT_ACK};
            out[i--] = out[--left];
        }
        if (count)
            OK(semel_transport_settle(kit->transport, settles, count, &last_error));
    }
}

static void verdicts_in_any_order_leave_the_rest_alone(void **state)
{
    const char *const kinds[] = {QUORUM, CLASSIC};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int gone[MANY] = {0};
        rabbit_kit kit;
        kit_open(&kit, kinds[i]);
        settle_at_random(&kit, 7 + i, gone);
        expect_the_others(&kit, gone, MANY);
        kit_close(&kit);
    }
}

/* --- dead letters ----------------------------------------------------------------------------- */

/* A kit whose queue has dead letters in a queue `dead`, by an exchange of that name. */
static void open_with_dead_letters(rabbit_kit *kit, char dead[BROKER_NAME_ROOM], const char *script)
{
    char parameters[2 * BROKER_NAME_ROOM], said[KIT_SAID], whole[KIT_SAID];
    server_place shared;
    server_find(&shared, SERVER_RABBITMQ);
    broker_name(dead);
    broker_make_exchange(&shared, dead, "fanout");
    (void)snprintf(parameters, sizeof parameters, QUORUM "&dead_letter=%s", dead);
    kit_prepare(kit, &shared, parameters);
    (void)snprintf(whole, sizeof whole, "dead = \"%s\"\n%s\nchannel.queue_bind(dead, dead)", dead,
                   script);
    kit_pika(said, kit, whole);
    OK(semel_transport_open(&kit->transport, kit->url, NULL, &last_error));
}

static void drop_dead_letters(rabbit_kit *kit, const char *dead)
{
    broker_delete_queue(&kit->broker, dead);
    broker_delete_exchange(&kit->broker, dead);
    kit_close(kit);
}

static void a_rejected_message_is_a_dead_letter_once(void **state)
{
    char dead[BROKER_NAME_ROOM];
    broker_message letter;
    rabbit_kit kit;
    (void)state;
    open_with_dead_letters(&kit, dead, "channel.queue_declare(dead, durable=True)");
    send_numbers(&kit, 3);
    semel_delivery first = kit_take_id(&kit, "0");
    OK(kit_settle(&kit, first, SEMEL_VERDICT_REJECT));
    EVENTUALLY(broker_ready(&kit.broker, dead) == 1);
    kit_reopen(&kit);
    semel_delivery second = kit_take_id(&kit, "1");
    OK(kit_settle(&kit, second, SEMEL_VERDICT_REJECT));
    EVENTUALLY(broker_ready(&kit.broker, dead) == 2);
    assert_true(broker_get(&letter, &kit.broker, dead));
    BYTES_EQUAL(semel_str("0"), ((semel_bytes){letter.message.properties.message_id.bytes,
                                               letter.message.properties.message_id.len}));
    assert_non_null(broker_header(&letter, "x-death"));
    broker_message_free(&letter);
    EVENTUALLY(broker_count(&kit.broker, kit.queue) == 1);
    assert_int_equal(broker_ready(&kit.broker, dead), 1);
    drop_dead_letters(&kit, dead);
}

/* --- how often it came ------------------------------------------------------------------------ */

static void count_over_lost_connections(const char *parameters, const uint32_t expected[3])
{
    enum { CALLS_MAX = 3 };
    char name[BROKER_NAME_ROOM], all[2 * BROKER_NAME_ROOM];
    semel_delivery one;
    rabbit_kit kit;
    broker_name(name);
    (void)snprintf(all, sizeof all, "%s&name=%s", parameters, name);
    kit_open(&kit, all);
    kit_send(&kit, "m");
    for (int i = 0; i < 3; i++) {
        size_t got = 0;
        for (int calls = 0; !got; calls++) { /* it may say once that the connection was lost */
            assert_true(calls < CALLS_MAX);
            if (semel_transport_receive(kit.transport, &one, 1, &got, KIT_WAIT_MS, &last_error))
                assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        }
        assert_int_equal(one.message->delivery, expected[i]);
        /* Those that were closed before may not be gone yet. */
        assert_true(broker_close_connections(&kit.broker, name) >= 1);
    }
    kit_close(&kit);
}

static void redeliveries_of_a_quorum_queue_are_counted(void **state)
{
    (void)state;
    count_over_lost_connections(QUORUM, (const uint32_t[]){1, 2, 3});
}

static void redeliveries_of_a_classic_queue_are_told_from_first_ones(void **state)
{
    (void)state;
    count_over_lost_connections(CLASSIC, (const uint32_t[]){1, 2, 2});
}

/* The delay queue that many use: dead letters wait in it, and come back. */
static void rounds_through_a_delay_queue_are_counted(void **state)
{
    char dead[BROKER_NAME_ROOM];
    rabbit_kit kit;
    (void)state;
    open_with_dead_letters(&kit, dead,
                           "channel.queue_declare(dead, durable=True, arguments={\n"
                           "    \"x-message-ttl\": 20, \"x-dead-letter-exchange\": \"\",\n"
                           "    \"x-dead-letter-routing-key\": queue})");
    kit_send(&kit, "m");
    for (uint32_t i = 1; i <= 4; i++) {
        semel_delivery one = kit_take_id(&kit, "m");
        assert_int_equal(one.message->delivery, i);
        OK(kit_settle(&kit, one, SEMEL_VERDICT_REJECT));
    }
    semel_delivery last = kit_take_id(&kit, "m");
    OK(kit_settle(&kit, last, SEMEL_VERDICT_RETRY)); /* this way is counted as well */
    last = kit_take_id(&kit, "m");
    assert_int_equal(last.message->delivery, 6);
    kit_ack(&kit, last);
    drop_dead_letters(&kit, dead);
}

/* --- what is no message of ours --------------------------------------------------------------- */

static void reject_unusable(rabbit_kit *kit, const char *id)
{
    semel_message *copy = NULL;
    semel_delivery one = kit_take_id(kit, id);
    assert_int_not_equal(semel_message_copy(&copy, one.message, &last_error), SEMEL_OK);
    assert_null(copy);
    OK(kit_settle(kit, one, SEMEL_VERDICT_REJECT));
}

static void bodies_over_our_limit_can_be_rejected_and_headers_are_left_out(void **state)
{
    char said[KIT_SAID];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, CLASSIC);
    kit_pika(said, &kit,
             "many = {str(i): \"x\" for i in range(200)}\n"
             "def put(id, body, headers):\n"
             "    channel.basic_publish(queue, \"k\", body, pika.BasicProperties(message_id=id,\n"
             "        headers=headers))\n"
             "put(\"large\", b\"x\" * (17 << 20), None)\n"
             "put(\"many\", b\"x\", many)\n"
             "put(\"large\", b\"x\" * (17 << 20), many)\n"
             "put(\"good\", b\"x\" * (1 << 20), None)");
    reject_unusable(&kit, "large");
    semel_delivery many = kit_take_id(&kit, "many");
    assert_int_equal(many.message->header_count, SEMEL_HEADERS_MAX);
    kit_ack(&kit, many);
    reject_unusable(&kit, "large");
    semel_delivery good = kit_take_id(&kit, "good");
    assert_int_equal(good.message->body.len, 1 << 20);
    kit_ack(&kit, good);
    EVENTUALLY(broker_count(&kit.broker, kit.queue) == 0);
    kit_close(&kit);
}

/* --- other clients ---------------------------------------------------------------------------- */

static void expect_header(const semel_message *message, const char *name, const char *value)
{
    BYTES_EQUAL(semel_str(value), semel_message_header(message, name));
}

static void what_pika_publishes_is_understood(void **state)
{
    char said[KIT_SAID];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, QUORUM);
    kit_pika(said, &kit,
             "channel.confirm_delivery()\n"
             "channel.basic_publish(queue, \"orders.new\", b\"10 EUR\", pika.BasicProperties(\n"
             "    message_id=\"order-17\", type=\"order.paid\", app_id=\"till\",\n"
             "    correlation_id=\"c-1\", content_type=\"text/plain\", timestamp=1700000000,\n"
             "    headers={\"traceparent\": \"00-ab-01\", \"retries\": 3, \"ok\": True}))");
    semel_delivery one = kit_take_id(&kit, "order-17");
    const semel_message *message = one.message;
    assert_string_equal(message->type, "order.paid");
    assert_string_equal(message->source, "till");
    assert_string_equal(message->topic, "orders.new");
    assert_string_equal(message->content_type, "text/plain");
    assert_int_equal(message->time_ms, INT64_C(1700000000000));
    assert_int_equal(message->delivery, 1);
    BYTES_EQUAL(semel_str("c-1"), message->correlation_id);
    BYTES_EQUAL(semel_str("10 EUR"), message->body);
    expect_header(message, "traceparent", "00-ab-01");
    expect_header(message, "retries", "3");
    kit_ack(&kit, one);
    kit_close(&kit);
}

static void what_amqp_publish_sends_is_understood(void **state)
{
    char command[KIT_COMMAND], said[KIT_SAID];
    semel_delivery one;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, CLASSIC);
    (void)snprintf(command, sizeof command,
                   "amqp-publish -u %s -e %s -r orders.new -p -C text/plain -H 'kind: gift' -b "
                   "'10 EUR'",
                   kit.broker.url, kit.queue);
    kit_run(said, command);
    kit_take(&kit, &one, 1);
    assert_int_equal(one.message->id.len, 0); /* that tool gives none */
    assert_string_equal(one.message->topic, "orders.new");
    assert_string_equal(one.message->content_type, "text/plain");
    expect_header(one.message, "kind", "gift");
    BYTES_EQUAL(semel_str("10 EUR"), one.message->body);
    kit_ack(&kit, one);
    kit_close(&kit);
}

static void pika_understands_what_is_published(void **state)
{
    static const semel_header trace = {"traceparent", {"00-ab-01", 8}};
    semel_message message = text_message("order-17", "10 EUR");
    char said[KIT_SAID];
    rabbit_kit kit;
    (void)state;
    message.group = "customer-1";
    message.correlation_id = semel_str("c-1");
    message.time_ms = INT64_C(1700000000123);
    message.headers = &trace;
    message.header_count = 1;
    kit_open(&kit, QUORUM);
    kit_publish_only(&kit, "");
    assert_int_equal(kit_publish_one(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    kit_pika(said, &kit,
             "method, p, body = channel.basic_get(queue)\n"
             "print(method.routing_key, p.message_id, p.type, p.app_id, p.correlation_id,\n"
             "      p.delivery_mode, p.timestamp, p.headers[\"traceparent\"],\n"
             "      p.headers[\"semel-group\"], p.headers[\"semel-time-ms\"], body.decode())\n"
             "channel.basic_ack(method.delivery_tag)");
    assert_string_equal(said, "orders order-17 order.paid shop c-1 2 1700000000 00-ab-01 "
                              "customer-1 1700000000123 10 EUR\n");
    EVENTUALLY(broker_count(&kit.broker, kit.queue) == 0);
    kit_close(&kit);
}

static void amqp_tools_read_what_is_published(void **state)
{
    char command[KIT_COMMAND], said[KIT_SAID];
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, CLASSIC);
    kit_publish_only(&kit, "");
    kit_send(&kit, "1");
    kit_send(&kit, "2");
    (void)snprintf(command, sizeof command,
                   "amqp-get -u %s -q %s && echo && timeout 60 amqp-consume -u %s -q %s -c 1 cat",
                   kit.broker.url, kit.queue, kit.broker.url, kit.queue);
    kit_run(said, command);
    assert_string_equal(said, "10 EUR\n10 EUR");
    EVENTUALLY(broker_count(&kit.broker, kit.queue) == 0);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_is_out_than_the_prefetch_allows),
        cmocka_unit_test(what_waits_in_the_transport_is_bounded_as_well),
        cmocka_unit_test(one_consumer_at_a_time_if_asked_for),
        cmocka_unit_test(each_verdict_of_one_call_holds_for_its_own_delivery),
        cmocka_unit_test(verdicts_in_any_order_leave_the_rest_alone),
        cmocka_unit_test(a_rejected_message_is_a_dead_letter_once),
        cmocka_unit_test(redeliveries_of_a_quorum_queue_are_counted),
        cmocka_unit_test(redeliveries_of_a_classic_queue_are_told_from_first_ones),
        cmocka_unit_test(rounds_through_a_delay_queue_are_counted),
        cmocka_unit_test(bodies_over_our_limit_can_be_rejected_and_headers_are_left_out),
        cmocka_unit_test(what_pika_publishes_is_understood),
        cmocka_unit_test(what_amqp_publish_sends_is_understood),
        cmocka_unit_test(pika_understands_what_is_published),
        cmocka_unit_test(amqp_tools_read_what_is_published),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("receiving from RabbitMQ", tests, NULL, NULL);
}
