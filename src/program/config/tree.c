/* See tree.h: nodes, paths and places. Reading is tree_read.c. */
#include "program/config/tree.h"

#include "program/support/encoding.h"

#include <ctype.h>
#include <string.h>

/* --- scalars ---------------------------------------------------------------------------------- */

static int is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return 1;
    return 0;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

static int is_integer(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text && !text[digits(text)];
}

static int is_number(const char *text)
{
    text += *text == '-' || *text == '+';
    size_t whole = digits(text), part = 0;
    text += whole;
    if (*text == '.') {
        part = digits(++text);
        text += part;
    }
    if (whole + part == 0)
        return 0;
    return !*text || ((*text == 'e' || *text == 'E') && is_integer(text + 1));
}

scalar_type tree_scalar(const config_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", NULL};
    static const char *const no[] = {"false", "False", "FALSE", NULL};
    if (node->style != STYLE_PLAIN)
        return SCALAR_STRING;
    if (is_one_of(node->text, nulls))
        return SCALAR_NULL;
    if (is_one_of(node->text, yes))
        return SCALAR_TRUE;
    if (is_one_of(node->text, no))
        return SCALAR_FALSE;
    if (is_integer(node->text))
        return SCALAR_INTEGER;
    return is_number(node->text) ? SCALAR_NUMBER : SCALAR_STRING;
}

/* --- the tree --------------------------------------------------------------------------------- */

config_node *tree_find(const config_node *map, const char *name)
{
    if (!map || map->kind != NODE_MAP)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->items[i]->key->text, name) == 0)
            return map->items[i];
    return NULL;
}

config_node *tree_scalar_new(region *memory, place at, const char *text)
{
    config_node *node = region_alloc(memory, sizeof *node);
    node->at = at;
    node->len = strlen(text);
    node->text = node->raw = region_copy(memory, text, node->len);
    return node;
}

config_node *tree_map_new(region *memory, place at)
{
    config_node *node = region_alloc(memory, sizeof *node);
    node->kind = NODE_MAP;
    node->at = at;
    return node;
}

static void adopt(config_node *map, config_node *value, config_node *key, size_t index)
{
    value->parent = map;
    value->key = key;
    value->index = index;
    map->items[index] = value;
}

void tree_put(region *memory, config_node *map, const char *name, config_node *value)
{
    config_node *old = tree_find(map, name);
    if (old) {
        adopt(map, value, old->key, old->index);
        return;
    }
    config_node **items = region_alloc(memory, (map->count + 1) * sizeof(config_node *));
    if (map->count)
        memcpy(items, map->items, map->count * sizeof(config_node *));
    map->items = items;
    adopt(map, value, tree_scalar_new(memory, value->at, name), map->count++);
}

/* --- paths ------------------------------------------------------------------------------------ */

static int is_plain_name(const char *name)
{
    if (!*name)
        return 0;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '-')
            return 0;
    return 1;
}

static void add_quoted(buffer *out, const char *name)
{
    buffer_text(out, "[\"");
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            buffer_text(out, "\\");
        buffer_add(out, name, 1);
    }
    buffer_text(out, "\"]");
}

void tree_add_name(buffer *path, const char *name)
{
    if (!is_plain_name(name))
        add_quoted(path, name);
    else
        buffer_printf(path, "%s%s", path->len ? "." : "", name);
}

static void add_path(buffer *out, const config_node *node)
{
    if (!node->parent)
        return;
    add_path(out, node->parent);
    if (!node->key)
        buffer_printf(out, "[%zu]", node->index);
    else
        tree_add_name(out, node->key->text);
}

const char *tree_path(region *memory, const config_node *node)
{
    buffer path = {0};
    add_path(&path, node);
    const char *copy = region_copy(memory, path.data ? path.data : "", path.len);
    buffer_free(&path);
    return copy;
}

/* --- places ----------------------------------------------------------------------------------- */

/* As libyaml counts lines: \n, \r, \r\n, NEL, LS and PS end one. */
static size_t line_end(const char *at, const char *end)
{
    const unsigned char *u = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    if (left && *u == '\n')
        return 1;
    if (left && *u == '\r')
        return left > 1 && u[1] == '\n' ? 2 : 1;
    if (left > 1 && u[0] == 0xC2 && u[1] == 0x85)
        return 2;
    if (left > 2 && u[0] == 0xE2 && u[1] == 0x80 && (u[2] == 0xA8 || u[2] == 0xA9))
        return 3;
    return 0;
}

const char *tree_line(const config_source *source, uint32_t line, size_t *len)
{
    if (!source->text || line < source->first_line)
        return NULL;
    const char *at = source->text, *end = source->text + source->len;
    for (uint32_t i = source->first_line; i < line; i++) {
        while (at < end && !line_end(at, end))
            at++;
        if (at == end)
            return NULL;
        at += line_end(at, end);
    }
    const char *start = at;
    while (at < end && !line_end(at, end))
        at++;
    *len = (size_t)(at - start);
    return start;
}

/* How many bytes of the file stand for the byte of the text at `raw`; 0 if that is not known. */
static size_t written_as(node_style style, const char *file, const char *raw)
{
    if (style == STYLE_SINGLE && *file == '\'')
        return *raw == '\'' && file[1] == '\'' ? 2 : 0;
    if (style == STYLE_DOUBLE && *file == '\\')
        return file[1] == *raw && (*raw == '"' || *raw == '\\' || *raw == '/') ? 2 : 0;
    return *file == *raw;
}

/* The byte of the line at which byte `offset` of the scalar stands; SIZE_MAX if that is not known.
 * */
static size_t find_in_line(const config_node *scalar, const char *line, size_t len, size_t offset)
{
    size_t at = encoding_bytes(line, len, scalar->at.column - 1);
    at += scalar->style == STYLE_SINGLE || scalar->style == STYLE_DOUBLE;
    for (size_t i = 0; i < offset; i++) {
        size_t step = at < len ? written_as(scalar->style, line + at, scalar->raw + i) : 0;
        if (!step)
            return SIZE_MAX;
        at += step;
    }
    return at;
}

/* A text of a literal block: its lines are those below the |, without their indentation. */
static place part_of_block(const config_node *scalar, size_t from, size_t part_len)
{
    place found = scalar->at;
    size_t start = 0, len = 0;
    uint32_t below = 1;
    for (size_t i = 0; i < from; i++)
        if (scalar->raw[i] == '\n') {
            start = i + 1;
            below++;
        }
    const char *line = tree_line(scalar->at.source, scalar->at.line + below, &len);
    size_t wanted = strcspn(scalar->raw + start, "\n");
    if (!line || len < wanted || memcmp(line + (len - wanted), scalar->raw + start, wanted) != 0)
        return found;
    found.line = scalar->at.line + below;
    found.column = encoding_characters(line, len - wanted + from - start) + 1;
    size_t left = start + wanted - from;
    found.length = encoding_characters(scalar->raw + from, part_len < left ? part_len : left);
    return found;
}

place tree_part(const config_node *scalar, size_t from, size_t len)
{
    place found = scalar->at;
    size_t line_len = 0;
    if (!found.source->text || from + len > strlen(scalar->raw))
        return found;
    if (scalar->style == STYLE_BLOCK)
        return part_of_block(scalar, from, len);
    const char *line = tree_line(found.source, found.line, &line_len);
    size_t at = line ? find_in_line(scalar, line, line_len, from) : SIZE_MAX;
    size_t end = line ? find_in_line(scalar, line, line_len, from + len) : SIZE_MAX;
    if (at == SIZE_MAX || end == SIZE_MAX)
        return found;
    found.column = encoding_characters(line, at) + 1;
    found.length = encoding_characters(line + at, end - at);
    return found;
}

place tree_name_place(const config_node *node)
{
    return node->key ? node->key->at : node->at;
}
