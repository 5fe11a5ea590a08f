/* See admin.h: opening, following the configuration, closing. */
#include "program/admin/admin_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORKERS = 4,
    CONNECTIONS = 256,
    BODY_BYTES = 1 << 20,
    HEADER_BYTES = 16 << 10,
    MEMORY_BYTES = 16 << 20,
    REQUEST_MS = 10000,
    IDLE_MS = 60000
};

static semel_status listen_on(http_server **out, admin *a, const char *listen, semel_error *err)
{
    const http_server_options options = {.listen = listen,
                                         .workers = WORKERS,
                                         .connections = CONNECTIONS,
                                         .body_bytes = BODY_BYTES,
                                         .header_bytes = HEADER_BYTES,
                                         .memory_bytes = MEMORY_BYTES,
                                         .request_ms = REQUEST_MS,
                                         .idle_ms = IDLE_MS,
                                         .handle = admin_handle,
                                         .context = a,
                                         .headers = admin_headers};
    return http_server_open(out, &options, err);
}

static void note_address(admin *a)
{
    buffer url = {0};
    const char *address = http_server_address(a->server);
    if (strncmp(address, "unix:", 5) == 0)
        buffer_text(&url, address);
    else
        buffer_printf(&url, "http://%s/", address);
    free(a->url);
    a->url = url.data;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void free_all(admin *a)
{
    http_server_close(a->prepared);
    http_server_close(a->server);
    api_close(a->api);
    readiness_close(a->readiness);
    totals_close(a->totals);
    region_free(&a->names.memory);
    pthread_rwlock_destroy(&a->lock);
    free(a->prepared_listen);
    free(a->listen);
    free(a->url);
    free(a);
}

/* What requests need is there before the first one comes. */
semel_status admin_open(admin **out, const config *all, const admin_links *links, semel_error *err)
{
    admin *a = must_alloc(sizeof *a);
    a->links = *links;
    pthread_rwlock_init(&a->lock, NULL);
    admin_names_read(&a->names, all);
    a->listen = must_copy(all->admin.listen);
    a->totals = totals_open();
    a->readiness = a->totals ? readiness_open(links->live, a->totals) : NULL;
    semel_status status =
        a->readiness ? SEMEL_OK
                     : semel_fail(err, SEMEL_EUNAVAILABLE, "the threads cannot be started");
    if (!status) {
        readiness_configure(a->readiness, all);
        a->api = api_open(all, &(api_links){.log = links->log, .live = links->live});
        status = listen_on(&a->server, a, a->listen, err);
    }
    if (status) {
        free_all(a);
        return status;
    }
    note_address(a);
    *out = a;
    return SEMEL_OK;
}

void admin_close(admin *a)
{
    if (a)
        free_all(a);
}

const char *admin_url(const admin *a)
{
    return a->url;
}

/* --- following the configuration -------------------------------------------------------------- */

static void forget_prepared(admin *a)
{
    http_server_close(a->prepared);
    free(a->prepared_listen);
    a->prepared = NULL;
    a->prepared_listen = NULL;
}

semel_status admin_prepare(admin *a, const config *all, semel_error *err)
{
    forget_prepared(a);
    if (strcmp(all->admin.listen, a->listen) == 0)
        return SEMEL_OK;
    semel_status status = listen_on(&a->prepared, a, all->admin.listen, err);
    if (!status)
        a->prepared_listen = must_copy(all->admin.listen);
    return status;
}

/* The old address answers until the new one is used. */
static void follow_address(admin *a, const char *listen)
{
    if (a->prepared && strcmp(listen, a->prepared_listen) == 0) {
        http_server *old = a->server;
        a->server = a->prepared;
        free(a->listen);
        a->listen = a->prepared_listen;
        a->prepared = NULL;
        a->prepared_listen = NULL;
        note_address(a);
        http_server_close(old);
    }
    forget_prepared(a);
}

static void follow(admin *a, const config *all)
{
    admin_names fresh, old;
    follow_address(a, all->admin.listen);
    admin_names_read(&fresh, all);
    pthread_rwlock_wrlock(&a->lock);
    old = a->names;
    a->names = fresh;
    pthread_rwlock_unlock(&a->lock);
    region_free(&old.memory);
    readiness_configure(a->readiness, all);
}

void admin_use_store(admin *a, semel_store *store)
{
    if (!a)
        return;
    totals_use_store(a->totals, store);
    api_use_store(a->api, store);
}

void admin_use_pipeline(admin *a, const config *all, semel_pipeline *pipeline)
{
    if (!a)
        return;
    if (pipeline)
        follow(a, all);
    totals_use_pipeline(a->totals, all, pipeline);
    api_use_pipeline(a->api, all, pipeline);
}

void admin_use_gateway(admin *a, struct gateway *g)
{
    if (!a)
        return;
    pthread_rwlock_wrlock(&a->lock);
    a->gateway = g;
    pthread_rwlock_unlock(&a->lock);
    api_use_gateway(a->api, g);
}
