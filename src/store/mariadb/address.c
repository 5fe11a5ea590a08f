/* mariadb://user:password@host:3306/database?name=value. User, password, host, database and the
 * values of parameters may have %-escapes. Whatever is wrong is named, never shown: the URL holds a
 * password. */
#include "store/mariadb/address.h"

#include "base/authority.h"
#include "base/url.h"
#include "store/sql/sql.h"

#include <string.h>

enum { POOL_DEFAULT = 8, POOL_MAX = 1000, CONNECT_DEFAULT_S = 10, TIMEOUT_MAX_S = 86400 };
enum { DATABASE_MAX = 64 };

#define PARAMETERS                                                                                \
    "prefix,pool,isolation,socket,options,connect_timeout,read_timeout,write_timeout,tls,tls_ca," \
    "tls_cert,tls_key"

/* --- user:password@host:port/database --------------------------------------------------------- */

static semel_status check_database(const maria_address *out, semel_error *err)
{
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

static semel_status read_place(maria_address *out, mem_arena *arena, const char *rest,
                               semel_error *err)
{
    authority place;
    semel_status status = authority_read(&place, arena, rest, "database", err);
    if (status)
        return status;
    out->user = place.user;
    out->password = place.password;
    out->host = place.host;
    out->port = place.port;
    out->database = place.path;
    return check_database(out, err);
}

/* --- parameters ------------------------------------------------------------------------------- */

static semel_status read_numbers(maria_address *out, const url *parsed, semel_error *err)
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

static semel_status read_choices(maria_address *out, const url *parsed, semel_error *err)
{
    static const char *const levels[] = {"read-committed", "repeatable-read", "serializable", NULL};
    static const char *const modes[] = {"off", "on", "verify", NULL};
    int level, mode;
    semel_status status = url_choice(&level, parsed, "isolation", levels, -1, err);
    if (!status)
        status = url_choice(&mode, parsed, "tls", modes,
                            url_text(parsed, "tls_ca", NULL) ? TLS_VERIFY : TLS_OFF, err);
    if (status)
        return status;
    out->level = (maria_isolation)(level + 1);
    out->tls = (maria_tls_mode)mode;
    return SEMEL_OK;
}

static semel_status decode_parameter(const char **out, mem_arena *arena, const url *parsed,
                                     const char *name, semel_error *err)
{
    const char *value = url_text(parsed, name, NULL);
    return authority_decode(out, arena, name, value, value ? strlen(value) : 0, err);
}

static semel_status read_parameters(maria_address *out, mem_arena *arena, const url *parsed,
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
    return status ? status
                  : authority_decode(&out->prefix, arena, "prefix", prefix, strlen(prefix), err);
}

semel_status maria_address_read(maria_address *out, mem_arena *arena, const char *text,
                                semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (!status)
        status = url_has_slashes(&parsed, text, "user@host/database", err);
    if (!status)
        status = url_one_place(&parsed, err);
    if (!status)
        status = url_only(&parsed, PARAMETERS, err);
    if (!status)
        status = read_place(out, arena, parsed.rest, err);
    return status ? status : read_parameters(out, arena, &parsed, err);
}
