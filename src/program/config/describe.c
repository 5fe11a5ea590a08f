/* See describe.h. */
#include "program/config/describe.h"

#include "program/config/secret.h"
#include "program/support/units.h"

#include <inttypes.h>
#include <string.h>

/* --- what may be written ---------------------------------------------------------------------- */

static int is_duration(const option *of)
{
    return of->type == OPTION_DURATION || of->type == OPTION_LONG_DURATION;
}

static void add_limit(buffer *out, const option *of, uint64_t value)
{
    if (is_duration(of))
        buffer_text(out, units_show_duration(value).text);
    else if (of->type == OPTION_SIZE)
        buffer_text(out, units_show_size(value).text);
    else
        buffer_printf(out, "%" PRIu64, value);
}

static void add_range(buffer *out, const option *of)
{
    if (of->most) {
        if (of->least != of->most) {
            add_limit(out, of, of->least);
            buffer_text(out, " to ");
        }
        add_limit(out, of, of->most);
        return;
    }
    buffer_text(out, option_type_name(of->type));
    if (of->least > 1) {
        buffer_text(out, ", at least ");
        add_limit(out, of, of->least);
    }
}

static int is_counted(const option *of)
{
    return is_duration(of) || of->type == OPTION_SIZE || of->type == OPTION_NUMBER ||
           of->type == OPTION_LONG_NUMBER || of->type == OPTION_COUNT;
}

const char *describe_values(region *memory, const option *of)
{
    buffer out = {0};
    if (is_counted(of))
        add_range(&out, of);
    else if (of->type != OPTION_WORD)
        buffer_printf(&out, "%s%s", option_type_name(of->type), of->words ? " of " : "");
    for (const option_word *word = of->words; word && word->name; word++)
        buffer_printf(&out, "%s%s", word != of->words || is_counted(of) ? ", " : "", word->name);
    const char *text = region_copy(memory, out.data, out.len);
    buffer_free(&out);
    return text;
}

const char *describe_default(const option *of)
{
    if (of->fallback)
        return of->fallback;
    if (of->otherwise)
        return of->otherwise;
    return of->flags & OPTION_REQUIRED ? "required" : "";
}

/* --- values ----------------------------------------------------------------------------------- */

static int is_safe(const char *text)
{
    size_t len = strlen(text);
    return len &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./"
                        ":@+-") == len &&
           text[0] != '-' && text[0] != ':' && text[0] != '@' && text[len - 1] != ':';
}

static void add_quoted(buffer *out, const char *text)
{
    buffer_text(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            buffer_printf(out, "\\%c", c);
        else if (c == '\n')
            buffer_text(out, "\\n");
        else if (c < 0x20 || c == 0x7F)
            buffer_printf(out, "\\x%02x", c);
        else
            buffer_add(out, text, 1);
    }
    buffer_text(out, "\"");
}

void describe_text(buffer *out, const char *text)
{
    config_node node = {.text = text, .raw = text, .len = strlen(text)};
    if (is_safe(text) && tree_scalar(&node) == SCALAR_STRING)
        buffer_text(out, text);
    else
        add_quoted(out, text);
}

/* Of names and texts, those whose names say so, unless they are values of a message (:json/token).
 * Bodies of messages are shown as they are: they are no secrets of the configuration. */
static int is_secret(const option *of, const config_node *node)
{
    const char *name = node->key ? node->key->text : "";
    if (!of || secret_is_substituted(node->raw, strlen(node->raw)))
        return 0;
    return (of->flags & OPTION_SECRET) ||
           (of->type == OPTION_PAIRS && node->raw[0] != ':' && secret_is_name(name, strlen(name)));
}

static void add_scalar(buffer *out, const option *of, const config_node *node)
{
    buffer shown = {0};
    if (is_secret(of, node)) {
        describe_text(out, SECRET_MASK);
        return;
    }
    secret_add_masked(&shown, NULL, node->raw);
    const char *text = shown.data ? shown.data : "";
    if (node->style == STYLE_PLAIN && tree_scalar(node) == SCALAR_NULL)
        buffer_text(out, "null");
    else if (node->style == STYLE_PLAIN && tree_scalar(node) != SCALAR_STRING)
        buffer_text(out, text);
    else
        describe_text(out, text);
    buffer_free(&shown);
}

/* The option that a member of the node is the value of: what is hidden is hidden in sections inside
 * sections, too. `is_element`: the node is one of several sections. */
static const option *option_of(const option *of, const config_node *member, int is_element)
{
    if (!of || !of->inner || !member->key)
        return of;
    if (of->type == OPTION_NAMED && !is_element)
        return of;
    return option_find(of->inner, member->key->text);
}

static void add_node(buffer *out, const option *of, const config_node *node, int is_element)
{
    int is_map = node->kind == NODE_MAP;
    if (node->kind == NODE_SCALAR) {
        add_scalar(out, of, node);
        return;
    }
    buffer_text(out, is_map ? "{" : "[");
    for (size_t i = 0; i < node->count; i++) {
        const option *inner = option_of(of, node->items[i], is_element);
        buffer_text(out, i ? ", " : is_map ? " " : "");
        if (is_map) {
            describe_text(out, node->items[i]->key->text);
            buffer_text(out, ": ");
        }
        add_node(out, inner, node->items[i], inner == of);
    }
    buffer_text(out, is_map ? " }" : "]");
}

void describe_node(buffer *out, const option *of, const config_node *node)
{
    add_node(out, of, node, 0);
}
