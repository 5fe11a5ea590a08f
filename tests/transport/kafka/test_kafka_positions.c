/* An inbox that remembers positions, on librdkafka's mock cluster: what comes again because the
 * group knows nothing of it, or because a partition had two owners, has had its effect; and another
 * cluster is noticed. */
#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/process/process.h"
#include "support/servers/kafka/kafka_mock.h"
#include "support/servers/kafka/position_reader.h"

#include <semel/sys/transport.h>
#include <stdio.h>
#include <string.h>

enum { WAIT_MS = 60000, TURN_MS = 100, MARGIN_MS = 60000, PARTITIONS = 2, ALL = 20 };

static kafka_mock mock, other_mock;
static char url[MOCK_URL_ROOM], topic[MOCK_SERVERS_ROOM];
static position_reader reader;

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    position_reader_open(&reader, MARGIN_MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    position_reader_close(&reader);
    deadline_end();
    return 0;
}

static void fresh_topic(void)
{
    kafka_mock_fresh(url, &mock, PARTITIONS, "");
    kafka_mock_topic(topic, url);
}

/* The same topic on any cluster, with a group that has committed nothing. */
static void write_url(char out[MOCK_URL_ROOM], const kafka_mock *at, const char *group)
{
    (void)snprintf(out, MOCK_URL_ROOM, "kafka://%s/%s?group=%s&connect_ms=20000&" MOCK_SESSION,
                   at->servers, topic, group);
}

static void publish(const char *to, size_t count)
{
    semel_transport *transport;
    OK(semel_transport_open(&transport, to, NULL, &last_error));
    for (size_t i = 0; i < count; i++) {
        char id[32];
        semel_publish_result result;
        (void)snprintf(id, sizeof id, "%zu", i);
        semel_message message = {.size = sizeof message,
                                 .id = semel_str(id),
                                 .type = "order.placed",
                                 .group = id,
                                 .body = semel_str(id)};
        const semel_message *pointer = &message;
        OK(semel_transport_publish(&result, transport, &pointer, 1, WAIT_MS, &last_error));
        assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    }
    semel_transport_close(transport);
}

/* --- restarts --------------------------------------------------------------------------------- */

static void what_a_new_group_receives_again_is_a_duplicate(void **state)
{
    char again[MOCK_URL_ROOM];
    semel_counters counters;
    (void)state;
    fresh_topic();
    publish(url, ALL);
    OK(position_reader_settle(&reader, url, ALL));
    assert_int_equal(reader.handled, ALL);
    write_url(again, &mock, "anew");
    OK(position_reader_settle(&reader, again, ALL));
    assert_int_equal(reader.handled, ALL);
    publish(url, 4);
    OK(position_reader_settle(&reader, url, 4));
    assert_int_equal(reader.handled, ALL + 4);
    semel_inbox_counters(&counters, sizeof counters, reader.inbox);
    assert_int_equal(counters.duplicates, ALL);
}

/* --- zombies ---------------------------------------------------------------------------------- */

static semel_transport *open_transport(void)
{
    semel_transport *out;
    OK(semel_transport_open(&out, url, NULL, &last_error));
    return out;
}

/* `have` of them are there already; returns how many then are. */
static size_t take_until(semel_transport *from, semel_delivery out[ALL], size_t have, size_t wanted)
{
    int64_t until = process_now_ms() + WAIT_MS;
    while (have < wanted) {
        size_t count = 0;
        semel_status status =
            semel_transport_receive(from, out + have, ALL - have, &count, TURN_MS, &last_error);
        assert_true(status == SEMEL_OK || last_error.retryable);
        have += status ? 0 : count;
        assert_true(process_now_ms() < until);
    }
    return have;
}

static size_t count_in(const semel_delivery all[], size_t count, const char *partition)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += strcmp(all[i].partition, partition) == 0;
    return found;
}

/* Those of one partition, as one run: each has this outcome. */
static void handle(const semel_delivery all[], size_t count, const char *partition,
                   semel_outcome expected)
{
    const semel_message *messages[ALL];
    int64_t positions[ALL];
    semel_outcome outcomes[ALL];
    semel_run run = {
        .size = sizeof run, .partition = partition, .positions = positions, .messages = messages};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].partition, partition) != 0)
            continue;
        run.origin = all[i].origin;
        messages[run.count] = all[i].message;
        positions[run.count++] = all[i].position;
    }
    OK(semel_inbox_receive_run(outcomes, reader.inbox, &run, position_reader_handle, &reader,
                               &last_error));
    for (size_t i = 0; i < run.count; i++)
        assert_int_equal(outcomes[i], expected);
}

/* The first member has all deliveries when a second one joins and takes a partition from it. Both
 * handle what they hold, the one that has lost it later. */
static void the_former_owner_of_a_partition_commits_nothing(void **state)
{
    semel_delivery held[ALL], taken[ALL];
    (void)state;
    fresh_topic();
    publish(url, ALL);
    semel_transport *zombie = open_transport();
    (void)take_until(zombie, held, 0, ALL);
    semel_transport *owner = open_transport();
    size_t have = take_until(owner, taken, 0, 1);
    const char *moved = taken[0].partition;
    size_t all = count_in(held, ALL, moved);
    assert_in_range(all, 1, ALL - 1);
    assert_int_equal(take_until(owner, taken, have, all), all);
    assert_string_not_equal(held[0].origin, "");
    handle(taken, all, moved, SEMEL_PROCESSED);
    handle(held, ALL, moved, SEMEL_DUPLICATE);
    assert_int_equal(reader.handled, all);
    semel_transport_close(owner);
    semel_transport_close(zombie);
}

/* --- another cluster -------------------------------------------------------------------------- */

static void another_cluster_is_refused(void **state)
{
    char elsewhere[MOCK_URL_ROOM];
    (void)state;
    fresh_topic();
    publish(url, ALL);
    OK(position_reader_settle(&reader, url, ALL));
    kafka_mock_do(&other_mock, "topic %s %d", topic, PARTITIONS);
    write_url(elsewhere, &other_mock, topic);
    publish(elsewhere, ALL);
    FAILS(SEMEL_EREJECTED, position_reader_settle(&reader, elsewhere, ALL));
    SAYS("another cluster");
    assert_int_equal(reader.handled, ALL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_new_group_receives_again_is_a_duplicate),
        TEST(the_former_owner_of_a_partition_commits_nothing),
        TEST(another_cluster_is_refused),
    };
    kafka_mock_start(&mock, 1);
    kafka_mock_start(&other_mock, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kafka_mock_end(&other_mock);
    kafka_mock_end(&mock);
    return failed;
}
