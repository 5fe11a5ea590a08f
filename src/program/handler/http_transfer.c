/* See http_transfer.h. */
#include "program/handler/http_transfer.h"

#include "program/handler/child.h"
#include "program/handler/http_address.h"
#include "program/support/units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAUSE_MAX_MS = 1000, CONNECTION_AGE_S = 4 };

struct http_handle {
    http_handle *next;
    CURL *curl;
    CURLM *waiter; /* has the connections, and waits no longer than it is told */
};

/* --- handles ---------------------------------------------------------------------------------- */

static void init_library(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_pool_open(http_pool *pool)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_library);
    pthread_mutex_init(&pool->lock, NULL);
    pool->idle = NULL;
}

static http_handle *take_handle(http_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    http_handle *handle = pool->idle;
    if (handle)
        pool->idle = handle->next;
    pthread_mutex_unlock(&pool->lock);
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

static void give_handle(http_pool *pool, http_handle *handle)
{
    curl_easy_reset(handle->curl); /* which keeps its connections */
    pthread_mutex_lock(&pool->lock);
    handle->next = pool->idle;
    pool->idle = handle;
    pthread_mutex_unlock(&pool->lock);
}

void http_pool_close(http_pool *pool)
{
    for (http_handle *at = pool->idle, *next; at; at = next) {
        next = at->next;
        free_handle(at);
    }
    pthread_mutex_destroy(&pool->lock);
}

semel_status http_url_check(const char *what, const char *url, semel_error *err)
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
                           "%s: the URL is not valid; it begins with http:// or https://", what);
}

/* --- the lease -------------------------------------------------------------------------------- */

int http_transfer_keep_lease(http_transfer *t)
{
    if (!t->unit || child_clock_ms() < t->renew_ms)
        return 1;
    t->renew_ms = child_clock_ms() + t->lease_ms / 3;
    semel_status status = semel_unit_renew(t->unit, 0, &t->why);
    if (status == SEMEL_ELOST)
        t->lost = status;
    return !t->lost;
}

/* Until the lease is to be renewed. */
static int wait_ms(const http_transfer *t)
{
    int64_t left = t->unit ? t->renew_ms - child_clock_ms() : PAUSE_MAX_MS;
    return left < 0 ? 0 : left > PAUSE_MAX_MS ? PAUSE_MAX_MS : (int)left;
}

/* --- libcurl's functions ---------------------------------------------------------------------- */

/* The address is the one that is connected to, whatever its name meant a moment ago. No child of an
 * exec handler gets the socket. */
static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    http_transfer *t = context;
    (void)purpose;
    if (!t->private_addresses && !http_address_is_public(&address->addr)) {
        t->is_private = 1;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t on_bytes(char *data, size_t size, size_t count, void *context)
{
    http_transfer *t = context;
    size_t len = size * count;
    if (len > t->room - t->body.len) {
        t->too_long = 1;
        return 0;
    }
    buffer_add(&t->body, data, len);
    return len;
}

/* There is a connection, and the request is sent next. libcurl comes here again if a connection
 * that it had kept ends without an answer: the server may have worked on the request all the
 * same. */
static int on_send(void *context, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    http_transfer *t = context;
    (void)remote_ip, (void)local_ip, (void)remote_port, (void)local_port;
    return t->sent++ && t->sends_once ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* --- one transfer ----------------------------------------------------------------------------- */

static int set_limits(CURL *curl, const http_transfer *t)
{
    unsigned failed = 0;
    failed |= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    failed |= curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    failed |= curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    failed |= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)t->timeout_ms);
    failed |= curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)t->timeout_ms);
    if (!t->private_addresses) /* a proxy would connect in our place, unseen */
        failed |= curl_easy_setopt(curl, CURLOPT_PROXY, "");
    if (t->sends_once) /* many servers close a connection that was idle for five seconds */
        failed |= curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, (long)CONNECTION_AGE_S);
    return !failed;
}

static int set_functions(CURL *curl, http_transfer *t)
{
    unsigned failed = 0;
    failed |= curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    failed |= curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, t);
    failed |= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    failed |= curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    failed |= curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, on_send);
    failed |= curl_easy_setopt(curl, CURLOPT_PREREQDATA, t);
    failed |= curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, t->said);
    return !failed;
}

semel_status http_transfer_begin(http_transfer *t, http_pool *pool, semel_error *err)
{
    t->pool = pool;
    t->handle = take_handle(pool);
    t->curl = t->handle->curl;
    t->renew_ms = child_clock_ms() + t->lease_ms / 3;
    if (t->curl && t->handle->waiter && set_limits(t->curl, t) && set_functions(t->curl, t))
        return SEMEL_OK;
    http_transfer_end(t);
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for libcurl");
}

/* A handle that could not be made is not kept. */
void http_transfer_end(http_transfer *t)
{
    if (t->curl && t->handle->waiter)
        give_handle(t->pool, t->handle);
    else
        free_handle(t->handle);
    t->curl = NULL;
    t->handle = NULL;
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

static int goes_on(http_transfer *t)
{
    return http_transfer_keep_lease(t) && !(t->gives_up && t->gives_up(t));
}

CURLcode http_transfer_run(http_transfer *t)
{
    CURLM *waiter = t->handle->waiter;
    int running = 1;
    if (curl_multi_add_handle(waiter, t->curl))
        return CURLE_OUT_OF_MEMORY;
    while (!curl_multi_perform(waiter, &running) && running && goes_on(t) &&
           !curl_multi_poll(waiter, NULL, 0, wait_ms(t), NULL))
        ;
    CURLcode code = running ? CURLE_ABORTED_BY_CALLBACK : result_of(waiter);
    (void)curl_multi_remove_handle(waiter, t->curl);
    return code;
}

semel_status http_transfer_fail(const http_transfer *t, CURLcode code, semel_status status,
                                semel_error *err)
{
    if (t->lost) {
        if (err)
            *err = t->why;
        return t->lost;
    }
    if (t->too_long)
        return semel_fail(err, status, "http: the answer is longer than %zu bytes (response_bytes)",
                          t->room);
    if (t->is_private)
        return semel_fail(err, status,
                          "http: the host has a private address, and private_addresses is false");
    if (code == CURLE_OPERATION_TIMEDOUT)
        return semel_fail(err, status, "http: no response within %s",
                          units_show_duration(t->timeout_ms).text);
    if (code == CURLE_GOT_NOTHING || (t->sends_once && t->sent > 1))
        return semel_fail(err, status, "http: the connection ended without an answer");
    return semel_fail(err, status, "http: %s", *t->said ? t->said : curl_easy_strerror(code));
}
