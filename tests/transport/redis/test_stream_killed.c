/* Consumers that are killed or stopped, and a server that is killed and started again while
 * messages come and go. */
#include "stream_kit.h"
#include "support/process/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Real time: long enough that a consumer which is alive is in time. */
#define CLAIM KIT_GROUP "&claim_ms=1000"

/* --- consumers -------------------------------------------------------------------------------- */

typedef struct child_case {
    char url[SERVER_URL_ROOM];
    int *received; /* shared: how many deliveries the child has */
} child_case;

static semel_transport *open_in_child(const child_case *in)
{
    semel_transport *transport = NULL;
    semel_error err;
    PROCESS_REQUIRE_OK(semel_transport_open(&transport, in->url, NULL, &err), &err);
    return transport;
}

static semel_delivery take_in_child(semel_transport *transport)
{
    semel_delivery one;
    size_t got = 0;
    semel_error err;
    PROCESS_REQUIRE_OK(semel_transport_receive(transport, &one, 1, &got, KIT_WAIT_MS, &err), &err);
    PROCESS_REQUIRE(got == 1);
    return one;
}

static int receive_and_die(void *context)
{
    const child_case *in = context;
    semel_transport *transport = open_in_child(in);
    (void)take_in_child(transport);
    (void)take_in_child(transport);
    raise(SIGKILL);
    return 1;
}

static void entries_of_a_killed_consumer_go_to_another(void **state)
{
    stream_kit kit;
    child_case in = {.received = NULL};
    (void)state;
    kit_open(&kit, NULL, NULL);
    kit_url(in.url, &kit, CLAIM);
    semel_transport_close(kit_connect(&kit, CLAIM)); /* makes the group */
    kit.transport = kit_connect(&kit, "");
    kit_send(&kit, "m-1");
    kit_send(&kit, "m-2");
    assert_int_equal(process_run(receive_and_die, &in), PROCESS_KILLED + SIGKILL);
    assert_int_equal(kit_pending(&kit), 2);
    semel_transport *heir = kit_connect(&kit, CLAIM);
    semel_delivery first = kit_take(heir, "m-1"), second = kit_take(heir, "m-2");
    assert_true(first.message->delivery >= 2 && second.message->delivery >= 2);
    OK(kit_settle(heir, first, SEMEL_VERDICT_ACK, 0));
    OK(kit_settle(heir, second, SEMEL_VERDICT_ACK, 0));
    assert_int_equal(kit_pending(&kit), 0);
    semel_transport_close(heir);
    kit_close(&kit);
}

/* It is stopped with a delivery; when it goes on, another consumer has it. */
static int receive_and_stop(void *context)
{
    const child_case *in = context;
    void *self;
    semel_error err;
    uint32_t hold_ms;
    semel_transport *transport = open_in_child(in);
    const semel_transport_driver *driver = kit_driver(transport, &self);
    semel_delivery one = take_in_child(transport);
    PROCESS_REQUIRE(!driver->revoked(self, one.tag));
    raise(SIGSTOP);
    PROCESS_REQUIRE(driver->revoked(self, one.tag)); /* by its own clock, before it asks */
    PROCESS_REQUIRE_OK(driver->extend(self, &one.tag, 1, &hold_ms, &err), &err);
    PROCESS_REQUIRE(driver->revoked(self, one.tag));
    semel_delivery_settlement late = {one.tag, SEMEL_VERDICT_ACK, 0};
    PROCESS_REQUIRE(semel_transport_settle(transport, &late, 1, &err) == SEMEL_EINVAL);
    semel_transport_close(transport);
    return PROCESS_OK;
}

static void a_stopped_consumer_comes_too_late(void **state)
{
    stream_kit kit;
    child_case in = {.received = NULL};
    (void)state;
    kit_open(&kit, NULL, NULL);
    kit_url(in.url, &kit, CLAIM);
    semel_transport_close(kit_connect(&kit, CLAIM));
    kit.transport = kit_connect(&kit, "");
    kit_send(&kit, "m-1");
    semel_transport_close(kit.transport); /* none may be open in the parent when it forks */
    kit.transport = NULL;
    pid_t child = process_start(receive_and_stop, &in);
    assert_true(process_wait_stopped(child, KIT_WAIT_MS));
    semel_transport *heir = kit_connect(&kit, KIT_GROUP "&claim_ms=1000");
    semel_delivery again = kit_take(heir, "m-1");
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(process_wait(child, KIT_WAIT_MS), PROCESS_OK);
    assert_int_equal(kit_length(&kit), 1); /* it was not removed by the late one */
    semel_transport_close(heir);
    (void)again;
    kit_close(&kit);
}

/* --- the server ------------------------------------------------------------------------------- */

enum { MESSAGES = 600, CRASHES = 3, AT_ONCE = 16 };

typedef struct load {
    stream_kit *kit;
    semel_transport *publisher;
    atomic_uint confirmed; /* messages 0 to here - 1 */
    atomic_int broken;     /* an error that is none of an outage */
} load;

/* One after the other, each until it is confirmed: so copies are possible, gaps are not. */
static void *publish_all(void *context)
{
    load *l = context;
    for (unsigned i = 0; i < MESSAGES && !atomic_load(&l->broken);) {
        char id[16];
        semel_error err;
        semel_publish_result result;
        (void)snprintf(id, sizeof id, "%u", i);
        semel_message message = text_message(id, "10 EUR");
        const semel_message *pointer = &message;
        semel_status status =
            semel_transport_publish(&result, l->publisher, &pointer, 1, 5000, &err);
        if (status && status != SEMEL_EUNAVAILABLE)
            atomic_store(&l->broken, 1);
        if (!status && result == SEMEL_PUBLISH_CONFIRMED)
            atomic_store(&l->confirmed, ++i);
        else
            process_nap();
    }
    return NULL;
}

/* What was acknowledged, and the answer was heard, does not come again. */
static void consume(semel_transport *consumer, unsigned seen[MESSAGES], unsigned acked[MESSAGES])
{
    semel_delivery out[AT_ONCE];
    size_t got = 0;
    if (semel_transport_receive(consumer, out, AT_ONCE, &got, 50, &last_error)) {
        assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        process_nap();
        return;
    }
    for (size_t i = 0; i < got; i++) {
        char id[16] = "";
        memcpy(id, out[i].message->id.data, out[i].message->id.len);
        unsigned long number = strtoul(id, NULL, 10);
        assert_true(number < MESSAGES);
        seen[number]++;
        semel_status status = kit_settle(consumer, out[i], SEMEL_VERDICT_ACK, 0);
        acked[number] += !status;
        if (status)
            assert_true(status == SEMEL_EUNAVAILABLE || status == SEMEL_EINVAL);
    }
}

static unsigned count_seen(const unsigned seen[MESSAGES])
{
    unsigned count = 0;
    for (size_t i = 0; i < MESSAGES; i++)
        count += seen[i] > 0;
    return count;
}

static void crash_under_load(const char *fsync)
{
    static unsigned seen[MESSAGES], acked[MESSAGES];
    server_own own;
    stream_kit kit;
    char command[64];
    load l = {.kit = &kit};
    pthread_t thread;
    unsigned crashes = 0;
    memset(seen, 0, sizeof seen);
    memset(acked, 0, sizeof acked);
    server_own_start(&own, SERVER_REDIS);
    (void)snprintf(command, sizeof command, "CONFIG SET appendfsync %s", fsync);
    server_run(own.at.url, command);
    server_run(own.at.url, "CONFIG REWRITE");
    kit_open(&kit, &own.at, CLAIM);
    l.publisher = kit_connect(&kit, "");
    assert_int_equal(pthread_create(&thread, NULL, publish_all, &l), 0);
    int64_t until = process_now_ms() + 2 * KIT_WAIT_MS;
    while (count_seen(seen) < MESSAGES || kit_pending(&kit)) {
        assert_true(process_now_ms() < until && !atomic_load(&l.broken));
        if (crashes < CRASHES && count_seen(seen) >= (crashes + 1) * MESSAGES / (CRASHES + 1)) {
            server_own_crash(&own);
            consume(kit.transport, seen, acked); /* an outage */
            server_own_restart(&own);
            kit_reconnect(&kit);
            crashes++;
        }
        consume(kit.transport, seen, acked);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(crashes, CRASHES);
    assert_int_equal(atomic_load(&l.confirmed), MESSAGES);
    kit_expect_nothing(kit.transport);
    assert_int_equal(kit_length(&kit), 0);
    semel_transport_close(l.publisher);
    kit_close(&kit);
    server_own_stop(&own);
}

static void a_server_that_syncs_each_write_loses_nothing(void **state)
{
    (void)state;
    crash_under_load("always");
}

static void a_server_that_syncs_each_second_loses_nothing_to_kill_9(void **state)
{
    (void)state;
    crash_under_load("everysec");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_of_a_killed_consumer_go_to_another),
        cmocka_unit_test(a_stopped_consumer_comes_too_late),
        cmocka_unit_test(a_server_that_syncs_each_write_loses_nothing),
        cmocka_unit_test(a_server_that_syncs_each_second_loses_nothing_to_kill_9)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
