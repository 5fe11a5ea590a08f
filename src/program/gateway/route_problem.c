/* See route.h: problem documents (RFC 9457) with headers and members of their own. */
#include "program/gateway/route.h"
#include "program/support/show.h"

#include <string.h>

enum { HEADERS_MAX = 12 };

static void add_member(buffer *to, const char *name, const char *value)
{
    buffer_text(to, to->len > 1 ? "," : "");
    show_json(to, name, strlen(name));
    buffer_text(to, ":");
    show_json(to, value, strlen(value));
}

static void write_problem(buffer *to, const http_problem *problem, const http_header *members)
{
    buffer_text(to, "{");
    buffer_printf(to, "\"type\":\"urn:semel:problem:%s\"", problem->type);
    add_member(to, "title", problem->title);
    buffer_printf(to, ",\"status\":%u", problem->status);
    if (problem->detail)
        add_member(to, "detail", problem->detail);
    for (; members && members->name; members++)
        add_member(to, members->name, members->value);
    buffer_text(to, "}\n");
}

void route_problem(http_request *request, const http_problem *problem, const http_header *headers,
                   const http_header *members)
{
    http_header all[HEADERS_MAX] = {{"Content-Type", "application/problem+json"},
                                    {"Cache-Control", "no-store"}};
    size_t count = 2;
    buffer text = {0};
    write_problem(&text, problem, members);
    if (problem->retry_after_s)
        all[count++] = (http_header){"Retry-After", region_printf(http_request_memory(request),
                                                                  "%u", problem->retry_after_s)};
    for (; headers && headers->name && count < HEADERS_MAX - 1; headers++)
        all[count++] = *headers;
    http_respond(request, &(http_response){.status = problem->status,
                                           .headers = all,
                                           .body = text.data,
                                           .len = text.len});
    buffer_free(&text);
}
