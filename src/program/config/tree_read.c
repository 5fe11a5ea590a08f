/* See tree.h: libyaml's events become nodes. A map and its entry know their parents before what is
 * inside them is read, so that a name that is set twice can be reported with its path. Nothing but
 * memory of the region is used: a process that dies here leaves nothing behind. */
#include "program/config/tree.h"
#include "program/config/tree_fault.h"

#include <string.h>
#include <yaml.h>

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    region *memory;
    const config_source *source;
    tree_twice *twice;
    void *context;
    tree_fault *fault;
    size_t nodes;
} reader;

/* --- places and faults ------------------------------------------------------------------------ */

static place place_of(const reader *r, yaml_mark_t start, yaml_mark_t end)
{
    place at = {r->source, (uint32_t)start.line + r->source->first_line, (uint32_t)start.column + 1,
                1};
    if (end.line == start.line && end.column > start.column)
        at.length = (uint32_t)(end.column - start.column);
    return at;
}

static int fail(reader *r, place at, const char *code, const char *text)
{
    *r->fault = (tree_fault){at, code, text};
    return 0;
}

static int fail_event(reader *r, const char *code, const char *text)
{
    return fail(r, place_of(r, r->event.start_mark, r->event.end_mark), code, text);
}

static int fail_alias(reader *r)
{
    place at = place_of(r, r->event.start_mark, r->event.start_mark);
    tree_fault_alias(r->fault, r->memory, at);
    return 0;
}

static int next(reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return 1;
    tree_fault_explain(r->fault, r->memory, r->source, &r->parser);
    return 0;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static int has_anchor_or_tag(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor || event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor || event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor || event->data.mapping_start.tag;
    default:
        return 0;
    }
}

static node_style style_of(yaml_scalar_style_t style)
{
    switch (style) {
    case YAML_SINGLE_QUOTED_SCALAR_STYLE:
        return STYLE_SINGLE;
    case YAML_DOUBLE_QUOTED_SCALAR_STYLE:
        return STYLE_DOUBLE;
    case YAML_LITERAL_SCALAR_STYLE:
    case YAML_FOLDED_SCALAR_STYLE:
        return STYLE_BLOCK;
    default:
        return STYLE_PLAIN;
    }
}

static config_node *new_node(reader *r, node_kind kind)
{
    config_node *node = region_alloc(r->memory, sizeof *node);
    node->kind = kind;
    node->at = place_of(r, r->event.start_mark,
                        kind == NODE_SCALAR ? r->event.end_mark : r->event.start_mark);
    return node;
}

static config_node *read_scalar(reader *r)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    if (len > TREE_TEXT_MAX || memchr(text, 0, len)) {
        fail_event(r, "text",
                   len > TREE_TEXT_MAX ? "a text is longer than 64 KiB"
                                       : "a text must not contain a NUL character");
        return NULL;
    }
    config_node *node = new_node(r, NODE_SCALAR);
    node->style = style_of(r->event.data.scalar.style);
    node->text = node->raw = region_copy(r->memory, text, len);
    node->len = len;
    return node;
}

/* Items are collected in a buffer and copied when their number is known. */
static void keep_items(reader *r, config_node *node, buffer *items)
{
    node->items = region_alloc(r->memory, items->len + 1);
    if (items->len)
        memcpy(node->items, items->data, items->len);
    node->count = items->len / sizeof(config_node *);
    buffer_free(items);
}

static config_node *read_node(reader *r, config_node *parent, config_node *key, size_t index,
                              unsigned depth);

static int read_items(reader *r, config_node *list, buffer *items, unsigned depth)
{
    for (size_t i = 0;; i++) {
        if (!next(r))
            return 0;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return 1;
        config_node *item = read_node(r, list, NULL, i, depth + 1);
        if (!item)
            return 0;
        buffer_add(items, (const void *)&item, sizeof(config_node *));
    }
}

static uint32_t line_of_name(const buffer *items, const char *name)
{
    for (size_t i = 0; i < items->len / sizeof(config_node *); i++) {
        config_node *item;
        memcpy((void *)&item, items->data + i * sizeof item, sizeof item);
        if (strcmp(item->key->text, name) == 0)
            return item->key->at.line;
    }
    return 0;
}

static int read_entry(reader *r, config_node *map, buffer *items, unsigned depth)
{
    if (r->event.type == YAML_ALIAS_EVENT)
        return fail_alias(r);
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_event(r, "name", "a name must be a text, not a list or a map");
    config_node *key = read_scalar(r);
    if (!key || !next(r))
        return 0;
    uint32_t first = line_of_name(items, key->text);
    config_node *value = read_node(r, map, key, items->len / sizeof(config_node *), depth + 1);
    if (!value)
        return 0;
    if (first)
        r->twice(r->context, map, key->at, key->text, first);
    else
        buffer_add(items, (const void *)&value, sizeof(config_node *));
    return 1;
}

static int read_entries(reader *r, config_node *map, buffer *items, unsigned depth)
{
    for (;;) {
        if (!next(r))
            return 0;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return 1;
        if (!read_entry(r, map, items, depth))
            return 0;
    }
}

static config_node *read_children(reader *r, config_node *node, unsigned depth)
{
    buffer items = {0};
    int done = node->kind == NODE_LIST ? read_items(r, node, &items, depth)
                                       : read_entries(r, node, &items, depth);
    if (done)
        keep_items(r, node, &items);
    buffer_free(&items);
    return done ? node : NULL;
}

static int allowed(reader *r, unsigned depth)
{
    if (r->event.type == YAML_ALIAS_EVENT)
        return fail_alias(r);
    if (has_anchor_or_tag(&r->event))
        return fail_event(r, "anchor", "YAML anchors and tags are not used here; write the value");
    if (depth > TREE_DEPTH_MAX)
        return fail_event(r, "depth", "nested too deeply");
    if (++r->nodes > TREE_NODES_MAX)
        return fail_event(r, "nodes", "too many values");
    return 1;
}

static config_node *read_node(reader *r, config_node *parent, config_node *key, size_t index,
                              unsigned depth)
{
    if (!allowed(r, depth))
        return NULL;
    config_node *node = r->event.type == YAML_SCALAR_EVENT           ? read_scalar(r)
                        : r->event.type == YAML_SEQUENCE_START_EVENT ? new_node(r, NODE_LIST)
                                                                     : new_node(r, NODE_MAP);
    if (!node)
        return NULL;
    node->parent = parent;
    node->key = key;
    node->index = index;
    return node->kind == NODE_SCALAR ? node : read_children(r, node, depth);
}

/* --- the document ----------------------------------------------------------------------------- */

static int next_but_one(reader *r)
{
    int has_next = next(r);
    return has_next && next(r);
}

static config_node *read_end(reader *r, config_node *root)
{
    if (!root || !next_but_one(r)) /* the end of the document, and what is behind it */
        return NULL;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return root;
    fail_event(r, "documents", "a second document begins here; a config is one document");
    return NULL;
}

static config_node *read_document(reader *r)
{
    if (!next_but_one(r)) /* the beginnings of the stream and of the document */
        return NULL;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return tree_map_new(r->memory, (place){r->source, r->source->first_line, 1, 1});
    return next(r) ? read_end(r, read_node(r, NULL, NULL, 0, 0)) : NULL;
}

config_node *tree_read(region *memory, const config_source *source, tree_twice *twice,
                       void *context, tree_fault *fault)
{
    reader r = {
        .memory = memory, .source = source, .twice = twice, .context = context, .fault = fault};
    if (source->len > TREE_BYTES_MAX) {
        fail(&r, (place){source, 0, 0, 0}, "size", "the file is larger than 1 MiB");
        return NULL;
    }
    if (!yaml_parser_initialize(&r.parser)) {
        fail(&r, (place){source, 0, 0, 0}, "memory", "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)source->text, source->len);
    config_node *root = read_document(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return root;
}
