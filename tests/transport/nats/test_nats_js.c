/* A client that is not nats.c (nats.js, js/client.mjs): it reads what semel publishes, and semel
 * reads what it publishes, as CloudEvents in both directions. */
#include "support/process/shell.h"
#include "support/servers/nats/nats_kit.h"

enum { COMMAND = 1024, SAID = 2048 };

#define HERE    SEMEL_SOURCE_DIR "/tests/transport/nats/js"
#define MODULES SEMEL_BINARY_DIR "/nats.js" /* installed there, once */

static void nats_js(char said[SAID], const nats_kit *kit, const char *what)
{
    char command[COMMAND];
    int len =
        snprintf(command, sizeof command, "node " HERE "/client.mjs " MODULES " %s %s:%u %s 2>&1",
                 what, kit->server.host, kit->server.port, kit->stream);
    assert_in_range(len, 1, (int)sizeof command - 1);
    shell_run(said, SAID, command);
}

static int install(void **state)
{
    char said[SAID];
    (void)state;
    shell_run(said, sizeof said,
              "sh " SEMEL_SOURCE_DIR "/tests/support/process/npm.sh " HERE " " MODULES " 2>&1");
    return 0;
}

static void nats_js_reads_what_semel_publishes(void **state)
{
    semel_header sku = {"sku", semel_str("A-7")};
    char said[SAID];
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    semel_message message = text_message("m-1", "10 EUR");
    message.group = "c-3";
    message.content_type = "text/plain";
    message.headers = &sku;
    message.header_count = 1;
    assert_int_equal(nats_kit_publish(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    nats_js(said, &kit, "consume");
    assert_string_equal(said, "ce-id: m-1\n"
                              "ce-partitionkey: c-3\n"
                              "ce-source: shop\n"
                              "ce-specversion: 1.0\n"
                              "ce-subject: orders\n"
                              "ce-type: order.paid\n"
                              "content-type: text/plain\n"
                              "sku: A-7\n"
                              "10 EUR\n");
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 0); /* acknowledged */
    nats_kit_close(&kit);
}

static void semel_reads_what_nats_js_publishes(void **state)
{
    char said[SAID];
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "");
    nats_js(said, &kit, "publish");
    assert_string_equal(said, "true 1\n");
    semel_delivery one = nats_kit_take_id(&kit, "o-17");
    assert_string_equal(one.message->source, "/till");
    assert_string_equal(one.message->type, "order.placed");
    assert_string_equal(one.message->topic, "shop");
    assert_string_equal(one.message->group, "c-3");
    assert_string_equal(one.message->content_type, "application/json");
    BYTES_EQUAL(semel_str("A-7"), semel_message_header(one.message, "sku"));
    BYTES_EQUAL(semel_str("{\"order_id\": 17}"), one.message->body);
    nats_kit_settle(&kit, one, SEMEL_VERDICT_ACK, 0);
    NATS_EVENTUALLY(nats_client_count(&kit.client, kit.stream) == 0);
    nats_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nats_js_reads_what_semel_publishes),
                                       cmocka_unit_test(semel_reads_what_nats_js_publishes)};
    return cmocka_run_group_tests(tests, install, NULL);
}
