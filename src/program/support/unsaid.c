/* See unsaid.h. */
#include "program/support/unsaid.h"

#include <string.h>

static const char attribute[] = "semelunsaid";

static int is_missing(const char *text)
{
    return !text || !*text;
}

static int is_value(semel_bytes value, const char *word)
{
    return value.len == strlen(word) && memcmp(value.data, word, value.len) == 0;
}

/* A message with all headers that it may have has no room for one more. */
void unsaid_add(semel_message *message, semel_header room[SEMEL_HEADERS_MAX])
{
    int type = is_missing(message->type), source = is_missing(message->source);
    size_t count = message->header_count;
    if ((!type && !source) || count >= SEMEL_HEADERS_MAX)
        return;
    if (count)
        memcpy(room, message->headers, count * sizeof *room);
    room[count] = (semel_header){.name = attribute,
                                 .value = semel_str(type && source ? "both"
                                                    : type         ? "type"
                                                                   : "source")};
    message->headers = room;
    message->header_count = count + 1;
}

void unsaid_take(semel_message *message, semel_header room[SEMEL_HEADERS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < message->header_count; i++) {
        const semel_header *h = &message->headers[i];
        if (strcmp(h->name, attribute) != 0) {
            room[count++] = *h;
            continue;
        }
        int both = is_value(h->value, "both");
        if (both || is_value(h->value, "type"))
            message->type = NULL;
        if (both || is_value(h->value, "source"))
            message->source = NULL;
    }
    message->headers = room;
    message->header_count = count;
}
