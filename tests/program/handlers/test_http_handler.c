/* http handlers against a real web server: requests, answers, limits, and what must not leak. */
#include "inbox_kit.h"
#include "support/process/process.h"
#include "support/process/threads.h"
#include "web_kit.h"

#include <semel/look.h>
#include <stdio.h>
#include <stdlib.h>

#define CANARY "canary-7b21f0"

enum { LEASE_MS = 1500, TIMEOUT_MS = 60000, DEADLINE_MS = 60000 };

static web_kit web;

static int start_web(void **state)
{
    (void)state;
    web_kit_start(&web);
    return 0;
}

static int stop_web(void **state)
{
    (void)state;
    web_kit_stop(&web);
    return 0;
}

static const config_pair secrets[] = {{"Authorization", "Bearer " CANARY}, {"X-Empty", ""}};

static void declare(inbox_kit *k, const char *url)
{
    web_kit_forget(&web);
    k->declared.handler = HANDLER_HTTP;
    k->declared.timeout_ms = TIMEOUT_MS;
    k->declared.options.attempts_max = 100;
    k->declared.http = (http_config){
        .url = url, .headers = {secrets, 2}, .private_addresses = 1, .response_bytes = 64 * 1024};
    inbox_kit_start(k);
}

static void declare_path(inbox_kit *k, const char *path)
{
    declare(k, web_kit_url(&web, path));
}

/* Receives, and gives the error that was reported. */
static const char *failure(inbox_kit *k, semel_status status, semel_outcome outcome)
{
    KIT_RECEIVES(status, outcome, k, "{\"order_id\":1}");
    assert_null(strstr(last_error.text, CANARY));
    return last_error.text;
}

/* --- requests --------------------------------------------------------------------------------- */

static semel_message rich_message(void)
{
    static const semel_header headers[] = {
        {"traceparent", {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 55}},
        {"Tenant", {"sh\xc3\xb6p \"1\"", 9}},
        {"tenant", {"second", 6}},
        {"bad", {"a\r\nX-Injected: yes", 18}},
        {"x-dash", {"no attribute", 12}}};
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str("m 1%\r\nX-Injected: yes"),
                           .type = "order.placed",
                           .source = "/shop",
                           .topic = "orders",
                           .group = "g1",
                           .correlation_id = semel_str("c-1"),
                           .content_type = "application/json",
                           .time_ms = INT64_C(1773452577312),
                           .headers = headers,
                           .header_count = 5,
                           .body = semel_str("{\"order_id\":1}")};
}

static void is_header(const char *name, const char *value)
{
    const char *got = web_kit_header(&web, name);
    if (!got || !value) {
        if (got != value)
            fail_msg("%s is %s", name, got ? got : "missing");
        return;
    }
    assert_string_equal(got, value);
}

static void binary_events_have_their_attributes_in_headers(void **state)
{
    inbox_kit *k = *state;
    semel_message message = rich_message();
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE], quoted[64];
    declare_path(k, "answer?code=204");
    check_receive(SEMEL_OK, SEMEL_PROCESSED, k->inbox, &message, handler_run, k->handler, __FILE__,
                  __LINE__);
    OK(semel_inbox_idempotency_key(key, k->inbox, &message, &last_error));
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", key);
    is_header("idempotency-key", quoted);
    is_header("semel-attempt", "1");
    is_header("ce-specversion", "1.0");
    is_header("ce-id", "m%201%25%0D%0AX-Injected:%20yes");
    is_header("ce-source", "/shop");
    is_header("ce-type", "order.placed");
    is_header("ce-subject", "orders");
    is_header("ce-partitionkey", "g1");
    is_header("ce-correlationid", "c-1");
    is_header("ce-time", "2026-03-14T01:42:57.312Z");
    is_header("ce-tenant", "sh%C3%B6p%20%221%22");
    is_header("ce-bad", NULL);
    is_header("ce-xdash", NULL);
    is_header("ce-traceparent", NULL);
    is_header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    is_header("content-type", "application/json");
    is_header("authorization", "Bearer " CANARY);
    is_header("x-empty", "");
    is_header("x-injected", NULL);
    is_header("expect", NULL);
    assert_string_equal(web_kit_body(&web), "{\"order_id\":1}");
}

static void structured_events_are_one_object(void **state)
{
    inbox_kit *k = *state;
    semel_message message = rich_message();
    declare_path(k, "answer");
    k->declared.http.cloudevents = HTTP_STRUCTURED;
    message.id = semel_str("m-1");
    check_receive(SEMEL_OK, SEMEL_PROCESSED, k->inbox, &message, handler_run, k->handler, __FILE__,
                  __LINE__);
    is_header("content-type", "application/cloudevents+json; charset=utf-8");
    is_header("ce-id", NULL);
    assert_non_null(strstr(web_kit_body(&web), "\"data\":{\"order_id\":1}"));
    assert_non_null(strstr(web_kit_body(&web), "\"specversion\":\"1.0\""));
}

static void what_a_message_lacks_is_made_up(void **state)
{
    inbox_kit *k = *state;
    semel_message message = {.size = sizeof message, .body = semel_str("{\"order_id\":1}")};
    declare_path(k, "answer");
    check_receive(SEMEL_OK, SEMEL_PROCESSED, k->inbox, &message, handler_run, k->handler, __FILE__,
                  __LINE__);
    is_header("ce-source", "semel");
    is_header("ce-type", "payments");
    is_header("content-type", "application/json");
    assert_non_null(web_kit_header(&web, "ce-id"));
}

static void a_content_type_with_a_line_break_is_a_dead_letter(void **state)
{
    inbox_kit *k = *state;
    semel_message message = rich_message();
    message.content_type = "text/plain\r\nX-Injected: yes";
    declare_path(k, "answer");
    check_receive(SEMEL_OK, SEMEL_DEAD, k->inbox, &message, handler_run, k->handler, __FILE__,
                  __LINE__);
    assert_int_equal(web_kit_count(&web), 0);
}

static void configured_headers_are_checked(void **state)
{
    static const config_pair bad[] = {{"X-A", CANARY "\r\nX-B: c"},
                                      {"X A", CANARY},
                                      {"X-A:", CANARY},
                                      {"", CANARY},
                                      {"Content-Length", "1"},
                                      {"ce-id", "1"},
                                      {"idempotency-KEY", CANARY},
                                      {"X-A", "a\x7f"}};
    inbox_kit *k = *state;
    k->declared.handler = HANDLER_HTTP;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        k->declared.http = (http_config){.url = "http://127.0.0.1/", .headers = {&bad[i], 1}};
        FAILS(SEMEL_EINVAL, handler_open(&k->handler, &k->all, &k->declared, &last_error));
        assert_null(strstr(last_error.text, CANARY));
    }
    static const char *const urls[] = {"file:///etc/passwd", "ftp://x/", "gopher://x/", "nothing",
                                       "http://"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        k->declared.http = (http_config){.url = urls[i]};
        FAILS(SEMEL_EINVAL, handler_open(&k->handler, &k->all, &k->declared, &last_error));
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

static const struct answer_case {
    const char *path;
    semel_status status;
    semel_outcome outcome;
    const char *error; /* NULL: none */
} answers[] = {
    {"answer?code=200", SEMEL_OK, SEMEL_PROCESSED, NULL},
    {"answer?code=201&type=text/html&body=ok", SEMEL_OK, SEMEL_PROCESSED, NULL},
    {"answer?code=204", SEMEL_OK, SEMEL_PROCESSED, NULL},
    {"answer?code=200&type=application/json&body={}", SEMEL_OK, SEMEL_PROCESSED, NULL},
    {"answer?code=200&type=application/json&body=[1]", SEMEL_OK, SEMEL_PROCESSED, NULL},
    {"answer?code=200&type=application/json&body={%22status%22:%22created%22,%22id%22:17}",
     SEMEL_OK, SEMEL_PROCESSED, NULL}, /* of a service that does not know semel */
    {"answer?code=200&type=application/json&body={%22send%22:[],%22" CANARY "%22:17}",
     SEMEL_EHANDLER, SEMEL_FAILED, "the answer has an unknown member \"*************\""},
    {"answer?code=410", SEMEL_OK, SEMEL_DEAD, "http 410"},
    {"answer?code=200&type=application/json&body={%22status%22:%22DROP%22}", SEMEL_OK, SEMEL_DEAD,
     "http 200"},
    {"answer?code=422&type=application/problem%2bjson&body={%22status%22:%22DROP%22,"
     "%22detail%22:%22no%20tax%22}",
     SEMEL_OK, SEMEL_DEAD, "http 422: no tax"},
    {"answer?code=200&type=application/json&body={%22status%22:%22RETRY%22}", SEMEL_EHANDLER,
     SEMEL_FAILED, "http 200"},
    {"answer?code=200&type=application/json&body={oops", SEMEL_EHANDLER, SEMEL_FAILED,
     "http 200: the answer says that it is JSON and is not"},
    {"answer?code=400", SEMEL_EHANDLER, SEMEL_FAILED, "http 400"},
    {"answer?code=404&type=text/html&body=<html>", SEMEL_EHANDLER, SEMEL_FAILED, "http 404"},
    {"answer?code=422&type=text/plain&body=no%20tax%20rate%1b[2J%0asecond%20line", SEMEL_EHANDLER,
     SEMEL_FAILED, "http 422: no tax rate\\x1b[2J"},
    {"answer?code=500&type=application/json&body={%22error%22:%22broken%22}", SEMEL_EHANDLER,
     SEMEL_FAILED, "http 500: broken"},
    {"answer?code=429", SEMEL_EHANDLER, SEMEL_FAILED, "http 429"},
    {"answer?code=302&location=1", SEMEL_EHANDLER, SEMEL_FAILED,
     "http 302: redirects are not followed; use the address itself"},
    {"answer?code=308&location=1", SEMEL_EHANDLER, SEMEL_FAILED,
     "http 308: redirects are not followed; use the address itself"},
    {"echo", SEMEL_EHANDLER, SEMEL_FAILED, "http 401: bad token ****** *************"},
    {"echo?json=1", SEMEL_EHANDLER, SEMEL_FAILED, "http 401: bad token ****** *************"},
    {"huge", SEMEL_EHANDLER, SEMEL_FAILED,
     "http: the answer is longer than 65536 bytes (response_bytes)"},
};

static char the_dead_error[512];

static const char *error_of(inbox_kit *k, semel_outcome outcome)
{
    if (outcome != SEMEL_DEAD)
        return last_error.text;
    letter only = fixture_only_letter(&k->base);
    (void)snprintf(the_dead_error, sizeof the_dead_error, "%s", only.error);
    return the_dead_error;
}

static void answers_decide(void **state)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const struct answer_case *a = &answers[i];
        void *fresh = NULL;
        inbox_kit_setup(&fresh);
        inbox_kit *k = fresh;
        declare_path(k, a->path);
        print_message("%s\n", a->path);
        KIT_RECEIVES(a->status, a->outcome, k, "{\"order_id\":1}");
        if (a->error)
            assert_string_equal(error_of(k, a->outcome), a->error);
        assert_int_equal(web_kit_count(&web), 1); /* redirects included */
        inbox_kit_teardown(&fresh);
    }
    (void)state;
}

static void a_result_is_stored_with_the_key(void **state)
{
    inbox_kit *k = *state;
    semel_outcome out;
    semel_result *result = NULL;
    semel_message message = rich_message();
    k->declared.options.on_duplicate = SEMEL_DUPLICATE_REPLAY;
    declare_path(k, "answer?type=application/json&body={%22result%22:{%22invoice%22:17.50}}");
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\":1}");
    OK(semel_inbox_receive_result(&out, &result, k->inbox, &message, handler_run, k->handler,
                                  &last_error));
    assert_int_equal(out, SEMEL_REPLAYED);
    assert_int_equal(semel_result_bytes(result).len, 17);
    assert_memory_equal(semel_result_bytes(result).data, "{\"invoice\":17.50}", 17);
    semel_result_free(result);
    assert_int_equal(web_kit_count(&web), 1);
}

static semel_status note_sent(const semel_outgoing *one, void *context, semel_error *err)
{
    buffer *to = context;
    (void)err;
    buffer_printf(to, "%s>%s:%.*s;", one->message->type, one->message->topic,
                  (int)one->message->body.len, (const char *)one->message->body.data);
    return SEMEL_OK;
}

static char *sent(inbox_kit *k)
{
    buffer out = {0};
    semel_outgoing_filter filter = {.size = sizeof filter, .contents = 1};
    buffer_text(&out, "");
    OK(semel_outbox_list(k->outbox, &filter, note_sent, &out, &last_error));
    return out.data;
}

static void messages_of_an_answer_go_with_the_completion(void **state)
{
    inbox_kit *k = *state;
    declare_path(k, "answer?type=application/json&body={%22result%22:1.0,%22send%22:[{%22to%22:"
                    "%22shipping%22,%22type%22:%22order.paid%22,%22body%22:{%22n%22:%201.50}}]}");
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\":1}");
    KIT_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, k, "{\"order_id\":1}");
    char *all = sent(k);
    assert_string_equal(all, "order.paid>shipping:{\"n\": 1.50};");
    free(all);
}

/* The second message goes nowhere; the first must not be sent without it. */
static void an_answer_with_a_mistake_sends_nothing(void **state)
{
    inbox_kit *k = *state;
    declare_path(k, "answer?type=application/json&body={%22send%22:[{%22to%22:%22shipping%22,"
                    "%22type%22:%22a%22},{%22to%22:%22shiping%22,%22type%22:%22b%22}]}");
    assert_string_equal(failure(k, SEMEL_EHANDLER, SEMEL_FAILED),
                        "the answer sends message 2 to a queue that has no outbox");
    char *all = sent(k);
    assert_string_equal(all, "");
    free(all);
}

/* Not earlier than it was asked for, in seconds or as a date; later is always possible. */
static void retry_after_is_obeyed(void **state)
{
    static const char *const paths[] = {"answer?code=503&after=1", "answer?code=429&date=2"};
    inbox_kit *k = *state;
    for (size_t i = 0; i < 2; i++) {
        k->declared.name = i ? "second" : "first";
        declare_path(k, paths[i]);
        int64_t before = process_now_ms();
        const char *error = failure(k, SEMEL_EHANDLER, SEMEL_FAILED);
        assert_non_null(strstr(error, "the service asks to wait"));
        assert_true(process_now_ms() - before >= 900);
    }
}

/* --- trouble ---------------------------------------------------------------------------------- */

static void a_slow_service_is_given_up(void **state)
{
    inbox_kit *k = *state;
    k->declared.name = "slow";
    declare_path(k, "hold");
    k->declared.timeout_ms = 300;
    handler *quick = NULL;
    OK(handler_open(&quick, &k->all, &k->declared, &last_error));
    semel_message message = rich_message();
    check_receive(SEMEL_EHANDLER, SEMEL_FAILED, k->inbox, &message, handler_run, quick, __FILE__,
                  __LINE__);
    assert_string_equal(last_error.text, "http: no response within 300ms");
    handler_close(quick);
    web_kit_release(&web);
}

static void connections_that_fail_are_failures(void **state)
{
    inbox_kit *k = *state;
    declare_path(k, "cut");
    assert_memory_equal(failure(k, SEMEL_EHANDLER, SEMEL_FAILED), "http: ", 6);
    k->declared.name = "refused";
    declare(k, "http://" CANARY ":" CANARY "@127.0.0.1:1/");
    assert_memory_equal(failure(k, SEMEL_EHANDLER, SEMEL_FAILED), "http: ", 6);
    k->declared.name = "unknown";
    declare(k, "http://nonesuch.invalid/");
    assert_memory_equal(failure(k, SEMEL_EHANDLER, SEMEL_FAILED), "http: ", 6);
}

static void a_certificate_that_nobody_signed_is_refused(void **state)
{
    inbox_kit *k = *state;
    char url[64];
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%u/answer", web.secure_port);
    declare(k, url);
    const char *error = failure(k, SEMEL_EHANDLER, SEMEL_FAILED);
    assert_non_null(strstr(error, "certificate"));
    assert_int_equal(web_kit_count(&web), 0);
}

static void connections_are_kept(void **state)
{
    inbox_kit *k = *state;
    char body[64];
    declare_path(k, "answer?type=text/plain&body=done");
    for (int i = 0; i < 20; i++) {
        (void)snprintf(body, sizeof body, "{\"order_id\":%d}", i);
        KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, body);
    }
    assert_int_equal(web_kit_count(&web), 20);
    assert_int_equal(web_kit_connections(&web), 1);
}

static void private_addresses_are_refused(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost",  "[::ffff:127.0.0.1]",
                                        "0.0.0.0",   "2130706433", "127.1"};
    inbox_kit *k = *state;
    char url[128], name[16];
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        (void)snprintf(url, sizeof url, "http://%s:%u/answer", hosts[i], web.port);
        (void)snprintf(name, sizeof name, "private-%zu", i);
        k->declared.name = name;
        declare(k, url);
        k->declared.http.private_addresses = 0;
        assert_string_equal(failure(k, SEMEL_EHANDLER, SEMEL_FAILED),
                            "http: the host has a private address, and private_addresses is false");
    }
    assert_int_equal(web_kit_count(&web), 0);
}

/* --- the lease -------------------------------------------------------------------------------- */

static semel_outcome got; /* to be looked at when the thread has ended */

static void receive_in_thread(test_thread *member)
{
    inbox_kit *k = member->context;
    semel_message message = rich_message();
    semel_error err = {0};
    (void)semel_inbox_receive(&got, k->inbox, &message, handler_run, k->handler, &err);
}

static int64_t lease_left(inbox_kit *k)
{
    int64_t now = 0;
    OK(semel_store_now(&now, k->base.store, &last_error));
    return inbox_kit_number(k, "SELECT coalesce(max(lease_until_ms), 0) FROM semel_marker") - now;
}

/* Until /hold has been asked. */
static void wait_until_asked(void)
{
    int64_t end = process_now_ms() + DEADLINE_MS;
    while (!web_kit_count(&web) && process_now_ms() < end)
        process_nap();
    assert_int_equal(web_kit_count(&web), 1);
}

/* The lease ends by the store's clock, which stands still but for what the test lets pass. */
static void the_lease_is_renewed_while_the_service_works(void **state)
{
    inbox_kit *k = *state;
    test_thread member;
    k->declared.options.lease_ms = LEASE_MS;
    declare_path(k, "hold");
    test_thread_start(&member, receive_in_thread, k);
    wait_until_asked();
    for (int i = 0; i < 3; i++) {
        semel_test_advance_ms(k->base.seam, LEASE_MS - 100);
        int64_t end = process_now_ms() + DEADLINE_MS;
        while (lease_left(k) < LEASE_MS - 100 && process_now_ms() < end)
            process_nap();
        assert_true(lease_left(k) >= LEASE_MS - 100);
    }
    web_kit_release(&web);
    assert_true(test_thread_join(&member, DEADLINE_MS));
    assert_int_equal(got, SEMEL_PROCESSED);
}

/* The service never answers; the test would take as long as the timeout. */
static void a_lost_lease_ends_the_request(void **state)
{
    inbox_kit *k = *state;
    test_thread member;
    k->declared.options.lease_ms = LEASE_MS;
    declare_path(k, "hold");
    k->declared.timeout_ms = 10 * DEADLINE_MS;
    test_thread_start(&member, receive_in_thread, k);
    wait_until_asked();
    semel_test_advance_ms(k->base.seam, 10 * LEASE_MS);
    assert_true(test_thread_join(&member, DEADLINE_MS / 2));
    assert_int_equal(got, SEMEL_FAILED);
    web_kit_release(&web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_ON_SQLITE(binary_events_have_their_attributes_in_headers),
        KIT_ON_SQLITE(structured_events_are_one_object),
        KIT_ON_SQLITE(what_a_message_lacks_is_made_up),
        KIT_ON_SQLITE(a_content_type_with_a_line_break_is_a_dead_letter),
        KIT_ON_SQLITE(configured_headers_are_checked),
        cmocka_unit_test(answers_decide),
        KIT_ON_SQLITE(a_result_is_stored_with_the_key),
        KIT_ON_SQLITE(messages_of_an_answer_go_with_the_completion),
        KIT_ON_SQLITE(an_answer_with_a_mistake_sends_nothing),
        KIT_ON_SQLITE(retry_after_is_obeyed),
        KIT_ON_SQLITE(a_slow_service_is_given_up),
        KIT_ON_SQLITE(connections_that_fail_are_failures),
        KIT_ON_SQLITE(a_certificate_that_nobody_signed_is_refused),
        KIT_ON_SQLITE(connections_are_kept),
        KIT_ON_SQLITE(private_addresses_are_refused),
        KIT_ON_SQLITE(the_lease_is_renewed_while_the_service_works),
        KIT_ON_SQLITE(a_lost_lease_ends_the_request),
    };
    return cmocka_run_group_tests_name("http_handler", tests, start_web, stop_web);
}
