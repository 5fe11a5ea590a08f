/* A message's columns, in the order of MESSAGE_COLUMNS in statement.c. */
#include "base/message.h"
#include "store/sqlite/sqlite.h"

#include <string.h>

static const char *text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

/* The headers' blob goes to the arena, which must live until the statement has run. */
semel_status sqlite_message_bind(sqlite_query *q, mem_arena *arena, const semel_message *message,
                                 semel_error *err)
{
    size_t size = headers_size(message);
    unsigned char *headers = size ? arena_alloc(arena, size) : NULL;
    if (size && !headers)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's headers");
    if (size)
        headers_write(headers, message);
    sqlite_query_text(q, text_or_null(message->group));
    sqlite_query_bytes(q, message->id);
    sqlite_query_text(q, message->source);
    sqlite_query_text(q, message->type);
    sqlite_query_text(q, message->topic);
    sqlite_query_bytes(q, message->correlation_id);
    sqlite_query_text(q, message->content_type);
    sqlite_query_int_or_null(q, message->time_ms);
    sqlite_query_bytes(q, (semel_bytes){headers, size});
    sqlite_query_bytes(q, message->body);
    return SEMEL_OK;
}

/* Borrowed from the row, but for the headers, which are in the arena. */
semel_status sqlite_message_read(semel_message *out, mem_arena *arena, const sqlite_query *q,
                                 int first, semel_error *err)
{
    *out = (semel_message){.size = sizeof *out,
                           .group = sqlite_row_text(q, first),
                           .id = sqlite_row_bytes(q, first + 1),
                           .source = sqlite_row_text(q, first + 2),
                           .type = sqlite_row_text(q, first + 3),
                           .topic = sqlite_row_text(q, first + 4),
                           .correlation_id = sqlite_row_bytes(q, first + 5),
                           .content_type = sqlite_row_text(q, first + 6),
                           .time_ms = sqlite_row_int(q, first + 7),
                           .body = sqlite_row_bytes(q, first + 9)};
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's text");
    return headers_read(&out->headers, &out->header_count, arena, sqlite_row_bytes(q, first + 8),
                        err);
}
