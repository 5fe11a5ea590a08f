/* A key is bytes, compared exactly; nothing is folded, trimmed or cut.
 *
 * With one part that is no literal, the key is the bytes of all parts in their order: the literals
 * around the one value are the same in every key of the inbox, so two keys differ as their values
 * do. With several, each part (literals, too) is written as "<length>:<bytes>," so that ("ab","c")
 * and ("a","bc") differ, and a person can still read it. If one part is missing, the key is
 * missing: half a key would make strangers equal.
 *
 * In a store a key has at most SEMEL_KEY_MAX bytes. A longer one is kept as the byte 0xFF and its
 * SHA-256; a key that itself begins with 0xFF (which no text does) is kept that way too, so no key
 * can be made to look like another one's digest. */
#include "core/key.h"

#include "base/digest.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/message.h"

#include <stdio.h>
#include <string.h>

size_t key_literals(const key_plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++)
        count += plan->parts[i].kind == KEY_LITERAL;
    return count;
}

int key_reads_body(const key_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->parts[i].kind == KEY_JSON || plan->parts[i].kind == KEY_DIGEST)
            return 1;
    return 0;
}

/* --- computing -------------------------------------------------------------------------------- */

void key_write_length(unsigned char out[KEY_LENGTH_SIZE], size_t len)
{
    for (int i = 0; i < KEY_LENGTH_SIZE; i++)
        out[i] = (unsigned char)((uint64_t)len >> (8 * i));
}

semel_status key_digest(semel_bytes *out, mem_arena *arena, const semel_message *message,
                        semel_error *err)
{
    semel_bytes type = semel_str(message->type);
    unsigned char length[KEY_LENGTH_SIZE];
    key_write_length(length, type.len);
    semel_bytes parts[] = {{length, sizeof length}, type, message->body};
    unsigned char *digest = arena_alloc(arena, DIGEST_SIZE);
    if (!digest)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
    semel_status status = digest_parts(digest, parts, 3, err);
    if (!status)
        *out = (semel_bytes){digest, DIGEST_SIZE};
    return status;
}

semel_status semel_message_digest(unsigned char out[SEMEL_DIGEST_SIZE],
                                  const semel_message *message, semel_error *err)
{
    mem_arena arena = {0};
    semel_bytes digest = {NULL, 0};
    semel_status status = message_check(message, err);
    if (!status)
        status = key_digest(&digest, &arena, message, err);
    if (!status)
        memcpy(out, digest.data, SEMEL_DIGEST_SIZE);
    arena_free(&arena);
    return status;
}

static semel_status call_function(semel_bytes *out, mem_arena *arena, const key_plan *plan,
                                  const semel_message *message, semel_error *err)
{
    size_t capacity = SEMEL_KEY_MAX;
    for (;;) {
        size_t len = 0;
        unsigned char *key = arena_alloc(arena, capacity);
        if (!key)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
        semel_error why = {0}; /* like a handler, it need not fill it */
        semel_status status = plan->function(key, capacity, &len, message, plan->context, &why);
        if (status == SEMEL_ELIMIT && len > capacity && len <= KEY_COMPUTED_MAX) {
            capacity = len;
            continue;
        }
        if (status)
            return semel_fail(err, status, "%s",
                              why.text[0] ? why.text : "the key function failed");
        if (len > capacity)
            return semel_fail(err, SEMEL_EMISUSE,
                              "the key function reports %zu bytes in a room of %zu", len, capacity);
        *out = (semel_bytes){key, len};
        return SEMEL_OK;
    }
}

semel_status key_part_value(semel_bytes *out, mem_arena *arena, const key_plan *plan,
                            const key_part *part, const semel_message *message, semel_error *err)
{
    *out = (semel_bytes){NULL, 0};
    switch (part->kind) {
    case KEY_ID:
        *out = message->id;
        return SEMEL_OK;
    case KEY_CORRELATION_ID:
        *out = message->correlation_id;
        return SEMEL_OK;
    case KEY_SOURCE:
        *out = semel_str(message->source);
        return SEMEL_OK;
    case KEY_TYPE:
        *out = semel_str(message->type);
        return SEMEL_OK;
    case KEY_HEADER:
        *out = semel_message_header(message, part->argument);
        return SEMEL_OK;
    case KEY_JSON:
        return json_lookup(out, arena, message->body, part->argument, err);
    case KEY_DIGEST:
        return key_digest(out, arena, message, err);
    case KEY_FUNCTION:
        return call_function(out, arena, plan, message, err);
    case KEY_LITERAL:
        *out = semel_str(part->argument);
        return SEMEL_OK;
    }
    return SEMEL_OK;
}

/* Literals around one value. */
static semel_status append_parts(semel_bytes *out, mem_arena *arena, const semel_bytes *values,
                                 size_t count, semel_error *err)
{
    size_t total = 0, used = 0;
    for (size_t i = 0; i < count; i++)
        total += values[i].len;
    char *key = arena_alloc(arena, total);
    if (!key)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
    for (size_t i = 0; i < count; used += values[i++].len)
        memcpy(key + used, values[i].data, values[i].len);
    *out = (semel_bytes){key, total};
    return SEMEL_OK;
}

static semel_status join_parts(semel_bytes *out, mem_arena *arena, const semel_bytes *values,
                               size_t count, semel_error *err)
{
    enum { LENGTH_TEXT = 24 };
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += LENGTH_TEXT + values[i].len + 1;
    char *key = arena_alloc(arena, total);
    if (!key)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(key + used, LENGTH_TEXT, "%zu:", values[i].len);
        memcpy(key + used, values[i].data, values[i].len);
        used += values[i].len;
        key[used++] = ',';
    }
    *out = (semel_bytes){key, used};
    return SEMEL_OK;
}

semel_status key_compute(semel_bytes *out, mem_arena *arena, const key_plan *plan,
                         const semel_message *message, semel_error *err)
{
    semel_bytes values[KEY_PARTS_MAX];
    for (size_t i = 0; i < plan->count; i++) {
        semel_status status =
            key_part_value(&values[i], arena, plan, &plan->parts[i], message, err);
        if (status)
            return status;
        if (values[i].len == 0) {
            *out = (semel_bytes){NULL, 0};
            return SEMEL_OK;
        }
    }
    if (plan->count == 1) {
        *out = values[0];
        return SEMEL_OK;
    }
    return plan->count - key_literals(plan) == 1
               ? append_parts(out, arena, values, plan->count, err)
               : join_parts(out, arena, values, plan->count, err);
}

semel_status key_stored(semel_bytes *out, mem_arena *arena, semel_bytes key, semel_error *err)
{
    enum { DIGEST_MARK = 0xff };
    if (key.len <= SEMEL_KEY_MAX && *(const unsigned char *)key.data != DIGEST_MARK) {
        *out = key;
        return SEMEL_OK;
    }
    unsigned char *stored = arena_alloc(arena, 1 + DIGEST_SIZE);
    if (!stored)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
    stored[0] = DIGEST_MARK;
    *out = (semel_bytes){stored, 1 + DIGEST_SIZE};
    return digest_parts(stored + 1, &key, 1, err);
}

uint64_t key_fingerprint(const semel_message *message)
{
    static const hash_key constant = {UINT64_C(0x73656d656c207631), UINT64_C(0x66696e6765727072)};
    semel_bytes type = semel_str(message->type);
    unsigned char length[KEY_LENGTH_SIZE];
    hash_state state;
    key_write_length(length, type.len);
    hash_begin(&state, constant);
    hash_add(&state, length, sizeof length);
    hash_add(&state, type.data, type.len);
    hash_add(&state, message->body.data, message->body.len);
    uint64_t sum = hash_end(&state);
    return sum ? sum : 1;
}
