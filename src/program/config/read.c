/* See read.h: sections, lists and maps. Single values are read_value.c. */
#include "program/config/read.h"

#include "program/config/inboxes.h"
#include "program/config/read_value.h"
#include "program/support/nearest.h"

#include <stdint.h>
#include <string.h>

static void *member(void *base, size_t offset)
{
    return (unsigned char *)base + offset;
}

int read_is_empty(const config_node *node)
{
    return !node || (node->kind == NODE_SCALAR && tree_scalar(node) == SCALAR_NULL);
}

/* --- defaults --------------------------------------------------------------------------------- */

static void default_of(const reading *r, const option *of, void *base)
{
    if (of->type == OPTION_SECTION)
        read_defaults(r, of->inner, member(base, of->offset));
    else if (of->fallback)
        read_fallback(of, member(base, of->offset));
    else if (of->type == OPTION_COUNT)
        *(int64_t *)member(base, of->offset) = -1;
}

void read_defaults(const reading *r, const section *of, void *base)
{
    for (size_t i = 0; i < of->count; i++)
        default_of(r, &of->options[i], base);
}

/* --- lists and pairs -------------------------------------------------------------------------- */

static const char *item_text(const reading *r, const option *of, const config_node *item)
{
    if (item->kind != NODE_SCALAR) {
        diagnostic_at(r->found, "type", item, "expected a text, not a %s",
                      item->kind == NODE_LIST ? "list" : "map");
        return NULL;
    }
    if (item->is_unset)
        return NULL;
    if (of->words && !read_word(of, item->text)) {
        diagnostic_at(r->found, "word", item, "\"%s\" is not valid; use %s", item->raw,
                      read_words(r->memory, of->words));
        return NULL;
    }
    return item->text;
}

static int read_list(const reading *r, const option *of, const config_node *node, void *out)
{
    size_t count = node->kind == NODE_LIST ? node->count : 1;
    const char **items = region_alloc(r->memory, (count + 1) * sizeof *items);
    if (node->kind == NODE_MAP) {
        diagnostic_at(r->found, "type", node, "expected a list, not a map");
        return 0;
    }
    if (!count && !(of->flags & OPTION_EMPTY)) {
        diagnostic_at(r->found, "empty", node, "the list is empty");
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = item_text(r, of, node->kind == NODE_LIST ? node->items[i] : node);
        if (!items[i])
            return 0;
    }
    *(config_list *)out = (config_list){items, count};
    return 1;
}

static int read_pairs(const reading *r, const option *of, const config_node *node, void *out)
{
    if (node->kind != NODE_MAP) {
        diagnostic_at(r->found, "type", node, "expected names and texts, as in %s", of->example);
        return 0;
    }
    config_pair *items = region_alloc(r->memory, (node->count + 1) * sizeof *items);
    for (size_t i = 0; i < node->count; i++) {
        items[i].name = node->items[i]->key->text;
        items[i].value = item_text(r, of, node->items[i]);
        if (!items[i].value)
            return 0;
    }
    *(config_pairs *)out = (config_pairs){items, node->count};
    return 1;
}

/* --- arrays of sections ----------------------------------------------------------------------- */

void read_element(const reading *r, const section *of, const config_node *node, void *base)
{
    if (of->name_offset != SECTION_NO_OFFSET)
        *(const char **)member(base, of->name_offset) = node->key ? node->key->text : "";
    if (of->at_offset != SECTION_NO_OFFSET)
        *(const config_node **)member(base, of->at_offset) = node;
    read_defaults(r, of, base);
    read_section(r, of, node, base);
    read_required(r, of, node);
}

/* The members are pointers to different structs, so they are written as bytes. */
void read_keep_array(const option *of, void *base, const void *all, size_t count)
{
    memcpy(member(base, of->offset), (const void *)&all, sizeof all);
    memcpy(member(base, of->count_offset), &count, sizeof count);
}

static void read_elements(const reading *r, const option *of, const config_node *const *nodes,
                          size_t count, void *base)
{
    unsigned char *all = region_alloc(r->memory, (count + 1) * of->inner->size);
    for (size_t i = 0; i < count; i++)
        read_element(r, of->inner, nodes[i], all + i * of->inner->size);
    read_keep_array(of, base, all, count);
}

static int read_array(const reading *r, const option *of, const config_node *node, void *base)
{
    const config_node *const *items = (const config_node *const *)node->items;
    if (of->type == OPTION_NAMED && node->kind != NODE_MAP) {
        diagnostic_at(r->found, "type", node, "expected names with their options");
        return 0;
    }
    if (of->inner == &section_inbox)
        read_inboxes(r, of, node, base);
    else if (of->type == OPTION_NAMED || node->kind == NODE_LIST)
        read_elements(r, of, items, node->count, base);
    else
        read_elements(r, of, &node, 1, base);
    return 1;
}

/* --- sections --------------------------------------------------------------------------------- */

int read_value(const reading *r, const option *of, const config_node *node, void *base)
{
    void *out = member(base, of->offset);
    switch (of->type) {
    case OPTION_LIST:
        return read_list(r, of, node, out);
    case OPTION_PAIRS:
        return read_pairs(r, of, node, out);
    case OPTION_VALUE:
        *(const config_node **)out = node;
        return 1;
    case OPTION_SECTION:
        read_section(r, of->inner, node, out);
        if (of->inner->at_offset != SECTION_NO_OFFSET)
            *(const config_node **)member(out, of->inner->at_offset) = node;
        read_required(r, of->inner, node);
        return 1;
    case OPTION_SECTIONS:
    case OPTION_NAMED:
        return read_array(r, of, node, base);
    default:
        return read_scalar_value(r, of, node, out);
    }
}

/* Sections of the file that a later version serves. */
static int is_not_built(const reading *r, const section *of, const config_node *item)
{
    static const char *const names[] = {"admin"};
    static const char *const missing[] = {"admin interface"};
    for (size_t i = 0; of == &section_config && i < sizeof names / sizeof *names; i++)
        if (strcmp(item->key->text, names[i]) == 0) {
            diagnostic *d =
                diagnostic_add(r->found, LEVEL_ERROR, "not-built", item->key->at, names[i],
                               "this version of semel has no %s yet", missing[i]);
            diagnostic_help(r->found, d, "remove the section");
            return 1;
        }
    return 0;
}

static void unknown_option(const reading *r, const section *of, const config_node *item)
{
    nearest best = {.typed = item->key->text};
    for (size_t i = 0; i < of->count; i++)
        nearest_offer(&best, of->options[i].name);
    if (!r->found)
        return;
    const char *path = tree_path(r->memory, item->parent);
    if (best.name) {
        diagnostic_add(r->found, LEVEL_ERROR, "unknown-option", item->key->at, path,
                       "unknown option \"%s\"; did you mean \"%s\"?", item->key->text, best.name);
        return;
    }
    diagnostic *d = diagnostic_add(r->found, LEVEL_ERROR, "unknown-option", item->key->at, path,
                                   "unknown option \"%s\"", item->key->text);
    buffer names = {0};
    for (size_t i = 0; i < of->count; i++)
        buffer_printf(&names, "%s%s", i ? ", " : "", of->options[i].name);
    diagnostic_help(r->found, d, "valid: %s", names.data);
    buffer_free(&names);
}

static void read_option(const reading *r, const section *of, const config_node *item, void *base)
{
    const option *found = option_find(of, item->key->text);
    if (!found && is_not_built(r, of, item))
        return;
    if (!found)
        unknown_option(r, of, item);
    else if (r->is_pattern && (found->flags & OPTION_NO_PATTERN))
        diagnostic_add(r->found, LEVEL_ERROR, "pattern-option", item->key->at,
                       tree_path(r->memory, item->parent),
                       "a pattern is not an inbox and cannot have \"%s\"", item->key->text);
    else if (!read_is_empty(item) || found->type == OPTION_VALUE)
        (void)read_value(r, found, item, base);
}

/* 1 if the node is the value of the main option alone. */
static int is_main_alone(const section *of, const config_node *node)
{
    const option *only = option_main(of);
    return only && (node->kind != NODE_MAP || of->count == 1);
}

void read_section(const reading *r, const section *of, const config_node *node, void *base)
{
    if (read_is_empty(node))
        return;
    if (is_main_alone(of, node)) {
        (void)read_value(r, option_main(of), node, base);
        return;
    }
    if (node->kind != NODE_MAP) {
        diagnostic_at(r->found, "type", node, "expected options, as in %s: %s", of->options[0].name,
                      of->options[0].example);
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        read_option(r, of, node->items[i], base);
}

const config_node *read_find(const section *of, const config_node *node, const option *wanted)
{
    if (read_is_empty(node))
        return NULL;
    if (is_main_alone(of, node))
        return wanted == option_main(of) ? node : NULL;
    const config_node *found = tree_find(node, wanted->name);
    return read_is_empty(found) && wanted->type != OPTION_VALUE ? NULL : found;
}

void read_required(const reading *r, const section *of, const config_node *node)
{
    if (node->kind != NODE_MAP && !read_is_empty(node))
        return; /* the main option alone, or a mistake that was reported */
    for (size_t i = 0; i < of->count; i++) {
        const option *wanted = &of->options[i];
        if (!(wanted->flags & OPTION_REQUIRED) || read_find(of, node, wanted))
            continue;
        const char *path = tree_path(r->memory, node);
        diagnostic_add(r->found, LEVEL_ERROR, "missing", tree_name_place(node),
                       region_printf(r->memory, "%s%s%s", path, *path ? "." : "", wanted->name),
                       wanted->example ? "missing; for example, %s: %s" : "missing; add %s%s",
                       wanted->name, wanted->example ? wanted->example : "");
    }
}
