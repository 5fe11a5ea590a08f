/* See json_scan.h. All of it relies on the check before it, and only counts quotes and brackets. */
#include "program/support/json_scan.h"

#include "program/support/binary.h"

#include <string.h>

enum { FIRST_SURROGATE = 0xd800, LOW_SURROGATE = 0xdc00, AFTER_SURROGATES = 0xe000 };

/* --- taking apart ----------------------------------------------------------------------------- */

static int is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

semel_bytes scan_trimmed(semel_bytes text)
{
    const char *at = text.data;
    size_t len = text.len;
    while (len && is_space(at[len - 1]))
        len--;
    while (len && is_space(*at)) {
        at++;
        len--;
    }
    return (semel_bytes){at, len};
}

/* The end of the value that begins here: the check has seen that there is one. */
static const char *value_end(const char *at, const char *end)
{
    int depth = 0;
    for (int quoted = 0; at < end; at++) {
        if (quoted) {
            if (*at == '\\')
                at++;
            else
                quoted = *at != '"';
        } else if (*at == '"') {
            quoted = 1;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (!depth--)
                return at;
        } else if ((*at == ',' || *at == ':') && !depth) {
            return at;
        }
    }
    return at;
}

static semel_bytes piece(const char **at, const char *end)
{
    const char *start = *at;
    *at = value_end(start, end);
    return scan_trimmed((semel_bytes){start, (size_t)(*at - start)});
}

int scan_next(scan_member *out, const char **at, semel_bytes object)
{
    const char *start = object.data, *end = start + object.len;
    *at = *at ? *at : start;
    if (*at + 1 >= end) /* behind the last bracket, or before it */
        return 0;
    *at += 1; /* the first bracket, or a comma */
    *out = (scan_member){{NULL, 0}, piece(at, end)};
    if (!out->value.len)
        return 0;
    if (*start == '{') {
        out->name = out->value;
        *at += 1;
        out->value = piece(at, end);
    }
    return 1;
}

semel_bytes scan_find(semel_bytes object, const char *name)
{
    size_t len = strlen(name);
    scan_member one;
    if (!object.len || *(const char *)object.data != '{')
        return (semel_bytes){NULL, 0};
    for (const char *at = NULL; scan_next(&one, &at, object);)
        if (one.name.len == len + 2 && memcmp((const char *)one.name.data + 1, name, len) == 0)
            return one.value;
    return (semel_bytes){NULL, 0};
}

int scan_is_null(semel_bytes value)
{
    return value.len == 4 && memcmp(value.data, "null", 4) == 0;
}

/* --- strings ---------------------------------------------------------------------------------- */

static uint32_t four_digits(const char *at)
{
    uint32_t code = 0;
    for (int i = 0; i < 4; i++)
        code = code << 4 | (uint32_t)binary_hex_digit(at[i]);
    return code;
}

static size_t put_utf8(char *out, uint32_t code)
{
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[len] | code);
    return len;
}

/* \uXXXX, or two of them; returns how many bytes were read behind the backslash, 0 if it is half.
 * */
static size_t decode_unicode(const char *at, size_t left, char **out)
{
    uint32_t code = four_digits(at + 1);
    size_t used = 5;
    if (code >= FIRST_SURROGATE && code < AFTER_SURROGATES) {
        uint32_t low = left >= 11 && at[5] == '\\' && at[6] == 'u' ? four_digits(at + 7) : 0;
        if (code >= LOW_SURROGATE || low < LOW_SURROGATE || low >= AFTER_SURROGATES)
            return 0;
        code = 0x10000 + ((code - FIRST_SURROGATE) << 10) + (low - LOW_SURROGATE);
        used = 11;
    }
    *out += put_utf8(*out, code);
    return used;
}

static size_t decode_escape(const char *at, size_t left, char **out)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    if (*at == 'u')
        return decode_unicode(at, left, out);
    const char *found = strchr(from, *at);
    *(*out)++ = found ? to[found - from] : *at;
    return 1;
}

const char *scan_text(size_t *len, region *memory, semel_bytes value)
{
    const char *at = value.data;
    if (value.len < 2 || *at != '"')
        return NULL;
    const char *end = ++at + value.len - 2;
    char *text = region_alloc(memory, value.len), *out = text;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        at++;
        size_t used = decode_escape(at, (size_t)(end - at), &out);
        if (!used)
            return NULL;
        at += used;
    }
    *out = 0;
    *len = (size_t)(out - text);
    return text;
}
