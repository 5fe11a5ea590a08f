#include "transport/common/event.h"

#include "base/message.h"
#include "base/text.h"
#include "base/utf8.h"

/* --- extension attributes --------------------------------------------------------------------- */

static int is_attribute(const char *name)
{
    static const char *const known[] = {"id",
                                        "source",
                                        "type",
                                        "subject",
                                        "partitionkey",
                                        "correlationid",
                                        "datacontenttype",
                                        "specversion",
                                        "time",
                                        "data",
                                        "data_base64"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_same(name, known[i]))
            return 1;
    return 0;
}

static int is_letters_and_digits(const char *name)
{
    for (; *name; name++) {
        char c = text_lower(*name);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return 0;
    }
    return 1;
}

int event_header_is_extension(const semel_message *message, size_t index)
{
    const semel_header *header = &message->headers[index];
    if (!is_letters_and_digits(header->name) || is_attribute(header->name) ||
        !utf8_plain(header->value.data, header->value.len))
        return 0;
    for (size_t i = 0; i < index; i++)
        if (text_same(message->headers[i].name, header->name))
            return 0;
    return 1;
}

/* --- structured mode -------------------------------------------------------------------------- */

int event_is_structured(const semel_message *message)
{
    static const char wanted[] = "application/cloudevents+json";
    const char *type = message->content_type;
    if (!type || strcspn(type, "; \t") != sizeof wanted - 1)
        return 0;
    for (size_t i = 0; i < sizeof wanted - 1; i++)
        if (text_lower(type[i]) != wanted[i])
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

/* What the event says, and what it does not say from the message. */
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

semel_message *event_read_structured(mem_arena *arena, semel_message *message)
{
    semel_message *event = NULL;
    if (!message->body.data) /* there is none, or it was too large to be kept */
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
