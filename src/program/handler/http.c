/* http: POSTs each message to a service, in claim mode: the claim is stored before, the completion
 * after, and no transaction is open in between. If the process dies while the service works, the
 * message is sent again when the lease has ended, with the same Idempotency-Key: effectively once,
 * if the service recognizes that.
 *
 * Handles of libcurl keep their connections, and wait in a list for the next message. A transfer
 * renews the lease while it waits, and is given up when the lease is lost.
 *
 * A service that asks to wait (Retry-After with 429 or 503) is obeyed here: the handler waits, with
 * the lease renewed, and then reports the failure, so that the next attempt comes no earlier. It
 * waits for at most RETRY_AFTER_MAX_MS, since it keeps a worker of the queue from other messages,
 * and not when the program stops. */
#include "program/handler/child.h"
#include "program/handler/handler.h"
#include "program/handler/http_answer.h"
#include "program/handler/http_request.h"
#include "program/handler/http_transfer.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <time.h>

enum {
    LEASE_DEFAULT_MS = 30000,
    RESPONSE_DEFAULT = 64 * 1024,
    RETRY_AFTER_MAX_MS = 60000,
    PAUSE_MS = 100,
    HTTP_TOO_MANY = 429,
    HTTP_UNAVAILABLE = 503
};

typedef struct http_state {
    const config *all;
    const http_config *config;
    const char *inbox;
    uint32_t timeout_ms;
    uint32_t lease_ms;
    http_pool pool;
} http_state;

/* One request, and what libcurl's functions need to know. */
typedef struct transfer {
    const http_state *state;
    http_transfer http;
    http_answer answer;
} transfer;

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status open_http(void **out, const config *all, const inbox_config *inbox,
                              semel_error *err)
{
    semel_status status = http_url_check("http", inbox->http.url, err);
    if (!status)
        status = http_headers_check(&inbox->http.headers, err);
    if (status)
        return status;
    http_state *state = must_alloc(sizeof *state);
    state->all = all;
    state->config = &inbox->http;
    state->inbox = inbox->name;
    state->timeout_ms = inbox->timeout_ms;
    state->lease_ms = inbox->options.lease_ms ? inbox->options.lease_ms : LEASE_DEFAULT_MS;
    http_pool_open(&state->pool);
    *out = state;
    return SEMEL_OK;
}

static void close_http(void *opened)
{
    http_state *state = opened;
    http_pool_close(&state->pool);
    free(state);
}

/* --- one request ------------------------------------------------------------------------------ */

static int set_request(CURL *curl, const http_state *state, const http_request *request)
{
    unsigned failed = 0;
    failed |= curl_easy_setopt(curl, CURLOPT_URL, state->config->url);
    failed |= curl_easy_setopt(curl, CURLOPT_USERAGENT, "semel/" SEMEL_VERSION);
    failed |= curl_easy_setopt(curl, CURLOPT_POST, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    failed |= curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    failed |= curl_easy_setopt(curl, CURLOPT_HTTPHEADER, request->headers);
    return !failed;
}

static semel_status perform(transfer *t, const http_request *request, semel_error *err)
{
    CURL *curl = t->http.curl;
    curl_off_t after = 0;
    if (!set_request(curl, t->state, request))
        return semel_fail(err, SEMEL_ENOMEM, "http: libcurl does not take the request");
    CURLcode code = http_transfer_run(&t->http);
    if (code)
        return http_transfer_fail(&t->http, code, SEMEL_EHANDLER, err);
    char *type = NULL;
    t->answer.body = t->http.body;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->answer.code);
    (void)curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    (void)curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &after);
    t->answer.content_type = type;
    t->answer.retry_after_s = after;
    return SEMEL_OK;
}

/* --- one message ------------------------------------------------------------------------------ */

static int asks_to_wait(const http_answer *answer)
{
    return (answer->code == HTTP_TOO_MANY || answer->code == HTTP_UNAVAILABLE) &&
           answer->retry_after_s > 0;
}

/* The service has done nothing, so that a program that stops need not count this attempt. */
static semel_status wait_as_asked(transfer *t, semel_status status, semel_error *err)
{
    int64_t asked = t->answer.retry_after_s;
    int64_t end =
        child_clock_ms() + (asked > RETRY_AFTER_MAX_MS / 1000 ? RETRY_AFTER_MAX_MS : asked * 1000);
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    while (child_clock_ms() < end) {
        if (semel_unit_stopping(t->http.unit))
            return semel_fail(err, SEMEL_ESTOPPED, "http %ld: the program stops", t->answer.code);
        if (!http_transfer_keep_lease(&t->http))
            return http_transfer_fail(&t->http, CURLE_OK, status, err);
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

static semel_status send_request(transfer *t, const http_request *request, semel_error *err)
{
    const http_state *state = t->state;
    semel_status status = perform(t, request, err);
    if (!status)
        status = http_answer_take(&t->answer, state->config, t->http.unit, state->all, err);
    return status == SEMEL_EHANDLER && asks_to_wait(&t->answer) ? wait_as_asked(t, status, err)
                                                                : status;
}

static http_transfer transfer_of(const http_state *state, semel_unit *unit)
{
    uint64_t room = state->config->response_bytes;
    return (http_transfer){.timeout_ms = state->timeout_ms,
                           .private_addresses = state->config->private_addresses,
                           .room = room ? (size_t)room : RESPONSE_DEFAULT,
                           .unit = unit,
                           .lease_ms = state->lease_ms};
}

static semel_status handle_http(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    http_state *state = context;
    http_request request;
    transfer t = {.state = state, .http = transfer_of(state, unit)};
    semel_status status =
        http_request_make(&request, state->config, state->inbox, unit, message, err);
    if (!status)
        status = http_transfer_begin(&t.http, &state->pool, err);
    if (!status) {
        status = send_request(&t, &request, err);
        http_transfer_end(&t.http);
    }
    http_request_free(&request);
    buffer_free(&t.http.body);
    return status;
}

const handler_class http_handler = {HANDLER_HTTP, "http",     SEMEL_CLAIM,
                                    open_http,    close_http, handle_http};
