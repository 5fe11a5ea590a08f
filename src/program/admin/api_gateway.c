/* The routes of the gateway: what was counted, how long it took, and the keys whose requests are on
 * their way to the upstream. Without a gateway the list is empty. */
#include "program/admin/api_internal.h"
#include "program/gateway/gateway.h"
#include "program/support/show.h"

#include <stdio.h>
#include <string.h>

/* Between the two totals of a rate. */
#define RATE_NS INT64_C(5000000000)

void api_use_gateway(api *a, struct gateway *g)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->gateway_lock);
    a->gateway = g;
    pthread_mutex_unlock(&a->gateway_lock);
}

typedef struct visiting {
    asking *q;
    buffer *to;
} visiting;

static double rate_of(api *a, const char *name, uint64_t total)
{
    int64_t now = steady_clock_ns();
    size_t i = 0;
    while (i < API_ROUTES_MAX - 1 && *a->rates[i].name && strcmp(a->rates[i].name, name) != 0)
        i++;
    route_rate *r = &a->rates[i];
    if (strcmp(r->name, name) != 0 || total < r->total) {
        *r = (route_rate){.total = total, .at_ns = now, .rate = -1};
        (void)snprintf(r->name, sizeof r->name, "%s", name);
    } else if (now - r->at_ns >= RATE_NS) {
        r->rate = (double)(total - r->total) * 1e9 / (double)(now - r->at_ns);
        r->total = total;
        r->at_ns = now;
    }
    return r->rate;
}

static void put_outcomes(buffer *to, api *a, const route_config *route, const route_meter *seen)
{
    uint64_t total = 0;
    put_open(to, "outcomes", '{');
    for (int i = 0; i < ROUTE_OUTCOMES; i++) {
        uint64_t count = atomic_load(&seen->outcomes[i]);
        put_int(to, route_outcome_name((route_outcome)i), (int64_t)count);
        total += count;
    }
    put_close(to, '}');
    put_real(to, "rate", rate_of(a, route->name, total));
}

static void put_counted(void *context, const route_config *route, const route_meter *seen)
{
    visiting *v = context;
    uint64_t counts[HISTOGRAM_BUCKETS];
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        counts[i] = atomic_load(&seen->latency.counts[i]);
    put_open(v->to, NULL, '{');
    api_put_route(v->to, &v->q->memory, route);
    put_outcomes(v->to, v->q->a, route, seen);
    put_ms(v->to, "p50_ms", histogram_quantile(counts, 0.5));
    put_ms(v->to, "p99_ms", histogram_quantile(counts, 0.99));
    put_close(v->to, '}');
}

static void put_flight(void *context, const gateway_flight *flight)
{
    visiting *v = context;
    put_open(v->to, NULL, '{');
    put_text(v->to, "route", flight->route);
    put_key(v->to, "key", flight->key);
    put_int(v->to, "since", flight->since_ms);
    put_text(v->to, "state", "progress");
    put_int(v->to, "waiting", (int64_t)flight->waiting);
    put_close(v->to, '}');
}

static void put_gateway(asking *q, buffer *to)
{
    api *a = q->a;
    visiting v = {q, to};
    pthread_mutex_lock(&a->gateway_lock);
    put_open(to, "routes", '[');
    if (a->gateway)
        gateway_visit(a->gateway, put_counted, &v);
    put_close(to, ']');
    put_open(to, "in_flight", '[');
    if (a->gateway)
        gateway_visit_flights(a->gateway, put_flight, &v);
    put_close(to, ']');
    pthread_mutex_unlock(&a->gateway_lock);
}

/* A gateway that is configured and does not listen yet has routes without numbers. */
void api_gateway(asking *q, api_answer *out)
{
    static const char *const known[] = {NULL};
    if (!api_knows(q, out, known))
        return;
    pthread_mutex_lock(&q->a->gateway_lock);
    int listens = q->a->gateway != NULL;
    pthread_mutex_unlock(&q->a->gateway_lock);
    if (listens) {
        put_gateway(q, &out->body);
        return;
    }
    snapshot *s = api_take_facts(q->a);
    put_raw(&out->body, "routes", s->routes);
    put_raw(&out->body, "in_flight", "[]");
    api_return_facts(q->a, s);
}
