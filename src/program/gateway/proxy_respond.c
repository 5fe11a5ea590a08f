/* What callers of the proxy get. The types of the problem documents are stable words. */
#include "program/gateway/proxy.h"
#include "program/support/show.h"

#include <string.h>

static const http_header replayed_header = {"Idempotent-Replayed", "true"};

static size_t count_headers(const http_header *headers)
{
    size_t count = 0;
    while (headers && headers[count].name)
        count++;
    return count;
}

/* The headers, and one more. */
static const http_header *with_header(http_request *request, const http_header *headers,
                                      http_header more)
{
    size_t count = count_headers(headers);
    http_header *all = region_alloc(http_request_memory(request), (count + 2) * sizeof *all);
    if (count)
        memcpy(all, headers, count * sizeof *all);
    all[count] = more;
    return all;
}

void proxy_respond_first(gateway_route *route, const upstream_call *call, int64_t began_ns)
{
    http_request *request = call->request;
    const http_header *headers =
        with_header(request, call->headers, (http_header){"Via", "1.1 semel"});
    route_count(route, ROUTE_EXECUTED, began_ns);
    http_respond(request, &(http_response){.status = call->status,
                                           .headers = headers,
                                           .body = call->body.data,
                                           .len = call->body.len});
}

void proxy_respond_in_flight(gateway_route *route, http_request *request, int64_t began_ns)
{
    route_count(route, ROUTE_CONFLICT, began_ns);
    http_respond_problem(
        request,
        &(http_problem){.status = 409,
                        .type = "in-flight",
                        .title = "A request with this key is being handled",
                        .detail = "Send the same request again later: it will get the answer of "
                                  "the first.",
                        .retry_after_s = 1});
}

void proxy_respond_mismatch(gateway_route *route, http_request *request, int64_t began_ns)
{
    route_count(route, ROUTE_MISMATCH, began_ns);
    http_respond_problem(
        request,
        &(http_problem){.status = 422,
                        .type = "key-reused",
                        .title = "This key was used for another request",
                        .detail = "Method, path, query, content type or body differ from those of "
                                  "the first request with this key. Use a new key."});
}

/* --- unknown outcomes ------------------------------------------------------------------------- */

/* A command as it can be typed. */
static const char *command(http_request *request, const char *words, const proxy_key *key)
{
    buffer shown = {0}, typed = {0};
    show_key(&shown, (semel_bytes){key->text, key->len});
    show_argument(&typed, shown.data);
    const char *text =
        region_printf(http_request_memory(request), "semel inbox %s %s", words, typed.data);
    buffer_free(&shown);
    buffer_free(&typed);
    return text;
}

void proxy_respond_unknown(gateway_route *route, http_request *request, const proxy_key *key,
                           const char *why, int replayed, int64_t began_ns)
{
    const http_header headers[] = {replayed_header, {NULL, NULL}};
    const int retries = route->config->on_unknown == UNKNOWN_RETRY;
    const char *next =
        retries ? "A copy with the same key is sent to the upstream again."
                : "Copies with the same key are not sent: look whether it was done. If it was not, "
                  "an operator can forget the key, and the next copy is sent.";
    const char *detail = region_printf(http_request_memory(request), "%s%s%s", why ? why : "",
                                       why && *why ? ". " : "", next);
    const proxy_state *state = route->state;
    const char *forget =
        region_printf(http_request_memory(request), "forget %s", state->inbox_name);
    const http_header members[] = {{"look", command(request, "show", key)},
                                   {"forget", command(request, forget, key)},
                                   {NULL, NULL}};
    const http_problem problem = {
        .status = 502,
        .type = "outcome-unknown",
        .title = "It is not known whether the upstream has handled this request",
        .detail = detail};
    route_count(route, ROUTE_UNKNOWN, began_ns);
    route_problem(request, &problem, replayed ? headers : NULL, members);
}

/* --- copies ----------------------------------------------------------------------------------- */

static void respond_stored(http_request *request, const proxy_answer *answer)
{
    http_respond(request,
                 &(http_response){.status = answer->status,
                                  .headers = with_header(request, answer->headers, replayed_header),
                                  .body = answer->body.data,
                                  .len = answer->body.len});
}

void proxy_respond_too_large(gateway_route *route, http_request *request,
                             const proxy_answer *answer, int replayed, int64_t began_ns)
{
    const http_header headers[] = {replayed_header, {NULL, NULL}};
    const http_problem problem = {
        .status = 502,
        .type = "answer-too-large",
        .title = "The upstream has handled the request, and its answer is too large",
        .detail = region_printf(http_request_memory(request),
                                "It answered %u, with more than response_max.", answer->status)};
    route_count(route, replayed ? ROUTE_REPLAYED : ROUTE_EXECUTED, began_ns);
    route_problem(request, &problem, replayed ? headers : NULL, NULL);
}

static const char *text_of(http_request *request, semel_bytes bytes)
{
    return region_copy(http_request_memory(request), bytes.len ? bytes.data : "", bytes.len);
}

void proxy_respond_copy(gateway_route *route, http_request *request, const proxy_key *key,
                        const flight_end *end, int64_t began_ns)
{
    const proxy_answer *answer = end->answer;
    if (!answer) {
        route_count(route, end->outcome, began_ns);
        http_respond_problem(request, end->problem);
    } else if (proxy_copy_outcome(key, end) == SEMEL_MISMATCH) {
        proxy_respond_mismatch(route, request, began_ns);
    } else if (answer->kind == ANSWER_UNKNOWN) {
        proxy_respond_unknown(route, request, key, text_of(request, answer->body), 1, began_ns);
    } else if (answer->kind == ANSWER_TOO_LARGE) {
        proxy_respond_too_large(route, request, answer, 1, began_ns);
    } else {
        route_count(route, ROUTE_REPLAYED, began_ns);
        respond_stored(request, answer);
    }
}
