/* Copies of rejected messages, whatever the message is like; and rejections that come too late. */
#include "support/servers/nats/nats_kit.h"

#include <semel/test.h>

typedef struct pair {
    nats_kit kit;
    nats_kit dead; /* its stream takes the copies */
} pair;

static void open_pair(pair *p, const char *parameters)
{
    char all[SERVER_URL_ROOM];
    nats_kit_open(&p->dead, "");
    int len = snprintf(all, sizeof all, "dead=%s.rejected%s", p->dead.stream, parameters);
    assert_in_range(len, 1, sizeof all - 1);
    nats_kit_open(&p->kit, all);
}

static void close_pair(pair *p)
{
    nats_kit_close(&p->kit);
    nats_kit_close(&p->dead);
}

/* --- what the copy has ------------------------------------------------------------------------ */

/* They were the server's to know (Nats-Msg-Id, subject), and the copy has others of these. */
static void a_foreign_message_keeps_its_id_and_topic(void **state)
{
    char subject[2 * NATS_KIT_NAME];
    natsMsg *raw = NULL;
    pair p;
    (void)state;
    open_pair(&p, "");
    (void)snprintf(subject, sizeof subject, "%s.orders.new", p.kit.stream);
    assert_int_equal(natsMsg_Create(&raw, subject, NULL, "{}", 2), NATS_OK);
    assert_int_equal(natsMsgHeader_Set(raw, "Nats-Msg-Id", "their 7%"), NATS_OK);
    assert_int_equal(natsMsgHeader_Add(raw, "X-Two", "a"), NATS_OK);
    assert_int_equal(natsMsgHeader_Add(raw, "X-Two", "b"), NATS_OK);
    assert_int_equal(js_PublishMsg(NULL, p.kit.client.js, raw, NULL, NULL), NATS_OK);
    natsMsg_Destroy(raw);
    nats_kit_settle(&p.kit, nats_kit_take_id(&p.kit, "their 7%"), SEMEL_VERDICT_REJECT, 0);
    semel_delivery copy = nats_kit_take_id(&p.dead, "their 7%");
    assert_string_equal(copy.message->topic, "orders.new");
    assert_int_equal(copy.message->header_count, 2);
    BYTES_EQUAL(semel_str("a"), copy.message->headers[0].value);
    BYTES_EQUAL(semel_str("b"), copy.message->headers[1].value);
    close_pair(&p);
}

/* As large as the server allows, so that the copy has no room for anything more. What is settled
 * beside it is settled. */
static void a_message_of_the_largest_size_is_copied(void **state)
{
    char subject[2 * NATS_KIT_NAME];
    semel_delivery both[2];
    pair p;
    (void)state;
    open_pair(&p, "");
    (void)snprintf(subject, sizeof subject, "%s.large", p.kit.stream);
    int len = (int)natsConnection_GetMaxPayload(p.kit.client.connection);
    char *body = calloc(1, (size_t)len);
    assert_non_null(body);
    assert_int_equal(js_Publish(NULL, p.kit.client.js, subject, body, len, NULL, NULL), NATS_OK);
    free(body);
    nats_kit_send(&p.kit, "m-2");
    nats_kit_take(&p.kit, both, 2);
    semel_delivery_settlement rejects[] = {{both[0].tag, SEMEL_VERDICT_REJECT, 0},
                                           {both[1].tag, SEMEL_VERDICT_REJECT, 0}};
    OK(semel_transport_settle(p.kit.transport, rejects, 2, &last_error));
    assert_int_equal(nats_client_count(&p.kit.client, p.kit.stream), 0);
    assert_int_equal(nats_client_count(&p.kit.client, p.dead.stream), 2);
    close_pair(&p);
}

/* --- too late --------------------------------------------------------------------------------- */

/* Another consumer has it by now, and may do the work. */
static void a_late_rejection_ends_nothing(void **state)
{
    semel_transport *other = NULL;
    semel_test_seam *seam = NULL;
    semel_delivery again;
    size_t got = 0;
    pair p;
    (void)state;
    open_pair(&p, "&ack_ms=1000000");
    OK(semel_test_seam_open(&seam, 1, &last_error));
    semel_transport_options options = {.size = sizeof options, .seam = semel_test_seam_get(seam)};
    OK(semel_transport_open(&other, p.kit.url, NULL, &last_error));
    semel_transport_close(p.kit.transport);
    OK(semel_transport_open(&p.kit.transport, p.kit.url, &options, &last_error));
    nats_kit_send(&p.kit, "m-1");
    semel_delivery first = nats_kit_take_id(&p.kit, "m-1");
    semel_test_advance_ms(seam, 1000000);
    nats_pass_ms(p.kit.url, 999900);
    OK(semel_transport_receive(other, &again, 1, &got, NATS_KIT_WAIT_MS, &last_error));
    assert_int_equal(got, 1);
    semel_delivery_settlement reject = {first.tag, SEMEL_VERDICT_REJECT, 0};
    FAILS(SEMEL_EINVAL, semel_transport_settle(p.kit.transport, &reject, 1, &last_error));
    assert_int_equal(nats_client_count(&p.kit.client, p.kit.stream), 1);
    assert_int_equal(nats_client_count(&p.kit.client, p.dead.stream), 0);
    semel_transport_close(other);
    close_pair(&p);
    semel_test_seam_close(seam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_foreign_message_keeps_its_id_and_topic),
                                       cmocka_unit_test(a_message_of_the_largest_size_is_copied),
                                       cmocka_unit_test(a_late_rejection_ends_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
