/* Redis's, of a store and of a queue. A store's namespace can stand between braces; a queue has a
 * stream, and its dead stream is in the same slot unless the URL names another; and everything else
 * is within its limits. */
#include "property.h"
#include "store/redis/address.h"
#include "transport/redis/address.h"
#include "url_parts.h"

static void check_server(const redis_address *a, int secret)
{
    HOLDS(a->port >= 1 && a->port <= 65535);
    HOLDS(a->connect_ms >= 1 && a->replicas <= 100 && a->database <= 1000000);
    HOLDS(a->word <= SEMEL_DURABLE_POWER && (!a->user || a->password));
    HOLDS(keeps(secret, a->user) && keeps(secret, a->host));
    HOLDS(a->tls || (!a->ca && !a->certificate && !a->key));
}

static void check_queue(const char *url, int secret)
{
    mem_arena arena = {0};
    stream_address a;
    semel_error err = {0};
    semel_status status = stream_address_read(&a, &arena, url, &err);
    HOLDS_FOR(err.text, !status || keeps(secret, err.text));
    if (!status) {
        check_server(&a.server, secret);
        HOLDS(*a.stream && strlen(a.stream) <= STREAM_NAME_MAX && (!a.group || *a.group));
        HOLDS(*a.dead && strcmp(a.dead, a.stream) != 0);
        HOLDS(strstr(url, "dead=") || stream_same_slot(a.stream, a.dead));
        HOLDS(a.claim_ms >= 100 && a.poll_ms >= 1 && a.keep <= STREAM_KEEP_NONE);
        HOLDS(keeps(secret, a.stream) && keeps(secret, a.group) && keeps(secret, a.dead));
    }
    arena_free(&arena);
}

semel_status check_redis_address(const char *url, int secret, semel_error *err)
{
    mem_arena arena = {0};
    redis_store_address a = {0};
    check_queue(url, secret);
    semel_status status = redis_store_address_read(&a, &arena, url, err);
    if (!status) {
        check_server(&a.server, secret);
        HOLDS(a.name && *a.name && strlen(a.name) <= REDIS_NAMESPACE_MAX);
        HOLDS(!strpbrk(a.name, "{}*?[]/: ") && keeps(secret, a.name));
        HOLDS(a.pool >= 1 && a.pool <= 1000);
    }
    arena_free(&arena);
    return status;
}
