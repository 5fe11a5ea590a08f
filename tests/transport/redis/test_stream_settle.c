/* Verdicts, extending and giving back, by consumers that are in time and by those that are not. */
#include "stream_kit.h"

#include <semel/test.h>
#include <stdio.h>

#define CLAIM KIT_GROUP "&claim_ms=600000"
enum { CLAIM_MS = 600000 };

typedef struct pair {
    stream_kit kit;
    semel_transport *second;
    void *state;
    const semel_transport_driver *driver; /* of the first */
} pair;

static int set_up(void **state)
{
    static pair p;
    kit_open(&p.kit, NULL, CLAIM);
    p.second = kit_connect(&p.kit, CLAIM);
    p.driver = kit_driver(p.kit.transport, &p.state);
    *state = &p;
    return 0;
}

static int tear_down(void **state)
{
    pair *p = *state;
    semel_transport_close(p->second);
    kit_close(&p->kit);
    return 0;
}

/* --- rejecting -------------------------------------------------------------------------------- */

static void what_is_rejected_is_in_the_dead_stream(void **state)
{
    pair *p = *state;
    char url[SERVER_URL_ROOM];
    semel_transport *dead = NULL;
    const semel_message *message = full_message();
    semel_publish_result result;
    semel_delivery one;
    size_t got = 0;
    assert_true(p->driver->keeps_rejected(p->state));
    OK(semel_transport_publish(&result, p->kit.transport, &message, 1, KIT_WAIT_MS, &last_error));
    OK(semel_transport_receive(p->kit.transport, &one, 1, &got, KIT_WAIT_MS, &last_error));
    OK(kit_settle(p->kit.transport, one, SEMEL_VERDICT_REJECT, 0));
    assert_int_equal(kit_length(&p->kit), 0);
    assert_int_equal(kit_pending(&p->kit), 0);
    assert_int_equal(kit_dead(&p->kit), 1);
    int len = snprintf(url, sizeof url, "%s?stream={%s}:dead&group=look&declare=yes",
                       p->kit.server.url, p->kit.stream);
    assert_in_range(len, 1, SERVER_URL_ROOM - 1);
    OK(semel_transport_open(&dead, url, NULL, &last_error));
    OK(semel_transport_receive(dead, &one, 1, &got, KIT_WAIT_MS, &last_error));
    BYTES_EQUAL(message->id, one.message->id);
    BYTES_EQUAL(message->body, one.message->body);
    assert_int_equal(one.message->header_count, message->header_count + 2);
    BYTES_EQUAL(semel_str(p->kit.stream), semel_message_header(one.message, "semel-dead-stream"));
    semel_transport_close(dead);
}

/* The others of the call are settled; the entry that could not be copied stays. */
static void what_cannot_be_copied_to_the_dead_stream_is_not_lost(void **state)
{
    pair *p = *state;
    kit_send(&p->kit, "m-1");
    kit_send(&p->kit, "m-2");
    semel_delivery_settlement both[] = {
        {kit_take(p->kit.transport, "m-1").tag, SEMEL_VERDICT_REJECT, 0},
        {kit_take(p->kit.transport, "m-2").tag, SEMEL_VERDICT_ACK, 0}};
    kit_do(&p->kit, "SET {%s}:dead text", p->kit.stream);
    FAILS(SEMEL_ETRANSPORT, semel_transport_settle(p->kit.transport, both, 2, &last_error));
    assert_int_equal(kit_length(&p->kit), 1);
    assert_int_equal(kit_pending(&p->kit), 1);
    kit_do(&p->kit, "DEL {%s}:dead", p->kit.stream);
    kit_pass_ms(&p->kit, CLAIM_MS);
    OK(kit_settle(p->second, kit_take(p->second, "m-1"), SEMEL_VERDICT_REJECT, 0));
    assert_int_equal(kit_dead(&p->kit), 1);
}

/* More fields than a script can hand to a command: what is settled beside it is settled. */
static void an_entry_of_very_many_fields_is_copied(void **state)
{
    enum { WORDS = 10000, ROOM = 16 };
    static char texts[WORDS][ROOM];
    static const char *argv[3 + WORDS];
    pair *p = *state;
    argv[0] = "XADD";
    argv[1] = p->kit.stream;
    argv[2] = "*";
    for (int i = 0; i < WORDS; i++) {
        (void)snprintf(texts[i], ROOM, "w%d", i);
        argv[3 + i] = texts[i];
    }
    freeReplyObject(redisCommandArgv(p->kit.other, 3 + WORDS, argv, NULL));
    kit_send(&p->kit, "m-2");
    semel_delivery both[2];
    size_t got = 0;
    OK(semel_transport_receive(p->kit.transport, both, 2, &got, KIT_WAIT_MS, &last_error));
    assert_int_equal(got, 2);
    semel_delivery_settlement verdicts[] = {{both[0].tag, SEMEL_VERDICT_REJECT, 0},
                                            {both[1].tag, SEMEL_VERDICT_ACK, 0}};
    OK(semel_transport_settle(p->kit.transport, verdicts, 2, &last_error));
    assert_int_equal(kit_length(&p->kit), 0);
    assert_int_equal(kit_pending(&p->kit), 0);
    assert_int_equal(kit_dead(&p->kit), 1);
}

/* --- too late --------------------------------------------------------------------------------- */

/* The second consumer has claimed it: the first one's verdicts change nothing. */
static void a_late_verdict_is_refused(void **state)
{
    static const semel_verdict verdicts[] = {SEMEL_VERDICT_ACK, SEMEL_VERDICT_REJECT};
    pair *p = *state;
    for (size_t i = 0; i < 2; i++) {
        kit_send(&p->kit, "m-1");
        semel_delivery slow = kit_take(p->kit.transport, "m-1");
        kit_pass_ms(&p->kit, CLAIM_MS);
        semel_delivery again = kit_take(p->second, "m-1");
        assert_int_equal(again.message->delivery, 2);
        FAILS(SEMEL_EINVAL, kit_settle(p->kit.transport, slow, verdicts[i], 0));
        assert_int_equal(kit_pending(&p->kit), 1);
        assert_int_equal(kit_length(&p->kit), 1);
        OK(kit_settle(p->second, again, SEMEL_VERDICT_ACK, 0));
    }
    assert_int_equal(kit_number(&p->kit, "EXISTS {%s}:dead", p->kit.stream), 0);
}

static void giving_back_too_late_is_no_error_and_takes_nothing_away(void **state)
{
    pair *p = *state;
    kit_send(&p->kit, "m-1");
    semel_delivery slow = kit_take(p->kit.transport, "m-1");
    kit_pass_ms(&p->kit, CLAIM_MS);
    semel_delivery again = kit_take(p->second, "m-1");
    OK(kit_settle(p->kit.transport, slow, SEMEL_VERDICT_RETRY, 0));
    kit_expect_nothing(p->kit.transport);
    OK(kit_settle(p->second, again, SEMEL_VERDICT_ACK, 0));
}

/* --- extending -------------------------------------------------------------------------------- */

static void extending_keeps_a_delivery(void **state)
{
    pair *p = *state;
    uint32_t hold_ms = 0;
    kit_send(&p->kit, "m-1");
    semel_delivery one = kit_take(p->kit.transport, "m-1");
    OK(p->driver->extend(p->state, NULL, 0, &hold_ms, &last_error));
    assert_int_equal(hold_ms, CLAIM_MS);
    for (int i = 0; i < 3; i++) {
        kit_pass_ms(&p->kit, CLAIM_MS - 60000);
        OK(p->driver->extend(p->state, &one.tag, 1, &hold_ms, &last_error));
    }
    kit_expect_nothing(p->second);
    OK(kit_settle(p->kit.transport, one, SEMEL_VERDICT_RETRY, 0)); /* it does not count, either */
    assert_int_equal(kit_take(p->second, "m-1").message->delivery, 2);
}

static void extending_steals_nothing_back(void **state)
{
    pair *p = *state;
    uint32_t hold_ms = 0;
    kit_send(&p->kit, "m-1");
    semel_delivery slow = kit_take(p->kit.transport, "m-1");
    assert_false(p->driver->revoked(p->state, slow.tag));
    kit_pass_ms(&p->kit, CLAIM_MS);
    semel_delivery again = kit_take(p->second, "m-1");
    OK(p->driver->extend(p->state, &slow.tag, 1, &hold_ms, &last_error));
    assert_true(p->driver->revoked(p->state, slow.tag));
    OK(kit_settle(p->second, again, SEMEL_VERDICT_ACK, 0));
    OK(kit_settle(p->kit.transport, slow, SEMEL_VERDICT_RETRY, 0));
}

/* --- the time of a delivery, by this process's clock ------------------------------------------ */

static void a_delivery_is_revoked_when_its_time_is_over(void **state)
{
    pair *p = *state;
    semel_test_seam *seam;
    semel_transport *transport;
    char url[SERVER_URL_ROOM];
    void *self;
    uint32_t hold_ms;
    OK(semel_test_seam_open(&seam, 7, &last_error));
    semel_transport_options options = {.size = sizeof options, .seam = semel_test_seam_get(seam)};
    OK(semel_transport_open(&transport, kit_url(url, &p->kit, CLAIM), &options, &last_error));
    const semel_transport_driver *driver = kit_driver(transport, &self);
    kit_send(&p->kit, "m-1");
    semel_delivery one = kit_take(transport, "m-1");
    semel_test_advance_ms(seam, CLAIM_MS - 1);
    assert_false(driver->revoked(self, one.tag));
    OK(driver->extend(self, &one.tag, 1, &hold_ms, &last_error));
    semel_test_advance_ms(seam, CLAIM_MS - 1);
    assert_false(driver->revoked(self, one.tag));
    semel_test_advance_ms(seam, 1);
    assert_true(driver->revoked(self, one.tag));
    OK(kit_settle(transport, one, SEMEL_VERDICT_RETRY, 0)); /* as the core does then */
    assert_true(driver->revoked(self, one.tag));
    semel_transport_close(transport);
    semel_test_seam_close(seam);
}

/* --- giving back ------------------------------------------------------------------------------ */

static void what_is_given_back_goes_to_others_at_once(void **state)
{
    pair *p = *state;
    kit_send(&p->kit, "m-1");
    kit_send(&p->kit, "m-2");
    semel_delivery first = kit_take(p->kit.transport, "m-1");
    semel_delivery second = kit_take(p->kit.transport, "m-2");
    p->driver->give_back(p->state);
    assert_true(p->driver->revoked(p->state, first.tag));
    OK(kit_settle(p->second, kit_take(p->second, "m-1"), SEMEL_VERDICT_ACK, 0));
    OK(kit_settle(p->second, kit_take(p->second, "m-2"), SEMEL_VERDICT_ACK, 0));
    BYTES_EQUAL(semel_str("m-2"), second.message->id); /* it may still be read */
    OK(kit_settle(p->kit.transport, first, SEMEL_VERDICT_RETRY, 0));
    FAILS(SEMEL_EINVAL, kit_settle(p->kit.transport, second, SEMEL_VERDICT_ACK, 0));
    p->driver->give_back(p->state); /* nothing */
}

static void a_transport_that_is_closed_gives_back(void **state)
{
    pair *p = *state;
    kit_send(&p->kit, "m-1");
    (void)kit_take(p->kit.transport, "m-1");
    semel_transport_close(p->kit.transport);
    p->kit.transport = kit_connect(&p->kit, "");
    OK(kit_settle(p->second, kit_take(p->second, "m-1"), SEMEL_VERDICT_ACK, 0));
}

/* Up to the time after which it could be claimed anyway. */
static void a_delay_is_kept_up_to_the_claim_time(void **state)
{
    pair *p = *state;
    kit_send(&p->kit, "m-1");
    OK(kit_settle(p->kit.transport, kit_take(p->kit.transport, "m-1"), SEMEL_VERDICT_RETRY,
                  CLAIM_MS / 2));
    kit_pass_ms(&p->kit, CLAIM_MS / 2 - 60000);
    kit_expect_nothing(p->second);
    kit_pass_ms(&p->kit, 60000);
    OK(kit_settle(p->second, kit_take(p->second, "m-1"), SEMEL_VERDICT_RETRY, 10 * CLAIM_MS));
    kit_pass_ms(&p->kit, CLAIM_MS - 60000);
    kit_expect_nothing(p->second);
    kit_pass_ms(&p->kit, 60000);
    OK(kit_settle(p->second, kit_take(p->second, "m-1"), SEMEL_VERDICT_ACK, 0));
}

/* Far more than one call of XAUTOCLAIM looks at. */
static void many_that_were_given_back_all_come(void **state)
{
    enum { MANY = 300 };
    pair *p = *state;
    semel_delivery out[MANY];
    for (int i = 0; i < MANY; i++)
        kit_send(&p->kit, "m");
    for (size_t have = 0, got; have < MANY; have += got)
        OK(semel_transport_receive(p->kit.transport, out + have, MANY - have, &got, KIT_WAIT_MS,
                                   &last_error));
    OK(kit_settle(p->kit.transport, out[MANY - 1], SEMEL_VERDICT_RETRY, 0));
    (void)kit_take(p->second, "m"); /* behind all that are not idle */
    p->driver->give_back(p->state);
    for (int i = 0; i < MANY - 1; i++)
        OK(kit_settle(p->second, kit_take(p->second, "m"), SEMEL_VERDICT_ACK, 0));
    kit_expect_nothing(p->second);
}

/* --- without a group -------------------------------------------------------------------------- */

static void a_url_without_a_group_receives_nothing(void **state)
{
    pair *p = *state;
    semel_transport *publisher = kit_connect(&p->kit, "");
    semel_delivery one = {.tag = 1};
    size_t got;
    FAILS(SEMEL_EMISUSE, semel_transport_receive(publisher, &one, 1, &got, 0, &last_error));
    SAYS("group=");
    FAILS(SEMEL_EMISUSE, kit_settle(publisher, one, SEMEL_VERDICT_ACK, 0));
    semel_transport_close(publisher);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_rejected_is_in_the_dead_stream),
        TEST(what_cannot_be_copied_to_the_dead_stream_is_not_lost),
        TEST(an_entry_of_very_many_fields_is_copied),
        TEST(a_late_verdict_is_refused),
        TEST(giving_back_too_late_is_no_error_and_takes_nothing_away),
        TEST(extending_keeps_a_delivery),
        TEST(extending_steals_nothing_back),
        TEST(a_delivery_is_revoked_when_its_time_is_over),
        TEST(what_is_given_back_goes_to_others_at_once),
        TEST(a_transport_that_is_closed_gives_back),
        TEST(a_delay_is_kept_up_to_the_claim_time),
        TEST(many_that_were_given_back_all_come),
        TEST(a_url_without_a_group_receives_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
