/* A message's columns, in the order of MESSAGE_COLUMNS in statement.c: one message, or a column of
 * many. */
#include "base/message.h"
#include "base/utf8.h"
#include "store/postgres/postgres.h"

#include <string.h>

semel_status pg_message_bind(pg_query *q, mem_arena *arena, const semel_message *message,
                             semel_error *err)
{
    semel_bytes headers = {NULL, 0};
    semel_status status = sql_headers_pack(&headers, arena, message, err);
    if (status)
        return status;
    pg_text(q, sql_text_or_null(message->group));
    pg_bytes(q, message->id);
    pg_text(q, message->source);
    pg_text(q, message->type);
    pg_text(q, message->topic);
    pg_bytes(q, message->correlation_id);
    pg_text(q, message->content_type);
    pg_int_or_null(q, message->time_ms);
    pg_bytes(q, headers);
    pg_bytes(q, message->body);
    return SEMEL_OK;
}

const char *pg_mended(mem_arena *arena, const char *text)
{
    if (!text || utf8_valid(text, strlen(text)))
        return text;
    char *copy = arena_copy(arena, text, strlen(text));
    if (copy)
        utf8_mend(copy);
    return copy ? copy : "(not a text)";
}

void pg_foreign_text(pg_query *q, mem_arena *arena, const char *text)
{
    pg_text(q, pg_mended(arena, text));
}

semel_status pg_foreign_message_bind(pg_query *q, mem_arena *arena, const semel_message *message,
                                     semel_error *err)
{
    semel_message texts = *message;
    texts.group = pg_mended(arena, message->group);
    texts.source = pg_mended(arena, message->source);
    texts.type = pg_mended(arena, message->type);
    texts.topic = pg_mended(arena, message->topic);
    texts.content_type = pg_mended(arena, message->content_type);
    return pg_message_bind(q, arena, &texts, err);
}

/* Borrowed from the answer, but for the headers, which are in the arena. */
semel_status pg_message_read(semel_message *out, mem_arena *arena, const PGresult *answer, int row,
                             int first, semel_error *err)
{
    *out = (semel_message){
        .size = sizeof *out,
        .group = pg_answer_text(answer, row, first + MESSAGE_GROUP),
        .id = pg_answer_bytes(answer, row, first + MESSAGE_ID),
        .source = pg_answer_text(answer, row, first + MESSAGE_SOURCE),
        .type = pg_answer_text(answer, row, first + MESSAGE_TYPE),
        .topic = pg_answer_text(answer, row, first + MESSAGE_TOPIC),
        .correlation_id = pg_answer_bytes(answer, row, first + MESSAGE_CORRELATION_ID),
        .content_type = pg_answer_text(answer, row, first + MESSAGE_CONTENT_TYPE),
        .time_ms = pg_answer_int(answer, row, first + MESSAGE_TIME),
        .body = pg_answer_bytes(answer, row, first + MESSAGE_BODY)};
    return headers_read(&out->headers, &out->header_count, arena,
                        pg_answer_bytes(answer, row, first + MESSAGE_HEADERS), err);
}

/* --- many ------------------------------------------------------------------------------------- */

typedef semel_bytes column_of(const semel_message *message);

static semel_bytes of_text(const char *text)
{
    return text ? semel_str(text) : (semel_bytes){NULL, 0};
}

static semel_bytes group_of(const semel_message *m)
{
    return of_text(sql_text_or_null(m->group));
}
static semel_bytes id_of(const semel_message *m)
{
    return m->id;
}
static semel_bytes source_of(const semel_message *m)
{
    return of_text(m->source);
}
static semel_bytes type_of(const semel_message *m)
{
    return of_text(m->type);
}
static semel_bytes topic_of(const semel_message *m)
{
    return of_text(m->topic);
}
static semel_bytes correlation_of(const semel_message *m)
{
    return m->correlation_id;
}
static semel_bytes content_type_of(const semel_message *m)
{
    return of_text(m->content_type);
}
static semel_bytes body_of(const semel_message *m)
{
    return m->body;
}

static int bind_column(pg_query *q, mem_arena *arena, const semel_message *const messages[],
                       size_t count, uint32_t type, column_of *column)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += column(messages[i]).len;
    pg_array a = pg_array_start(arena, type, count, size);
    for (size_t i = 0; i < count; i++)
        pg_array_add(&a, column(messages[i]).data, column(messages[i]).len);
    pg_array_bind(q, &a);
    return !a.failed;
}

static int bind_times(pg_query *q, mem_arena *arena, const semel_message *const messages[],
                      size_t count)
{
    pg_array a = pg_array_start(arena, ARRAY_INT8, count, count * 8);
    for (size_t i = 0; i < count; i++)
        if (messages[i]->time_ms)
            pg_array_add_int(&a, messages[i]->time_ms);
        else
            pg_array_add(&a, NULL, 0);
    pg_array_bind(q, &a);
    return !a.failed;
}

static int bind_headers(pg_query *q, mem_arena *arena, const semel_message *const messages[],
                        size_t count)
{
    size_t size = 0;
    semel_bytes headers = {NULL, 0};
    for (size_t i = 0; i < count; i++)
        size += headers_size(messages[i]);
    pg_array a = pg_array_start(arena, ARRAY_BYTEA, count, size);
    for (size_t i = 0; i < count; i++) {
        if (sql_headers_pack(&headers, arena, messages[i], NULL))
            return 0;
        pg_array_add(&a, headers.data, headers.len);
    }
    pg_array_bind(q, &a);
    return !a.failed;
}

semel_status pg_messages_bind(pg_query *q, mem_arena *arena, const semel_message *const messages[],
                              size_t count, semel_error *err)
{
    int bound = bind_column(q, arena, messages, count, ARRAY_TEXT, group_of) &&
                bind_column(q, arena, messages, count, ARRAY_BYTEA, id_of) &&
                bind_column(q, arena, messages, count, ARRAY_TEXT, source_of) &&
                bind_column(q, arena, messages, count, ARRAY_TEXT, type_of) &&
                bind_column(q, arena, messages, count, ARRAY_TEXT, topic_of) &&
                bind_column(q, arena, messages, count, ARRAY_BYTEA, correlation_of) &&
                bind_column(q, arena, messages, count, ARRAY_TEXT, content_type_of) &&
                bind_times(q, arena, messages, count) && bind_headers(q, arena, messages, count) &&
                bind_column(q, arena, messages, count, ARRAY_BYTEA, body_of);
    return bound ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory for outgoing messages");
}
