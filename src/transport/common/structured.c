/* A body that says it is an event and cannot be read as one is an ordinary message: its handler
 * will say what is wrong with it. */
#include "transport/common/structured.h"

#include "base/message.h"
#include "base/text.h"

static int is_structured(const char *content_type)
{
    static const char wanted[] = "application/cloudevents+json";
    const size_t len = sizeof wanted - 1;
    if (!content_type || strcspn(content_type, "; \t") != len)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (text_lower(content_type[i]) != wanted[i])
            return 0;
    return 1;
}

/* The event's headers, and those of the message that it does not have. */
static const semel_header *join_headers(size_t *count, mem_arena *arena, const semel_message *event,
                                        const semel_message *message)
{
    size_t most = event->header_count + message->header_count, at = event->header_count;
    semel_header *all = arena_alloc(arena, (most + 1) * sizeof *all);
    for (size_t i = 0; all && i < event->header_count; i++)
        all[i] = event->headers[i];
    for (size_t i = 0; all && i < message->header_count; i++)
        if (at < SEMEL_HEADERS_MAX && !semel_message_header(event, message->headers[i].name).data)
            all[at++] = message->headers[i];
    *count = at;
    return all;
}

static semel_message *merge(mem_arena *arena, const semel_message *event,
                            const semel_message *message)
{
    semel_message both = *event;
    both.topic = event->topic ? event->topic : message->topic;
    both.group = event->group ? event->group : message->group;
    both.correlation_id =
        event->correlation_id.len ? event->correlation_id : message->correlation_id;
    both.time_ms = event->time_ms ? event->time_ms : message->time_ms;
    both.delivery = message->delivery;
    both.headers = join_headers(&both.header_count, arena, event, message);
    return both.headers ? message_copy_into(arena, &both) : NULL;
}

semel_message *structured_read(mem_arena *arena, semel_message *message)
{
    semel_message *event = NULL;
    if (!message->body.data || !is_structured(message->content_type))
        return message;
    semel_status status = semel_message_read_cloudevent(&event, message->body, NULL);
    if (status == SEMEL_ENOMEM)
        return NULL;
    if (status)
        return message;
    semel_message *merged = merge(arena, event, message);
    semel_message_free(event);
    return merged;
}
