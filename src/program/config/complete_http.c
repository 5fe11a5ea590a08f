/* See complete_http.h. */
#include "program/config/complete_http.h"

#include <ctype.h>
#include <string.h>

static const char *const methods[] = {"POST", NULL};
static const char *const identity[] = {"Authorization", NULL};
static const char *const replay[] = {"2xx", "4xx", NULL};

/* A list that was written and is empty stays empty. */
static void complete_list(config_list *list, const char *const *items)
{
    if (list->items)
        return;
    list->items = items;
    while (items[list->count])
        list->count++;
}

/* /v1/charges becomes v1.charges: letters, digits, - and _ stay, the rest are dots between them. */
static const char *name_of(region *memory, const char *path)
{
    char *name = region_alloc(memory, strlen(path) + 1);
    size_t len = 0;
    for (; *path; path++)
        if (isalnum((unsigned char)*path) || *path == '-' || *path == '_')
            name[len++] = *path;
        else if (len && name[len - 1] != '.')
            name[len++] = '.';
    while (len && name[len - 1] == '.')
        len--;
    name[len] = 0;
    return len ? name : "root";
}

static void complete_route(region *memory, route_config *route)
{
    route->kind = route->proxy ? ROUTE_PROXY : route->preset ? ROUTE_WEBHOOK : ROUTE_PUBLISH;
    complete_list(&route->methods, methods);
    complete_list(&route->identity, identity);
    complete_list(&route->replay, replay);
    if (!route->name)
        route->name = name_of(memory, route->path ? route->path : "");
}

void config_complete_routes(region *memory, config *all)
{
    route_config *routes = (route_config *)all->gateway.routes; /* read.c made the array */
    for (size_t i = 0; i < all->gateway.route_count; i++)
        complete_route(memory, &routes[i]);
}
