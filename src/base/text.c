#include "base/text.h"

#include "base/mem.h"

#include <string.h>

int text_same(const char *a, const char *b)
{
    while (*a && text_lower(*a) == text_lower(*b)) {
        a++;
        b++;
    }
    return text_lower(*a) == text_lower(*b);
}

static int begins_with(const char *text, const char *part)
{
    while (*part && text_lower(*text) == text_lower(*part)) {
        text++;
        part++;
    }
    return !*part;
}

int text_contains(const char *text, const char *part)
{
    while (*text && !begins_with(text, part))
        text++;
    return begins_with(text, part);
}

static int grow(text_buffer *t, size_t len)
{
    size_t capacity = 2 * t->capacity + len + 256;
    char *bytes = mem_resize(t->bytes, capacity);
    if (!bytes) {
        t->failed = 1;
        return 0;
    }
    t->bytes = bytes;
    t->capacity = capacity;
    return 1;
}

char *text_extend(text_buffer *t, size_t len)
{
    if (t->failed || (t->capacity - t->len < len && !grow(t, len)))
        return NULL;
    t->len += len;
    return t->bytes + t->len - len;
}

void text_append(text_buffer *t, const void *data, size_t len)
{
    char *room = len ? text_extend(t, len) : NULL;
    if (room)
        memcpy(room, data, len);
}

void text_append_z(text_buffer *t, const char *string)
{
    text_append(t, string, strlen(string));
}

/* How many bytes from `at` on stand for themselves in a JSON string. */
static size_t plain_run(const unsigned char *at, size_t len)
{
    size_t run = 0;
    while (run < len && at[run] >= 0x20 && at[run] != '"' && at[run] != '\\')
        run++;
    return run;
}

static void append_escape(text_buffer *t, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char known[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = c ? strchr(known, c) : NULL;
    const char brief[] = {'\\', found ? letters[found - known] : 0};
    const char unicode[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    if (found)
        text_append(t, brief, sizeof brief);
    else
        text_append(t, unicode, sizeof unicode);
}

void text_append_json(text_buffer *t, const void *data, size_t len)
{
    const unsigned char *at = data;
    text_append(t, "\"", 1);
    while (len) {
        size_t run = plain_run(at, len);
        text_append(t, at, run);
        at += run;
        len -= run;
        if (len) {
            append_escape(t, *at++);
            len--;
        }
    }
    text_append(t, "\"", 1);
}
