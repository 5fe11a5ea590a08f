/* The target of a request: "/orders/7?wait=1". The path and the parameters are decoded here and not
 * by libmicrohttpd, which ends a path at %00: what a route is chosen by must be what was sent.
 *
 * The absolute form, "http://host/orders", is understood if its host is that of the Host header. */
#include "program/http/server_internal.h"

#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

/* NULL if something in it cannot be decoded, or is a control character. */
static char *decode(region *memory, const char *text, size_t len, int plus_is_space)
{
    char *out = region_alloc(memory, len + 1), *to = out;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 1 < len ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return NULL;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (is_control((unsigned char)c))
            return NULL;
        *to++ = c;
    }
    return out;
}

static int add_parameter(http_request *r, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals ? (size_t)(equals - text) : len;
    const char *value = equals ? equals + 1 : text + len;
    http_header *to = &r->query[r->query_count];
    if (!len)
        return 1;
    to->name = decode(&r->memory, text, name_len, 1);
    to->value = decode(&r->memory, value, len - (size_t)(value - text), 1);
    r->query_count++;
    return to->name && to->value;
}

static int parse_query(http_request *r, const char *query)
{
    size_t most = 1;
    for (const char *c = query; *c; c++)
        most += *c == '&';
    r->query = region_alloc(&r->memory, most * sizeof *r->query);
    for (;;) {
        size_t len = strcspn(query, "&");
        if (!add_parameter(r, query, len))
            return 0;
        if (!query[len])
            return 1;
        query += len + 1;
    }
}

/* Behind scheme and host; those must be the ones of the Host header, which is checked later. */
static const char *without_host(const char *target)
{
    static const char scheme[] = "http://";
    if (strncasecmp(target, scheme, sizeof scheme - 1) != 0)
        return target;
    target += sizeof scheme - 1;
    target += strcspn(target, "/?");
    return *target == '/' ? target : NULL;
}

int http_target_parse(http_request *r, const char *target)
{
    r->target = region_copy(&r->memory, target, strlen(target));
    const char *path = without_host(r->target);
    r->path = "/";
    if (!path || *path != '/' || strpbrk(path, " #"))
        return 0;
    size_t len = strcspn(path, "?");
    const char *decoded = decode(&r->memory, path, len, 0);
    if (!decoded)
        return 0;
    r->path = decoded;
    return path[len] ? parse_query(r, path + len + 1) : 1;
}
