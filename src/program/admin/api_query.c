/* See api_query.h. */
#include "program/admin/api_query.h"

#include "program/support/binary.h"
#include "program/support/encoding.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_DEPTH = 4 };

static const char prefix[] = "/api/v1/";

/* --- path and query --------------------------------------------------------------------------- */

/* Percent-decoded; in a query, + is a space. NULL: not UTF-8, a NUL, or half an escape. */
static const char *decode(region *memory, const char *text, size_t len, int is_query)
{
    char *out = region_alloc(memory, len + 1);
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = len - i > 2 ? binary_hex_digit(text[i + 1]) : -1;
            int low = len - i > 2 ? binary_hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return NULL;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        out[used++] = c;
    }
    return encoding_is_text(out, used) ? out : NULL;
}

static const char *parse_path(api_query *out, region *memory, const char *path, size_t len)
{
    static const char wrong[] = "the path is not UTF-8, or an escape in it is not one";
    for (const char *end = path + len; path < end;) {
        size_t part = strcspn(path, "/?#");
        part = part > (size_t)(end - path) ? (size_t)(end - path) : part;
        if (out->segment_count == API_SEGMENTS_MAX)
            return "the path has too many parts";
        const char *segment = decode(memory, path, part, 0);
        if (!segment)
            return wrong;
        out->segments[out->segment_count++] = segment;
        path += part + (path + part < end);
    }
    return NULL;
}

static int has_name(const api_query *q, const char *name)
{
    for (size_t i = 0; i < q->pair_count; i++)
        if (strcmp(q->pairs[i].name, name) == 0)
            return 1;
    return 0;
}

static const char *parse_pair(api_query *out, region *memory, const char *at, size_t len)
{
    const char *equals = memchr(at, '=', len);
    size_t name_len = equals ? (size_t)(equals - at) : len;
    if (!len)
        return NULL;
    if (out->pair_count == API_PAIRS_MAX)
        return "the query has too many parameters";
    const char *name = decode(memory, at, name_len, 1);
    const char *value = equals ? decode(memory, equals + 1, len - name_len - 1, 1) : "";
    if (!name || !value)
        return "the query is not UTF-8, or an escape in it is not one";
    if (strlen(value) > API_VALUE_MAX)
        return "a parameter is too long";
    if (has_name(out, name))
        return "a parameter is there twice";
    out->pairs[out->pair_count++] = (api_pair){name, value};
    return NULL;
}

const char *api_query_parse(api_query *out, region *memory, const char *target)
{
    size_t len = strlen(target), path_len = strcspn(target, "?#");
    *out = (api_query){0};
    if (len > API_TARGET_MAX)
        return "path and query are too long";
    if (strncmp(target, prefix, sizeof prefix - 1) != 0)
        return "the path does not begin with /api/v1/";
    const char *wrong =
        parse_path(out, memory, target + sizeof prefix - 1, path_len - (sizeof prefix - 1));
    const char *at = target + path_len + (target[path_len] == '?');
    while (!wrong && *at) {
        size_t part = strcspn(at, "&");
        wrong = parse_pair(out, memory, at, part);
        at += part + (at[part] == '&');
    }
    return wrong;
}

const char *api_query_get(const api_query *q, const char *name)
{
    for (size_t i = 0; i < q->pair_count; i++)
        if (strcmp(q->pairs[i].name, name) == 0)
            return *q->pairs[i].value ? q->pairs[i].value : NULL;
    return NULL;
}

int api_query_number(int64_t *out, const char *text)
{
    char *end = NULL;
    if (!text)
        return 1;
    errno = 0;
    long long number = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    if (number < 0 || errno || *end)
        return 0;
    *out = number;
    return 1;
}

/* --- the body of a change --------------------------------------------------------------------- */

const char *const api_verb_names[API_VERBS] = {
    "",           "dead.retry", "dead.discard", "inbox.forget", "outbox.requeue", "outbox.skip",
    "queue.purge"};

typedef struct reading {
    api_action *to;
    region *memory;
} reading;

/* A text without NUL and of a bounded length. NULL is "" or what is no text. */
static const char *text_of(const reading *r, struct json_object *value, size_t most)
{
    size_t len = (size_t)json_object_get_string_len(value);
    const char *text = json_object_get_string(value);
    if (!json_object_is_type(value, json_type_string) || len > most || memchr(text, 0, len))
        return NULL;
    return region_copy(r->memory, text, len);
}

static const char *read_text(const reading *r, const char **to, struct json_object *value,
                             size_t most)
{
    if (!value)
        return NULL;
    const char *text = text_of(r, value, most);
    if (!text)
        return "a member that takes a text has none, or a text that is too long";
    *to = *text ? text : NULL;
    return NULL;
}

/* A time is a text as in commands, or milliseconds since 1970. */
static const char *read_time(const reading *r, const char **to, struct json_object *value)
{
    buffer shown = {0};
    if (!json_object_is_type(value, json_type_int))
        return read_text(r, to, value, API_VALUE_MAX);
    int64_t ms = json_object_get_int64(value);
    if (ms < 0 || ms > INT64_C(253402300799999))
        return "a time is not between the years 1970 and 9999";
    show_rfc3339(&shown, ms);
    *to = region_copy(r->memory, shown.data, shown.len);
    buffer_free(&shown);
    return NULL;
}

static const char *read_number(int64_t *to, struct json_object *value)
{
    if (!value)
        return NULL;
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return "a member that takes a number has none, or a negative one";
    *to = json_object_get_int64(value);
    return NULL;
}

/* Of the filter; NULL: there is no such member. */
static const char **filter_text(api_action *a, const char *name)
{
    const struct {
        const char *name;
        const char **to;
    } members[] = {{"inbox", &a->inbox}, {"outbox", &a->outbox}, {"queue", &a->queue},
                   {"type", &a->type},   {"error", &a->error},   {"cause", &a->cause},
                   {"key", &a->key},     {"id", &a->id}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(members[i].name, name) == 0)
            return members[i].to;
    return NULL;
}

static const char *read_filter_member(const reading *r, const char *name, struct json_object *value)
{
    const char **text = filter_text(r->to, name);
    if (text)
        return read_text(r, text, value, API_VALUE_MAX);
    if (strcmp(name, "since") == 0)
        return read_time(r, &r->to->since, value);
    if (strcmp(name, "until") == 0)
        return read_time(r, &r->to->until, value);
    if (strcmp(name, "until_id") == 0)
        return read_number(&r->to->until_id, value);
    return "the filter has a member that is not known";
}

static const char *read_filter(const reading *r, struct json_object *filter)
{
    if (!filter)
        return NULL;
    if (!json_object_is_type(filter, json_type_object))
        return "the filter is no object";
    json_object_object_foreach(filter, name, value)
    {
        const char *wrong = read_filter_member(r, name, value);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *read_ids(const reading *r, struct json_object *list)
{
    if (!list)
        return NULL;
    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) > API_IDS_MAX)
        return "ids is no list, or has more than 200 items; use a filter";
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        int64_t id = -1;
        struct json_object *item = json_object_array_get_idx(list, i);
        if (!item || read_number(&id, item) || id <= 0)
            return "ids has something that is no number of a letter";
        r->to->ids[r->to->id_count++] = region_printf(r->memory, "%lld", (long long)id);
    }
    return NULL;
}

static const char *read_verb(const reading *r, struct json_object *value)
{
    const char *name = text_of(r, value, API_VALUE_MAX);
    for (int i = 1; name && i < API_VERBS; i++)
        if (strcmp(api_verb_names[i], name) == 0)
            r->to->verb = (api_verb)i;
    return r->to->verb ? NULL : "the action is not known";
}

static const char *read_member(const reading *r, const char *name, struct json_object *value)
{
    api_action *a = r->to;
    if (strcmp(name, "action") == 0)
        return read_verb(r, value);
    if (strcmp(name, "filter") == 0)
        return read_filter(r, value);
    if (strcmp(name, "ids") == 0)
        return read_ids(r, value);
    if (strcmp(name, "count") == 0)
        return read_number(&a->count, value);
    if (strcmp(name, "reason") == 0)
        return read_text(r, &a->reason, value, API_REASON_MAX);
    if (strcmp(name, "who") == 0)
        return read_text(r, &a->who, value, API_WHO_MAX);
    if (strcmp(name, "forget") != 0)
        return "the body has a member that is not known";
    if (!json_object_is_type(value, json_type_boolean))
        return "forget is neither true nor false";
    a->forget = json_object_get_boolean(value);
    return NULL;
}

static const char *read_members(const reading *r, struct json_object *tree)
{
    if (!json_object_is_type(tree, json_type_object))
        return "the body is no JSON object";
    json_object_object_foreach(tree, name, value)
    {
        const char *wrong = read_member(r, name, value);
        if (wrong)
            return wrong;
    }
    return r->to->verb ? NULL : "the body has no action";
}

const char *api_action_parse(api_action *out, region *memory, semel_bytes body)
{
    struct json_object *tree = NULL;
    int beyond = 0;
    const reading r = {out, memory};
    *out = (api_action){.count = -1};
    if (body.len > API_BODY_MAX)
        return "the body is too long";
    if (!strict_json_parse(&tree, body, BODY_DEPTH, &beyond))
        return "the body is not JSON, or nested too deeply";
    const char *wrong = beyond ? "a number is too large" : read_members(&r, tree);
    json_object_put(tree);
    return wrong;
}

const char *api_action_text(region *memory, const api_action *a)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"inbox", a->inbox}, {"outbox", a->outbox}, {"queue", a->queue},
                 {"type", a->type},   {"error", a->error},   {"cause", a->cause},
                 {"since", a->since}, {"until", a->until},   {"key", a->key},
                 {"id", a->id}};
    buffer line = {0};
    buffer_text(&line, a->verb ? api_verb_names[a->verb] : "an unknown change");
    for (size_t i = 0; i < a->id_count; i++)
        buffer_printf(&line, " %s", a->ids[i]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value) {
            buffer_printf(&line, " --%s ", texts[i].name);
            show_argument(&line, texts[i].value);
        }
    const char *text = region_copy(memory, line.data, line.len);
    buffer_free(&line);
    return text;
}
