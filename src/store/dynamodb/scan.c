/* Records in the order of their keys: Query, page by page, consistent.
 *
 * A stream reads one partition. A space of several partitions has several streams, which are
 * merged; each reads pages of about its share, so that the merge reads little more than it
 * gives away. A stream that comes upon the head of long keys (place.c) reads their partition
 * before it goes on.
 *
 * DynamoDB takes one condition for the second key, so both ends of a range are asked for including
 * themselves, and what is not inside is passed over here, by the whole key. */
#include "store/dynamodb/dynamodb.h"

#include <string.h>

enum { PAGE_MAX = 1000 };

typedef struct scanning {
    dynamo_store *store;
    const semel_keyed_range *range;
    semel_bytes low, high; /* neither included; empty: none */
    uint32_t page;         /* items of one Query */
} scanning;

typedef struct stream {
    const scanning *of;
    dynamo_place at;      /* its partition; `sort` is the head of long keys */
    json_object *answer;  /* the page */
    json_object *items;   /* of it */
    size_t next;          /* of them */
    int begun, last_page; /* pages */
    mem_arena arena;      /* of the current item */
    dynamo_item item;
    unsigned char key[SEMEL_KEYED_KEY_MAX + 1]; /* of a long one, joined */
    semel_keyed_record *record;                 /* the current one; NULL: it has ended */
    struct stream *inner;                       /* of long keys, while it has some */
} stream;

static int compare(semel_bytes a, semel_bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.data, b.data, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int is_inside(const scanning *of, semel_bytes key)
{
    return (!of->low.len || compare(key, of->low) > 0) &&
           (!of->high.len || compare(key, of->high) < 0);
}

/* --- pages ------------------------------------------------------------------------------------ */

/* A bound as a key of the table: of a long one the head, which stands for all behind it. */
static semel_bytes bound_of(semel_bytes key)
{
    enum { HEAD_LEN = DYNAMO_SHORT_MAX + 1 };
    return (semel_bytes){key.data, dynamo_is_long(key) ? (size_t)HEAD_LEN : key.len};
}

static void write_condition(text_buffer *to, const stream *s)
{
    semel_bytes low = bound_of(s->of->low), high = bound_of(s->of->high);
    int bounded = !s->at.sort_len; /* there are few long keys behind one head */
    const char *more = "";
    if (bounded && low.len)
        more = high.len ? " AND k BETWEEN :a AND :b" : " AND k>=:a";
    else if (bounded && high.len)
        more = " AND k<=:b";
    text_append_z(to, ",\"KeyConditionExpression\":\"p=:p");
    text_append_z(to, more);
    text_append_z(to, "\",\"ExpressionAttributeValues\":{\":p\":");
    dynamo_write_bytes(to, (semel_bytes){s->at.partition, s->at.partition_len});
    if (bounded && low.len) {
        text_append_z(to, ",\":a\":");
        dynamo_write_bytes(to, low);
    }
    if (bounded && high.len) {
        text_append_z(to, ",\":b\":");
        dynamo_write_bytes(to, high);
    }
    text_append_z(to, "}");
}

static void write_query(text_buffer *to, const stream *s)
{
    json_object *start = dynamo_member(s->answer, "LastEvaluatedKey", json_type_object);
    text_append_z(to, "{");
    dynamo_write_table(to, s->of->store);
    text_append_z(to, ",\"ConsistentRead\":true,\"Limit\":");
    json_object *limit = json_object_new_int((int)s->of->page);
    text_append_z(to, json_object_to_json_string(limit));
    json_object_put(limit);
    text_append_z(to, s->of->range->descending ? ",\"ScanIndexForward\":false" : "");
    write_condition(to, s);
    dynamo_write_projection(to, s->of->range->bodies);
    if (start) {
        text_append_z(to, ",\"ExclusiveStartKey\":");
        text_append_z(to, json_object_to_json_string_ext(start, JSON_C_TO_STRING_PLAIN));
    }
    text_append_z(to, "}");
}

static semel_status read_page(stream *s, semel_error *err)
{
    text_buffer request = {0};
    json_object *answer = NULL;
    write_query(&request, s);
    semel_status status =
        dynamo_ask(s->of->store, "Query", &request, "reading a range", &answer, err);
    mem_free(request.bytes);
    if (status)
        return status;
    json_object_put(s->answer);
    s->answer = answer;
    s->items = dynamo_member(answer, "Items", json_type_array);
    s->next = 0;
    s->begun = 1;
    s->last_page = dynamo_member(answer, "LastEvaluatedKey", json_type_object) == NULL;
    return s->items ? SEMEL_OK : dynamo_strange("no list of items", err);
}

/* --- streams ---------------------------------------------------------------------------------- */

static void close_stream(stream *s)
{
    if (!s)
        return;
    close_stream(s->inner);
    json_object_put(s->answer);
    arena_free(&s->arena);
    mem_free(s);
}

static semel_status open_inner(stream *s, semel_error *err)
{
    stream *inner = mem_alloc(sizeof *inner);
    if (!inner)
        return dynamo_no_memory(err);
    inner->of = s->of;
    inner->at = s->at;
    memcpy(inner->at.sort, s->item.sort.data, s->item.sort.len);
    inner->at.sort_len = s->item.sort.len;
    dynamo_long_partition(&inner->at, s->item.sort);
    s->inner = inner;
    return SEMEL_OK;
}

static semel_bytes key_of(stream *s)
{
    if (!s->at.sort_len)
        return s->item.sort;
    size_t rest = s->item.sort.len - 1; /* behind its mark */
    memcpy(s->key, s->at.sort, s->at.sort_len);
    memcpy(s->key + s->at.sort_len, (const char *)s->item.sort.data + 1, rest);
    return (semel_bytes){s->key, s->at.sort_len + rest};
}

/* The next item of the page, if it is a record inside the range. */
static semel_status take_item(stream *s, semel_error *err)
{
    arena_reset(&s->arena);
    semel_status status =
        dynamo_read_item(&s->item, json_object_array_get_idx(s->items, s->next++), &s->arena, err);
    if (status || s->item.kind == DYNAMO_GONE)
        return status;
    if (s->item.kind == DYNAMO_HEAD)
        return s->at.sort_len || s->item.sort.len != DYNAMO_SHORT_MAX + 1
                   ? dynamo_strange("a head of keys where none can be", err)
                   : open_inner(s, err);
    if (s->at.sort_len + s->item.sort.len > sizeof s->key)
        return dynamo_strange("a key that is too long", err);
    s->item.record.space = s->of->range->space;
    s->item.record.key = key_of(s);
    if (is_inside(s->of, s->item.record.key))
        s->record = &s->item.record;
    return SEMEL_OK;
}

static semel_status advance(stream *s, semel_error *err)
{
    semel_status status = SEMEL_OK;
    s->record = NULL;
    while (!status && !s->record) {
        if (s->inner) {
            status = advance(s->inner, err); /* one level: they have no heads */
            s->record = s->inner->record;
            if (!status && !s->record) {
                close_stream(s->inner);
                s->inner = NULL;
            }
        } else if (s->items && s->next < json_object_array_length(s->items)) {
            status = take_item(s, err);
        } else if (s->begun && s->last_page) {
            break;
        } else {
            status = read_page(s, err);
        }
    }
    return status;
}

static semel_status open_stream(stream **out, const scanning *of, unsigned shard, semel_error *err)
{
    stream *s = *out = mem_alloc(sizeof *s);
    if (!s)
        return dynamo_no_memory(err);
    s->of = of;
    dynamo_partition(&s->at, of->range->space, shard);
    return advance(s, err);
}

/* --- all of them ------------------------------------------------------------------------------ */

static stream *first_of(stream *const streams[], unsigned count, int descending)
{
    stream *first = NULL;
    for (unsigned i = 0; i < count; i++) {
        stream *s = streams[i];
        int order = s->record && first ? compare(s->record->key, first->record->key) : 0;
        if (s->record && (!first || (descending ? order > 0 : order < 0)))
            first = s;
    }
    return first;
}

static semel_status merge(const scanning *of, unsigned shards, semel_keyed_sink *sink,
                          void *context, semel_error *err)
{
    stream *streams[DYNAMO_SHARDS] = {NULL};
    semel_status status = SEMEL_OK;
    for (unsigned i = 0; !status && i < shards; i++)
        status = open_stream(&streams[i], of, i, err);
    for (uint32_t given = 0; !status && given < of->range->limit; given++) {
        stream *s = first_of(streams, shards, of->range->descending);
        if (!s)
            break;
        status = sink(s->record, context, err);
        if (!status && given + 1 < of->range->limit)
            status = advance(s, err);
    }
    for (unsigned i = 0; i < shards; i++)
        close_stream(streams[i]);
    return status;
}

semel_status dynamo_scan(void *state, const semel_keyed_range *range, semel_keyed_sink *sink,
                         void *context, semel_error *err)
{
    enum { MORE = 2 }; /* the ends of the range */
    unsigned shards = dynamo_shards(range->space);
    uint32_t page = range->limit / shards + MORE;
    scanning of = {.store = state,
                   .range = range,
                   .low = range->descending ? range->until : range->after,
                   .high = range->descending ? range->after : range->until,
                   .page = page < PAGE_MAX ? page : PAGE_MAX};
    if (of.low.len && of.high.len && compare(of.low, of.high) >= 0)
        return SEMEL_OK;
    return merge(&of, shards, sink, context, err);
}

/* --- counting --------------------------------------------------------------------------------- */

static semel_status count_one(const semel_keyed_record *record, void *context, semel_error *err)
{
    uint64_t *count = context;
    (void)record;
    (void)err;
    ++*count;
    return SEMEL_OK;
}

/* Counts a page of a partition, and clears *exact if something there is no record. */
static semel_status count_page(dynamo_store *store, const dynamo_place *at, json_object **answer,
                               uint64_t *out, int *exact, semel_error *err)
{
    text_buffer request = {0};
    json_object *start = dynamo_member(*answer, "LastEvaluatedKey", json_type_object), *next;
    text_append_z(&request, "{");
    dynamo_write_table(&request, store);
    text_append_z(&request, ",\"ConsistentRead\":true,\"Select\":\"COUNT\",\"FilterExpression\":"
                            "\"attribute_not_exists(z) AND attribute_not_exists(l)\","
                            "\"KeyConditionExpression\":\"p=:p\","
                            "\"ExpressionAttributeValues\":{\":p\":");
    dynamo_write_bytes(&request, (semel_bytes){at->partition, at->partition_len});
    text_append_z(&request, start ? "},\"ExclusiveStartKey\":" : "}");
    if (start)
        text_append_z(&request, json_object_to_json_string_ext(start, JSON_C_TO_STRING_PLAIN));
    text_append_z(&request, "}");
    semel_status status = dynamo_ask(store, "Query", &request, "counting", &next, err);
    mem_free(request.bytes);
    if (status)
        return status;
    int64_t count = json_object_get_int64(dynamo_member(next, "Count", json_type_int));
    int64_t seen = json_object_get_int64(dynamo_member(next, "ScannedCount", json_type_int));
    *out += (uint64_t)count;
    *exact &= count == seen;
    json_object_put(*answer);
    *answer = next;
    return SEMEL_OK;
}

semel_status dynamo_count(void *state, semel_bytes space, uint64_t *out, semel_error *err)
{
    dynamo_store *store = state;
    semel_status status = SEMEL_OK;
    int exact = 1;
    *out = 0;
    for (unsigned i = 0; !status && i < dynamo_shards(space); i++) {
        dynamo_place at;
        json_object *answer = NULL;
        dynamo_partition(&at, space, i);
        do
            status = count_page(store, &at, &answer, out, &exact, err);
        while (!status && dynamo_member(answer, "LastEvaluatedKey", json_type_object));
        json_object_put(answer);
    }
    if (status || exact)
        return status;
    semel_keyed_range all = {.space = space, .limit = UINT32_MAX};
    *out = 0;
    return dynamo_scan(store, &all, count_one, out, err);
}
