/* See changes.h. Both trees are walked together, section by section. Equal means written alike: a
 * value that is written in another way (14d, 336h) counts as changed. */
#include "program/run/changes.h"

#include "program/config/describe.h"
#include "program/config/inboxes.h"
#include "program/handler/handler.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 60 }; /* longer values are not shown: "changed" */

typedef struct side {
    const config *all;
    inbox_layers layers;
} side;

typedef struct comparing {
    changes *out;
    buffer path;
} comparing;

/* --- the list --------------------------------------------------------------------------------- */

static void add(comparing *c, change_kind kind, const char *text)
{
    changes *out = c->out;
    if (out->count == out->room) {
        out->room = out->room ? out->room * 2 : 16;
        out->items = must_realloc(out->items, out->room * sizeof *out->items);
    }
    out->items[out->count++] =
        (change){kind, region_copy(&out->memory, c->path.data, c->path.len), text};
}

/* The path with a further name; leave() goes back to where it was. */
static size_t enter(comparing *c, const char *name)
{
    size_t before = c->path.len;
    tree_add_name(&c->path, name);
    return before;
}

static void leave(comparing *c, size_t before)
{
    c->path.len = before;
}

/* --- values ----------------------------------------------------------------------------------- */

static int same_node(const config_node *a, const config_node *b);

static int same_items(const config_node *a, const config_node *b)
{
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++) {
        const config_node *other =
            a->kind == NODE_MAP ? tree_find(b, a->items[i]->key->text) : b->items[i];
        if (!other || !same_node(a->items[i], other))
            return 0;
    }
    return 1;
}

/* By what was substituted: another password in a file is a change, too. A list with one item may be
 * written as the item. */
static int same_node(const config_node *a, const config_node *b)
{
    if (a->kind == NODE_LIST && a->count == 1 && b->kind != NODE_LIST)
        return same_node(a->items[0], b);
    if (b->kind == NODE_LIST && b->count == 1 && a->kind != NODE_LIST)
        return same_node(a, b->items[0]);
    if (a->kind != b->kind)
        return 0;
    return a->kind == NODE_SCALAR ? strcmp(a->text, b->text) == 0 : same_items(a, b);
}

static int is_default(const option *of, const config_node *node)
{
    return of->fallback && node->kind == NODE_SCALAR && strcmp(node->text, of->fallback) == 0;
}

static int same_value(const option *of, const config_node *a, const config_node *b)
{
    if (a && b)
        return same_node(a, b);
    return (!a && !b) || is_default(of, a ? a : b);
}

static void describe(buffer *out, const option *of, const config_node *node)
{
    if (node)
        describe_node(out, of, node);
    else
        buffer_text(out, of->fallback ? of->fallback : "not set");
}

static void compare_value(comparing *c, const option *of, const config_node *a,
                          const config_node *b)
{
    buffer was = {0}, is = {0};
    const char *text = "changed";
    if (same_value(of, a, b))
        return;
    describe(&was, of, a);
    describe(&is, of, b);
    if (was.len <= SHOWN_MAX && is.len <= SHOWN_MAX && strcmp(was.data, is.data) != 0)
        text = region_printf(&c->out->memory, "%s -> %s", was.data, is.data);
    size_t before = enter(c, of->name);
    add(c, CHANGE_VALUE, text);
    leave(c, before);
    buffer_free(&was);
    buffer_free(&is);
}

/* --- elements --------------------------------------------------------------------------------- */

static const char *added_text(comparing *c, const section *of, const config *all, const char *name)
{
    for (size_t i = 0; of == &section_inbox && i < all->inbox_count; i++)
        if (strcmp(all->inboxes[i].name, name) == 0)
            return region_printf(&c->out->memory, "added: from %s, %s", all->inboxes[i].from,
                                 handler_class_of(all->inboxes[i].handler)->name);
    return "added";
}

static const char *removed_text(const section *of)
{
    return of == &section_inbox ? "removed; its keys remain until their retention ends" : "removed";
}

static int is_element(const section *of, const config_node *node)
{
    return of != &section_inbox || !inboxes_is_pattern(node->key->text);
}

static inbox_layers one_layer(comparing *c, const config_node *node)
{
    inbox_layers one = {region_alloc(&c->out->memory, sizeof *one.items), 1};
    one.items[0] = node;
    return one;
}

static side element_side(comparing *c, const config *all, const section *of, const config_node *map,
                         const config_node *node)
{
    return (side){all, of == &section_inbox ? inboxes_layers(&c->out->memory, map, node->key->text)
                                            : one_layer(c, node)};
}

static void compare_section(comparing *c, const section *of, side a, side b);

static void report(comparing *c, change_kind kind, const char *name, const char *text)
{
    size_t before = enter(c, name);
    add(c, kind, text);
    leave(c, before);
}

static void compare_element(comparing *c, const section *of, side a, side b)
{
    const config_node *first = a.layers.items[a.layers.count - 1];
    size_t before = enter(c, first->key->text);
    compare_section(c, of, a, b);
    leave(c, before);
}

static void compare_named(comparing *c, const section *of, const config *from,
                          const config_node *was, const config *to, const config_node *is)
{
    for (size_t i = 0; was && i < was->count; i++) {
        const config_node *mine = was->items[i], *other = tree_find(is, mine->key->text);
        if (is_element(of, mine) && other)
            compare_element(c, of, element_side(c, from, of, was, mine),
                            element_side(c, to, of, is, other));
    }
    for (size_t i = 0; is && i < is->count; i++) {
        const char *name = is->items[i]->key->text;
        if (is_element(of, is->items[i]) && !tree_find(was, name))
            report(c, CHANGE_ADDED, name, added_text(c, of, to, name));
    }
    for (size_t i = 0; was && i < was->count; i++)
        if (is_element(of, was->items[i]) && !tree_find(is, was->items[i]->key->text))
            report(c, CHANGE_REMOVED, was->items[i]->key->text, removed_text(of));
}

/* A handler that is there on one side only has no value that could be compared. */
static void compare_inner(comparing *c, const option *of, const config *from,
                          const config_node *was, const config *to, const config_node *is)
{
    if ((of->flags & OPTION_HANDLER) && !was != !is)
        add(c, CHANGE_VALUE, was ? "removed" : "added");
    else if (was || is)
        compare_section(c, of->inner, (side){from, one_layer(c, was)},
                        (side){to, one_layer(c, is)});
}

static void compare_section(comparing *c, const section *of, side a, side b)
{
    for (size_t i = 0; i < of->count; i++) {
        const option *next = &of->options[i];
        const config_node *was = inboxes_pick(of, &a.layers, next, NULL);
        const config_node *is = inboxes_pick(of, &b.layers, next, NULL);
        size_t before = c->path.len;
        if (next->type != OPTION_SECTION && next->type != OPTION_NAMED) {
            compare_value(c, next, was, is);
            continue;
        }
        (void)enter(c, next->name);
        if (next->type == OPTION_NAMED)
            compare_named(c, next->inner, a.all, was, b.all, is);
        else
            compare_inner(c, next, a.all, was, b.all, is);
        leave(c, before);
    }
}

void changes_find(changes *out, const config *from, const config *to)
{
    comparing c = {.out = out};
    compare_section(&c, &section_config, (side){from, one_layer(&c, from->root)},
                    (side){to, one_layer(&c, to->root)});
    buffer_free(&c.path);
}

void changes_free(changes *all)
{
    region_free(&all->memory);
    free(all->items);
    *all = (changes){0};
}

size_t changes_count(const changes *all, change_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += all->items[i].kind == kind;
    return count;
}
