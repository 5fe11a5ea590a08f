/* Routes of webhooks: preset, secrets and signature fit together, and the inbox that handles them
 * remembers keys for as long as the sender repeats itself. */
#include "program/config/check_route.h"
#include "program/config/complete.h"
#include "program/config/inboxes.h"
#include "program/config/interpolate.h"
#include "program/gateway/sender.h"
#include "program/gateway/signature.h"
#include "program/support/units.h"

#include <string.h>

static const char *name_of(const route_config *route)
{
    return webhook_sender_of(route->preset)->name;
}

/* --- secrets ---------------------------------------------------------------------------------- */

/* What an example in a document has in place of a secret. */
static int is_placeholder(const config_node *node)
{
    return strcmp(node->raw, node->text) != 0 && strcmp(node->text, INTERPOLATE_EXAMPLE) == 0;
}

static void check_secret(const checking *c, const route_config *route, const config_node *node)
{
    if (node->kind != NODE_SCALAR || node->is_unset || is_placeholder(node))
        return;
    const char *why = signature_check_secret(route->preset, node->text);
    if (why)
        diagnostic_at(c->found, "secret", node, "%s", why);
}

static void check_secrets(const checking *c, const route_config *route)
{
    const config_node *node = check_route_node(route, "secret");
    const config_node *preset = check_route_node(route, "preset");
    if (!node && preset) {
        diagnostic *d = diagnostic_at(c->found, "secret", preset,
                                      "there is no secret to verify signatures with");
        diagnostic_help(c->found, d, "add secret: ${file:%s.secret}", name_of(route));
    }
    for (size_t i = 0; node && i < route->secrets.count; i++)
        check_secret(c, route, check_item(node, i));
    if (node && route->secrets.count > SIGNATURE_SECRETS_MAX)
        diagnostic_at(c->found, "secret", node, "more than %d secrets", SIGNATURE_SECRETS_MAX);
}

/* --- the configurable signature --------------------------------------------------------------- */

static void check_content(const checking *c, const route_config *route, const config_node *hmac)
{
    const config_node *content = tree_find(hmac, "content");
    const config_node *timestamp = tree_find(hmac, "timestamp");
    const char *why = signature_check_content(&route->hmac);
    if (why)
        diagnostic_at(c->found, "content", content ? content : hmac, "%s", why);
    else if (route->hmac.timestamp && !strstr(route->hmac.content, "{timestamp}"))
        diagnostic_add(c->found, LEVEL_WARNING, "content", timestamp->at,
                       tree_path(&c->found->memory, timestamp),
                       "the time is not signed: hmac.content has no {timestamp}, so anyone can "
                       "change it");
}

static void check_hmac(const checking *c, const route_config *route)
{
    const config_node *hmac = check_route_node(route, "hmac");
    const config_node *preset = check_route_node(route, "preset");
    if (hmac && route->preset != WEBHOOK_HMAC)
        diagnostic_add(c->found, LEVEL_ERROR, "hmac", tree_name_place(hmac),
                       tree_path(&c->found->memory, hmac),
                       "it is for \"preset: hmac\"; the signature of %s is known", name_of(route));
    if (route->preset != WEBHOOK_HMAC || !preset)
        return;
    if (!hmac) {
        diagnostic *d = diagnostic_at(c->found, "hmac", preset,
                                      "there is no \"hmac\", which says where the signature is");
        diagnostic_help(c->found, d, "for example, hmac: { header: X-Signature, prefix: sha256= }");
    }
    if (!route->key) {
        diagnostic *d = diagnostic_at(
            c->found, "key", preset, "there is no \"key\", which says what the id of a message is");
        diagnostic_help(c->found, d, "for example, key: header:X-Delivery, or key: json:/id");
    }
    if (!hmac || !route->hmac.header)
        return;
    check_header(c, hmac->kind == NODE_SCALAR ? hmac : tree_find(hmac, "header"));
    check_header(c, tree_find(hmac, "timestamp"));
    check_content(c, route, hmac);
}

static void check_tolerance(const checking *c, const route_config *route)
{
    const config_node *node = check_route_node(route, "tolerance");
    if (!node || (webhook_sender_of(route->preset)->has_time &&
                  (route->preset != WEBHOOK_HMAC || route->hmac.timestamp)))
        return;
    diagnostic_add(c->found, LEVEL_WARNING, "tolerance", tree_name_place(node),
                   tree_path(&c->found->memory, node),
                   "it has no effect: the signature of %s has no time", name_of(route));
}

/* --- the inboxes ------------------------------------------------------------------------------ */

static void check_retention(const checking *c, const route_config *route, const inbox_config *inbox)
{
    const webhook_sender *sender = webhook_sender_of(route->preset);
    const config_node *node = inboxes_find(&c->found->memory, c->all, inbox->name, "retention");
    if (inbox->options.retention_ms >= sender->window_ms)
        return;
    diagnostic *d = diagnostic_add(
        c->found, LEVEL_WARNING, "retention", node ? node->at : tree_name_place(inbox->at),
        region_printf(&c->found->memory, "%s.retention", tree_path(&c->found->memory, inbox->at)),
        "%s is shorter than the %s in which %s may send a message again",
        units_show_duration(inbox->options.retention_ms).text,
        units_show_duration(sender->window_ms).text, sender->name);
    diagnostic_help(c->found, d,
                    "the route \"%s\" leads here; a copy that comes later is handled again, or is "
                    "stale",
                    route->name);
}

/* The comparison of bodies is the default, unless the key is taken from the body. */
static int compares_bodies(const inbox_config *inbox)
{
    const char *key = inbox->options.key, *fingerprint = inbox->options.fingerprint;
    if (inbox->options.on_mismatch == SEMEL_MISMATCH_IGNORE)
        return 0;
    if (fingerprint)
        return strcmp(fingerprint, "body") == 0;
    return !key || (!strstr(key, "json:") && !strstr(key, "digest"));
}

static void check_fingerprint(const checking *c, const route_config *route,
                              const inbox_config *inbox)
{
    diagnostic *d = diagnostic_add(
        c->found, LEVEL_WARNING, "fingerprint", tree_name_place(inbox->at),
        tree_path(&c->found->memory, inbox->at),
        "two copies of a message of %s may differ, and would be a mismatch here", name_of(route));
    diagnostic_help(c->found, d,
                    "set fingerprint: none; the id alone decides (\"pending_webhooks\" of an event "
                    "changes)");
}

static void check_wait(const checking *c, const route_config *route, const inbox_config *inbox)
{
    const webhook_sender *sender = webhook_sender_of(route->preset);
    const config_node *node = check_route_node(route, "inbox");
    int takes_long = inbox->handler == HANDLER_HTTP || inbox->handler == HANDLER_EXEC ||
                     inbox->handler == HANDLER_WORKER;
    if (!node || !takes_long || !sender->wait_ms || inbox->timeout_ms <= sender->wait_ms)
        return;
    diagnostic *d = diagnostic_add(c->found, LEVEL_WARNING, "timeout", node->at,
                                   tree_path(&c->found->memory, node),
                                   "%s waits %s for an answer, and \"%s\" may take %s",
                                   sender->name, units_show_duration(sender->wait_ms).text,
                                   inbox->name, units_show_duration(inbox->timeout_ms).text);
    diagnostic_help(c->found, d,
                    "set its timeout, or store the messages in a queue first, with \"to\"");
}

static void check_types(const checking *c, const route_config *route, const inbox_config *inbox)
{
    const config_node *types = tree_find(inbox->at, "types");
    if (types && inbox->types.count)
        diagnostic_add(c->found, LEVEL_WARNING, "types", tree_name_place(types),
                       tree_path(&c->found->memory, types),
                       "the route \"%s\" hands over messages of every type, not of these alone",
                       route->name);
}

static int leads_to(const route_config *route, const inbox_config *inbox)
{
    return route->kind == ROUTE_WEBHOOK &&
           ((route->inbox && strcmp(route->inbox, inbox->name) == 0) ||
            (route->to && inbox->from && strcmp(route->to, inbox->from) == 0));
}

/* Once for each inbox, however many routes lead to it. */
static void check_receiver(const checking *c, const inbox_config *inbox)
{
    const route_config *longest = NULL, *varying = NULL;
    for (size_t i = 0; i < c->all->gateway.route_count; i++) {
        const route_config *route = &c->all->gateway.routes[i];
        if (!leads_to(route, inbox))
            continue;
        const webhook_sender *sender = webhook_sender_of(route->preset);
        if (!longest || sender->window_ms > webhook_sender_of(longest->preset)->window_ms)
            longest = route;
        if (sender->body_varies && !varying)
            varying = route;
        if (route->inbox) {
            check_wait(c, route, inbox);
            check_types(c, route, inbox);
        }
    }
    if (longest)
        check_retention(c, longest, inbox);
    if (varying && compares_bodies(inbox))
        check_fingerprint(c, varying, inbox);
}

void check_senders(const checking *c)
{
    for (size_t i = 0; i < c->all->inbox_count; i++)
        check_receiver(c, &c->all->inboxes[i]);
}

void check_webhook(const checking *c, const route_config *route)
{
    check_secrets(c, route);
    check_hmac(c, route);
    check_tolerance(c, route);
}
