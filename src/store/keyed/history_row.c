/* The encoding of a row of the history: fields, and those of its message. */
#include "store/keyed/history_row.h"

enum {
    ROW_AT = 1,
    ROW_KIND,
    ROW_NAME,
    ROW_KEY,
    ROW_OUTCOME,
    ROW_REFUSED,
    ROW_ATTEMPT,
    ROW_DELIVERY,
    ROW_RETRY,
    ROW_TOOK,
    ROW_LETTER,
    ROW_COUNT,
    ROW_PROCESS,
    ROW_ERROR,
    ROW_BODY_LEN,
    ROW_KEPT,
    ROW_CONTENTS
};

/* --- writing ---------------------------------------------------------------------------------- */

int history_row_encode(semel_bytes *out, mem_arena *arena, const semel_history *row, int kept)
{
    fields_writer writer = {.arena = arena};
    const semel_message brief = {
        .id = row->message->id, .type = row->message->type, .source = row->message->source};
    semel_bytes contents = {NULL, 0};
    if (kept && !keyed_message_body(&contents, arena, row->message))
        return 0;
    fields_int(&writer, ROW_AT, row->at_ms);
    fields_int(&writer, ROW_KIND, (int64_t)row->kind);
    fields_text(&writer, ROW_NAME, row->name);
    fields_bytes(&writer, ROW_KEY, row->key);
    fields_int(&writer, ROW_OUTCOME, (int64_t)row->outcome);
    fields_int(&writer, ROW_REFUSED, (int64_t)row->refused);
    fields_int(&writer, ROW_ATTEMPT, row->attempt);
    fields_int(&writer, ROW_DELIVERY, row->delivery);
    fields_int(&writer, ROW_RETRY, row->retry_ms);
    fields_int(&writer, ROW_TOOK, row->took_ns);
    fields_int(&writer, ROW_LETTER, row->letter);
    fields_int(&writer, ROW_COUNT, (int64_t)row->count);
    fields_text(&writer, ROW_PROCESS, row->process);
    fields_text(&writer, ROW_ERROR, row->error);
    fields_int(&writer, ROW_BODY_LEN, (int64_t)row->body_len);
    fields_int(&writer, ROW_KEPT, kept);
    fields_bytes(&writer, ROW_CONTENTS, contents);
    keyed_message_write(&writer, kept ? row->message : &brief);
    return fields_end(out, &writer);
}

static int take_text(const char **out, const fields_reader *at, mem_arena *arena)
{
    *out = arena_copy(arena, at->bytes.data, at->bytes.len);
    return *out != NULL;
}

static int take_number(semel_history *row, uint8_t field, int64_t number)
{
    switch (field) {
    case ROW_AT:
        row->at_ms = number;
        return 1;
    case ROW_KIND:
        row->kind = (semel_history_kind)number;
        return 1;
    case ROW_OUTCOME:
        row->outcome = (semel_outcome)number;
        return 1;
    case ROW_REFUSED:
        row->refused = (semel_outcome)number;
        return 1;
    case ROW_ATTEMPT:
        row->attempt = (uint32_t)number;
        return 1;
    case ROW_DELIVERY:
        row->delivery = (uint32_t)number;
        return 1;
    case ROW_RETRY:
        row->retry_ms = (uint32_t)number;
        return 1;
    case ROW_TOOK:
        row->took_ns = number;
        return 1;
    case ROW_LETTER:
        row->letter = number;
        return 1;
    case ROW_COUNT:
        row->count = (uint64_t)number;
        return 1;
    case ROW_BODY_LEN:
        row->body_len = (size_t)number;
        return 1;
    case ROW_KEPT:
        row->kept = number != 0;
        return 1;
    default:
        return 0;
    }
}

static int take_field(history_row *out, const fields_reader *at, mem_arena *arena)
{
    semel_history *row = &out->row;
    if (take_number(row, at->field, fields_int_of(at)))
        return 1;
    switch (at->field) {
    case ROW_NAME:
        return take_text(&row->name, at, arena);
    case ROW_PROCESS:
        return take_text(&row->process, at, arena);
    case ROW_ERROR:
        return take_text(&row->error, at, arena);
    case ROW_KEY:
        row->key = at->bytes;
        return 1;
    case ROW_CONTENTS: /* read on demand */
        return 1;
    default:
        return keyed_message_take(&out->message, at, arena);
    }
}

static void damage(history_row *out, const char *why)
{
    (void)semel_fail(&out->why, SEMEL_ESTORE, "%s", why);
    out->row.message_id = out->message.id;
    out->row.type = out->message.type;
    out->row.source = out->message.source;
    out->row.message = NULL;
    out->row.damage = out->why.text;
}

int history_row_decode(history_row *out, int64_t id, semel_bytes bytes, int contents,
                       mem_arena *arena)
{
    fields_reader reader = {.rest = bytes};
    semel_bytes kept = {NULL, 0};
    semel_error why;
    *out = (history_row){
        .row = {.size = sizeof out->row, .id = id, .name = "", .process = "", .error = ""},
        .message = {.size = sizeof out->message}};
    out->row.message = &out->message;
    while (fields_next(&reader)) {
        if (reader.field == ROW_CONTENTS)
            kept = reader.bytes;
        if (!take_field(out, &reader, arena))
            return 0;
    }
    semel_status status = SEMEL_OK;
    if (reader.damaged)
        status = semel_fail(&why, SEMEL_ESTORE, "the row is cut off");
    else if (contents && out->row.kept)
        status = keyed_message_take_body(&out->message, arena, kept, &why);
    if (status && status != SEMEL_ENOMEM)
        damage(out, why.text);
    return status != SEMEL_ENOMEM;
}

int64_t history_row_at(semel_bytes bytes)
{
    fields_reader reader = {.rest = bytes};
    while (fields_next(&reader))
        if (reader.field == ROW_AT)
            return fields_int_of(&reader);
    return 0;
}
