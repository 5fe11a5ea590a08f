/* A message's columns, in the order of MESSAGE_COLUMNS in statement.c. */
#include "base/message.h"
#include "store/sqlite/sqlite.h"

#include <string.h>

/* The headers' blob goes to the arena, which must live until the statement has run. */
semel_status sqlite_message_bind(sqlite_query *q, mem_arena *arena, const semel_message *message,
                                 semel_error *err)
{
    semel_bytes headers = {NULL, 0};
    semel_status status = sql_headers_pack(&headers, arena, message, err);
    if (status)
        return status;
    sqlite_query_text(q, sql_text_or_null(message->group));
    sqlite_query_bytes(q, message->id);
    sqlite_query_text(q, message->source);
    sqlite_query_text(q, message->type);
    sqlite_query_text(q, message->topic);
    sqlite_query_bytes(q, message->correlation_id);
    sqlite_query_text(q, message->content_type);
    sqlite_query_int_or_null(q, message->time_ms);
    sqlite_query_bytes(q, headers);
    sqlite_query_bytes(q, message->body);
    return SEMEL_OK;
}

/* Borrowed from the row, but for the headers, which are in the arena. */
semel_status sqlite_message_read(semel_message *out, mem_arena *arena, const sqlite_query *q,
                                 int first, semel_error *err)
{
    *out = (semel_message){.size = sizeof *out,
                           .group = sqlite_row_text(q, first + MESSAGE_GROUP),
                           .id = sqlite_row_bytes(q, first + MESSAGE_ID),
                           .source = sqlite_row_text(q, first + MESSAGE_SOURCE),
                           .type = sqlite_row_text(q, first + MESSAGE_TYPE),
                           .topic = sqlite_row_text(q, first + MESSAGE_TOPIC),
                           .correlation_id = sqlite_row_bytes(q, first + MESSAGE_CORRELATION_ID),
                           .content_type = sqlite_row_text(q, first + MESSAGE_CONTENT_TYPE),
                           .time_ms = sqlite_row_int(q, first + MESSAGE_TIME),
                           .body = sqlite_row_bytes(q, first + MESSAGE_BODY)};
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's text");
    return headers_read(&out->headers, &out->header_count, arena,
                        sqlite_row_bytes(q, first + MESSAGE_HEADERS), err);
}
