/* Records as items of the table, in the JSON of requests and answers. */
#include "base/base64.h"
#include "store/dynamodb/dynamodb.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_LEN = 8 };

/* Absent, or no record any more. */
#define ABSENT "attribute_not_exists(p) OR attribute_exists(z)"

/* --- writing ---------------------------------------------------------------------------------- */

void dynamo_write_bytes(text_buffer *to, semel_bytes bytes)
{
    size_t len = base64_size(bytes.len);
    text_append_z(to, "{\"B\":\"");
    char *room = text_extend(to, len);
    if (room)
        base64_encode(room, bytes.data ? bytes.data : "", bytes.len);
    text_append_z(to, "\"}");
}

void dynamo_write_number(text_buffer *to, int64_t number)
{
    char text[40];
    (void)snprintf(text, sizeof text, "{\"N\":\"%" PRId64 "\"}", number);
    text_append_z(to, text);
}

void dynamo_write_guard(text_buffer *to, uint64_t guard)
{
    unsigned char bytes[GUARD_LEN];
    for (size_t i = 0; i < GUARD_LEN; i++)
        bytes[i] = (unsigned char)(guard >> (8 * (GUARD_LEN - 1 - i)));
    dynamo_write_bytes(to, (semel_bytes){bytes, sizeof bytes});
}

void dynamo_write_key(text_buffer *to, const dynamo_place *at)
{
    text_append_z(to, "\"p\":");
    dynamo_write_bytes(to, (semel_bytes){at->partition, at->partition_len});
    text_append_z(to, ",\"k\":");
    dynamo_write_bytes(to, (semel_bytes){at->sort, at->sort_len});
}

void dynamo_write_table(text_buffer *to, const dynamo_store *store)
{
    text_append_z(to, "\"TableName\":");
    text_append_json(to, store->at.table, strlen(store->at.table));
}

void dynamo_write_projection(text_buffer *to, int bodies)
{
    if (!bodies)
        text_append_z(to, ",\"ProjectionExpression\":\"p,k,v,g,u,d,z,l\"");
}

int64_t dynamo_expires_s(int64_t expires_ms)
{
    return expires_ms / 1000 + 1;
}

static semel_bytes version_of(const unsigned char version[SEMEL_KEYED_VERSION_LEN])
{
    return (semel_bytes){version, SEMEL_KEYED_VERSION_LEN};
}

/* What a record has beside its key and its body: with names as they stand in an item ("v":) or as
 * the values of an expression (":v":). */
static void write_fields(text_buffer *to, const semel_keyed_change *change, const char *sign)
{
    const semel_keyed_record *r = &change->record;
#define NAME(name) \
    (text_append_z(to, ",\""), text_append_z(to, sign), text_append_z(to, name "\":"))
    NAME("v");
    dynamo_write_bytes(to, version_of(r->version));
    NAME("d");
    dynamo_write_bytes(to, r->value);
    if (r->guard) {
        NAME("g");
        dynamo_write_guard(to, r->guard);
    }
    if (r->until_ms) {
        NAME("u");
        dynamo_write_number(to, r->until_ms);
    }
    if (change->expires_ms) {
        NAME("x");
        dynamo_write_number(to, dynamo_expires_s(change->expires_ms));
    }
#undef NAME
}

static int is_update(const semel_keyed_change *change)
{
    return change->kind == SEMEL_KEYED_WRITE && change->keep_body &&
           change->expect != SEMEL_EXPECT_ABSENT;
}

const char *dynamo_action_name(const semel_keyed_change *change)
{
    if (change->kind == SEMEL_KEYED_WRITE)
        return is_update(change) ? "Update" : "Put";
    return change->kind == SEMEL_KEYED_REMOVE ? "Delete" : "ConditionCheck";
}

static void write_item(text_buffer *to, const semel_keyed_change *change, const dynamo_place *at)
{
    text_append_z(to, ",\"Item\":{");
    dynamo_write_key(to, at);
    write_fields(to, change, "");
    if (change->record.body.data) {
        text_append_z(to, ",\"b\":");
        dynamo_write_bytes(to, change->record.body);
    }
    text_append_z(to, "}");
}

static void write_update(text_buffer *to, const semel_keyed_change *change)
{
    const semel_keyed_record *r = &change->record;
    int removes = !r->guard || !r->until_ms || !change->expires_ms;
    const char *comma = "";
    text_append_z(to, ",\"UpdateExpression\":\"SET v=:v,d=:d");
    text_append_z(to, r->guard ? ",g=:g" : "");
    text_append_z(to, r->until_ms ? ",u=:u" : "");
    text_append_z(to, change->expires_ms ? ",x=:x" : "");
    text_append_z(to, removes ? " REMOVE " : "");
#define REMOVED(absent, name) \
    if (absent)               \
    text_append_z(to, comma), text_append_z(to, name), comma = ","
    REMOVED(!r->guard, "g");
    REMOVED(!r->until_ms, "u");
    REMOVED(!change->expires_ms, "x");
#undef REMOVED
    text_append_z(to, "\"");
}

/* The expectation, as names of values: :ev, :eg, :el. */
static const char *condition_of(const semel_keyed_change *change)
{
    if (change->expect == SEMEL_EXPECT_ABSENT)
        return ABSENT;
    if (change->expect == SEMEL_EXPECT_VERSION)
        return "v=:ev";
    return change->live_at_ms ? "g=:eg AND u>:el" : "g=:eg";
}

static void write_expected(text_buffer *to, const semel_keyed_change *change)
{
    if (change->expect == SEMEL_EXPECT_VERSION) {
        text_append_z(to, "\":ev\":");
        dynamo_write_bytes(to, version_of(change->expected_version));
    } else {
        text_append_z(to, "\":eg\":");
        dynamo_write_guard(to, change->expected_guard);
        if (change->live_at_ms) {
            text_append_z(to, ",\":el\":");
            dynamo_write_number(to, change->live_at_ms);
        }
    }
}

void dynamo_write_action(text_buffer *to, const dynamo_store *store,
                         const semel_keyed_change *change, const dynamo_place *at)
{
    int puts = strcmp(dynamo_action_name(change), "Put") == 0;
    dynamo_write_table(to, store);
    if (puts) {
        write_item(to, change, at);
    } else {
        text_append_z(to, ",\"Key\":{");
        dynamo_write_key(to, at);
        text_append_z(to, "}");
    }
    if (is_update(change))
        write_update(to, change);
    text_append_z(to, ",\"ConditionExpression\":\"");
    text_append_z(to, condition_of(change));
    text_append_z(to, "\"");
    if (change->expect != SEMEL_EXPECT_ABSENT) {
        text_append_z(to, ",\"ExpressionAttributeValues\":{");
        write_expected(to, change);
        if (is_update(change))
            write_fields(to, change, ":");
        text_append_z(to, "}");
    }
    text_append_z(to, ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"");
}

uint64_t dynamo_size(const semel_keyed_change *change)
{
    uint64_t size = 0;
    if (change->kind == SEMEL_KEYED_FOREIGN) {
        for (size_t i = 0; i < change->count; i++)
            size += change->values[i].bytes.len;
        return size + strlen(change->statement);
    }
    const semel_keyed_record *r = &change->record;
    return size + r->space.len + r->key.len + r->value.len + r->body.len + DYNAMO_ROOM;
}

/* --- reading ---------------------------------------------------------------------------------- */

json_object *dynamo_member(json_object *object, const char *name, json_type type)
{
    json_object *value = NULL;
    return json_object_is_type(object, json_type_object) &&
                   json_object_object_get_ex(object, name, &value) &&
                   json_object_is_type(value, type)
               ? value
               : NULL;
}

/* {NULL, 0} if the attribute is not there or NULL; 0 if it is of another type. */
static int read_bytes(semel_bytes *out, json_object *item, const char *name, mem_arena *arena)
{
    json_object *attribute = dynamo_member(item, name, json_type_object);
    *out = (semel_bytes){NULL, 0};
    if (!attribute || dynamo_member(attribute, "NULL", json_type_boolean))
        return 1;
    json_object *text = dynamo_member(attribute, "B", json_type_string);
    size_t len = text ? (size_t)json_object_get_string_len(text) : 0, made = 0;
    unsigned char *bytes = text ? arena_alloc(arena, len / 4 * 3 + 1) : NULL;
    if (!bytes || !base64_decode(bytes, &made, json_object_get_string(text), len))
        return 0;
    *out = (semel_bytes){bytes, made};
    return 1;
}

static int read_number(int64_t *out, json_object *item, const char *name)
{
    json_object *attribute = dynamo_member(item, name, json_type_object);
    *out = 0;
    if (!attribute || dynamo_member(attribute, "NULL", json_type_boolean))
        return 1;
    json_object *text = dynamo_member(attribute, "N", json_type_string);
    char *end = NULL;
    if (text)
        *out = strtoll(json_object_get_string(text), &end, 10);
    return end && end != json_object_get_string(text) && !*end;
}

static int read_fields(semel_keyed_record *out, json_object *item, mem_arena *arena)
{
    semel_bytes version, guard;
    *out = (semel_keyed_record){.guard = 0};
    if (!read_bytes(&version, item, "v", arena) || version.len != SEMEL_KEYED_VERSION_LEN ||
        !read_bytes(&guard, item, "g", arena) || (guard.data && guard.len != GUARD_LEN) ||
        !read_number(&out->until_ms, item, "u") || !read_bytes(&out->value, item, "d", arena) ||
        !out->value.data || !read_bytes(&out->body, item, "b", arena))
        return 0;
    memcpy(out->version, version.data, version.len);
    for (size_t i = 0; i < guard.len; i++)
        out->guard = out->guard << 8 | ((const unsigned char *)guard.data)[i];
    return 1;
}

semel_status dynamo_read_item(dynamo_item *out, json_object *item, mem_arena *arena,
                              semel_error *err)
{
    *out = (dynamo_item){.kind = DYNAMO_RECORD};
    if (!read_bytes(&out->sort, item, "k", arena) || !out->sort.len)
        return dynamo_strange("an item without its key", err);
    if (dynamo_member(item, "z", json_type_object))
        out->kind = DYNAMO_GONE;
    else if (dynamo_member(item, "l", json_type_object))
        out->kind = DYNAMO_HEAD;
    else if (!read_fields(&out->record, item, arena))
        return dynamo_strange("an item that semel has not written; the table must be semel's own",
                              err);
    return SEMEL_OK;
}
