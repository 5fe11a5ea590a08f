/* See typed_key.h. */
#include "program/support/typed_key.h"

#include "program/support/binary.h"

#include <string.h>

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
