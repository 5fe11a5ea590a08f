/* RabbitMQ's: there is a host, a port and a virtual host, the bindings are a list with an end, and
 * the sentences about what may get lost stay within their room, however small it is. */
#include "property.h"
#include "transport/rabbitmq/address.h"
#include "url_parts.h"

enum { LOSSES_MAX = 4096 };

static void check_bindings(const rabbit_address *a)
{
    size_t used = 0;
    while (used < sizeof a->bindings && a->bindings[used])
        used += strnlen(a->bindings + used, sizeof a->bindings - used) + 1;
    HOLDS(used < sizeof a->bindings);
    HOLDS(!used || (a->queue[0] && a->exchange[0]));
}

/* What is cut is cut between lines. */
static void check_losses_in(const rabbit_address *a, size_t room, const char *all)
{
    char text[LOSSES_MAX];
    memset(text, 'x', sizeof text);
    rabbit_address_losses(text, room, a, 4);
    HOLDS(room == sizeof text || text[room] == 'x');
    if (!room)
        return;
    HOLDS(memchr(text, 0, room));
    size_t len = strlen(text);
    HOLDS_FOR(text, strncmp(text, all, len) == 0);
    HOLDS_FOR(text, !len || !all[len] || all[len] == '\n');
}

static void check_losses(const rabbit_address *a)
{
    char all[LOSSES_MAX];
    rabbit_address_losses(all, sizeof all, a, 4);
    size_t len = strlen(all), first = strcspn(all, "\n");
    HOLDS(len < sizeof all - 1);
    for (size_t more = 0; more < 3; more++) {
        check_losses_in(a, more, all);
        check_losses_in(a, first + more, all);
        check_losses_in(a, len + more, all);
    }
}

semel_status check_rabbitmq_address(const char *url, int secret, semel_error *err)
{
    static rabbit_address a;
    semel_status status = rabbit_address_read(&a, url, err);
    if (status)
        return status;
    HOLDS(a.host[0] && a.vhost[0] && a.name[0]);
    HOLDS(a.port >= 1 && a.port <= 65535 && a.prefetch >= 1 && a.prefetch <= 65535);
    HOLDS(a.heartbeat_s <= 3600 && a.connect_ms >= 1 && a.delivery_limit >= RABBIT_LIMIT_UNSET);
    HOLDS(!a.has_dead_letter || a.queue[0]);
    HOLDS(keeps(secret, a.user) && keeps(secret, a.host) && keeps(secret, a.vhost));
    HOLDS(keeps(secret, a.queue) && keeps(secret, a.exchange) && keeps(secret, a.name));
    check_bindings(&a);
    check_losses(&a);
    return SEMEL_OK;
}
