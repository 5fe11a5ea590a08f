/* Texts are copied into the arena, without their escapes. */
#include "base/authority.h"

#include <string.h>

enum { PORT_MAX = 65535 };

/* --- escapes ---------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

semel_status authority_decode(const char **out, mem_arena *arena, const char *what,
                              const char *from, size_t len, semel_error *err)
{
    char *to = from ? arena_alloc(arena, len + 1) : NULL;
    size_t at = 0;
    *out = to;
    if (!from)
        return SEMEL_OK;
    if (!to)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
    for (size_t i = 0; i < len; i++) {
        int high = from[i] == '%' && i + 2 < len ? hex_digit(from[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(from[i + 2]) : -1;
        if (from[i] == '%' && (low < 0 || (high == 0 && low == 0)))
            return semel_fail(err, SEMEL_EINVAL,
                              "URL: a %% in the %s is not followed by two hexadecimal digits "
                              "(write %%25 for a %% itself)",
                              what);
        to[at++] = from[i] == '%' ? (char)(high * 16 + low) : from[i];
        i += from[i] == '%' ? 2 : 0;
    }
    to[at] = 0;
    return SEMEL_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

typedef struct part {
    const char *at; /* NULL: not there */
    size_t len;
} part;

static const char *find_last(const char *from, size_t len, char c)
{
    while (len && from[len - 1] != c)
        len--;
    return len ? from + len - 1 : NULL;
}

static part part_of(const char *from, const char *end)
{
    return end > from ? (part){from, (size_t)(end - from)} : (part){NULL, 0};
}

static semel_status read_user(authority *out, mem_arena *arena, part whole, semel_error *err)
{
    const char *colon = memchr(whole.at, ':', whole.len), *end = whole.at + whole.len;
    part user = part_of(whole.at, colon ? colon : end);
    part password = colon ? part_of(colon + 1, end) : (part){NULL, 0};
    semel_status status = authority_decode(&out->user, arena, "user", user.at, user.len, err);
    return status ? status
                  : authority_decode(&out->password, arena, "password", password.at, password.len,
                                     err);
}

semel_status authority_port(uint32_t *out, const char *from, size_t len, semel_error *err)
{
    unsigned long number = 0;
    size_t at = 0;
    while (at < len && from[at] >= '0' && from[at] <= '9' && number <= PORT_MAX)
        number = number * 10 + (unsigned long)(from[at++] - '0');
    if (at < len || !number || number > PORT_MAX)
        return semel_fail(err, SEMEL_EINVAL, "URL: the port must be a number from 1 to %d",
                          PORT_MAX);
    *out = (uint32_t)number;
    return SEMEL_OK;
}

semel_status authority_check_host(const char *host, size_t len, semel_error *err)
{
    return memchr(host, '@', len)
               ? semel_fail(err, SEMEL_EINVAL,
                            "URL: there is an escaped @ in the host; the @ behind the password is "
                            "written as it is")
               : SEMEL_OK;
}

/* An IPv6 address stands in brackets. */
static semel_status read_host(authority *out, mem_arena *arena, part whole, semel_error *err)
{
    const char *end = whole.at + whole.len;
    int bracket = whole.len && whole.at[0] == '[';
    const char *close = bracket ? memchr(whole.at, ']', whole.len) : NULL;
    const char *after = close ? close + 1 : whole.at;
    const char *colon = memchr(after, ':', (size_t)(end - after));
    if ((bracket && !close) || (close && after != end && after != colon))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: an IPv6 address reads [address] or [address]:port");
    part host = close ? part_of(whole.at + 1, close) : part_of(whole.at, colon ? colon : end);
    semel_status status = authority_decode(&out->host, arena, "host", host.at, host.len, err);
    if (!status && out->host)
        status = authority_check_host(out->host, strlen(out->host), err);
    if (status || !colon)
        return status;
    return authority_port(&out->port, colon + 1, (size_t)(end - colon - 1), err);
}

semel_status authority_read(authority *out, mem_arena *arena, const char *rest,
                            const char *path_name, semel_error *err)
{
    const char *slash = strchr(rest, '/');
    size_t len = slash ? (size_t)(slash - rest) : strlen(rest);
    const char *at = find_last(rest, len, '@');
    semel_status status = SEMEL_OK;
    *out = (authority){0};
    if (at)
        status = read_user(out, arena, (part){rest, (size_t)(at - rest)}, err);
    const char *host = at ? at + 1 : rest;
    if (!status)
        status = read_host(out, arena, (part){host, len - (size_t)(host - rest)}, err);
    const char *path = slash ? slash + 1 : "";
    return status ? status
                  : authority_decode(&out->path, arena, path_name, path, strlen(path), err);
}
