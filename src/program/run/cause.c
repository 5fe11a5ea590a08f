/* See cause.h. A word that contains a digit is a number or an id: <n> stands for it. A quoted part
 * is <s>. Quotes that do not end are left as they are. */
#include "program/run/cause.h"

#include "program/support/show.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static int is_word(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || (c & 0x80);
}

static size_t word_length(const char *at, int *has_digit)
{
    size_t len = 0;
    *has_digit = 0;
    for (; is_word(at[len]); len++)
        *has_digit |= isdigit((unsigned char)at[len]) != 0;
    return len;
}

/* A word of letters and one short number (http 422, exit 1) tells the kind of the error, so a
 * number of up to three digits right behind a known word stays. */
static int is_status(const char *text, const char *at, size_t len)
{
    static const char *const before[] = {"http ", "exit ", "signal "};
    if (len > 3)
        return 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t word = strlen(before[i]);
        if ((size_t)(at - text) >= word && memcmp(at - word, before[i], word) == 0)
            return 1;
    }
    return 0;
}

static size_t quoted_length(const char *at)
{
    if (*at != '"' && *at != '\'')
        return 0;
    const char *end = strchr(at + 1, *at);
    return end ? (size_t)(end - at) + 1 : 0;
}

static void add_cause(buffer *to, const char *error)
{
    for (const char *at = error; *at;) {
        int has_digit = 0;
        size_t len = quoted_length(at);
        if (len) {
            buffer_text(to, "<s>");
        } else if ((len = word_length(at, &has_digit)) > 0) {
            if (has_digit && !is_status(error, at, len))
                buffer_text(to, "<n>");
            else
                buffer_add(to, at, len);
        } else {
            len = 1;
            buffer_add(to, at, 1);
        }
        at += len;
    }
}

void cause_text(buffer *to, const char *error)
{
    buffer whole = {0};
    buffer_text(&whole, "");
    add_cause(&whole, error);
    show_text(to, whole.data, whole.len, CAUSE_TEXT_MAX);
    buffer_free(&whole);
}

/* FNV-1a: stable over versions and machines. */
static uint32_t hash_more(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

void cause_id(char out[CAUSE_ID_SIZE], const char *inbox, const char *cause)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t hash = hash_more(hash_more(hash_more(2166136261u, inbox), "\n"), cause);
    hash ^= hash >> 16;
    for (int i = 0; i < CAUSE_ID_SIZE - 1; i++)
        out[i] = digits[hash >> (12 - 4 * i) & 0xf];
    out[CAUSE_ID_SIZE - 1] = 0;
}
