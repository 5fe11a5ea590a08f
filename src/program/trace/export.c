/* See export.h.
 *
 * 429, 502, 503, 504 and a connection that fails may pass: the same request is sent again, after a
 * pause that doubles, or that the collector asks for, until OTEL_BSP_EXPORT_TIMEOUT is over.
 * Meanwhile the queue of spans fills up and then loses some; nobody waits. Any other answer that is
 * no success will not pass, and the spans are given up at once.
 *
 * A collector that fails is one line in the log, and one more when it takes spans again. */
#include "program/trace/export.h"

#include "program/run/sample.h"
#include "program/support/show.h"
#include "program/trace/packed.h"

#include <curl/curl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    NS_PER_MS = 1000000,
    PAUSE_LEAST_MS = 500,
    PAUSE_MOST_MS = 10000,
    ANSWER_MAX = 4096,
    HTTP_TOO_MANY = 429,
    HTTP_BAD_GATEWAY = 502,
    HTTP_UNAVAILABLE = 503,
    HTTP_GATEWAY_TIMEOUT = 504
};

struct exporter {
    log *log;
    const trace_stop *stop;
    CURL *curl;
    struct curl_slist *headers, *packed_headers; /* the latter for a body in gzip; NULL: none is */
    buffer packed;
    uint32_t timeout_ms, export_ms;
    char *shown; /* the URL, for the log */
    char error[CURL_ERROR_SIZE];
    char why[CURL_ERROR_SIZE + 64];
    int fails;      /* which was said */
    uint64_t lost;  /* since then */
    size_t answer;  /* bytes of the answer that were read */
    int64_t end_ns; /* of this request's tries */
};

static int64_t until_stop(const exporter *e)
{
    return atomic_load(&e->stop->until_ns);
}

/* --- libcurl's functions ---------------------------------------------------------------------- */

/* What it says is not needed; one that does not end is none. */
static size_t on_bytes(char *data, size_t size, size_t count, void *context)
{
    exporter *e = context;
    (void)data;
    e->answer += size * count;
    return e->answer > ANSWER_MAX ? 0 : size * count;
}

/* Called about once in a second, at least: not longer than the program may wait for its end. */
static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const exporter *e = context;
    int64_t until = until_stop(e);
    (void)a, (void)b, (void)c, (void)d;
    return until && steady_clock_ns() >= until;
}

/* No child of an exec handler gets the socket. */
static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)context, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void init_library(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int add_header(struct curl_slist **to, const char *line)
{
    struct curl_slist *more = curl_slist_append(*to, line);
    *to = more ? more : *to;
    return more != NULL;
}

static int add_headers(struct curl_slist **to, const config_pairs *pairs)
{
    int all = add_header(to, "Content-Type: application/json") && add_header(to, "Expect:");
    for (size_t i = 0; all && i < pairs->count; i++) {
        buffer line = {0};
        const char *value = pairs->items[i].value;
        buffer_printf(&line, *value ? "%s: %s" : "%s;", pairs->items[i].name, value);
        all = add_header(to, line.data);
        buffer_free(&line);
    }
    return all;
}

static int make_headers(exporter *e, const trace_settings *settings)
{
    return add_headers(&e->headers, &settings->headers) &&
           (!settings->packs || (add_headers(&e->packed_headers, &settings->headers) &&
                                 add_header(&e->packed_headers, "Content-Encoding: gzip")));
}

static void set_options(exporter *e, const trace_settings *settings)
{
    CURL *curl = e->curl;
    (void)curl_easy_setopt(curl, CURLOPT_URL, settings->url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "semel");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, e->error);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, e);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, e);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    if (settings->certificate)
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, settings->certificate);
}

exporter *exporter_open(const trace_settings *settings, log *l, const trace_stop *stop)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    buffer shown = {0};
    exporter *e = must_alloc(sizeof *e);
    (void)pthread_once(&once, init_library);
    e->log = l;
    e->stop = stop;
    e->timeout_ms = settings->timeout_ms;
    e->export_ms = settings->export_ms;
    sample_url(&shown, settings->url);
    e->shown = shown.data;
    e->curl = curl_easy_init();
    if (!e->curl || !make_headers(e, settings)) {
        exporter_close(e);
        return NULL;
    }
    set_options(e, settings);
    return e;
}

void exporter_close(exporter *e)
{
    if (!e)
        return;
    if (e->curl)
        curl_easy_cleanup(e->curl);
    curl_slist_free_all(e->headers);
    curl_slist_free_all(e->packed_headers);
    buffer_free(&e->packed);
    free(e->shown);
    free(e);
}

/* --- what is said ----------------------------------------------------------------------------- */

static void say(exporter *e, log_level level, const char *event, const char *text)
{
    log_write(e->log, &(log_entry){.level = level,
                                   .event = event,
                                   .subject = "tracing",
                                   .msg = text,
                                   .fields = {{"component", "tracing", 0}}});
}

static void say_failure(exporter *e)
{
    buffer text = {0};
    if (e->fails)
        return;
    e->fails = 1;
    buffer_printf(&text, "the collector at %s takes no spans: ", e->shown);
    show_text(&text, e->why, strlen(e->why), 0);
    buffer_text(&text, "; messages are handled all the same, and their spans are lost");
    say(e, LOG_WARNING, "outage", text.data);
    buffer_free(&text);
}

static void say_back(exporter *e)
{
    buffer text = {0};
    if (!e->fails)
        return;
    buffer_printf(&text, "the collector at %s takes spans again; ", e->shown);
    show_number(&text, e->lost);
    buffer_text(&text, e->lost == 1 ? " was lost" : " were lost");
    say(e, LOG_INFO, "outage_over", text.data);
    buffer_free(&text);
    e->fails = 0;
    e->lost = 0;
}

void exporter_lost(exporter *e, uint64_t spans)
{
    e->lost += spans;
}

/* --- posting ---------------------------------------------------------------------------------- */

typedef enum post_result { POST_TAKEN, POST_LATER, POST_NEVER } post_result;

static int64_t left_ms(const exporter *e)
{
    int64_t until = until_stop(e), end = e->end_ns;
    int64_t left = ((until && until < end ? until : end) - steady_clock_ns()) / NS_PER_MS;
    return left > 0 ? left : 0;
}

static post_result judge(exporter *e, CURLcode code)
{
    long status = 0;
    (void)curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_WRITE_ERROR && status / 100 == 2)
        return POST_TAKEN; /* an answer that is too long is an answer */
    if (code) {
        (void)snprintf(e->why, sizeof e->why, "%s",
                       *e->error ? e->error : curl_easy_strerror(code));
        return POST_LATER;
    }
    (void)snprintf(e->why, sizeof e->why, "it answers with status %ld", status);
    if (status / 100 == 2)
        return POST_TAKEN;
    return status == HTTP_TOO_MANY || status == HTTP_BAD_GATEWAY || status == HTTP_UNAVAILABLE ||
                   status == HTTP_GATEWAY_TIMEOUT
               ? POST_LATER
               : POST_NEVER;
}

/* A body that cannot be compressed is sent as it is. */
static void set_body(exporter *e, const buffer *request)
{
    int is_packed = e->packed_headers && packed_write(&e->packed, request);
    const buffer *body = is_packed ? &e->packed : request;
    (void)curl_easy_setopt(e->curl, CURLOPT_HTTPHEADER, is_packed ? e->packed_headers : e->headers);
    (void)curl_easy_setopt(e->curl, CURLOPT_POSTFIELDS, body->data);
    (void)curl_easy_setopt(e->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
}

static post_result post_once(exporter *e)
{
    int64_t left = left_ms(e);
    if (!left) {
        (void)snprintf(e->why, sizeof e->why, "there was no time left");
        return POST_LATER;
    }
    e->error[0] = '\0';
    e->answer = 0;
    (void)curl_easy_setopt(e->curl, CURLOPT_TIMEOUT_MS,
                           (long)(left < e->timeout_ms ? left : e->timeout_ms));
    return judge(e, curl_easy_perform(e->curl));
}

/* Until the pause is over, or the program ends: then there is one more try, without a pause. */
static void rest(const exporter *e, int64_t pause_ms)
{
    curl_off_t asked = 0;
    struct pollfd stop = {.fd = e->stop->fd, .events = POLLIN};
    (void)curl_easy_getinfo(e->curl, CURLINFO_RETRY_AFTER, &asked);
    if (asked * 1000 > pause_ms)
        pause_ms = asked * 1000 < e->export_ms ? asked * 1000 : e->export_ms;
    if (pause_ms > left_ms(e))
        pause_ms = left_ms(e);
    (void)poll(&stop, 1, (int)pause_ms);
}

int exporter_post(exporter *e, const buffer *request, uint64_t spans)
{
    int64_t pause_ms = PAUSE_LEAST_MS;
    int ends = until_stop(e) != 0;
    e->end_ns = steady_clock_ns() + (int64_t)e->export_ms * NS_PER_MS;
    set_body(e, request);
    for (;;) {
        post_result result = post_once(e);
        if (result == POST_TAKEN) {
            say_back(e);
            return 1;
        }
        say_failure(e);
        if (result == POST_NEVER || !left_ms(e) || ends) {
            e->lost += spans;
            return 0;
        }
        rest(e, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MOST_MS ? pause_ms * 2 : PAUSE_MOST_MS;
        ends = until_stop(e) != 0;
    }
}
