/* The encoding of values: see fields.h. A length below 255 is one byte; a longer one is the byte
 * 255 and four bytes more. An integer is 1 to 8 bytes, the lowest first, with its sign in the last
 * one. */
#include "store/keyed/fields.h"

#include <limits.h>
#include <string.h>

enum { FIRST_CAPACITY = 96, LONG = 255, LONG_LEN = 4, INT_LEN = 8 };

static int make_room(fields_writer *to, size_t more)
{
    if (to->failed || more > UINT32_MAX)
        return 0;
    if (to->capacity - to->len >= more)
        return 1;
    size_t capacity = to->capacity ? to->capacity : FIRST_CAPACITY;
    while (capacity - to->len < more)
        capacity *= 2;
    unsigned char *data = arena_alloc(to->arena, capacity);
    if (!data)
        return 0;
    if (to->len)
        memcpy(data, to->data, to->len);
    to->data = data;
    to->capacity = capacity;
    return 1;
}

static void put_length(fields_writer *to, size_t len)
{
    if (len < LONG) {
        to->data[to->len++] = (unsigned char)len;
        return;
    }
    to->data[to->len++] = LONG;
    for (int i = 0; i < LONG_LEN; i++)
        to->data[to->len++] = (unsigned char)(len >> (8 * i));
}

void fields_bytes(fields_writer *to, uint8_t field, semel_bytes value)
{
    if (!value.len)
        return;
    if (!make_room(to, 2 + LONG_LEN + value.len)) {
        to->failed = 1;
        return;
    }
    to->data[to->len++] = field;
    put_length(to, value.len);
    memcpy(to->data + to->len, value.data, value.len);
    to->len += value.len;
}

void fields_text(fields_writer *to, uint8_t field, const char *value)
{
    if (value)
        fields_bytes(to, field, semel_str(value));
}

static int fits(int64_t value, int bytes)
{
    int64_t limit = (int64_t)1 << (8 * bytes - 1);
    return value >= -limit && value < limit;
}

void fields_int(fields_writer *to, uint8_t field, int64_t value)
{
    unsigned char bytes[INT_LEN];
    int len = 1;
    if (!value)
        return;
    while (len < INT_LEN && !fits(value, len))
        len++;
    for (int i = 0; i < len; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (8 * i));
    fields_bytes(to, field, (semel_bytes){bytes, (size_t)len});
}

int fields_end(semel_bytes *out, fields_writer *from)
{
    *out = (semel_bytes){from->len ? from->data : (unsigned char *)"", from->len};
    return !from->failed;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int take_length(fields_reader *from, size_t *out)
{
    const unsigned char *at = from->rest.data;
    size_t used = at[1] == LONG ? 2 + LONG_LEN : 2;
    size_t len = at[1];
    if (from->rest.len < used)
        return 0;
    if (at[1] == LONG) {
        len = 0;
        for (int i = 0; i < LONG_LEN; i++)
            len |= (size_t)at[2 + i] << (8 * i);
    }
    from->rest = (semel_bytes){at + used, from->rest.len - used};
    *out = len;
    return len <= from->rest.len;
}

int fields_next(fields_reader *from)
{
    size_t len;
    if (!from->rest.len || from->damaged)
        return 0;
    const unsigned char *at = from->rest.data;
    if (from->rest.len < 2 || !take_length(from, &len)) {
        from->damaged = 1;
        return 0;
    }
    from->field = at[0];
    from->bytes = (semel_bytes){from->rest.data, len};
    from->rest = (semel_bytes){(const unsigned char *)from->rest.data + len, from->rest.len - len};
    return 1;
}

int64_t fields_int_of(const fields_reader *at)
{
    const unsigned char *bytes = at->bytes.data;
    size_t len = at->bytes.len;
    uint64_t value = len && (bytes[len - 1] & 0x80U) ? UINT64_MAX : 0;
    for (size_t i = len < INT_LEN ? len : INT_LEN; i-- > 0;)
        value = value << 8 | bytes[i];
    return (int64_t)value;
}
