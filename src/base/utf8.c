/* The first byte of a sequence decides its length and narrows the range of the second; that one
 * table rules out overlong forms, surrogates and what lies past the end of Unicode (RFC 3629,
 * section 4). */
#include "base/utf8.h"

#include <string.h>

typedef struct lead {
    unsigned char first, last;            /* range of the first byte */
    unsigned char second_min, second_max; /* range of the second */
    unsigned char length;
} lead;

static const lead leads[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                             {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
                             {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                             {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

size_t utf8_sequence(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        const lead *l = &leads[i];
        if (at[0] < l->first || at[0] > l->last)
            continue;
        if (left < l->length || at[1] < l->second_min || at[1] > l->second_max)
            return 0;
        for (size_t k = 2; k < l->length; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return l->length;
    }
    return 0;
}

static int is_control(const unsigned char *at, size_t length)
{
    return length == 1 ? at[0] < 0x20 || at[0] == 0x7f : at[0] == 0xc2 && at[1] < 0xa0;
}

static int valid(const void *data, size_t len, int plain)
{
    const unsigned char *at = data;
    while (len) {
        size_t length = utf8_sequence(at, len);
        if (!length || (plain && is_control(at, length)))
            return 0;
        at += length;
        len -= length;
    }
    return 1;
}

int utf8_valid(const void *data, size_t len)
{
    return valid(data, len, 0);
}

int utf8_plain(const void *data, size_t len)
{
    return valid(data, len, 1);
}

void utf8_mend(char *text)
{
    size_t left = strlen(text);
    for (size_t len; left; text += len, left -= len) {
        len = utf8_sequence((const unsigned char *)text, left);
        if (!len) {
            *text = '?';
            len = 1;
        }
    }
}
