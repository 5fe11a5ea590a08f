/* See override.h. */
#include "program/config/override.h"

#include "program/config/read.h"
#include "program/support/nearest.h"

#include <ctype.h>
#include <string.h>

/* --- paths ------------------------------------------------------------------------------------ */

static const char *take_name(path_part *out, region *memory, const char *at, const char *end)
{
    const char *start = at;
    while (at < end && (isalnum((unsigned char)*at) || strchr("_-*", *at)))
        at++;
    out->name = region_copy(memory, start, (size_t)(at - start));
    return at > start ? at : NULL;
}

/* ["name"], in which \" and \\ are escaped; `at` is behind the [. */
static const char *take_quoted(path_part *out, region *memory, const char *at, const char *end)
{
    buffer name = {0};
    for (at++; at < end && *at != '"'; at++) {
        if (*at == '\\' && at + 1 < end)
            at++;
        buffer_add(&name, at, 1);
    }
    out->name = region_copy(memory, name.data ? name.data : "", name.len);
    buffer_free(&name);
    return at + 1 < end && at[0] == '"' && at[1] == ']' ? at + 2 : NULL;
}

static const char *take_index(path_part *out, const char *at, const char *end)
{
    const char *start = at;
    for (; at < end && isdigit((unsigned char)*at) && at - start < 6; at++)
        out->index = out->index * 10 + (size_t)(*at - '0');
    return at > start && at < end && *at == ']' ? at + 1 : NULL;
}

static const char *take_part(path_part *out, region *memory, const char *at, const char *end,
                             int is_first)
{
    if (*at == '[')
        return at + 1 < end && at[1] == '"' ? take_quoted(out, memory, at + 1, end)
                                            : take_index(out, at + 1, end);
    if (!is_first && *at++ != '.')
        return NULL;
    return take_name(out, memory, at, end);
}

int override_path(path_parts *out, region *memory, const char *text, size_t len)
{
    const char *end = text + len;
    *out = (path_parts){0};
    for (const char *at = text; at && at < end; out->count++) {
        if (out->count == PATH_PARTS_MAX)
            return 0;
        at = take_part(&out->items[out->count], memory, at, end, !out->count);
        if (!at)
            return 0;
    }
    return out->count > 0;
}

/* The part behind an option whose value is an array or a section. */
static size_t skip_element(const option *found, const path_parts *path, size_t i)
{
    if (found->type == OPTION_NAMED)
        return i + 1;
    if (found->type == OPTION_SECTIONS && i < path->count && !path->items[i].name)
        return i + 1;
    return i;
}

path_target override_target(const path_parts *path)
{
    const section *in = &section_config;
    for (size_t i = 0; i < path->count;) {
        const option *found = path->items[i].name ? option_find(in, path->items[i].name) : NULL;
        if (!found)
            return (path_target){in, NULL, path->items[i].name ? path->items[i].name : ""};
        if (!found->inner)
            return (path_target){in, found, NULL}; /* what is behind it is inside its value */
        i = skip_element(found, path, i + 1);
        if (i >= path->count)
            return (path_target){in, found, NULL};
        in = found->inner;
    }
    return (path_target){NULL, NULL, ""};
}

/* --- changing the tree ------------------------------------------------------------------------ */

static place nowhere(const overriding *o)
{
    return (place){o->source, 0, 0, 0};
}

/* A section that was written as its main option alone becomes a map, so that others can be added.
 * */
static config_node *as_map(const overriding *o, const section *of, config_node *node)
{
    const option *main_option = of ? option_main(of) : NULL;
    if (node->kind == NODE_MAP)
        return node;
    config_node *map = tree_map_new(o->memory, node->at);
    config_node *parent = node->parent;
    map->key = node->key;
    map->index = node->index;
    map->parent = parent;
    parent->items[node->index] = map;
    if (main_option && !read_is_empty(node))
        tree_put(o->memory, map, main_option->name, node);
    return map;
}

static config_node *child_of(const overriding *o, config_node *parent, const path_part *part)
{
    if (!part->name)
        return parent->kind == NODE_LIST && part->index < parent->count ? parent->items[part->index]
                                                                        : NULL;
    config_node *child = tree_find(parent, part->name);
    if (!child && parent->kind == NODE_MAP) {
        child = tree_map_new(o->memory, nowhere(o));
        tree_put(o->memory, parent, part->name, child);
    }
    return child;
}

/* The section that the part leads into, and whether it is the name or index of an element. */
typedef struct walk {
    const section *in;
    const option *found; /* the last option; NULL behind an element */
} walk;

static void step(walk *w, const path_part *part)
{
    if (w->found && (w->found->type == OPTION_NAMED || !part->name)) {
        w->in = w->found->inner;
        w->found = NULL;
        return;
    }
    if (w->found)
        w->in = w->found->inner;
    w->found = w->in && part->name ? option_find(w->in, part->name) : NULL;
    if (!w->found)
        w->in = NULL;
}

/* 1 if the part is put into a section, which then has to be a map. */
static const section *section_at(const walk *w)
{
    if (!w->found)
        return w->in;
    return w->found->type == OPTION_SECTION || w->found->type == OPTION_SECTIONS ? w->found->inner
                                                                                 : NULL;
}

static int put_value(const overriding *o, const path_parts *path, config_node *value)
{
    config_node *at = o->root;
    walk w = {&section_config, NULL};
    for (size_t i = 0; at && i + 1 < path->count; i++) {
        at = child_of(o, at, &path->items[i]);
        step(&w, &path->items[i]);
        if (at && at->kind != NODE_MAP && path->items[i + 1].name && section_at(&w))
            at = as_map(o, section_at(&w), at);
    }
    const path_part *last = &path->items[path->count - 1];
    if (!at ||
        (last->name ? at->kind != NODE_MAP : at->kind != NODE_LIST || last->index >= at->count))
        return 0;
    if (last->name) {
        value->replaced = tree_find(at, last->name);
        tree_put(o->memory, at, last->name, value);
        return 1;
    }
    value->replaced = at->items[last->index];
    value->parent = at;
    value->index = last->index;
    at->items[last->index] = value;
    return 1;
}

/* --- values ----------------------------------------------------------------------------------- */

static void ignore_twice(void *context, const config_node *map, place at, const char *name,
                         uint32_t first_line)
{
    (void)context, (void)map, (void)at, (void)name, (void)first_line;
}

static void forget_places(const overriding *o, config_node *node)
{
    node->at = nowhere(o);
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->key)
            node->items[i]->key->at = nowhere(o);
        forget_places(o, node->items[i]);
    }
}

static config_node *parse_value(const overriding *o, const char *text)
{
    config_source *source = region_alloc(o->memory, sizeof *source);
    tree_fault fault = {0};
    *source = (config_source){
        .name = o->source->name, .text = text, .len = strlen(text), .first_line = 1};
    config_node *node = tree_read(o->memory, source, ignore_twice, NULL, &fault);
    if (!node) /* such as :json/x or a statement with a colon: then it is a text */
        node = tree_scalar_new(o->memory, nowhere(o), text);
    forget_places(o, node);
    return node;
}

static int complain(const overriding *o, const char *path, const char *code, const char *text)
{
    diagnostic_add(o->found, LEVEL_ERROR, code, nowhere(o), path, "%s", text);
    return 0;
}

static int check_target(const overriding *o, const char *text, const path_parts *path)
{
    path_target target = override_target(path);
    if (!target.wrong)
        return 1;
    nearest best = {.typed = target.wrong};
    for (size_t i = 0; target.in && i < target.in->count; i++)
        nearest_offer(&best, target.in->options[i].name);
    const char *meant =
        best.name ? region_printf(o->memory, "; did you mean \"%s\"?", best.name) : "";
    return complain(o, text, "unknown-option",
                    region_printf(o->memory, "unknown option \"%s\"%s", target.wrong, meant));
}

static int holds_password(const config_node *node)
{
    if (node->kind == NODE_SCALAR &&
        (secret_in_url(node->raw, node->len).len ||
         (node->key && secret_is_name(node->key->text, strlen(node->key->text)) &&
          !secret_is_substituted(node->raw, strlen(node->raw)))))
        return 1;
    for (size_t i = 0; i < node->count; i++)
        if (holds_password(node->items[i]))
            return 1;
    return 0;
}

static void refuse_password(const overriding *o, const char *path, const config_node *value)
{
    if (holds_password(value))
        (void)complain(o, path, "password", SECRET_ARGUMENT);
}

void override_set(const overriding *o, const char *path_and_value)
{
    const char *equals = path_and_value;
    int in_quotes = 0;
    for (; *equals && (in_quotes || *equals != '='); equals++)
        in_quotes ^= *equals == '"';
    size_t len = (size_t)(equals - path_and_value);
    const char *text = region_copy(o->memory, path_and_value, len);
    path_parts path;
    if (!*equals || !override_path(&path, o->memory, text, len)) {
        (void)complain(o, "", "set", "expected PATH=VALUE, as in inboxes.payments.retention=14d");
        return;
    }
    if (!check_target(o, text, &path))
        return;
    config_node *value = parse_value(o, equals + 1);
    if (!put_value(o, &path, value)) {
        (void)complain(o, text, "set", "there is nothing at this path in the config");
        return;
    }
    refuse_password(o, text, value);
}

void override_store(const overriding *o, const char *url)
{
    const char *store = option_find(&section_config, "store")->name;
    config_node *value = tree_scalar_new(o->memory, nowhere(o), url);
    path_parts path = {.items = {{store, 0}, {option_main(&section_store)->name, 0}}, .count = 2};
    refuse_password(o, "", value);
    (void)put_value(o, &path, value);
}
