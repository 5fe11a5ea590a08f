/* How requests are answered: JSON with a tag, or a problem document. */
#include "program/admin/api_internal.h"
#include "program/support/digest.h"
#include "program/support/show.h"

#include <stdio.h>
#include <string.h>

enum { TAG_DIGITS = 32 };

/* --- answers ---------------------------------------------------------------------------------- */

static void add_problem(api_answer *out, unsigned status, const char *type, const char *title,
                        const char *format, va_list arguments)
{
    out->status = status;
    out->type = type;
    out->title = title;
    buffer_free(&out->detail);
    buffer_vprintf(&out->detail, format, arguments);
}

void api_problem(api_answer *out, unsigned status, const char *type, const char *title,
                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(out, status, type, title, format, arguments);
    va_end(arguments);
}

void api_not_found(api_answer *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(out, 404, "not-found", "Not found", format, arguments);
    va_end(arguments);
}

void api_bad_query(api_answer *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_problem(out, 400, "bad-query", "The query is not understood", format, arguments);
    va_end(arguments);
}

void api_store_failed(api_answer *out, const semel_error *why)
{
    int is_away = why->retryable || why->status == SEMEL_EUNAVAILABLE || why->status == SEMEL_EBUSY;
    if (why->status == SEMEL_ENOTFOUND) {
        api_not_found(out, "%s", why->text);
        return;
    }
    api_problem(out, is_away ? 503 : 500, is_away ? "store-unreachable" : "store-failed",
                is_away ? "The store does not answer" : "The store has failed", "%s", why->text);
    out->retry_after_s = is_away ? 2 : 0;
}

void api_no_store(api_answer *out, api *a)
{
    pthread_mutex_lock(&a->lock);
    int has_store = a->store != NULL;
    pthread_mutex_unlock(&a->lock);
    api_problem(out, 503, "store-unreachable", "The store does not answer", "%s",
                has_store ? "The configuration is being read again; try again in a moment."
                          : "The store was not reached yet since semel has started.");
    out->retry_after_s = 2;
}

int api_knows(const asking *q, api_answer *out, const char *const names[])
{
    for (size_t i = 0; i < q->query.pair_count; i++) {
        size_t n = 0;
        while (names[n] && strcmp(names[n], q->query.pairs[i].name) != 0)
            n++;
        if (!names[n]) {
            api_bad_query(out, "There is no parameter \"%.60s\" here.", q->query.pairs[i].name);
            return 0;
        }
    }
    return 1;
}

void api_answer_free(api_answer *out)
{
    buffer_free(&out->body);
    buffer_free(&out->detail);
    buffer_free(&out->more);
}

/* --- sending ---------------------------------------------------------------------------------- */

enum { HEADERS_MAX = 10 };

/* As all answers of the admin server (PAGE.md). */
static size_t common_headers(http_header *to)
{
    size_t n = 0;
    to[n++] = (http_header){"Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
                            "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                            "frame-ancestors 'none'"};
    to[n++] = (http_header){"X-Content-Type-Options", "nosniff"};
    to[n++] = (http_header){"Referrer-Policy", "no-referrer"};
    to[n++] = (http_header){"Cache-Control", "no-store"};
    return n;
}

static void send_problem(http_request *request, api_answer *out)
{
    http_header headers[HEADERS_MAX] = {{0}};
    size_t n = common_headers(headers);
    buffer body = {0};
    char retry_after[16];
    buffer_printf(&body, "{\"type\":\"urn:semel:problem:%s\"", out->type);
    put_text(&body, "title", out->title);
    put_int(&body, "status", out->status);
    put_bytes(&body, "detail", (semel_bytes){out->detail.data, out->detail.len});
    put_int(&body, "now", wall_clock_ms());
    if (out->more.len)
        buffer_printf(&body, ",%s", out->more.data);
    buffer_text(&body, "}");
    headers[n++] = (http_header){"Content-Type", "application/problem+json"};
    (void)snprintf(retry_after, sizeof retry_after, "%u", out->retry_after_s);
    if (out->retry_after_s)
        headers[n++] = (http_header){"Retry-After", retry_after};
    if (out->status == 405)
        headers[n++] = (http_header){"Allow", "GET, POST"};
    http_respond(request, &(http_response){out->status, headers, body.data, body.len, 0});
    buffer_free(&body);
}

/* What differs each time, `now`, is no part of the tag. */
static void make_tag(char tag[TAG_DIGITS + 3], const buffer *body)
{
    char digest[DIGEST_HEX_SIZE];
    digest_hex(digest, body->data, body->len);
    (void)snprintf(tag, TAG_DIGITS + 3, "\"%.*s\"", TAG_DIGITS, digest);
}

void api_send(http_request *request, const char *if_none_match, api_answer *out)
{
    http_header headers[HEADERS_MAX] = {{0}};
    size_t n = common_headers(headers);
    char tag[TAG_DIGITS + 3];
    buffer whole = {0};
    if (out->type) {
        send_problem(request, out);
        return;
    }
    make_tag(tag, &out->body);
    headers[n++] = (http_header){"ETag", tag};
    if (out->is_replayed)
        headers[n++] = (http_header){"Idempotent-Replayed", "true"};
    if (if_none_match && strstr(if_none_match, tag)) {
        http_respond(request, &(http_response){304, headers, NULL, 0, 0});
        return;
    }
    headers[n++] = (http_header){"Content-Type", "application/json"};
    buffer_printf(&whole, "{\"now\":%lld", (long long)wall_clock_ms());
    if (out->body.len > 1)
        buffer_printf(&whole, ",%s", out->body.data + 1);
    buffer_text(&whole, "}");
    http_respond(request, &(http_response){out->status ? out->status : 200, headers, whole.data,
                                           whole.len, 0});
    buffer_free(&whole);
}
