/* See trip.h. */
#include "trip.h"

#include "base/message.h"

#include <strings.h>

void check_limits(const semel_message *message)
{
    semel_message without_body = *message;
    semel_error err = {0};
    without_body.body = (semel_bytes){NULL, 0};
    semel_status status = message_check(&without_body, &err);
    HOLDS_FOR(err.text, status == SEMEL_OK);
}

static void check_headers(const semel_message *first, const semel_message *back,
                          trip_is_sent *is_sent)
{
    size_t at = 0;
    for (size_t i = 0; i < first->header_count; i++) {
        const semel_header *header = &first->headers[i];
        if (is_sent && !is_sent(first, header->name))
            continue;
        HOLDS_FOR(header->name, at < back->header_count);
        HOLDS_FOR(header->name, strcmp(header->name, back->headers[at].name) == 0);
        HOLDS_FOR(header->name, same_bytes(header->value, back->headers[at].value));
        at++;
    }
    HOLDS(at == back->header_count);
}

void check_same(const semel_message *first, const semel_message *back, trip_is_sent *is_sent)
{
    HOLDS(same_bytes(first->id, back->id));
    HOLDS(same_bytes(first->correlation_id, back->correlation_id));
    HOLDS(same_text(first->source, back->source));
    HOLDS(same_text(first->type, back->type));
    HOLDS(same_text(first->topic, back->topic));
    HOLDS(same_text(first->group, back->group));
    HOLDS(same_text(first->content_type, back->content_type));
    HOLDS(first->time_ms == back->time_ms);
    HOLDS(same_bytes(first->body, back->body));
    check_headers(first, back, is_sent);
}

int begins_with(const char *text, const char *prefix)
{
    return text && strncasecmp(text, prefix, strlen(prefix)) == 0;
}

int is_event_in_body(const semel_message *message)
{
    return begins_with(message->content_type, "application/cloudevents+json");
}

int has_header_of(const semel_message *message, const char *prefix)
{
    for (size_t i = 0; i < message->header_count; i++)
        if (begins_with(message->headers[i].name, prefix))
            return 1;
    return 0;
}
