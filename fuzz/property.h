/* What the fuzz targets share. A target reads an input, calls the library and says what must hold
 * afterwards: a crash is found without it, a wrong answer is not.
 *
 * A target is run by libFuzzer (`make fuzz`), or by driver.c as a test. */
#ifndef SEMEL_FUZZ_PROPERTY_H
#define SEMEL_FUZZ_PROPERTY_H

#include <semel/message.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's name for a target; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(condition) \
    ((condition) ? (void)0 : property_broken(#condition, __FILE__, __LINE__, NULL))

/* The same with a text that helps to understand: the wrong answer. */
#define HOLDS_FOR(text, condition) \
    ((condition) ? (void)0 : property_broken(#condition, __FILE__, __LINE__, (text)))

static inline _Noreturn void property_broken(const char *condition, const char *file, int line,
                                             const char *text)
{
    (void)fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
    if (text)
        (void)fprintf(stderr, "  of: %s\n", text);
    abort();
}

/* A copy that ends where its memory ends, so that a sanitizer sees a step too far; never NULL. */
static inline void *exact_copy(const void *data, size_t len)
{
    void *copy = malloc(len ? len : 1);
    HOLDS(copy);
    if (len)
        memcpy(copy, data, len);
    return copy;
}

/* The same as a C text, up to the first NUL. */
static inline char *exact_text(const void *data, size_t len)
{
    const void *nul = len ? memchr(data, 0, len) : NULL;
    size_t used = nul ? (size_t)((const char *)nul - (const char *)data) : len;
    char *copy = malloc(used + 1);
    HOLDS(copy);
    if (used)
        memcpy(copy, data, used);
    copy[used] = 0;
    return copy;
}

static inline int same_bytes(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

/* Absent and empty are the same in a message. */
static inline int same_text(const char *a, const char *b)
{
    return same_bytes(semel_str(a), semel_str(b));
}

/* Of every failure: it has a reason, on one line. */
static inline void check_error(semel_status status, const semel_error *err)
{
    HOLDS(status != SEMEL_OK);
    HOLDS(err->status == status);
    HOLDS(err->text[0]);
    HOLDS_FOR(err->text, strpbrk(err->text, "\r\n") == NULL);
}

#endif
