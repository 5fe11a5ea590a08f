/* Static membership (instance=): a member that ends and comes back within the session has its
 * partitions as before, and the other member notices nothing. Without a name it is a rebalance, in
 * which the eager protocol takes the other's partitions, too: so its deliveries tell. And of two
 * members with one name, the one that came first is told. */
#include "real_kit.h"

#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <stdio.h>
#include <string.h>

enum { PARTITIONS = 4, KEYS = 16, LOAD = 48, ROOM = 256, TURN_MS = 20, SESSION_MS = 30000 };

typedef struct member {
    char url[SERVER_URL_ROOM];
    semel_transport *transport;
    semel_delivery held[ROOM]; /* none of them revoked */
    size_t count;
} member;

static real_topic topic;
static member first, second;

/* The name may be "". */
static void open_member(member *m, const char *name)
{
    server_print(m->url, sizeof m->url,
                 "kafka://%s/%s?group=%s&connect_ms=60000&X.session.timeout.ms=%d"
                 "&X.heartbeat.interval.ms=300%s%s",
                 topic.servers, topic.topic, topic.group, SESSION_MS, *name ? "&instance=" : "",
                 name);
    OK(semel_transport_open(&m->transport, m->url, NULL, &last_error));
    m->count = 0;
}

static void close_member(member *m)
{
    semel_transport_close(m->transport);
    m->transport = NULL;
    m->count = 0;
}

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    real_topic_open(&topic, PARTITIONS, KEYS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_member(&first);
    close_member(&second);
    real_topic_close(&topic);
    deadline_end();
    return 0;
}

/* --- who holds what --------------------------------------------------------------------------- */

static void drop_revoked(member *m)
{
    const semel_transport_driver *driver = semel_transport_driver_of(m->transport);
    void *state = semel_transport_state(m->transport, driver);
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!driver->revoked(state, m->held[i].tag))
            m->held[kept++] = m->held[i];
    m->count = kept;
}

static void receive_more(member *m)
{
    size_t count = 0;
    semel_status status = semel_transport_receive(m->transport, m->held + m->count, ROOM - m->count,
                                                  &count, TURN_MS, &last_error);
    assert_true(status == SEMEL_OK || last_error.retryable);
    m->count += status ? 0 : count;
    drop_revoked(m);
}

/* Until the two hold all there is, and each of them something. */
static void share_all(void)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    while (first.count + second.count != LOAD || !first.count || !second.count) {
        receive_more(&first);
        receive_more(&second);
        if (process_now_ms() > deadline)
            fail_msg("%zu and %zu of %d", first.count, second.count, LOAD);
    }
}

/* A bit for each partition. */
static unsigned partitions_of(const member *m)
{
    unsigned bits = 0;
    for (size_t i = 0; i < m->count; i++) {
        unsigned number;
        assert_int_equal(sscanf(strrchr(m->held[i].partition, '/'), "/%u", &number), 1);
        bits |= 1U << number;
    }
    return bits;
}

static void settle_all(member *m)
{
    for (size_t i = 0; i < m->count; i++) {
        semel_delivery_settlement ack = {m->held[i].tag, SEMEL_VERDICT_ACK, 0};
        OK(semel_transport_settle(m->transport, &ack, 1, &last_error));
    }
}

/* --- coming back ------------------------------------------------------------------------------ */

/* How many of these it holds still: a delivery that comes again has a tag of its own. */
static size_t count_still_held(const member *m, const uint64_t tags[], size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < m->count; k++)
            found += m->held[k].tag == tags[i];
    return found;
}

/* The first member ends and is opened again. How many of the second one's deliveries it has
 * cost. */
static size_t cost_of_a_restart(const char *first_name, const char *second_name)
{
    uint64_t tags[ROOM];
    open_member(&first, first_name);
    open_member(&second, second_name);
    real_topic_fill(&topic, LOAD);
    share_all();
    unsigned of_first = partitions_of(&first);
    size_t before = second.count;
    for (size_t i = 0; i < before; i++)
        tags[i] = second.held[i].tag;
    close_member(&first);
    open_member(&first, first_name);
    share_all();
    if (*first_name)
        assert_int_equal(partitions_of(&first), of_first);
    return before - count_still_held(&second, tags, before);
}

static void a_member_with_a_name_comes_back_without_a_rebalance(void **state)
{
    (void)state;
    assert_int_equal(cost_of_a_restart("cash-desk-1", "cash-desk-2"), 0);
    settle_all(&first);
    settle_all(&second);
    real_topic_wait(&topic, LOAD);
}

/* What the test above would see if it were a rebalance. */
static void a_member_without_a_name_interrupts_the_other_one(void **state)
{
    (void)state;
    assert_true(cost_of_a_restart("", "") > 0);
}

/* --- one name twice --------------------------------------------------------------------------- */

static void of_two_with_one_name_the_first_is_told(void **state)
{
    semel_status status = SEMEL_OK;
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    (void)state;
    open_member(&first, "cash-desk");
    real_topic_fill(&topic, LOAD);
    while (first.count < LOAD)
        receive_more(&first);
    open_member(&second, "cash-desk");
    while (!second.count) {
        assert_true(process_now_ms() < deadline);
        receive_more(&second);
    }
    while (!status) {
        size_t count;
        assert_true(process_now_ms() < deadline);
        status = semel_transport_receive(first.transport, first.held, ROOM, &count, TURN_MS,
                                         &last_error);
    }
    assert_int_equal(status, SEMEL_EUNAVAILABLE);
    SAYS("fenced by other consumer with same group.instance.id");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_member_with_a_name_comes_back_without_a_rebalance),
        TEST(a_member_without_a_name_interrupts_the_other_one),
        TEST(of_two_with_one_name_the_first_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
