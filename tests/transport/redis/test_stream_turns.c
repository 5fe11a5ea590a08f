/* single_active: one consumer of a group at a time has messages, and none gets a message while an
 * older one is pending elsewhere, so that the order of the stream is kept across processes that end
 * and answers that are lost. */
#include "stream_kit.h"

#include "transport/redis/streams.h"

#include <stdio.h>

#define TURNS KIT_GROUP "&single_active=yes"

enum { CLAIM_MS = 60000 }; /* the default */

static int set_up(void **state)
{
    static stream_kit kit;
    kit_open(&kit, NULL, TURNS);
    *state = &kit;
    return 0;
}

static int tear_down(void **state)
{
    kit_close(*state);
    return 0;
}

static void send_three(stream_kit *kit)
{
    kit_send(kit, "m-1");
    kit_send(kit, "m-2");
    kit_send(kit, "m-3");
}

static void acknowledge(semel_transport *transport, semel_delivery one)
{
    OK(kit_settle(transport, one, SEMEL_VERDICT_ACK, 0));
}

static void take_and_ack(semel_transport *transport, const char *id)
{
    acknowledge(transport, kit_take(transport, id));
}

/* Entries that a consumer of this name has and knows nothing of. */
static void read_by_hand(stream_kit *kit, const char *consumer, int count)
{
    kit_do(kit, "XREADGROUP GROUP g %s COUNT %d STREAMS %s >", consumer, count, kit->stream);
}

static void others_wait_until_the_one_has_settled(void **state)
{
    stream_kit *kit = *state;
    semel_transport *other = kit_connect(kit, TURNS);
    send_three(kit);
    semel_delivery first = kit_take(kit->transport, "m-1");
    kit_expect_nothing(other);
    semel_delivery second = kit_take(kit->transport, "m-2"); /* but it may have more itself */
    acknowledge(kit->transport, first);
    kit_expect_nothing(other);
    acknowledge(kit->transport, second);
    take_and_ack(other, "m-3");
    semel_transport_close(other);
}

static void what_a_dead_consumer_has_comes_first(void **state)
{
    stream_kit *kit = *state;
    send_three(kit);
    read_by_hand(kit, "dead", 2);
    kit_expect_nothing(kit->transport);
    kit_pass_ms(kit, CLAIM_MS);
    take_and_ack(kit->transport, "m-1");
    take_and_ack(kit->transport, "m-2");
    take_and_ack(kit->transport, "m-3");
}

/* Of what a dead consumer had, the oldest is not idle yet: it was renewed, or came later. */
static void what_is_idle_waits_for_what_is_older(void **state)
{
    stream_kit *kit = *state;
    kit_send(kit, "m-1");
    read_by_hand(kit, "dead", 1);
    kit_send(kit, "m-2");
    read_by_hand(kit, "late", 1);
    kit_pass_ms(kit, CLAIM_MS);
    redisReply *first = kit_ask(kit, "XPENDING %s g - + 1", kit->stream);
    kit_do(kit, "XCLAIM %s g dead 0 %s", kit->stream, first->element[0]->element[0]->str);
    freeReplyObject(first);
    kit_expect_nothing(kit->transport);
    kit_pass_ms(kit, CLAIM_MS);
    take_and_ack(kit->transport, "m-1");
    take_and_ack(kit->transport, "m-2");
}

/* Another consumer has taken over one entry of a dead one, from the middle. */
static void what_is_idle_does_not_overtake_what_is_not(void **state)
{
    stream_kit *kit = *state;
    semel_delivery out[3];
    size_t got = 0;
    send_three(kit);
    read_by_hand(kit, "dead", 3);
    kit_pass_ms(kit, CLAIM_MS);
    redisReply *all = kit_ask(kit, "XPENDING %s g - + 3", kit->stream);
    kit_do(kit, "XCLAIM %s g late 0 %s", kit->stream, all->element[1]->element[0]->str);
    freeReplyObject(all);
    OK(semel_transport_receive(kit->transport, out, 3, &got, KIT_WAIT_MS, &last_error));
    assert_int_equal(got, 1);
    BYTES_EQUAL(semel_str("m-1"), out[0].message->id);
    acknowledge(kit->transport, out[0]);
    OK(semel_transport_receive(kit->transport, out, 3, &got, 300, &last_error));
    assert_int_equal(got, 0);
    kit_pass_ms(kit, CLAIM_MS);
    OK(semel_transport_receive(kit->transport, out, 3, &got, KIT_WAIT_MS, &last_error));
    assert_int_equal(got, 2);
    BYTES_EQUAL(semel_str("m-2"), out[0].message->id);
    BYTES_EQUAL(semel_str("m-3"), out[1].message->id);
}

/* The server has delivered it to this consumer, and the answer did not arrive. */
static void a_delivery_whose_answer_was_lost_comes_first(void **state)
{
    stream_kit *kit = *state;
    void *self;
    (void)kit_driver(kit->transport, &self);
    send_three(kit);
    take_and_ack(kit->transport, "m-1");
    read_by_hand(kit, ((const streams *)self)->consumer, 1);
    kit_expect_nothing(kit->transport);
    kit_pass_ms(kit, CLAIM_MS);
    take_and_ack(kit->transport, "m-2");
    take_and_ack(kit->transport, "m-3");
}

static void what_is_given_back_comes_first(void **state)
{
    stream_kit *kit = *state;
    semel_transport *other = kit_connect(kit, TURNS);
    send_three(kit);
    (void)kit_take(other, "m-1");
    semel_delivery second = kit_take(other, "m-2");
    acknowledge(other, second);
    semel_transport_close(other);
    take_and_ack(kit->transport, "m-1");
    take_and_ack(kit->transport, "m-3");
}

static void without_it_consumers_share(void **state)
{
    stream_kit *kit = *state;
    semel_transport *one = kit_connect(kit, KIT_GROUP), *other = kit_connect(kit, KIT_GROUP);
    send_three(kit);
    semel_delivery first = kit_take(one, "m-1");
    take_and_ack(other, "m-2");
    acknowledge(one, first);
    semel_transport_close(one);
    semel_transport_close(other);
}

static void the_right_to_wait_is_asked_for(void **state)
{
    stream_kit *kit = *state;
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    kit_do(kit, "ACL SETUSER stream-%s on >word ~* +@all -xread", kit->stream);
    for (int turns = 0; turns < 2; turns++) {
        (void)snprintf(url, sizeof url, "redis://stream-%s:word@%s:%u/0?stream=%s&%s", kit->stream,
                       kit->server.host, kit->server.port, kit->stream, turns ? TURNS : KIT_GROUP);
        semel_status status = semel_transport_open(&transport, url, NULL, &last_error);
        assert_int_equal(status, turns ? SEMEL_ETRANSPORT : SEMEL_OK);
        semel_transport_close(transport);
        transport = NULL;
    }
    SAYS("xread");
    kit_do(kit, "ACL DELUSER stream-%s", kit->stream);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(others_wait_until_the_one_has_settled),
                                       TEST(what_a_dead_consumer_has_comes_first),
                                       TEST(what_is_idle_waits_for_what_is_older),
                                       TEST(what_is_idle_does_not_overtake_what_is_not),
                                       TEST(a_delivery_whose_answer_was_lost_comes_first),
                                       TEST(what_is_given_back_comes_first),
                                       TEST(without_it_consumers_share),
                                       TEST(the_right_to_wait_is_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
