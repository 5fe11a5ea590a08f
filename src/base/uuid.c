#include "base/uuid.h"

#include <string.h>

static void put_hex(char *out, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
}

void uuid_v7(char out[UUID_TEXT + 1], int64_t wall_ms, const unsigned char noise[10])
{
    unsigned char bytes[16];
    uint64_t time = (uint64_t)wall_ms;
    for (int i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(time >> (8 * (5 - i)));
    memcpy(bytes + 6, noise, 10);
    bytes[6] = (unsigned char)(0x70 | (bytes[6] & 0x0f));
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
    memset(out, '-', UUID_TEXT);
    put_hex(out, bytes, 4);
    put_hex(out + 9, bytes + 4, 2);
    put_hex(out + 14, bytes + 6, 2);
    put_hex(out + 19, bytes + 8, 2);
    put_hex(out + 24, bytes + 10, 6);
    out[UUID_TEXT] = 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int64_t uuid_v7_time(const char *text, size_t len)
{
    if (len != UUID_TEXT || text[14] != '7' || !memchr("89abAB", text[19], 6))
        return 0;
    int64_t time = 0;
    for (size_t i = 0; i < UUID_TEXT; i++) {
        int dash = i == 8 || i == 13 || i == 18 || i == 23;
        int digit = dash ? (text[i] == '-' ? 0 : -1) : hex_digit(text[i]);
        if (digit < 0)
            return 0;
        if (i < 13 && !dash)
            time = time << 4 | digit;
    }
    return time;
}

/* ULIDs are written in upper case and, says their specification, read in either. */
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
