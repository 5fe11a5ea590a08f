/* See template.h. A template is read once, when the inbox is opened; for each message it is turned
 * into a tree of json-c's, and that into text. */
#include "program/handler/template.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum template_kind {
    TEMPLATE_NULL,
    TEMPLATE_BOOLEAN,
    TEMPLATE_INT,
    TEMPLATE_REAL,
    TEMPLATE_TEXT,
    TEMPLATE_VALUE,
    TEMPLATE_LIST,
    TEMPLATE_MAP
} template_kind;

struct template_node {
    template_kind kind;
    int64_t integer; /* or boolean */
    double real;
    const char *text; /* of a real: as it was written */
    value_name of;
    template_node **children;
    const char **names;
    size_t count;
};

enum { PLAIN = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };

/* --- texts ------------------------------------------------------------------------------------ */

int template_text_read(template_text *out, region *memory, const char *written,
                       value_mistake *wrong)
{
    *out = (template_text){0};
    if (written[0] == ':' && written[1] != ':')
        return value_parse(&out->of, memory, written, wrong);
    written += *written == ':';
    out->constant = region_copy(memory, written, strlen(written));
    return 1;
}

semel_status template_text_get(semel_bytes *out, const template_text *of, value_source *source,
                               semel_error *err)
{
    if (!of->constant)
        return value_get_text(out, &of->of, source, err);
    *out = semel_str(of->constant);
    return SEMEL_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int is_one_of(const char *text, const char *const names[])
{
    for (; *names; names++)
        if (strcmp(text, *names) == 0)
            return 1;
    return 0;
}

/* As JSON writes numbers: that text can be passed on as it is. */
static int is_json_number(const char *text)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text += *text == '-', digits), more;
    if (!whole || (whole > 1 && *text == '0'))
        return 0;
    text += whole;
    if (*text == '.') {
        if (!(more = strspn(++text, digits)))
            return 0;
        text += more;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        if (!(more = strspn(text, digits)))
            return 0;
        text += more;
    }
    return !*text;
}

static int read_integer(template_node *out, const char *text)
{
    char *end = NULL;
    int base = strncmp(text, "0x", 2) == 0 ? 16 : strncmp(text, "0o", 2) == 0 ? 8 : 10;
    const char *digits = base == 8 ? text + 2 : text;
    if (base == 10 && !is_json_number(text))
        return 0;
    errno = 0;
    out->integer = strtoll(digits, &end, base);
    out->kind = TEMPLATE_INT;
    return end != digits && !*end && !errno;
}

static int read_real(template_node *out, const char *text)
{
    if (!is_json_number(text))
        return 0;
    out->kind = TEMPLATE_REAL;
    out->real = strtod(text, NULL);
    return isfinite(out->real) != 0;
}

/* What is not quoted: a type of YAML's core schema, or else a text. */
static int read_plain(template_node *out, const char *text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_one_of(text, nulls)) {
        out->kind = TEMPLATE_NULL;
        return 1;
    }
    out->integer = is_one_of(text, trues);
    if (out->integer || is_one_of(text, falses)) {
        out->kind = TEMPLATE_BOOLEAN;
        return 1;
    }
    return read_integer(out, text) || read_real(out, text);
}

static int read_scalar(template_node *out, region *memory, const config_node *from,
                       value_mistake *wrong)
{
    const char *text = node_text(from);
    template_text read;
    out->text = region_copy(memory, text, strlen(text));
    if (!node_is_quoted(from) && read_plain(out, text))
        return 1;
    if (!template_text_read(&read, memory, text, wrong))
        return 0;
    out->kind = read.constant ? TEMPLATE_TEXT : TEMPLATE_VALUE;
    out->text = read.constant;
    out->of = read.of;
    return 1;
}

static int read_children(template_node *out, region *memory, const config_node *from, int depth,
                         const config_node **at, value_mistake *wrong);

static int read_node(template_node **out, region *memory, const config_node *from, int depth,
                     const config_node **at, value_mistake *wrong)
{
    template_node *node = region_alloc(memory, sizeof *node);
    *out = node;
    *at = from;
    if (!node_is_list(from) && !node_is_map(from))
        return read_scalar(node, memory, from, wrong);
    node->kind = node_is_list(from) ? TEMPLATE_LIST : TEMPLATE_MAP;
    return depth < VALUE_DEPTH_MAX
               ? read_children(node, memory, from, depth, at, wrong)
               : value_wrong(wrong, 0, 0, NULL, "more than %d levels deep", VALUE_DEPTH_MAX);
}

static int read_children(template_node *out, region *memory, const config_node *from, int depth,
                         const config_node **at, value_mistake *wrong)
{
    size_t count = node_count(from);
    out->children = region_alloc(memory, (count + 1) * sizeof(template_node *));
    out->names = region_alloc(memory, (count + 1) * sizeof *out->names);
    for (; out->count < count; out->count++) {
        size_t i = out->count;
        if (!read_node(&out->children[i], memory, node_child(from, i), depth + 1, at, wrong))
            return 0;
        if (out->kind == TEMPLATE_MAP)
            out->names[i] = region_copy(memory, node_name(from, i), strlen(node_name(from, i)));
    }
    return 1;
}

int template_read(template_node **out, region *memory, const config_node *from,
                  const config_node **at, value_mistake *wrong)
{
    return read_node(out, memory, from, 1, at, wrong);
}

int template_is_body(const template_node *of)
{
    return of->kind == TEMPLATE_VALUE && of->of.word == VALUE_BODY;
}

/* --- filling ---------------------------------------------------------------------------------- */

static semel_status make_json(struct json_object **out, const template_node *from,
                              value_source *source, semel_error *err);

static semel_status make_children(struct json_object *into, const template_node *from,
                                  value_source *source, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < from->count; i++) {
        struct json_object *child = NULL;
        status = make_json(&child, from->children[i], source, err);
        if (!status && from->kind == TEMPLATE_MAP)
            json_object_object_add(into, from->names[i], child);
        else if (!status)
            json_object_array_add(into, child);
    }
    return status;
}

static semel_status make_json(struct json_object **out, const template_node *from,
                              value_source *source, semel_error *err)
{
    *out = NULL;
    switch (from->kind) {
    case TEMPLATE_NULL:
        return SEMEL_OK;
    case TEMPLATE_BOOLEAN:
        *out = json_object_new_boolean((int)from->integer);
        return SEMEL_OK;
    case TEMPLATE_INT:
        *out = json_object_new_int64(from->integer);
        return SEMEL_OK;
    case TEMPLATE_REAL:
        *out = json_object_new_double_s(from->real, from->text);
        return SEMEL_OK;
    case TEMPLATE_TEXT:
        *out = json_object_new_string(from->text);
        return SEMEL_OK;
    case TEMPLATE_VALUE:
        return value_get_json(out, &from->of, source, err);
    case TEMPLATE_LIST:
        *out = json_object_new_array();
        break;
    case TEMPLATE_MAP:
        *out = json_object_new_object();
        break;
    }
    return make_children(*out, from, source, err);
}

semel_status template_fill(semel_bytes *out, const template_node *from, value_source *source,
                           semel_error *err)
{
    struct json_object *tree = NULL;
    size_t len = 0;
    semel_status status = make_json(&tree, from, source, err);
    if (!status) {
        const char *text = json_object_to_json_string_length(tree, PLAIN, &len);
        *out = (semel_bytes){region_copy(&source->memory, text, len), len};
    }
    json_object_put(tree);
    return status;
}
