/* `send` of an inbox: what is sent, with which types, ids and topics; and that it goes with the
 * work. */
#include "inbox_kit.h"
#include "program/config/node.h"
#include "program/handler/send.h"
#include "support/servers/server_each.h"

#include <semel/look.h>
#include <stdio.h>

/* --- what is in the outbox -------------------------------------------------------------------- */

typedef struct sent_message {
    char id[128], type[64], topic[64], group[64], content_type[64], body[512], tenant[64],
        source[64];
    size_t headers;
} sent_message;

typedef struct sent_messages {
    sent_message all[8];
    size_t count;
} sent_messages;

static void keep(char *out, size_t room, const void *data, size_t len)
{
    (void)snprintf(out, room, "%.*s", (int)len, data ? (const char *)data : "");
}

static semel_status keep_one(const semel_outgoing *item, void *context, semel_error *err)
{
    sent_messages *to = context;
    const semel_message *m = item->message;
    sent_message *out = &to->all[to->count++];
    semel_bytes tenant = semel_message_header(m, "X-Tenant");
    (void)err;
    keep(out->id, sizeof out->id, m->id.data, m->id.len);
    keep(out->body, sizeof out->body, m->body.data, m->body.len);
    keep(out->tenant, sizeof out->tenant, tenant.data, tenant.len);
    keep(out->type, sizeof out->type, m->type, m->type ? strlen(m->type) : 0);
    keep(out->topic, sizeof out->topic, m->topic, m->topic ? strlen(m->topic) : 0);
    keep(out->group, sizeof out->group, m->group, m->group ? strlen(m->group) : 0);
    keep(out->source, sizeof out->source, m->source, m->source ? strlen(m->source) : 0);
    keep(out->content_type, sizeof out->content_type, m->content_type,
         m->content_type ? strlen(m->content_type) : 0);
    out->headers = m->header_count;
    return SEMEL_OK;
}

static sent_messages look(inbox_kit *k)
{
    sent_messages out = {0};
    semel_outgoing_filter filter = {.size = sizeof filter, .contents = 1};
    OK(semel_outbox_list(k->outbox, &filter, keep_one, &out, &last_error));
    return out;
}

static void declare(inbox_kit *k, const send_config *sends, size_t count)
{
    k->declared.handler = HANDLER_NONE;
    k->declared.sends = sends;
    k->declared.send_count = count;
    inbox_kit_start(k);
}

/* --- messages --------------------------------------------------------------------------------- */

static void a_bridge_passes_on_what_it_got(void **state)
{
    static const send_config send = {.to = "shipping"};
    inbox_kit *k = *state;
    declare(k, &send, 1);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{ \"order_id\" : 1 }");
    KIT_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, k, "{ \"order_id\" : 1 }");
    sent_messages sent = look(k);
    assert_int_equal(sent.count, 1);
    assert_string_equal(sent.all[0].body, "{ \"order_id\" : 1 }");
    assert_string_equal(sent.all[0].type, "order.placed");
    assert_string_equal(sent.all[0].topic, "shipping");
    assert_string_equal(sent.all[0].content_type, "application/json");
    assert_string_equal(sent.all[0].source, "payments");
}

static void templates_keep_types(void **state)
{
    inbox_kit *k = *state;
    config_pair header = {"X-Tenant", ":{header:X-Tenant}"}, more = {"kind", "::literal"};
    config_pair headers[] = {header, more};
    send_config send = {
        .to = "shipping", .type = "order.paid", .headers = {headers, 2}, .group = ":json/order_id"};
    send.body = inbox_kit_yaml(
        k,
        "{ order: ':json/order_id', real: ':json/real', text: ':json/text', none: ':json/none',\n"
        "  deep: { list: [':json/list', ':{json:/list/0}', plain, 'quoted', '::colon', '::'] },\n"
        "  int: 7, hex: 0x10, octal: 0o10, float: 1.50, exp: 1e3, yes: true, no: false, nil: ~,\n"
        "  str: '7', word: yes, date: 2026-01-01, attempt: ':attempt', all: ':body' }");
    declare(k, &send, 1);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k,
                 "{\"order_id\":9223372036854775807,\"real\":12.340,\"text\":\"a\\\"b/\","
                 "\"list\":[1,{\"x\":null}]}");
    sent_messages sent = look(k);
    assert_int_equal(sent.count, 1);
    assert_string_equal(
        sent.all[0].body,
        "{\"order\":9223372036854775807,\"real\":12.340,\"text\":\"a\\\"b/\",\"none\":null,"
        "\"deep\":{\"list\":[[1,{\"x\":null}],1,\"plain\",\"quoted\",\":colon\",\":\"]},"
        "\"int\":7,\"hex\":16,\"octal\":8,\"float\":1.50,\"exp\":1e3,\"yes\":true,\"no\":false,"
        "\"nil\":null,\"str\":\"7\",\"word\":\"yes\",\"date\":\"2026-01-01\",\"attempt\":1,"
        "\"all\":{\"order_id\":9223372036854775807,\"real\":12.340,\"text\":\"a\\\"b/\","
        "\"list\":[1,{\"x\":null}]}}");
    assert_string_equal(sent.all[0].type, "order.paid");
    assert_string_equal(sent.all[0].group, "9223372036854775807");
    assert_string_equal(sent.all[0].content_type, "application/json");
    assert_string_equal(sent.all[0].tenant, "");
    assert_int_equal(sent.all[0].headers, 1);
}

/* The same id each time, and another one for each message and key. */
static void ids_are_made_of_inbox_key_and_position(void **state)
{
    static const send_config sends[] = {{.to = "shipping"},
                                        {.to = "shipping"},
                                        {.to = "shipping", .id = ":json/order_id"},
                                        {.to = "shipping", .id = ":json/missing"}};
    inbox_kit *k = *state;
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE], expected[64];
    semel_message message = {.size = sizeof message, .body = semel_str("{\"order_id\":5}")};
    declare(k, sends, 4);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\":5}");
    OK(semel_inbox_idempotency_key(key, k->inbox, &message, &last_error));
    sent_messages sent = look(k);
    assert_int_equal(sent.count, 4);
    (void)snprintf(expected, sizeof expected, "%s-1", key);
    assert_string_equal(sent.all[0].id, expected);
    (void)snprintf(expected, sizeof expected, "%s-2", key);
    assert_string_equal(sent.all[1].id, expected);
    assert_string_equal(sent.all[2].id, "5");
    (void)snprintf(expected, sizeof expected, "%s-4", key);
    assert_string_equal(sent.all[3].id, expected);
}

static void topics_follow_the_queue(void **state)
{
    static const struct {
        const char *url, *topic;
    } urls[] = {{"amqp://h/?exchange=shop", "order.paid"},
                {"amqp://h/?queue=ship%2Fping&durable=yes", "ship/ping"},
                {"amqp://h/?x=1&queue=q", "q"},
                {NULL, "shipping"}};
    inbox_kit *k = *state;
    send_config send = {.to = "shipping", .type = "order.paid"};
    send_plan *plan = NULL;
    semel_unit *unit = NULL;
    semel_outcome out;
    declare(k, &send, 1);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        char body[64];
        (void)snprintf(body, sizeof body, "{\"order_id\":%zu}", i);
        semel_message message = {.size = sizeof message, .body = semel_str(body)};
        k->queues[0].url = urls[i].url;
        OK(send_open(&plan, &k->all, &k->declared, NULL, &last_error));
        OK(semel_unit_begin(&unit, k->base.store, &last_error));
        OK(semel_unit_claim(&out, unit, k->inbox, &message, &last_error));
        OK(send_all(plan, unit, &message, &last_error));
        OK(semel_unit_commit(unit, &last_error));
        send_close(plan);
        assert_string_equal(look(k).all[i].topic, urls[i].topic);
    }
}

static void what_cannot_be_made_is_a_dead_letter(void **state)
{
    inbox_kit *k = *state;
    send_config send = {.to = "shipping"};
    send.body = inbox_kit_yaml(k, "{ a: ':json/a' }");
    k->declared.options.key = "id";
    declare(k, &send, 1);
    KIT_RECEIVES(SEMEL_OK, SEMEL_DEAD, k, "not json");
    assert_int_equal(look(k).count, 0);
}

/* Sent if and only if the statements commit. */
static void what_is_sent_goes_with_the_work(void **state)
{
    static const send_config send = {.to = "shipping"};
    static const char *const statements[] = {"INSERT INTO once VALUES (:json/n)"};
    static const char *const tables[] = {"CREATE TABLE once (n BIGINT PRIMARY KEY)"};
    inbox_kit *k = *state;
    OK(semel_store_run(k->base.store, tables, 1, NULL, &last_error));
    k->declared.handler = HANDLER_SQL;
    k->declared.sql = (config_list){statements, 1};
    k->declared.sends = &send;
    k->declared.send_count = 1;
    inbox_kit_start(k);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\":1,\"n\":1}");
    KIT_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, k, "{\"order_id\":2,\"n\":1}");
    assert_int_equal(look(k).count, 1);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\":2,\"n\":2}");
    assert_int_equal(look(k).count, 2);
}

/* --- mistakes --------------------------------------------------------------------------------- */

static void mistakes_are_found_when_opened(void **state)
{
    inbox_kit *k = *state;
    send_config sends[] = {{.to = "shipping"}, {.to = "shipping", .type = ":tpye"}};
    send_mistake wrong;
    send_plan *plan = NULL;
    k->declared.sends = sends;
    k->declared.send_count = 2;
    FAILS(SEMEL_EINVAL, send_open(&plan, &k->all, &k->declared, &wrong, &last_error));
    assert_int_equal(wrong.send, 1);
    assert_string_equal(wrong.field, "type");
    assert_string_equal(wrong.what.text, "unknown value \":tpye\"; did you mean \":type\"?");
    sends[1] = (send_config){.to = "shipping"};
    sends[1].body = inbox_kit_yaml(k, "{ a: [1, ':json/a b'] }");
    FAILS(SEMEL_EINVAL, send_open(&plan, &k->all, &k->declared, &wrong, &last_error));
    assert_string_equal(wrong.field, "body");
    assert_string_equal(node_text(wrong.at), ":json/a b");
    assert_int_equal(wrong.what.offset, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_ON_EACH(a_bridge_passes_on_what_it_got),
        KIT_ON_SQLITE(templates_keep_types),
        KIT_ON_EACH(ids_are_made_of_inbox_key_and_position),
        KIT_ON_SQLITE(topics_follow_the_queue),
        KIT_ON_SQLITE(what_cannot_be_made_is_a_dead_letter),
        KIT_ON_EACH(what_is_sent_goes_with_the_work),
        KIT_ON_SQLITE(mistakes_are_found_when_opened),
    };
    return cmocka_run_group_tests_name("send", tests, NULL, NULL);
}
