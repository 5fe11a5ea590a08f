/* Fingerprints.
 *
 * Two messages with the same key are copies of each other, or one of them has its key by mistake.
 * Where the key is an id or a header, other content under the same key is such a mistake. Where
 * the key is taken from the body, the producer may well publish the same order under a new event
 * id and with another time in its body: that is what such a key is for, so nothing is compared
 * unless the user names what has to be equal.
 *
 * A fingerprint is a 64-bit checksum, for it is kept with every marker. A part that the message
 * does not have counts as an empty one: two messages without it are equal, and a message that has
 * it differs from one that does not. Each part is preceded by its length, so that the end of one
 * part cannot be taken for the beginning of the next. */
#include "core/fingerprint.h"

#include "base/hash.h"

#include <string.h>

const char *fingerprint_default(const key_plan *key)
{
    return key_reads_body(key) ? "none" : "body";
}

semel_status fingerprint_parse(fingerprint_plan *out, const char *expression, semel_error *err)
{
    out->kind = strcmp(expression, "body") == 0   ? FINGERPRINT_BODY
                : strcmp(expression, "none") == 0 ? FINGERPRINT_NONE
                                                  : FINGERPRINT_PARTS;
    return out->kind == FINGERPRINT_PARTS ? key_parse(&out->parts, "fingerprint", expression, err)
                                          : SEMEL_OK;
}

static semel_status compute_parts(uint64_t *out, mem_arena *arena, const key_plan *plan,
                                  const semel_message *message, semel_error *err)
{
    static const hash_key constant = {UINT64_C(0x73656d656c207632), UINT64_C(0x6669656c64732066)};
    unsigned char length[KEY_LENGTH_SIZE];
    hash_state state;
    hash_begin(&state, constant);
    for (size_t i = 0; i < plan->count; i++) {
        semel_bytes value;
        semel_status status = key_part_value(&value, arena, plan, &plan->parts[i], message, err);
        if (status)
            return status;
        key_write_length(length, value.len);
        hash_add(&state, length, sizeof length);
        hash_add(&state, value.data, value.len);
    }
    uint64_t sum = hash_end(&state);
    *out = sum ? sum : 1;
    return SEMEL_OK;
}

semel_status fingerprint_compute(uint64_t *out, mem_arena *arena, const fingerprint_plan *plan,
                                 const semel_message *message, semel_error *err)
{
    if (plan->kind == FINGERPRINT_PARTS)
        return compute_parts(out, arena, &plan->parts, message, err);
    *out = plan->kind == FINGERPRINT_BODY ? key_fingerprint(message) : 0;
    return SEMEL_OK;
}
