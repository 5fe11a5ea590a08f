/* mariadb://user:password@host:3306/database?name=value. User, password, host, database and the values of
 * parameters may have %-escapes. Whatever is wrong is named, never shown: the URL holds a password. */
#include "store/mariadb/address.h"

#include "base/sql.h"
#include "base/url.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_DEFAULT = 8, POOL_MAX = 1000, CONNECT_DEFAULT_S = 10, TIMEOUT_MAX_S = 86400 };
enum { PORT_MAX = 65535, DATABASE_MAX = 64 };

#define PARAMETERS                                                                                \
    "prefix,pool,isolation,socket,options,connect_timeout,read_timeout,write_timeout,tls,tls_ca," \
    "tls_cert,tls_key"

/* --- texts ------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A copy without escapes; NULL stays NULL. `what` is for the error. */
static semel_status decode(const char **out, mem_arena *arena, const char *what, const char *from,
                           size_t len, semel_error *err)
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

static semel_status decode_parameter(const char **out, mem_arena *arena, const url *parsed,
                                     const char *name, semel_error *err)
{
    const char *value = url_text(parsed, name, NULL);
    return decode(out, arena, name, value, value ? strlen(value) : 0, err);
}

/* --- user:password@host:port/database ------------------------------------------------------------------ */

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
    return (part){end > from ? from : NULL, (size_t)(end - from)};
}

static semel_status read_user(address *out, mem_arena *arena, part whole, semel_error *err)
{
    const char *colon = memchr(whole.at, ':', whole.len), *end = whole.at + whole.len;
    part user = part_of(whole.at, colon ? colon : end);
    part password = colon ? part_of(colon + 1, end) : (part){NULL, 0};
    semel_status status = decode(&out->user, arena, "user", user.at, user.len, err);
    return status ? status
                  : decode(&out->password, arena, "password", password.at, password.len, err);
}

static semel_status read_port(address *out, part port, semel_error *err)
{
    unsigned long number = 0;
    size_t at = 0;
    while (at < port.len && port.at[at] >= '0' && port.at[at] <= '9' && number <= PORT_MAX)
        number = number * 10 + (unsigned long)(port.at[at++] - '0');
    if (at < port.len || !number || number > PORT_MAX)
        return semel_fail(err, SEMEL_EINVAL, "URL: the port must be a number from 1 to %d",
                          PORT_MAX);
    out->port = (uint32_t)number;
    return SEMEL_OK;
}

/* An IPv6 address stands in brackets. */
static semel_status read_host(address *out, mem_arena *arena, part whole, semel_error *err)
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
    semel_status status = decode(&out->host, arena, "host", host.at, host.len, err);
    if (status || !colon)
        return status;
    return read_port(out, part_of(colon + 1, end), err);
}

static semel_status read_database(address *out, mem_arena *arena, const char *name,
                                  semel_error *err)
{
    semel_status status = decode(&out->database, arena, "database", name, strlen(name), err);
    if (status)
        return status;
    if (!*out->database || strlen(out->database) > DATABASE_MAX || strchr(out->database, '/'))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: it must name a database (of 1 to %d bytes), as in "
                          "mariadb://user@host/database",
                          DATABASE_MAX);
    if (strpbrk(out->database, "`?~{}")) /* it becomes part of our statements' texts */
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: the name of the database must not have any of ` ? ~ { }");
    return SEMEL_OK;
}

static semel_status read_place(address *out, mem_arena *arena, const char *rest, semel_error *err)
{
    const char *slash = strchr(rest, '/');
    size_t len = slash ? (size_t)(slash - rest) : strlen(rest);
    const char *at = find_last(rest, len, '@');
    semel_status status = SEMEL_OK;
    if (at)
        status = read_user(out, arena, (part){rest, (size_t)(at - rest)}, err);
    const char *host = at ? at + 1 : rest;
    if (!status)
        status = read_host(out, arena, (part){host, len - (size_t)(host - rest)}, err);
    return status ? status : read_database(out, arena, slash ? slash + 1 : "", err);
}

/* --- parameters ----------------------------------------------------------------------------------------- */

/* One of several words; *out is its number, or `fallback` if none is given. */
static semel_status read_choice(int *out, const url *parsed, const char *name,
                                const char *const words[], int fallback, semel_error *err)
{
    const char *given = url_text(parsed, name, NULL);
    *out = fallback;
    for (int i = 0; given && words[i]; i++)
        if (strcmp(words[i], given) == 0) {
            *out = i;
            return SEMEL_OK;
        }
    return given ? semel_fail(err, SEMEL_EINVAL, "URL: %s is %s, %s or %s, not \"%s\"", name,
                              words[0], words[1], words[2], given)
                 : SEMEL_OK;
}

static semel_status read_numbers(address *out, const url *parsed, semel_error *err)
{
    semel_status status = url_number(&out->pool, parsed, "pool", POOL_DEFAULT, 1, POOL_MAX, err);
    if (!status)
        status = url_number(&out->connect_s, parsed, "connect_timeout", CONNECT_DEFAULT_S, 1,
                            TIMEOUT_MAX_S, err);
    if (!status)
        status = url_number(&out->read_s, parsed, "read_timeout", 0, 1, TIMEOUT_MAX_S, err);
    if (!status)
        status = url_number(&out->write_s, parsed, "write_timeout", 0, 1, TIMEOUT_MAX_S, err);
    return status;
}

static semel_status read_choices(address *out, const url *parsed, semel_error *err)
{
    static const char *const levels[] = {"read-committed", "repeatable-read", "serializable", NULL};
    static const char *const modes[] = {"off", "on", "verify", NULL};
    int level, mode;
    semel_status status = read_choice(&level, parsed, "isolation", levels, -1, err);
    if (!status)
        status = read_choice(&mode, parsed, "tls", modes,
                             url_text(parsed, "tls_ca", NULL) ? TLS_VERIFY : TLS_OFF, err);
    if (status)
        return status;
    out->level = (isolation)(level + 1);
    out->tls = (tls_mode)mode;
    return SEMEL_OK;
}

static semel_status read_parameters(address *out, mem_arena *arena, const url *parsed,
                                    semel_error *err)
{
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"socket", &out->socket},
                 {"options", &out->options},
                 {"tls_ca", &out->tls_ca},
                 {"tls_cert", &out->tls_cert},
                 {"tls_key", &out->tls_key}};
    semel_status status = read_numbers(out, parsed, err);
    if (!status)
        status = read_choices(out, parsed, err);
    for (size_t i = 0; !status && i < sizeof texts / sizeof *texts; i++)
        status = decode_parameter(texts[i].value, arena, parsed, texts[i].name, err);
    const char *prefix = url_text(parsed, "prefix", "semel_");
    if (!status)
        status = sql_check_name("URL: prefix", prefix, err);
    return status ? status : decode(&out->prefix, arena, "prefix", prefix, strlen(prefix), err);
}

semel_status maria_address_read(address *out, mem_arena *arena, const char *text, semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (status)
        return status;
    if (strncmp(text + strlen(parsed.scheme), "://", 3) != 0)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: after %s: it takes //, as in %s://user@host/database",
                          parsed.scheme, parsed.scheme);
    status = url_only(&parsed, PARAMETERS, err);
    if (!status)
        status = read_place(out, arena, parsed.rest, err);
    return status ? status : read_parameters(out, arena, &parsed, err);
}
