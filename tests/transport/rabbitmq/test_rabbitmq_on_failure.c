/* Failures that a consumer leaves to RabbitMQ: requeued until the delivery limit of a quorum queue,
 * or rejected to its dead-letter exchange, and from there back after a time. */
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <semel/semel.h>

typedef struct broker_case {
    rabbit_kit kit;
    char dead[BROKER_NAME_ROOM]; /* exchange and queue of the dead letters */
    semel_store *store;
    semel_inbox *inbox;
    semel_consumer *consumer;
    scripted_handler todo;
} broker_case;

/* `parameters` of the queue; `script` declares the queue `dead`. */
static void case_open(broker_case *c, const char *parameters, const char *script,
                      semel_on_failure on_failure)
{
    char all[SERVER_URL_ROOM / 2], said[KIT_SAID], whole[KIT_SAID];
    semel_inbox_options inbox = {.size = sizeof inbox, .attempts_max = 2};
    semel_consumer_options options = {.size = sizeof options, .on_failure = on_failure};
    server_place shared;
    server_find(&shared, SERVER_RABBITMQ);
    broker_name(c->dead);
    broker_make_exchange(&shared, c->dead, "fanout");
    (void)snprintf(all, sizeof all, "declare=yes&type=quorum&dead_letter=%s%s", c->dead,
                   parameters);
    kit_prepare(&c->kit, &shared, all);
    (void)snprintf(whole, sizeof whole,
                   "dead = \"%s\"\nqueue = \"%s\"\n%s\nchannel.queue_bind(dead, dead)", c->dead,
                   c->kit.queue, script);
    kit_pika(said, &c->kit, whole);
    OK(semel_transport_open(&c->kit.transport, c->kit.url, NULL, &last_error));
    OK(semel_store_open(&c->store, "memory:", NULL, &last_error));
    OK(semel_inbox_open(&c->inbox, c->store, "inbox", &inbox, &last_error));
    semel_route route = {"*", c->inbox, scripted_handler_run, &c->todo};
    OK(semel_consumer_open(&c->consumer, c->kit.transport, &route, 1, &options, &last_error));
}

static void case_close(broker_case *c)
{
    semel_counters counters;
    OK(semel_store_counters(&counters, sizeof counters, c->store, &last_error));
    assert_int_equal(counters.dead, 0);
    semel_consumer_close(c->consumer);
    semel_inbox_close(c->inbox);
    semel_store_close(c->store);
    broker_delete_queue(&c->kit.broker, c->dead);
    broker_delete_exchange(&c->kit.broker, c->dead);
    kit_close(&c->kit);
}

static size_t step(broker_case *c)
{
    size_t settled = 0;
    OK(semel_consumer_step(&settled, c->consumer, 20, &last_error));
    return settled;
}

#define DECLARE_DEAD "channel.queue_declare(dead, durable=True)"

/* More often than the inbox would allow: the broker counts. */
static void the_delivery_limit_ends_what_is_requeued(void **state)
{
    broker_case c = {.todo = {.failures = 100, .only = "bad"}};
    (void)state;
    case_open(&c, "&delivery_limit=3", DECLARE_DEAD, SEMEL_FAILURE_REQUEUE);
    kit_send(&c.kit, "bad");
    kit_send(&c.kit, "good");
    EVENTUALLY(step(&c) + 1 && broker_ready(&c.kit.broker, c.dead) == 1 &&
               broker_count(&c.kit.broker, c.kit.queue) == 0);
    assert_int_equal(c.todo.runs, 4 + 1);
    case_close(&c);
}

static void a_rejected_failure_is_a_dead_letter_of_the_broker(void **state)
{
    broker_case c = {.todo = {.failures = 1}};
    broker_message letter;
    (void)state;
    case_open(&c, "&delivery_limit=-1", DECLARE_DEAD, SEMEL_FAILURE_REJECT);
    kit_send(&c.kit, "bad");
    EVENTUALLY(step(&c) + 1 && broker_ready(&c.kit.broker, c.dead) == 1);
    assert_int_equal(c.todo.runs, 1);
    assert_true(broker_get(&letter, &c.kit.broker, c.dead));
    assert_non_null(broker_header(&letter, "x-death"));
    broker_message_free(&letter);
    case_close(&c);
}

/* The pattern of a retry queue: dead letters wait there, and go back when their time is over. */
static void a_rejected_failure_comes_back_by_a_queue_with_a_time_to_live(void **state)
{
    broker_case c = {.todo = {.failures = 3}};
    size_t settled = 0;
    (void)state;
    case_open(&c, "&delivery_limit=-1",
              "channel.queue_declare(dead, durable=True, arguments={\"x-message-ttl\": 50, "
              "\"x-dead-letter-exchange\": \"\", \"x-dead-letter-routing-key\": queue})",
              SEMEL_FAILURE_REJECT);
    kit_send(&c.kit, "bad");
    EVENTUALLY((settled += step(&c)) == 1);
    assert_int_equal(c.todo.runs, 4);
    assert_int_equal(c.todo.attempt, 4);
    EVENTUALLY(broker_count(&c.kit.broker, c.kit.queue) == 0);
    case_close(&c);
}

static void a_queue_without_dead_letters_cannot_reject(void **state)
{
    rabbit_kit kit;
    semel_store *store;
    scripted_handler todo = {0};
    semel_consumer *consumer;
    semel_consumer_options options = {.size = sizeof options, .on_failure = SEMEL_FAILURE_REJECT};
    (void)state;
    kit_open(&kit, "declare=yes&type=quorum&delivery_limit=-1");
    OK(semel_store_open(&store, "memory:", NULL, &last_error));
    options.store = store;
    semel_route route = {"*", NULL, scripted_handler_run, &todo};
    FAILS(SEMEL_EUNSUPPORTED,
          semel_consumer_open(&consumer, kit.transport, &route, 1, &options, &last_error));
    SAYS("dead_letter=");
    semel_store_close(store);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_delivery_limit_ends_what_is_requeued),
        cmocka_unit_test(a_rejected_failure_is_a_dead_letter_of_the_broker),
        cmocka_unit_test(a_rejected_failure_comes_back_by_a_queue_with_a_time_to_live),
        cmocka_unit_test(a_queue_without_dead_letters_cannot_reject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
