/* What the admin server knows of the configuration, and the hosts under which it may be called.
 *
 * A page on the internet can make a browser send requests to 127.0.0.1, by a name that its owner
 * lets point there. Such a request carries that name as its Host. So names are allowed only if the
 * configuration has them, besides localhost; an address in the place of a name cannot be made to
 * point elsewhere, and is allowed where the server is not on the loopback alone. */
#include "program/admin/admin_internal.h"
#include "program/gateway/proxy_inbox.h"
#include "program/handler/handler.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static const char *copy(admin_names *names, const char *text)
{
    return text ? region_copy(&names->memory, text, strlen(text)) : "";
}

static void read_inboxes(admin_names *out, const config *all)
{
    out->inboxes = region_alloc(&out->memory, (all->inbox_count + all->gateway.route_count + 1) *
                                                  sizeof *out->inboxes);
    for (size_t i = 0; i < all->inbox_count; i++) {
        const inbox_config *from = &all->inboxes[i];
        out->inboxes[out->inbox_count++] =
            (admin_inbox){.name = copy(out, from->name),
                          .handler = copy(out, handler_class_of(from->handler)->name),
                          .retention_ms = from->options.retention_ms};
    }
    for (size_t i = 0; i < all->gateway.route_count; i++)
        if (all->gateway.routes[i].kind == ROUTE_PROXY)
            out->inboxes[out->inbox_count++] = (admin_inbox){
                .name = proxy_inbox_name(&out->memory, &all->gateway.routes[i]),
                .handler = "proxy",
                .retention_ms = proxy_inbox_options(&all->gateway.routes[i]).retention_ms};
}

void admin_names_read(admin_names *out, const config *all)
{
    *out = (admin_names){.has_page = all->admin.page,
                         .is_public = http_reach_of(all->admin.listen) > HTTP_REACH_HOST};
    read_inboxes(out, all);
    out->outboxes = region_alloc(&out->memory, (all->outbox_count + 1) * sizeof *out->outboxes);
    for (size_t i = 0; i < all->outbox_count; i++)
        out->outboxes[out->outbox_count++] =
            (admin_outbox){copy(out, all->outboxes[i].name), copy(out, all->outboxes[i].to)};
    out->hosts = region_alloc(&out->memory, (all->admin.hosts.count + 1) * sizeof *out->hosts);
    for (size_t i = 0; i < all->admin.hosts.count; i++)
        out->hosts[out->host_count++] = copy(out, all->admin.hosts.items[i]);
}

/* --- hosts ------------------------------------------------------------------------------------ */

/* "semel.internal:8481" without its port and the brackets of an address. */
static int split(char host[256], const char *header)
{
    const char *end = strrchr(header, ':'), *bracket = strchr(header, ']');
    size_t len = end && (!bracket || end > bracket) ? (size_t)(end - header) : strlen(header);
    if (len > 2 && header[0] == '[' && header[len - 1] == ']') {
        header++;
        len -= 2;
    }
    if (!len || len >= 256)
        return 0;
    memcpy(host, header, len);
    host[len] = '\0';
    if (host[len - 1] == '.')
        host[len - 1] = '\0';
    return 1;
}

static int is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(host, "localhost") == 0)
        return 1;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static int is_address(const char *host)
{
    struct in6_addr any;
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

int admin_names_permit(const admin_names *names, const char *header)
{
    char host[256], own[256];
    if (!header || !split(host, header))
        return 0;
    if (is_loopback(host) || (names->is_public && is_address(host)))
        return 1;
    for (size_t i = 0; i < names->host_count; i++)
        if (split(own, names->hosts[i]) && strcasecmp(own, host) == 0)
            return 1;
    return 0;
}
