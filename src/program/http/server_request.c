/* What a handler learns of its request. */
#include "program/http/server_internal.h"

#include <string.h>
#include <strings.h>

const char *http_request_method(const http_request *request)
{
    return request->method;
}

const char *http_request_path(const http_request *request)
{
    return request->path;
}

const char *http_request_target(const http_request *request)
{
    return request->target;
}

semel_bytes http_request_body(const http_request *request)
{
    return (semel_bytes){request->body ? request->body : "", request->len};
}

const char *http_request_peer(const http_request *request)
{
    return request->connection->peer;
}

void *http_request_context(const http_request *request)
{
    return request->server->options.context;
}

const char *http_request_header(const http_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

size_t http_request_header_count(const http_request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += strcasecmp(request->headers[i].name, name) == 0;
    return count;
}

const char *http_request_query(const http_request *request, const char *name)
{
    for (size_t i = 0; i < request->query_count; i++)
        if (strcmp(request->query[i].name, name) == 0)
            return request->query[i].value;
    return NULL;
}

void http_request_headers(const http_request *request, http_pair_visitor *visit, void *context)
{
    for (size_t i = 0; i < request->header_count; i++)
        visit(context, request->headers[i].name, request->headers[i].value);
}

region *http_request_memory(http_request *request)
{
    return &request->memory;
}
