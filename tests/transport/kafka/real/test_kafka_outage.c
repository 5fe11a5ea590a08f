/* The broker is killed (SIGKILL) and started again on its data, under load in both directions: a
 * relay sends what an outbox has, and a group of consumers receives it. Both go on by themselves.
 * In the end each message has had its effect, once and in the order of its group. */
#include "real_members.h"

#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <stdio.h>

enum { PARTITIONS = 4, KEYS = 16, CONSUMERS = 2, LOAD = 600, BATCH = 40 };

typedef struct sender {
    store_place place; /* of the outbox */
    char url[SERVER_URL_ROOM];
    unsigned first; /* number of what is sent next */
    struct sender_shared {
        atomic_int end;
        atomic_uint cut; /* steps of the relay that failed */
    } * shared;
} sender;

/* --- in processes ----------------------------------------------------------------------------- */

static void open_outbox(semel_store **store, semel_outbox **outbox, const sender *s)
{
    semel_error err;
    PROCESS_REQUIRE_OK(semel_store_open(store, s->place.url, NULL, &err), &err);
    PROCESS_REQUIRE_OK(semel_store_migrate(*store, &err), &err);
    PROCESS_REQUIRE_OK(semel_outbox_open(outbox, *store, "out", &err), &err);
}

static void send_one(semel_unit *unit, semel_outbox *outbox, unsigned number)
{
    char group[16], body[32];
    semel_error err;
    (void)snprintf(group, sizeof group, "%u", number % KEYS);
    (void)snprintf(body, sizeof body, "%u %u", number % KEYS, number / KEYS);
    semel_message message = {
        .size = sizeof message, .type = "order.placed", .group = group, .body = semel_str(body)};
    PROCESS_REQUIRE_OK(semel_unit_send(unit, outbox, &message, &err), &err);
}

static int write_orders(void *context)
{
    sender *s = context;
    semel_store *store;
    semel_outbox *outbox;
    semel_error err;
    open_outbox(&store, &outbox, s);
    for (unsigned i = 0; i < LOAD; i += BATCH) {
        semel_unit *unit;
        PROCESS_REQUIRE_OK(semel_unit_begin(&unit, store, &err), &err);
        for (unsigned k = 0; k < BATCH; k++)
            send_one(unit, outbox, s->first + i + k);
        PROCESS_REQUIRE_OK(semel_unit_commit(unit, &err), &err);
    }
    semel_outbox_close(outbox);
    semel_store_close(store);
    return PROCESS_OK;
}

static int relay_orders(void *context)
{
    sender *s = context;
    semel_store *store;
    semel_outbox *outbox;
    semel_transport *transport;
    semel_relay *relay;
    semel_error err;
    semel_relay_options options = {.size = sizeof options,
                                   .batch = BATCH,
                                   .lease_ms = 5000,
                                   .backoff_max_ms = 500,
                                   .poll_ms = 50};
    open_outbox(&store, &outbox, s);
    PROCESS_REQUIRE_OK(semel_transport_open(&transport, s->url, NULL, &err), &err);
    PROCESS_REQUIRE_OK(semel_relay_open(&relay, outbox, transport, &options, &err), &err);
    while (!atomic_load(&s->shared->end)) {
        size_t sent;
        semel_status status = semel_relay_step(&sent, relay, 50, &err);
        PROCESS_REQUIRE(!status || err.retryable);
        atomic_fetch_add(&s->shared->cut, status != SEMEL_OK);
    }
    semel_relay_close(relay);
    semel_transport_close(transport);
    semel_outbox_close(outbox);
    semel_store_close(store);
    return PROCESS_OK;
}

static server_own broker; /* of all tests here, which begin when it is up */

/* --- the story -------------------------------------------------------------------------------- */

static void sender_open(sender *s, const real_topic *topic)
{
    *s = (sender){.shared = process_share(sizeof *s->shared)};
    (void)snprintf(s->url, sizeof s->url, "kafka://%s/%s?connect_ms=60000", topic->servers,
                   topic->topic);
    store_place_open(&s->place, PLACE_SQLITE);
}

static void sender_close(sender *s)
{
    store_place_close(&s->place);
    process_unshare(s->shared, sizeof *s->shared);
}

static void send_more(sender *s, real_topic *topic)
{
    assert_int_equal(process_run(write_orders, s), PROCESS_OK);
    real_topic_note(topic, LOAD);
    s->first += LOAD;
}

/* The relay has noticed. */
static void wait_until_cut(const sender *s)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    while (!atomic_load(&s->shared->cut)) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
}

static void crash_under_load(sender *s, members *m, uint32_t *seed)
{
    unsigned before = real_topic_total(m->topic);
    send_more(s, m->topic);
    members_wait_effects(m, before + shop_random(seed, LOAD / 2));
    server_own_crash(&broker);
    send_more(s, m->topic);
    wait_until_cut(s);
    server_own_restart(&broker);
    members_wait_effects(m, real_topic_total(m->topic));
}

static void all_arrives_over_a_crash(const char *parameters, uint32_t seed)
{
    real_topic topic;
    members m;
    sender s;
    real_topic_open_on(&topic, &broker.at, PARTITIONS, KEYS);
    members_open(&m, &topic, CONSUMERS, parameters);
    sender_open(&s, &topic);
    members_start_all(&m);
    send_more(&s, &topic);
    pid_t relay = process_start(relay_orders, &s);
    crash_under_load(&s, &m, &seed);
    members_finish(&m, 0);
    atomic_store(&s.shared->end, 1);
    assert_int_equal(process_wait(relay, REAL_PATIENCE_MS), PROCESS_OK);
    print_message("%u messages, the relay was cut off in %u steps\n", real_topic_total(&topic),
                  atomic_load(&s.shared->cut));
    sender_close(&s);
    members_close(&m);
    real_topic_close(&topic);
}

static void all_arrives_over_a_crash_of_the_broker_eager(void **state)
{
    (void)state;
    all_arrives_over_a_crash("assignment=eager", 11);
}

static void all_arrives_over_a_crash_of_the_broker_cooperative(void **state)
{
    (void)state;
    all_arrives_over_a_crash("assignment=cooperative", 12);
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

static int start_broker(void **state)
{
    (void)state;
    server_own_start(&broker, SERVER_KAFKA);
    return 0;
}

static int stop_broker(void **state)
{
    (void)state;
    server_own_stop(&broker);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_arrives_over_a_crash_of_the_broker_eager, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_arrives_over_a_crash_of_the_broker_cooperative, setup,
                                        teardown)};
    return cmocka_run_group_tests(tests, start_broker, stop_broker);
}
