/* Redis's: the namespace can stand between braces, and everything else is within its limits. */
#include "property.h"
#include "store/redis/address.h"
#include "url_parts.h"

semel_status check_redis_address(const char *url, int secret, semel_error *err)
{
    mem_arena arena = {0};
    redis_store_address address = {0};
    semel_status status = redis_store_address_read(&address, &arena, url, err);
    if (!status) {
        const redis_address a = address.server;
        const char *name = address.name;
        HOLDS(name && *name && strlen(name) <= REDIS_NAMESPACE_MAX);
        HOLDS(!strpbrk(name, "{}*?[]/: "));
        HOLDS(a.port >= 1 && a.port <= 65535 && address.pool >= 1 && address.pool <= 1000);
        HOLDS(a.connect_ms >= 1 && a.replicas <= 100 && a.database <= 1000000);
        HOLDS(a.word <= SEMEL_DURABLE_POWER && (!a.user || a.password));
        HOLDS(keeps(secret, a.user) && keeps(secret, a.host) && keeps(secret, name));
        HOLDS(a.tls || (!a.ca && !a.certificate && !a.key));
    }
    arena_free(&arena);
    return status;
}
