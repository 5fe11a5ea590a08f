/* CloudEvents by AMQP: written and read in binary mode, read in structured mode. */
#include "amqp_kit.h"

#include "base/json.h"

#include <stdio.h>

/* --- writing ---------------------------------------------------------------------------------- */

static void an_event_has_its_attributes_as_headers_too(void **state)
{
    semel_message message = kit_full_message();
    rabbit_writer writer = {.cloudevents = 1, .persistent = 1};
    rabbit_envelope envelope;
    (void)state;
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    const amqp_basic_properties_t *p = &envelope.properties;
    assert_amqp_header(p, "cloudEvents_specversion", "1.0");
    assert_amqp_header(p, "cloudEvents_id", "order-7");
    assert_amqp_header(p, "cloudEvents_source", "/shop");
    assert_amqp_header(p, "cloudEvents_type", "order.placed");
    assert_amqp_header(p, "cloudEvents_time", "2026-02-28T23:59:59.999Z");
    assert_amqp_header(p, "cloudEvents_subject", "orders.eu");
    assert_amqp_header(p, "cloudEvents_partitionkey", "customer-1");
    assert_amqp_header(p, "cloudEvents_correlationid", "cart-9");
    assert_amqp_header(p, "cloudEvents_traceparent",
                       "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_amqp_header(p, "cloudEvents_tenant", "blue"); /* the first of its name */
    assert_amqp_header(p, "cloudEvents_nothing", "");
    assert_null(kit_find(p, "cloudEvents_datacontenttype")); /* that is the property */
    assert_null(kit_find(p, "cloudEvents_x-retry"));
    assert_null(kit_find(p, "cloudEvents_blob"));
    assert_amqp_header(p, "Tenant", "blue");
    assert_amqp_bytes(p->message_id, "order-7");
    assert_amqp_bytes(p->content_type, "application/json");
    arena_free(&writer.arena);
}

static void a_header_with_the_name_of_an_attribute_gives_way(void **state)
{
    const semel_header headers[] = {{"cloudEvents_id", {"theirs", 6}},
                                    {"cloudEvents_colour", {"theirs", 6}},
                                    {"Colour", {"red", 3}},
                                    {"ID", {"no extension", 12}},
                                    {"time", {"no extension", 12}}};
    semel_message message = kit_full_message();
    rabbit_writer writer = {.cloudevents = 1};
    rabbit_envelope envelope;
    (void)state;
    message.headers = headers;
    message.header_count = sizeof headers / sizeof *headers;
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    assert_amqp_header(&envelope.properties, "cloudEvents_id", "order-7");
    assert_amqp_header(&envelope.properties, "cloudEvents_colour", "red");
    assert_amqp_header(&envelope.properties, "cloudEvents_time", "2026-02-28T23:59:59.999Z");
    assert_amqp_header(&envelope.properties, "ID", "no extension");
    arena_free(&writer.arena);
}

static void what_is_no_event_is_refused_as_one(void **state)
{
    semel_message message = kit_full_message();
    (void)state;
    message.type = NULL;
    FAILS(SEMEL_EINVAL, kit_write(&message, 1));
    SAYS("message.type is missing");
    OK(kit_write(&message, 0));
    message = kit_full_message();
    message.id = (semel_bytes){"\xff", 1};
    FAILS(SEMEL_EINVAL, kit_write(&message, 1));
    SAYS("message.id is not UTF-8");
    message = kit_full_message();
    message.group = "a\nb";
    FAILS(SEMEL_EINVAL, kit_write(&message, 1));
    SAYS("message.group");
    message = kit_full_message();
    message.time_ms = INT64_MAX;
    FAILS(SEMEL_EINVAL, kit_write(&message, 1));
    SAYS("time_ms");
}

/* --- reading the binary mode ------------------------------------------------------------------ */

static void the_attributes_of_an_event_win_over_properties(void **state)
{
    static const char *const prefixes[] = {"cloudEvents_", "cloudEvents:", "CLOUDEVENTS_",
                                           "cloudevents:"};
    static const char *const attributes[][2] = {{"specversion", "1.0"},
                                                {"id", "event-1"},
                                                {"source", "/elsewhere"},
                                                {"Type", "thing.done"},
                                                {"time", "1970-01-01T00:00:07.5Z"},
                                                {"subject", "thing/1"},
                                                {"partitionkey", "p"},
                                                {"correlationid", "c"},
                                                {"datacontenttype", "text/x"},
                                                {"TraceParent", "00-1-2-03"}};
    (void)state;
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++) {
        mail m = {.routing_key = "key"};
        char names[10][64];
        mail_set_id(&m, "property");
        mail_set_content_type(&m, "application/json");
        mail_set(&m, AMQP_BASIC_TYPE_FLAG, &m.properties.type, "property");
        mail_set_time(&m, 5);
        for (size_t i = 0; i < 10; i++) {
            (void)snprintf(names[i], sizeof names[i], "%s%s", prefixes[p], attributes[i][0]);
            mail_add_text(&m, names[i], attributes[i][1]);
        }
        mail_add_text(&m, "Plain", "stays");
        const semel_message *message = mail_deliver(&m);
        BYTES_EQUAL(semel_str("event-1"), message->id);
        assert_string_equal(message->source, "/elsewhere");
        assert_string_equal(message->type, "thing.done");
        assert_int_equal(message->time_ms, 7500);
        assert_string_equal(message->topic, "thing/1");
        assert_string_equal(message->group, "p");
        BYTES_EQUAL(semel_str("c"), message->correlation_id);
        assert_string_equal(message->content_type, "text/x");
        assert_int_equal(message->header_count, 2);
        assert_string_equal(message->headers[0].name, "Plain");
        assert_string_equal(message->headers[1].name, "traceparent");
        assert_message_header(message, "traceparent", "00-1-2-03");
        mail_discard(&m);
    }
}

static void what_an_event_does_not_say_comes_from_the_properties(void **state)
{
    mail m = {.routing_key = "key"};
    (void)state;
    mail_set_id(&m, "property");
    mail_set_time(&m, 5);
    mail_add_text(&m, "cloudEvents_specversion", "1.0");
    mail_add_text(&m, "cloudEvents_time", "yesterday");
    mail_add_text(&m, "cloudEvents_id", "");
    const semel_message *message = mail_deliver(&m);
    BYTES_EQUAL(semel_str("property"), message->id);
    assert_int_equal(message->time_ms, 5000);
    assert_string_equal(message->topic, "key");
    assert_int_equal(message->header_count, 0);
    mail_discard(&m);
}

static void the_attributes_of_an_event_may_be_of_other_types(void **state)
{
    mail m = {0};
    (void)state;
    mail_add_text(&m, "cloudEvents:specversion", "1.0");
    mail_add(&m, "cloudEvents:time", KIT_VALUE(TIMESTAMP, u64, 9));
    mail_add(&m, "cloudEvents:id", kit_i64(12));
    mail_add(&m, "cloudEvents:sampled", KIT_VALUE(BOOLEAN, boolean, 1));
    const semel_message *message = mail_deliver(&m);
    assert_int_equal(message->time_ms, 9000);
    BYTES_EQUAL(semel_str("12"), message->id);
    assert_message_header(message, "sampled", "true");
    mail_discard(&m);
}

static void a_header_that_an_event_has_twice_is_there_once(void **state)
{
    mail m = {0};
    (void)state;
    mail_add_text(&m, "cloudEvents_specversion", "1.0");
    mail_add_text(&m, "cloudEvents_traceparent", "of the event");
    mail_add_text(&m, "TraceParent", "of the hop");
    mail_add_text(&m, "cloudEvents_traceparent", "again");
    const semel_message *message = mail_deliver(&m);
    assert_int_equal(message->header_count, 1);
    assert_message_header(message, "traceparent", "of the hop");
    mail_discard(&m);
}

static void without_a_version_it_is_no_event(void **state)
{
    mail m = {0};
    (void)state;
    mail_set_id(&m, "property");
    mail_add_text(&m, "cloudEvents_id", "event-1");
    mail_add_text(&m, "cloudEvents_", "nothing");
    mail_add_text(&m, "cloudEvents-specversion", "1.0");
    const semel_message *message = mail_deliver(&m);
    BYTES_EQUAL(semel_str("property"), message->id);
    assert_int_equal(message->header_count, 3);
    assert_message_header(message, "cloudEvents_id", "event-1");
    mail_discard(&m);
}

/* --- reading the structured mode -------------------------------------------------------------- */

static void a_structured_event_is_the_message(void **state)
{
    mail m = {.routing_key = "key", .redelivered = 1};
    (void)state;
    m.body =
        semel_str("{" KIT_EVENT ",\"time\":\"1970-01-01T00:00:07Z\",\"subject\":\"sub\",\"colour\":"
                  "\"red\",\"partitionkey\":\"p\",\"correlationid\":\"c\",\"data\":{\"a\":1}}");
    mail_set_id(&m, "property");
    mail_set_time(&m, 5);
    mail_set_content_type(&m, "Application/CloudEvents+JSON; charset=utf-8");
    mail_add_text(&m, "Colour", "blue");
    mail_add_text(&m, "tenant", "t1");
    const semel_message *message = mail_deliver(&m);
    BYTES_EQUAL(semel_str("e"), message->id);
    assert_string_equal(message->source, "/s");
    assert_string_equal(message->type, "t");
    assert_string_equal(message->topic, "sub");
    assert_string_equal(message->group, "p");
    BYTES_EQUAL(semel_str("c"), message->correlation_id);
    assert_null(message->content_type);
    assert_int_equal(message->time_ms, 7000);
    assert_int_equal(message->header_count, 2);
    assert_message_header(message, "colour", "red");
    assert_message_header(message, "tenant", "t1");
    BYTES_EQUAL(semel_str("{\"a\":1}"), message->body);
    assert_int_equal(message->delivery, 2);
    mail_discard(&m);
}

static void what_a_structured_event_does_not_say_comes_from_amqp(void **state)
{
    mail m = {.routing_key = "key"};
    (void)state;
    m.body = semel_str("{" KIT_EVENT ",\"datacontenttype\":\"text/plain\",\"data\":\"hi\"}");
    mail_set_time(&m, 5);
    mail_set_content_type(&m, "application/cloudevents+json");
    mail_set(&m, AMQP_BASIC_CORRELATION_ID_FLAG, &m.properties.correlation_id, "c");
    mail_add_text(&m, "semel-group", "g");
    const semel_message *message = mail_deliver(&m);
    assert_string_equal(message->topic, "key");
    assert_string_equal(message->group, "g");
    BYTES_EQUAL(semel_str("c"), message->correlation_id);
    assert_int_equal(message->time_ms, 5000);
    assert_string_equal(message->content_type, "text/plain");
    BYTES_EQUAL(semel_str("hi"), message->body);
    assert_int_equal(message->header_count, 0);
    mail_discard(&m);
}

static void what_is_no_structured_event_is_an_ordinary_message(void **state)
{
    static const char *const bodies[] = {"", "{", "{\"id\":1}", "{" KIT_EVENT ",\"time\":\"now\"}"};
    static const char *const types[] = {"application/cloudevents-batch+json", "application/json",
                                        "application/cloudevents+jsonx"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        mail m = {.body = semel_str(bodies[i])};
        mail_set_id(&m, "property");
        mail_set_content_type(&m, "application/cloudevents+json");
        BYTES_EQUAL(semel_str("property"), mail_deliver(&m)->id);
        assert_ptr_equal(m.message->body.data, bodies[i]);
        assert_string_equal(m.message->content_type, "application/cloudevents+json");
        mail_discard(&m);
    }
    for (size_t i = 0; i < 3; i++) {
        mail m = {.body = semel_str("{" KIT_EVENT "}")};
        mail_set_content_type(&m, types[i]);
        assert_null(mail_deliver(&m)->id.data);
        mail_discard(&m);
    }
}

static void reading_an_event_survives_the_failure_of_any_allocation(void **state)
{
    static char text[SEMEL_HEADER_MAX - 15]; /* several are longer than a chunk of the arena */
    mail m = {.body = semel_str("{" KIT_EVENT ",\"data\":1}")};
    (void)state;
    memset(text, 'a', sizeof text - 1);
    mail_set_content_type(&m, "application/cloudevents+json");
    for (int i = 0; i < 4; i++)
        mail_add_text(&m, "header", text);
    assert_true(mail_starve(&m) >= 4);
    BYTES_EQUAL(semel_str("e"), m.message->id);
    assert_message_header(m.message, "header", text);
    mail_discard(&m);
}

int main(void)
{
    const struct CMUnitTest binary[] = {
        cmocka_unit_test(an_event_has_its_attributes_as_headers_too),
        cmocka_unit_test(a_header_with_the_name_of_an_attribute_gives_way),
        cmocka_unit_test(what_is_no_event_is_refused_as_one),
        cmocka_unit_test(the_attributes_of_an_event_win_over_properties),
        cmocka_unit_test(what_an_event_does_not_say_comes_from_the_properties),
        cmocka_unit_test(the_attributes_of_an_event_may_be_of_other_types),
        cmocka_unit_test(a_header_that_an_event_has_twice_is_there_once),
        cmocka_unit_test(without_a_version_it_is_no_event),
    };
    const struct CMUnitTest structured[] = {
        cmocka_unit_test(a_structured_event_is_the_message),
        cmocka_unit_test(what_a_structured_event_does_not_say_comes_from_amqp),
        cmocka_unit_test(what_is_no_structured_event_is_an_ordinary_message),
        cmocka_unit_test(reading_an_event_survives_the_failure_of_any_allocation),
    };
    int failed = cmocka_run_group_tests(binary, NULL, NULL);
    return failed + (json_built_in() ? cmocka_run_group_tests(structured, NULL, NULL) : 0);
}
