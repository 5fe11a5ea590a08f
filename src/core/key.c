/* A key is bytes, compared exactly; nothing is folded, trimmed or cut.
 *
 * One part: the key is that part's bytes. Several joined with `+`: each is written as "<length>:<bytes>,"
 * so that ("ab","c") and ("a","bc") differ, and a person can still read it. If one part is missing, the
 * key is missing: half a key would make strangers equal.
 *
 * In a store a key has at most SEMEL_KEY_MAX bytes. A longer one is kept as the byte 0xFF and its
 * SHA-256; a key that itself begins with 0xFF (which no text does) is kept that way too, so no key can be
 * made to look like another one's digest. */
#include "core/key.h"

#include "base/digest.h"
#include "base/hash.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* --- parsing -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    key_kind kind;
    int takes_argument;
} key_words[] = {{"id", KEY_ID, 0},         {"correlation-id", KEY_CORRELATION_ID, 0},
                 {"source", KEY_SOURCE, 0}, {"type", KEY_TYPE, 0},
                 {"header", KEY_HEADER, 1}, {"json", KEY_JSON, 1},
                 {"digest", KEY_DIGEST, 0}};

static semel_status key_error(semel_error *err, size_t position, const char *what)
{
    return semel_fail(
        err, SEMEL_EINVAL,
        "key expression, at character %zu: %s (known: id, correlation-id, source, type, "
        "header:NAME, json:/pointer, digest, joined with +)",
        position + 1, what);
}

static semel_status check_argument(const key_part *part, size_t position, semel_error *err)
{
    size_t wrong = 0;
    if (!*part->argument)
        return key_error(err, position,
                         part->kind == KEY_HEADER ? "header: needs a name"
                                                  : "json: needs a pointer");
    if (part->kind == KEY_JSON && !json_pointer_valid(part->argument, &wrong))
        return key_error(err, position + wrong,
                         "this is not a JSON Pointer; it begins with / and escapes ~ as ~0");
    if (part->kind == KEY_JSON && !json_built_in())
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "key expression: json: is not built in; build semel with SEMEL_JSON=ON");
    return SEMEL_OK;
}

static semel_status check_digest(semel_error *err)
{
    if (digest_built_in())
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "key expression: digest is not built in; build semel with SEMEL_OPENSSL=ON");
}

/* `text` is one part, NUL-terminated, at `position` of the expression. */
static semel_status parse_part(key_part *out, char *text, size_t position, semel_error *err)
{
    char *colon = strchr(text, ':');
    if (colon)
        *colon = 0;
    for (size_t i = 0; i < sizeof key_words / sizeof *key_words; i++) {
        if (strcmp(text, key_words[i].name) != 0)
            continue;
        out->kind = key_words[i].kind;
        out->argument = colon ? colon + 1 : "";
        if (!key_words[i].takes_argument)
            return colon                     ? key_error(err, (size_t)(colon - text) + position,
                                                         "this one takes no argument")
                   : out->kind == KEY_DIGEST ? check_digest(err)
                                             : SEMEL_OK;
        return check_argument(out, position + (colon ? (size_t)(colon - text) + 1 : strlen(text)),
                              err);
    }
    return key_error(err, position, *text ? "unknown word" : "a part is missing");
}

semel_status key_parse(key_plan *out, const char *expression, semel_error *err)
{
    size_t len = strlen(expression);
    if (len > KEY_EXPRESSION_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "key expression: longer than %d characters",
                          KEY_EXPRESSION_MAX);
    memset(out, 0, sizeof *out);
    memcpy(out->text, expression, len + 1);
    char *part = out->text;
    for (;;) {
        char *plus = strchr(part, '+');
        if (plus)
            *plus = 0;
        size_t position = (size_t)(part - out->text);
        if (out->count == KEY_PARTS_MAX)
            return key_error(err, position, "more than 8 parts");
        semel_status status = parse_part(&out->parts[out->count++], part, position, err);
        if (status || !plus)
            return status;
        part = plus + 1;
    }
}

/* --- computing ------------------------------------------------------------------------------------ */

semel_status key_digest(semel_bytes *out, mem_arena *arena, const semel_message *message,
                        semel_error *err)
{
    semel_bytes type = semel_str(message->type);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)type.len >> (8 * i));
    semel_bytes parts[] = {{length, sizeof length}, type, message->body};
    unsigned char *digest = arena_alloc(arena, DIGEST_SIZE);
    if (!digest)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a key");
    semel_status status = digest_parts(digest, parts, 3, err);
    if (!status)
        *out = (semel_bytes){digest, DIGEST_SIZE};
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

static semel_status part_value(semel_bytes *out, mem_arena *arena, const key_plan *plan,
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
    }
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
        semel_status status = part_value(&values[i], arena, plan, &plan->parts[i], message, err);
        if (status)
            return status;
        if (values[i].len == 0) {
            *out = (semel_bytes){NULL, 0};
            return SEMEL_OK;
        }
    }
    if (plan->count > 1)
        return join_parts(out, arena, values, plan->count, err);
    *out = values[0];
    return SEMEL_OK;
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
    unsigned char length[8];
    hash_state state;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)type.len >> (8 * i));
    hash_begin(&state, constant);
    hash_add(&state, length, sizeof length);
    hash_add(&state, type.data, type.len);
    hash_add(&state, message->body.data, message->body.len);
    uint64_t sum = hash_end(&state);
    return sum ? sum : 1;
}
