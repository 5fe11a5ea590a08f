/* Deliveries of a real broker to consumers with a real store: messages that kill beside messages
 * that do not, the order of what a closed consumer had, counts that publishers invent, and messages
 * over a limit. */
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { WORKERS = 8, ATTEMPTS = 3, LIVES_MAX = 12, SLOW_MS = 150, PATIENCE_MS = 100 };

static const semel_consumer_options quick = {.backoff_ms = 20, .backoff_max_ms = 50};

/* --- a poison among neighbours that are at work ----------------------------------------------- */

static atomic_int neighbours; /* at work, in this process */

/* The poison waits until all others are at work, or a moment if they do not come; these take longer
 * than that. */
static semel_status handle_slowly(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    int is_poison = *(const char *)message->id.data == 'p';
    int64_t until = process_now_ms() + (is_poison ? PATIENCE_MS : SLOW_MS);
    atomic_fetch_add(&neighbours, !is_poison);
    while (process_now_ms() < until && !(is_poison && atomic_load(&neighbours) == WORKERS - 1))
        process_nap();
    atomic_fetch_sub(&neighbours, !is_poison);
    return service_case_handle(unit, message, context, err);
}

static int consume_slowly(void *context)
{
    service_case *s = context;
    service v;
    semel_consumer_options options = quick;
    options.workers = WORKERS;
    service_open_consumer(&v, s, handle_slowly, (semel_inbox_options){.attempts_max = ATTEMPTS},
                          options);
    return run_consumer_in_child(&v, s);
}

/* Consumers are started until one lives to see that all are done, copies included, for a stopped
 * consumer gives back what it has; returns how many died. */
static unsigned live_until_done(service_case *s, int64_t good)
{
    for (unsigned died = 0; died < LIVES_MAX; died++) {
        pid_t *pid = &s->children[0];
        *pid = process_start(consume_slowly, s);
        EVENTUALLY(has_ended(*pid) || (dead_letters(s) > 0 && effects(s) >= good &&
                                       broker_count(&s->kit.broker, s->kit.queue) == 0));
        int living = !has_ended(*pid);
        int end = living ? stop_and_wait(*pid) : process_wait(*pid, KIT_WAIT_MS);
        *pid = 0;
        assert_int_equal(end, living ? PROCESS_OK : PROCESS_KILLED + SIGKILL);
        if (living)
            return died;
    }
    fail_msg("the poison killed %d processes and is not found out", LIVES_MAX);
    return 0;
}

static void a_poison_takes_no_neighbour_with_it(void **state)
{
    service_case *s = *state;
    service_case_publish(s, "g0 g1 g2 p0 g3 g4 g5 g6");
    assert_int_equal(live_until_done(s, WORKERS - 1), ATTEMPTS);
    expect_empty_queue(s);
    letters found = read_letters(s);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.all[0].id, "p0");
    expect_effects(s, "g0 g1 g2 g3 g4 g5 g6");
}

/* --- closing with undelivered messages in the transport --------------------------------------- */

static int is_failing;

static semel_status handle_or_fail(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    semel_status status = service_case_handle(unit, message, context, err);
    return !status && is_failing ? semel_fail(err, SEMEL_EHANDLER, "not now") : status;
}

static void open_ordered(service *v, service_case *s)
{
    service_open_consumer(v, s, handle_or_fail, (semel_inbox_options){0},
                          (semel_consumer_options){.order = SEMEL_ORDER_GROUP,
                                                   .inflight_max = 2,
                                                   .batch = 2,
                                                   .backoff_ms = 60000,
                                                   .backoff_max_ms = 60000});
}

static void reopen_consumer(service *v, service_case *s)
{
    semel_route route = {"*", v->inbox, handle_or_fail, s};
    semel_consumer_options options = {
        .size = sizeof options, .order = SEMEL_ORDER_GROUP, .inflight_max = 2, .batch = 2};
    semel_consumer_close(v->consumer);
    OK(semel_consumer_open(&v->consumer, v->transport, &route, 1, &options, &last_error));
}

/* Two in flight, of which the first has failed, three in the transport, one in the queue. */
static void leave_a_group_behind(service *v, service_case *s)
{
    size_t settled;
    service_case_publish(s, "A1 A2 A3 A4 A5 A6");
    is_failing = 1;
    open_ordered(v, s);
    EVENTUALLY(semel_consumer_step(&settled, v->consumer, 100, &last_error) == SEMEL_OK &&
               runs_of(s, "A1") == 1 && broker_ready(&s->kit.broker, s->kit.queue) == 1);
    is_failing = 0;
}

static void check_group(service_case *s)
{
    static const char *const expected[] = {"A1", "A1", "A2", "A3", "A4", "A5", "A6"};
    expect_effects(s, "A1 A2 A3 A4 A5 A6");
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(s->tally->runs[i].id, expected[i]);
    expect_empty_queue(s);
}

static void what_a_closed_consumer_had_comes_in_order_by_the_same_transport(void **state)
{
    service_case *s = *state;
    service v;
    leave_a_group_behind(&v, s);
    reopen_consumer(&v, s);
    STEP_UNTIL(&v, effects(s) == 6);
    service_close(&v);
    check_group(s);
}

static void what_a_closed_consumer_had_comes_in_order_by_another_transport(void **state)
{
    service_case *s = *state;
    service v;
    leave_a_group_behind(&v, s);
    service_close(&v);
    open_ordered(&v, s);
    STEP_UNTIL(&v, effects(s) == 6);
    service_close(&v);
    check_group(s);
}

/* --- foreign messages over our limits --------------------------------------------------------- */

typedef struct sight {
    size_t headers, longest;
    uint32_t delivery;
    unsigned runs;
} sight;

static sight seen;

static semel_status look_at_headers(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    seen = (sight){message->header_count, 0, message->delivery, seen.runs + 1};
    for (size_t i = 0; i < message->header_count; i++)
        if (message->headers[i].value.len > seen.longest)
            seen.longest = message->headers[i].value.len;
    return service_case_handle(unit, message, context, err);
}

/* One message of pika's: g1, with these headers and this body, both as Python writes them. */
static void publish_foreign(const service_case *s, const char *headers, const char *body)
{
    char said[KIT_SAID], script[512];
    (void)snprintf(script, sizeof script,
                   "channel.confirm_delivery()\n"
                   "channel.basic_publish(queue, \"shop.stock\", %s, pika.BasicProperties(\n"
                   "    message_id=\"g1\", type=\"counted\", delivery_mode=2, headers=%s))",
                   body, headers);
    kit_pika(said, &s->kit, script);
}

static void handle_foreign(service_case *s, const char *headers)
{
    service v;
    seen = (sight){0};
    publish_foreign(s, headers, "b\"x\"");
    service_open_consumer(&v, s, look_at_headers, (semel_inbox_options){0}, quick);
    STEP_UNTIL(&v, effects(s) == 1);
    service_close(&v);
    expect_empty_queue(s);
    expect_effects(s, "g1");
    assert_int_equal(dead_letters(s), 0);
    assert_int_equal(seen.runs, 1);
}

static void a_message_with_a_header_that_is_too_long_comes_without_it(void **state)
{
    handle_foreign(*state, "{\"trace\": \"x\" * 9000, \"colour\": \"red\"}");
    assert_int_equal(seen.headers, 1);
    assert_int_equal(seen.longest, 3);
}

static void a_message_with_too_many_headers_comes_with_as_many_as_may_be(void **state)
{
    handle_foreign(*state, "{str(i): \"x\" for i in range(200)}");
    assert_int_equal(seen.headers, SEMEL_HEADERS_MAX);
}

static semel_status check_stub(const semel_dead *dead, void *context, semel_error *err)
{
    (void)context, (void)err;
    assert_string_equal(dead->name, "unusable");
    assert_string_equal(dead->message->type, "counted");
    assert_string_equal(dead->message->topic, "shop.stock");
    BYTES_EQUAL(semel_str("g1"), dead->message->id);
    assert_non_null(strstr(dead->error, "SEMEL_BODY_MAX"));
    return SEMEL_OK;
}

/* What cannot be kept is at least named, and the broker's dead letters have the whole of it. */
static void a_body_that_is_too_large_is_named_and_rejected(void **state)
{
    const variant *on = *state;
    char dead[BROKER_NAME_ROOM], parameters[SERVER_URL_ROOM];
    server_place broker;
    broker_message rejected;
    service_case s;
    service v;
    server_find(&broker, SERVER_RABBITMQ);
    broker_name(dead);
    broker_make_exchange(&broker, dead, "fanout");
    broker_make_queue(&broker, dead, "classic");
    broker_bind(&broker, dead, dead, "");
    (void)snprintf(parameters, sizeof parameters, "%s&dead_letter=%s", on->queue, dead);
    service_case_open(&s, on->kind, parameters);
    publish_foreign(&s, "None", "b\"x\" * (17 << 20)");
    service_open_consumer(&v, &s, NULL, (semel_inbox_options){0}, quick);
    STEP_UNTIL(&v, broker_get(&rejected, &broker, dead));
    assert_int_equal(rejected.message.body.len, 17 << 20);
    broker_message_free(&rejected);
    assert_int_equal(dead_letters(&s), 1);
    OK(semel_dead_list(v.store, NULL, check_stub, NULL, &last_error));
    service_close(&v);
    expect_empty_queue(&s);
    assert_int_equal(effects(&s), 0);
    broker_delete_queue(&broker, dead);
    broker_delete_exchange(&broker, dead);
    service_case_close(&s);
}

/* --- counts that a publisher made up ---------------------------------------------------------- */

static void a_delivery_count_of_a_publisher_is_none(void **state)
{
    handle_foreign(*state, "{\"x-delivery-count\": 4294967295}");
    assert_int_equal(seen.delivery, 1);
}

/* A backoff by the count would be the longest there is, and outlast the test. */
static void made_up_deaths_neither_count_for_ever_nor_put_off_the_second_attempt(void **state)
{
    service_case *s = *state;
    service v;
    char headers[256];
    (void)snprintf(
        headers, sizeof headers,
        "{\"x-death\": [{\"queue\": queue, \"reason\": \"rejected\", \"count\": 5000}]}");
    publish_foreign(s, headers, "b\"x\"");
    seen = (sight){0};
    is_failing = 1;
    service_open_consumer(&v, s, handle_or_fail, (semel_inbox_options){0},
                          (semel_consumer_options){.backoff_ms = 10, .backoff_max_ms = 600000});
    STEP_UNTIL(&v, runs_of(s, "g1") == 1);
    is_failing = 0;
    STEP_UNTIL(&v, effects(s) == 1);
    service_close(&v);
    assert_int_equal(s->tally->runs[0].delivery, 1000);
    assert_int_equal(dead_letters(s), 0);
}

/* --- publishing only -------------------------------------------------------------------------- */

static void a_publisher_takes_nothing_from_the_queue(void **state)
{
    service_case *s = *state;
    rabbit_kit *kit = &s->kit;
    semel_delivery all[3];
    OK(semel_transport_open(&kit->transport, kit->url, NULL, &last_error));
    kit_send(kit, "1");
    kit_send(kit, "2");
    EVENTUALLY(broker_ready(&kit->broker, kit->queue) == 2);
    kit_send(kit, "3");
    EVENTUALLY(broker_ready(&kit->broker, kit->queue) == 3);
    assert_int_equal(broker_count(&kit->broker, kit->queue), 3);
    kit_reopen(kit);
    kit_take(kit, all, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(all[i].message->delivery, 1);
        kit_ack(kit, all[i]);
    }
    expect_empty_queue(s);
}

/* clang-format off */
#define ON_BROKER(function, on, kind, queue) \
    {#function ", " on, function, NULL, NULL, &(variant){kind, queue}}
#define SHORT_SHELF "&prefetch=5&single_active=yes"
/* clang-format on */

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(a_poison_takes_no_neighbour_with_it, CLASSIC),
        ON_POSTGRES(a_poison_takes_no_neighbour_with_it, QUORUM),
        ON_SQLITE(what_a_closed_consumer_had_comes_in_order_by_the_same_transport,
                  CLASSIC SHORT_SHELF),
        ON_SQLITE(what_a_closed_consumer_had_comes_in_order_by_the_same_transport,
                  QUORUM SHORT_SHELF),
        ON_SQLITE(what_a_closed_consumer_had_comes_in_order_by_another_transport,
                  CLASSIC SHORT_SHELF),
        ON_SQLITE(what_a_closed_consumer_had_comes_in_order_by_another_transport,
                  QUORUM SHORT_SHELF),
        ON_SQLITE(a_message_with_a_header_that_is_too_long_comes_without_it, CLASSIC),
        ON_SQLITE(a_message_with_too_many_headers_comes_with_as_many_as_may_be, QUORUM),
        ON_BROKER(a_body_that_is_too_large_is_named_and_rejected, "sqlite", (server_kind)0,
                  CLASSIC "&loss=warn"),
        ON_BROKER(a_body_that_is_too_large_is_named_and_rejected, "postgres", SERVER_POSTGRES,
                  QUORUM),
        ON_SQLITE(a_delivery_count_of_a_publisher_is_none, CLASSIC),
        ON_SQLITE(a_delivery_count_of_a_publisher_is_none, QUORUM),
        ON_SQLITE(made_up_deaths_neither_count_for_ever_nor_put_off_the_second_attempt, CLASSIC),
        ON_SQLITE(a_publisher_takes_nothing_from_the_queue, CLASSIC),
        ON_SQLITE(a_publisher_takes_nothing_from_the_queue, QUORUM),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: review", tests, NULL, NULL);
}
