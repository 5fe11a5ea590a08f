/* See explain.h. */
#include "program/config/explain.h"

#include "program/config/describe.h"
#include "program/config/inboxes.h"
#include "program/config/override.h"
#include "program/support/nearest.h"

#include <string.h>

enum { GAP = 3, WIDE = 12, NARROW = 4 };

/* Where a path leads in the file: the nodes that set the option, the one that counts last. */
typedef struct settings {
    const config_node *nodes[64];
    const config_node *layers[64];
    size_t count;
} settings;

typedef struct explaining {
    buffer *out;
    region memory;
    const config *all;
    path_parts path;
    path_target target;
} explaining;

/* --- finding ---------------------------------------------------------------------------------- */

static void add_setting(settings *s, const section *in, const option *wanted,
                        const config_node *layer)
{
    const config_node *node = read_find(in, layer, wanted);
    if (!layer || !node || s->count == sizeof s->nodes / sizeof *s->nodes)
        return;
    s->nodes[s->count] = node;
    s->layers[s->count++] = layer;
}

/* The node of a section, step by step; sections that are written as their main option alone have no
 * nodes inside. NULL: the section is not in the file. */
static const config_node *walk(const explaining *e, size_t count)
{
    const config_node *node = e->all->root;
    for (size_t i = 0; node && i < count; i++) {
        const path_part *part = &e->path.items[i];
        if (part->name)
            node = tree_find(node, part->name);
        else if (node->kind == NODE_LIST)
            node = part->index < node->count ? node->items[part->index] : NULL;
        else if (part->index)
            node = NULL; /* a list with one item needs no brackets: [0] is the node itself */
    }
    return node;
}

static int is_of_inbox(const explaining *e)
{
    return e->target.in == &section_inbox && e->path.count == 3;
}

static settings find_settings(explaining *e)
{
    settings s = {0};
    const config_node *inboxes = tree_find(e->all->root, "inboxes");
    if (is_of_inbox(e) && inboxes && !inboxes_is_pattern(e->path.items[1].name)) {
        inbox_layers layers = inboxes_layers(&e->memory, inboxes, e->path.items[1].name);
        for (size_t i = 0; i < layers.count; i++)
            add_setting(&s, e->target.in, e->target.option, layers.items[i]);
    } else
        add_setting(&s, e->target.in, e->target.option, walk(e, e->path.count - 1));
    return s;
}

/* --- telling ---------------------------------------------------------------------------------- */

static const char *shown(explaining *e, const config_node *node)
{
    buffer text = {0};
    describe_node(&text, e->target.option, node);
    const char *kept = region_copy(&e->memory, text.data, text.len);
    buffer_free(&text);
    return kept;
}

static void add_place(explaining *e, const config_node *node)
{
    buffer_text(e->out, node->at.source->name);
    if (node->at.line)
        buffer_printf(e->out, ":%u:%u", node->at.line, node->at.column);
}

static int is_pattern(const config_node *layer)
{
    return layer && layer->key && inboxes_is_pattern(layer->key->text);
}

/* --- what a setting overrides ----------------------------------------------------------------- */

/* What --set replaced: at this node, or in a section that was replaced as a whole. */
static const config_node *replaced_by(const config_node *node)
{
    if (node->replaced || !node->parent)
        return node->replaced;
    const config_node *before = replaced_by(node->parent);
    if (!before || node->key)
        return before ? tree_find(before, node->key->text) : NULL;
    return before->kind == NODE_LIST && node->index < before->count ? before->items[node->index]
                                                                    : NULL;
}

enum { OVERRIDDEN_MAX = 128 };

typedef struct overridden {
    const char *items[OVERRIDDEN_MAX];
    size_t count;
} overridden;

static void add_item(overridden *to, const char *text)
{
    if (to->count < OVERRIDDEN_MAX)
        to->items[to->count++] = text;
}

/* "7d from semel.yaml:12:16"; of a list, also what --set replaced in it. */
static void add_replaced(overridden *to, explaining *e, const config_node *node)
{
    for (const config_node *old = replaced_by(node); old; old = replaced_by(old)) {
        const char *name = old->at.source->name, *value = shown(e, old);
        add_item(to, old->at.line ? region_printf(&e->memory, "%s from %s:%u:%u", value, name,
                                                  old->at.line, old->at.column)
                                  : region_printf(&e->memory, "%s from %s", value, name));
    }
    for (size_t i = 0; node->kind == NODE_LIST && i < node->count; i++)
        if (node->items[i]->replaced)
            add_replaced(to, e, node->items[i]);
}

/* "5 from inboxes["*"] (line 23)" */
static void add_layer(overridden *to, explaining *e, const config_node *node,
                      const config_node *layer)
{
    const char *path = tree_path(&e->memory, layer), *value = shown(e, node);
    add_item(
        to, node->at.line
                ? region_printf(&e->memory, "%s from %s (line %u)", value, path, node->at.line)
                : region_printf(&e->memory, "%s from %s (%s)", value, path, node->at.source->name));
}

/* "; overrides 5 from inboxes["*"] (line 23) and the default 5" */
static void add_overridden(explaining *e, const settings *s)
{
    overridden all = {.count = 0};
    add_replaced(&all, e, s->nodes[s->count - 1]);
    for (size_t i = s->count - 1; i-- > 0;) {
        add_layer(&all, e, s->nodes[i], s->layers[i]);
        add_replaced(&all, e, s->nodes[i]);
    }
    if (e->target.option->fallback)
        add_item(&all, region_printf(&e->memory, "the default %s", e->target.option->fallback));
    for (size_t i = 0; i < all.count; i++)
        buffer_printf(e->out, "%s%s",
                      !i                  ? "; overrides "
                      : i + 1 < all.count ? ", "
                                          : " and ",
                      all.items[i]);
}

/* --- the value -------------------------------------------------------------------------------- */

static size_t add_value(explaining *e, const settings *s)
{
    const option *of = e->target.option;
    if (!s->count) {
        const char *value = of->fallback ? of->fallback : "not set";
        buffer_printf(e->out, "%s%*s%s", value, GAP, "", of->fallback ? "the default" : "");
        if (!of->fallback && of->otherwise)
            buffer_printf(e->out, "the default: %s", of->otherwise);
        return strlen(value);
    }
    const config_node *node = s->nodes[s->count - 1], *layer = s->layers[s->count - 1];
    const char *value = shown(e, node);
    buffer_printf(e->out, "%s%*s", value, GAP, "");
    add_place(e, node);
    if (is_pattern(layer))
        buffer_printf(e->out, ", set by %s", tree_path(&e->memory, layer));
    add_overridden(e, s);
    return strlen(value);
}

static void trim(buffer *out)
{
    while (out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
}

static void add_meaning(explaining *e, size_t indent)
{
    const option *of = e->target.option;
    trim(e->out);
    buffer_printf(e->out, "\n%*s%s: %s", (int)indent, "", describe_values(&e->memory, of),
                  of->text);
    if (of->c_name)
        buffer_printf(e->out, ". In C: %s", of->c_name);
    buffer_text(e->out, "\n");
}

/* --- paths that lead nowhere ------------------------------------------------------------------ */

static int wrong_option(explaining *e)
{
    nearest best = {.typed = e->target.wrong};
    for (size_t i = 0; e->target.in && i < e->target.in->count; i++)
        nearest_offer(&best, e->target.in->options[i].name);
    buffer_printf(e->out, "unknown option \"%s\"", e->target.wrong);
    if (best.name)
        buffer_printf(e->out, "; did you mean \"%s\"?", best.name);
    return 0;
}

/* An element that the path names and the file does not have. */
static int check_element(explaining *e)
{
    const option *first = option_find(&section_config, e->path.items[0].name);
    const config_node *map = tree_find(e->all->root, first->name);
    if (first->type != OPTION_NAMED || e->path.count < 2 || tree_find(map, e->path.items[1].name))
        return 1;
    nearest best = {.typed = e->path.items[1].name};
    for (size_t i = 0; map && i < map->count; i++)
        nearest_offer(&best, map->items[i]->key->text);
    buffer_printf(e->out, "%s: \"%s\" does not exist", first->name, e->path.items[1].name);
    if (best.name)
        buffer_printf(e->out, "; did you mean \"%s\"?", best.name);
    return 0;
}

static int explain(explaining *e, const char *path)
{
    if (!override_path(&e->path, &e->memory, path, strlen(path))) {
        buffer_text(e->out, "this is not a path; write inboxes.payments.retention or "
                            "inboxes[\"mail.receipt\"].timeout");
        return 0;
    }
    e->target = override_target(&e->path);
    if (e->target.wrong)
        return wrong_option(e);
    if (!check_element(e))
        return 0;
    settings s = find_settings(e);
    size_t width = add_value(e, &s);
    add_meaning(e, width > WIDE ? NARROW : width + GAP);
    return 1;
}

int explain_path(buffer *out, const config *all, const char *path)
{
    explaining e = {.out = out, .all = all};
    int done = explain(&e, path);
    region_free(&e.memory);
    return done;
}
