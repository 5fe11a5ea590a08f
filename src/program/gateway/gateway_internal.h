/* The gateway as its parts share it. */
#ifndef SEMEL_PROGRAM_GATEWAY_GATEWAY_INTERNAL_H
#define SEMEL_PROGRAM_GATEWAY_GATEWAY_INTERNAL_H

#include "program/gateway/rate.h"
#include "program/gateway/route.h"

#include <pthread.h>

/* The meter of a name, for as long as the gateway is open. */
typedef struct named_meter {
    struct named_meter *next;
    char *name;
    route_meter meter;
} named_meter;

/* The routes of one configuration. */
typedef struct route_table {
    gateway *gateway;
    region memory;
    gateway_route *routes;
    size_t count;
    size_t proxies; /* requests that use one, by the gateway's lock */
    size_t others;  /* requests that use a route with a pipeline */
    int is_left;    /* another table is used by now */
    uint32_t rate;  /* of routes that have none */
} route_table;

/* A server that takes no more requests: a thread waits for the end of those in hand. */
typedef struct old_server {
    struct old_server *next;
    http_server *server;
    gateway *gateway;
    pthread_t closer;
} old_server;

struct gateway {
    gateway_links links;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the table, the pipeline, or the number of requests */
    route_table *table;     /* NULL: never used yet */
    int has_pipeline;
    int64_t paused_ms; /* since when there is no pipeline */
    int is_draining;
    size_t kept; /* requests in hand, of all tables */
    named_meter *meters;
    rate_table *rates;
    http_server *server;
    char *settings; /* of the server, as one text */
    http_server *prepared;
    char *prepared_settings;
    old_server *old;
};

/* gateway_table.c */
route_table *route_table_open(gateway *g, const config *all, semel_store *store,
                              semel_pipeline *pipeline, const assembly *parts);
void route_table_close(route_table *table);    /* nothing uses it */
void table_leave_pipeline(route_table *table); /* closes the routes that have one */
gateway_route *route_table_find(route_table *table, const char *path);
/* Opens a route that could not be opened before; not more than once a second. */
int route_table_reopen(gateway_route *route);
int route_accepts(const gateway_route *route, const char *method);

/* gateway_servers.c: each with the gateway's lock not held. */
semel_status servers_open(gateway *g, const config *all, semel_error *err);
semel_status servers_prepare(gateway *g, const config *all, semel_error *err);
void servers_exchange(gateway *g, const config *all);
void servers_close(gateway *g);
void gateway_handle(http_request *request, void *context);
uint64_t gateway_body_limit(const http_request *request, void *context);

#endif
