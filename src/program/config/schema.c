/* See schema.h. Where a value may be a substitution, a text with ${ in it is allowed, too. */
#include "program/config/schema.h"

#include "program/config/options.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define SUBSTITUTED "\\$\\{"

static void put(json_object *object, const char *name, json_object *value)
{
    (void)json_object_object_add(object, name, value);
}

static json_object *text(const char *value)
{
    return json_object_new_string(value);
}

static json_object *of_type(const char *type)
{
    json_object *object = json_object_new_object();
    put(object, "type", text(type));
    return object;
}

static json_object *pattern(const char *value)
{
    json_object *object = of_type("string");
    put(object, "pattern", text(value));
    return object;
}

static json_object *either(json_object *first, json_object *second)
{
    json_object *object = json_object_new_object(), *list = json_object_new_array();
    (void)json_object_array_add(list, first);
    (void)json_object_array_add(list, second);
    put(object, "anyOf", list);
    return object;
}

/* --- single values ---------------------------------------------------------------------------- */

static json_object *words(const option_word *list)
{
    json_object *object = json_object_new_object(), *values = json_object_new_array();
    for (; list && list->name; list++)
        (void)json_object_array_add(values, text(list->name));
    put(object, "enum", values);
    return object;
}

static json_object *with_units(const option *of, const char *units)
{
    buffer expression = {0};
    buffer_printf(&expression, "^([0-9]+(%s))+$|" SUBSTITUTED, units);
    for (const option_word *word = of->words; word && word->name; word++)
        buffer_printf(&expression, "|^%s$", word->name);
    json_object *object = pattern(expression.data);
    buffer_free(&expression);
    return object;
}

static json_object *number(const option *of)
{
    json_object *object = of_type("integer");
    put(object, "minimum", json_object_new_uint64(of->least));
    if (of->most)
        put(object, "maximum", json_object_new_uint64(of->most));
    return either(object, pattern(SUBSTITUTED));
}

static json_object *plain_text(void)
{
    json_object *object = json_object_new_object(), *types = json_object_new_array();
    static const char *const names[] = {"string", "number", "boolean"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)json_object_array_add(types, text(names[i]));
    put(object, "type", types);
    return object;
}

static json_object *list_of(json_object *item)
{
    json_object *object = of_type("array");
    put(object, "items", item);
    return object;
}

static json_object *map_of(json_object *value)
{
    json_object *object = of_type("object");
    put(object, "additionalProperties", value);
    return object;
}

/* --- sections --------------------------------------------------------------------------------- */

static json_object *schema_of(const option *of);
static json_object *section_schema(const section *of);

static json_object *item_of(const option *of)
{
    return of->words ? words(of->words) : plain_text();
}

static json_object *value_schema(const option *of)
{
    switch (of->type) {
    case OPTION_DURATION:
    case OPTION_LONG_DURATION:
        return with_units(of, "ms|s|m|h|d|w");
    case OPTION_SIZE:
        return with_units(of, "B|KiB|MiB|GiB|TiB");
    case OPTION_NUMBER:
    case OPTION_LONG_NUMBER:
    case OPTION_COUNT:
        return number(of);
    case OPTION_BOOLEAN:
        return either(of_type("boolean"), pattern(SUBSTITUTED));
    case OPTION_WORD:
        return either(words(of->words), pattern(SUBSTITUTED));
    case OPTION_LIST:
        return either(item_of(of), list_of(item_of(of)));
    case OPTION_PAIRS:
        return map_of(plain_text());
    case OPTION_VALUE:
        return json_object_new_object();
    case OPTION_SECTION:
        return section_schema(of->inner);
    case OPTION_SECTIONS:
        return either(section_schema(of->inner), list_of(section_schema(of->inner)));
    case OPTION_NAMED:
        return map_of(section_schema(of->inner));
    default:
        return plain_text();
    }
}

static json_object *default_of(const option *of)
{
    if (of->type == OPTION_BOOLEAN)
        return json_object_new_boolean(strcmp(of->fallback, "true") == 0);
    if (of->type == OPTION_NUMBER || of->type == OPTION_LONG_NUMBER)
        return json_object_new_uint64(strtoull(of->fallback, NULL, 10));
    return text(of->fallback);
}

static json_object *schema_of(const option *of)
{
    json_object *object = value_schema(of);
    put(object, "description", text(of->text));
    if (of->fallback)
        put(object, "default", default_of(of));
    return object;
}

/* What is required is left to `semel check` in inboxes, because their patterns require nothing. */
static json_object *required_of(const section *of)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; of != &section_inbox && i < of->count; i++)
        if (of->options[i].flags & OPTION_REQUIRED)
            (void)json_object_array_add(list, text(of->options[i].name));
    return list;
}

static json_object *section_object(const section *of)
{
    json_object *object = of_type("object"), *properties = json_object_new_object();
    for (size_t i = 0; i < of->count; i++)
        put(properties, of->options[i].name, schema_of(&of->options[i]));
    put(object, "properties", properties);
    put(object, "required", required_of(of));
    put(object, "additionalProperties", json_object_new_boolean(0));
    return object;
}

static json_object *section_schema(const section *of)
{
    const option *main_option = option_main(of);
    if (!main_option)
        return section_object(of);
    if (of->count == 1)
        return schema_of(main_option);
    return either(value_schema(main_option), section_object(of));
}

void schema_write(buffer *out)
{
    json_object *root = section_object(&section_config);
    put(root, "$schema", text("https://json-schema.org/draft/2020-12/schema"));
    put(root, "title", text("semel.yaml"));
    buffer_text(out, json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY |
                                                              JSON_C_TO_STRING_NOSLASHESCAPE));
    buffer_text(out, "\n");
    json_object_put(root);
}
