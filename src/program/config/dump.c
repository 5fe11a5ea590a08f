/* See dump.h. */
#include "program/config/dump.h"

#include "program/config/describe.h"
#include "program/config/inboxes.h"
#include "program/config/secret.h"

#include <string.h>

enum { STEP = 2, COMMENT_COLUMN = 48 };

typedef struct dumping {
    buffer *out;
    region memory;
    const config *all;
    int indent;
    dump_visitor *visit; /* NULL: only the text is wanted */
    void *context;
    buffer path; /* of the section at hand */
} dumping;

/* --- values for visitors ---------------------------------------------------------------------- */

/* The path of the section that follows; returns what leave() needs. */
static size_t enter(dumping *d, const char *name)
{
    size_t before = d->path.len;
    tree_add_name(&d->path, name);
    return before;
}

static void leave(dumping *d, size_t before)
{
    d->path.len = before;
    d->path.data[before] = 0;
}

/* As it is written (${NAME}); NULL: it is not a substitution, and so not to be shown. */
static const char *written(const config_node *node)
{
    if (!node || node->kind != NODE_SCALAR || !secret_is_substituted(node->raw, strlen(node->raw)))
        return NULL;
    return node->raw;
}

/* What was added to the text from `start` on is the value. */
static void tell(dumping *d, const option *of, const config_node *node, size_t start,
                 const char *where)
{
    if (!d->visit)
        return;
    size_t before = enter(d, of->name);
    int is_secret = (of->flags & OPTION_SECRET) != 0;
    const dumped_value value = {.path = d->path.data,
                                .value = d->out->data + start,
                                .origin = where,
                                .written = is_secret ? written(node) : NULL,
                                .is_secret = is_secret};
    d->visit(d->context, &value);
    leave(d, before);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void begin(dumping *d, const char *name)
{
    buffer_printf(d->out, "%*s", d->indent, "");
    describe_text(d->out, name);
    buffer_text(d->out, ":");
}

static void end(dumping *d, size_t line_start, const char *comment)
{
    size_t width = d->out->len - line_start;
    if (*comment)
        buffer_printf(d->out, "%*s# %s",
                      width + 2 < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - width) : 2, "", comment);
    buffer_text(d->out, "\n");
}

static const char *origin(dumping *d, const config_node *node, const config_node *layer)
{
    if (!node)
        return "default";
    const char *where = node->at.line ? region_printf(&d->memory, "%s:%u:%u", node->at.source->name,
                                                      node->at.line, node->at.column)
                                      : node->at.source->name;
    if (!layer || !layer->key || !inboxes_is_pattern(layer->key->text))
        return where;
    return region_printf(&d->memory, "%s, %s", where, tree_path(&d->memory, layer));
}

static void dump_value(dumping *d, const option *of, const config_node *node,
                       const config_node *layer)
{
    size_t start = d->out->len;
    if (!node && !of->fallback)
        return;
    begin(d, of->name);
    buffer_text(d->out, " ");
    size_t value = d->out->len;
    if (node)
        describe_node(d->out, of, node);
    else
        buffer_text(d->out, of->fallback);
    const char *where = origin(d, node, layer);
    tell(d, of, node, value, where);
    end(d, start, where);
}

/* --- sections --------------------------------------------------------------------------------- */

static void dump_section(dumping *d, const section *of, const inbox_layers *layers);

static int has_defaults(const section *of)
{
    for (size_t i = 0; i < of->count; i++)
        if (of->options[i].flags & OPTION_REQUIRED)
            return 0;
    return 1;
}

static inbox_layers one_layer(dumping *d, const config_node *node)
{
    inbox_layers one = {region_alloc(&d->memory, sizeof *one.items), 1};
    one.items[0] = node;
    return one;
}

static void dump_inner(dumping *d, const option *of, const config_node *node)
{
    size_t start = d->out->len;
    if (!node && !has_defaults(of->inner))
        return;
    inbox_layers layers = one_layer(d, node);
    begin(d, of->name);
    end(d, start, "");
    size_t before = enter(d, of->name);
    d->indent += STEP;
    dump_section(d, of->inner, &layers);
    d->indent -= STEP;
    leave(d, before);
}

static void tell_item(dumping *d, const option *of, const config_node *item, size_t index,
                      size_t start)
{
    size_t before = d->path.len;
    if (!d->visit)
        return;
    buffer_printf(&d->path, "%s%s[%zu]", before ? "." : "", of->name, index);
    const dumped_value value = {
        .path = d->path.data, .value = d->out->data + start, .origin = origin(d, item, NULL)};
    d->visit(d->context, &value);
    leave(d, before);
}

static void dump_list(dumping *d, const option *of, const config_node *node)
{
    size_t start = d->out->len;
    if (!node)
        return;
    begin(d, of->name);
    end(d, start, origin(d, node, NULL));
    for (size_t i = 0; i < (node->kind == NODE_LIST ? node->count : 1); i++) {
        buffer_printf(d->out, "%*s- ", d->indent + STEP, "");
        size_t value = d->out->len;
        const config_node *item = node->kind == NODE_LIST ? node->items[i] : node;
        describe_node(d->out, of, item);
        tell_item(d, of, item, i, value);
        buffer_text(d->out, "\n");
    }
}

static void dump_element(dumping *d, const section *of, const char *name, const config_node *node,
                         const char *comment)
{
    size_t start = d->out->len;
    const config_node *inboxes = tree_find(d->all->root, "inboxes");
    inbox_layers layers =
        of == &section_inbox ? inboxes_layers(&d->memory, inboxes, name) : one_layer(d, node);
    begin(d, name);
    end(d, start, comment);
    size_t before = enter(d, name);
    d->indent += STEP;
    dump_section(d, of, &layers);
    d->indent -= STEP;
    leave(d, before);
}

/* Outboxes that are there for `send` and `faults` are written, too. */
static void dump_implied(dumping *d, const config_node *map)
{
    for (size_t i = 0; i < d->all->outbox_count; i++) {
        const outbox_config *outbox = &d->all->outboxes[i];
        if (!tree_find(map, outbox->name))
            dump_element(d, &section_outbox, outbox->name, NULL, "for send and faults");
    }
}

/* 1 if it is written: patterns are not. */
static int is_element(const option *of, const config_node *node)
{
    return of->inner != &section_inbox || !inboxes_is_pattern(node->key->text);
}

static size_t count_elements(const option *of, const config_node *map)
{
    size_t count = 0;
    for (size_t i = 0; map && i < map->count; i++)
        count += (size_t)is_element(of, map->items[i]);
    return count;
}

static void dump_named(dumping *d, const option *of, const config_node *map)
{
    size_t start = d->out->len;
    int is_outboxes = of->inner == &section_outbox && d->all->outbox_count;
    if (!count_elements(of, map) && !is_outboxes)
        return;
    begin(d, of->name);
    end(d, start, "");
    size_t before = enter(d, of->name);
    d->indent += STEP;
    for (size_t i = 0; map && i < map->count; i++)
        if (is_element(of, map->items[i]))
            dump_element(d, of->inner, map->items[i]->key->text, map->items[i], "");
    if (is_outboxes)
        dump_implied(d, map);
    d->indent -= STEP;
    leave(d, before);
}

static void dump_section(dumping *d, const section *of, const inbox_layers *layers)
{
    for (size_t i = 0; i < of->count; i++) {
        const option *next = &of->options[i];
        const config_node *layer = NULL, *node = inboxes_pick(of, layers, next, &layer);
        if (next->type == OPTION_SECTION)
            dump_inner(d, next, (next->flags & OPTION_HANDLER) && !node ? NULL : node);
        else if (next->type == OPTION_SECTIONS)
            dump_list(d, next, node);
        else if (next->type == OPTION_NAMED)
            dump_named(d, next, node);
        else
            dump_value(d, next, node, layer);
    }
}

void dump_config(buffer *out, const config *all)
{
    dumping d = {.out = out, .all = all};
    inbox_layers layers = one_layer(&d, all->root);
    dump_section(&d, &section_config, &layers);
    buffer_free(&d.path);
    region_free(&d.memory);
}

void dump_values(const config *all, dump_visitor *visit, void *context)
{
    buffer text = {0};
    dumping d = {.out = &text, .all = all, .visit = visit, .context = context};
    inbox_layers layers = one_layer(&d, all->root);
    dump_section(&d, &section_config, &layers);
    buffer_free(&text);
    buffer_free(&d.path);
    region_free(&d.memory);
}
