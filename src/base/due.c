#include "base/due.h"

#include <stdio.h>
#include <string.h>

enum { DUE_TEXT = 24 };

static int is_due(const semel_header *header)
{
    return strcmp(header->name, SEMEL_HEADER_DUE) == 0;
}

static semel_status copy_headers(semel_header *to, size_t *count, const semel_message *message,
                                 semel_error *err)
{
    *count = 0;
    for (size_t i = 0; i < message->header_count; i++)
        if (!is_due(&message->headers[i]))
            to[(*count)++] = message->headers[i];
    return *count < SEMEL_HEADERS_MAX
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ELIMIT,
                            "a message that is delayed or replayed has room for %zu headers, "
                            "besides " SEMEL_HEADER_DUE,
                            SEMEL_HEADERS_MAX - 1);
}

semel_status due_set(semel_message *message, mem_arena *arena, int64_t due_ms, semel_error *err)
{
    size_t count;
    semel_header *headers = arena_alloc(arena, (message->header_count + 1) * sizeof *headers);
    char *text = arena_alloc(arena, DUE_TEXT);
    if (!headers || !text)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a header");
    semel_status status = copy_headers(headers, &count, message, err);
    if (status)
        return status;
    int len = snprintf(text, DUE_TEXT, "%lld", (long long)due_ms);
    headers[count] = (semel_header){SEMEL_HEADER_DUE, {text, (size_t)len}};
    message->headers = headers;
    message->header_count = count + 1;
    return SEMEL_OK;
}

semel_status due_set_if_room(semel_message *message, mem_arena *arena, int64_t due_ms,
                             semel_error *err)
{
    size_t others = 0;
    for (size_t i = 0; i < message->header_count; i++)
        others += !is_due(&message->headers[i]);
    return others < SEMEL_HEADERS_MAX ? due_set(message, arena, due_ms, err) : SEMEL_OK;
}

int64_t due_get(const semel_message *message)
{
    enum { DIGITS_MAX = 18 };
    semel_bytes text = semel_message_header(message, SEMEL_HEADER_DUE);
    const char *digits = text.data;
    int64_t value = 0;
    if (text.len > DIGITS_MAX)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return 0;
        value = value * 10 + (digits[i] - '0');
    }
    return value;
}
