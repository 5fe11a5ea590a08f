/* See typed_key.h. */
#include "program/support/typed_key.h"

#include "program/support/binary.h"
#include "program/support/digest.h"

#include <semel/inbox.h>
#include <string.h>

/* How a store keeps a key that is too long: SEMEL_KEY_MAX. */
enum { DIGEST_MARK = 0xff, DIGEST_SIZE = 32 };

static const char *behind(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

const char *typed_key(semel_bytes *out, region *memory, const char *text)
{
    const char *rest;
    if ((rest = behind(text, "hex:"))) {
        if (!binary_from_hex(out, memory, rest, strlen(rest)))
            return "it is not hexadecimal";
    } else if ((rest = behind(text, "base64:"))) {
        if (!binary_from_base64(out, memory, rest, strlen(rest)))
            return "it is not base64";
    } else if (behind(text, "sha256:")) {
        return "the digest of a key stands for a key that is known already";
    } else {
        rest = behind(text, "text:");
        *out = semel_str(rest ? rest : text);
    }
    if (!out->len)
        return "it is empty";
    return out->len > SEMEL_TEXT_MAX ? "it is longer than 1024 bytes" : NULL;
}

/* The mark of a digest, and the digest. */
static const char *from_digest(semel_bytes *out, region *memory, const char *hex)
{
    semel_bytes digest;
    if (!binary_from_hex(&digest, memory, hex, strlen(hex)) || digest.len != DIGEST_SIZE)
        return "sha256: needs 64 hexadecimal digits";
    unsigned char *stored = region_alloc(memory, 1 + DIGEST_SIZE);
    stored[0] = DIGEST_MARK;
    memcpy(stored + 1, digest.data, DIGEST_SIZE);
    *out = (semel_bytes){stored, 1 + DIGEST_SIZE};
    return NULL;
}

/* A short key that begins with the mark is stored by its digest, too. */
static const char *as_stored(semel_bytes *key, region *memory)
{
    char hex[DIGEST_HEX_SIZE];
    if (key->len <= SEMEL_KEY_MAX && *(const unsigned char *)key->data != DIGEST_MARK)
        return NULL;
    digest_hex(hex, key->data, key->len);
    return from_digest(key, memory, hex);
}

const char *typed_key_stored(semel_bytes *out, region *memory, const char *text)
{
    const char *digest = behind(text, "sha256:");
    if (digest)
        return from_digest(out, memory, digest);
    const char *wrong = typed_key(out, memory, text);
    return wrong ? wrong : as_stored(out, memory);
}

const char *typed_key_parts(semel_bytes *out, region *memory, const char *const parts[],
                            size_t count)
{
    buffer joined = {0};
    const char *wrong = NULL;
    if (count == 1)
        return typed_key_stored(out, memory, parts[0]);
    for (size_t i = 0; !wrong && i < count; i++) {
        semel_bytes part = {0};
        wrong = typed_key(&part, memory, parts[i]);
        buffer_printf(&joined, "%zu:", part.len);
        buffer_add(&joined, part.data, part.len);
        buffer_text(&joined, ",");
    }
    *out = (semel_bytes){region_copy(memory, joined.data, joined.len), joined.len};
    buffer_free(&joined);
    return wrong ? wrong : as_stored(out, memory);
}
