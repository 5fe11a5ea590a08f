/* publish_while on a real broker: what the caller does meanwhile is done once, with the messages on
 * their way, and whatever becomes of the connection. */
#include "support/servers/proxy.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

enum { COUNT = 20 };

typedef struct meanwhile {
    rabbit_kit *kit;
    proxy *cut; /* NULL: nothing is cut */
    int wait_for_messages;
    int64_t busy_ms;
    unsigned calls;
} meanwhile;

static void do_meanwhile(void *context)
{
    meanwhile *self = context;
    int64_t until = process_now_ms() + self->busy_ms;
    self->calls++;
    if (self->wait_for_messages)
        EVENTUALLY(broker_ready(&self->kit->broker, self->kit->queue) == COUNT);
    if (self->cut)
        proxy_cut(self->cut);
    while (process_now_ms() < until)
        process_nap();
}

static semel_status publish_while(meanwhile *self, semel_publish_result results[], uint32_t wait_ms)
{
    semel_transport *transport = self->kit->transport;
    const semel_transport_driver *driver = semel_transport_driver_of(transport);
    semel_message messages[COUNT];
    const semel_message *pointers[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        messages[i] = text_message("id", "body");
        messages[i].topic = "here";
        pointers[i] = &messages[i];
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    }
    return driver->publish_while(semel_transport_state(transport, driver), results, pointers, COUNT,
                                 wait_ms, do_meanwhile, self, &last_error);
}

static void expect_all(const semel_publish_result results[], semel_publish_result expected)
{
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(results[i], expected);
}

static void open_publisher(rabbit_kit *kit)
{
    kit_open(kit, "declare=yes&type=classic&bind=here");
    kit_publish_only(kit, "");
}

static proxy *open_by_proxy(rabbit_kit *kit)
{
    char url[SERVER_URL_ROOM], through[2 * SERVER_URL_ROOM];
    proxy *between = proxy_open(kit->broker.url);
    proxy_url(url, between, kit->broker.url);
    (void)snprintf(through, sizeof through, "%s?exchange=%s&" BROKER_PATIENCE, url, kit->queue);
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    OK(semel_transport_open(&kit->transport, through, NULL, &last_error));
    return between;
}

static void the_messages_are_on_their_way_meanwhile(void **state)
{
    rabbit_kit kit;
    semel_publish_result results[COUNT];
    meanwhile todo = {.kit = &kit, .wait_for_messages = 1};
    (void)state;
    open_publisher(&kit);
    OK(publish_while(&todo, results, KIT_WAIT_MS));
    expect_all(results, SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(todo.calls, 1);
    kit_close(&kit);
}

/* The store may be slower than the broker, and what is confirmed is confirmed. If this thread or
 * the broker slept, and not all was sent or answered meanwhile, all have more time: there is never
 * any left when the store is done. */
static void answers_that_came_meanwhile_are_taken_though_time_is_over(void **state)
{
    enum { WAIT_MS = 1000, WAIT_MAX_MS = 8000 };
    rabbit_kit kit;
    semel_publish_result results[COUNT];
    semel_status status = SEMEL_EUNAVAILABLE;
    (void)state;
    open_publisher(&kit);
    for (uint32_t wait_ms = WAIT_MS; status && wait_ms <= WAIT_MAX_MS; wait_ms *= 2) {
        meanwhile todo = {.kit = &kit, .busy_ms = 4 * (int64_t)wait_ms};
        status = publish_while(&todo, results, wait_ms);
        assert_int_equal(todo.calls, 1);
    }
    OK(status);
    expect_all(results, SEMEL_PUBLISH_CONFIRMED);
    kit_close(&kit);
}

static void a_connection_that_is_lost_meanwhile_leaves_no_answer_unclear(void **state)
{
    rabbit_kit kit;
    semel_publish_result results[COUNT];
    meanwhile todo = {.kit = &kit};
    (void)state;
    open_publisher(&kit);
    todo.cut = open_by_proxy(&kit);
    semel_status status = publish_while(&todo, results, KIT_WAIT_MS);
    for (size_t i = 0; i < COUNT; i++) /* some may have been answered before it was cut */
        if (results[i] != SEMEL_PUBLISH_CONFIRMED) {
            assert_int_equal(results[i], SEMEL_PUBLISH_UNKNOWN);
            assert_int_equal(status, SEMEL_EUNAVAILABLE);
        }
    assert_int_equal(todo.calls, 1);
    proxy *between = todo.cut;
    todo.cut = NULL;
    EVENTUALLY(publish_while(&todo, results, KIT_WAIT_MS) == SEMEL_OK);
    expect_all(results, SEMEL_PUBLISH_CONFIRMED);
    kit_close(&kit);
    proxy_close(between);
}

static void what_is_to_be_done_meanwhile_is_done_though_the_broker_is_away(void **state)
{
    rabbit_kit kit;
    semel_publish_result results[COUNT];
    meanwhile todo = {.kit = &kit};
    (void)state;
    open_publisher(&kit);
    proxy *between = open_by_proxy(&kit);
    proxy_refuse(between, 1);
    proxy_cut(between);
    EVENTUALLY(publish_while(&todo, results, 100) == SEMEL_EUNAVAILABLE);
    unsigned calls = todo.calls;
    assert_int_equal(publish_while(&todo, results, 100), SEMEL_EUNAVAILABLE);
    expect_all(results, SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(todo.calls, calls + 1);
    kit_close(&kit);
    proxy_close(between);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_messages_are_on_their_way_meanwhile),
        cmocka_unit_test(answers_that_came_meanwhile_are_taken_though_time_is_over),
        cmocka_unit_test(a_connection_that_is_lost_meanwhile_leaves_no_answer_unclear),
        cmocka_unit_test(what_is_to_be_done_meanwhile_is_done_though_the_broker_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
