/* Members of a group that were stopped (SIGSTOP) until their session was over, and then go on with
 * what they hold: two thousand deliveries in all, which belong to another member by then. The
 * zombie settles one half of them at once, before it can know, and the other half when it is a
 * member again: then the broker would take its offsets. None may count: the member that has the
 * messages dies before it has settled any, so an offset that was committed would lose messages. */
#include "real_kit.h"

#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { PARTITIONS = 4, KEYS = 40, HELD = 1000, AT_ONCE = 100, POLL_MS = 100 };

typedef struct shared {
    atomic_uint zombie_holds, successor_holds, survivor_holds;
    atomic_uint settled; /* by the zombie, as far as it can say */
    atomic_int rejoined, end, committed;
} shared;

typedef struct scene {
    real_topic topic;
    char url[SERVER_URL_ROOM];
    shared *all;
} scene;

/* --- what all of them do ---------------------------------------------------------------------- */

static semel_transport *open_member(const scene *s)
{
    semel_transport *transport;
    semel_error err;
    PROCESS_REQUIRE_OK(semel_transport_open(&transport, s->url, NULL, &err), &err);
    return transport;
}

/* An outage passes. */
static size_t receive_some(semel_transport *transport, semel_delivery deliveries[], size_t max)
{
    semel_error err;
    size_t count = 0;
    semel_status status =
        semel_transport_receive(transport, deliveries, max, &count, POLL_MS, &err);
    PROCESS_REQUIRE(status == SEMEL_OK || status == SEMEL_EUNAVAILABLE);
    return status ? 0 : count;
}

static void wait_until(const atomic_int *flag)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    while (!atomic_load(flag)) {
        PROCESS_REQUIRE(process_now_ms() < deadline);
        process_nap();
    }
}

/* So many different messages. */
static void hold_all(semel_transport *transport, semel_delivery held[HELD], atomic_uint *count)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    for (size_t have = 0; have < HELD;) {
        have += receive_some(transport, held + have, HELD - have);
        atomic_store(count, (unsigned)have);
        PROCESS_REQUIRE(process_now_ms() < deadline);
    }
}

/* --- the zombie ------------------------------------------------------------------------------- */

/* "Settling it is no error", and a member that has lost its session may be told so. */
static void acknowledge(const scene *s, semel_transport *transport, const semel_delivery held[],
                        size_t count)
{
    semel_error err;
    for (size_t i = 0; i < count; i += AT_ONCE) {
        semel_delivery_settlement acks[AT_ONCE];
        for (size_t k = 0; k < AT_ONCE; k++)
            acks[k] = (semel_delivery_settlement){held[i + k].tag, SEMEL_VERDICT_ACK, 0};
        semel_status status = semel_transport_settle(transport, acks, AT_ONCE, &err);
        PROCESS_REQUIRE(status == SEMEL_OK || status == SEMEL_EINVAL ||
                        status == SEMEL_EUNAVAILABLE || status == SEMEL_ELOST);
        atomic_fetch_add(&s->all->settled, AT_ONCE);
    }
}

static int zombie(void *context)
{
    static semel_delivery held[HELD], again[AT_ONCE];
    scene *s = context;
    semel_transport *transport = open_member(s);
    hold_all(transport, held, &s->all->zombie_holds);
    (void)raise(SIGSTOP);
    acknowledge(s, transport, held, HELD / 2);
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    while (receive_some(transport, again, AT_ONCE) == 0)
        PROCESS_REQUIRE(process_now_ms() < deadline);
    acknowledge(s, transport, held + HELD / 2, HELD / 2);
    atomic_store(&s->all->rejoined, 1);
    wait_until(&s->all->end);
    semel_transport_close(transport);
    return PROCESS_OK;
}

/* --- the others ------------------------------------------------------------------------------- */

/* Takes part in the group until it is killed, and settles nothing. */
static int successor(void *context)
{
    static semel_delivery held[HELD], again[AT_ONCE];
    scene *s = context;
    semel_transport *transport = open_member(s);
    hold_all(transport, held, &s->all->successor_holds);
    while (!atomic_load(&s->all->end))
        (void)receive_some(transport, again, AT_ONCE);
    return PROCESS_REQUIRED; /* it was to be killed before */
}

static unsigned number_of(const semel_delivery *delivery)
{
    unsigned key = 0, number = 0;
    char text[32] = "";
    memcpy(text, delivery->message->body.data,
           delivery->message->body.len < sizeof text ? delivery->message->body.len : 0);
    PROCESS_REQUIRE(sscanf(text, "%u %u", &key, &number) == 2);
    return number * KEYS + key;
}

/* Has all of them, each at least once, and settles all; until the broker knows that. */
static int survivor(void *context)
{
    static semel_delivery some[AT_ONCE];
    static char seen[HELD];
    scene *s = context;
    semel_transport *transport = open_member(s);
    int64_t deadline = process_now_ms() + 2 * REAL_PATIENCE_MS;
    for (unsigned different = 0; !atomic_load(&s->all->committed);) {
        size_t count = receive_some(transport, some, AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            unsigned number = number_of(&some[i]);
            semel_delivery_settlement ack = {some[i].tag, SEMEL_VERDICT_ACK, 0};
            semel_error err;
            PROCESS_REQUIRE(number < HELD);
            different += !seen[number];
            seen[number] = 1;
            PROCESS_REQUIRE_OK(semel_transport_settle(transport, &ack, 1, &err), &err);
        }
        atomic_store(&s->all->survivor_holds, different);
        PROCESS_REQUIRE(process_now_ms() < deadline);
    }
    semel_transport_close(transport);
    return PROCESS_OK;
}

/* --- the story -------------------------------------------------------------------------------- */

static void wait_for(const atomic_uint *count, unsigned wanted)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    while (atomic_load(count) < wanted) {
        if (process_now_ms() > deadline)
            fail_msg("%u of %u", atomic_load(count), wanted);
        process_nap();
    }
}

static void wait_for_end(const scene *s)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    while (!atomic_load(&s->all->rejoined)) {
        if (process_now_ms() > deadline)
            fail_msg("the zombie has settled %u", atomic_load(&s->all->settled));
        process_nap();
    }
}

static void zombies_settle_nothing(const char *parameters)
{
    scene s = {.all = process_share(sizeof(shared))};
    real_topic_open(&s.topic, PARTITIONS, KEYS);
    real_topic_url(s.url, &s.topic, parameters);
    real_topic_fill(&s.topic, HELD);
    pid_t first = process_start(zombie, &s);
    assert_true(process_wait_stopped(first, REAL_PATIENCE_MS));
    pid_t second = process_start(successor, &s);
    wait_for(&s.all->successor_holds, HELD);
    kill(first, SIGCONT);
    wait_for_end(&s);
    assert_int_equal(atomic_load(&s.all->settled), HELD);
    assert_int_equal(real_topic_progress(&s.topic), 0);
    kill(second, SIGKILL);
    assert_int_equal(process_wait(second, REAL_PATIENCE_MS), PROCESS_KILLED + SIGKILL);
    atomic_store(&s.all->end, 1);
    assert_int_equal(process_wait(first, REAL_PATIENCE_MS), PROCESS_OK);
    assert_int_equal(real_topic_progress(&s.topic), 0);
    pid_t third = process_start(survivor, &s);
    wait_for(&s.all->survivor_holds, HELD);
    real_topic_wait(&s.topic, HELD);
    atomic_store(&s.all->committed, 1);
    assert_int_equal(process_wait(third, REAL_PATIENCE_MS), PROCESS_OK);
    real_topic_close(&s.topic);
    process_unshare(s.all, sizeof(shared));
}

static void a_thousand_zombies_settle_nothing_eager(void **state)
{
    (void)state;
    zombies_settle_nothing("assignment=eager");
}

static void a_thousand_zombies_settle_nothing_cooperative(void **state)
{
    (void)state;
    zombies_settle_nothing("assignment=cooperative");
}

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    deadline_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thousand_zombies_settle_nothing_eager, setup, teardown),
        cmocka_unit_test_setup_teardown(a_thousand_zombies_settle_nothing_cooperative, setup,
                                        teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
