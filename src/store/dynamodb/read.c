/* Reading by key: GetItem for one, BatchGetItem for several, always consistent. What a batch leaves
 * unprocessed is asked for again, with a pause that grows. */
#include "base/wait.h"
#include "store/dynamodb/dynamodb.h"

#include <string.h>

semel_status dynamo_get_item(dynamo_item *out, int *found, dynamo_store *store,
                             const dynamo_place *at, int body, mem_arena *arena, semel_error *err)
{
    text_buffer request = {0};
    json_object *answer;
    text_append_z(&request, "{");
    dynamo_write_table(&request, store);
    text_append_z(&request, ",\"ConsistentRead\":true,\"Key\":{");
    dynamo_write_key(&request, at);
    text_append_z(&request, "}");
    dynamo_write_projection(&request, body);
    text_append_z(&request, "}");
    semel_status status = dynamo_ask(store, "GetItem", &request, "reading", &answer, err);
    mem_free(request.bytes);
    json_object *item = dynamo_member(answer, "Item", json_type_object);
    *found = !status && item && json_object_object_length(item) > 0;
    if (*found)
        status = dynamo_read_item(out, item, arena, err);
    json_object_put(answer);
    return status;
}

/* --- several ---------------------------------------------------------------------------------- */

typedef struct batch {
    dynamo_store *store;
    semel_bytes space;
    const semel_bytes *keys;
    dynamo_place places[DYNAMO_GET_MAX];
    size_t count;
    int bodies;
    semel_keyed_sink *sink;
    void *context;
    mem_arena arena;
    unsigned failures;
    int64_t begun_ms;
} batch;

static semel_status place_all(batch *b, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < b->count; i++)
        status = dynamo_place_of(&b->places[i], b->space, b->keys[i], err);
    return status;
}

static void write_batch(text_buffer *to, const batch *b)
{
    text_append_z(to, "{\"RequestItems\":{");
    text_append_json(to, b->store->at.table, strlen(b->store->at.table));
    text_append_z(to, ":{\"ConsistentRead\":true,\"Keys\":[");
    for (size_t i = 0; i < b->count; i++) {
        text_append_z(to, i ? ",{" : "{");
        dynamo_write_key(to, &b->places[i]);
        text_append_z(to, "}");
    }
    text_append_z(to, "]");
    dynamo_write_projection(to, b->bodies);
    text_append_z(to, "}}}");
}

/* Which of the keys an item has: the answer is in no order. */
static semel_status key_of(semel_bytes *out, const batch *b, json_object *item,
                           const dynamo_item *read, semel_error *err)
{
    for (size_t i = 0; i < b->count; i++) {
        const dynamo_place *at = &b->places[i];
        if (at->sort_len != read->sort.len || memcmp(at->sort, read->sort.data, at->sort_len) != 0)
            continue;
        *out = b->keys[i];
        /* Rests of long keys are not unique, and look like short keys: the partition tells. */
        text_buffer partition = {0};
        dynamo_write_bytes(&partition, (semel_bytes){at->partition, at->partition_len});
        text_append(&partition, "", 1);
        json_object *p =
            dynamo_member(dynamo_member(item, "p", json_type_object), "B", json_type_string);
        size_t len = p ? (size_t)json_object_get_string_len(p) : 0;
        int same =
            p && !partition.failed && partition.len > len + strlen("{\"B\":\"") &&
            memcmp(partition.bytes + strlen("{\"B\":\""), json_object_get_string(p), len) == 0 &&
            partition.bytes[strlen("{\"B\":\"") + len] == '"';
        mem_free(partition.bytes);
        if (same)
            return SEMEL_OK;
    }
    return dynamo_strange("an item that was not asked for", err);
}

static semel_status take_items(batch *b, json_object *items, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && items && i < json_object_array_length(items); i++) {
        dynamo_item read;
        json_object *item = json_object_array_get_idx(items, i);
        status = dynamo_read_item(&read, item, &b->arena, err);
        if (status || read.kind != DYNAMO_RECORD)
            continue;
        read.record.space = b->space;
        status = key_of(&read.record.key, b, item, &read, err);
        if (!status)
            status = b->sink(&read.record, b->context, err);
    }
    arena_reset(&b->arena);
    return status;
}

/* Sends it, and writes what is left of it into the same buffer; empty: nothing. */
static semel_status ask_batch(batch *b, text_buffer *request, semel_error *err)
{
    json_object *answer;
    const char *table = b->store->at.table;
    semel_status status = dynamo_ask(b->store, "BatchGetItem", request, "reading", &answer, err);
    if (!status)
        status = take_items(b,
                            dynamo_member(dynamo_member(answer, "Responses", json_type_object),
                                          table, json_type_array),
                            err);
    json_object *left = dynamo_member(answer, "UnprocessedKeys", json_type_object);
    request->len = 0;
    if (!status && left && json_object_object_length(left) > 0) {
        text_append_z(request, "{\"RequestItems\":");
        text_append_z(request, json_object_to_json_string_ext(left, JSON_C_TO_STRING_PLAIN));
        text_append_z(request, "}");
        if (!aws_pause(b->store->aws, b->begun_ms, ++b->failures))
            status = semel_fail(err, SEMEL_EBUSY,
                                "dynamodb: it left keys of a batch unprocessed for %u ms (busy_ms)",
                                b->store->settings.busy_ms);
    }
    json_object_put(answer);
    return status;
}

static semel_status get_batch(batch *b, semel_error *err)
{
    text_buffer request = {0};
    semel_status status = place_all(b, err);
    if (!status)
        write_batch(&request, b);
    while (!status && request.len)
        status = ask_batch(b, &request, err);
    mem_free(request.bytes);
    return status;
}

static semel_status get_one(dynamo_store *store, semel_bytes space, semel_bytes key, int body,
                            semel_keyed_sink *sink, void *context, semel_error *err)
{
    dynamo_place at;
    dynamo_item item;
    mem_arena arena = {0};
    int found = 0;
    semel_status status = dynamo_place_of(&at, space, key, err);
    if (!status)
        status = dynamo_get_item(&item, &found, store, &at, body, &arena, err);
    if (!status && found && item.kind == DYNAMO_RECORD) {
        item.record.space = space;
        item.record.key = key;
        status = sink(&item.record, context, err);
    }
    arena_free(&arena);
    return status;
}

semel_status dynamo_get(void *state, semel_bytes space, const semel_bytes keys[], size_t count,
                        int bodies, semel_keyed_sink *sink, void *context, semel_error *err)
{
    dynamo_store *store = state;
    if (count == 1)
        return get_one(store, space, keys[0], bodies, sink, context, err);
    semel_status status = SEMEL_OK;
    batch *b = count ? mem_alloc(sizeof *b) : NULL;
    if (count && !b)
        return dynamo_no_memory(err);
    for (size_t at = 0; !status && at < count; at += DYNAMO_GET_MAX) {
        size_t left = count - at;
        b->store = store;
        b->space = space;
        b->keys = keys + at;
        b->count = left < DYNAMO_GET_MAX ? left : DYNAMO_GET_MAX;
        b->bodies = bodies;
        b->sink = sink;
        b->context = context;
        b->failures = 0;
        b->begun_ms = wait_clock_ms();
        status = get_batch(b, err);
    }
    if (b)
        arena_free(&b->arena);
    mem_free(b);
    return status;
}
