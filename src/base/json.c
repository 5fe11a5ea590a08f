/* json_text_check() decides what is JSON; json-c then makes the tree and finds things in it. What
 * holds of the texts that come out, and must not change, because keys are made of them:
 *
 *  - A string is its bytes, U+0000 included.
 *  - A number with a point or an exponent is kept as it was written (json_object_new_double_s):
 *    1.0, 1.10 and 1e2 are three texts. An integer is kept as its value, which is how it was
 *    written, but for -0, which becomes 0.
 *  - json-c has room for -2^63 to 2^64-1 and cuts other integers to the nearest of these. Such a
 *    one is treated as absent: its text would be that of a stranger.
 *  - Of members with the same name the last one counts.
 *
 * Strict mode is not asked for: whatever it refuses was refused before, and from 0.17 on it would
 * also refuse a whole text for one large integer.
 *
 * json-c allocates by itself and, in 0.16, is not safe when memory runs out: it may drop a member
 * or crash. Where it reports a failure so do we; the rest is beyond our reach. */
#include "base/json.h"

#ifdef SEMEL_WITH_JSON
#include "base/json_text.h"

#include <errno.h>
#include <json-c/json.h>
#include <json-c/json_pointer.h>
#include <limits.h>
#endif

int json_pointer_valid(const char *pointer, size_t *position)
{
    size_t at = 0;
    if (*pointer && *pointer != '/') {
        *position = 0;
        return 0;
    }
    for (; pointer[at]; at++)
        if (pointer[at] == '~' && pointer[at + 1] != '0' && pointer[at + 1] != '1') {
            *position = at;
            return 0;
        }
    return 1;
}

#ifdef SEMEL_WITH_JSON

int json_built_in(void)
{
    return 1;
}

static int is_null(semel_bytes text)
{
    const char *at = text.data;
    while (strchr(" \t\n\r", *at))
        at++;
    return *at == 'n';
}

/* A number or a word at the very end may go on, for all the tokener knows: a NUL says that it does
 * not. */
static struct json_object *parse(struct json_tokener *tokener, semel_bytes text)
{
    struct json_object *tree = json_tokener_parse_ex(tokener, text.data, (int)text.len);
    if (json_tokener_get_error(tokener) == json_tokener_continue)
        tree = json_tokener_parse_ex(tokener, "", 1);
    return tree;
}

/* The tree of a text that was found to be JSON; JSON's null is the tree NULL, as json-c has it. */
static semel_status tree_of(struct json_object **out, semel_bytes text, semel_error *err)
{
    if (text.len > INT_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "JSON: %zu bytes are more than json-c takes",
                          text.len);
    struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
    struct json_object *tree = tokener ? parse(tokener, text) : NULL;
    int failed = !tokener || json_tokener_get_error(tokener) != json_tokener_success;
    if (tokener)
        json_tokener_free(tokener);
    if (failed || (!tree && !is_null(text))) {
        json_object_put(tree);
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for JSON of %zu bytes", text.len);
    }
    *out = tree;
    return SEMEL_OK;
}

static int is_limit(const char *integer)
{
    return strcmp(integer, "18446744073709551615") == 0 ||
           strcmp(integer, "-9223372036854775808") == 0;
}

/* The text of a scalar, borrowed from the tree; {NULL, 0} for what is none. */
static semel_status scalar_text(semel_bytes *out, struct json_object *scalar, int may_be_cut,
                                semel_error *err)
{
    enum json_type type = json_object_get_type(scalar);
    *out = (semel_bytes){NULL, 0};
    if (type == json_type_null || type == json_type_object || type == json_type_array)
        return SEMEL_OK;
    const char *text = json_object_get_string(scalar);
    if (!text)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a JSON value");
    if (type == json_type_string)
        *out = (semel_bytes){text, (size_t)json_object_get_string_len(scalar)};
    else if (!(may_be_cut && type == json_type_int && is_limit(text)))
        *out = semel_str(text);
    return SEMEL_OK;
}

static semel_status find(struct json_object **out, struct json_object *tree, const char *pointer,
                         semel_error *err)
{
    *out = NULL;
    if (tree && json_pointer_get(tree, pointer, out) != 0) {
        *out = NULL;
        if (errno == ENOMEM)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory for a JSON Pointer");
    }
    return SEMEL_OK;
}

semel_status json_lookup(semel_bytes *out, mem_arena *arena, semel_bytes body, const char *pointer,
                         semel_error *err)
{
    json_facts facts;
    struct json_object *tree = NULL, *found = NULL;
    semel_bytes text = {NULL, 0};
    semel_status status = SEMEL_OK;
    if (json_text_check(&facts, body, JSON_DEPTH_MAX))
        status = tree_of(&tree, body, err);
    if (!status)
        status = find(&found, tree, pointer, err);
    if (!status)
        status = scalar_text(&text, found, facts.beyond_64_bits, err);
    if (!status && text.data) {
        text.data = arena_copy(arena, text.data, text.len);
        if (!text.data)
            status = semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
    }
    json_object_put(tree);
    if (!status)
        *out = text;
    return status;
}

static json_kind kind_of(struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return JSON_NULL;
    case json_type_string:
        return JSON_STRING;
    case json_type_object:
    case json_type_array:
        return JSON_CONTAINER;
    case json_type_boolean:
    case json_type_double:
    case json_type_int:
        break;
    }
    return JSON_SCALAR;
}

static semel_bytes text_of(struct json_object *value)
{
    enum { PLAIN = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE };
    if (kind_of(value) == JSON_STRING)
        return (semel_bytes){json_object_get_string(value),
                             (size_t)json_object_get_string_len(value)};
    return semel_str(value ? json_object_to_json_string_ext(value, PLAIN) : "null");
}

/* 0 when out of memory. */
static int copy_member(json_member *out, mem_arena *arena, const char *name,
                       struct json_object *value)
{
    semel_bytes text = text_of(value);
    *out = (json_member){.name = arena_copy(arena, name, strlen(name)), .kind = kind_of(value)};
    if (text.data)
        out->text = (semel_bytes){arena_copy(arena, text.data, text.len), text.len};
    return out->name && out->text.data;
}

static semel_status copy_members(const json_member **out, size_t *count, mem_arena *arena,
                                 struct json_object *object, semel_error *err)
{
    struct json_object_iterator at = json_object_iter_begin(object);
    struct json_object_iterator end = json_object_iter_end(object);
    size_t found = 0;
    json_member *members =
        arena_alloc(arena, (size_t)json_object_object_length(object) * sizeof *members);
    int ok = members != NULL;
    for (; ok && !json_object_iter_equal(&at, &end); json_object_iter_next(&at))
        ok = copy_member(&members[found++], arena, json_object_iter_peek_name(&at),
                         json_object_iter_peek_value(&at));
    if (!ok)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for JSON");
    *out = members;
    *count = found;
    return SEMEL_OK;
}

static semel_status check(semel_bytes text, semel_error *err)
{
    json_facts facts;
    int is_json = json_text_check(&facts, text, JSON_DEPTH_MAX);
    if (facts.too_deep)
        return semel_fail(err, SEMEL_ELIMIT, "JSON: more than %d levels deep", JSON_DEPTH_MAX);
    if (!is_json)
        return semel_fail(err, SEMEL_EINVAL, "this is not JSON, from byte %zu on", facts.wrong_at);
    if (facts.beyond_64_bits)
        return semel_fail(
            err, SEMEL_EUNSUPPORTED,
            "JSON: an integer of more than 64 bits would be changed: make it a string");
    return SEMEL_OK;
}

semel_status json_members(const json_member **out, size_t *count, mem_arena *arena,
                          semel_bytes text, semel_error *err)
{
    struct json_object *tree = NULL;
    semel_status status = check(text, err);
    if (!status)
        status = tree_of(&tree, text, err);
    if (!status && !json_object_is_type(tree, json_type_object))
        status = semel_fail(err, SEMEL_EINVAL, "JSON: it is not an object");
    if (!status)
        status = copy_members(out, count, arena, tree, err);
    json_object_put(tree);
    return status;
}

#else

int json_built_in(void)
{
    return 0;
}

semel_status json_members(const json_member **out, size_t *count, mem_arena *arena,
                          semel_bytes text, semel_error *err)
{
    (void)out;
    (void)count;
    (void)arena;
    (void)text;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "JSON is not built in: build semel with SEMEL_JSON=ON for CloudEvents");
}

semel_status json_lookup(semel_bytes *out, mem_arena *arena, semel_bytes body, const char *pointer,
                         semel_error *err)
{
    (void)out;
    (void)arena;
    (void)body;
    (void)pointer;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "JSON is not built in: build semel with SEMEL_JSON=ON for json: keys");
}

#endif
