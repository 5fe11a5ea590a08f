/* The encoding of messages: see item.h. A text that is NULL and one that is "" are the same, as in
 * the SQL stores. */
#include "store/keyed/item.h"

#include "base/message.h"

#include <string.h>

enum {
    MESSAGE_ID = KEYED_MESSAGE_FIELDS,
    MESSAGE_TYPE,
    MESSAGE_TOPIC,
    MESSAGE_GROUP,
    MESSAGE_CORRELATION,
    MESSAGE_SOURCE,
    MESSAGE_CONTENT_TYPE,
    MESSAGE_TIME
};

enum {
    ITEM_ATTEMPTS = 1,
    ITEM_REFUSALS,
    ITEM_CAPTURED,
    ITEM_DUE,
    ITEM_SENT,
    ITEM_ERROR,
    ITEM_PREVIOUS
};

enum { HEADERS_LEN = 4 }; /* before headers and body: the length of the headers */

/* --- messages --------------------------------------------------------------------------------- */

void keyed_message_write(fields_writer *to, const semel_message *message)
{
    fields_bytes(to, MESSAGE_ID, message->id);
    fields_text(to, MESSAGE_TYPE, message->type);
    fields_text(to, MESSAGE_TOPIC, message->topic);
    fields_text(to, MESSAGE_GROUP, message->group);
    fields_bytes(to, MESSAGE_CORRELATION, message->correlation_id);
    fields_text(to, MESSAGE_SOURCE, message->source);
    fields_text(to, MESSAGE_CONTENT_TYPE, message->content_type);
    fields_int(to, MESSAGE_TIME, message->time_ms);
}

static int take_text(const char **out, const fields_reader *at, mem_arena *arena)
{
    *out = arena_copy(arena, at->bytes.data, at->bytes.len);
    return *out != NULL;
}

static int take_bytes(semel_bytes *out, const fields_reader *at, mem_arena *arena)
{
    out->data = arena_copy(arena, at->bytes.data, at->bytes.len);
    out->len = out->data ? at->bytes.len : 0;
    return out->data != NULL;
}

int keyed_message_take(semel_message *message, const fields_reader *at, mem_arena *arena)
{
    switch (at->field) {
    case MESSAGE_ID:
        return take_bytes(&message->id, at, arena);
    case MESSAGE_TYPE:
        return take_text(&message->type, at, arena);
    case MESSAGE_TOPIC:
        return take_text(&message->topic, at, arena);
    case MESSAGE_GROUP:
        return take_text(&message->group, at, arena);
    case MESSAGE_CORRELATION:
        return take_bytes(&message->correlation_id, at, arena);
    case MESSAGE_SOURCE:
        return take_text(&message->source, at, arena);
    case MESSAGE_CONTENT_TYPE:
        return take_text(&message->content_type, at, arena);
    case MESSAGE_TIME:
        message->time_ms = fields_int_of(at);
        return 1;
    default:
        return 1;
    }
}

int keyed_message_body(semel_bytes *out, mem_arena *arena, const semel_message *message)
{
    size_t headers = headers_size(message), len = HEADERS_LEN + headers + message->body.len;
    *out = (semel_bytes){NULL, 0};
    if (!headers && !message->body.len)
        return 1;
    unsigned char *data = arena_alloc(arena, len);
    if (!data)
        return 0;
    for (int i = 0; i < HEADERS_LEN; i++)
        data[i] = (unsigned char)(headers >> (8 * i));
    if (headers)
        headers_write(data + HEADERS_LEN, message);
    if (message->body.len)
        memcpy(data + HEADERS_LEN + headers, message->body.data, message->body.len);
    *out = (semel_bytes){data, len};
    return 1;
}

semel_status keyed_message_take_body(semel_message *message, mem_arena *arena, semel_bytes body,
                                     semel_error *err)
{
    const unsigned char *data = body.data;
    size_t headers = 0;
    if (!body.len)
        return SEMEL_OK;
    for (size_t i = 0; i < HEADERS_LEN && i < body.len; i++)
        headers |= (size_t)data[i] << (8 * i);
    if (body.len < HEADERS_LEN || headers > body.len - HEADERS_LEN)
        return semel_fail(err, SEMEL_ESTORE, "its headers are cut off");
    size_t used = HEADERS_LEN + headers;
    message->body = (semel_bytes){body.len > used ? data + used : NULL, body.len - used};
    return headers_read(&message->headers, &message->header_count, arena,
                        (semel_bytes){data + HEADERS_LEN, headers}, err);
}

/* --- messages in an outbox -------------------------------------------------------------------- */

static int take_field(keyed_item *out, const fields_reader *at, mem_arena *arena)
{
    switch (at->field) {
    case ITEM_ATTEMPTS:
        out->attempts = (uint32_t)fields_int_of(at);
        return 1;
    case ITEM_REFUSALS:
        out->refusals = (uint32_t)fields_int_of(at);
        return 1;
    case ITEM_CAPTURED:
        out->captured_ms = fields_int_of(at);
        return 1;
    case ITEM_DUE:
        out->due_ms = fields_int_of(at);
        return 1;
    case ITEM_SENT:
        out->sent_ms = fields_int_of(at);
        return 1;
    case ITEM_ERROR:
        return take_text(&out->error, at, arena);
    case ITEM_PREVIOUS:
        out->previous = fields_int_of(at);
        return 1;
    default:
        return keyed_message_take(&out->message, at, arena);
    }
}

static semel_status refuse_damaged(keyed_item *item, const char *why, semel_error *err)
{
    item->damaged = 1;
    return semel_fail(err, SEMEL_ESTORE, "message %lld of the outbox is damaged: %s",
                      (long long)item->number, why);
}

/* The number is the end of the key: of o/ all of it, of x/ what is behind the time. */
static semel_status take_number(keyed_item *out, semel_bytes key, semel_error *err)
{
    if (key.len < KEYED_NUMBER_LEN)
        return refuse_damaged(out, "its key is too short", err);
    out->number = keyed_number_read((const unsigned char *)key.data + key.len - KEYED_NUMBER_LEN);
    return SEMEL_OK;
}

semel_status keyed_item_read(keyed_item *out, const semel_keyed_record *record, int64_t scope,
                             int contents, mem_arena *arena, semel_error *err)
{
    fields_reader reader = {.rest = record->value};
    semel_error why;
    *out = (keyed_item){.scope = scope,
                        .token = record->guard,
                        .until_ms = record->until_ms,
                        .error = "",
                        .message = {.size = sizeof out->message}};
    memcpy(out->version, record->version, sizeof out->version);
    semel_status status = take_number(out, record->key, err);
    while (!status && fields_next(&reader))
        if (!take_field(out, &reader, arena))
            status = keyed_out_of_memory(err);
    if (!status && reader.damaged)
        status = refuse_damaged(out, "its fields are cut off", err);
    semel_status read = status || !contents
                            ? SEMEL_OK
                            : keyed_message_take_body(&out->message, arena, record->body, &why);
    if (read == SEMEL_ENOMEM)
        return keyed_out_of_memory(err);
    return read ? refuse_damaged(out, why.text, err) : status;
}

int keyed_item_value(semel_bytes *out, mem_arena *arena, const keyed_item *item)
{
    fields_writer writer = {.arena = arena};
    fields_int(&writer, ITEM_ATTEMPTS, item->attempts);
    fields_int(&writer, ITEM_REFUSALS, item->refusals);
    fields_int(&writer, ITEM_CAPTURED, item->captured_ms);
    fields_int(&writer, ITEM_DUE, item->due_ms);
    fields_int(&writer, ITEM_SENT, item->sent_ms);
    fields_int(&writer, ITEM_PREVIOUS, item->previous);
    fields_text(&writer, ITEM_ERROR, item->error);
    keyed_message_write(&writer, &item->message);
    return fields_end(out, &writer);
}

int64_t keyed_item_wake_ms(const keyed_item *item)
{
    return item->token ? item->until_ms : item->due_ms;
}

int keyed_item_is_due(const keyed_item *item, int64_t now_ms, uint32_t error_ms)
{
    return item->token ? keyed_is_over(item->until_ms, now_ms, error_ms) : item->due_ms <= now_ms;
}
