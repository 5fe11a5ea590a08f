#include "base/uuid.h"

#include <string.h>

static void put_hex(char *out, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
}

/* With the bits of version and variant in their places. */
static void put_uuid(char out[UUID_TEXT + 1], const unsigned char given[16], unsigned version)
{
    unsigned char bytes[16];
    memcpy(bytes, given, sizeof bytes);
    bytes[6] = (unsigned char)(version << 4 | (bytes[6] & 0x0f));
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
    memset(out, '-', UUID_TEXT);
    put_hex(out, bytes, 4);
    put_hex(out + 9, bytes + 4, 2);
    put_hex(out + 14, bytes + 6, 2);
    put_hex(out + 19, bytes + 8, 2);
    put_hex(out + 24, bytes + 10, 6);
    out[UUID_TEXT] = 0;
}

void uuid_v7(char out[UUID_TEXT + 1], int64_t wall_ms, const unsigned char noise[10])
{
    unsigned char bytes[16];
    uint64_t time = (uint64_t)wall_ms;
    for (int i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(time >> (8 * (5 - i)));
    memcpy(bytes + 6, noise, 10);
    put_uuid(out, bytes, 7);
}

void uuid_v8(char out[UUID_TEXT + 1], const unsigned char bytes[16])
{
    put_uuid(out, bytes, 8);
}

/* One bit per character: is it a hexadecimal digit? This stands in the path of every message, so
 * the text is looked at without a branch per character. */
static unsigned is_hex(unsigned char c)
{
    static const uint32_t digits[8] = {[1] = 0x03ff0000, [2] = 0x7e, [3] = 0x7e};
    return digits[c >> 5] >> (c & 31) & 1;
}

static int64_t hex_value(unsigned char c)
{
    return (c & 15) + 9 * (c >> 6);
}

int64_t uuid_v7_time(const char *text, size_t len)
{
    if (len != UUID_TEXT || text[14] != '7' || !memchr("89abAB", text[19], 6) || text[8] != '-' ||
        text[13] != '-' || text[18] != '-' || text[23] != '-')
        return 0;
    int64_t time = 0;
    unsigned digits = 0;
    for (size_t i = 0; i < UUID_TEXT; i++)
        digits += is_hex((unsigned char)text[i]);
    for (size_t i = 0; i < 13; i++)
        if (i != 8)
            time = time << 4 | hex_value((unsigned char)text[i]);
    return digits == UUID_TEXT - 4 ? time : 0;
}

int64_t ulid_time(const char *text, size_t len)
{
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if (len != 26 || text[0] > '7')
        return 0;
    int64_t time = 0;
    for (size_t i = 0; i < len; i++) {
        char upper = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
        const char *digit = upper ? strchr(alphabet, upper) : NULL;
        if (!digit)
            return 0;
        if (i < 10)
            time = time << 5 | (digit - alphabet);
    }
    return time;
}
