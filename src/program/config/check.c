/* See check.h. */
#include "program/config/check.h"

#include "program/config/complete.h"
#include "program/config/inboxes.h"
#include "program/config/read.h"
#include "program/config/tree.h"
#include "program/handler/value_sql.h"
#include "program/support/nearest.h"

#include <ctype.h>
#include <string.h>

static const char *path_of(const checking *c, const config_node *node)
{
    return tree_path(&c->found->memory, node);
}

/* --- names ------------------------------------------------------------------------------------ */

void check_unknown(const checking *c, const char *kind, const char *name, place at,
                   const char *path)
{
    nearest best = {.typed = name};
    if (strcmp(kind, "queue") == 0)
        for (size_t i = 0; i < c->all->queue_count; i++)
            nearest_offer(&best, c->all->queues[i].name);
    else
        for (size_t i = 0; i < c->all->inbox_count; i++)
            nearest_offer(&best, c->all->inboxes[i].name);
    if (best.name)
        diagnostic_add(c->found, LEVEL_ERROR, "unknown-name", at, path,
                       "%s \"%s\" does not exist; did you mean \"%s\"?", kind, name, best.name);
    else
        diagnostic_add(c->found, LEVEL_ERROR, "unknown-name", at, path, "%s \"%s\" does not exist",
                       kind, name);
}

void check_queue_name(const checking *c, const config_node *node)
{
    if (node && node->kind == NODE_SCALAR && !node->is_unset && node->len &&
        !config_queue(c->all, node->text))
        check_unknown(c, "queue", node->text, node->at, path_of(c, node));
}

int check_is_name(const char *name, size_t most)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return 0;
    return len > 0 && len <= most;
}

/* Of queues, inboxes and outboxes: they are names in the database, too. */
static void check_names(const checking *c, const char *section_name)
{
    const config_node *map = tree_find(c->all->root, section_name);
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const config_node *key = map->items[i]->key;
        if (!check_is_name(key->text, SEMEL_NAME_MAX) && !inboxes_is_pattern(key->text))
            diagnostic_add(c->found, LEVEL_ERROR, "name", key->at, path_of(c, map),
                           "\"%s\": a name has letters, digits and . _ - (at most %zu)", key->text,
                           SEMEL_NAME_MAX);
    }
}

/* --- handlers --------------------------------------------------------------------------------- */

static void second_handler(const checking *c, const inbox_config *inbox, const config_node *first,
                           const config_node *second)
{
    diagnostic *d = diagnostic_add(
        c->found, LEVEL_ERROR, "handlers", second->key->at, path_of(c, inbox->at),
        "inbox already has a handler, \"%s\" (line %u)", first->key->text, first->key->at.line);
    diagnostic_help(c->found, d,
                    "an inbox has one handler; to run both, add a second inbox with the same "
                    "\"from\"");
}

static void no_handler(const checking *c, const inbox_config *inbox)
{
    buffer names = {0};
    for (size_t i = 0; i < section_inbox.count; i++)
        if (section_inbox.options[i].flags & OPTION_HANDLER)
            buffer_printf(&names, "%s, ", section_inbox.options[i].name);
    diagnostic_add(c->found, LEVEL_ERROR, "handlers", tree_name_place(inbox->at),
                   path_of(c, inbox->at), "no handler; add one of %s%s", names.data, "send");
    buffer_free(&names);
}

static void check_handlers(const checking *c, const inbox_config *inbox)
{
    const config_node *first = NULL;
    if (inbox->at->kind != NODE_MAP) {
        if (read_is_empty(inbox->at))
            no_handler(c, inbox);
        return;
    }
    for (size_t i = 0; i < inbox->at->count; i++) {
        const config_node *item = inbox->at->items[i];
        const option *found = option_find(&section_inbox, item->key->text);
        if (!found || !(found->flags & OPTION_HANDLER) || read_is_empty(item))
            continue;
        if (first)
            second_handler(c, inbox, first, item);
        else
            first = item;
    }
    if (!first && read_is_empty(tree_find(inbox->at, "send")))
        no_handler(c, inbox);
}

static void check_require(const checking *c, const inbox_config *inbox)
{
    const config_node *node = inboxes_find(&c->found->memory, c->all, inbox->name, "require");
    const char *kind = config_handler_name(inbox);
    if (!node || inbox->options.mode != SEMEL_CLAIM ||
        inbox->require <= SEMEL_GRADE_EFFECTIVELY_ONCE)
        return;
    const char *article = strcmp(kind, "exec") == 0 ? "an" : "a";
    diagnostic *d = diagnostic_add(
        c->found, LEVEL_ERROR, "require", node->at,
        region_printf(&c->found->memory, "%s.%s", path_of(c, inbox->at), node->key->text),
        "%s %s handler provides effectively-once at most", article, kind);
    diagnostic_help(c->found, d,
                    "its effects are outside the store; require effectively-once, or use a sql "
                    "handler (semel help guarantees)");
}

static int begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static void check_about_keys(const checking *c, const inbox_config *inbox)
{
    static const char *const about_keys[] = {"key",          "fingerprint", "on_mismatch",
                                             "on_duplicate", "on_stale",    "on_missing_key",
                                             "age",          "retention",   "sweep"};
    for (size_t i = 0; i < sizeof about_keys / sizeof *about_keys; i++) {
        const config_node *node = tree_find(inbox->at, about_keys[i]);
        if (node)
            diagnostic_at(c->found, "remember", node,
                          "%s is about keys, and this inbox remembers positions", about_keys[i]);
    }
}

/* Of the transports that are built in only Kafka has them; the transport says so itself when it is
 * opened. */
static int has_positions(const queue_config *queue)
{
    return queue->url && begins_with(queue->url, "kafka:");
}

static void check_remember(const checking *c, const inbox_config *inbox)
{
    const config_node *node = inboxes_find(&c->found->memory, c->all, inbox->name, "remember");
    const queue_config *queue = inbox->from ? config_queue(c->all, inbox->from) : NULL;
    if (!node || inbox->options.remember != SEMEL_REMEMBER_POSITIONS)
        return;
    check_about_keys(c, inbox);
    const char *where = region_printf(&c->found->memory, "%s.remember", path_of(c, inbox->at));
    if (inbox->options.mode == SEMEL_CLAIM)
        diagnostic_add(c->found, LEVEL_ERROR, "remember", node->at, where,
                       "a position moves in the transaction of the work, and the effects of %s "
                       "handlers are outside of it: remember keys",
                       config_handler_name(inbox));
    if (!queue || !has_positions(queue))
        diagnostic_add(c->found, LEVEL_ERROR, "remember", node->at, where,
                       "the inbox reads from %s%s%s, which has no positions: remember keys",
                       queue ? "queue \"" : "no queue", queue ? queue->name : "",
                       queue ? "\"" : "");
}

/* The grammar of :values is that of the handlers (handler/value.h). In `send` a text that begins
 * with a colon is a value, unless it begins with two. */
static void check_values(const checking *c, const config_node *text, int is_statement)
{
    region memory = {0};
    value_mistake wrong = {0};
    value_sql statement;
    value_name value;
    sql_kind kind = c->all->store_url ? statement_kind_of(c->all->store_url) : (sql_kind)0;
    int is_value = text->text[0] == ':' && text->text[1] != ':';
    int good = is_statement ? value_sql_read(&statement, &memory, kind ? kind : SQL_KIND_SQLITE,
                                             text->text, &wrong)
                            : !is_value || value_parse(&value, &memory, text->text, &wrong);
    if (!good) {
        diagnostic *added =
            diagnostic_add(c->found, LEVEL_ERROR, "value", tree_part(text, wrong.offset, wrong.len),
                           tree_path(&memory, text), "%s", wrong.text);
        if (wrong.help)
            diagnostic_help(c->found, added, "%s", wrong.help);
    }
    region_free(&memory);
}

/* Every text of a statement, a list of them, or what is inside `send`. */
static void check_all_values(const checking *c, const config_node *node, int is_statement)
{
    if (!node)
        return;
    if (node->kind == NODE_SCALAR && !node->is_unset)
        check_values(c, node, is_statement);
    for (size_t i = 0; i < node->count; i++)
        check_all_values(c, node->items[i], is_statement);
}

static void check_http(const checking *c, const inbox_config *inbox)
{
    const config_node *node =
        read_find(&section_http, tree_find(inbox->at, "http"), option_main(&section_http));
    if (node && node->kind == NODE_SCALAR && !node->is_unset &&
        !begins_with(node->text, "http://") && !begins_with(node->text, "https://"))
        diagnostic_at(c->found, "url", node, "a URL of http:// or https:// is expected");
}

/* An inbox that a route of the gateway names needs no queue. */
static void check_from(const checking *c, const inbox_config *inbox)
{
    const option *from = option_find(&section_inbox, "from");
    for (size_t i = 0; i < c->all->gateway.route_count; i++) {
        const char *named = c->all->gateway.routes[i].inbox;
        if (named && strcmp(named, inbox->name) == 0)
            return;
    }
    if ((inbox->at->kind != NODE_MAP && !read_is_empty(inbox->at)) || tree_find(inbox->at, "from"))
        return;
    diagnostic_add(c->found, LEVEL_ERROR, "missing", tree_name_place(inbox->at),
                   region_printf(&c->found->memory, "%s.from", path_of(c, inbox->at)),
                   "missing; for example, %s: %s", from->name, from->example);
}

static void check_inbox(const checking *c, const inbox_config *inbox)
{
    check_from(c, inbox);
    check_handlers(c, inbox);
    check_require(c, inbox);
    check_remember(c, inbox);
    check_all_values(c, tree_find(inbox->at, "sql"), 1);
    check_all_values(c, tree_find(inbox->at, "send"), 0);
    check_http(c, inbox);
    check_queue_name(c, tree_find(inbox->at, "from"));
    const option *to = option_find(&section_send, "to");
    for (size_t i = 0; i < inbox->send_count; i++)
        check_queue_name(c, read_find(&section_send, inbox->sends[i].at, to));
}

/* `faults` is often set by a pattern: each node is looked at once. */
static void check_faults(const checking *c)
{
    const config_node *map = tree_find(c->all->root, "inboxes");
    for (size_t i = 0; map && i < map->count; i++)
        check_queue_name(c, tree_find(map->items[i], "faults"));
}

/* --- queues and outboxes ---------------------------------------------------------------------- */

static void check_queue(const checking *c, const queue_config *queue)
{
    place at = tree_name_place(queue->at);
    if (!queue->is_read && !queue->is_written)
        diagnostic_add(c->found, LEVEL_WARNING, "unused-queue", at, path_of(c, queue->at),
                       "queue is unused; nothing reads from it or sends to it");
    else if (!queue->is_read && !queue->url)
        diagnostic_add(c->found, LEVEL_WARNING, "unread-queue", at, path_of(c, queue->at),
                       "messages are sent to this queue in the store, but no inbox reads it");
    const config_node *failure = tree_find(queue->at, "on_failure");
    if (failure && queue->consumer.order == SEMEL_ORDER_GROUP &&
        queue->consumer.on_failure != SEMEL_FAILURE_HOLD)
        diagnostic_at(c->found, "order", failure,
                      "%s loses the order of groups, which \"order: group\" asks for",
                      failure->raw);
    if (queue->consumer.backoff_ms > queue->consumer.backoff_max_ms) {
        const config_node *backoff = tree_find(queue->at, "backoff");
        const config_node *most = tree_find(queue->at, "backoff_max");
        diagnostic_at(c->found, "backoff", backoff ? backoff : most,
                      "backoff is longer than backoff_max");
    }
}

static void check_outboxes(const checking *c)
{
    const config_node *map = tree_find(c->all->root, "outboxes");
    const option *to = option_find(&section_outbox, "to");
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const config_node *outbox = map->items[i], *node = read_find(&section_outbox, outbox, to);
        if (node)
            check_queue_name(c, node);
        else if (!config_queue(c->all, outbox->key->text))
            check_unknown(c, "queue", outbox->key->text, outbox->key->at, path_of(c, outbox));
    }
}

/* `send`, `faults` and routes name a queue, and its outbox has the same name: it leads nowhere
 * else. */
static void check_detour(const checking *c, const char *queue)
{
    if (!queue)
        return;
    const outbox_config *outbox = config_outbox(c->all, queue);
    const config_node *map = tree_find(c->all->root, "outboxes");
    const config_node *node =
        read_find(&section_outbox, tree_find(map, queue), option_find(&section_outbox, "to"));
    if (!outbox || !node || strcmp(outbox->to, queue) == 0)
        return;
    diagnostic *d = diagnostic_at(c->found, "detour", node,
                                  "the outbox of the queue \"%s\" must send to it, not to \"%s\"",
                                  queue, node->raw);
    diagnostic_help(c->found, d,
                    "an inbox or a route sends to \"%s\"; give this outbox another name", queue);
}

static void check_detours(const checking *c)
{
    for (size_t i = 0; i < c->all->queue_count; i++) {
        const char *queue = c->all->queues[i].name;
        int is_named = 0;
        for (size_t j = 0; j < c->all->inbox_count; j++) {
            const inbox_config *inbox = &c->all->inboxes[j];
            is_named |= inbox->faults && strcmp(inbox->faults, queue) == 0;
            for (size_t k = 0; k < inbox->send_count; k++)
                is_named |= inbox->sends[k].to && strcmp(inbox->sends[k].to, queue) == 0;
        }
        for (size_t j = 0; j < c->all->gateway.route_count && c->all->queues[i].url; j++) {
            const char *to = c->all->gateway.routes[j].to;
            is_named |= to && strcmp(to, queue) == 0;
        }
        if (is_named)
            check_detour(c, queue);
    }
}

/* --- the rest --------------------------------------------------------------------------------- */

static void check_missing(const checking *c)
{
    static const char *const needed[] = {"store", "queues", "inboxes"};
    const config_source *source = c->all->root->at.source;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const option *wanted = option_find(&section_config, needed[i]);
        int is_needed = (wanted->flags & OPTION_REQUIRED) ||
                        (!c->all->outbox_count && !c->all->inbox_count && !c->all->queue_count &&
                         !c->all->gateway.route_count);
        if (is_needed && read_is_empty(tree_find(c->all->root, needed[i])))
            diagnostic_add(c->found, LEVEL_ERROR, "missing",
                           (place){source, source->first_line, 1, 1}, wanted->name,
                           "missing; it is %s", wanted->text);
    }
}

/* One statement is repeated alone in any case. */
static void check_setup(const checking *c)
{
    const config_node *setup = tree_find(c->all->root, "setup");
    const char *url = c->all->store_url;
    if (c->all->setup.count < 2 || !url ||
        !(begins_with(url, "mariadb:") || begins_with(url, "mysql:")))
        return;
    diagnostic_add(c->found, LEVEL_WARNING, "setup", tree_name_place(setup), "setup",
                   "on MariaDB a statement that defines a table commits by itself; each of these "
                   "must be safe to repeat alone");
}

void config_check(const config *all, diagnostics *found)
{
    checking c = {.all = all, .found = found};
    check_missing(&c);
    check_names(&c, "queues");
    check_names(&c, "inboxes");
    check_names(&c, "outboxes");
    for (size_t i = 0; i < all->inbox_count; i++)
        check_inbox(&c, &all->inboxes[i]);
    for (size_t i = 0; i < all->queue_count; i++)
        check_queue(&c, &all->queues[i]);
    check_faults(&c);
    check_outboxes(&c);
    check_detours(&c);
    check_gateway(&c);
    check_tables(&c);
    check_setup(&c);
    check_passwords(&c);
    check_retentions(&c);
    check_keys(&c);
    check_tracing(&c);
    check_tests(&c);
    check_admin(&c);
}
