/* See signature_parse.h. */
#include "program/gateway/signature_parse.h"

#include "program/support/binary.h"

#include <string.h>

enum { SHA256_SIZE = 32, ED25519_SIZE = 64, TIME_DIGITS_MAX = 12 };

static const char too_many[] = "it has more than 16 signatures";
static const char no_digits[] = "it is not a signature in hexadecimal digits of the right length";
static const char no_base64[] = "it is not a signature in base64 of the right length";

/* 0: the text is not `size` bytes in this encoding. */
static int decode(signature_bytes *out, const char *text, size_t len, hmac_encoding encoding,
                  size_t size)
{
    region memory = {0};
    semel_bytes bytes = {0};
    int good = len <= SIGNATURE_HEADER_MAX &&
               (encoding == HMAC_HEX ? binary_from_hex(&bytes, &memory, text, len)
                                     : binary_from_base64(&bytes, &memory, text, len)) &&
               bytes.len == size && size <= sizeof out->bytes;
    if (good) {
        memcpy(out->bytes, bytes.data, size);
        out->len = size;
    }
    region_free(&memory);
    return good;
}

static const char *add(signature_list *to, const char *text, size_t len, signature_kind kind,
                       hmac_encoding encoding, size_t size)
{
    if (to->count == SIGNATURES_MAX)
        return too_many;
    signature_bytes *next = &to->items[to->count];
    next->kind = kind;
    if (!decode(next, text, len, encoding, size))
        return encoding == HMAC_HEX ? no_digits : no_base64;
    to->count++;
    return NULL;
}

const char *signature_parse_one(signature_list *out, const char *text, const char *prefix,
                                hmac_encoding encoding, size_t size)
{
    size_t len = strlen(prefix);
    if (strncmp(text, prefix, len) != 0)
        return "it does not begin with its prefix";
    return add(out, text + len, strlen(text + len), SIGNATURE_HMAC, encoding, size);
}

static int begins_with(const char *text, size_t len, const char *beginning)
{
    size_t most = strlen(beginning);
    return len >= most && memcmp(text, beginning, most) == 0;
}

static const char *add_standard(signature_list *out, const char *text, size_t len)
{
    if (begins_with(text, len, "v1,"))
        return add(out, text + 3, len - 3, SIGNATURE_HMAC, HMAC_BASE64, SHA256_SIZE);
    if (begins_with(text, len, "v1a,"))
        return add(out, text + 4, len - 4, SIGNATURE_ED25519, HMAC_BASE64, ED25519_SIZE);
    return NULL;
}

const char *signature_parse_standard(signature_list *out, const char *text)
{
    const char *wrong = NULL;
    for (const char *at = text; !wrong && *at; at += *at == ' ') {
        size_t len = strcspn(at, " ");
        wrong = add_standard(out, at, len);
        at += len;
    }
    return wrong || out->count ? wrong : "it has no v1 and no v1a signature";
}

static const char *add_stripe(signature_list *out, semel_bytes *time, const char *text, size_t len)
{
    if (begins_with(text, len, "v1="))
        return add(out, text + 3, len - 3, SIGNATURE_HMAC, HMAC_HEX, SHA256_SIZE);
    if (!begins_with(text, len, "t="))
        return NULL;
    if (time->data)
        return "it has two times";
    *time = (semel_bytes){text + 2, len - 2};
    return NULL;
}

const char *signature_parse_stripe(signature_list *out, semel_bytes *time, const char *text)
{
    const char *wrong = NULL;
    *time = (semel_bytes){0};
    for (const char *at = text; !wrong && *at; at += *at == ',') {
        at += strspn(at, " ");
        size_t len = strcspn(at, ",");
        wrong = add_stripe(out, time, at, len);
        at += len;
    }
    if (!wrong && !time->data)
        wrong = "it has no time, t=";
    return wrong || out->count ? wrong : "it has no v1 signature";
}

int64_t signature_parse_time(semel_bytes text)
{
    const char *digits = text.data;
    int64_t value = 0;
    if (!text.len || text.len > TIME_DIGITS_MAX)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return -1;
        value = value * 10 + (digits[i] - '0');
    }
    return value;
}
