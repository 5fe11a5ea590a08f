/* Answers. They are made by the thread that answers, and sent by libmicrohttpd's. */
#include "program/http/server_internal.h"
#include "program/support/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- headers ---------------------------------------------------------------------------------- */

/* The connection and the framing are the server's affair. */
static int is_own_affair(const char *name)
{
    static const char *const own[] = {"Connection", "Content-Length",    "Keep-Alive",
                                      "Upgrade",    "Transfer-Encoding", "Trailer"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcasecmp(name, own[i]) == 0)
            return 1;
    return 0;
}

/* libmicrohttpd refuses tabs as well as newlines; whatever a value has of them becomes a space. */
static void add_header(struct MHD_Response *to, const char *name, const char *value)
{
    if (MHD_add_response_header(to, name, value) == MHD_YES || !*value)
        return;
    char *clean = must_copy(value);
    for (char *c = clean; *c; c++)
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
    (void)MHD_add_response_header(to, name, clean);
    free(clean);
}

/* What a HEAD request would get as a body is longer than nothing. */
static void add_length_of_head(struct MHD_Response *to, const http_header *headers)
{
    for (const http_header *h = headers; h && h->name; h++)
        if (strcasecmp(h->name, "Content-Length") == 0 &&
            MHD_set_response_options(to, MHD_RF_INSANITY_HEADER_CONTENT_LENGTH, MHD_RO_END))
            (void)MHD_add_response_header(to, h->name, h->value);
}

static int has_header(const http_header *headers, const char *name)
{
    for (const http_header *h = headers; h && h->name; h++)
        if (strcasecmp(h->name, name) == 0)
            return 1;
    return 0;
}

static void add_headers(struct MHD_Response *to, const http_request *r,
                        const http_response *response)
{
    for (const http_header *h = r->server->options.headers; h && h->name; h++)
        if (!has_header(response->headers, h->name))
            (void)MHD_add_response_header(to, h->name, h->value);
    for (const http_header *h = response->headers; h && h->name; h++)
        if (!is_own_affair(h->name))
            add_header(to, h->name, h->value);
    if (!response->len && strcmp(r->method ? r->method : "", "HEAD") == 0)
        add_length_of_head(to, response->headers);
    if (r->must_close)
        (void)MHD_add_response_header(to, "Connection", "close");
}

/* --- making ----------------------------------------------------------------------------------- */

static struct MHD_Response *checked(struct MHD_Response *made)
{
    if (made)
        return made;
    (void)fputs("semel: out of memory\n", stderr);
    _Exit(EXIT_FAILURE);
}

struct MHD_Response *http_make_response(const http_request *r, const http_response *response)
{
    enum MHD_ResponseMemoryMode mode =
        response->is_static || !response->len ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY;
    union {
        const void *in;
        void *out; /* libmicrohttpd does not change it */
    } body = {.in = response->len ? response->body : ""};
    struct MHD_Response *made =
        checked(MHD_create_response_from_buffer(response->len, body.out, mode));
    add_headers(made, r, response);
    return made;
}

static void write_member(buffer *to, const char *name, const char *value)
{
    if (!value)
        return;
    buffer_printf(to, ",\"%s\":", name);
    show_json(to, value, strlen(value));
}

static void write_problem(buffer *to, const http_problem *problem)
{
    buffer type = {0};
    buffer_printf(&type, "urn:semel:problem:%s", problem->type);
    buffer_text(to, "{\"type\":");
    show_json(to, type.data, type.len);
    write_member(to, "title", problem->title);
    buffer_printf(to, ",\"status\":%u", problem->status);
    write_member(to, "detail", problem->detail);
    buffer_text(to, "}\n");
    buffer_free(&type);
}

typedef struct problem_text {
    buffer body;
    char retry_after[16];
    http_header headers[4];
    http_response response;
} problem_text;

static void begin_problem(problem_text *out, const http_problem *problem)
{
    size_t count = 0;
    *out = (problem_text){0};
    write_problem(&out->body, problem);
    out->headers[count++] = (http_header){"Content-Type", "application/problem+json"};
    out->headers[count++] = (http_header){"Cache-Control", "no-store"};
    if (problem->retry_after_s) {
        (void)snprintf(out->retry_after, sizeof out->retry_after, "%u", problem->retry_after_s);
        out->headers[count] = (http_header){"Retry-After", out->retry_after};
    }
    out->response = (http_response){.status = problem->status,
                                    .headers = out->headers,
                                    .body = out->body.data,
                                    .len = out->body.len};
}

struct MHD_Response *http_make_problem(const http_request *r, const http_problem *problem)
{
    problem_text text;
    begin_problem(&text, problem);
    struct MHD_Response *made = http_make_response(r, &text.response);
    buffer_free(&text.body);
    return made;
}

/* --- answering -------------------------------------------------------------------------------- */

void http_free_body(http_request *r)
{
    if (r->room)
        atomic_fetch_sub(&r->server->memory_used, r->room);
    free(r->body);
    r->body = NULL;
    r->room = 0;
}

static unsigned valid_status(unsigned status)
{
    return status >= 200 && status <= 599 ? status : 500;
}

/* When the connection is resumed, its thread may end the request at any moment. The server stays:
 * it does not close as long as one is pending. */
void http_respond(http_request *request, const http_response *response)
{
    http_server *s = request->server;
    pthread_mutex_lock(&s->lock);
    s->unsent++;
    request->must_close = s->is_draining || s->is_retired;
    pthread_mutex_unlock(&s->lock);
    request->response = http_make_response(request, response);
    request->status = valid_status(response->status);
    request->answer_len = response->len;
    request->state = REQUEST_ANSWERED;
    http_free_body(request);
    MHD_resume_connection(request->client);
    pthread_mutex_lock(&s->lock);
    if (--s->pending == 0)
        pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->lock);
}

void http_respond_problem(http_request *request, const http_problem *problem)
{
    problem_text text;
    begin_problem(&text, problem);
    http_respond(request, &text.response);
    buffer_free(&text.body);
}
