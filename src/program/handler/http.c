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
#include "program/handler/handler.h"
#include "program/handler/http_address.h"
#include "program/handler/http_answer.h"
#include "program/handler/http_request.h"
#include "program/support/units.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LEASE_DEFAULT_MS = 30000,
    RESPONSE_DEFAULT = 64 * 1024,
    RETRY_AFTER_MAX_MS = 60000,
    PAUSE_MS = 100,
    PAUSE_MAX_MS = 1000,
    HTTP_TOO_MANY = 429,
    HTTP_UNAVAILABLE = 503
};

typedef struct http_handle {
    struct http_handle *next;
    CURL *curl;
    CURLM *waiter; /* has the connections, and waits no longer than it is told */
} http_handle;

typedef struct http_state {
    const config *all;
    const http_config *config;
    const char *inbox;
    uint32_t timeout_ms;
    uint32_t lease_ms;
    pthread_mutex_t lock; /* over the list */
    http_handle *idle;
} http_state;

/* One request, and what libcurl's functions need to know. */
typedef struct transfer {
    const http_state *state;
    semel_unit *unit;
    http_answer answer;
    size_t room;      /* of the answer */
    int too_long;     /* the answer was */
    int is_private;   /* an address was refused */
    int64_t renew_ms; /* when the lease is to be renewed */
    semel_status lost;
    semel_error why;
} transfer;

/* --- the lease -------------------------------------------------------------------------------- */

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Three times in a lease: one that fails for a while costs nothing. 0 if the lease is lost. */
static int keep_lease(transfer *t)
{
    if (clock_ms() < t->renew_ms)
        return 1;
    t->renew_ms = clock_ms() + t->state->lease_ms / 3;
    semel_status status = semel_unit_renew(t->unit, 0, &t->why);
    if (status == SEMEL_ELOST)
        t->lost = status;
    return !t->lost;
}

/* Until the lease is to be renewed. */
static int wait_ms(const transfer *t)
{
    int64_t left = t->renew_ms - clock_ms();
    return left < 0 ? 0 : left > PAUSE_MAX_MS ? PAUSE_MAX_MS : (int)left;
}

/* --- libcurl's functions ---------------------------------------------------------------------- */

/* The address is the one that is connected to, whatever its name meant a moment ago. No child of an
 * exec handler gets the socket. */
static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    transfer *t = context;
    (void)purpose;
    if (!t->state->config->private_addresses && !http_address_is_public(&address->addr)) {
        t->is_private = 1;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t on_bytes(char *data, size_t size, size_t count, void *context)
{
    transfer *t = context;
    size_t len = size * count;
    if (len > t->room - t->answer.body.len) {
        t->too_long = 1;
        return 0;
    }
    buffer_add(&t->answer.body, data, len);
    return len;
}

/* --- handles ---------------------------------------------------------------------------------- */

static void init_library(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static http_handle *take_handle(http_state *state)
{
    pthread_mutex_lock(&state->lock);
    http_handle *handle = state->idle;
    if (handle)
        state->idle = handle->next;
    pthread_mutex_unlock(&state->lock);
    if (handle)
        return handle;
    handle = must_alloc(sizeof *handle);
    handle->curl = curl_easy_init();
    handle->waiter = curl_multi_init();
    return handle;
}

static void free_handle(http_handle *handle)
{
    curl_easy_cleanup(handle->curl);
    curl_multi_cleanup(handle->waiter);
    free(handle);
}

static void give_handle(http_state *state, http_handle *handle)
{
    curl_easy_reset(handle->curl); /* which keeps its connections */
    pthread_mutex_lock(&state->lock);
    handle->next = state->idle;
    state->idle = handle;
    pthread_mutex_unlock(&state->lock);
}

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status check_url(const char *url, semel_error *err)
{
    char *scheme = NULL;
    CURLU *parsed = curl_url();
    int ok = parsed && !curl_url_set(parsed, CURLUPART_URL, url, 0) &&
             !curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) &&
             (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    return ok ? SEMEL_OK
              : semel_fail(err, SEMEL_EINVAL,
                           "http: the URL is not valid; it begins with http:// or https://");
}

static semel_status open_http(void **out, const config *all, const inbox_config *inbox,
                              semel_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_library);
    semel_status status = check_url(inbox->http.url, err);
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
    pthread_mutex_init(&state->lock, NULL);
    *out = state;
    return SEMEL_OK;
}

static void close_http(void *opened)
{
    http_state *state = opened;
    for (http_handle *at = state->idle, *next; at; at = next) {
        next = at->next;
        free_handle(at);
    }
    pthread_mutex_destroy(&state->lock);
    free(state);
}

/* --- one request ------------------------------------------------------------------------------ */

/* What limits a transfer: neither redirects nor other protocols, and a bounded time. */
static int set_limits(CURL *curl, const http_state *state)
{
    unsigned failed = 0;
    failed |= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    failed |= curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    failed |= curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    failed |= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)state->timeout_ms);
    failed |= curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)state->timeout_ms);
    if (!state->config->private_addresses) /* a proxy would connect in our place, unseen */
        failed |= curl_easy_setopt(curl, CURLOPT_PROXY, "");
    return !failed;
}

static int set_functions(CURL *curl, transfer *t)
{
    unsigned failed = 0;
    failed |= curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    failed |= curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, t);
    failed |= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    failed |= curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    return !failed;
}

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

/* What libcurl says has names, numbers and addresses in it, and no header or body. */
static semel_status transfer_failed(const transfer *t, CURLcode code, const char *said,
                                    semel_error *err)
{
    const http_state *state = t->state;
    if (t->lost) {
        if (err)
            *err = t->why;
        return t->lost;
    }
    if (t->too_long)
        return semel_fail(err, SEMEL_EHANDLER,
                          "http: the answer is longer than %zu bytes (response_bytes)", t->room);
    if (t->is_private)
        return semel_fail(err, SEMEL_EHANDLER,
                          "http: the host has a private address, and private_addresses is false");
    if (code == CURLE_OPERATION_TIMEDOUT)
        return semel_fail(err, SEMEL_EHANDLER, "http: no response within %s",
                          units_show_duration(state->timeout_ms).text);
    return semel_fail(err, SEMEL_EHANDLER, "http: %s", *said ? said : curl_easy_strerror(code));
}

/* How the one transfer ended. */
static CURLcode result_of(CURLM *waiter)
{
    int more = 0;
    for (const CURLMsg *said; (said = curl_multi_info_read(waiter, &more));)
        if (said->msg == CURLMSG_DONE)
            return said->data.result;
    return CURLE_FAILED_INIT;
}

static CURLcode run_transfer(transfer *t, http_handle *handle)
{
    int running = 1;
    if (curl_multi_add_handle(handle->waiter, handle->curl))
        return CURLE_OUT_OF_MEMORY;
    while (!curl_multi_perform(handle->waiter, &running) && running && keep_lease(t) &&
           !curl_multi_poll(handle->waiter, NULL, 0, wait_ms(t), NULL))
        ;
    CURLcode code = running ? CURLE_ABORTED_BY_CALLBACK : result_of(handle->waiter);
    (void)curl_multi_remove_handle(handle->waiter, handle->curl);
    return code;
}

static semel_status perform(transfer *t, http_handle *handle, const http_request *request,
                            semel_error *err)
{
    CURL *curl = handle->curl;
    char said[CURL_ERROR_SIZE] = "";
    curl_off_t after = 0;
    if (!set_limits(curl, t->state) || !set_functions(curl, t) ||
        !set_request(curl, t->state, request) || curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, said))
        return semel_fail(err, SEMEL_ENOMEM, "http: libcurl does not take the request");
    CURLcode code = run_transfer(t, handle);
    if (code)
        return transfer_failed(t, code, said, err);
    char *type = NULL;
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
        clock_ms() + (asked > RETRY_AFTER_MAX_MS / 1000 ? RETRY_AFTER_MAX_MS : asked * 1000);
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    while (clock_ms() < end) {
        if (semel_unit_stopping(t->unit))
            return semel_fail(err, SEMEL_ESTOPPED, "http %ld: the program stops", t->answer.code);
        if (!keep_lease(t)) {
            if (err)
                *err = t->why;
            return t->lost;
        }
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

static semel_status send_request(transfer *t, http_handle *handle, const http_request *request,
                                 semel_error *err)
{
    const http_state *state = t->state;
    semel_status status = handle->curl && handle->waiter
                              ? perform(t, handle, request, err)
                              : semel_fail(err, SEMEL_ENOMEM, "out of memory for libcurl");
    if (!status)
        status = http_answer_take(&t->answer, state->config, t->unit, state->all, err);
    return status == SEMEL_EHANDLER && asks_to_wait(&t->answer) ? wait_as_asked(t, status, err)
                                                                : status;
}

static semel_status handle_http(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    http_state *state = context;
    http_request request;
    transfer t = {.state = state, .unit = unit, .renew_ms = clock_ms() + state->lease_ms / 3};
    t.room =
        state->config->response_bytes ? (size_t)state->config->response_bytes : RESPONSE_DEFAULT;
    semel_status status =
        http_request_make(&request, state->config, state->inbox, unit, message, err);
    if (!status) {
        http_handle *handle = take_handle(state);
        status = send_request(&t, handle, &request, err);
        give_handle(state, handle);
    }
    http_request_free(&request);
    buffer_free(&t.answer.body);
    return status;
}

const handler_class http_handler = {HANDLER_HTTP, "http",     SEMEL_CLAIM,
                                    open_http,    close_http, handle_http};
