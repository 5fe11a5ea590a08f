/* Bytes as text: base64 (RFC 4648, section 4, padded) and hexadecimal digits. */
#ifndef SEMEL_PROGRAM_SUPPORT_BINARY_H
#define SEMEL_PROGRAM_SUPPORT_BINARY_H

#include "program/support/memory.h"

#include <semel/message.h>

void binary_add_base64(buffer *to, semel_bytes data);

/* The value of a hexadecimal digit; -1: it is none. */
int binary_hex_digit(char c);

/* 1 and the bytes in `memory`, or 0 if the text is not base64, or not in digits. */
int binary_from_base64(semel_bytes *out, region *memory, const char *text, size_t len);
int binary_from_hex(semel_bytes *out, region *memory, const char *text, size_t len);

#endif
