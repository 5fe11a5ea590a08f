/* Names in the section `tests`. */
#include "program/config/check.h"
#include "program/config/complete.h"
#include "program/config/read.h"

#include <string.h>

/* Each name of the map must be that of an inbox or a queue. */
static void check_map(const checking *c, const config_node *map, const char *kind)
{
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const config_node *key = map->items[i]->key;
        int is_known = strcmp(kind, "queue") == 0 ? config_queue(c->all, key->text) != NULL
                                                  : config_inbox(c->all, key->text) != NULL;
        if (!is_known)
            check_unknown(c, kind, key->text, key->at, tree_path(&c->found->memory, map));
    }
}

/* The statements of an inbox answer by themselves; the others are stubbed. */
static void check_answers(const checking *c, const config_node *map)
{
    check_map(c, map, "inbox");
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const config_node *key = map->items[i]->key;
        const inbox_config *inbox = config_inbox(c->all, key->text);
        if (inbox && inbox->options.mode == SEMEL_QUEUED)
            diagnostic_add(c->found, LEVEL_ERROR, "answers", key->at,
                           tree_path(&c->found->memory, map),
                           "\"%s\" has no handler that is stubbed (exec, http, worker)", key->text);
    }
}

static void check_given(const checking *c, const config_node *given)
{
    size_t count = given && given->kind == NODE_LIST ? given->count : 1;
    for (size_t i = 0; given && i < count; i++)
        check_queue_name(c, tree_find(given->kind == NODE_LIST ? given->items[i] : given, "to"));
}

static int is_count(const config_node *node)
{
    return node->kind == NODE_SCALAR && tree_scalar(node) == SCALAR_INTEGER && node->text[0] != '-';
}

static void check_sent(const checking *c, const config_node *sent)
{
    check_map(c, sent, "queue");
    for (size_t i = 0; sent && sent->kind == NODE_MAP && i < sent->count; i++)
        if (!is_count(sent->items[i]))
            diagnostic_at(c->found, "number", sent->items[i], "expected a number of messages");
}

void check_tests(const checking *c)
{
    for (size_t i = 0; i < c->all->test_count; i++) {
        const config_node *test = c->all->tests[i].at;
        const config_node *expect = tree_find(test, "expect");
        check_given(c, tree_find(test, "given"));
        check_answers(c, tree_find(test, "answers"));
        check_map(c, tree_find(expect, "inboxes"), "inbox");
        check_sent(c, tree_find(expect, "sent"));
    }
}
