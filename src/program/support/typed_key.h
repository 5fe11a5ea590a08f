/* A key as people type it: text, text:..., hex:00ff3a or base64:AP86 (semel help keys). */
#ifndef SEMEL_PROGRAM_SUPPORT_TYPED_KEY_H
#define SEMEL_PROGRAM_SUPPORT_TYPED_KEY_H

#include "program/support/memory.h"

#include <semel/message.h>

/* NULL and the key, or what is wrong with it: "it is not hexadecimal". */
const char *typed_key(semel_bytes *out, region *memory, const char *text);

/* The same, as a store keeps it (SEMEL_KEY_MAX): a long key is its digest, which can also be typed,
 * as sha256: and 64 hex digits. */
const char *typed_key_stored(semel_bytes *out, region *memory, const char *text);

/* The key of several parts, as semel_inbox_key() joins them: 7:shop-eu,5:20713, */
const char *typed_key_parts(semel_bytes *out, region *memory, const char *const parts[],
                            size_t count);

#endif
