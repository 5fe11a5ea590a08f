/* Errors that brokers answer with, on the mock cluster: of records that are produced, and of
 * offsets that are committed. None of them loses a message, confirms one that is not there, or ends
 * a consumer. */
#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/process/process.h"
#include "support/servers/kafka/kafka_cluster.h"
#include "support/servers/kafka/kafka_mock.h"

#include <librdkafka/rdkafka.h>
#include <semel/sys/transport.h>
#include <stdio.h>

enum { PRODUCE = 0, OFFSET_COMMIT = 8, OFFSET_FETCH = 9 }; /* kinds of requests */
enum { WAIT_MS = 30000, PATIENCE_MS = 90000, POLL_MS = 100, EACH = 5, AT_ONCE = 20 };

static kafka_mock mock;

typedef struct scene {
    char url[MOCK_URL_ROOM], topic[MOCK_SERVERS_ROOM];
    semel_transport *transport;
    unsigned published;
} scene;

static int setup(void **state)
{
    static scene s;
    deadline_begin();
    s.published = 0;
    kafka_mock_fresh(s.url, &mock, 1, "");
    kafka_mock_topic(s.topic, s.url);
    OK(semel_transport_open(&s.transport, s.url, NULL, &last_error));
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    scene *s = *state;
    semel_transport_close(s->transport);
    deadline_end();
    return 0;
}

static semel_status publish(scene *s, semel_publish_result *result)
{
    char id[32];
    (void)snprintf(id, sizeof id, "m-%u", s->published);
    semel_message message = {
        .size = sizeof message, .id = semel_str(id), .group = "g", .body = semel_str(id)};
    const semel_message *pointer = &message;
    return semel_transport_publish(result, s->transport, &pointer, 1, WAIT_MS, &last_error);
}

static void publish_more(scene *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        semel_publish_result result;
        OK(publish(s, &result));
        assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
        s->published++;
    }
}

static void inject(int request, int code, int count)
{
    kafka_mock_do(&mock, "error %d %d %d", request, code, count);
}

/* --- producing -------------------------------------------------------------------------------- */

/* The broker has too few replicas for a moment, or they are late: the record is sent again. */
static void errors_of_replicas_are_waited_out(void **state)
{
    static const int codes[] = {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                                RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                                RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT};
    scene *s = *state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        inject(PRODUCE, codes[i], 2);
        publish_more(s, 1);
        assert_int_equal(kafka_cluster_end(mock.servers, s->topic, 1), s->published);
    }
}

/* Whatever the transport makes of it: what it confirms is in the log, and the next try works. */
static void an_unknown_error_confirms_nothing(void **state)
{
    scene *s = *state;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    inject(PRODUCE, RD_KAFKA_RESP_ERR_UNKNOWN, 1);
    (void)publish(s, &result);
    int64_t end = kafka_cluster_end(mock.servers, s->topic, 1);
    assert_true(result != SEMEL_PUBLISH_CONFIRMED || end == 1);
    s->published = (unsigned)end;
    inject(PRODUCE, 0, 0);
    publish_more(s, 1);
    assert_int_equal(kafka_cluster_end(mock.servers, s->topic, 1), s->published);
}

/* --- committing ------------------------------------------------------------------------------- */

static void receive_and_acknowledge(scene *s)
{
    semel_delivery deliveries[AT_ONCE];
    size_t count = 0;
    semel_status status =
        semel_transport_receive(s->transport, deliveries, AT_ONCE, &count, POLL_MS, &last_error);
    assert_true(status == SEMEL_OK || last_error.retryable);
    for (size_t i = 0; !status && i < count; i++) {
        semel_delivery_settlement ack = {deliveries[i].tag, SEMEL_VERDICT_ACK, 0};
        OK(semel_transport_settle(s->transport, &ack, 1, &last_error));
    }
}

/* The consumer goes on until the broker has all offsets: by committing again, or because it has
 * joined the group anew, has received the messages again, and they are settled again. */
static void consume_until_committed(scene *s, int code)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    while (kafka_cluster_progress(mock.servers, s->topic, s->topic, 1) < s->published) {
        if (process_now_ms() > deadline)
            fail_msg("after error %d offsets are not committed", code);
        receive_and_acknowledge(s);
    }
}

static void a_commit_that_fails(scene *s, int code)
{
    publish_more(s, EACH);
    inject(OFFSET_COMMIT, code, 2);
    consume_until_committed(s, code);
    inject(OFFSET_COMMIT, 0, 0);
}

static void commits_that_fail_are_made_up_for(void **state)
{
    static const int codes[] = {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                                RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
                                RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                                RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_UNKNOWN};
    scene *s = *state;
    publish_more(s, 1);
    consume_until_committed(s, 0);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        a_commit_that_fails(s, codes[i]);
}

/* The group has gone on without this member, or is about to. */
static void commits_of_another_generation_are_made_up_for(void **state)
{
    static const int codes[] = {RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
                                RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
                                RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID};
    scene *s = *state;
    publish_more(s, 1);
    consume_until_committed(s, 0);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        a_commit_that_fails(s, codes[i]);
}

/* --- reading offsets -------------------------------------------------------------------------- */

/* As by brokers that have been started again and are not ready yet. No partition is forgotten. */
static void offsets_that_cannot_be_read_are_read_again(void **state)
{
    static const int codes[] = {RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                                RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
                                RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS};
    scene *s = *state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        publish_more(s, EACH);
        inject(OFFSET_FETCH, codes[i], 3);
        consume_until_committed(s, codes[i]);
        inject(OFFSET_FETCH, 0, 0);
        semel_transport_close(s->transport);
        OK(semel_transport_open(&s->transport, s->url, NULL, &last_error));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offsets_that_cannot_be_read_are_read_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(errors_of_replicas_are_waited_out, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_error_confirms_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(commits_that_fail_are_made_up_for, setup, teardown),
        cmocka_unit_test_setup_teardown(commits_of_another_generation_are_made_up_for, setup,
                                        teardown)};
    kafka_mock_start(&mock, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kafka_mock_end(&mock);
    return failed;
}
