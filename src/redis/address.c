/* redis://user:password@host:6379/0?name=value. User, password, host and the values of parameters
 * may have %-escapes. Whatever is wrong is named, never shown: the URL holds a password. */
#include "redis/address.h"

#include "base/authority.h"
#include "base/url.h"

#include <string.h>

enum {
    PORT_DEFAULT = 6379,
    CONNECT_DEFAULT_MS = 5000,
    CONNECT_MAX_MS = 600000,
    DATABASE_MAX = 1000000,
    REPLICAS_MAX = 100
};

/* --- user:password@host:port/database --------------------------------------------------------- */

static semel_status read_database(redis_address *out, const char *path, semel_error *err)
{
    uint32_t number = 0;
    const char *at = path;
    for (; *at >= '0' && *at <= '9' && number <= DATABASE_MAX; at++)
        number = number * 10 + (uint32_t)(*at - '0');
    if (*at || number > DATABASE_MAX)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: behind the host stands the number of the database, as in "
                          "redis://host:6379/0");
    out->database = number;
    return SEMEL_OK;
}

static semel_status read_place(redis_address *out, mem_arena *arena, const char *rest,
                               semel_error *err)
{
    authority place;
    semel_status status = authority_read(&place, arena, rest, "database", err);
    if (status)
        return status;
    out->user = place.user && *place.user ? place.user : NULL;
    out->password = place.password;
    out->host = place.host ? place.host : "127.0.0.1";
    out->port = place.port ? place.port : PORT_DEFAULT;
    if (out->user && !out->password)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: a user without a password; write redis://user:password@host, or "
                          "redis://:password@host for a server with a password alone");
    return read_database(out, place.path, err);
}

/* --- parameters ------------------------------------------------------------------------------- */

static semel_status read_numbers(redis_address *out, const url *parsed, semel_error *err)
{
    semel_status status = url_number(&out->connect_ms, parsed, "connect_ms", CONNECT_DEFAULT_MS, 1,
                                     CONNECT_MAX_MS, err);
    return status ? status
                  : url_number(&out->replicas, parsed, "replicas", 0, 0, REPLICAS_MAX, err);
}

static semel_status read_choices(redis_address *out, const url *parsed, semel_error *err)
{
    static const char *const yes_no[] = {"no", "yes", NULL};
    static const char *const losses[] = {"refuse", "warn", NULL};
    static const char *const grades[] = {"not", "process", "power", NULL};
    int grade = -1;
    semel_status status = url_choice(&out->sync, parsed, "sync", yes_no, 0, err);
    if (!status)
        status = url_choice(&out->verify, parsed, "verify", yes_no, 1, err);
    if (!status)
        status = url_choice(&out->allow_loss, parsed, "loss", losses, 0, err);
    if (!status)
        status = url_choice(&grade, parsed, "durable", grades, -1, err);
    if (!status && grade >= 0)
        out->word = (semel_durability)(SEMEL_DURABLE_NOT + grade);
    return status;
}

static semel_status read_texts(redis_address *out, mem_arena *arena, const url *parsed,
                               semel_error *err)
{
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"socket", &out->socket},
                 {"ca", &out->ca},
                 {"certificate", &out->certificate},
                 {"key", &out->key}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof texts / sizeof *texts; i++) {
        const char *value = url_text(parsed, texts[i].name, NULL);
        status = authority_decode(texts[i].value, arena, texts[i].name, value,
                                  value ? strlen(value) : 0, err);
    }
    return status;
}

static semel_status check_together(const redis_address *a, const url *parsed, semel_error *err)
{
    static const char *const of_tls[] = {"ca", "certificate", "key", "verify"};
    for (size_t i = 0; !a->tls && i < sizeof of_tls / sizeof *of_tls; i++)
        if (url_text(parsed, of_tls[i], NULL))
            return semel_fail(err, SEMEL_EINVAL, "URL: %s is for TLS: write rediss:// for that",
                              of_tls[i]);
    if (!a->certificate != !a->key)
        return semel_fail(err, SEMEL_EINVAL, "URL: certificate and key belong together");
    if (a->tls && a->socket)
        return semel_fail(err, SEMEL_EINVAL, "URL: a socket= of this host takes no TLS");
    if (a->socket && strlen(a->socket) > 100)
        return semel_fail(err, SEMEL_EINVAL, "URL: the path of the socket has over 100 bytes");
    return SEMEL_OK;
}

static semel_status read_scheme(redis_address *out, const url *parsed, const char *text,
                                semel_error *err)
{
    const char *scheme = parsed->scheme;
    out->tls = scheme[strlen(scheme) - 1] == 's' && strcmp(scheme, "redis") != 0;
    return url_has_slashes(parsed, text, "host:6379/0", err);
}

semel_status redis_address_read(redis_address *out, url *parsed, mem_arena *arena, const char *text,
                                const char *names, semel_error *err)
{
    memset(out, 0, sizeof *out);
    semel_status status = url_parse(parsed, text, err);
    if (!status)
        status = read_scheme(out, parsed, text, err);
    if (!status)
        status = url_one_place(parsed, err);
    if (!status)
        status = url_only(parsed, names, err);
    if (!status)
        status = read_place(out, arena, parsed->rest, err);
    if (!status)
        status = read_numbers(out, parsed, err);
    if (!status)
        status = read_choices(out, parsed, err);
    if (!status)
        status = read_texts(out, arena, parsed, err);
    return status ? status : check_together(out, parsed, err);
}
