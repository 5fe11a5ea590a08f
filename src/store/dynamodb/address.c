/* See address.h. There are no credentials in the URL: AWS's tools have better places for them. A
 * URL that has a user is refused, so that nobody finds out later that it was ignored. */
#include "store/dynamodb/address.h"

#include "base/authority.h"
#include "base/url.h"

#include <string.h>

#define PARAMETERS "region,endpoint,profile,pool,loss"

static semel_status check_table(const char *table, semel_error *err)
{
    enum { SHORTEST = 3 };
    size_t len = strlen(table);
    if (len >= SHORTEST && len <= DYNAMO_TABLE_MAX &&
        strspn(table, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == len)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL,
                      "URL: it should read dynamodb://TABLE?region=REGION, and the name of a table "
                      "has 3 to 255 letters, digits, _ . or -");
}

static semel_status copy_parameter(const char **out, mem_arena *arena, const url *parsed,
                                   const char *name, semel_error *err)
{
    const char *value = url_text(parsed, name, NULL);
    *out = NULL;
    if (!value)
        return SEMEL_OK;
    if (!*value)
        return semel_fail(err, SEMEL_EINVAL, "URL: %s is empty", name);
    return authority_decode(out, arena, name, value, strlen(value), err);
}

semel_status dynamo_address_read(dynamo_address *out, mem_arena *arena, const char *text,
                                 semel_error *err)
{
    static const char *const losses[] = {"refuse", "warn", NULL};
    url parsed;
    *out = (dynamo_address){0};
    semel_status status = url_parse(&parsed, text, err);
    if (!status && strchr(parsed.rest, '@'))
        status = semel_fail(err, SEMEL_EINVAL,
                            "URL: it has no user and no password; AWS credentials come from "
                            "AWS_ACCESS_KEY_ID, AWS_PROFILE or a role");
    if (!status)
        status = url_only(&parsed, PARAMETERS, err);
    if (!status)
        status = check_table(parsed.rest, err);
    if (!status)
        status = copy_parameter(&out->region, arena, &parsed, "region", err);
    if (!status)
        status = copy_parameter(&out->endpoint, arena, &parsed, "endpoint", err);
    if (!status)
        status = copy_parameter(&out->profile, arena, &parsed, "profile", err);
    if (!status)
        status =
            url_number(&out->pool, &parsed, "pool", DYNAMO_POOL_DEFAULT, 1, DYNAMO_POOL_MAX, err);
    if (!status)
        status = url_choice(&out->global, &parsed, "loss", losses, 0, err);
    if (status)
        return status;
    out->table = arena_copy(arena, parsed.rest, strlen(parsed.rest));
    return out->table ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory reading a URL");
}
