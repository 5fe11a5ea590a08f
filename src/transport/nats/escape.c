/* Every value comes back as it was: the escape character itself is escaped. */
#include "transport/nats/escape.h"

static int is_kept(unsigned char byte, const char *more)
{
    return byte > ' ' && byte < 0x7f && byte != '%' && byte != '"' && !strchr(more, byte);
}

char *jet_escape(char *at, semel_bytes bytes, const char *more)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *from = bytes.data;
    for (size_t i = 0; i < bytes.len; i++)
        if (is_kept(from[i], more)) {
            *at++ = (char)from[i];
        } else {
            *at++ = '%';
            *at++ = digits[from[i] >> 4];
            *at++ = digits[from[i] & 15];
        }
    return at;
}

const char *jet_escape_text(mem_arena *arena, semel_bytes bytes)
{
    char *text = arena_alloc(arena, 3 * bytes.len + 1);
    if (text)
        *jet_escape(text, bytes, "") = 0;
    return text;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *jet_unescape(size_t *len, mem_arena *arena, const char *text, size_t text_len)
{
    char *out = arena_alloc(arena, text_len + 1);
    size_t count = 0;
    if (!out)
        return NULL;
    for (size_t i = 0; i < text_len; i++) {
        int high = text[i] == '%' && i + 2 < text_len ? digit_of(text[i + 1]) : -1;
        int low = high >= 0 ? digit_of(text[i + 2]) : -1;
        out[count++] = low >= 0 ? (char)(high * 16 + low) : text[i];
        i += low >= 0 ? 2 : 0;
    }
    out[count] = 0;
    *len = count;
    return out;
}
