/* Answers and requests that are lost between the client and the server, a server in trouble, and a
 * cluster. */
#include "stream_kit.h"
#include "support/servers/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLAIM KIT_GROUP "&claim_ms=600000"
enum { CLAIM_MS = 600000 };

typedef struct lost_case {
    stream_kit kit; /* its own transport does not go by the proxy */
    proxy *between;
    semel_transport *through;
} lost_case;

static int set_up(void **state)
{
    static lost_case c;
    char url[SERVER_URL_ROOM];
    kit_open(&c.kit, NULL, CLAIM);
    c.between = proxy_open(c.kit.url);
    OK(semel_transport_open(&c.through, proxy_url(url, c.between, c.kit.url), NULL, &last_error));
    kit_send(&c.kit, "m-0"); /* now the server knows the scripts: no answer says that it does not */
    OK(kit_settle(c.kit.transport, kit_take(c.kit.transport, "m-0"), SEMEL_VERDICT_ACK, 0));
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    lost_case *c = *state;
    semel_transport_close(c->through);
    proxy_close(c->between);
    kit_close(&c->kit);
    return 0;
}

static semel_status publish(semel_transport *transport, const char *body,
                            semel_publish_result results[2])
{
    semel_message one = text_message("m-1", body), two = text_message("m-2", "20 EUR");
    const semel_message *both[] = {&one, &two};
    return semel_transport_publish(results, transport, both, 2, 5000, &last_error);
}

/* --- publishing ------------------------------------------------------------------------------- */

static void a_lost_answer_to_a_publisher_leaves_it_unknown(void **state)
{
    lost_case *c = *state;
    semel_publish_result results[2] = {SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_CONFIRMED};
    proxy_lose_answer(c->between, "lose me");
    FAILS(SEMEL_EUNAVAILABLE, publish(c->through, "lose me", results));
    assert_true(last_error.retryable);
    assert_int_equal(results[0], SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(results[1], SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(kit_length(&c->kit), 2); /* they are there */
    OK(publish(c->through, "10 EUR", results));
    assert_int_equal(results[1], SEMEL_PUBLISH_CONFIRMED);
}

/* What did not go out whole was not carried out: it is sent again. */
static void a_connection_that_was_cut_is_made_again(void **state)
{
    lost_case *c = *state;
    semel_publish_result results[2];
    proxy_cut(c->between);
    OK(publish(c->through, "10 EUR", results));
    assert_int_equal(results[0], SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(kit_length(&c->kit), 2);
}

static void a_server_that_cannot_be_reached_is_an_outage(void **state)
{
    lost_case *c = *state;
    semel_publish_result results[2];
    semel_delivery one;
    size_t got;
    proxy_refuse(c->between, 1);
    proxy_cut(c->between);
    FAILS(SEMEL_EUNAVAILABLE, publish(c->through, "10 EUR", results));
    assert_true(last_error.retryable);
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_receive(c->through, &one, 1, &got, 1000, &last_error));
    SAYS("redis stream");
    proxy_refuse(c->between, 0);
    OK(publish(c->through, "10 EUR", results));
    (void)kit_take(c->through, "m-1");
}

static void call_once(void *context)
{
    ++*(int *)context;
}

static void the_publishers_other_work_is_done_exactly_once(void **state)
{
    lost_case *c = *state;
    void *self;
    const semel_transport_driver *driver = kit_driver(c->through, &self);
    semel_message message = text_message("m-1", "lose me");
    const semel_message *pointer = &message;
    semel_publish_result result;
    int calls = 0;
    OK(driver->publish_while(self, &result, &pointer, 1, 5000, call_once, &calls, &last_error));
    assert_int_equal(calls, 1);
    proxy_lose_answer(c->between, "lose me");
    FAILS(SEMEL_EUNAVAILABLE,
          driver->publish_while(self, &result, &pointer, 1, 5000, call_once, &calls, &last_error));
    assert_int_equal(calls, 2);
    proxy_refuse(c->between, 1);
    proxy_cut(c->between);
    FAILS(SEMEL_EUNAVAILABLE,
          driver->publish_while(self, &result, &pointer, 1, 5000, call_once, &calls, &last_error));
    assert_int_equal(calls, 3);
    OK(driver->publish_while(self, NULL, NULL, 0, 5000, call_once, &calls, &last_error));
    assert_int_equal(calls, 4);
}

/* A time-out is no answer. */
static void a_publisher_waits_no_longer_than_it_was_told(void **state)
{
    lost_case *c = *state;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    semel_message message = text_message("m-1", "10 EUR");
    const semel_message *pointer = &message;
    proxy_hold(c->between, 1);
    int64_t before = process_now_ms();
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_publish(&result, c->through, &pointer, 1, 300, &last_error));
    assert_in_range(process_now_ms() - before, 250, 30000);
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    proxy_hold(c->between, 0);
}

/* --- receiving and settling ------------------------------------------------------------------- */

static void a_lost_delivery_comes_again_when_it_is_idle(void **state)
{
    lost_case *c = *state;
    kit_send(&c->kit, "m-1");
    kit_send(&c->kit, "m-2");
    proxy_lose_answer(c->between, "XREADGROUP");
    (void)kit_take(c->through, "m-2"); /* asked again: the first one is pending, unknown to us */
    assert_int_equal(kit_pending(&c->kit), 2);
    kit_pass_ms(&c->kit, CLAIM_MS);
    assert_int_equal(kit_take(c->kit.transport, "m-1").message->delivery, 2);
}

static void a_lost_answer_to_a_verdict_is_an_outage(void **state)
{
    lost_case *c = *state;
    kit_send(&c->kit, "m-1");
    semel_delivery one = kit_take(c->through, "m-1");
    proxy_lose_answer(c->between, "EVALSHA");
    FAILS(SEMEL_EUNAVAILABLE, kit_settle(c->through, one, SEMEL_VERDICT_ACK, 0));
    FAILS(SEMEL_EINVAL, kit_settle(c->through, one, SEMEL_VERDICT_ACK, 0)); /* not out any more */
    assert_int_equal(kit_length(&c->kit), 0);
    kit_send(&c->kit, "m-2");
    one = kit_take(c->through, "m-2");
    proxy_lose_request(c->between, "EVALSHA");
    FAILS(SEMEL_EUNAVAILABLE, kit_settle(c->through, one, SEMEL_VERDICT_ACK, 0));
    kit_pass_ms(&c->kit, CLAIM_MS);
    assert_int_equal(kit_take(c->through, "m-2").message->delivery, 2);
}

/* The server has forgotten its scripts, as after a restart. It is the test's own: others rest on
 * what the shared one knows. */
static void scripts_are_sent_again(void **state)
{
    server_own own;
    stream_kit kit;
    (void)state;
    server_own_start(&own, SERVER_REDIS);
    kit_open(&kit, &own.at, CLAIM);
    kit_send(&kit, "m-1");
    kit_do(&kit, "SCRIPT FLUSH");
    OK(kit_settle(kit.transport, kit_take(kit.transport, "m-1"), SEMEL_VERDICT_ACK, 0));
    kit_do(&kit, "SCRIPT FLUSH");
    kit_send(&kit, "m-2");
    kit_close(&kit);
    server_own_stop(&own);
}

/* --- a server in trouble ---------------------------------------------------------------------- */

static void with_no_memory_nothing_is_added(void **state)
{
    server_own own;
    stream_kit kit;
    semel_publish_result results[2] = {SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_CONFIRMED};
    (void)state;
    server_own_start(&own, SERVER_REDIS);
    kit_open(&kit, &own.at, CLAIM);
    kit_send(&kit, "m-0");
    kit_do(&kit, "CONFIG SET maxmemory 1");
    FAILS(SEMEL_EUNAVAILABLE, publish(kit.transport, "10 EUR", results));
    SAYS("maxmemory");
    assert_int_equal(results[0], SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(results[1], SEMEL_PUBLISH_UNKNOWN);
    OK(kit_settle(kit.transport, kit_take(kit.transport, "m-0"), SEMEL_VERDICT_ACK, 0));
    kit_do(&kit, "CONFIG SET maxmemory 0");
    OK(publish(kit.transport, "10 EUR", results));
    kit_do(&kit, "CONFIG SET min-replicas-to-write 1");
    FAILS(SEMEL_EUNAVAILABLE, publish(kit.transport, "10 EUR", results));
    SAYS("NOREPLICAS");
    kit_do(&kit, "CONFIG SET min-replicas-to-write 0");
    kit_close(&kit);
    server_own_stop(&own);
}

static void grade_is(stream_kit *kit, const char *parameters, semel_durability grade)
{
    void *self;
    semel_transport *transport = kit_connect(kit, parameters);
    const semel_transport_driver *driver = kit_driver(transport, &self);
    assert_int_equal(driver->durability(self), grade);
    semel_transport_close(transport);
}

static void refused_as_lossy(stream_kit *kit, const char *parameters, const char *why)
{
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    FAILS(SEMEL_EINVAL,
          semel_transport_open(&transport, kit_url(url, kit, parameters), NULL, &last_error));
    SAYS(why);
}

static void the_grade_is_what_the_server_keeps(void **state)
{
    server_own own;
    stream_kit kit;
    (void)state;
    server_own_start(&own, SERVER_REDIS);
    kit_open(&kit, &own.at, NULL);
    grade_is(&kit, CLAIM, SEMEL_DURABLE_POWER);
    kit_do(&kit, "CONFIG SET appendfsync everysec");
    grade_is(&kit, CLAIM, SEMEL_DURABLE_PROCESS);
    kit_do(&kit, "CONFIG SET maxmemory-policy allkeys-lru");
    refused_as_lossy(&kit, CLAIM, "whole streams");
    grade_is(&kit, CLAIM "&loss=warn", SEMEL_DURABLE_NOT);
    semel_transport *warned = kit_connect(&kit, CLAIM "&loss=warn");
    assert_non_null(strstr(semel_transport_warnings(warned), "allkeys-lru"));
    semel_transport_close(warned);
    kit_do(&kit, "CONFIG SET maxmemory-policy noeviction");
    kit_do(&kit, "CONFIG SET appendonly no");
    refused_as_lossy(&kit, CLAIM, "messages that were confirmed");
    grade_is(&kit, CLAIM "&durable=power", SEMEL_DURABLE_POWER);
    kit_close(&kit);
    server_own_stop(&own);
}

/* A replica that must have it, and does not. */
static void a_message_that_no_replica_has_is_not_confirmed(void **state)
{
    lost_case *c = *state;
    semel_transport *transport = kit_connect(&c->kit, "replicas=1");
    semel_message message = text_message("m-1", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_publish(&result, transport, &pointer, 1, 400, &last_error));
    SAYS("0 of 1 replicas");
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    semel_transport_close(transport);
}

/* --- a cluster of one node -------------------------------------------------------------------- */

static void in_a_cluster(void **state)
{
    server_own node;
    stream_kit kit;
    (void)state;
    setenv("SEMEL_REDIS_CONFIG", "cluster-enabled yes", 1);
    server_own_start(&node, SERVER_REDIS);
    unsetenv("SEMEL_REDIS_CONFIG");
    server_run(node.at.url, "CLUSTER ADDSLOTSRANGE 0 16383");
    kit_open(&kit, &node.at, NULL);
    EVENTUALLY(!semel_transport_open(&kit.transport, kit_url(kit.url, &kit, CLAIM), NULL,
                                     &last_error)); /* it may say CLUSTERDOWN for a moment */
    kit_send(&kit, "m-1");
    OK(kit_settle(kit.transport, kit_take(kit.transport, "m-1"), SEMEL_VERDICT_REJECT, 0));
    assert_int_equal(kit_dead(&kit), 1);
    refused_as_lossy(&kit, CLAIM "&dead=elsewhere", "slot");
    grade_is(&kit, CLAIM, SEMEL_DURABLE_PROCESS);
    kit_close(&kit);
    server_own_stop(&node);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(a_lost_answer_to_a_publisher_leaves_it_unknown),
                                       TEST(a_connection_that_was_cut_is_made_again),
                                       TEST(a_server_that_cannot_be_reached_is_an_outage),
                                       TEST(the_publishers_other_work_is_done_exactly_once),
                                       TEST(a_publisher_waits_no_longer_than_it_was_told),
                                       TEST(a_lost_delivery_comes_again_when_it_is_idle),
                                       TEST(a_lost_answer_to_a_verdict_is_an_outage),
                                       cmocka_unit_test(scripts_are_sent_again),
                                       TEST(a_message_that_no_replica_has_is_not_confirmed),
                                       cmocka_unit_test(with_no_memory_nothing_is_added),
                                       cmocka_unit_test(the_grade_is_what_the_server_keeps),
                                       cmocka_unit_test(in_a_cluster)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
