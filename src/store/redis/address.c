/* The URL of a store: the server's part (redis/address.c), the namespace and the pool. */
#include "store/redis/address.h"

#include "base/authority.h"
#include "base/url.h"

#include <string.h>

enum { POOL_DEFAULT = 8, POOL_MAX = 1000 };

/* It stands between braces in every key, and in patterns of rights. */
static semel_status read_name(redis_store_address *out, mem_arena *arena, const url *parsed,
                              semel_error *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *name = url_text(parsed, "namespace", "semel");
    size_t len = strlen(name);
    if (!len || len > REDIS_NAMESPACE_MAX || strspn(name, good) != len)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: namespace is 1 to %d letters, digits and . _ -, and keys begin "
                          "with it in braces: {semel}",
                          REDIS_NAMESPACE_MAX);
    return authority_decode(&out->name, arena, "namespace", name, len, err);
}

semel_status redis_store_address_read(redis_store_address *out, mem_arena *arena, const char *text,
                                      semel_error *err)
{
    url parsed = {.parameter_count = 0};
    memset(out, 0, sizeof *out);
    semel_status status = redis_address_read(&out->server, &parsed, arena, text,
                                             "namespace,pool," REDIS_PARAMETERS, err);
    if (status && (url_text(&parsed, "stream", NULL) || url_text(&parsed, "group", NULL)))
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: stream and group are of a queue in Redis (docs/REDIS_STREAMS.md); "
                          "this is a store, and takes namespace=");
    if (!status)
        status = url_number(&out->pool, &parsed, "pool", POOL_DEFAULT, 1, POOL_MAX, err);
    return status ? status : read_name(out, arena, &parsed, err);
}
