/* The JSON API of the admin server: what the page shows, and what it can change
 * (docs/DASHBOARD.md).
 *
 * Whatever the store does, an answer comes in time. Numbers of the process are in memory. What
 * the store holds is asked for by threads of the API, and a question that takes too long is
 * answered with 503 while its thread still waits. Changes are jobs: the same code as the
 * commands, in steps, with their entry in the audit. */
#ifndef SEMEL_PROGRAM_ADMIN_API_H
#define SEMEL_PROGRAM_ADMIN_API_H

#include "program/config/config.h"
#include "program/http/server.h"
#include "program/run/log.h"

#include <semel/pipeline.h>

struct live;
struct gateway;

typedef struct api api;

typedef struct api_links {
    log *log;
    struct live *live; /* the counters, and health */
} api_links;

/* Starts the threads. What the configuration says is copied. */
api *api_open(const config *all, const api_links *links);

/* Once, when it is open. */
void api_use_store(api *a, semel_store *store);

/* The pipeline and its configuration. NULL: the old ones may be closed when this returns; jobs stop
 * after the step in hand. */
void api_use_pipeline(api *a, const config *all, semel_pipeline *pipeline);

/* NULL: there is none, and the old one may be closed when this returns. */
void api_use_gateway(api *a, struct gateway *g);

/* After the HTTP server was closed, and before the store is. NULL is a no-op. */
void api_close(api *a);

/* Answers the request, perhaps later and from another thread. Returns 1. */
int api_handle(api *a, http_request *request);

#endif
