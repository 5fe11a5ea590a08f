/* Receiving from Kafka: bounds, dead letters, redeliveries that are counted across processes, and
 * partitions that go to another consumer. On librdkafka's mock cluster. */
#include "support/conformance/conformance_transport.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/kafka/kafka_cluster.h"
#include "support/servers/kafka/kafka_mock.h"

#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 60000, TURN_MS = 100 };

static kafka_mock mock;
static char url[MOCK_URL_ROOM];
static semel_transport *first, *second;

static int teardown(void **state)
{
    (void)state;
    semel_transport_close(first);
    semel_transport_close(second);
    first = second = NULL;
    return 0;
}

static semel_transport *open_transport(const char *at)
{
    semel_transport *out = NULL;
    OK(semel_transport_open(&out, at, NULL, &last_error));
    return out;
}

static void publish_ids(semel_transport *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char id[32], group[32];
        semel_publish_result result;
        (void)snprintf(id, sizeof id, "%zu", i);
        (void)snprintf(group, sizeof group, "g-%zu", i % 7);
        semel_message message = text_message(id, "10 EUR");
        const semel_message *pointer = &message;
        message.group = group;
        OK(semel_transport_publish(&result, to, &pointer, 1, WAIT_MS, &last_error));
        assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    }
}

#define take_from(from, out, count) take_from_at((from), (out), (count), __LINE__)

static void take_from_at(semel_transport *from, semel_delivery out[], size_t count, int line)
{
    int64_t until = process_now_ms() + WAIT_MS;
    for (size_t have = 0, got; have < count; have += got) {
        if (process_now_ms() >= until)
            fail_msg("line %d: %zu of %zu messages have come", line, have, count);
        OK(semel_transport_receive(from, out + have, count - have, &got, TURN_MS, &last_error));
    }
}

/* Errors that pass may come between. */
static void take_from_again(semel_transport *from, semel_delivery out[], size_t count)
{
    int64_t until = process_now_ms() + WAIT_MS;
    for (size_t have = 0, got; have < count && process_now_ms() < until; have += got) {
        got = 0;
        if (semel_transport_receive(from, out + have, count - have, &got, TURN_MS, &last_error))
            assert_true(last_error.retryable);
    }
    assert_true(process_now_ms() < until);
}

static void settle_one(semel_transport *at, uint64_t tag, semel_verdict verdict)
{
    semel_delivery_settlement one = {tag, verdict, 0};
    OK(semel_transport_settle(at, &one, 1, &last_error));
}

/* In one call: between two of them more could come, up to the bound. */
static void acknowledge_all(semel_transport *at, const semel_delivery deliveries[], size_t count)
{
    semel_delivery_settlement all[16];
    assert_in_range(count, 1, sizeof all / sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = (semel_delivery_settlement){deliveries[i].tag, SEMEL_VERDICT_ACK, 0};
    OK(semel_transport_settle(at, all, count, &last_error));
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void no_more_is_fetched_than_the_bound_and_all_comes_in_the_end(void **state)
{
    enum { BOUND = 10, ALL = 60 };
    semel_delivery out[ALL];
    size_t got;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "prefetch=10");
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, out, BOUND);
    OK(semel_transport_receive(first, out + BOUND, ALL, &got, 1000, &last_error));
    assert_int_equal(got, 0);
    for (size_t done = 0, have = BOUND; done < ALL; done++) {
        settle_one(first, out[done].tag, SEMEL_VERDICT_ACK);
        assert_int_equal(out[done].position, done);
        if (done + 1 == have && have < ALL) {
            take_from(first, out + have, 1);
            have++;
        }
    }
}

/* It comes although brokers answer no request for records any more. */
static void what_was_fetched_beyond_the_bound_is_not_fetched_again(void **state)
{
    enum { FETCH = 1, TIMED_OUT = 7, BOUND = 10, ALL = 60 };
    semel_delivery out[ALL];
    size_t got;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "prefetch=10");
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, out, BOUND);
    OK(semel_transport_receive(first, out + BOUND, ALL - BOUND, &got, 2000, &last_error));
    assert_int_equal(got, 0);
    kafka_mock_do(&mock, "error %d %d 1000", FETCH, TIMED_OUT);
    for (size_t i = 0; i < BOUND; i++)
        settle_one(first, out[i].tag, SEMEL_VERDICT_ACK);
    take_from(first, out, 1);
    assert_int_equal(out[0].position, BOUND);
    kafka_mock_do(&mock, "error %d 0 0", FETCH);
}

/* A message that stays unsettled holds the others up only when they are too far ahead. Until then
 * the other bound is reached again and again, and left again. */
static void what_is_unfinished_holds_its_partition_up_within_bounds(void **state)
{
    enum { BOUND = 5, AHEAD = 20, ALL = 40 };
    semel_delivery stuck, out[BOUND];
    size_t got, came = 1;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "prefetch=5&ahead=20");
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, &stuck, 1);
    for (size_t some; came < AHEAD; came += some) {
        some = AHEAD - came < BOUND - 1 ? AHEAD - came : BOUND - 1;
        take_from(first, out, some);
        OK(semel_transport_receive(first, out + some, 1, &got, 300, &last_error));
        assert_int_equal(got, 0);
        acknowledge_all(first, out, some);
    }
    got = 1;
    while (got) { /* some more, and no end */
        OK(semel_transport_receive(first, out, 1, &got, 2000, &last_error));
        if (got)
            settle_one(first, out[0].tag, SEMEL_VERDICT_ACK);
        came += got;
    }
    assert_in_range(came, AHEAD, AHEAD + 5);
    settle_one(first, stuck.tag, SEMEL_VERDICT_ACK);
    for (; came < ALL; came++) {
        take_from(first, out, 1);
        settle_one(first, out[0].tag, SEMEL_VERDICT_ACK);
    }
}

/* --- where a group begins --------------------------------------------------------------------- */

/* What is published when no member is there has come after the group's beginning. */
static void a_group_that_began_at_the_end_misses_nothing_after_that(void **state)
{
    enum { BEFORE = 3 };
    char topic[MOCK_SERVERS_ROOM];
    semel_delivery one;
    size_t got = 0;
    int64_t until = process_now_ms() + WAIT_MS;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "from=latest");
    kafka_mock_topic(topic, url);
    first = open_transport(url);
    publish_ids(first, BEFORE);
    while (kafka_cluster_progress(mock.servers, topic, topic, 1) < BEFORE) {
        assert_true(process_now_ms() < until);
        OK(semel_transport_receive(first, &one, 1, &got, TURN_MS, &last_error));
        assert_int_equal(got, 0);
    }
    semel_transport_close(first);
    second = open_transport(url);
    publish_ids(second, 1);
    first = open_transport(url);
    take_from(first, &one, 1);
    assert_int_equal(one.position, BEFORE);
}

/* --- dead letters ----------------------------------------------------------------------------- */

/* The URL of the topic for dead letters, too. */
static void open_with_dead(char dead_url[MOCK_URL_ROOM], const char *more)
{
    char dead[MOCK_SERVERS_ROOM], parameters[MOCK_URL_ROOM];
    kafka_mock_fresh(dead_url, &mock, 1, "");
    kafka_mock_topic(dead, dead_url);
    (void)snprintf(parameters, sizeof parameters, "dead=%s%s", dead, more);
    kafka_mock_fresh(url, &mock, 1, parameters);
}

static void what_is_rejected_is_copied_and_then_done(void **state)
{
    char dead_url[MOCK_URL_ROOM], from[MOCK_SERVERS_ROOM + 8], topic[MOCK_SERVERS_ROOM];
    semel_delivery out;
    size_t got;
    (void)state;
    open_with_dead(dead_url, "");
    kafka_mock_topic(topic, url);
    first = open_transport(url);
    publish_ids(first, 1);
    take_from(first, &out, 1);
    settle_one(first, out.tag, SEMEL_VERDICT_REJECT);
    second = open_transport(dead_url);
    take_from(second, &out, 1);
    BYTES_EQUAL(semel_str("0"), out.message->id);
    (void)snprintf(from, sizeof from, "%s/0/0", topic);
    BYTES_EQUAL(semel_str(from), semel_message_header(out.message, "semel-dead-from"));
    semel_transport_close(first);
    first = open_transport(url);
    OK(semel_transport_receive(first, &out, 1, &got, 8000, &last_error));
    assert_int_equal(got, 0);
}

/* --- a message that kills its process --------------------------------------------------------- */

static int take_and_die(void *context)
{
    uint32_t *delivery = context;
    semel_transport *own = NULL;
    semel_delivery out;
    semel_error err;
    size_t got = 0;
    int64_t until = process_now_ms() + WAIT_MS;
    PROCESS_REQUIRE_OK(semel_transport_open(&own, url, NULL, &err), &err);
    while (!got && process_now_ms() < until)
        PROCESS_REQUIRE_OK(semel_transport_receive(own, &out, 1, &got, TURN_MS, &err), &err);
    PROCESS_REQUIRE(got == 1);
    *delivery = out.message->delivery;
    (void)kill(getpid(), SIGKILL);
    return PROCESS_OK;
}

static void deliveries_are_counted_across_processes_that_die(void **state)
{
    uint32_t *delivery = process_share(sizeof *delivery);
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    first = open_transport(url);
    publish_ids(first, 1);
    for (uint32_t time = 1; time <= 3; time++) {
        assert_int_equal(process_wait(process_start(take_and_die, delivery), WAIT_MS),
                         PROCESS_KILLED + SIGKILL);
        assert_int_equal(*delivery, time);
    }
    process_unshare(delivery, sizeof *delivery);
}

/* It stays, and holds up none of the others. */
static void a_dead_letter_that_is_not_taken_holds_up_no_other(void **state)
{
    enum { ALL = 4, LARGE = 20000 };
    static char large[LARGE];
    char plain_url[MOCK_URL_ROOM], dead_url[MOCK_URL_ROOM];
    semel_delivery out[ALL];
    (void)state;
    open_with_dead(dead_url, "&X.message.max.bytes=10000");
    memcpy(plain_url, url, sizeof plain_url);
    *strstr(plain_url, "&X.message.max.bytes") = 0;
    second = open_transport(plain_url);
    semel_message message = text_message("large", "");
    const semel_message *pointer = &message;
    semel_publish_result result;
    message.body = (semel_bytes){large, sizeof large};
    OK(semel_transport_publish(&result, second, &pointer, 1, WAIT_MS, &last_error));
    publish_ids(second, ALL - 1);
    semel_transport_close(second);
    first = open_transport(url);
    take_from(first, out, ALL);
    for (size_t i = 0; i < ALL; i++)
        settle_one(first, out[i].tag, SEMEL_VERDICT_REJECT);
    second = open_transport(dead_url);
    take_from(second, out, ALL - 1);
    for (size_t i = 0; i < ALL - 1; i++)
        assert_int_equal(out[i].message->body.len, strlen("10 EUR"));
}

/* --- a log that goes back --------------------------------------------------------------------- */

enum { FETCH = 1 }; /* a kind of request */

static int is_revoked(semel_transport *at, uint64_t tag)
{
    const semel_transport_driver *driver = semel_transport_driver_of(at);
    return driver->revoked(semel_transport_state(at, driver), tag);
}

/* It has lost records, or is another one: librdkafka begins anew, and offsets that have come before
 * may be those of other records. */
static void records_at_offsets_that_came_before_are_received(void **state)
{
    enum { ALL = 5, SETTLED = 2, AGAIN_MS = 5000 };
    semel_delivery out[ALL], again[ALL];
    size_t got = 0;
    int64_t until = process_now_ms() + WAIT_MS;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, out, ALL);
    for (size_t i = 0; i < SETTLED; i++)
        settle_one(first, out[i].tag, SEMEL_VERDICT_ACK);
    semel_status status = SEMEL_OK;
    while (!status && !got && process_now_ms() < until) { /* the mock may forget an error */
        kafka_mock_do(&mock, "error %d %d 1", FETCH, RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE);
        status = semel_transport_receive(first, again, 1, &got, AGAIN_MS, &last_error);
    }
    kafka_mock_do(&mock, "error %d 0 0", FETCH);
    assert_true(got == 1 || status == SEMEL_EUNAVAILABLE);
    take_from_again(first, again + got, ALL - got);
    for (size_t i = 0; i < ALL; i++)
        assert_int_equal(again[i].position, i);
    for (size_t i = SETTLED; i < ALL; i++) {
        assert_true(is_revoked(first, out[i].tag));
        assert_false(is_revoked(first, again[i].tag));
    }
}

/* What is known of the offsets behind the committed one was said of other records. */
static void progress_is_forgotten_if_the_log_has_gone_back(void **state)
{
    enum { ALL = 10, PREFIX = 4 };
    semel_delivery out[ALL];
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, out, ALL);
    for (size_t i = 0; i < ALL; i++)
        if (i != PREFIX)
            settle_one(first, out[i].tag, SEMEL_VERDICT_ACK);
    semel_transport_close(first);
    kafka_mock_do(&mock, "error %d %d 3", FETCH, RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE);
    first = open_transport(url);
    take_from_again(first, out, ALL);
    for (size_t i = 0; i < ALL; i++) {
        assert_int_equal(out[i].position, i);
        assert_int_equal(out[i].message->delivery, 1);
    }
}

/* --- partitions that go to another ------------------------------------------------------------ */

/* The first member has all of them out; then a second one joins. Until each message was received by
 * the second, or is still the first one's. */
static void hand_over(const char *parameters)
{
    enum { PARTITIONS = 2, ALL = 20 };
    semel_delivery out[ALL], again[ALL];
    size_t got, came = 0, revoked = 0;
    int64_t until = process_now_ms() + WAIT_MS;
    kafka_mock_fresh(url, &mock, PARTITIONS, parameters);
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, out, ALL);
    second = open_transport(url);
    while (!came && process_now_ms() < until)
        OK(semel_transport_receive(second, again, ALL, &came, TURN_MS, &last_error));
    assert_true(came > 0);
    for (size_t i = 0; i < ALL; i++)
        if (strcmp(out[i].partition, again[0].partition) == 0)
            revoked++;
    assert_in_range(revoked, 1, ALL - 1);
    while (came < revoked && process_now_ms() < until) {
        OK(semel_transport_receive(second, again + came, ALL - came, &got, TURN_MS, &last_error));
        came += got;
    }
    for (size_t i = 0; i < ALL; i++) {
        int moved = strcmp(out[i].partition, again[0].partition) == 0;
        if (moved || strstr(parameters, "cooperative"))
            assert_int_equal(is_revoked(first, out[i].tag), moved);
        settle_one(first, out[i].tag, SEMEL_VERDICT_ACK); /* late, and no error */
    }
    for (size_t i = 0; i < came; i++) {
        assert_int_equal(again[i].message->delivery, 2);
        assert_false(is_revoked(second, again[i].tag));
        settle_one(second, again[i].tag, SEMEL_VERDICT_ACK);
    }
}

static void a_partition_moves_to_a_new_member_eagerly(void **state)
{
    (void)state;
    hand_over("assignment=eager");
}

static void a_partition_moves_to_a_new_member_cooperatively(void **state)
{
    (void)state;
    hand_over("assignment=cooperative");
}

static void leave_group(test_thread *self)
{
    const semel_transport_driver *driver = semel_transport_driver_of(first);
    (void)self;
    driver->give_back(semel_transport_state(first, driver));
}

/* While the last commit of a partition is under way nothing of it begins: the commit says how far
 * messages were handed out. */
static void nothing_is_handed_out_while_a_partition_goes(void **state)
{
    enum { FIRST = 200, ALL = 400, RTT_MS = 300, PACE_US = 5000 };
    static semel_delivery out[ALL + 1];
    test_thread leaving;
    size_t had = FIRST, got = 0;
    int64_t until = process_now_ms() + WAIT_MS;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    first = open_transport(url);
    publish_ids(first, ALL);
    take_from(first, out, had);
    kafka_mock_do(&mock, "rtt 1 %d", RTT_MS);
    test_thread_start(&leaving, leave_group, NULL);
    do {
        assert_true(had < ALL && process_now_ms() < until);
        (void)usleep(PACE_US); /* that not all are out before the group is left */
        OK(semel_transport_receive(first, out + had, 1, &got, 10, &last_error));
        had += got;
    } while (!got || out[had - 1].position);
    assert_true(test_thread_join(&leaving, WAIT_MS));
    kafka_mock_do(&mock, "rtt 1 0");
    size_t before = had - 1;
    for (size_t i = 0; i < before; i++) {
        assert_int_equal(out[had - 1].position, i);
        assert_int_equal(out[had - 1].message->delivery, 2);
        take_from(first, out + had - 1, 1);
    }
    assert_int_equal(out[had - 1].message->delivery, 1);
}

/* --- an outage -------------------------------------------------------------------------------- */

static void brokers_that_are_down_are_reported_and_found_again(void **state)
{
    semel_delivery out;
    semel_status status = SEMEL_OK;
    size_t got = 0;
    int64_t until = process_now_ms() + WAIT_MS;
    (void)state;
    kafka_mock_fresh(url, &mock, 1, "");
    first = open_transport(url);
    publish_ids(first, 1);
    take_from(first, &out, 1);
    settle_one(first, out.tag, SEMEL_VERDICT_ACK);
    kafka_mock_do(&mock, "down 1");
    while (!status && process_now_ms() < until)
        status = semel_transport_receive(first, &out, 1, &got, TURN_MS, &last_error);
    assert_int_equal(status, SEMEL_EUNAVAILABLE);
    assert_true(last_error.retryable);
    kafka_mock_do(&mock, "up 1");
    while ((status || !got) && process_now_ms() < until) {
        semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
        semel_message message = text_message("back", "");
        const semel_message *pointer = &message;
        (void)semel_transport_publish(&result, first, &pointer, 1, 1000, &last_error);
        status = semel_transport_receive(first, &out, 1, &got, TURN_MS, &last_error);
    }
    assert_int_equal(status, SEMEL_OK);
    BYTES_EQUAL(semel_str("back"), out.message->id);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_more_is_fetched_than_the_bound_and_all_comes_in_the_end),
        TEST(what_was_fetched_beyond_the_bound_is_not_fetched_again),
        TEST(what_is_unfinished_holds_its_partition_up_within_bounds),
        TEST(a_group_that_began_at_the_end_misses_nothing_after_that),
        TEST(what_is_rejected_is_copied_and_then_done),
        TEST(a_dead_letter_that_is_not_taken_holds_up_no_other),
        TEST(records_at_offsets_that_came_before_are_received),
        TEST(progress_is_forgotten_if_the_log_has_gone_back),
        TEST(deliveries_are_counted_across_processes_that_die),
        TEST(a_partition_moves_to_a_new_member_eagerly),
        TEST(a_partition_moves_to_a_new_member_cooperatively),
        TEST(nothing_is_handed_out_while_a_partition_goes),
        TEST(brokers_that_are_down_are_reported_and_found_again),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    kafka_mock_start(&mock, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kafka_mock_end(&mock);
    return failed;
}
