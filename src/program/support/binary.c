/* See binary.h. */
#include "program/support/binary.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void binary_add_base64(buffer *to, semel_bytes data)
{
    const unsigned char *at = data.data;
    for (size_t i = 0; i < data.len; i += 3) {
        size_t left = data.len - i;
        uint32_t bits = (uint32_t)at[i] << 16;
        bits |= left > 1 ? (uint32_t)at[i + 1] << 8 : 0;
        bits |= left > 2 ? at[i + 2] : 0;
        char four[] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63], '=', '='};
        if (left > 1)
            four[2] = alphabet[bits >> 6 & 63];
        if (left > 2)
            four[3] = alphabet[bits & 63];
        buffer_add(to, four, sizeof four);
    }
}

int binary_from_base64(semel_bytes *out, region *memory, const char *text, size_t len)
{
    size_t padding = 0;
    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    if (len % 4)
        return 0;
    unsigned char *bytes = region_alloc(memory, len / 4 * 3 + 1), *end = bytes;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t bits = 0;
        for (size_t j = i; j < i + 4; j++) {
            const char *found = text[j] ? strchr(alphabet, text[j]) : NULL;
            if (!found && j < len - padding)
                return 0;
            bits = bits << 6 | (found ? (uint32_t)(found - alphabet) : 0);
        }
        *end++ = (unsigned char)(bits >> 16);
        *end++ = (unsigned char)(bits >> 8);
        *end++ = (unsigned char)bits;
    }
    *out = (semel_bytes){bytes, (size_t)(end - bytes) - padding};
    return 1;
}

int binary_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int binary_from_hex(semel_bytes *out, region *memory, const char *text, size_t len)
{
    unsigned char *bytes = region_alloc(memory, len / 2 + 1);
    for (size_t i = 0; i < len; i++) {
        int digit = binary_hex_digit(text[i]);
        if (digit < 0)
            return 0;
        bytes[i / 2] = (unsigned char)(bytes[i / 2] << 4 | digit);
    }
    *out = (semel_bytes){bytes, len / 2};
    return len % 2 == 0;
}
