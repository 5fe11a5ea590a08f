/* What is wrong with the headers of a request: lengths that two readers could understand
 * differently (the way to smuggle a second request past a proxy), a Host that is missing or there
 * twice, bytes that no header has. libmicrohttpd is lenient with all of it. */
#include "program/http/server_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const http_problem bad_header = {400, "bad-header", "A header is malformed",
                                        "The name or the value of a header has bytes that are not "
                                        "allowed there.",
                                        0};
static const http_problem bad_host = {400, "bad-host", "The Host header is missing or ambiguous",
                                      "HTTP/1.1 wants exactly one Host header.", 0};
static const http_problem bad_length = {
    400, "ambiguous-length", "The length of the body is ambiguous",
    "A request has one Content-Length or Transfer-Encoding: chunked, not both, and neither twice.",
    0};
static const http_problem bad_coding = {501, "transfer-coding", "The transfer coding is not known",
                                        "The server understands Transfer-Encoding: chunked.", 0};
static const http_problem bad_expectation = {417, "expectation", "The expectation is not known",
                                             "The server understands Expect: 100-continue.", 0};
static const http_problem too_large = {431, "headers-too-large", "The headers are too large", NULL,
                                       0};

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reading {
    http_request *request;
    size_t room;
    int is_bad;
} reading;

static int is_token(const char *text, size_t len)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < len; i++) {
        char c = text[i], lower = (char)(c | 0x20);
        if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') && !(c && strchr(others, c)))
            return 0;
    }
    return len > 0;
}

static int is_value(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return 0;
    }
    return 1;
}

/* A line that begins with a blank belongs to the header before it, for whoever reads it so. Up to
 * 0.9.75 libmicrohttpd appends it to the name of that header: "Transfer-Encoding:", "  chunked" is
 * a header Transfer-Encodingchunked, and the body ends elsewhere than for a proxy in front. It is
 * told by where the texts are: a value follows its name, with blanks in between. */
static int is_folded(const char *name, size_t name_len, const char *value)
{
    const char *at = name + name_len + 1;
    if (MHD_VERSION > 0x00097500 || !value)
        return 0;
    while ((uintptr_t)at < (uintptr_t)value && (*at == ' ' || *at == '\t'))
        at++;
    return at != value;
}

/* The texts live as long as the request: libmicrohttpd has them in the memory of its connection. */
static enum MHD_Result add_header(void *context, enum MHD_ValueKind kind, const char *name,
                                  size_t name_len, const char *value, size_t value_len)
{
    reading *all = context;
    http_request *r = all->request;
    (void)kind;
    int is_whole = !is_folded(name, name_len, value);
    value = value ? value : "";
    if (!is_token(name, name_len) || !is_value(value, value_len) || !is_whole)
        all->is_bad = 1;
    if (r->header_count < all->room)
        r->headers[r->header_count++] = (http_header){name, value};
    return MHD_YES;
}

static int read_headers(http_request *r)
{
    int count = MHD_get_connection_values(r->client, MHD_HEADER_KIND, NULL, NULL);
    reading all = {.request = r, .room = count > 0 ? (size_t)count : 0};
    r->headers = region_alloc(&r->memory, (all.room + 1) * sizeof *r->headers);
    (void)MHD_get_connection_values_n(r->client, MHD_HEADER_KIND, add_header, &all);
    return !all.is_bad;
}

/* --- checks ----------------------------------------------------------------------------------- */

static uint64_t header_bytes(const http_request *r)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(r->client, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return size ? size->header_size : 0;
}

/* In the absolute form of a target the host is said twice. */
static int is_same_host(const http_request *r, const char *host)
{
    if (*r->target == '/')
        return 1;
    const char *from = strstr(r->target, "//");
    return from && strcspn(from + 2, "/?") == strlen(host) &&
           strncasecmp(from + 2, host, strlen(host)) == 0;
}

static int is_host_bad(const http_request *r)
{
    const char *host = http_request_header(r, "Host");
    size_t count = http_request_header_count(r, "Host");
    if (count > 1 || (host && !is_same_host(r, host)))
        return 1;
    return !count && !r->is_old;
}

static const http_problem *check_lengths(const http_request *r)
{
    size_t lengths = http_request_header_count(r, "Content-Length");
    size_t codings = http_request_header_count(r, "Transfer-Encoding");
    const char *length = http_request_header(r, "Content-Length");
    if (lengths + codings > 1 || (codings && r->is_old))
        return &bad_length;
    if (length && (!*length || strspn(length, "0123456789") != strlen(length)))
        return &bad_length;
    if (codings && strcasecmp(http_request_header(r, "Transfer-Encoding"), "chunked") != 0)
        return &bad_coding;
    return NULL;
}

const http_problem *http_check_headers(http_request *r)
{
    if (!read_headers(r))
        return &bad_header;
    if (header_bytes(r) > r->server->options.header_bytes)
        return &too_large;
    if (is_host_bad(r))
        return &bad_host;
    const char *expectation = http_request_header(r, "Expect");
    if (expectation && strcasecmp(expectation, "100-continue") != 0)
        return &bad_expectation;
    return check_lengths(r);
}

uint64_t http_declared_length(const http_request *r)
{
    const char *length = http_request_header(r, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

int http_has_body(const http_request *r)
{
    return http_declared_length(r) || http_request_header(r, "Transfer-Encoding");
}
