/* A recursive descent over the grammar, as deep as the caller allows. It stands before json-c,
 * whose strict mode (0.16) takes NaN, 'names', raw control characters, 00, 1. and 01.5 for JSON,
 * and which quietly changes half surrogates, names with U+0000 and integers of more than 64 bits.
 * Keys are made from JSON: they must not depend on what one version of a parser forgives. */
#include "base/json_text.h"

#include "base/utf8.h"

typedef struct scan {
    const unsigned char *at;
    const unsigned char *end;
    json_facts *facts;
    int depth_left;
} scan;

static int peek(const scan *s)
{
    return s->at < s->end ? *s->at : -1;
}

static int take(scan *s, int wanted)
{
    if (peek(s) != wanted)
        return 0;
    s->at++;
    return 1;
}

static void skip_spaces(scan *s)
{
    while (take(s, ' ') || take(s, '\t') || take(s, '\n') || take(s, '\r'))
        continue;
}

static int word(scan *s, const char *text)
{
    while (*text && take(s, *text))
        text++;
    return !*text;
}

static size_t digits(scan *s)
{
    const unsigned char *start = s->at;
    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return (size_t)(s->at - start);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* 64 bits hold -9223372036854775808 to 18446744073709551615, as json-c does. */
static int beyond_64_bits(const unsigned char *first, size_t count, int negative)
{
    const char *limit = negative ? "9223372036854775808" : "18446744073709551615";
    size_t limit_len = strlen(limit);
    return count > limit_len || (count == limit_len && memcmp(first, limit, count) > 0);
}

static int number(scan *s)
{
    int negative = take(s, '-');
    const unsigned char *first = s->at;
    size_t count = take(s, '0') ? 1 : digits(s);
    int integer = 1;
    if (!count)
        return 0;
    if (take(s, '.')) {
        integer = 0;
        if (!digits(s))
            return 0;
    }
    if (take(s, 'e') || take(s, 'E')) {
        integer = 0;
        if (!take(s, '+'))
            (void)take(s, '-');
        if (!digits(s))
            return 0;
    }
    if (integer && beyond_64_bits(first, count, negative))
        s->facts->beyond_64_bits = 1;
    return 1;
}

/* --- strings ---------------------------------------------------------------------------------- */

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits behind \u; -1 if they are not there. */
static int code_unit(scan *s)
{
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        int value = hex_digit(peek(s));
        if (value < 0)
            return -1;
        unit = unit * 16 + value;
        s->at++;
    }
    return unit;
}

static int unicode_escape(scan *s, int is_name)
{
    int unit = code_unit(s);
    if (unit < 0 || (unit == 0 && is_name))
        return 0;
    if (unit < 0xd800 || unit > 0xdfff)
        return 1;
    if (unit > 0xdbff || !take(s, '\\') || !take(s, 'u'))
        return 0;
    unit = code_unit(s);
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static int escape(scan *s, int is_name)
{
    if (take(s, 'u'))
        return unicode_escape(s, is_name);
    int c = peek(s);
    if (c <= 0 || !strchr("\"\\/bfnrt", c))
        return 0;
    s->at++;
    return 1;
}

static int character(scan *s)
{
    if (peek(s) < 0x20)
        return 0;
    size_t length = utf8_sequence(s->at, (size_t)(s->end - s->at));
    s->at += length;
    return length != 0;
}

static int string(scan *s, int is_name)
{
    if (!take(s, '"'))
        return 0;
    while (!take(s, '"')) {
        if (take(s, '\\')) {
            if (!escape(s, is_name))
                return 0;
            continue;
        }
        if (!character(s))
            return 0;
    }
    return 1;
}

/* --- values ----------------------------------------------------------------------------------- */

static int value(scan *s);

static int element(scan *s)
{
    skip_spaces(s);
    int ok = value(s);
    skip_spaces(s);
    return ok;
}

static int array(scan *s)
{
    skip_spaces(s);
    if (take(s, ']'))
        return 1;
    do
        if (!element(s))
            return 0;
    while (take(s, ','));
    return take(s, ']');
}

static int member(scan *s)
{
    skip_spaces(s);
    if (!string(s, 1))
        return 0;
    skip_spaces(s);
    return take(s, ':') && element(s);
}

static int object(scan *s)
{
    skip_spaces(s);
    if (take(s, '}'))
        return 1;
    do
        if (!member(s))
            return 0;
    while (take(s, ','));
    return take(s, '}');
}

static int value_within(scan *s)
{
    switch (peek(s)) {
    case '{':
        return s->at++, object(s);
    case '[':
        return s->at++, array(s);
    case '"':
        return string(s, 0);
    case 't':
        return word(s, "true");
    case 'f':
        return word(s, "false");
    case 'n':
        return word(s, "null");
    default:
        return number(s);
    }
}

static int value(scan *s)
{
    if (!s->depth_left) {
        s->facts->too_deep = 1;
        return 0;
    }
    s->depth_left--;
    int ok = value_within(s);
    s->depth_left++;
    return ok;
}

int json_text_check(json_facts *facts, semel_bytes text, int depth_max)
{
    *facts = (json_facts){0};
    if (!text.len)
        return 0;
    const unsigned char *start = text.data;
    scan s = {start, start + text.len, facts, depth_max};
    int ok = element(&s) && s.at == s.end;
    facts->wrong_at = ok ? 0 : (size_t)(s.at - start);
    return ok;
}
