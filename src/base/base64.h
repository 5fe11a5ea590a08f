/* Base64 (RFC 4648, section 4): the standard alphabet, padded, without line breaks. */
#ifndef SEMEL_BASE_BASE64_H
#define SEMEL_BASE_BASE64_H

#include <stddef.h>

/* How many characters `len` bytes make; no NUL is counted or written. */
static inline size_t base64_size(size_t len)
{
    return (len / 3 + (len % 3 != 0)) * 4;
}

void base64_encode(char *out, const void *data, size_t len);

/* Strict: 0 for anything that base64_encode() does not write. `out` needs room for text_len / 4 * 3
 * bytes; *len is how many of them there are. */
int base64_decode(unsigned char *out, size_t *len, const char *text, size_t text_len);

#endif
