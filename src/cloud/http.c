/* See http.h. The body is given to libcurl by a callback that cannot go back: so libcurl fails
 * instead of sending it a second time. */
#include "cloud/http.h"

#include "base/mem.h"
#include "base/sigpipe.h"
#include "base/wait.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 << 20, IDLE_S = 30 };

typedef struct handle {
    struct handle *next;
    CURL *curl;
} handle;

struct cloud_http {
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t freed;
    handle *idle;
    uint32_t made, most;
    pid_t owner;
};

/* What the callbacks of one exchange share. */
typedef struct transfer {
    cloud_answer *answer;
    semel_bytes left; /* of the body */
    int too_large;
    char trouble[CURL_ERROR_SIZE];
} transfer;

static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void start_curl_quietly(void)
{
    sigpipe_undisturbed(start_curl);
}

semel_status cloud_http_open(cloud_http **out, uint32_t handles, semel_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start_curl_quietly);
    cloud_http *http = mem_alloc(sizeof *http);
    if (!http)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening an HTTP client");
    *http = (cloud_http){.most = handles ? handles : 1, .owner = getpid()};
    int failed = pthread_mutex_init(&http->lock, NULL);
    if (!failed && wait_condition_init(&http->freed)) {
        (void)pthread_mutex_destroy(&http->lock);
        failed = 1;
    }
    if (failed) {
        mem_free(http);
        return semel_fail(err, SEMEL_ENOMEM, "no mutex for an HTTP client");
    }
    *out = http;
    return SEMEL_OK;
}

void cloud_http_close(cloud_http *http)
{
    if (!http)
        return;
    while (http->idle) {
        handle *one = http->idle;
        http->idle = one->next;
        curl_easy_cleanup(one->curl);
        mem_free(one);
    }
    (void)pthread_cond_destroy(&http->freed);
    (void)pthread_mutex_destroy(&http->lock);
    mem_free(http);
}

void cloud_answer_clear(cloud_answer *answer)
{
    mem_free(answer->body.bytes);
    *answer = (cloud_answer){0};
}

/* --- the pool --------------------------------------------------------------------------------- */

static handle *make_handle(void)
{
    handle *one = mem_alloc(sizeof *one);
    if (one)
        one->curl = curl_easy_init();
    if (one && !one->curl) {
        mem_free(one);
        one = NULL;
    }
    return one;
}

/* Waits while all are in use. */
static int wait_for_turn(cloud_http *http, uint32_t wait_ms)
{
    struct timespec until = wait_until(wait_clock_ms() + wait_ms);
    int late = 0;
    while (!http->idle && http->made == http->most && !late)
        late = pthread_cond_timedwait(&http->freed, &http->lock, &until) != 0;
    return http->idle != NULL || http->made < http->most;
}

static semel_status take_handle(handle **out, cloud_http *http, uint32_t wait_ms, semel_error *err)
{
    (void)pthread_mutex_lock(&http->lock);
    int ours = wait_for_turn(http, wait_ms);
    *out = ours ? http->idle : NULL;
    if (*out)
        http->idle = (*out)->next;
    else if (ours)
        http->made++;
    (void)pthread_mutex_unlock(&http->lock);
    if (!ours)
        return semel_fail(err, SEMEL_EBUSY,
                          "no connection was free within %u ms; a larger pool= in the URL allows "
                          "more requests at once",
                          wait_ms);
    if (*out || (*out = make_handle()) != NULL)
        return SEMEL_OK;
    (void)pthread_mutex_lock(&http->lock);
    http->made--;
    (void)pthread_cond_signal(&http->freed);
    (void)pthread_mutex_unlock(&http->lock);
    return semel_fail(err, SEMEL_ENOMEM, "out of memory making a connection");
}

static void give_back(cloud_http *http, handle *one)
{
    curl_easy_reset(one->curl); /* the connections stay */
    (void)pthread_mutex_lock(&http->lock);
    one->next = http->idle;
    http->idle = one;
    (void)pthread_cond_signal(&http->freed);
    (void)pthread_mutex_unlock(&http->lock);
}

/* --- one exchange ----------------------------------------------------------------------------- */

static size_t take_body(char *data, size_t one, size_t count, void *context)
{
    transfer *t = context;
    size_t len = one * count;
    if (t->answer->body.len + len > ANSWER_MAX) {
        t->too_large = 1;
        return 0;
    }
    text_append(&t->answer->body, data, len);
    return t->answer->body.failed ? 0 : len;
}

static size_t take_header(char *line, size_t one, size_t count, void *context)
{
    enum { DATE_TEXT = 64 };
    static const char name[] = "date:";
    transfer *t = context;
    size_t len = one * count;
    char date[DATE_TEXT];
    if (len > sizeof name && len < sizeof date && strncasecmp(line, name, sizeof name - 1) == 0) {
        (void)snprintf(date, sizeof date, "%.*s", (int)(len - (sizeof name - 1)),
                       line + sizeof name - 1);
        time_t at = curl_getdate(date, NULL);
        t->answer->date_s = at > 0 ? (int64_t)at : 0;
    }
    return len;
}

static size_t give_body(char *to, size_t one, size_t count, void *context)
{
    transfer *t = context;
    size_t room = one * count, len = t->left.len < room ? t->left.len : room;
    if (len)
        memcpy(to, t->left.data, len);
    t->left.data = (const char *)t->left.data + len;
    t->left.len -= len;
    return len;
}

static int never_again(void *context, curl_off_t offset, int origin)
{
    (void)context;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

/* An option that libcurl refuses to take is out of memory, or of another libcurl. */
#define SET(option, value) (failed = failed ? failed : curl_easy_setopt(curl, (option), (value)))

static CURLcode set_way(CURL *curl, const cloud_request *request)
{
    CURLcode failed = CURLE_OK;
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_MAXAGE_CONN, (long)IDLE_S);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(request->connect_ms ? request->connect_ms : 1));
    SET(CURLOPT_TIMEOUT_MS, (long)(request->answer_ms ? request->answer_ms : 1));
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    if (request->direct)
        SET(CURLOPT_PROXY, "");
    return failed;
}

static CURLcode set_content(CURL *curl, const cloud_request *request, transfer *t)
{
    CURLcode failed = CURLE_OK;
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_HEADERFUNCTION, take_header);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_ERRORBUFFER, t->trouble);
    if (strcmp(request->method, "GET") == 0)
        return failed;
    SET(CURLOPT_POST, 1L);
    if (strcmp(request->method, "POST") != 0)
        SET(CURLOPT_CUSTOMREQUEST, request->method);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    SET(CURLOPT_READFUNCTION, give_body);
    SET(CURLOPT_READDATA, t);
    SET(CURLOPT_SEEKFUNCTION, never_again);
    return failed;
}

static struct curl_slist *make_headers(const cloud_request *request)
{
    /* It would wait for the server before it sends a large body. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    for (size_t i = 0; list && i < CLOUD_HEADERS_MAX && request->headers[i]; i++) {
        struct curl_slist *longer = curl_slist_append(list, request->headers[i]);
        if (!longer)
            curl_slist_free_all(list);
        list = longer;
    }
    return list;
}

/* Nothing can have arrived if no connection came to stand, or no byte of the request went out. */
static int may_have_arrived(CURL *curl, CURLcode code)
{
    static const CURLcode before[] = {CURLE_UNSUPPORTED_PROTOCOL,    CURLE_URL_MALFORMAT,
                                      CURLE_COULDNT_RESOLVE_PROXY,   CURLE_COULDNT_RESOLVE_HOST,
                                      CURLE_COULDNT_CONNECT,         CURLE_SSL_CONNECT_ERROR,
                                      CURLE_PEER_FAILED_VERIFICATION};
    long bytes = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (code == before[i])
            return 0;
    return curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &bytes) != CURLE_OK || bytes > 0;
}

static semel_status explain(const cloud_request *request, const transfer *t, CURLcode code,
                            semel_error *err)
{
    int place = (int)strcspn(request->url, "?");
    const char *text = t->trouble[0] ? t->trouble : curl_easy_strerror(code);
    if (t->too_large)
        return semel_fail(err, SEMEL_ELIMIT, "%.*s: an answer of more than %d bytes", place,
                          request->url, ANSWER_MAX);
    if (code == CURLE_OUT_OF_MEMORY || t->answer->body.failed)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory in a request to %.*s", place,
                          request->url);
    return semel_fail(err, SEMEL_EUNAVAILABLE, "%.*s: %s", place, request->url, text);
}

static semel_status run(CURL *curl, const cloud_request *request, transfer *t, semel_error *err)
{
    sigpipe_guard guard;
    struct curl_slist *headers = make_headers(request);
    CURLcode code = headers ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    code = code ? code : set_way(curl, request);
    code = code ? code : set_content(curl, request, t);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (!code) {
        sigpipe_guard_up(&guard, 1);
        t->answer->sent_us = wait_clock_ns() / 1000;
        code = curl_easy_perform(curl);
        t->answer->heard_us = wait_clock_ns() / 1000;
        sigpipe_guard_down(&guard);
        t->answer->maybe_sent = code && may_have_arrived(curl, code);
    }
    if (!code)
        code = curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->answer->status);
    else
        t->answer->status = 0;
    curl_slist_free_all(headers);
    return code ? explain(request, t, code, err) : SEMEL_OK;
}

semel_status cloud_http_exchange(cloud_http *http, const cloud_request *request,
                                 cloud_answer *answer, semel_error *err)
{
    transfer t = {.answer = answer, .left = request->body};
    handle *one;
    cloud_answer_clear(answer);
    if (getpid() != http->owner)
        return semel_fail(err, SEMEL_EMISUSE,
                          "this was opened before fork(); open it anew in the child");
    semel_status status = take_handle(&one, http, request->wait_ms, err);
    if (status)
        return status;
    status = run(one->curl, request, &t, err);
    give_back(http, one);
    return status;
}
