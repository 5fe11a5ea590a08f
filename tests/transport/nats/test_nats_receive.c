/* Receiving from JetStream: messages of others, deliveries that are held, given back, taken back
 * and rejected. */
#include "support/servers/nats/nats_kit.h"

#include <semel/test.h>

static const semel_transport_driver *driver_of(const nats_kit *kit, void **self)
{
    const semel_transport_driver *driver = semel_transport_driver_of(kit->transport);
    *self = semel_transport_state(kit->transport, driver);
    return driver;
}

/* --- messages of others ----------------------------------------------------------------------- */

static void a_foreign_message_has_the_same_id_each_time(void **state)
{
    nats_kit kit;
    char subject[2 * NATS_KIT_NAME], id[128];
    semel_delivery one;
    (void)state;
    nats_kit_open(&kit, "");
    (void)snprintf(subject, sizeof subject, "%s.orders.new", kit.stream);
    nats_client_publish(&kit.client, subject, "hello");
    nats_kit_take(&kit, &one, 1);
    BYTES_EQUAL(semel_str("hello"), one.message->body);
    assert_string_equal(one.message->topic, "orders.new");
    assert_true(one.message->time_ms > INT64_C(1700000000000));
    assert_int_equal(one.message->delivery, 1);
    assert_null(one.partition);
    assert_int_equal(one.position, -1);
    (void)snprintf(id, sizeof id, "%.*s", (int)one.message->id.len,
                   (const char *)one.message->id.data);
    assert_true(strstr(id, kit.stream) == id);
    nats_kit_settle(&kit, one, SEMEL_VERDICT_RETRY, 0);
    one = nats_kit_take_id(&kit, id);
    assert_int_equal(one.message->delivery, 2);
    nats_kit_close(&kit);
}

static void headers_of_others_are_read_in_any_case_of_letters(void **state)
{
    nats_kit kit;
    natsMsg *raw = NULL;
    semel_delivery one;
    (void)state;
    nats_kit_open(&kit, "");
    assert_int_equal(natsMsg_Create(&raw, kit.stream, NULL, "{}", 2), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(raw, "Ce-Id", "a%2Fb"), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(raw, "CE-Type", "order.paid"), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(raw, "Ce-Shop", "7"), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(raw, "X-Other", "8"), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(raw, "Content-Type", "application/json"), NATS_OK);
    assert_int_equal(js_PublishMsg(NULL, kit.client.js, raw, NULL, NULL), NATS_OK);
    natsMsg_Destroy(raw);
    one = nats_kit_take_id(&kit, "a/b");
    assert_string_equal(one.message->type, "order.paid");
    assert_string_equal(one.message->content_type, "application/json");
    assert_null(one.message->topic);
    BYTES_EQUAL(semel_str("7"), semel_message_header(one.message, "shop"));
    BYTES_EQUAL(semel_str("8"), semel_message_header(one.message, "x-other"));
    nats_kit_close(&kit);
}

/* --- held and taken back ---------------------------------------------------------------------- */

/* With an ack wait of half a second a handler that takes two is not disturbed. */
static void what_is_extended_stays(void **state)
{
    nats_kit kit;
    void *self;
    uint32_t hold_ms = 0;
    (void)state;
    nats_kit_open(&kit, "ack_ms=1000");
    const semel_transport_driver *driver = driver_of(&kit, &self);
    OK(driver->extend(self, NULL, 0, &hold_ms, &last_error));
    assert_int_equal(hold_ms, 1000);
    nats_kit_send(&kit, "m-1");
    semel_delivery one = nats_kit_take_id(&kit, "m-1");
    int kept = 1;
    for (int64_t until = process_now_ms() + 3000, at = process_now_ms();
         process_now_ms() < until;) {
        OK(driver->extend(self, &one.tag, 1, &hold_ms, &last_error));
        kept &= process_now_ms() - at < 900; /* or the machine was busy, and it may be gone */
        at = process_now_ms();
        process_nap();
    }
    if (kept) {
        assert_int_equal(driver->revoked(self, one.tag), 0);
        nats_kit_settle(&kit, one, SEMEL_VERDICT_ACK, 0);
        nats_kit_nothing(&kit);
    }
    nats_kit_close(&kit);
}

/* By the transport's clock, which stands still here until it is told. */
static void what_is_not_extended_is_taken_back(void **state)
{
    nats_kit kit;
    void *self;
    semel_test_seam *seam = NULL;
    (void)state;
    nats_kit_open(&kit, "ack_ms=1000000");
    OK(semel_test_seam_open(&seam, 1, &last_error));
    semel_transport_options options = {.size = sizeof options, .seam = semel_test_seam_get(seam)};
    semel_transport_close(kit.transport);
    OK(semel_transport_open(&kit.transport, kit.url, &options, &last_error));
    const semel_transport_driver *driver = driver_of(&kit, &self);
    nats_kit_send(&kit, "m-1");
    semel_delivery one = nats_kit_take_id(&kit, "m-1");
    semel_test_advance_ms(seam, 999999);
    assert_int_equal(driver->revoked(self, one.tag), 0);
    semel_test_advance_ms(seam, 1);
    assert_int_equal(driver->revoked(self, one.tag), 1);
    nats_kit_settle(&kit, one, SEMEL_VERDICT_RETRY, 0); /* no error, and the server is not told */
    nats_kit_nothing(&kit);
    nats_pass_ms(kit.url, 999900);
    one = nats_kit_take_id(&kit, "m-1");
    assert_int_equal(one.message->delivery, 2);
    nats_kit_close(&kit);
    semel_test_seam_close(seam);
}

/* The server believes the first consumer; the second one's acknowledgement does no harm. */
static void a_late_acknowledgement_counts(void **state)
{
    nats_kit kit;
    semel_transport *other = NULL;
    semel_delivery again;
    size_t got = 0;
    (void)state;
    nats_kit_open(&kit, "ack_ms=1000000");
    OK(semel_transport_open(&other, kit.url, NULL, &last_error));
    nats_kit_send(&kit, "m-1");
    semel_delivery first = nats_kit_take_id(&kit, "m-1");
    nats_pass_ms(kit.url, 999900);
    OK(semel_transport_receive(other, &again, 1, &got, NATS_KIT_WAIT_MS, &last_error));
    assert_int_equal(got, 1);
    nats_kit_settle(&kit, first, SEMEL_VERDICT_ACK, 0);
    NATS_EVENTUALLY(nats_client_count(&kit.client, kit.stream) == 0);
    semel_delivery_settlement ack = {again.tag, SEMEL_VERDICT_ACK, 0};
    OK(semel_transport_settle(other, &ack, 1, &last_error));
    semel_transport_close(other);
    nats_kit_close(&kit);
}

/* --- given back ------------------------------------------------------------------------------- */

static void what_is_given_back_is_there_at_once_in_its_order(void **state)
{
    enum { ALL = 5, OUT = 2 };
    static const char *const ids[ALL] = {"1", "2", "3", "4", "5"};
    nats_kit kit;
    semel_transport *other = NULL;
    semel_delivery out[OUT], one;
    void *self;
    (void)state;
    nats_kit_open(&kit, "ack_ms=1000000");
    const semel_transport_driver *driver = driver_of(&kit, &self);
    for (int i = 0; i < ALL; i++)
        nats_kit_send(&kit, ids[i]);
    nats_kit_take(&kit, out, OUT);
    driver->give_back(self);
    for (int i = 0; i < OUT; i++)
        nats_kit_settle(&kit, out[i], SEMEL_VERDICT_RETRY, 0);
    OK(semel_transport_open(&other, kit.url, NULL, &last_error));
    for (int i = 0; i < ALL; i++) {
        size_t got = 0;
        OK(semel_transport_receive(other, &one, 1, &got, NATS_KIT_WAIT_MS, &last_error));
        assert_int_equal(got, 1);
        BYTES_EQUAL(semel_str(ids[i]), one.message->id);
    }
    semel_transport_close(other);
    nats_kit_close(&kit);
}

/* --- rejected --------------------------------------------------------------------------------- */

static void what_is_rejected_is_copied_first(void **state)
{
    nats_kit kit, dead;
    char parameters[SERVER_URL_ROOM];
    void *self;
    (void)state;
    nats_kit_open(&dead, "");
    (void)snprintf(parameters, sizeof parameters, "dead=%s.rejected", dead.stream);
    nats_kit_open(&kit, parameters);
    assert_int_equal(driver_of(&kit, &self)->keeps_rejected(self), 1);
    assert_int_equal(driver_of(&dead, &self)->keeps_rejected(self), 0);
    nats_kit_send(&kit, "m-1");
    nats_kit_settle(&kit, nats_kit_take_id(&kit, "m-1"), SEMEL_VERDICT_REJECT, 0);
    nats_kit_nothing(&kit);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 0);
    semel_delivery copy = nats_kit_take_id(&dead, "m-1");
    BYTES_EQUAL(semel_str("10 EUR"), copy.message->body);
    nats_kit_close(&kit);
    nats_kit_close(&dead);
}

static void what_cannot_be_copied_comes_again(void **state)
{
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "dead=nobody.takes.this");
    nats_kit_send(&kit, "m-1");
    semel_delivery one = nats_kit_take_id(&kit, "m-1");
    semel_delivery_settlement reject = {one.tag, SEMEL_VERDICT_REJECT, 0};
    FAILS(SEMEL_EUNAVAILABLE, semel_transport_settle(kit.transport, &reject, 1, &last_error));
    SAYS("nobody.takes.this");
    one = nats_kit_take_id(&kit, "m-1");
    assert_int_equal(one.message->delivery, 2);
    nats_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_foreign_message_has_the_same_id_each_time),
        cmocka_unit_test(headers_of_others_are_read_in_any_case_of_letters),
        cmocka_unit_test(what_is_extended_stays),
        cmocka_unit_test(what_is_not_extended_is_taken_back),
        cmocka_unit_test(a_late_acknowledgement_counts),
        cmocka_unit_test(what_is_given_back_is_there_at_once_in_its_order),
        cmocka_unit_test(what_is_rejected_is_copied_first),
        cmocka_unit_test(what_cannot_be_copied_comes_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
