/* kcat on the other end, which is not ours: what it produces is received as it was meant, and what
 * the transport publishes it can read, both as CloudEvents with their attributes in headers. */
#include "real_kit.h"

#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/servers/server_internal.h"

#include <stdio.h>
#include <string.h>

enum { COMMAND_ROOM = 2048, OUTPUT_ROOM = 4096 };

static void run(char output[OUTPUT_ROOM], const char *command)
{
    FILE *from = popen(command, "re"); /* NOLINT: a test, and no word of it is from outside */
    assert_non_null(from);
    size_t len = fread(output, 1, OUTPUT_ROOM - 1, from);
    output[len] = 0;
    if (pclose(from) != 0)
        fail_msg("%s failed", command);
}

static void kcat_produces(const real_topic *t, const char *arguments, const char *value)
{
    char command[COMMAND_ROOM], output[OUTPUT_ROOM];
    server_print(command, sizeof command, "printf '%s' | kcat -q -P -b %s -t %s %s", value,
                 t->servers, t->topic, arguments);
    run(output, command);
}

/* Waits for so many records, and shows them as the format says. */
static void kcat_consumes(char output[OUTPUT_ROOM], const real_topic *t, unsigned count,
                          const char *format)
{
    char command[COMMAND_ROOM];
    server_print(command, sizeof command,
                 "timeout 60 kcat -q -C -b %s -t %s -o beginning -c %u -f '%s'", t->servers,
                 t->topic, count, format);
    run(output, command);
}

static semel_transport *open_member(const real_topic *t)
{
    char url[SERVER_URL_ROOM];
    semel_transport *transport;
    real_topic_url(url, t, "");
    OK(semel_transport_open(&transport, url, NULL, &last_error));
    return transport;
}

static semel_delivery take_one(semel_transport *transport)
{
    semel_delivery delivery;
    size_t count = 0;
    OK(semel_transport_receive(transport, &delivery, 1, &count, REAL_PATIENCE_MS, &last_error));
    assert_int_equal(count, 1);
    return delivery;
}

static void acknowledge(semel_transport *transport, const semel_delivery *delivery)
{
    semel_delivery_settlement ack = {delivery->tag, SEMEL_VERDICT_ACK, 0};
    OK(semel_transport_settle(transport, &ack, 1, &last_error));
}

/* --- tests ------------------------------------------------------------------------------------ */

static void what_kcat_produces_is_received(void **state)
{
    real_topic *t = *state;
    kcat_produces(t,
                  "-k customer-7 -H ce_specversion=1.0 -H ce_id=order-1 -H ce_source=/web/shop "
                  "-H ce_type=order.placed -H ce_time=2026-01-02T03:04:05Z -H ce_subject=books "
                  "-H content-type=application/json -H colour=green",
                  "{\"total\": 10}");
    semel_transport *transport = open_member(t);
    semel_delivery delivery = take_one(transport);
    const semel_message *message = delivery.message;
    BYTES_EQUAL(semel_str("order-1"), message->id);
    assert_string_equal(message->type, "order.placed");
    assert_string_equal(message->source, "/web/shop");
    assert_string_equal(message->topic, "books");
    assert_string_equal(message->group, "customer-7");
    assert_string_equal(message->content_type, "application/json");
    assert_int_equal(message->time_ms, 1767323045000);
    BYTES_EQUAL(semel_str("{\"total\": 10}"), message->body);
    assert_int_equal(message->header_count, 1);
    assert_string_equal(message->headers[0].name, "colour");
    BYTES_EQUAL(semel_str("green"), message->headers[0].value);
    acknowledge(transport, &delivery);
    real_topic_wait(t, 1);
    semel_transport_close(transport);
}

/* A key and nothing else: what most producers write. */
static void a_bare_record_of_kcat_is_received(void **state)
{
    real_topic *t = *state;
    kcat_produces(t, "-k customer-8", "just text");
    semel_transport *transport = open_member(t);
    semel_delivery delivery = take_one(transport);
    assert_string_equal(delivery.message->group, "customer-8");
    assert_int_equal(delivery.message->header_count, 0);
    BYTES_EQUAL(semel_str("just text"), delivery.message->body);
    acknowledge(transport, &delivery);
    semel_transport_close(transport);
}

static void has(const char *output, const char *part)
{
    if (!strstr(output, part))
        fail_msg("kcat did not read %s in %s", part, output);
}

static void kcat_reads_what_is_published(void **state)
{
    real_topic *t = *state;
    char output[OUTPUT_ROOM];
    semel_publish_result result;
    semel_header header = {"colour", semel_str("green")};
    semel_message message = {.size = sizeof message,
                             .id = semel_str("order-2"),
                             .type = "order.placed",
                             .source = "/shop",
                             .group = "customer-9",
                             .content_type = "text/plain",
                             .time_ms = 1767323045000,
                             .body = semel_str("10 EUR"),
                             .headers = &header,
                             .header_count = 1};
    const semel_message *pointer = &message;
    semel_transport *transport = open_member(t);
    OK(semel_transport_publish(&result, transport, &pointer, 1, REAL_PATIENCE_MS, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    semel_transport_close(transport);
    kcat_consumes(output, t, 1, "key=%k body=%s headers=,%h,");
    has(output, "key=customer-9 ");
    has(output, "body=10 EUR ");
    has(output, ",ce_specversion=1.0,");
    has(output, ",ce_id=order-2,");
    has(output, ",ce_source=/shop,");
    has(output, ",ce_type=order.placed,");
    has(output, ",ce_time=2026-01-02T03:04:05");
    has(output, ",content-type=text/plain,");
    has(output, ",colour=green,");
}

static int setup(void **state)
{
    static real_topic topic;
    deadline_begin();
    real_topic_open(&topic, 1, 1);
    *state = &topic;
    return 0;
}

static int teardown(void **state)
{
    real_topic_close(*state);
    deadline_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_kcat_produces_is_received, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bare_record_of_kcat_is_received, setup, teardown),
        cmocka_unit_test_setup_teardown(kcat_reads_what_is_published, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
