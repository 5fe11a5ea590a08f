/* Publishing: what is posted becomes messages of a queue, all of a request or none, and 202 is
 * answered when they are durable. Without an id of the client's a message gets a new one each time:
 * a client that may have to send again gives it an id, or an Idempotency-Key, which becomes it. */
#include "program/gateway/delivery.h"
#include "program/gateway/publish_read.h"
#include "program/support/show.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>

semel_status publish_open(gateway_route *route, semel_error *err)
{
    delivery *to = NULL;
    semel_status status = delivery_open(&to, route, err);
    route->state = to;
    return status;
}

void publish_close(gateway_route *route)
{
    delivery_close(route->state);
    route->state = NULL;
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Digests are compared, so that the time does not tell the length either; all of them, always. */
static int is_known(const config_list *tokens, const char *given)
{
    unsigned char wanted[SHA256_DIGEST_LENGTH], mine[SHA256_DIGEST_LENGTH];
    int known = 0;
    (void)SHA256((const unsigned char *)given, strlen(given), mine);
    for (size_t i = 0; i < tokens->count; i++) {
        (void)SHA256((const unsigned char *)tokens->items[i], strlen(tokens->items[i]), wanted);
        known |= CRYPTO_memcmp(wanted, mine, sizeof mine) == 0;
    }
    return known;
}

static int may_publish(const route_config *route, const http_request *request)
{
    static const char scheme[] = "Bearer ";
    const char *header = http_request_header(request, "Authorization");
    if (!route->tokens.count)
        return 1;
    if (!header || http_request_header_count(request, "Authorization") != 1 ||
        strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return 0;
    header += sizeof scheme - 1;
    return is_known(&route->tokens, header + strspn(header, " "));
}

static route_outcome refuse_token(http_request *request)
{
    static const http_header headers[] = {{"WWW-Authenticate", "Bearer realm=\"semel\""},
                                          {NULL, NULL}};
    route_problem(request,
                  &(http_problem){.status = 401,
                                  .type = "bad-token",
                                  .title = "A token is needed to publish here",
                                  .detail = "Send it as Authorization: Bearer TOKEN."},
                  headers, NULL);
    return ROUTE_BAD_SIGNATURE;
}

/* --- answers ---------------------------------------------------------------------------------- */

static route_outcome refuse(http_request *request, unsigned status, const char *type,
                            const char *title, const char *detail)
{
    route_problem(request,
                  &(http_problem){.status = status, .type = type, .title = title, .detail = detail},
                  NULL, NULL);
    return status == 413 ? ROUTE_TOO_LARGE : ROUTE_BAD_REQUEST;
}

static route_outcome refuse_messages(http_request *request, const publish_read *read)
{
    static const http_header headers[] = {
        {"Content-Type", "application/problem+json"}, {"Cache-Control", "no-store"}, {NULL, NULL}};
    buffer text = {0};
    buffer_printf(
        &text,
        "{\"type\":\"urn:semel:problem:bad-message\",\"title\":\"Nothing was published: %s\","
        "\"status\":400,\"errors\":[%s]}\n",
        read->wrong == 1 ? "there is a mistake" : "there are mistakes", read->errors.data);
    http_respond(
        request,
        &(http_response){.status = 400, .headers = headers, .body = text.data, .len = text.len});
    buffer_free(&text);
    return ROUTE_BAD_REQUEST;
}

static route_outcome answer(http_request *request, const publish_read *read)
{
    static const http_header headers[] = {
        {"Content-Type", "application/json"}, {"Cache-Control", "no-store"}, {NULL, NULL}};
    buffer text = {0};
    buffer_text(&text, "{\"ids\":[");
    for (size_t i = 0; i < read->count; i++) {
        buffer_text(&text, i ? "," : "");
        show_json(&text, read->messages[i].id.data, read->messages[i].id.len);
    }
    buffer_text(&text, "]}\n");
    http_respond(
        request,
        &(http_response){.status = 202, .headers = headers, .body = text.data, .len = text.len});
    buffer_free(&text);
    return ROUTE_ACCEPTED;
}

/* --- requests --------------------------------------------------------------------------------- */

static route_outcome publish(gateway_route *route, http_request *request, publish_read *read)
{
    semel_error why = {0};
    publish_read_request(read, request);
    if (read->unsupported)
        return refuse(request, 415, "unsupported-type", "This type of content is not understood",
                      read->unsupported);
    if (read->too_many)
        return refuse(request, 413, "too-large", "A batch has at most 1000 events", NULL);
    if (read->wrong)
        return refuse_messages(request, read);
    if (read->count && delivery_send(route->state, read->messages, read->count, &why))
        return delivery_refuse(request, &why);
    return answer(request, read);
}

void publish_handle(gateway_route *route, http_request *request)
{
    int64_t began = steady_clock_ns();
    publish_read read = {0};
    route_outcome outcome = may_publish(route->config, request) ? publish(route, request, &read)
                                                                : refuse_token(request);
    publish_read_free(&read);
    route_count(route, outcome, began);
}
