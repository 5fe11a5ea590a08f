/* How a request arrives: libmicrohttpd's thread calls http_receive for the headers, for each piece
 * of the body, at its end, and again when the connection is resumed with an answer.
 *
 * What is refused by its headers is answered before the body is read, and the connection ends. A
 * body that turns out to be too large later (it is chunked) is read to its end and thrown away,
 * since libmicrohttpd takes an answer only before or after a body; but not without an end. */
#include "program/http/server_internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_LEAST = 4096, THROWN_AWAY_MAX = 1 << 20 };

static const http_problem bad_target = {400, "bad-target", "The target of the request is malformed",
                                        "A target is a path: it begins with a slash, and is "
                                        "encoded as URLs are.",
                                        0};
static const http_problem too_large = {413, "too-large", "The body is too large", NULL, 0};
static const http_problem no_memory = {503, "memory", "Too many bodies are held at the moment",
                                       NULL, 1};
static const http_problem draining = {503, "stopping", "The server is stopping", NULL, 5};

void *http_receive_begin(void *context, const char *uri, struct MHD_Connection *client)
{
    http_request *r = must_alloc(sizeof *r);
    const union MHD_ConnectionInfo *known =
        MHD_get_connection_info(client, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    r->server = context;
    r->client = client;
    r->connection = known ? known->socket_context : NULL;
    http_connection_limit(r->connection, r->server->options.request_ms);
    if (!http_target_parse(r, uri))
        r->refusal = &bad_target;
    return r;
}

/* --- answering -------------------------------------------------------------------------------- */

/* A client has a second for each kilobyte of the answer, besides the time for a request. */
static enum MHD_Result send_answer(http_request *r)
{
    http_connection_limit(r->connection, r->server->options.request_ms + r->answer_len);
    enum MHD_Result result = MHD_queue_response(r->client, r->status, r->response);
    MHD_destroy_response(r->response);
    r->response = NULL;
    return result;
}

static enum MHD_Result refuse(http_request *r, const http_problem *why)
{
    r->must_close = 1;
    r->response = http_make_problem(r, why);
    r->status = why->status;
    r->state = REQUEST_ANSWERED;
    pthread_mutex_lock(&r->server->lock);
    r->server->unsent++;
    pthread_mutex_unlock(&r->server->lock);
    return send_answer(r);
}

static enum MHD_Result refuse_early(http_request *r, const http_problem *why)
{
    if (http_has_body(r) || r->header_count == 0)
        keeper_linger(r->server->keeper, r->connection);
    return refuse(r, why);
}

/* --- the body --------------------------------------------------------------------------------- */

static int reserve(http_server *s, size_t more)
{
    size_t before = atomic_fetch_add(&s->memory_used, more);
    if (before + more <= s->options.memory_bytes)
        return 1;
    atomic_fetch_sub(&s->memory_used, more);
    return 0;
}

static int make_room(http_request *r, size_t wanted)
{
    uint64_t declared = http_declared_length(r);
    size_t room = r->room ? r->room * 2 : BODY_LEAST;
    if (declared && room > declared)
        room = (size_t)declared;
    while (room < wanted)
        room = room * 2;
    if (!reserve(r->server, room - r->room))
        return 0;
    r->body = must_realloc(r->body, room);
    r->room = room;
    return 1;
}

static void add_body(http_request *r, const char *data, size_t len)
{
    if (len > r->limit - r->len)
        r->refusal = &too_large;
    else if (r->len + len > r->room && !make_room(r, r->len + len))
        r->refusal = &no_memory;
    else
        memcpy(r->body + r->len, data, len);
    r->len += len;
    if (r->refusal)
        http_free_body(r);
}

static enum MHD_Result receive_piece(http_request *r, const char *data, size_t *len)
{
    if (!r->refusal)
        add_body(r, data, *len);
    else
        r->len += *len;
    *len = 0;
    return r->refusal && r->len > r->limit + THROWN_AWAY_MAX ? MHD_NO : MHD_YES;
}

/* --- the request ------------------------------------------------------------------------------ */

static uint64_t limit_of(const http_request *r)
{
    const http_server_options *o = &r->server->options;
    uint64_t limit = o->body_limit ? o->body_limit(r, o->context) : 0;
    return limit ? limit : o->body_bytes;
}

static enum MHD_Result receive_headers(http_request *r, const char *method, const char *version)
{
    r->method = method;
    r->is_old = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    const http_problem *wrong = http_check_headers(r);
    if (r->refusal || wrong)
        return refuse_early(r, r->refusal ? r->refusal : wrong);
    uint64_t declared = http_declared_length(r);
    r->limit = limit_of(r);
    if (declared > r->limit)
        return refuse_early(r, &too_large);
    if (declared + atomic_load(&r->server->memory_used) > r->server->options.memory_bytes)
        return refuse_early(r, &no_memory);
    r->state = REQUEST_ARRIVES;
    return MHD_YES;
}

static enum MHD_Result receive_end(http_request *r)
{
    if (r->refusal)
        return refuse(r, r->refusal);
    if (!http_take_request(r->server))
        return refuse(r, &draining);
    r->state = REQUEST_HANDLED;
    http_connection_wait(r->connection);
    MHD_suspend_connection(r->client);
    http_queue_request(r->server, r);
    return MHD_YES;
}

enum MHD_Result http_receive(void *context, struct MHD_Connection *client, const char *url,
                             const char *method, const char *version, const char *data, size_t *len,
                             void **request)
{
    http_request *r = *request;
    (void)context, (void)client, (void)url;
    switch (r->state) {
    case REQUEST_NEW:
        return receive_headers(r, method, version);
    case REQUEST_ARRIVES:
        return *len ? receive_piece(r, data, len) : receive_end(r);
    case REQUEST_ANSWERED:
        return send_answer(r);
    default:
        return MHD_NO;
    }
}

/* The answer was sent, or the client is gone. */
void http_receive_end(void *context, struct MHD_Connection *client, void **request,
                      enum MHD_RequestTerminationCode how)
{
    http_server *s = context;
    http_request *r = *request;
    (void)client, (void)how;
    if (!r)
        return;
    http_connection_limit(r->connection, s->options.idle_ms);
    pthread_mutex_lock(&s->lock);
    if (r->state == REQUEST_ANSWERED && --s->unsent == 0)
        pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->lock);
    if (r->response)
        MHD_destroy_response(r->response);
    http_free_body(r);
    region_free(&r->memory);
    free(r);
    *request = NULL;
}
