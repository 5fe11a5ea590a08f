/* See inboxes.h. */
#include "program/config/inboxes.h"

#include <stdlib.h>
#include <string.h>

int inboxes_is_pattern(const char *name)
{
    return strchr(name, '*') != NULL;
}

int inboxes_match(const char *pattern, const char *name)
{
    size_t len = strcspn(pattern, "*");
    return pattern[len] ? strncmp(pattern, name, len) == 0 : strcmp(pattern, name) == 0;
}

/* A star that is not the last character makes a pattern that is not used. */
static int is_usable(const char *pattern)
{
    size_t len = strcspn(pattern, "*");
    return !pattern[len] || !pattern[len + 1];
}

static size_t specificity(const char *name)
{
    return strlen(name) * 2 + !inboxes_is_pattern(name);
}

static int compare(const void *left, const void *right)
{
    const config_node *a = *(const config_node *const *)left;
    const config_node *b = *(const config_node *const *)right;
    size_t first = specificity(a->key->text), second = specificity(b->key->text);
    return first < second ? -1 : first > second;
}

inbox_layers inboxes_layers(region *memory, const config_node *map, const char *name)
{
    inbox_layers all = {0};
    all.items = region_alloc(memory, (map->count + 1) * sizeof *all.items);
    for (size_t i = 0; i < map->count; i++) {
        const char *pattern = map->items[i]->key->text;
        if (is_usable(pattern) && inboxes_match(pattern, name) && !read_is_empty(map->items[i]))
            all.items[all.count++] = map->items[i];
    }
    qsort((void *)all.items, all.count, sizeof(config_node *), compare);
    return all;
}

const config_node *inboxes_pick(const section *of, const inbox_layers *layers, const option *wanted,
                                const config_node **layer)
{
    for (size_t i = layers->count; i-- > 0;) {
        const config_node *node = read_find(of, layers->items[i], wanted);
        if (layer)
            *layer = layers->items[i];
        if (node)
            return node;
    }
    return NULL;
}

const config_node *inboxes_find(region *memory, const config *all, const char *inbox,
                                const char *option_name)
{
    const config_node *map = tree_find(all->root, "inboxes");
    const option *wanted = option_find(&section_inbox, option_name);
    if (!map || map->kind != NODE_MAP)
        return NULL;
    inbox_layers layers = inboxes_layers(memory, map, inbox);
    return inboxes_pick(&section_inbox, &layers, wanted, NULL);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void check_pattern(const reading *r, const config_node *map, const config_node *pattern)
{
    const char *name = pattern->key->text;
    if (!is_usable(name)) {
        diagnostic_add(
            r->found, LEVEL_ERROR, "pattern", pattern->key->at, tree_path(r->memory, map),
            "\"%s\": * is allowed only at the end, so that the longest match is unique", name);
        return;
    }
    for (size_t i = 0; i < map->count; i++)
        if (!inboxes_is_pattern(map->items[i]->key->text) &&
            inboxes_match(name, map->items[i]->key->text))
            return;
    diagnostic_add(r->found, LEVEL_WARNING, "unused-pattern", pattern->key->at,
                   tree_path(r->memory, pattern), "pattern matches no inbox");
}

static void read_pattern(const reading *r, const config_node *map, const config_node *pattern)
{
    inbox_config scratch = {0};
    reading in_pattern = *r;
    in_pattern.is_pattern = 1;
    check_pattern(r, map, pattern);
    read_section(&in_pattern, &section_inbox, pattern, &scratch);
}

static void read_inbox(const reading *r, const config_node *map, const config_node *node,
                       inbox_config *out)
{
    reading quiet = *r;
    quiet.found = NULL;
    quiet.is_pattern = 1;
    inbox_layers layers = inboxes_layers(r->memory, map, node->key->text);
    out->name = node->key->text;
    out->at = node;
    read_defaults(r, &section_inbox, out);
    for (size_t i = 0; i < layers.count; i++)
        if (layers.items[i] != node)
            read_section(&quiet, &section_inbox, layers.items[i], out);
    read_section(r, &section_inbox, node, out);
    read_required(r, &section_inbox, node);
}

void read_inboxes(const reading *r, const option *of, const config_node *map, void *base)
{
    inbox_config *all = region_alloc(r->memory, (map->count + 1) * sizeof *all);
    size_t count = 0;
    for (size_t i = 0; i < map->count; i++)
        if (inboxes_is_pattern(map->items[i]->key->text))
            read_pattern(r, map, map->items[i]);
        else
            read_inbox(r, map, map->items[i], &all[count++]);
    read_keep_array(of, base, all, count);
}
