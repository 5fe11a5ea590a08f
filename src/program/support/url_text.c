/* See url_text.h. */
#include "program/support/url_text.h"

#include "program/support/binary.h"

#include <string.h>

/* %2F and the like, in place. What is no such code stays. */
static const char *decode_percent(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++, to++) {
        int high = *from == '%' ? binary_hex_digit(from[1]) : -1;
        int low = high >= 0 ? binary_hex_digit(from[2]) : -1;
        *to = low >= 0 ? (char)(high * 16 + low) : *from;
        from += low >= 0 ? 2 : 0;
    }
    *to = 0;
    return text;
}

/* Where "?name=" or "&name=" begins; NULL: nowhere. */
static const char *find(const char *url, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = strpbrk(url, "?#"); at && *at != '#'; at = strpbrk(at + 1, "&#"))
        if (strncmp(at + 1, name, len) == 0 && at[len + 1] == '=')
            return at;
    return NULL;
}

const char *url_parameter(region *memory, const char *url, const char *name)
{
    const char *at = find(url, name);
    if (!at)
        return NULL;
    const char *value = at + strlen(name) + 2;
    size_t size = strcspn(value, "&#");
    return size ? decode_percent(region_copy(memory, value, size)) : NULL;
}

static const char *kept(region *memory, buffer *text)
{
    const char *copy = region_copy(memory, text->data, text->len);
    buffer_free(text);
    return copy;
}

static const char *without(region *memory, const char *url, const char *name)
{
    const char *at = find(url, name);
    if (!at)
        return url;
    const char *rest = at + 1 + strcspn(at + 1, "&#");
    buffer text = {0};
    buffer_add(&text, url, (size_t)(at - url));
    if (*rest == '&')
        buffer_printf(&text, "%c%s", *at, rest + 1);
    else
        buffer_text(&text, rest);
    return without(memory, kept(memory, &text), name);
}

static void add_encoded(buffer *to, const char *value)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    for (; *value; value++)
        if (strchr(plain, *value))
            buffer_add(to, value, 1);
        else
            buffer_printf(to, "%%%02X", (unsigned)(unsigned char)*value);
}

const char *url_with_parameter(region *memory, const char *url, const char *name, const char *value)
{
    const char *others = without(memory, url, name);
    size_t len = strcspn(others, "#");
    buffer text = {0};
    buffer_add(&text, others, len);
    buffer_printf(&text, "%c%s=", memchr(others, '?', len) ? '&' : '?', name);
    add_encoded(&text, value);
    buffer_text(&text, others + len);
    return kept(memory, &text);
}

const char *url_with_path(region *memory, const char *url, const char *path)
{
    const char *authority = strstr(url, "://");
    const char *end = authority ? authority + 3 : url;
    end += strcspn(end, "/?#");
    buffer text = {0};
    buffer_add(&text, url, (size_t)(end - url));
    buffer_printf(&text, "/%s%s", path, end + strcspn(end, "?#"));
    return kept(memory, &text);
}
