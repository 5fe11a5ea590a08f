/* The HTTP servers of the gateway: the one that takes requests, and those that an exchange of the
 * configuration has left, until their last request is answered.
 *
 * Another address is listened on before the configuration is used, so that one that cannot be had
 * refuses the configuration. A server with other limits at the same address shares the socket of
 * the old one. The old one still handles what comes on its connections, closes each after an
 * answer, and then those that are idle. */
#include "program/gateway/gateway_internal.h"
#include "program/support/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAVE_MS = 5000, PAUSE_MS = 50 };

/* Two configurations with the same text have the same server. */
static char *settings_of(const gateway_config *from)
{
    buffer text = {0};
    buffer_printf(&text, "%s %u %u %u %llu %llu %llu %u %u", from->listen, from->workers,
                  from->connections, from->connections_per_client,
                  (unsigned long long)from->body_bytes, (unsigned long long)from->header_bytes,
                  (unsigned long long)from->memory_bytes, from->request_ms, from->idle_ms);
    return text.data;
}

static semel_status open_server(http_server **out, gateway *g, const gateway_config *from,
                                http_server *follows, semel_error *err)
{
    const http_server_options options = {.listen = from->listen,
                                         .follows = follows,
                                         .workers = from->workers,
                                         .connections = from->connections,
                                         .connections_per_client = from->connections_per_client,
                                         .body_bytes = from->body_bytes,
                                         .header_bytes = from->header_bytes,
                                         .memory_bytes = from->memory_bytes,
                                         .request_ms = from->request_ms,
                                         .idle_ms = from->idle_ms,
                                         .handle = gateway_handle,
                                         .body_limit = gateway_body_limit,
                                         .context = g};
    semel_error why;
    semel_status status = http_server_open(out, &options, &why);
    return status ? semel_fail(err, status, "gateway.listen: %s", why.text) : SEMEL_OK;
}

semel_status servers_open(gateway *g, const config *all, semel_error *err)
{
    semel_status status = open_server(&g->server, g, &all->gateway, NULL, err);
    if (!status)
        g->settings = settings_of(&all->gateway);
    return status;
}

/* --- exchanging ------------------------------------------------------------------------------- */

static void drop_prepared(gateway *g)
{
    http_server_close(g->prepared);
    free(g->prepared_settings);
    g->prepared = NULL;
    g->prepared_settings = NULL;
}

static int same_address(const char *settings, const char *others)
{
    size_t len = strcspn(settings, " ");
    return strncmp(settings, others, len + 1) == 0;
}

semel_status servers_prepare(gateway *g, const config *all, semel_error *err)
{
    char *settings = settings_of(&all->gateway);
    drop_prepared(g);
    semel_status status = SEMEL_OK;
    if (!same_address(settings, g->settings))
        status = open_server(&g->prepared, g, &all->gateway, NULL, err);
    if (g->prepared)
        g->prepared_settings = settings;
    else
        free(settings);
    return status;
}

static int is_draining(gateway *g)
{
    pthread_mutex_lock(&g->lock);
    int is = g->is_draining;
    pthread_mutex_unlock(&g->lock);
    return is;
}

static void *close_old(void *context)
{
    old_server *old = context;
    const struct timespec pause = {.tv_nsec = PAUSE_MS * INT64_C(1000000)};
    for (int left = LEAVE_MS; left > 0 && http_server_connections(old->server); left -= PAUSE_MS) {
        if (is_draining(old->gateway))
            break;
        (void)nanosleep(&pause, NULL);
    }
    http_server_close(old->server);
    return NULL;
}

/* Requests in hand are answered meanwhile. */
static void leave_server(gateway *g, http_server *server)
{
    old_server *old = must_alloc(sizeof *old);
    old->server = server;
    old->gateway = g;
    http_server_retire(server);
    if (start_thread(&old->closer, close_old, old)) {
        http_server_close(server);
        free(old);
        return;
    }
    old->next = g->old;
    g->old = old;
}

static void use_server(gateway *g, http_server *server, char *settings)
{
    http_server *old = g->server;
    pthread_mutex_lock(&g->lock);
    g->server = server;
    pthread_mutex_unlock(&g->lock);
    free(g->settings);
    g->settings = settings;
    leave_server(g, old);
}

static void say_kept(const gateway *g, const semel_error *why)
{
    buffer text = {0};
    buffer_printf(&text, "%s; the limits of the old configuration stay", why->text);
    log_write(g->links.log,
              &(log_entry){
                  .level = LOG_ERROR, .event = "gateway", .subject = "gateway", .msg = text.data});
    buffer_free(&text);
}

void servers_exchange(gateway *g, const config *all)
{
    char *settings = settings_of(&all->gateway);
    semel_error why;
    http_server *fresh = NULL;
    if (strcmp(settings, g->settings) == 0) {
        free(settings);
    } else if (g->prepared && strcmp(settings, g->prepared_settings) == 0) {
        fresh = g->prepared;
        g->prepared = NULL;
        use_server(g, fresh, settings);
    } else if (!open_server(&fresh, g, &all->gateway,
                            same_address(settings, g->settings) ? g->server : NULL, &why)) {
        use_server(g, fresh, settings);
    } else {
        say_kept(g, &why);
        free(settings);
    }
    drop_prepared(g);
}

void servers_close(gateway *g)
{
    drop_prepared(g);
    for (old_server *at = g->old, *next; at; at = next) {
        next = at->next;
        (void)pthread_join(at->closer, NULL);
        free(at);
    }
    http_server_close(g->server);
    free(g->settings);
    g->old = NULL;
}
