/* A message: what a broker delivers, what an outbox sends.
 *
 * The fields map to CloudEvents 1.0:
 *
 *     semel             CloudEvents          semel             CloudEvents
 *     id                id                   content_type      datacontenttype
 *     source            source               time_ms           time
 *     type              type                 body              data
 *     topic             subject              correlation_id    correlationid (extension)
 *     group             partitionkey (ext.)  headers           other extensions
 *
 * A header becomes an extension if its name, in lower case, is letters and digits only, and its value is
 * text; others are left out when writing, as are delivery and delay_ms, which are no part of the event.
 *
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_MESSAGE_H
#define SEMEL_MESSAGE_H

#include <semel/error.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

SEMEL_BEGIN_DECLS

/* Bytes that somebody else owns. They may hold NUL and need not be text. */
typedef struct semel_bytes {
    const void *data;
    size_t len;
} semel_bytes;

static inline semel_bytes semel_str(const char *text)
{
    semel_bytes bytes = {text, text ? strlen(text) : 0};
    return bytes;
}

typedef struct semel_header {
    const char *name; /* compared without regard to ASCII case */
    semel_bytes value;
} semel_header;

#define SEMEL_BODY_MAX    ((size_t)16 << 20) /* bytes of a body, at most */
#define SEMEL_TEXT_MAX    ((size_t)1024)     /* bytes of an id or any other text field, at most */
#define SEMEL_HEADERS_MAX ((size_t)128)      /* headers of one message, at most */
#define SEMEL_HEADER_MAX  ((size_t)8192)     /* bytes of one header's name and value, at most */

/* Set `size`; whatever is zero is absent. */
typedef struct semel_message {
    size_t size;
    semel_bytes id;
    const char *source;
    const char *type;
    const char *topic; /* where it goes: routing key, subject */
    const char *group; /* messages of one group leave the outbox in the order of capture: one that
                        * waits (delay_ms, or after a failure) holds up those behind it */
    semel_bytes correlation_id;
    const char *content_type;
    int64_t time_ms; /* when it was made, in milliseconds since 1970 UTC */
    const semel_header *headers;
    size_t header_count;
    semel_bytes body;
    uint32_t
        delivery; /* receiving: 1 for a first delivery, 2 or more for a redelivery, 0 unknown */
    uint32_t delay_ms; /* sending: not before this long after the commit, and with a group nothing
                        * behind it either. What may be overtaken is sent without a group */
} semel_message;

/* One block that holds the message and all that it points to; free it with semel_message_free(). */
SEMEL_API semel_status semel_message_copy(semel_message **out, const semel_message *message,
                                          semel_error *err);
SEMEL_API void semel_message_free(semel_message *message);

/* The value of a header, or {NULL, 0}. */
SEMEL_API semel_bytes semel_message_header(const semel_message *message, const char *name);

/* CloudEvents in structured mode (application/cloudevents+json). Reading makes a message to be freed
 * with semel_message_free(); writing makes a NUL-terminated text to be freed with semel_text_free(). */
SEMEL_API semel_status semel_message_read_cloudevent(semel_message **out, semel_bytes json,
                                                     semel_error *err);
SEMEL_API semel_status semel_message_write_cloudevent(char **out, const semel_message *message,
                                                      semel_error *err);
SEMEL_API void semel_text_free(char *text);

SEMEL_END_DECLS

#endif
