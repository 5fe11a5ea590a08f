/* Publishing to JetStream: every message has one of its ends, the server drops what it has already,
 * and what goes out can be read by others. */
#include "support/servers/nats/nats_kit.h"

static semel_publish_result publish_as(nats_kit *kit, const char *id, const char *source,
                                       const char *topic)
{
    semel_message message = text_message(id, "10 EUR");
    message.source = source;
    message.topic = topic;
    return nats_kit_publish(kit, &message);
}

/* --- the server's own deduplication ----------------------------------------------------------- */

static void a_message_that_is_sent_again_is_confirmed_and_stored_once(void **state)
{
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    for (int i = 0; i < 3; i++)
        nats_kit_send(&kit, "m-1");
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 1);
    nats_kit_close(&kit);
}

/* One id says nothing if source, topic or the time of a replay differ. */
static void other_messages_of_the_same_id_are_stored(void **state)
{
    semel_header due = {SEMEL_HEADER_DUE, semel_str("1700000000000")};
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    assert_int_equal(publish_as(&kit, "1", "shop", "a"), SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(publish_as(&kit, "1", "till", "a"), SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(publish_as(&kit, "1", "shop", "b"), SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 3);
    semel_message replayed = text_message("1", "10 EUR");
    replayed.source = "shop";
    replayed.topic = "a";
    replayed.headers = &due;
    replayed.header_count = 1;
    assert_int_equal(nats_kit_publish(&kit, &replayed), SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 4);
    nats_kit_close(&kit);
}

static void without_ids_for_the_server_all_are_stored(void **state)
{
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "msg_id=no");
    nats_kit_send(&kit, "m-1");
    nats_kit_send(&kit, "m-1");
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 2);
    nats_kit_close(&kit);
}

/* --- what is not stored ----------------------------------------------------------------------- */

/* A transport that publishes where no stream listens: to a subject of its own. */
static void open_elsewhere(nats_kit *kit, const char *subject, const char *stream)
{
    char url[SERVER_URL_ROOM];
    (void)snprintf(url, sizeof url, "nats://semel:semel@%s:%u/%s?subject=%s", kit->server.host,
                   kit->server.port, stream, subject);
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    OK(semel_transport_open(&kit->transport, url, NULL, &last_error));
}

static void what_no_stream_takes_is_unroutable(void **state)
{
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    open_elsewhere(&kit, "nobody.listens.here", kit.stream);
    semel_message message = text_message("m-1", "x");
    assert_int_equal(nats_kit_publish(&kit, &message), SEMEL_PUBLISH_UNROUTABLE);
    nats_kit_close(&kit);
}

/* Its limits were not looked at. */
static void what_another_stream_takes_is_unroutable(void **state)
{
    nats_kit kit, other;
    (void)state;
    nats_kit_open(&kit, "");
    nats_kit_open(&other, "");
    open_elsewhere(&kit, other.stream, kit.stream);
    semel_message message = text_message("m-1", "x");
    assert_int_equal(nats_kit_publish(&kit, &message), SEMEL_PUBLISH_UNROUTABLE);
    assert_int_equal(nats_client_count(&kit.client, other.stream), 0);
    nats_kit_close(&other);
    nats_kit_close(&kit);
}

static void what_a_full_stream_refuses_may_be_sent_later(void **state)
{
    nats_kit kit;
    jsStreamConfig config;
    server_place shared;
    const char *subjects[2];
    char all[NATS_KIT_NAME + 8];
    (void)state;
    server_find(&shared, SERVER_NATS);
    nats_kit_prepare(&kit, &shared, "declare=yes");
    (void)snprintf(all, sizeof all, "%s.>", kit.stream);
    (void)jsStreamConfig_Init(&config);
    subjects[0] = kit.stream;
    subjects[1] = all;
    config.Name = kit.stream;
    config.Subjects = subjects;
    config.SubjectsLen = 2;
    config.MaxMsgs = 2;
    config.Discard = js_DiscardNew;
    nats_client_make(&kit.client, &config);
    nats_kit_reopen(&kit);
    nats_kit_send(&kit, "1");
    nats_kit_send(&kit, "2");
    semel_message third = text_message("3", "x");
    assert_int_equal(nats_kit_publish(&kit, &third), SEMEL_PUBLISH_NACKED);
    nats_kit_close(&kit);
}

static void what_nats_cannot_carry_is_refused(void **state)
{
    static const char *const topics[] = {"a b", "a..b", "a.*", "a.>", ".a", "a\n"};
    enum { TOO_LARGE = 2000000 };
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        assert_int_equal(publish_as(&kit, "1", NULL, topics[i]), SEMEL_PUBLISH_REFUSED);
    char *body = calloc(1, TOO_LARGE);
    assert_non_null(body);
    semel_message large = {.size = sizeof large, .id = {"1", 1}, .body = {body, TOO_LARGE}};
    assert_int_equal(nats_kit_publish(&kit, &large), SEMEL_PUBLISH_REFUSED);
    free(body);
    nats_kit_send(&kit, "the connection is still there");
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 1);
    nats_kit_close(&kit);
}

/* --- groups ----------------------------------------------------------------------------------- */

static void behind_a_failure_nothing_of_its_group_is_sent(void **state)
{
    enum { COUNT = 6 };
    static const char *const groups[COUNT] = {"a", "b", "a", "a", "b", NULL};
    char ids[COUNT][4];
    semel_message messages[COUNT];
    const semel_message *pointers[COUNT];
    semel_publish_result results[COUNT];
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%d", i);
        messages[i] = text_message(ids[i], "x");
        messages[i].group = groups[i];
        pointers[i] = &messages[i];
    }
    messages[2].topic = "no subject";
    OK(semel_transport_publish(results, kit.transport, pointers, COUNT, NATS_KIT_WAIT_MS,
                               &last_error));
    static const semel_publish_result wanted[COUNT] = {
        SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_REFUSED,
        SEMEL_PUBLISH_NACKED,    SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_CONFIRMED};
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(results[i], wanted[i]);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 4);
    nats_kit_close(&kit);
}

/* --- for others ------------------------------------------------------------------------------- */

static void expect_header(natsMsg *message, const char *name, const char *value)
{
    const char *found = NULL;
    natsStatus code = natsMsgHeader_Get(message, name, &found);
    assert_int_equal(code, value ? NATS_OK : NATS_NOT_FOUND);
    if (value)
        assert_string_equal(found, value);
}

static void others_can_read_it(void **state)
{
    static const semel_header headers[] = {{"traceparent", {"00-abc-01", 9}},
                                           {"Nats-Rollup", {"all", 3}},
                                           {"ce-id", {"other", 5}},
                                           {"odd name", {"x", 1}}};
    semel_message message = text_message("m 1", "10 EUR");
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    message.source = "shop";
    message.type = "order.paid";
    message.topic = "orders.paid";
    message.content_type = "text/plain; charset=utf-8";
    message.time_ms = INT64_C(1767225600123);
    message.headers = headers;
    message.header_count = 4;
    assert_int_equal(nats_kit_publish(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    natsMsg *raw = nats_client_message(&kit.client, kit.stream, 1);
    expect_header(raw, "ce-specversion", "1.0");
    expect_header(raw, "ce-id", "m%201");
    expect_header(raw, "ce-source", "shop");
    expect_header(raw, "ce-type", "order.paid");
    expect_header(raw, "ce-subject", "orders.paid");
    expect_header(raw, "ce-time", "2026-01-01T00:00:00.123Z");
    expect_header(raw, "content-type", "text/plain; charset=utf-8");
    expect_header(raw, "traceparent", "00-abc-01");
    expect_header(raw, "Nats-Rollup", NULL); /* it would command the server */
    natsMsg_Destroy(raw);
    semel_delivery one;
    nats_kit_take(&kit, &one, 1);
    MESSAGE_EQUAL(&message, one.message);
    nats_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_is_sent_again_is_confirmed_and_stored_once),
        cmocka_unit_test(other_messages_of_the_same_id_are_stored),
        cmocka_unit_test(without_ids_for_the_server_all_are_stored),
        cmocka_unit_test(what_no_stream_takes_is_unroutable),
        cmocka_unit_test(what_another_stream_takes_is_unroutable),
        cmocka_unit_test(what_a_full_stream_refuses_may_be_sent_later),
        cmocka_unit_test(what_nats_cannot_carry_is_refused),
        cmocka_unit_test(behind_a_failure_nothing_of_its_group_is_sent),
        cmocka_unit_test(others_can_read_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
