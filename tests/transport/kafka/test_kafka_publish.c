/* Publishing to Kafka: one result for each message, whatever the brokers do. On librdkafka's mock
 * cluster, which fails as it is told to. */
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/deadline.h"
#include "support/servers/kafka/kafka_mock.h"

#include <semel/transport.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 60000, MANY = 8, ROOM = 512 };
enum { PRODUCE = 0, TOO_LARGE = 10, NOT_LEADER = 6, FORBIDDEN = 29 };

static kafka_mock mock;
static semel_transport *transport;
static semel_message messages[MANY];
static const semel_message *pointers[MANY];
static semel_publish_result results[MANY];

static void open_at(const char *url)
{
    OK(semel_transport_open(&transport, url, NULL, &last_error));
}

/* Without a topic in the URL: each message names its own. */
static void open_all_topics(void)
{
    char url[ROOM];
    (void)snprintf(url, sizeof url, "kafka://%s?connect_ms=20000", mock.servers);
    open_at(url);
}

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    for (size_t i = 0; i < MANY; i++) {
        messages[i] = text_message("m-1", "10 EUR");
        pointers[i] = &messages[i];
        results[i] = SEMEL_PUBLISH_CONFIRMED;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    semel_transport_close(transport);
    transport = NULL;
    deadline_end();
    return 0;
}

static semel_status publish(size_t count, uint32_t wait_ms)
{
    return semel_transport_publish(results, transport, pointers, count, wait_ms, &last_error);
}

static void publish_one(void)
{
    OK(publish(1, WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_CONFIRMED);
}

/* --- where to --------------------------------------------------------------------------------- */

static void a_missing_topic_is_unroutable_and_is_not_made(void **state)
{
    (void)state;
    open_all_topics();
    kafka_mock_do(&mock, "topic here 2");
    messages[0].topic = "here";
    messages[1].topic = "nowhere";
    messages[2].topic = "here";
    for (int times = 0; times < 2; times++) {
        OK(publish(3, WAIT_MS));
        assert_int_equal(results[0], SEMEL_PUBLISH_CONFIRMED);
        assert_int_equal(results[1], SEMEL_PUBLISH_UNROUTABLE);
        assert_int_equal(results[2], SEMEL_PUBLISH_CONFIRMED);
    }
    kafka_mock_do(&mock, "topic nowhere 1"); /* once it is there ... */
    OK(publish(3, WAIT_MS));
    assert_int_equal(results[1], SEMEL_PUBLISH_CONFIRMED);
}

static void a_topic_to_receive_from_must_be_there(void **state)
{
    char url[ROOM];
    (void)state;
    (void)snprintf(url, sizeof url, "kafka://%s/missing?group=g&connect_ms=20000", mock.servers);
    FAILS(SEMEL_ETRANSPORT, semel_transport_open(&transport, url, NULL, &last_error));
    SAYS("\"missing\"");
    (void)snprintf(url, sizeof url, "kafka://%s/missing?connect_ms=20000", mock.servers);
    open_at(url); /* to publish, it may come yet */
    OK(publish(1, WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_UNROUTABLE);
}

static void nothing_behind_a_failure_in_its_group_is_accepted(void **state)
{
    static const char *const groups[] = {"a", "a", "b", "a", "b", NULL};
    (void)state;
    open_all_topics();
    kafka_mock_do(&mock, "topic grouped 1");
    for (size_t i = 0; i < 6; i++) {
        messages[i].topic = i == 1 ? "no topic" : "grouped";
        messages[i].group = groups[i];
    }
    OK(publish(6, WAIT_MS));
    static const semel_publish_result expected[] = {
        SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_REFUSED,   SEMEL_PUBLISH_CONFIRMED,
        SEMEL_PUBLISH_NACKED,    SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_CONFIRMED};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(results[i], expected[i]);
}

/* Whichever topics the messages of a group go to. */
static void nothing_behind_a_failure_in_another_topic_is_accepted(void **state)
{
    static const int codes[] = {TOO_LARGE, FORBIDDEN};
    (void)state;
    open_all_topics();
    kafka_mock_do(&mock, "topic one 1");
    kafka_mock_do(&mock, "topic other 1");
    for (size_t i = 0; i < 3; i++) {
        messages[i].topic = i == 1 ? "other" : "one";
        messages[i].group = "g";
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        OK(publish(3, WAIT_MS));
        kafka_mock_do(&mock, "error %d %d 1", PRODUCE, codes[i]);
        (void)publish(3, WAIT_MS);
        for (size_t j = 0; j < 3; j++)
            assert_int_not_equal(results[j], SEMEL_PUBLISH_CONFIRMED);
    }
    OK(publish(3, WAIT_MS));
    for (size_t j = 0; j < 3; j++)
        assert_int_equal(results[j], SEMEL_PUBLISH_CONFIRMED);
}

/* --- what brokers refuse ---------------------------------------------------------------------- */

/* A broker refuses a whole batch: nobody is blamed for another's message. */
static void after_a_refusal_each_message_is_tried_alone(void **state)
{
    char url[ROOM];
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    open_at(url);
    publish_one();
    kafka_mock_do(&mock, "error %d %d 1", PRODUCE, TOO_LARGE);
    FAILS(SEMEL_EUNAVAILABLE, publish(4, WAIT_MS));
    for (size_t i = 0; i < 4; i++)
        assert_int_not_equal(results[i], SEMEL_PUBLISH_REFUSED);
    kafka_mock_do(&mock, "error %d %d 1", PRODUCE, TOO_LARGE);
    OK(publish(4, WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_REFUSED);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(results[i], SEMEL_PUBLISH_CONFIRMED);
    publish_one();
}

static void what_is_not_allowed_is_declined(void **state)
{
    char url[ROOM];
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    open_at(url);
    publish_one();
    kafka_mock_do(&mock, "error %d %d 1", PRODUCE, FORBIDDEN);
    OK(publish(1, WAIT_MS));
    assert_int_equal(results[0], SEMEL_PUBLISH_NACKED);
    publish_one();
}

static void what_passes_by_itself_is_not_reported(void **state)
{
    char url[ROOM];
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    open_at(url);
    publish_one();
    kafka_mock_do(&mock, "error %d %d 2", PRODUCE, NOT_LEADER);
    OK(publish(MANY, WAIT_MS));
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(results[i], SEMEL_PUBLISH_CONFIRMED);
}

/* --- no answer -------------------------------------------------------------------------------- */

static void without_an_answer_the_result_is_unknown(void **state)
{
    char url[ROOM];
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    open_at(url);
    publish_one();
    kafka_mock_do(&mock, "rtt 1 5000");
    FAILS(SEMEL_EUNAVAILABLE, publish(2, 200));
    assert_int_equal(results[0], SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(results[1], SEMEL_PUBLISH_UNKNOWN);
    kafka_mock_do(&mock, "rtt 1 0");
    publish_one();
}

static void a_broker_that_was_down_is_used_again(void **state)
{
    char url[ROOM];
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    open_at(url);
    publish_one();
    kafka_mock_do(&mock, "down 1");
    FAILS(SEMEL_EUNAVAILABLE, publish(1, 500));
    assert_int_equal(results[0], SEMEL_PUBLISH_UNKNOWN);
    kafka_mock_do(&mock, "up 1");
    publish_one();
}

static void a_setting_that_is_not_known_is_named(void **state)
{
    char url[ROOM];
    (void)state;
    (void)snprintf(url, sizeof url, "kafka://%s/t?X.colour=hunter2", mock.servers);
    FAILS(SEMEL_EINVAL, semel_transport_open(&transport, url, NULL, &last_error));
    SAYS("X.colour");
    assert_null(strstr(last_error.text, "hunter2"));
    (void)snprintf(url, sizeof url, "kafka://%s/t?X.socket.timeout.ms=hunter2", mock.servers);
    FAILS(SEMEL_EINVAL, semel_transport_open(&transport, url, NULL, &last_error));
    SAYS("X.socket.timeout.ms");
    assert_null(strstr(last_error.text, "hunter2"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_missing_topic_is_unroutable_and_is_not_made),
        TEST(a_topic_to_receive_from_must_be_there),
        TEST(nothing_behind_a_failure_in_its_group_is_accepted),
        TEST(nothing_behind_a_failure_in_another_topic_is_accepted),
        TEST(after_a_refusal_each_message_is_tried_alone),
        TEST(what_is_not_allowed_is_declined),
        TEST(what_passes_by_itself_is_not_reported),
        TEST(without_an_answer_the_result_is_unknown),
        TEST(a_broker_that_was_down_is_used_again),
        TEST(a_setting_that_is_not_known_is_named),
    };
    kafka_mock_start(&mock, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kafka_mock_end(&mock);
    return failed;
}
