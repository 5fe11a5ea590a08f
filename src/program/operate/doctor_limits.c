/* File descriptors: how many workers and pools may need at once, against the limit of this shell.
 * The need is an upper bound; a service has the limit of its unit. */
#include "program/config/store_url.h"
#include "program/operate/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    NEED_ALWAYS = 32,      /* the program itself: streams, signals, timers, sockets of its own */
    NEED_SQLITE = 12,      /* two connections with their files, and temporary files */
    NEED_BROKER = 4,       /* two connections and what wakes their threads */
    NEED_CHILD = 6,        /* three pipes, both ends, while it is started */
    NEED_REQUEST = 4,      /* a connection, and those that are kept */
    POOL_DEFAULT = 8,      /* of the servers' stores */
    POOL_MORE = 3,         /* the sweeper's, the listener's, one that is replaced */
    LIMIT_SUGGESTED = 1024 /* or more */
};

static unsigned long workers_of(const config *all, const char *queue)
{
    for (size_t i = 0; i < all->queue_count; i++)
        if (strcmp(all->queues[i].name, queue) == 0 && all->queues[i].consumer.workers)
            return all->queues[i].consumer.workers;
    return 1;
}

static unsigned long store_needs(doctor *d)
{
    if (store_url_file(&d->memory, d->store_url))
        return NEED_SQLITE;
    const char *pool = doctor_url_parameter(&d->memory, d->store_url, "pool");
    unsigned long size = pool ? strtoul(pool, NULL, 10) : POOL_DEFAULT;
    return (size ? size : POOL_DEFAULT) + POOL_MORE;
}

static unsigned long handler_needs(const config *all, const inbox_config *inbox)
{
    unsigned long workers = inbox->from ? workers_of(all, inbox->from) : 1;
    switch (inbox->handler) {
    case HANDLER_EXEC:
        return workers * NEED_CHILD;
    case HANDLER_HTTP:
        return workers * NEED_REQUEST;
    case HANDLER_WORKER:
        return (unsigned long)inbox->worker.processes * NEED_CHILD;
    default:
        return 0;
    }
}

static unsigned long needed(doctor *d)
{
    unsigned long sum = NEED_ALWAYS + store_needs(d);
    for (size_t i = 0; i < d->all->queue_count; i++)
        sum += d->all->queues[i].url ? NEED_BROKER : 0;
    for (size_t i = 0; i < d->all->inbox_count; i++)
        sum += handler_needs(d->all, &d->all->inboxes[i]);
    return sum + 2 * d->all->outbox_count + 2 * d->all->queue_count; /* what wakes their threads */
}

void doctor_look_at_limits(doctor *d)
{
    struct rlimit limit = {0};
    unsigned long need = needed(d), suggested = LIMIT_SUGGESTED;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    while (suggested < need)
        suggested *= 2;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < need)
        doctor_find(d, DOCTOR_LIMITS, SEMEL_SEVERITY_WARNING,
                    region_printf(&d->memory,
                                  "set LimitNOFILE=%lu in the unit, or run ulimit -n %lu",
                                  suggested, suggested),
                    "file descriptor limit is %lu; these workers and pools need %lu",
                    (unsigned long)limit.rlim_cur, need);
    else
        doctor_find(d, DOCTOR_LIMITS, SEMEL_SEVERITY_OK, NULL,
                    "these workers and pools need %lu file descriptors or fewer", need);
}
