/* See proxy_inbox.h. */
#include "program/gateway/proxy_inbox.h"

#include <string.h>

static const char prefix[] = "gateway.";

const char *proxy_inbox_name(region *memory, const route_config *route)
{
    return region_printf(memory, "%s%s", prefix, route->name);
}

int proxy_inbox_is(const char *name)
{
    return strncmp(name, prefix, sizeof prefix - 1) == 0;
}

semel_inbox_options proxy_inbox_options(const route_config *route)
{
    return (semel_inbox_options){.size = sizeof(semel_inbox_options),
                                 .key = "id",
                                 .mode = SEMEL_CLAIM,
                                 .on_duplicate = SEMEL_DUPLICATE_REPLAY,
                                 .on_in_flight = SEMEL_IN_FLIGHT_REPORT,
                                 .on_missing_key = SEMEL_MISSING_KEY_REJECT,
                                 .on_mismatch = SEMEL_MISMATCH_REJECT,
                                 .age = SEMEL_AGE_IGNORE,
                                 .fingerprint = "body",
                                 .lease_ms = route->lease_ms,
                                 .attempts_max = UINT32_MAX,
                                 .retention_ms = route->retention_ms,
                                 .durable_claims = 1};
}
