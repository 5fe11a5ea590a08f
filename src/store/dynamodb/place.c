/* Where a record is: its space and key as the two keys of the table.
 *
 * The partition is the space. Markers are spread over several partitions, by a hash of the key,
 * because one partition takes 1000 write units a second; a scan merges them. The others are
 * one each: they are read in order all the time, and merging would make that dear.
 *
 * The second key of a table has at most 1024 bytes, and the layer's keys a few more (the group of a
 * message may have 1024 bytes alone). Such a key is cut after 1024 bytes: the first part goes into
 * the partition's name, the rest is the second key there. So that a scan finds them in their
 * order, an item with the first part as its key stands among the others, and says so (`l`). It is
 * written before, and stays: an item without long keys behind it is harmless. Keys of 1024 bytes
 * are long, too, so it is the only item with a key of that length; and no shorter key stands
 * between long ones with the same first part, which is then where the order wants it. */
#include "store/dynamodb/dynamodb.h"

#include "base/hash.h"

#include <string.h>

enum { HEAD_LEN = DYNAMO_SHORT_MAX + 1, REST_MARK = 1 };

/* Where a marker is depends on it, for ever. */
static const hash_key FIXED = {0, 0};

int dynamo_is_long(semel_bytes key)
{
    return key.len > DYNAMO_SHORT_MAX;
}

unsigned dynamo_shards(semel_bytes space)
{
    return space.len > 2 && memcmp(space.data, "m/", 2) == 0 ? DYNAMO_SHARDS : 1;
}

/* By the bytes that all keys have that must stay together. */
static unsigned shard_of(semel_bytes space, semel_bytes key)
{
    size_t len = dynamo_is_long(key) ? (size_t)HEAD_LEN : key.len;
    unsigned shards = dynamo_shards(space);
    return shards == 1 ? 0 : (unsigned)(hash_bytes(FIXED, key.data, len) % shards);
}

void dynamo_partition(dynamo_place *out, semel_bytes space, unsigned shard)
{
    memcpy(out->partition, space.data, space.len);
    out->partition_len = space.len;
    if (dynamo_shards(space) > 1) {
        out->partition[out->partition_len++] = '#';
        out->partition[out->partition_len++] = (unsigned char)('0' + shard);
    }
}

void dynamo_long_partition(dynamo_place *out, semel_bytes head)
{
    out->partition[out->partition_len++] = 0;
    memcpy(out->partition + out->partition_len, head.data, head.len);
    out->partition_len += head.len;
}

void dynamo_place_of_head(dynamo_place *out, semel_bytes space, semel_bytes key)
{
    dynamo_partition(out, space, shard_of(space, key));
    memcpy(out->sort, key.data, HEAD_LEN);
    out->sort_len = HEAD_LEN;
}

semel_status dynamo_place_of(dynamo_place *out, semel_bytes space, semel_bytes key,
                             semel_error *err)
{
    if (!space.len || space.len > SEMEL_KEYED_SPACE_MAX || !key.len ||
        key.len > SEMEL_KEYED_KEY_MAX)
        return semel_fail(err, SEMEL_EINVAL,
                          "dynamodb: a space of %zu and a key of %zu bytes; they have 1 to %zu and "
                          "1 to %zu",
                          space.len, key.len, SEMEL_KEYED_SPACE_MAX, SEMEL_KEYED_KEY_MAX);
    dynamo_partition(out, space, shard_of(space, key));
    if (!dynamo_is_long(key)) {
        memcpy(out->sort, key.data, key.len);
        out->sort_len = key.len;
        return SEMEL_OK;
    }
    dynamo_long_partition(out, (semel_bytes){key.data, HEAD_LEN});
    out->sort[0] = REST_MARK; /* it must not be empty */
    memcpy(out->sort + 1, (const char *)key.data + HEAD_LEN, key.len - HEAD_LEN);
    out->sort_len = 1 + key.len - HEAD_LEN;
    return SEMEL_OK;
}
