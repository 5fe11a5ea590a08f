/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF. Bodies are
 * mostly ASCII, which is read eight bytes at a time. */
#include "program/support/encoding.h"

#include <stdint.h>
#include <string.h>

static int is_tail(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The least and the greatest second byte behind a first one. */
static int is_second(unsigned char first, unsigned char second)
{
    unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= least && second <= most;
}

size_t encoding_sequence(const void *from, size_t left)
{
    const unsigned char *at = from;
    size_t len = *at >= 0xF0 ? 4 : *at >= 0xE0 ? 3 : *at >= 0xC2 ? 2 : 0;
    if (*at < 0x80)
        return 1;
    if (!len || *at > 0xF4 || left < len || !is_second(*at, at[1]))
        return 0;
    for (size_t i = 2; i < len; i++)
        if (!is_tail(at[i]))
            return 0;
    return len;
}

/* The bytes at the start that are ASCII and not NUL, in whole words; there may be more of them. */
static size_t ascii_length(const unsigned char *at, size_t left)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t word;
    size_t len = 0;
    for (; left - len >= sizeof word; len += sizeof word) {
        memcpy(&word, at + len, sizeof word);
        if ((word | (word - ones)) & high) /* a byte of 0 borrows */
            break;
    }
    return len;
}

int encoding_is_text(const void *data, size_t len)
{
    const unsigned char *at = data;
    for (size_t step; len; at += step, len -= step)
        if (!(step = ascii_length(at, len)) && (!*at || !(step = encoding_sequence(at, len))))
            return 0;
    return 1;
}

uint32_t encoding_characters(const char *text, size_t len)
{
    uint32_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += !is_tail((unsigned char)text[i]);
    return count;
}

size_t encoding_bytes(const char *text, size_t len, size_t characters)
{
    size_t at = 0;
    for (; characters && at < len; characters--)
        do
            at++;
        while (at < len && is_tail((unsigned char)text[at]));
    return at;
}

int encoding_has_controls(const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < len; i++)
        if (at[i] < 0x20 || at[i] == 0x7f ||
            (at[i] == 0xc2 && i + 1 < len && at[i + 1] >= 0x80 && at[i + 1] < 0xa0))
            return 1;
    return 0;
}
