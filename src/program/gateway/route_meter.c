/* See route_meter.h and route.h. */
#include "program/gateway/route.h"
#include "program/support/show.h"

const char *route_outcome_name(route_outcome outcome)
{
    static const char *const names[ROUTE_OUTCOMES] = {
        "executed",      "accepted",    "replayed", "conflict",    "mismatch", "missing_key",
        "bad_signature", "bad_request", "unknown",  "unavailable", "limited",  "too_large"};
    return names[outcome];
}

void route_count(gateway_route *route, route_outcome outcome, int64_t began_ns)
{
    int64_t took = steady_clock_ns() - began_ns;
    route_meter *meter = route->meter;
    atomic_fetch_add_explicit(&meter->outcomes[outcome], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->sum_ns, (uint_fast64_t)(took > 0 ? took : 0),
                              memory_order_relaxed);
    histogram_add(&meter->latency, took);
}
