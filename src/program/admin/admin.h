/* The admin server of `semel run`: HTTP for operators and their tools, on a port of its own.
 *
 *     /livez    the process answers
 *     /readyz   it receives messages, and what it needs works; ?verbose names each check
 *     /metrics  counters and totals, for Prometheus
 *     /api/     what the page shows and changes; anything else is the page
 *
 * It answers from the start of the process to its end, whatever becomes of the store: no request
 * asks the store by itself. Requests for hosts that are not its own are refused, so that no web
 * page can use a browser to reach it (DNS rebinding). */
#ifndef SEMEL_PROGRAM_ADMIN_ADMIN_H
#define SEMEL_PROGRAM_ADMIN_ADMIN_H

#include "program/config/config.h"
#include "program/run/log.h"

#include <semel/pipeline.h>

struct live;
struct gateway;

typedef struct admin admin;

typedef struct admin_links {
    log *log;
    struct live *live;
} admin_links;

/* Listens as the configuration says, which must have admin.listen. */
semel_status admin_open(admin **out, const config *all, const admin_links *links, semel_error *err);

/* Before a configuration is used: listens on its address, if that is another one, so that it is
 * known whether this can be done. What was prepared and is not used is closed by the next
 * admin_prepare() or admin_use_pipeline(). */
semel_status admin_prepare(admin *a, const config *all, semel_error *err);

/* Once, when it is open. */
void admin_use_store(admin *a, semel_store *store);

/* What health and metrics are about, and the rest of the configuration: names, hosts, token. NULL
 * while it is exchanged: the old ones may be closed when this returns. A NULL admin is a no-op. */
void admin_use_pipeline(admin *a, const config *all, semel_pipeline *pipeline);

/* Whose requests are counted; NULL: there is none (any more). A NULL admin is a no-op. */
void admin_use_gateway(admin *a, struct gateway *g);

/* Before the store and `live` are closed. NULL is a no-op. */
void admin_close(admin *a);

const char *admin_url(const admin *a); /* "http://127.0.0.1:8481/", "unix:/run/semel.sock" */

#endif
