/* The URL: what is semel's own in it, and the rest as libpq takes it.
 *
 * libpq reads its part itself, so all that it knows is known here: several hosts, sockets, TLS,
 * services, password files. Its messages about a bad URL repeat the URL and with it the password,
 * so they are not shown. */
#include "store/postgres/address.h"

#include "base/authority.h"
#include "base/url.h"
#include "store/sql/sql.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_PARAMETERS "schema,pool,isolation,notify"

static int is_own(const char *name)
{
    static const char *const own[] = {"schema", "pool", "isolation", "notify"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i], name) == 0)
            return 1;
    return 0;
}

static int is_libpqs(const PQconninfoOption *known, const char *name)
{
    if (strcmp(name, "ssl") == 0) /* JDBC's; libpq understands ssl=true */
        return 1;
    for (; known->keyword; known++)
        if (strcmp(known->keyword, name) == 0)
            return 1;
    return 0;
}

static semel_status check_names(const url *parsed, semel_error *err)
{
    semel_status status = SEMEL_OK;
    PQconninfoOption *known = PQconndefaults();
    if (!known)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
    for (size_t i = 0; !status && i < parsed->parameter_count; i++) {
        const char *name = parsed->parameters[i].name;
        if (!is_own(name) && !is_libpqs(known, name))
            status =
                semel_fail(err, SEMEL_EINVAL,
                           "URL: unknown parameter \"%s\"; of semel's own there are " OWN_PARAMETERS
                           ", the others are libpq's",
                           url_shown_name(parsed, name));
    }
    PQconninfoFree(known);
    return status;
}

/* The URL without what is semel's own. */
static void strip_own(char *out, size_t room, const char *text, const url *parsed)
{
    size_t len = strcspn(text, "?");
    (void)snprintf(out, room, "%.*s", (int)len, text);
    char mark = '?';
    for (size_t i = 0; i < parsed->parameter_count; i++) {
        const url_parameter *p = &parsed->parameters[i];
        if (is_own(p->name))
            continue;
        size_t used = strlen(out);
        (void)snprintf(out + used, room - used, "%c%s=%s", mark, p->name, p->value);
        mark = '&';
    }
}

static semel_status add_pair(pg_address *out, mem_arena *arena, const char *keyword,
                             const char *value, semel_error *err)
{
    if (out->count == ADDRESS_PAIRS_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "URL: more than %d settings", ADDRESS_PAIRS_MAX);
    out->keywords[out->count] = arena_copy(arena, keyword, strlen(keyword));
    out->values[out->count] = arena_copy(arena, value, strlen(value));
    if (!out->keywords[out->count] || !out->values[out->count])
        return semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
    out->count++;
    out->keywords[out->count] = out->values[out->count] = NULL;
    return SEMEL_OK;
}

/* The place of a keyword among the pairs; `count` if it is not given. */
static size_t find_keyword(const pg_address *a, const char *keyword)
{
    size_t at = 0;
    while (at < a->count && strcmp(a->keywords[at], keyword) != 0)
        at++;
    return at;
}

static int is_given(const pg_address *a, const char *keyword)
{
    return find_keyword(a, keyword) < a->count;
}

/* semel's defaults for parameters that neither the URL nor the environment sets: a dead peer is
 * noticed within half a minute. */
static semel_status add_wishes(pg_address *out, mem_arena *arena, semel_error *err)
{
    static const char *const wishes[][2] = {{"fallback_application_name", "semel"},
                                            {"client_encoding", "UTF8"},
                                            {"keepalives_idle", "20"},
                                            {"keepalives_interval", "5"},
                                            {"tcp_user_timeout", "30000"}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof wishes / sizeof *wishes; i++)
        if (!is_given(out, wishes[i][0]))
            status = add_pair(out, arena, wishes[i][0], wishes[i][1], err);
    return status;
}

/* --- hosts and ports -------------------------------------------------------------------------- */

/* libpq looks at ports and hosts only when it connects, and then it is as if the server were away.
 * So they are looked at before. Both may be lists, and what is empty in a list is the usual one. */
typedef semel_status check_one(const char *text, size_t len, semel_error *err);

static semel_status check_list(const char *list, check_one *check, semel_error *err)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        semel_status status = check(list, len, err);
        if (status || !list[len])
            return status;
        list += len + 1;
    }
}

static semel_status check_port(const char *port, size_t len, semel_error *err)
{
    uint32_t number;
    return len ? authority_port(&number, port, len, err) : SEMEL_OK;
}

/* A path of a socket may have an @, and in Linux's abstract namespace it begins with one. */
static semel_status check_host(const char *host, size_t len, semel_error *err)
{
    return *host == '/' || *host == '@' ? SEMEL_OK : authority_check_host(host, len, err);
}

/* host, host:port or [address]:port as they stand in the URL: there a port that is empty was
 * forgotten. */
static semel_status check_place(const char *place, size_t len, semel_error *err)
{
    uint32_t number;
    const char *end = place + len;
    const char *close = *place == '[' ? memchr(place, ']', len) : NULL;
    const char *from = close ? close : place;
    const char *colon = memchr(from, ':', (size_t)(end - from));
    return colon ? authority_port(&number, colon + 1, (size_t)(end - colon - 1), err) : SEMEL_OK;
}

static semel_status check_places(const url *parsed, semel_error *err)
{
    char places[URL_MAX];
    const char *at = strchr(parsed->rest, '@');
    const char *from = at ? at + 1 : parsed->rest;
    (void)snprintf(places, sizeof places, "%.*s", (int)strcspn(from, "/"), from);
    return check_list(places, check_place, err);
}

static semel_status check_setting(const PQconninfoOption *setting, semel_error *err)
{
    uint32_t number;
    if (strcmp(setting->keyword, "host") == 0)
        return check_list(setting->val, check_host, err);
    if (strcmp(setting->keyword, "port") != 0)
        return SEMEL_OK;
    return *setting->val ? check_list(setting->val, check_port, err)
                         : authority_port(&number, "", 0, err);
}

static semel_status read_libpqs(pg_address *out, mem_arena *arena, const char *text,
                                const url *parsed, semel_error *err)
{
    char stripped[URL_MAX + 8], *complaint = NULL;
    semel_status status = SEMEL_OK;
    strip_own(stripped, sizeof stripped, text, parsed);
    PQconninfoOption *options = PQconninfoParse(stripped, &complaint);
    PQfreemem(complaint);
    if (!options)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: it should read postgres://user:password@host:port/database?"
                          "name=value, with %%-escapes for what is special");
    for (const PQconninfoOption *at = options; !status && at->keyword; at++) {
        if (at->val)
            status = check_setting(at, err);
        if (at->val && !status)
            status = add_pair(out, arena, at->keyword, at->val, err);
    }
    PQconninfoFree(options);
    return status ? status : add_wishes(out, arena, err);
}

static semel_status read_isolation(pg_address *out, const url *parsed, semel_error *err)
{
    static const char *const levels[][2] = {{"read-committed", "READ COMMITTED"},
                                            {"repeatable-read", "REPEATABLE READ"},
                                            {"serializable", "SERIALIZABLE"}};
    const char *asked = url_text(parsed, "isolation", NULL);
    for (size_t i = 0; asked && i < sizeof levels / sizeof *levels; i++)
        if (strcmp(asked, levels[i][0]) == 0)
            out->isolation = levels[i][1];
    if (asked && !out->isolation)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: isolation is read-committed, repeatable-read or serializable, not "
                          "\"%s\"",
                          asked);
    return SEMEL_OK;
}

static semel_status read_own(pg_address *out, mem_arena *arena, const url *parsed, semel_error *err)
{
    const char *schema = url_text(parsed, "schema", "public");
    const char *notify = url_text(parsed, "notify", "on");
    semel_status status = sql_check_name("URL: schema", schema, err);
    if (!status)
        status = url_number(&out->pool, parsed, "pool", POOL_DEFAULT, 1, POOL_MAX, err);
    if (!status)
        status = read_isolation(out, parsed, err);
    out->notify = strcmp(notify, "on") == 0;
    out->notify_asked = url_text(parsed, "notify", NULL) != NULL;
    if (!status && !out->notify && strcmp(notify, "off") != 0)
        status = semel_fail(err, SEMEL_EINVAL, "URL: notify is on or off, not \"%s\"", notify);
    if (status)
        return status;
    out->schema = arena_copy(arena, schema, strlen(schema));
    return out->schema ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
}

semel_status pg_address_read(pg_address *out, mem_arena *arena, const char *text, semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (!status)
        status = url_has_slashes(&parsed, text, "user@host/database", err);
    if (!status)
        status = url_one_place(&parsed, err);
    if (!status)
        status = check_names(&parsed, err);
    if (!status)
        status = check_places(&parsed, err);
    if (!status)
        status = read_own(out, arena, &parsed, err);
    return status ? status : read_libpqs(out, arena, text, &parsed, err);
}

/* --- sessions --------------------------------------------------------------------------------- */

/* Where the server's own settings stand among the pairs: from the URL or, as libpq does it, from
 * the environment. */
static semel_status find_options(size_t *at, pg_address *out, mem_arena *arena, semel_error *err)
{
    const char *usual = getenv("PGOPTIONS");
    *at = find_keyword(out, "options");
    return *at < out->count ? SEMEL_OK : add_pair(out, arena, "options", usual ? usual : "", err);
}

semel_status pg_address_bound(pg_address *out, mem_arena *arena, uint32_t lock_ms, semel_error *err)
{
    enum { SETTING_TEXT = 48 };
    size_t at;
    semel_status status = find_options(&at, out, arena, err);
    if (status)
        return status;
    size_t room = strlen(out->values[at]) + SETTING_TEXT;
    char *text = arena_alloc(arena, room);
    if (!text)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
    (void)snprintf(text, room, "%s -c lock_timeout=%u", out->values[at], lock_ms);
    memcpy(out->bounded, out->values, sizeof out->bounded);
    out->bounded[at] = text;
    return SEMEL_OK;
}
