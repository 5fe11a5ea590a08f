/* Keys and records as words of requests. */
#include "store/redis/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNTIL_ZERO ((uint64_t)1 << 63) /* added, so that digits are in order below zero, too */

/* --- keys ------------------------------------------------------------------------------------- */

/* Behind the space stands a colon, so one that is in the space is escaped. The layer's own spaces
 * have none. */
static int is_special(char c)
{
    return c == ':' || c == '%';
}

size_t redis_space_len(semel_bytes space)
{
    const char *text = space.data;
    size_t len = space.len;
    for (size_t i = 0; i < space.len; i++)
        len += is_special(text[i]) ? 2 : 0;
    return len;
}

static void write_space(redis_store *store, redis_request *r, semel_bytes space)
{
    const char *text = space.data;
    redis_word_part(r, store->prefix, store->prefix_len);
    for (size_t i = 0, from = 0; i <= space.len; i++) {
        if (i < space.len && !is_special(text[i]))
            continue;
        redis_word_part(r, text + from, i - from);
        if (i < space.len)
            redis_word_part(r, text[i] == ':' ? "%3a" : "%25", 3);
        from = i + 1;
    }
}

void redis_index_word(redis_store *store, redis_request *r, semel_bytes space)
{
    redis_word_len(r, store->prefix_len + redis_space_len(space));
    write_space(store, r, space);
    redis_word_end(r);
}

void redis_record_word(redis_store *store, redis_request *r, semel_bytes space, semel_bytes key)
{
    redis_word_len(r, store->prefix_len + redis_space_len(space) + 1 + key.len);
    write_space(store, r, space);
    redis_word_part(r, ":", 1);
    redis_word_part(r, key.data, key.len);
    redis_word_end(r);
}

/* --- records ---------------------------------------------------------------------------------- */

size_t redis_head_write(char out[REDIS_HEAD_MAX], const semel_keyed_record *record)
{
    memcpy(out, record->version, SEMEL_KEYED_VERSION_LEN);
    for (int i = 0; i < 8; i++)
        out[SEMEL_KEYED_VERSION_LEN + (size_t)i] = (char)(record->guard >> (56 - 8 * i));
    (void)snprintf(out + REDIS_HEAD_FIXED, REDIS_HEAD_MAX - REDIS_HEAD_FIXED, "%020" PRIu64,
                   (uint64_t)record->until_ms + UNTIL_ZERO);
    return REDIS_HEAD_LEN;
}

semel_status redis_head_read(semel_keyed_record *out, const redisReply *head, semel_error *err)
{
    if (head->type != REDIS_REPLY_STRING || head->len != REDIS_HEAD_LEN)
        return semel_fail(err, SEMEL_ESTORE,
                          "redis: a record is damaged, or not semel's; does another program write "
                          "keys of this namespace?");
    memcpy(out->version, head->str, SEMEL_KEYED_VERSION_LEN);
    out->guard = 0;
    for (size_t i = SEMEL_KEYED_VERSION_LEN; i < REDIS_HEAD_FIXED; i++)
        out->guard = out->guard << 8 | (unsigned char)head->str[i];
    /* hiredis ends it with a NUL */
    out->until_ms = (int64_t)(strtoull(head->str + REDIS_HEAD_FIXED, NULL, 10) - UNTIL_ZERO);
    return SEMEL_OK;
}
