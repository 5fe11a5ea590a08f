/* A key as people type it: text, text:..., hex:00ff3a or base64:AP86 (semel help keys). */
#ifndef SEMEL_PROGRAM_SUPPORT_TYPED_KEY_H
#define SEMEL_PROGRAM_SUPPORT_TYPED_KEY_H

#include "program/support/memory.h"

#include <semel/message.h>

/* NULL and the key, or what is wrong with it: "it is not hexadecimal". */
const char *typed_key(semel_bytes *out, region *memory, const char *text);

#endif
