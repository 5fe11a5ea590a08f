/* The table of routes: checked, copied, and divided into groups when the consumer is opened.
 *
 * A group is what is received through one inbox. Mostly that is one route. Routes that share an
 * inbox stand side by side in the copy, in the order of the table, and their group has a handler
 * that calls those of all routes that fit. A route without an inbox gets one that keeps no keys
 * (inbox_open_unkeyed), so that units, conflicts, limits, attempts and dead letters are those of
 * messages without a key, and nothing of it is written twice. */
#include "core/consumer.h"

#include "base/utf8.h"

#include <string.h>

/* --- checks ----------------------------------------------------------------------------------- */

static int same_inbox(const semel_route *a, const semel_route *b)
{
    return a->inbox && b->inbox && a->inbox->store == b->inbox->store &&
           a->inbox->scope == b->inbox->scope;
}

/* Two routes, of which j stands before i. */
static semel_status check_pair(const semel_consumer *consumer, const semel_route *routes, size_t j,
                               size_t i, semel_error *err)
{
    const semel_route *a = &routes[j], *b = &routes[i];
    int shared = consumer->options.shared_inboxes;
    if (same_inbox(a, b) && (shared || a->inbox->positions) && a->inbox != b->inbox)
        return semel_fail(err, SEMEL_EINVAL,
                          "routes %zu and %zu share inbox \"%s\" by two handles, which may have "
                          "different options: give both the same",
                          j + 1, i + 1, b->inbox->name);
    if (same_inbox(a, b) && !shared && (a->handler != b->handler || a->context != b->context))
        return semel_fail(
            err, SEMEL_EINVAL,
            "routes %zu and %zu share inbox \"%s\" but not handler and context: one would "
            "swallow the other's messages; give each its own inbox, or set shared_inboxes if they "
            "are to run together",
            j + 1, i + 1, b->inbox->name);
    if (!a->inbox && !b->inbox && strcmp(a->pattern, b->pattern) == 0)
        return semel_fail(err, SEMEL_EINVAL,
                          "routes %zu and %zu have the pattern \"%s\" and no inbox: their dead "
                          "letters would replace each other",
                          j + 1, i + 1, b->pattern);
    return SEMEL_OK;
}

/* The pattern is the name of its dead letters, which must not be taken for those of others. */
static semel_status check_without_inbox(const semel_route *routes, size_t count, size_t i,
                                        semel_error *err)
{
    const char *pattern = routes[i].pattern;
    size_t len = strlen(pattern);
    if (len > SEMEL_NAME_MAX || !utf8_valid(pattern, len))
        return semel_fail(err, SEMEL_EINVAL,
                          "route %zu has no inbox, and its pattern names its dead letters: it must "
                          "be UTF-8 of at most %zu bytes",
                          i + 1, SEMEL_NAME_MAX);
    int taken = strcmp(pattern, "unrouted") == 0 || strcmp(pattern, "unusable") == 0;
    for (size_t j = 0; !taken && j < count; j++)
        taken = routes[j].inbox && strcmp(routes[j].inbox->name, pattern) == 0;
    if (taken)
        return semel_fail(err, SEMEL_EINVAL,
                          "route %zu has no inbox, and its dead letters would be named \"%s\" as "
                          "those of an inbox are: choose another pattern",
                          i + 1, pattern);
    return SEMEL_OK;
}

static semel_status check_route(const semel_consumer *consumer, const semel_route *routes,
                                size_t count, size_t i, semel_error *err)
{
    const semel_route *route = &routes[i];
    if (!route->pattern || !*route->pattern || !route->handler)
        return semel_fail(err, SEMEL_EINVAL, "route %zu needs a pattern and a handler", i + 1);
    semel_store *store = route->inbox ? route->inbox->store : consumer->options.store;
    if (!store)
        return semel_fail(err, SEMEL_EINVAL,
                          "route %zu needs an inbox; if every copy of a message is to run its "
                          "handler, name a store for it in semel_consumer_options.store",
                          i + 1);
    semel_status status = store_can_keep_dead(store, err);
    if (!status && !route->inbox)
        status = check_without_inbox(routes, count, i, err);
    for (size_t j = 0; !status && j < i; j++)
        status = check_pair(consumer, routes, j, i, err);
    return status; /* without dead letters there is no place for what is refused */
}

static semel_status check_routes(const semel_consumer *consumer, const semel_route *routes,
                                 size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (count == 0 || count > SEMEL_ROUTES_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a consumer takes 1 to %zu routes, not %zu",
                          SEMEL_ROUTES_MAX, count);
    for (size_t i = 0; !status && i < count; i++)
        status = check_route(consumer, routes, count, i, err);
    return status;
}

/* --- copy ------------------------------------------------------------------------------------- */

static semel_status table_alloc(semel_consumer *consumer, const semel_route *routes, size_t count,
                                semel_error *err)
{
    size_t texts = 0;
    for (size_t i = 0; i < count; i++)
        texts += strlen(routes[i].pattern) + 1;
    consumer->routes = mem_alloc(count * sizeof *routes);
    consumer->patterns = mem_alloc(texts);
    consumer->groups = mem_alloc(count * sizeof *consumer->groups);
    if (consumer->routes && consumer->patterns && consumer->groups)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu routes", count);
}

/* Behind those that are there; its text is copied to `*text`, which moves on. */
static void copy_route(semel_consumer *consumer, const semel_route *route, char **text)
{
    size_t len = strlen(route->pattern) + 1;
    semel_route *copy = &consumer->routes[consumer->route_count++];
    *copy = *route;
    copy->pattern = memcpy(*text, route->pattern, len);
    *text += len;
}

/* Several patterns of one handler that needs no inbox. */
static int same_unkeyed(const semel_route *a, const semel_route *b)
{
    return !a->inbox && !b->inbox && a->handler == b->handler && a->context == b->context;
}

/* Of the routes from i on, those that share the inbox of i, and i itself. An inbox that remembers
 * positions is one group in any case: one of two would move past what the other one takes. */
static int joins_group(const semel_consumer *consumer, const semel_route *routes, size_t i,
                       size_t other)
{
    const semel_route *a = &routes[i], *b = &routes[other];
    int shared = consumer->options.shared_inboxes;
    return i == other || (same_inbox(a, b) && (shared || a->inbox->positions)) ||
           (shared && same_unkeyed(a, b));
}

static int is_joined_before(const semel_consumer *consumer, const semel_route *routes, size_t i)
{
    size_t j = 0;
    while (j < i && !joins_group(consumer, routes, j, i))
        j++;
    return j < i;
}

static void make_group(semel_consumer *consumer, const semel_route *routes, size_t count, size_t i,
                       char **text)
{
    route_group *group = &consumer->groups[consumer->group_count++];
    *group = (route_group){.inbox = routes[i].inbox,
                           .routes = &consumer->routes[consumer->route_count],
                           .handler = routes[i].handler,
                           .context = routes[i].context,
                           .unkeyed = !routes[i].inbox};
    for (size_t j = i; j < count; j++)
        if (joins_group(consumer, routes, i, j)) {
            copy_route(consumer, &routes[j], text);
            group->count++;
        }
    if (group->count > 1) {
        group->handler = route_group_run;
        group->context = group;
    }
}

/* --- both ------------------------------------------------------------------------------------- */

static semel_status open_unkeyed(semel_consumer *consumer, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < consumer->group_count; i++) {
        route_group *group = &consumer->groups[i];
        if (group->unkeyed)
            status =
                inbox_open_unkeyed(&group->inbox, consumer->options.store, group->routes[0].pattern,
                                   consumer->options.attempts_max, err);
        if (!status && !group->unkeyed && !consumer->letters)
            consumer->letters = group->inbox;
    }
    if (!consumer->letters)
        consumer->letters = consumer->groups[0].inbox;
    return status;
}

semel_status table_open(semel_consumer *consumer, const semel_route *routes, size_t count,
                        semel_error *err)
{
    semel_status status = check_routes(consumer, routes, count, err);
    if (!status)
        status = table_alloc(consumer, routes, count, err);
    if (status)
        return status;
    char *text = consumer->patterns;
    for (size_t i = 0; i < count; i++)
        if (!is_joined_before(consumer, routes, i))
            make_group(consumer, routes, count, i, &text);
    return open_unkeyed(consumer, err);
}

void table_close(semel_consumer *consumer)
{
    for (size_t i = 0; i < consumer->group_count; i++)
        if (consumer->groups[i].unkeyed)
            semel_inbox_close(consumer->groups[i].inbox);
    mem_free(consumer->groups);
    mem_free(consumer->routes);
    mem_free(consumer->patterns);
}
