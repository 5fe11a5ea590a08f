/* CloudEvents, written and read. */
#include "base/json.h"
#include "base/json_text.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- writing ---------------------------------------------------------------------------------- */

static semel_message small_message(void)
{
    return (semel_message){
        .size = sizeof(semel_message), .id = {"7", 1}, .source = "/shop", .type = "order.placed"};
}

static void assert_written(const semel_message *message, const char *expected)
{
    char *text = NULL;
    json_facts facts;
    assert_int_equal(semel_message_write_cloudevent(&text, message, NULL), SEMEL_OK);
    assert_true(json_text_check(&facts, semel_str(text), JSON_DEPTH_MAX));
    assert_string_equal(text, expected);
    semel_text_free(text);
}

#define START "{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/shop\",\"type\":\"order.placed\""

static void the_smallest_event_has_four_attributes(void **state)
{
    semel_message message = small_message();
    (void)state;
    assert_written(&message, START "}");
    message.topic = message.group = message.content_type = ""; /* as good as absent */
    message.correlation_id = semel_str("");
    message.body = semel_str("");
    assert_written(&message, START "}");
    semel_text_free(NULL);
}

static void every_member_has_its_attribute(void **state)
{
    semel_message message = small_message();
    (void)state;
    message.topic = "orders";
    message.group = "customer \"7\" \\ \xc3\xa9";
    message.correlation_id = semel_str("c");
    message.content_type = "application/json";
    message.time_ms = INT64_C(1709251199999);
    message.body = semel_str(" {\"n\": [1.10,\r\n -0]}");
    assert_written(&message, START
                   ",\"subject\":\"orders\",\"partitionkey\":\"customer \\\"7\\\" \\\\ \xc3\xa9\","
                   "\"correlationid\":\"c\",\"datacontenttype\":\"application/json\","
                   "\"time\":\"2024-02-29T23:59:59.999Z\",\"data\": {\"n\": [1.10,   -0]}}");
}

static void headers_that_fit_become_extensions(void **state)
{
    static const semel_header headers[] = {
        {"TraceParent", {"00-1", 4}}, {"x-dash", {"no", 2}}, {"traceparent", {"2", 1}},
        {"Subject", {"no", 2}},       {"data", {"no", 2}},   {"binary", {"\xff", 1}},
        {"control", {"a\nb", 3}},     {"n0", {NULL, 0}},     {"d\xc3\xa9j\xc3\xa0", {"no", 2}},
        {"dataschema", {"/s", 2}}};
    semel_message message = small_message();
    (void)state;
    message.headers = headers;
    message.header_count = sizeof headers / sizeof *headers;
    assert_written(&message, START ",\"traceparent\":\"00-1\",\"n0\":\"\",\"dataschema\":\"/s\"}");
}

static void the_body_takes_the_form_that_keeps_it(void **state)
{
    static const struct {
        const char *content_type;
        semel_bytes body;
        const char *expected;
    } all[] = {
        {NULL, {"[1]", 3}, "\"data\":[1]"},
        {"application/json; charset=utf-8", {"\"x\"", 3}, "\"data\":\"x\""},
        {"Application/Problem+JSON", {"null", 4}, "\"data\":null"},
        {"text/json", {"1", 1}, "\"data\":1"},
        {"application/jsonx", {"1", 1}, "\"data\":\"1\""},
        {"json", {"1", 1}, "\"data\":\"1\""},
        {"text/plain", {"a\"\n\t\x01\0\x7f/", 8}, "\"data\":\"a\\\"\\n\\t\\u0001\\u0000\x7f/\""},
        {"text/plain", {"\xff", 1}, "\"data_base64\":\"/w==\""},
        {NULL, {"hello", 5}, "\"data_base64\":\"aGVsbG8=\""},
        {"application/json", {"{", 1}, "\"data_base64\":\"ew==\""},
        {"application/json", {"NaN", 3}, "\"data_base64\":\"TmFO\""},
        {NULL, {"99999999999999999999", 20}, "\"data_base64\":\"OTk5OTk5OTk5OTk5OTk5OTk5OTk=\""}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        semel_message message = small_message();
        char expected[300];
        message.content_type = all[i].content_type;
        message.body = all[i].body;
        (void)snprintf(expected, sizeof expected, START "%s%s%s,%s}",
                       all[i].content_type ? ",\"datacontenttype\":\"" : "",
                       all[i].content_type ? all[i].content_type : "",
                       all[i].content_type ? "\"" : "", all[i].expected);
        assert_written(&message, expected);
    }
}

static void assert_not_written(const semel_message *message, semel_status status, const char *hint)
{
    char *text = NULL;
    semel_error err = {0};
    assert_int_equal(semel_message_write_cloudevent(&text, message, &err), status);
    assert_null(text);
    assert_non_null(strstr(err.text, hint));
}

static void what_cannot_be_an_event_is_not_written(void **state)
{
    semel_message message[8];
    (void)state;
    for (size_t i = 0; i < 8; i++)
        message[i] = small_message();
    message[0].id.len = 0;
    assert_not_written(&message[0], SEMEL_EINVAL, "message.id is missing");
    message[1].source = NULL;
    assert_not_written(&message[1], SEMEL_EINVAL, "message.source is missing");
    message[2].type = "";
    assert_not_written(&message[2], SEMEL_EINVAL, "message.type is missing");
    message[3].id = (semel_bytes){"\xff", 1};
    assert_not_written(&message[3], SEMEL_EINVAL, "message.id");
    message[4].topic = "a\nb";
    assert_not_written(&message[4], SEMEL_EINVAL, "message.topic");
    message[5].time_ms = INT64_MAX;
    assert_not_written(&message[5], SEMEL_EINVAL, "message.time_ms");
    message[6].size = 0;
    assert_not_written(&message[6], SEMEL_EINVAL, "message.size");
    message[7].body = (semel_bytes){"", SEMEL_BODY_MAX + 1};
    assert_not_written(&message[7], SEMEL_ELIMIT, "SEMEL_BODY_MAX");
}

/* --- reading ---------------------------------------------------------------------------------- */

/* In memory of its own, without a NUL behind, so that a sanitizer sees a step past the end. */
static semel_status read_text(semel_message **out, const char *json, semel_error *err)
{
    size_t len = strlen(json);
    char *exact = malloc(len ? len : 1);
    memcpy(exact, json, len);
    semel_status status = semel_message_read_cloudevent(out, (semel_bytes){exact, len}, err);
    free(exact);
    return status;
}

static void every_attribute_has_its_member(void **state)
{
    static const char json[] = " { \"traceparent\":\"00-1\", \"type\":\"order.placed\", "
                               "\"source\":\"/shop\", \"id\":\"7\","
                               "\"specversion\":\"1.0\", \"subject\":\"orders\", "
                               "\"partitionkey\":\"g\", \"correlationid\":\"c\","
                               "\"datacontenttype\":\"application/json\", "
                               "\"time\":\"2024-03-01T01:30:00.25+01:30\", \"count\":-5,"
                               "\"flag\":true, \"none\":null, \"odd-name_\":\"x\", \"data\":{ "
                               "\"a\" : [1.10, \"x/y\", null] } } ";
    semel_message *m = NULL;
    (void)state;
    assert_int_equal(read_text(&m, json, NULL), SEMEL_OK);
    assert_string_equal(m->id.data, "7");
    assert_int_equal(m->id.len, 1);
    assert_string_equal(m->source, "/shop");
    assert_string_equal(m->type, "order.placed");
    assert_string_equal(m->topic, "orders");
    assert_string_equal(m->group, "g");
    assert_string_equal(m->correlation_id.data, "c");
    assert_string_equal(m->content_type, "application/json");
    assert_true(m->time_ms == INT64_C(1709251200250));
    assert_string_equal(m->body.data, "{\"a\":[1.10,\"x/y\",null]}");
    assert_int_equal(m->body.len, strlen(m->body.data));
    assert_int_equal(m->header_count, 4);
    assert_string_equal(semel_message_header(m, "traceparent").data, "00-1");
    assert_string_equal(semel_message_header(m, "count").data, "-5");
    assert_string_equal(semel_message_header(m, "flag").data, "true");
    assert_string_equal(semel_message_header(m, "odd-name_").data, "x");
    assert_int_equal(m->delivery + m->delay_ms, 0);
    semel_message_free(m);
}

#define REST "\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/shop\",\"type\":\"t\""

static void what_is_absent_stays_absent(void **state)
{
    semel_message *m = NULL;
    (void)state;
    assert_int_equal(
        read_text(&m, "{" REST ",\"subject\":null,\"partitionkey\":\"\",\"data_base64\":null}",
                  NULL),
        SEMEL_OK);
    assert_null(m->topic);
    assert_null(m->group);
    assert_null(m->content_type);
    assert_null(m->correlation_id.data);
    assert_null(m->body.data);
    assert_null(m->headers);
    assert_true(m->time_ms == 0);
    semel_message_free(m);
}

static void the_body_is_read_by_its_content_type(void **state)
{
    static const struct {
        const char *members;
        semel_bytes body;
    } all[] = {{"\"data\":\"x\"", {"\"x\"", 3}},
               {"\"datacontenttype\":\"text/json\",\"data\":\"a\\tb\"", {"\"a\\tb\"", 6}},
               {"\"datacontenttype\":\"text/plain\",\"data\":\"a\\u0000b\"", {"a\0b", 3}},
               {"\"datacontenttype\":\"text/plain\",\"data\":\"\"", {"", 0}},
               {"\"datacontenttype\":\"text/plain\",\"data\":{\"a\": 1}", {"{\"a\":1}", 7}},
               {"\"datacontenttype\":\"text/plain\",\"data\":null", {NULL, 0}},
               {"\"data\":null", {"null", 4}},
               {"\"data\":1.0", {"1.0", 3}},
               {"\"data_base64\":\"AP8=\"", {"\0\xff", 2}},
               {"\"datacontenttype\":\"application/json\",\"data_base64\":\"ew==\"", {"{", 1}}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char json[300];
        semel_message *m = NULL;
        (void)snprintf(json, sizeof json, "{" REST ",%s}", all[i].members);
        assert_int_equal(read_text(&m, json, NULL), SEMEL_OK);
        assert_int_equal(m->body.len, all[i].body.len);
        assert_int_equal(!m->body.data, !all[i].body.data);
        if (m->body.data)
            assert_memory_equal(m->body.data, all[i].body.data, m->body.len);
        semel_message_free(m);
    }
}

static void assert_not_read(const char *json, semel_status status, const char *hint)
{
    semel_message *m = NULL;
    semel_error err = {0};
    assert_int_equal(read_text(&m, json, &err), status);
    assert_null(m);
    assert_non_null(strstr(err.text, hint));
}

static void what_is_missing_is_named(void **state)
{
    static const char *const names[] = {"specversion", "id", "source", "type"};
    static const char *const values[] = {"1.0", "7", "/shop", "t"};
    (void)state;
    for (size_t missing = 0; missing < 4; missing++)
        for (int how = 0; how < 3; how++) { /* not there, null, empty */
            char json[200] = "{\"x\":1", hint[40];
            for (size_t i = 0; i < 4; i++)
                if (i != missing || how)
                    (void)snprintf(json + strlen(json), 50,
                                   i == missing && how == 1 ? ",\"%s\":null" : ",\"%s\":\"%s\"",
                                   names[i], i == missing ? "" : values[i]);
            (void)snprintf(json + strlen(json), 2, "}");
            (void)snprintf(hint, sizeof hint, "CloudEvent: %s is missing", names[missing]);
            assert_not_read(json, SEMEL_EINVAL, hint);
        }
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *json, *hint;
    } all[] = {{"", "not JSON"},
               {"[]", "not an object"},
               {"null", "not an object"},
               {"{" REST, "not JSON"},
               {"{" REST "}x", "not JSON"},
               {"{" REST ",}", "not JSON"},
               {"{" REST ",\"data\":NaN}", "not JSON"},
               {"{" REST ",\"specversion\":\"0.3\"}", "\"0.3\""},
               {"{" REST ",\"specversion\":1.0}", "specversion is not a string"},
               {"{" REST ",\"subject\":5}", "subject is not a string"},
               {"{" REST ",\"subject\":\"a\\u0000b\"}", "subject holds a control"},
               {"{" REST ",\"time\":\"yesterday\"}", "time is \"yesterday\""},
               {"{" REST ",\"time\":5}", "time is not a string"},
               {"{" REST ",\"data_base64\":\"Zg\"}", "data_base64 is not base64"},
               {"{" REST ",\"data_base64\":5}", "data_base64 is not a string"},
               {"{" REST ",\"data\":1,\"data_base64\":\"Zg==\"}", "both"},
               {"{" REST ",\"ext\":{}}", "\"ext\""},
               {"{" REST ",\"ext\":[]}", "\"ext\""},
               {"{" REST ",\"Data\":1}", "\"Data\""},
               {"{" REST ",\"\":\"x\"}", "no name"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_not_read(all[i].json, SEMEL_EINVAL, all[i].hint);
    assert_not_read("{" REST ",\"data\":99999999999999999999}", SEMEL_EUNSUPPORTED, "64 bits");
    semel_message *m = NULL;
    assert_int_equal(semel_message_read_cloudevent(&m, (semel_bytes){NULL, 5}, NULL), SEMEL_EINVAL);
    assert_int_equal(semel_message_read_cloudevent(&m, (semel_bytes){"", SIZE_MAX}, NULL),
                     SEMEL_ELIMIT);
    assert_null(m);
}

static void every_beginning_of_an_event_is_refused(void **state)
{
    static const char json[] =
        "{" REST ",\"time\":\"2024-03-01T00:00:00Z\",\"x\":1,\"data\":[\"\\u00e9\",{}]}";
    char part[sizeof json];
    (void)state;
    for (size_t len = 0; len < sizeof json - 1; len++) {
        memcpy(part, json, len);
        part[len] = 0;
        assert_not_read(part, SEMEL_EINVAL, "not JSON");
    }
}

static void limits_hold_for_events_too(void **state)
{
    char json[4096] = "{" REST, longest[SEMEL_TEXT_MAX + 2];
    size_t len = strlen(json);
    (void)state;
    for (size_t i = 0; i <= SEMEL_HEADERS_MAX; i++)
        len += (size_t)snprintf(json + len, sizeof json - len, ",\"x%zu\":1", i);
    (void)snprintf(json + len, sizeof json - len, "}");
    assert_not_read(json, SEMEL_ELIMIT, "SEMEL_HEADERS_MAX");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    (void)snprintf(json, sizeof json, "{" REST ",\"subject\":\"%s\"}", longest);
    assert_not_read(json, SEMEL_ELIMIT, "message.topic");
    len = (size_t)snprintf(json, sizeof json, "{" REST ",\"data\":");
    memset(json + len, '[', JSON_DEPTH_MAX);
    memset(json + len + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    (void)snprintf(json + len + 2 * (size_t)JSON_DEPTH_MAX, 2, "}");
    assert_not_read(json, SEMEL_ELIMIT, "levels deep");
}

static void without_json_it_says_so(void **state)
{
    semel_message message = small_message(), *back = NULL;
    char *text = NULL;
    semel_error err = {0};
    (void)state;
    assert_int_equal(semel_message_write_cloudevent(&text, &message, &err), SEMEL_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "SEMEL_JSON=ON"));
    assert_int_equal(semel_message_read_cloudevent(&back, semel_str("{}"), &err),
                     SEMEL_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "SEMEL_JSON=ON"));
}

int main(void)
{
    const struct CMUnitTest event_tests[] = {
        cmocka_unit_test(the_smallest_event_has_four_attributes),
        cmocka_unit_test(every_member_has_its_attribute),
        cmocka_unit_test(headers_that_fit_become_extensions),
        cmocka_unit_test(the_body_takes_the_form_that_keeps_it),
        cmocka_unit_test(what_cannot_be_an_event_is_not_written),
        cmocka_unit_test(every_attribute_has_its_member),
        cmocka_unit_test(what_is_absent_stays_absent),
        cmocka_unit_test(the_body_is_read_by_its_content_type),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(every_beginning_of_an_event_is_refused),
        cmocka_unit_test(limits_hold_for_events_too),
    };
    const struct CMUnitTest not_built_in_tests[] = {cmocka_unit_test(without_json_it_says_so)};
    return json_built_in() ? cmocka_run_group_tests(event_tests, NULL, NULL)
                           : cmocka_run_group_tests(not_built_in_tests, NULL, NULL);
}
