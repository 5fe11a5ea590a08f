/* See history_record.h. */
#include "program/run/history_record.h"

#include "program/support/memory.h"
#include "program/support/show.h"

#include <stdint.h>
#include <string.h>

enum { ERROR_MAX = 4096, UUID_LEN = SEMEL_IDEMPOTENCY_KEY_SIZE - 1 };

int history_is_first(const semel_event *event)
{
    return event->kind == SEMEL_EVENT_RECEIVED && event->attempt == 1;
}

int history_is_urgent(const semel_event *event)
{
    return event->outcome != SEMEL_PROCESSED && event->outcome != SEMEL_DUPLICATE &&
           event->outcome != SEMEL_REPLAYED && event->outcome != SEMEL_IN_PROGRESS;
}

/* xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx and a hyphen. */
static int begins_with_uuid(semel_bytes id)
{
    const char *text = id.data;
    if (id.len <= UUID_LEN || text[UUID_LEN] != '-')
        return 0;
    for (size_t i = 0; i < UUID_LEN; i++) {
        int is_hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        int is_digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (is_hyphen ? text[i] != '-' : !is_digit)
            return 0;
    }
    return 1;
}

semel_bytes history_key(const semel_event *event)
{
    if (event->kind == SEMEL_EVENT_RECEIVED)
        return event->key;
    semel_bytes id = event->message->id;
    return (semel_bytes){id.data, begins_with_uuid(id) ? (size_t)UUID_LEN : id.len};
}

/* --- the block -------------------------------------------------------------------------------- */

/* Counts first, and copies when there is a block. */
typedef struct packing {
    char *to; /* NULL: it counts */
    size_t used;
} packing;

static void pack_bytes(packing *p, semel_bytes *bytes, size_t most)
{
    size_t len = bytes->len < most ? bytes->len : most;
    if (!bytes->data)
        return;
    if (p->to) {
        memcpy(p->to + p->used, bytes->data, len);
        p->to[p->used + len] = 0;
        *bytes = (semel_bytes){p->to + p->used, len};
    }
    p->used += len + 1;
}

static void pack_text(packing *p, const char **text, size_t most)
{
    semel_bytes bytes = {*text, *text ? strlen(*text) : 0};
    pack_bytes(p, &bytes, most);
    *text = bytes.data;
}

/* Before what has no alignment. */
static void pack_headers(packing *p, semel_message *m)
{
    semel_header *headers = p->to ? (semel_header *)(void *)(p->to + p->used) : NULL;
    p->used += m->header_count * sizeof *headers;
    for (size_t i = 0; i < m->header_count; i++) {
        semel_header header = m->headers[i];
        pack_text(p, &header.name, SIZE_MAX);
        pack_bytes(p, &header.value, SIZE_MAX);
        if (headers)
            headers[i] = header;
    }
    if (headers)
        m->headers = headers;
}

static void pack_contents(packing *p, semel_message *m, size_t body_max)
{
    pack_headers(p, m);
    pack_text(p, &m->topic, SIZE_MAX);
    pack_text(p, &m->group, SIZE_MAX);
    pack_text(p, &m->content_type, SIZE_MAX);
    pack_bytes(p, &m->correlation_id, SIZE_MAX);
    pack_bytes(p, &m->body, body_max);
}

static void pack(packing *p, history_record *r, int contents, size_t body_max)
{
    if (contents)
        pack_contents(p, &r->message, body_max);
    pack_text(p, &r->row.name, SIZE_MAX);
    pack_bytes(p, &r->row.key, SIZE_MAX);
    pack_bytes(p, &r->row.message_id, SIZE_MAX);
    pack_text(p, &r->row.type, SIZE_MAX);
    pack_text(p, &r->row.source, SIZE_MAX);
    pack_text(p, &r->row.error, ERROR_MAX);
}

/* The row has copies of these already. */
static void share_texts(history_record *r)
{
    r->message.id = r->row.message_id;
    r->message.type = r->row.type;
    r->message.source = r->row.source;
}

static semel_history row_of(const semel_event *event)
{
    const semel_message *m = event->message;
    return (semel_history){.size = sizeof(semel_history),
                           .at_ms = wall_clock_ms(),
                           .kind = (semel_history_kind)event->kind,
                           .name = event->name,
                           .key = history_key(event),
                           .outcome = event->outcome,
                           .refused = event->refused,
                           .attempt = event->attempt,
                           .delivery = m->delivery,
                           .retry_ms = event->retry_ms,
                           .took_ns = event->handler_ns,
                           .letter = event->letter,
                           .count = event->captured,
                           .message_id = m->id,
                           .type = m->type,
                           .source = m->source,
                           .error = event->error,
                           .body_len = m->body.len};
}

history_record *history_record_make(const semel_event *event, int contents, size_t body_max)
{
    history_record made = {.row = row_of(event), .message = *event->message};
    packing counting = {0};
    made.message.size = sizeof made.message;
    pack(&counting, &made, contents, body_max);
    made.size = sizeof made + counting.used;
    history_record *r = must_alloc(made.size);
    packing copying = {.to = (char *)(r + 1)};
    *r = made;
    pack(&copying, r, contents, body_max);
    share_texts(r);
    r->row.message = contents ? &r->message : NULL;
    return r;
}
