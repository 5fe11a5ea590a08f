/* Text: ASCII letters without regard to case or locale, and a text that grows. */
#ifndef SEMEL_BASE_TEXT_H
#define SEMEL_BASE_TEXT_H

#include <stddef.h>

static inline char text_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* 1 if they differ in the case of ASCII letters at most. (strcasecmp() would ask the locale.) */
int text_same(const char *a, const char *b);

/* 1 if `part` is somewhere in the text, compared in the same way. */
int text_contains(const char *text, const char *part);

/* Starts as {0}. When memory runs out `failed` is set and nothing is added any more, so it is
 * enough to look once, at the end; `bytes` is then still to be freed with mem_free(). */
typedef struct text_buffer {
    char *bytes; /* not NUL-terminated unless that is appended, too */
    size_t len;
    size_t capacity;
    int failed;
} text_buffer;

/* Adds room for `len` characters and returns it for the caller to fill; NULL when out of memory. */
char *text_extend(text_buffer *t, size_t len);
void text_append(text_buffer *t, const void *data, size_t len);
void text_append_z(text_buffer *t, const char *string);

/* In quotes, escaped as JSON wants it; the bytes must be UTF-8. */
void text_append_json(text_buffer *t, const void *data, size_t len);

#endif
