/* The gateway: its address, and what a route says that does not fit together. What is particular to
 * webhooks is in check_webhook.c. */
#include "program/config/check.h"
#include "program/config/check_route.h"
#include "program/config/complete.h"
#include "program/config/read.h"
#include "program/support/nearest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- the address ------------------------------------------------------------------------------ */

static int begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* A port: digits, at most 65535; 0 is any that is free. */
static int is_port(const char *text)
{
    size_t len = strspn(text, "0123456789");
    return len > 0 && len <= 5 && !text[len] && strtol(text, NULL, 10) <= 65535;
}

static int is_address(const char *listen)
{
    const char *colon = strrchr(listen, ':');
    if (begins_with(listen, "unix:"))
        return listen[5] != 0;
    if (!colon || colon == listen || !is_port(colon + 1))
        return 0;
    return *listen == '[' ? colon[-1] == ']'
                          : memchr(listen, ':', (size_t)(colon - listen)) == NULL;
}

static int is_loopback(const char *listen)
{
    return begins_with(listen, "unix:") || begins_with(listen, "127.") ||
           begins_with(listen, "localhost:") || begins_with(listen, "[::1]:");
}

static void check_listen(const checking *c)
{
    const config_node *node = tree_find(c->all->gateway.at, "listen");
    const char *listen = c->all->gateway.listen;
    if (!listen || !node || node->is_unset)
        return;
    if (!is_address(listen)) {
        diagnostic_at(c->found, "listen", node,
                      "\"%s\" is no address with a port; write 127.0.0.1:8480, [::1]:8480 or "
                      "unix:PATH",
                      node->raw);
        return;
    }
    if (is_loopback(listen))
        return;
    diagnostic *d = diagnostic_add(c->found, LEVEL_WARNING, "listen", node->at,
                                   tree_path(&c->found->memory, node),
                                   "%s is open to the network, without TLS", node->raw);
    diagnostic_help(c->found, d,
                    "better: listen on 127.0.0.1 and let a server that has a certificate pass "
                    "requests on");
}

/* --- one route -------------------------------------------------------------------------------- */

const config_node *check_route_node(const route_config *route, const char *name)
{
    return read_find(&section_route, route->at, option_find(&section_route, name));
}

static void check_path(const checking *c, const route_config *route)
{
    const config_node *node = check_route_node(route, "path");
    if (!node || node->is_unset || !node->len)
        return;
    const char *path = node->text, *star = strchr(path, '*');
    if (*path != '/')
        diagnostic_at(c->found, "path", node, "\"%s\" does not begin with a /; write /%s", path,
                      path);
    else if (star && (star[1] || star[-1] != '/'))
        diagnostic_at(c->found, "path", node, "\"%s\": * is allowed only at the end, behind a /",
                      path);
    else if (strpbrk(path, "?# \t\r\n"))
        diagnostic_at(c->found, "path", node, "\"%s\": a path has no spaces and no ? or #", path);
}

static void check_name(const checking *c, const route_config *route)
{
    /* the inbox gateway.NAME must be a name, too */
    enum { NAME_MAX_OF_ROUTE = SEMEL_NAME_MAX - sizeof "gateway" };
    const config_node *node = check_route_node(route, "name");
    if (!node || node->is_unset || check_is_name(route->name, NAME_MAX_OF_ROUTE))
        return;
    diagnostic_at(c->found, "name", node,
                  "\"%s\": a name has letters, digits and . _ - (at most %d)", route->name,
                  (int)NAME_MAX_OF_ROUTE);
}

static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"};

static const char *upper(region *memory, const char *text)
{
    char *copy = region_copy(memory, text, strlen(text));
    for (char *at = copy; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return copy;
}

static void check_methods(const checking *c, const route_config *route)
{
    const config_node *node = check_route_node(route, "methods");
    for (size_t i = 0; node && i < route->methods.count; i++) {
        const char *method = route->methods.items[i];
        nearest best = {.typed = upper(&c->found->memory, method)};
        int is_known = 0;
        for (size_t j = 0; j < sizeof methods / sizeof *methods; j++) {
            nearest_offer(&best, methods[j]);
            is_known |= strcmp(methods[j], method) == 0;
        }
        if (!is_known)
            diagnostic_at(c->found, "method", check_item(node, i), "\"%s\" is no method; %s%s%s",
                          method,
                          best.name ? "did you mean " : "known are POST, PUT, PATCH, DELETE, GET",
                          best.name ? best.name : "", best.name ? "?" : "");
    }
}

/* One that is read from a list, or the value that stands for a list of one. */
const config_node *check_item(const config_node *list, size_t index)
{
    return list->kind == NODE_LIST && index < list->count ? list->items[index] : list;
}

/* What a header may be called (RFC 9110: token). */
static int is_header(const char *name)
{
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("!#$%&'*+-.^_`|~", *at))
            return 0;
    return *name != 0;
}

void check_header(const checking *c, const config_node *node)
{
    if (node && node->kind == NODE_SCALAR && !node->is_unset && node->len && !is_header(node->text))
        diagnostic_at(c->found, "header", node, "\"%s\" is no name of a header", node->raw);
}

/* --- options that belong to a kind ------------------------------------------------------------ */

enum { FOR_PUBLISH = 1, FOR_WEBHOOK = 2, FOR_PROXY = 4 };

typedef struct kind_option {
    const char *name;
    unsigned kinds;
    const char *what; /* it is for */
} kind_option;

static const kind_option kind_options[] = {
    {"to", FOR_PUBLISH | FOR_WEBHOOK, "webhooks and publishing"},
    {"inbox", FOR_WEBHOOK, "webhooks"},
    {"token", FOR_PUBLISH, "publishing"},
    {"secret", FOR_WEBHOOK, "webhooks"},
    {"tolerance", FOR_WEBHOOK, "webhooks"},
    {"key", FOR_WEBHOOK, "webhooks"},
    {"hmac", FOR_WEBHOOK, "webhooks"},
    {"preset", FOR_WEBHOOK, "webhooks"},
    {"key_header", FOR_PROXY, "proxies"},
    {"key_required", FOR_PROXY, "proxies"},
    {"identity", FOR_PROXY, "proxies"},
    {"on_in_flight", FOR_PROXY, "proxies"},
    {"wait", FOR_PROXY, "proxies"},
    {"replay", FOR_PROXY, "proxies"},
    {"on_unknown", FOR_PROXY, "proxies"},
    {"timeout", FOR_PROXY, "proxies"},
    {"lease", FOR_PROXY, "proxies"},
    {"replay_headers", FOR_PROXY, "proxies"},
    {"retention", FOR_PROXY, "proxies"},
    {"response_max", FOR_PROXY, "proxies"},
    {"private_addresses", FOR_PROXY, "proxies"},
};

static const char *help_for(unsigned kind, const char *name)
{
    if (kind == FOR_PROXY)
        return "this route is a proxy; a route has one of \"to\", \"inbox\" and \"proxy\"";
    if (kind == FOR_WEBHOOK)
        return "this route is a webhook: its sender is known by the signature";
    return strcmp(name, "inbox") == 0
               ? "add a preset, or publish to a queue, with \"to\""
               : "this route has neither a preset nor a proxy: what is posted is published";
}

static void check_kind(const checking *c, const route_config *route)
{
    unsigned kind = route->kind == ROUTE_PROXY     ? FOR_PROXY
                    : route->kind == ROUTE_WEBHOOK ? FOR_WEBHOOK
                                                   : FOR_PUBLISH;
    if (!route->preset && check_route_node(route, "preset") && kind == FOR_PUBLISH)
        return; /* a preset that does not exist, which was reported */
    for (size_t i = 0; i < sizeof kind_options / sizeof *kind_options; i++) {
        const kind_option *one = &kind_options[i];
        const config_node *node = check_route_node(route, one->name);
        if (!node || read_is_empty(node) || (one->kinds & kind))
            continue;
        diagnostic *d =
            diagnostic_add(c->found, LEVEL_ERROR, "route", tree_name_place(node),
                           tree_path(&c->found->memory, node), "it is for %s", one->what);
        diagnostic_help(c->found, d, "%s", help_for(kind, one->name));
    }
}

static void check_destination(const checking *c, const route_config *route)
{
    const config_node *to = check_route_node(route, "to");
    const config_node *inbox = check_route_node(route, "inbox");
    const char *path = tree_path(&c->found->memory, route->at);
    if (!to && !inbox && !route->proxy)
        diagnostic_add(c->found, LEVEL_ERROR, "route", tree_name_place(route->at), path,
                       "nothing takes its requests; add one of to, inbox, proxy");
    if (to && inbox)
        diagnostic_add(c->found, LEVEL_ERROR, "route", tree_name_place(inbox),
                       tree_path(&c->found->memory, inbox),
                       "a route has \"to\" or \"inbox\", not both");
    check_queue_name(c, to);
    if (inbox && inbox->kind == NODE_SCALAR && !inbox->is_unset && inbox->len &&
        !config_inbox(c->all, inbox->text))
        check_unknown(c, "inbox", inbox->text, inbox->at, tree_path(&c->found->memory, inbox));
}

/* --- proxies and publishing ------------------------------------------------------------------- */

/* 404, or 4xx */
static int is_status(const char *word)
{
    return strlen(word) == 3 && *word >= '2' && *word <= '5' &&
           (strcmp(word + 1, "xx") == 0 ||
            (isdigit((unsigned char)word[1]) && isdigit((unsigned char)word[2])));
}

static void check_proxy(const checking *c, const route_config *route)
{
    const config_node *url = check_route_node(route, "proxy");
    const config_node *replay = check_route_node(route, "replay");
    const config_node *identity = check_route_node(route, "identity");
    const config_node *kept = check_route_node(route, "replay_headers");
    if (url && url->kind == NODE_SCALAR && !url->is_unset && !begins_with(url->text, "http://") &&
        !begins_with(url->text, "https://"))
        diagnostic_at(c->found, "url", url, "a URL of http:// or https:// is expected");
    for (size_t i = 0; replay && i < route->replay.count; i++)
        if (!is_status(route->replay.items[i]))
            diagnostic_at(c->found, "replay", check_item(replay, i),
                          "\"%s\" is no status of an answer; write 404, or 4xx for all of them",
                          route->replay.items[i]);
    for (size_t i = 0; identity && i < route->identity.count; i++)
        check_header(c, check_item(identity, i));
    for (size_t i = 0; kept && i < route->replay_headers.count; i++)
        check_header(c, check_item(kept, i));
    check_header(c, check_route_node(route, "key_header"));
}

/* What a client can send behind `Bearer`. The token itself is never shown. */
static int is_token(const char *token)
{
    for (const char *at = token; *at; at++)
        if (*at <= ' ' || (unsigned char)*at >= 0x7f)
            return 0;
    return *token != 0;
}

static void check_publish(const checking *c, const route_config *route)
{
    const config_node *token = check_route_node(route, "token");
    const char *listen = c->all->gateway.listen;
    for (size_t i = 0; token && i < route->tokens.count; i++)
        if (!check_item(token, i)->is_unset && !is_token(route->tokens.items[i]))
            diagnostic_at(c->found, "token", check_item(token, i),
                          "a token has letters, digits and signs of ASCII, and no spaces");
    if (token || !listen || !is_address(listen) || is_loopback(listen))
        return;
    diagnostic *d = diagnostic_add(c->found, LEVEL_WARNING, "token", tree_name_place(route->at),
                                   tree_path(&c->found->memory, route->at),
                                   "everyone who reaches %s can publish here", listen);
    diagnostic_help(c->found, d, "add a token: ${file:publish.token}");
}

/* --- two routes ------------------------------------------------------------------------------- */

static unsigned line_of(const route_config *route)
{
    return route->at->at.line;
}

static int is_same(const char *left, const char *right)
{
    return left && right && strcmp(left, right) == 0;
}

/* The first of two routes with one path, or one name, keeps it. */
static void check_others(const checking *c, const route_config *route)
{
    const config_node *path = check_route_node(route, "path");
    const config_node *name = check_route_node(route, "name");
    const route_config *routes = c->all->gateway.routes;
    for (const route_config *other = routes; path && other < route; other++)
        if (is_same(other->path, route->path)) {
            diagnostic_at(c->found, "path", path, "another route has this path (line %u)",
                          line_of(other));
            return;
        }
    for (const route_config *other = routes; path && other < route; other++)
        if (is_same(other->name, route->name)) {
            diagnostic *d = diagnostic_at(c->found, "name", name ? name : path,
                                          "another route is called \"%s\", too (line %u)",
                                          route->name, line_of(other));
            diagnostic_help(c->found, d, "give one of them another name, for metrics and logs");
            return;
        }
}

/* Where a proxy keeps its keys. */
static void check_reserved(const checking *c, const route_config *route)
{
    const char *name = region_printf(&c->found->memory, "gateway.%s", route->name);
    const inbox_config *inbox = config_inbox(c->all, name);
    if (route->kind != ROUTE_PROXY || !inbox)
        return;
    diagnostic_add(c->found, LEVEL_ERROR, "name", tree_name_place(inbox->at),
                   tree_path(&c->found->memory, inbox->at),
                   "the route \"%s\" keeps its keys in an inbox of this name; take another one",
                   route->name);
}

void check_gateway(const checking *c)
{
    const gateway_config *gateway = &c->all->gateway;
    check_listen(c);
    for (size_t i = 0; i < gateway->route_count; i++) {
        const route_config *route = &gateway->routes[i];
        check_path(c, route);
        check_name(c, route);
        check_methods(c, route);
        check_kind(c, route);
        check_destination(c, route);
        check_reserved(c, route);
        check_others(c, route);
        if (route->kind == ROUTE_PROXY)
            check_proxy(c, route);
        else if (route->kind == ROUTE_PUBLISH)
            check_publish(c, route);
        else
            check_webhook(c, route);
    }
    check_senders(c);
}
