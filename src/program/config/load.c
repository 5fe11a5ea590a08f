/* See load.h. */
#include "program/config/load.h"

#include "program/config/check.h"
#include "program/config/complete.h"
#include "program/config/interpolate.h"
#include "program/config/override.h"
#include "program/config/read.h"
#include "program/config/readable.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a configuration is made of; `all` is the first member. */
typedef struct loaded {
    config all;
    region memory;
    config_source source;
    config_source set_source;
    config_source store_source;
} loaded;

typedef struct loading {
    loaded *into;
    const load_options *from;
    diagnostics *found;
    config_node *root;
} loading;

void config_free(config *all)
{
    if (!all)
        return;
    loaded *whole = (loaded *)(void *)all;
    region_free(&whole->memory);
    free(whole);
}

/* --- the file --------------------------------------------------------------------------------- */

static const char *directory_of(region *memory, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash == path ? "/" : region_copy(memory, path, (size_t)(slash - path));
}

static int read_source(loading *l)
{
    config_source *source = &l->into->source;
    readable_problem problem = {""};
    buffer text = {0};
    source->name = l->into->all.path;
    source->first_line = l->from->text ? l->from->first_line : 1;
    if (l->from->text)
        buffer_add(&text, l->from->text, l->from->len);
    else if (!readable_config(&text, l->from->path, TREE_BYTES_MAX, &source->mode, &problem)) {
        diagnostic *d = diagnostic_add(l->found, LEVEL_ERROR, "file", (place){source, 0, 0, 0}, "",
                                       "%s", problem.text);
        if (access(l->from->path, F_OK) != 0)
            diagnostic_help(l->found, d, "semel init writes one that runs as it is");
        buffer_free(&text);
        return 0;
    }
    source->text = region_copy(&l->into->memory, text.data ? text.data : "", text.len);
    source->len = text.len;
    buffer_free(&text);
    return 1;
}

static void set_twice(void *context, const config_node *map, place at, const char *name,
                      uint32_t first_line)
{
    diagnostics *found = context;
    diagnostic_add(found, LEVEL_ERROR, "twice", at, tree_path(&found->memory, map),
                   "\"%s\" is set twice (first on line %u)", name, first_line);
}

/* If the file is not YAML, that is the only problem: others would be noise. */
static int parse(loading *l)
{
    tree_fault fault = {0};
    l->root = tree_read(&l->into->memory, &l->into->source, set_twice, l->found, &fault);
    if (!l->root) {
        diagnostic_clear(l->found);
        diagnostic_add(l->found, LEVEL_ERROR, fault.code, fault.at, "", "%s", fault.text);
        return 0;
    }
    if (l->root->kind == NODE_MAP)
        return 1;
    diagnostic_add(l->found, LEVEL_ERROR, "type", l->root->at, "",
                   "this is not a config; it has names with values, as in version: 1");
    return 0;
}

/* --- the version ------------------------------------------------------------------------------ */

static int check_version(loading *l)
{
    const option *version = option_find(&section_config, "version");
    const config_node *node = tree_find(l->root, version->name);
    const config_source *source = &l->into->source;
    if (read_is_empty(node)) {
        diagnostic_add(l->found, LEVEL_ERROR, "version", (place){source, source->first_line, 1, 1},
                       version->name, "missing; the first line must be version: %s",
                       version->example);
        return 1;
    }
    if (node->kind != NODE_SCALAR || tree_scalar(node) != SCALAR_INTEGER ||
        strtoull(node->text, NULL, 10) <= version->most)
        return 1;
    diagnostic_add(l->found, LEVEL_ERROR, "version", node->at, version->name,
                   "%s is too new; this semel supports version %s", node->raw, version->example);
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void interpolate(loading *l)
{
    interpolation in = {&l->into->memory, l->into->all.directory, l->found, l->from->is_example};
    interpolate_tree(&in, l->root);
}

/* Items of a list are not on the line of its name, where a secret is recognized. */
static void hide_lists(loading *l, const config_node *node)
{
    const char *name = node->key ? node->key->text : "";
    int is_secret = node->kind == NODE_LIST && secret_is_name(name, strlen(name));
    for (size_t i = 0; i < node->count; i++) {
        const config_node *item = node->items[i];
        if (is_secret && item->kind == NODE_SCALAR &&
            !secret_is_substituted(item->raw, strlen(item->raw)))
            secret_remember(&l->found->written, item->raw, strlen(item->raw));
        hide_lists(l, item);
    }
}

static void override(loading *l)
{
    l->into->set_source.name = "--set";
    l->into->store_source.name = "--store";
    overriding o = {&l->into->memory, l->found, l->root, &l->into->set_source};
    for (size_t i = 0; i < l->from->set_count; i++)
        override_set(&o, l->from->sets[i]);
    o.source = &l->into->store_source;
    if (l->from->store_url)
        override_store(&o, l->from->store_url);
}

static void read_all(loading *l)
{
    config *all = &l->into->all;
    reading r = {&l->into->memory, l->found, all->directory, 0};
    all->root = l->root;
    read_defaults(&r, &section_config, all);
    read_section(&r, &section_config, l->root, all);
    config_complete(&l->into->memory, all);
    config_check(all, l->found);
    config_check_urls(all, l->found, l->from->is_example);
}

static int load(loading *l)
{
    size_t errors = l->found->errors;
    if (!read_source(l) || !parse(l) || !check_version(l))
        return 0;
    hide_lists(l, l->root);
    override(l);
    interpolate(l);
    read_all(l);
    return l->found->errors == errors;
}

int config_load(config **out, const load_options *from, diagnostics *found)
{
    loaded *whole = must_alloc(sizeof *whole);
    *out = NULL;
    whole->all.path = region_copy(&whole->memory, from->path, strlen(from->path));
    whole->all.directory = directory_of(&whole->memory, whole->all.path);
    loading l = {whole, from, found, NULL};
    if (!load(&l)) {
        config_free(&whole->all);
        return 0;
    }
    *out = &whole->all;
    return 1;
}
