/* A reader of JSON that makes nothing of it but yes or no, and then json-c's tree. */
#include "program/support/strict_json.h"

#include "program/support/binary.h"
#include "program/support/encoding.h"

#include <json-c/json.h>
#include <limits.h>
#include <string.h>

typedef struct reader {
    const char *at;
    const char *end;
    int depth;
    int beyond;
} reader;

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_spaces(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static int take(reader *r, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0)
        return 0;
    r->at += len;
    return 1;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static size_t take_digits(reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && is_digit(*r->at))
        r->at++;
    return (size_t)(r->at - from);
}

static int is_beyond(const char *digits, size_t len, int is_negative)
{
    const char *most = is_negative ? "9223372036854775808" : "18446744073709551615";
    size_t most_len = strlen(most);
    return len > most_len || (len == most_len && memcmp(digits, most, len) > 0);
}

static int take_number(reader *r)
{
    int is_negative = take(r, "-"), is_integer = 1;
    const char *digits = r->at;
    size_t len = take_digits(r);
    if (!len || (len > 1 && *digits == '0'))
        return 0;
    if (take(r, ".")) {
        is_integer = 0;
        if (!take_digits(r))
            return 0;
    }
    if (take(r, "e") || take(r, "E")) {
        is_integer = 0;
        if (!take(r, "+"))
            (void)take(r, "-");
        if (!take_digits(r))
            return 0;
    }
    r->beyond |= is_integer && is_beyond(digits, len, is_negative);
    return 1;
}

/* --- strings ---------------------------------------------------------------------------------- */

/* The unit behind \u; -1 if it is none. */
static long take_unit(reader *r)
{
    long unit = 0;
    if (r->end - r->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = binary_hex_digit(*r->at++);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static int take_escape(reader *r, int is_name)
{
    if (r->at < r->end && *r->at && strchr("\"\\/bfnrt", *r->at)) {
        r->at++;
        return 1;
    }
    if (!take(r, "u"))
        return 0;
    long unit = take_unit(r);
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF) || (!unit && is_name))
        return 0;
    if (unit < 0xD800 || unit > 0xDBFF)
        return 1;
    long second = take(r, "\\u") ? take_unit(r) : -1;
    return second >= 0xDC00 && second <= 0xDFFF;
}

static int take_string(reader *r, int is_name)
{
    if (!take(r, "\""))
        return 0;
    while (r->at < r->end && *r->at != '"') {
        if ((unsigned char)*r->at < ' ')
            return 0;
        if (*r->at++ == '\\' && !take_escape(r, is_name))
            return 0;
    }
    return take(r, "\"");
}

/* --- values ----------------------------------------------------------------------------------- */

static int take_value(reader *r);

static int take_member(reader *r, int is_object)
{
    skip_spaces(r);
    if (is_object) {
        if (!take_string(r, 1))
            return 0;
        skip_spaces(r);
        if (!take(r, ":"))
            return 0;
    }
    if (!take_value(r))
        return 0;
    skip_spaces(r);
    return 1;
}

/* Behind the opening bracket. */
static int take_container(reader *r, int is_object)
{
    const char *end = is_object ? "}" : "]";
    if (--r->depth < 0)
        return 0;
    skip_spaces(r);
    if (!take(r, end)) {
        do
            if (!take_member(r, is_object))
                return 0;
        while (take(r, ","));
        if (!take(r, end))
            return 0;
    }
    r->depth++;
    return 1;
}

static int take_value(reader *r)
{
    skip_spaces(r);
    if (r->at == r->end || r->depth < 1)
        return 0;
    switch (*r->at) {
    case '{':
    case '[':
        return take_container(r, *r->at++ == '{');
    case '"':
        return take_string(r, 0);
    case 't':
        return take(r, "true");
    case 'f':
        return take(r, "false");
    case 'n':
        return take(r, "null");
    default:
        return take_number(r);
    }
}

int strict_json_check(semel_bytes text, int depth_max, int *beyond)
{
    const char *at = text.data;
    reader r = {.at = at, .end = at + text.len, .depth = depth_max};
    if (!text.len || !encoding_is_text(at, text.len) || !take_value(&r))
        return 0;
    skip_spaces(&r);
    if (beyond)
        *beyond = r.beyond;
    return r.at == r.end;
}

/* A number or a word at the very end may go on, for all the tokener knows: a NUL says that it does
 * not. */
int strict_json_parse(struct json_object **out, semel_bytes text, int depth_max, int *beyond)
{
    *out = NULL;
    if (text.len > INT_MAX || !strict_json_check(text, depth_max, beyond))
        return 0;
    json_tokener *tokener = json_tokener_new_ex(depth_max + 1);
    if (!tokener)
        return 0;
    *out = json_tokener_parse_ex(tokener, text.data, (int)text.len);
    if (json_tokener_get_error(tokener) == json_tokener_continue)
        *out = json_tokener_parse_ex(tokener, "", 1);
    int ok = json_tokener_get_error(tokener) == json_tokener_success;
    json_tokener_free(tokener);
    return ok;
}
