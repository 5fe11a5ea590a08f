/* The broker refuses a message by closing the channel, without saying which message it was. The
 * publisher finds out: by the next calls each message gets its own answer, and none that belongs to
 * another.
 *
 * The library sends nothing that RabbitMQ refuses with 406, but for messages over its
 * max_message_size, which is the same for all tests of a broker. So rabbitmq-c's function is
 * replaced here, by one that spoils certain messages. */
#include "support/process/threads.h"
#include "support/servers/proxy.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <dlfcn.h>

#define CLASSIC "declare=yes&type=classic"

enum { HELD_MS = 1500 }; /* mostly enough to send one */

/* --- messages that are refused ---------------------------------------------------------------- */

#define SPOILED "spoiled" /* the id of a message that the broker refuses with 406 */

typedef int basic_publish(amqp_connection_state_t state, amqp_channel_t channel,
                          amqp_bytes_t exchange, amqp_bytes_t routing_key, amqp_boolean_t mandatory,
                          amqp_boolean_t immediate, const amqp_basic_properties_t *properties,
                          amqp_bytes_t body);

static int is_spoiled(const amqp_basic_properties_t *properties)
{
    amqp_bytes_t id = properties ? properties->message_id : amqp_empty_bytes;
    return id.len == strlen(SPOILED) && memcmp(id.bytes, SPOILED, id.len) == 0;
}

/* In place of rabbitmq-c's. */
int amqp_basic_publish(amqp_connection_state_t state, amqp_channel_t channel, amqp_bytes_t exchange,
                       amqp_bytes_t routing_key, amqp_boolean_t mandatory, amqp_boolean_t immediate,
                       const amqp_basic_properties_t *properties, amqp_bytes_t body)
{
    amqp_basic_properties_t spoiled;
    void *found = dlsym(RTLD_NEXT, "amqp_basic_publish");
    basic_publish *real;
    memcpy(&real, &found, sizeof real);
    if (is_spoiled(properties)) {
        spoiled = *properties;
        spoiled.expiration = amqp_cstring_bytes("not a number");
        spoiled._flags |= AMQP_BASIC_EXPIRATION_FLAG;
        properties = &spoiled;
    }
    return real(state, channel, exchange, routing_key, mandatory, immediate, properties, body);
}

static semel_message addressed(const char *id, const char *topic)
{
    semel_message message = text_message(id, "10 EUR");
    message.topic = topic;
    return message;
}

/* --- publishing ------------------------------------------------------------------------------- */

/* What is unknown is published again, as a relay does, until nothing is. */
static void publish_until_known(rabbit_kit *kit, semel_publish_result results[],
                                const semel_message messages[], size_t count)
{
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    for (size_t left = count; left;) {
        semel_message again[KIT_BATCH];
        semel_publish_result said[KIT_BATCH];
        size_t index[KIT_BATCH];
        left = 0;
        for (size_t i = 0; i < count; i++)
            if (results[i] == SEMEL_PUBLISH_UNKNOWN) {
                again[left] = messages[i];
                index[left++] = i;
            }
        if (process_now_ms() > until)
            fail_msg("%zu of %zu are still unknown: %s", left, count, last_error.text);
        if (left && kit_publish(kit, said, again, left, KIT_WAIT_MS))
            assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        for (size_t i = 0; i < left; i++)
            results[index[i]] = said[i];
    }
}

/* The bad ones, of which there are some among the others, end like this, and the others are in the
 * queue. */
static void expect_bad_ones(rabbit_kit *kit, const semel_message messages[], size_t count,
                            int (*is_bad)(const semel_message *), semel_publish_result expected)
{
    semel_publish_result results[KIT_BATCH];
    int64_t good = 0;
    publish_until_known(kit, results, messages, count);
    for (size_t i = 0; i < count; i++) {
        semel_publish_result due = is_bad(&messages[i]) ? expected : SEMEL_PUBLISH_CONFIRMED;
        if (results[i] != due)
            fail_msg("message %zu: %d, not %d", i, (int)results[i], (int)due);
        good += !is_bad(&messages[i]);
    }
    assert_in_range(good, 1, count - 1);
    EVENTUALLY(broker_ready(&kit->broker, kit->queue) >= good); /* some of them twice */
}

/* --- 406 -------------------------------------------------------------------------------------- */

static int has_spoiled_id(const semel_message *message)
{
    return message->id.len == strlen(SPOILED) &&
           memcmp(message->id.data, SPOILED, message->id.len) == 0;
}

static void those_that_the_broker_refuses_are_refused_and_the_others_confirmed(void **state)
{
    const semel_message messages[] = {addressed("1", "a"),     addressed("2", "a"),
                                      addressed(SPOILED, "a"), addressed("3", "a"),
                                      addressed(SPOILED, "b"), addressed("4", "a")};
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, CLASSIC);
    kit_publish_only(&kit, "");
    expect_bad_ones(&kit, messages, 6, has_spoiled_id, SEMEL_PUBLISH_REFUSED);
    kit_close(&kit);
}

static void a_refused_message_alone_is_refused(void **state)
{
    const semel_message spoiled = addressed(SPOILED, "a");
    semel_publish_result result;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, CLASSIC);
    publish_until_known(&kit, &result, &spoiled, 1);
    assert_int_equal(result, SEMEL_PUBLISH_REFUSED);
    kit_send(&kit, "1");
    kit_close(&kit);
}

typedef struct late {
    rabbit_kit *kit;
    semel_message message;
    semel_publish_result result;
    semel_status status;
    semel_error err;
} late;

static void publish_late(test_thread *member)
{
    late *l = member->context;
    const semel_message *message = &l->message;
    l->status =
        semel_transport_publish(&l->result, l->kit->transport, &message, 1, KIT_WAIT_MS, &l->err);
}

/* Its caller has long gone when the answer to the first comes, and the second is under way. */
static void a_late_refusal_is_not_taken_for_the_next_message(void **state)
{
    const semel_message spoiled = addressed(SPOILED, "a");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    char through[SERVER_URL_ROOM];
    test_thread publisher;
    rabbit_kit kit;
    late next = {.kit = &kit, .message = addressed("healthy", "a")};
    (void)state;
    kit_open(&kit, CLASSIC);
    proxy *between = proxy_open(kit.url);
    memcpy(kit.broker.url, proxy_url(through, between, kit.broker.url), sizeof through);
    kit_publish_only(&kit, "heartbeat=0"); /* so that all bytes are those of messages */
    kit_send(&kit, "0");
    proxy_hold(between, 1);
    uint64_t before = proxy_count(between).request_bytes;
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    do { /* again, if this thread slept and nothing was sent */
        assert_true(process_now_ms() < until);
        FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &spoiled, 1, HELD_MS));
        assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    } while (proxy_count(between).request_bytes == before);
    assert_true(proxy_wait_held(between, KIT_WAIT_MS));
    before = proxy_count(between).request_bytes;
    test_thread_start(&publisher, publish_late, &next);
    EVENTUALLY(proxy_count(between).request_bytes > before);
    proxy_hold(between, 0);
    assert_true(test_thread_join(&publisher, 2 * KIT_WAIT_MS));
    assert_int_equal(next.result, SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(next.status, SEMEL_EUNAVAILABLE);
    assert_non_null(strstr(next.err.text, "PRECONDITION_FAILED"));
    publish_until_known(&kit, &result, &next.message, 1);
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    publish_until_known(&kit, &result, &spoiled, 1);
    assert_int_equal(result, SEMEL_PUBLISH_REFUSED);
    kit_close(&kit);
    proxy_close(between);
}

/* --- 403 -------------------------------------------------------------------------------------- */

/* A user that may publish to topics that begin with "allowed". */
static void open_with_topics(rabbit_kit *kit, char user[BROKER_NAME_ROOM])
{
    char expression[1024], said[KIT_SAID], url[2 * SERVER_URL_ROOM];
    kit_open(kit, CLASSIC);
    broker_name(user);
    broker_user(&kit->broker, user, "hunter2");
    (void)snprintf(expression, sizeof expression,
                   "rabbit_auth_backend_internal:set_topic_permissions(<<\"%s\">>, <<\"/\">>,"
                   " <<\"%s\">>, <<\"^allowed\">>, <<\".*\">>, <<\"test\">>).",
                   user, kit->queue);
    broker_eval(said, sizeof said, &kit->broker, expression);
    assert_string_equal(said, "ok");
    (void)snprintf(url, sizeof url, "amqp://%s:hunter2@%s:%u/%%2F?exchange=%s&" BROKER_PATIENCE,
                   user, kit->broker.host, kit->broker.port, kit->queue);
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    OK(semel_transport_open(&kit->transport, url, NULL, &last_error));
}

static void close_with_topics(rabbit_kit *kit, const char *user)
{
    char expression[1024], said[KIT_SAID];
    kit_close(kit);
    (void)snprintf(expression, sizeof expression,
                   "rabbit_auth_backend_internal:delete_user(<<\"%s\">>, <<\"test\">>).", user);
    broker_eval(said, sizeof said, &kit->broker, expression);
}

static int has_forbidden_topic(const semel_message *message)
{
    return strncmp(message->topic, "allowed", 7) != 0;
}

/* The last of them is good: a bad one that is left over by itself would stay unknown. */
static void a_topic_that_is_not_allowed_gets_a_no_while_others_are_confirmed(void **state)
{
    const semel_message messages[] = {addressed("1", "allowed.a"), addressed("2", "forbidden.a"),
                                      addressed("3", "allowed.b"), addressed("4", "forbidden.b"),
                                      addressed("5", "allowed.c")};
    char user[BROKER_NAME_ROOM];
    rabbit_kit kit;
    (void)state;
    open_with_topics(&kit, user);
    expect_bad_ones(&kit, messages, 5, has_forbidden_topic, SEMEL_PUBLISH_NACKED);
    close_with_topics(&kit, user);
}

/* Then it is not the messages that are wrong, however often it is tried. */
static void where_nothing_is_allowed_nothing_is_known_but_the_reason(void **state)
{
    const semel_message messages[] = {addressed("1", "forbidden.a"), addressed("2", "forbidden.b")};
    const semel_message allowed = addressed("3", "allowed.a");
    char user[BROKER_NAME_ROOM];
    rabbit_kit kit;
    (void)state;
    open_with_topics(&kit, user);
    for (int i = 0; i < 2; i++) {
        semel_publish_result results[2];
        FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, results, messages, 2, KIT_WAIT_MS));
        SAYS("ACCESS_REFUSED");
        assert_true(last_error.retryable);
        for (size_t k = 0; k < 2; k++)
            assert_int_equal(results[k], SEMEL_PUBLISH_UNKNOWN);
    }
    assert_int_equal(kit_publish_one(&kit, &allowed), SEMEL_PUBLISH_CONFIRMED);
    close_with_topics(&kit, user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_the_broker_refuses_are_refused_and_the_others_confirmed),
        cmocka_unit_test(a_refused_message_alone_is_refused),
        cmocka_unit_test(a_late_refusal_is_not_taken_for_the_next_message),
        cmocka_unit_test(a_topic_that_is_not_allowed_gets_a_no_while_others_are_confirmed),
        cmocka_unit_test(where_nothing_is_allowed_nothing_is_known_but_the_reason),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("what RabbitMQ will not have", tests, NULL, NULL);
}
