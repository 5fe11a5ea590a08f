/* The parts of tracing that need no process: contexts as W3C writes them, spans as OTLP/JSON writes
 * them, the decision of the sampler, and what the environment says. */
#include "program/trace/settings.h"
#include "support/base/check.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00-" TRACE "-00f067aa0ba902b7-01"

static trace_context context_of(const char *text)
{
    trace_context found;
    assert_true(trace_context_read(&found, semel_str(text)));
    return found;
}

/* --- contexts --------------------------------------------------------------------------------- */

static void a_context_is_read_and_written(void **state)
{
    static const char *const good[] = {PARENT, "00-" TRACE "-00f067aa0ba902b7-00",
                                       "00-" TRACE "-00f067aa0ba902b7-03"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[SEMEL_TRACEPARENT_SIZE], expected[SEMEL_TRACEPARENT_SIZE];
        trace_context found = context_of(good[i]);
        trace_context_write(text, &found);
        (void)snprintf(expected, sizeof expected, "%.53s%s", good[i], i == 1 ? "00" : "01");
        assert_string_equal(text, expected);
        assert_int_equal(found.sampled, i != 1);
        assert_true(trace_low_half(&found) == UINT64_C(0xa3ce929d0e0e4736));
    }
    (void)context_of("cc-" TRACE "-00f067aa0ba902b7-01-what-comes-later");
}

static void what_is_no_context_is_none(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE "-00f067aa0ba902b7-0",
        "00-" TRACE "-00f067aa0ba902b7-0g",
        "00-" TRACE "-00f067aa0ba902b7-01-more",
        "00-" TRACE "-00f067aa0ba902b7-011",
        "01-" TRACE "-00f067aa0ba902b7-01x",
        "ff-" TRACE "-00f067aa0ba902b7-01",
        "FF-" TRACE "-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00_" TRACE "-00f067aa0ba902b7-01",
        "00-" TRACE "-00f067aa0ba902b7 01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-" TRACE "-0000000000000000-01",
    };
    trace_context found;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (trace_context_read(&found, semel_str(bad[i])))
            fail_msg("taken for a context: %s", bad[i]);
    assert_false(trace_context_read(&found, (semel_bytes){NULL, 0}));
    assert_false(trace_context_read(&found, (semel_bytes){PARENT, TRACEPARENT_LEN - 1}));
}

static void a_state_is_printable_and_not_too_long(void **state)
{
    char longest[TRACESTATE_MAX + 1];
    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(trace_state_is_valid((semel_bytes){longest, TRACESTATE_MAX}));
    assert_false(trace_state_is_valid((semel_bytes){longest, TRACESTATE_MAX + 1}));
    assert_true(trace_state_is_valid(semel_str("a=1,b=2")));
    assert_false(trace_state_is_valid(semel_str("a=1\r\nX-Evil: 1")));
    assert_false(trace_state_is_valid(semel_str("a=\xc3\xa9")));
    assert_false(trace_state_is_valid((semel_bytes){NULL, 0}));
}

static void every_byte_counts_for_an_id(void **state)
{
    char text[] = "twenty-four bytes of key";
    uint64_t whole = trace_hash(1, text, sizeof text - 1);
    (void)state;
    assert_true(whole != trace_hash(2, text, sizeof text - 1));
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_true(trace_hash(1, text, len) != whole);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        text[i] ^= 1;
        assert_true(trace_hash(1, text, sizeof text - 1) != whole);
        text[i] ^= 1;
    }
}

/* --- spans ------------------------------------------------------------------------------------ */

static void a_span_is_written_as_otlp_wants_it(void **state)
{
    span s;
    trace_context parent = context_of(PARENT), self = {.sampled = 1};
    (void)state;
    trace_context_set(&self, 1, 2, 3);
    span_begin(&s, &(span_head){.self = self,
                                .parent = &parent,
                                .operation = "process",
                                .object = "bill\"ing",
                                .kind = SPAN_CONSUMER,
                                .start_ns = INT64_C(1767225600123456789),
                                .end_ns = INT64_C(1767225600123456790)});
    span_text(&s, "a.text", "x\ny");
    span_text(&s, "not.there", NULL);
    span_number(&s, "a.number", INT64_MIN);
    span_link(&s, &parent, semel_str("vendor=1"));
    span_link(&s, &self, (semel_bytes){NULL, 0});
    char *text = span_end(&s, "no\tpaper");
    assert_string_equal(
        text, "{\"traceId\":\"00000000000000010000000000000002\",\"spanId\":\"0000000000000003\","
              "\"parentSpanId\":\"00f067aa0ba902b7\",\"name\":\"process bill\\\"ing\",\"kind\":5,"
              "\"startTimeUnixNano\":\"1767225600123456789\","
              "\"endTimeUnixNano\":\"1767225600123456790\",\"attributes\":["
              "{\"key\":\"a.text\",\"value\":{\"stringValue\":\"x\\ny\"}},"
              "{\"key\":\"a.number\",\"value\":{\"intValue\":\"-9223372036854775808\"}}],"
              "\"links\":[{\"traceId\":\"" TRACE "\",\"spanId\":\"00f067aa0ba902b7\","
              "\"traceState\":\"vendor=1\"},{\"traceId\":\"00000000000000010000000000000002\","
              "\"spanId\":\"0000000000000003\"}],"
              "\"status\":{\"code\":2,\"message\":\"no\\u0009paper\"}}");
    free(text);
}

static json_object *member(json_object *of, const char *name)
{
    json_object *found = NULL;
    assert_true(json_object_object_get_ex(of, name, &found));
    return found;
}

/* Whatever is in it, a request is JSON; and long texts and many links are cut. */
static void a_request_is_json(void **state)
{
    char hostile[4 * SPAN_TEXT_MAX];
    span s;
    buffer request = {0};
    trace_context self = context_of(PARENT);
    const span_attribute resource[] = {{"service.name", "a\"b\xff"}, {"x", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof hostile; i++)
        hostile[i] = (char)(i * 7);
    spans_open(&request, resource, 2);
    for (int i = 0; i < 2; i++) {
        span_begin(&s, &(span_head){.self = self, .operation = "receive", .kind = SPAN_CLIENT});
        span_bytes(&s, "hostile", (semel_bytes){hostile, sizeof hostile});
        for (int j = 0; i && j < 2 * SPAN_LINKS_MAX; j++)
            span_link(&s, &self, (semel_bytes){NULL, 0});
        char *text = span_end(&s, i ? "" : NULL);
        buffer_text(&request, i ? "," : "");
        buffer_text(&request, text);
        free(text);
    }
    spans_close(&request);
    json_object *all = json_tokener_parse(request.data);
    assert_non_null(all);
    json_object *group = json_object_array_get_idx(member(all, "resourceSpans"), 0);
    json_object *scope = json_object_array_get_idx(member(group, "scopeSpans"), 0);
    json_object *spans = member(scope, "spans");
    assert_int_equal(json_object_array_length(spans), 2);
    assert_string_equal(json_object_get_string(member(json_object_array_get_idx(spans, 0), "name")),
                        "receive");
    json_object *second = json_object_array_get_idx(spans, 1);
    assert_int_equal(json_object_array_length(member(second, "links")), SPAN_LINKS_MAX);
    json_object_put(all);
    buffer_free(&request);
}

/* --- the sampler ------------------------------------------------------------------------------ */

static void the_sampler_decides_by_the_trace(void **state)
{
    const trace_sampler none = {0, 0}, all = {0, 1}, half = {0, 0.5}, parent = {1, 0};
    trace_context sampled = context_of(PARENT), left = sampled;
    (void)state;
    left.sampled = 0;
    assert_false(trace_sampler_takes(&none, &sampled, 0));
    assert_true(trace_sampler_takes(&all, &left, UINT64_MAX));
    assert_true(trace_sampler_takes(&half, NULL, UINT64_MAX / 2 - 1024));
    assert_false(trace_sampler_takes(&half, NULL, UINT64_MAX / 2 + 1024));
    assert_true(trace_sampler_takes(&parent, &sampled, UINT64_MAX));
    assert_false(trace_sampler_takes(&parent, &left, 0));
    assert_false(trace_sampler_takes(&parent, NULL, 0));
}

static void a_ratio_is_a_number_from_0_to_1(void **state)
{
    static const char *const bad[] = {"", "-1", "1.1", "nan", "inf", "0x1", "1e-2", "0.5 ", "."};
    double ratio = 0;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (trace_ratio_read(&ratio, bad[i]))
            fail_msg("taken for a ratio: \"%s\"", bad[i]);
    assert_true(trace_ratio_read(&ratio, "0.25") && fabs(ratio - 0.25) < 1e-9);
    assert_true(trace_ratio_read(&ratio, "1") && trace_ratio_read(&ratio, "0"));
}

/* --- settings --------------------------------------------------------------------------------- */

static const char *const *variables; /* name, value, name, value, ..., NULL */

static char *get(const char *name)
{
    for (size_t i = 0; variables[i]; i += 2)
        if (strcmp(variables[i], name) == 0)
            return (char *)variables[i + 1];
    return NULL;
}

static void expect_url(const char *file, const char *expected, const char *const *given)
{
    trace_settings found;
    const tracing_config section = {.endpoint = file};
    variables = given;
    trace_settings_read(&found, &section, get);
    if (expected)
        assert_string_equal(found.url ? found.url : "none", expected);
    else
        assert_null(found.url);
    trace_settings_free(&found);
}

#define VARIABLES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_address_is_found(void **state)
{
    const char *const none[] = {NULL};
    (void)state;
    expect_url(NULL, NULL, none);
    expect_url("http://c:4318", "http://c:4318/v1/traces", none);
    expect_url("http://c:4318/", "http://c:4318/v1/traces", none);
    expect_url("https://c/otlp/v1/traces", "https://c/otlp/v1/traces", none);
    expect_url(NULL, "http://c/v1/traces", VARIABLES("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"));
    expect_url("http://file", "http://file/v1/traces",
               VARIABLES("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"));
    expect_url(NULL, "http://t/x",
               VARIABLES("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c",
                         "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x"));
    expect_url("http://file", NULL, VARIABLES("OTEL_SDK_DISABLED", "TRUE"));
    expect_url(NULL, NULL, VARIABLES("OTEL_EXPORTER_OTLP_ENDPOINT", ""));
    expect_url(NULL, NULL, VARIABLES("OTEL_EXPORTER_OTLP_ENDPOINT", "unix:/x"));
}

static trace_settings read_settings(const tracing_config *file, const char *const *given)
{
    trace_settings found;
    variables = given;
    trace_settings_read(&found, file, get);
    return found;
}

static const char *resource_of(const trace_settings *of, const char *name)
{
    for (size_t i = 0; i < of->resource_count; i++)
        if (strcmp(of->resource[i].name, name) == 0)
            return of->resource[i].value;
    return "none";
}

static void the_environment_is_read(void **state)
{
    const tracing_config file = {.endpoint = "http://c"};
    trace_settings s = read_settings(
        &file, VARIABLES("OTEL_EXPORTER_OTLP_HEADERS", " a = x%20y%2 ,, b=c=d,",
                         "OTEL_TRACES_SAMPLER", "parentbased_traceidratio",
                         "OTEL_TRACES_SAMPLER_ARG", "0.25", "OTEL_BSP_MAX_QUEUE_SIZE", "100",
                         "OTEL_BSP_SCHEDULE_DELAY", "1000", "OTEL_EXPORTER_OTLP_TIMEOUT", "500",
                         "OTEL_RESOURCE_ATTRIBUTES", "host.name=h,team=till"));
    (void)state;
    assert_int_equal(s.warning_count, 0);
    assert_int_equal(s.headers.count, 2);
    assert_string_equal(s.headers.items[0].name, "a");
    assert_string_equal(s.headers.items[0].value, "x y%2");
    assert_string_equal(s.headers.items[1].value, "c=d");
    assert_true(s.sampler.follows_parent && fabs(s.sampler.ratio - 0.25) < 1e-9);
    assert_int_equal(s.queue_spans, 100);
    assert_int_equal(s.batch_spans, 100);
    assert_int_equal(s.delay_ms, 1000);
    assert_int_equal(s.timeout_ms, 500);
    assert_string_equal(resource_of(&s, "host.name"), "h");
    assert_string_equal(resource_of(&s, "team"), "till");
    assert_string_equal(resource_of(&s, "service.name"), "semel");
    trace_settings_free(&s);
}

static void what_cannot_be_used_is_said(void **state)
{
    const tracing_config file = {.endpoint = "http://c"};
    trace_settings s = read_settings(
        &file,
        VARIABLES("OTEL_EXPORTER_OTLP_HEADERS", "a=x%0d%0aEvil: 1", "OTEL_TRACES_SAMPLER", "jaeger",
                  "OTEL_BSP_MAX_QUEUE_SIZE", "-5", "OTEL_BSP_SCHEDULE_DELAY",
                  "99999999999999999999", "OTEL_RESOURCE_ATTRIBUTES", "x",
                  "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"));
    (void)state;
    assert_int_equal(s.warning_count, 7);
    assert_int_equal(s.headers.count, 0);
    assert_true(s.sampler.follows_parent && fabs(s.sampler.ratio - 0.01) < 1e-9);
    assert_int_equal(s.queue_spans, 2048);
    assert_int_equal(s.batch_spans, 512);
    assert_int_equal(s.delay_ms, 5000);
    trace_settings_free(&s);
}

/* What the file says wins. */
static void samplers_have_names(void **state)
{
    static const struct {
        const char *name, *file;
        int follows;
        double ratio;
    } known[] = {{"always_on", NULL, 0, 1},
                 {"always_off", NULL, 0, 0},
                 {"traceidratio", NULL, 0, 1},
                 {"parentbased_always_on", NULL, 1, 1},
                 {"parentbased_always_off", NULL, 1, 0},
                 {"always_on", "0.5", 1, 0.5}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const tracing_config file = {.endpoint = "http://c", .sample = known[i].file};
        trace_settings s = read_settings(&file, VARIABLES("OTEL_TRACES_SAMPLER", known[i].name));
        assert_int_equal(s.sampler.follows_parent, known[i].follows);
        assert_true(fabs(s.sampler.ratio - known[i].ratio) < 1e-9);
        trace_settings_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_is_read_and_written),
        cmocka_unit_test(what_is_no_context_is_none),
        cmocka_unit_test(a_state_is_printable_and_not_too_long),
        cmocka_unit_test(every_byte_counts_for_an_id),
        cmocka_unit_test(a_span_is_written_as_otlp_wants_it),
        cmocka_unit_test(a_request_is_json),
        cmocka_unit_test(the_sampler_decides_by_the_trace),
        cmocka_unit_test(a_ratio_is_a_number_from_0_to_1),
        cmocka_unit_test(the_address_is_found),
        cmocka_unit_test(the_environment_is_read),
        cmocka_unit_test(what_cannot_be_used_is_said),
        cmocka_unit_test(samplers_have_names),
    };
    return cmocka_run_group_tests_name("parts of tracing", tests, NULL, NULL);
}
