/* A message's columns, in the order of MESSAGE_COLUMNS in statement.c. */
#include "base/message.h"
#include "store/sqlite/sqlite.h"

#include <string.h>

static const char *text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

/* The headers' blob goes to the arena, which must live until the statement has run. */
semel_status message_bind(query *q, mem_arena *arena, const semel_message *message,
                          semel_error *err)
{
    size_t size = headers_size(message);
    unsigned char *headers = size ? arena_alloc(arena, size) : NULL;
    if (size && !headers)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's headers");
    if (size)
        headers_write(headers, message);
    query_text(q, text_or_null(message->group));
    query_bytes(q, message->id);
    query_text(q, message->source);
    query_text(q, message->type);
    query_text(q, message->topic);
    query_bytes(q, message->correlation_id);
    query_text(q, message->content_type);
    query_int_or_null(q, message->time_ms);
    query_bytes(q, (semel_bytes){headers, size});
    query_bytes(q, message->body);
    return SEMEL_OK;
}

/* Borrowed from the row, but for the headers, which are in the arena. */
semel_status message_read(semel_message *out, mem_arena *arena, const query *q, int first,
                          semel_error *err)
{
    *out = (semel_message){.size = sizeof *out,
                           .group = column_text(q, first),
                           .id = column_bytes(q, first + 1),
                           .source = column_text(q, first + 2),
                           .type = column_text(q, first + 3),
                           .topic = column_text(q, first + 4),
                           .correlation_id = column_bytes(q, first + 5),
                           .content_type = column_text(q, first + 6),
                           .time_ms = column_int(q, first + 7),
                           .body = column_bytes(q, first + 9)};
    if (columns_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's text");
    return headers_read(&out->headers, &out->header_count, arena, column_bytes(q, first + 8), err);
}
