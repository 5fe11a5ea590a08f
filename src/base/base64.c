/* Groups of three bytes and four characters. The last group may be short: what it lacks is '=', and
 * the bits that then belong to no byte must be zero, so that a value has one spelling and no
 * other. */
#include "base/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *out, const void *data, size_t len)
{
    const unsigned char *at = data;
    for (; len; out += 4) {
        size_t have = len < 3 ? len : 3;
        uint32_t group = (uint32_t)at[0] << 16;
        if (have > 1)
            group |= (uint32_t)at[1] << 8;
        if (have > 2)
            group |= at[2];
        out[0] = alphabet[group >> 18];
        out[1] = alphabet[group >> 12 & 63];
        out[2] = have > 1 ? alphabet[group >> 6 & 63] : '=';
        out[3] = have > 2 ? alphabet[group & 63] : '=';
        at += have;
        len -= have;
    }
}

/* 0 to 63, or 64 if it is no digit. */
static uint32_t digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Writes `bytes` (1 to 3) bytes of the four characters at `text`. */
static int decode_group(unsigned char *out, const char *text, size_t bytes)
{
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        uint32_t value = i <= bytes ? digit(text[i]) : 0;
        if (value > 63)
            return 0;
        group = group << 6 | value;
    }
    if (group & (UINT32_C(0xffffff) >> (8 * bytes)))
        return 0;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(group >> (16 - 8 * i));
    return 1;
}

int base64_decode(unsigned char *out, size_t *len, const char *text, size_t text_len)
{
    if (text_len % 4)
        return 0;
    size_t padding = 0;
    while (padding < 2 && padding < text_len && text[text_len - 1 - padding] == '=')
        padding++;
    *len = text_len / 4 * 3 - padding;
    for (size_t left = *len; left; text += 4) {
        size_t bytes = left < 3 ? left : 3;
        if (!decode_group(out, text, bytes))
            return 0;
        out += bytes;
        left -= bytes;
    }
    return 1;
}
