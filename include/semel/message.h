/* A message, as a broker delivers it and an outbox sends it.
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
 * A header becomes an extension if its name, in lower case, has only letters and digits and its
 * value is text. Other headers are not written; neither are delivery and delay_ms, which are not
 * part of the event.
 *
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_MESSAGE_H
#define SEMEL_MESSAGE_H

#include <semel/error.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

SEMEL_BEGIN_DECLS

/* Bytes that another object owns. They may contain NUL and need not be text. */
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

#define SEMEL_BODY_MAX    ((size_t)16 << 20) /* most bytes of a body */
#define SEMEL_TEXT_MAX    ((size_t)1024)     /* most bytes of an id or another text field */
#define SEMEL_HEADERS_MAX ((size_t)128)      /* most headers of one message */
#define SEMEL_HEADER_MAX  ((size_t)8192)     /* most bytes of one header, name and value together */

/* The header in which a message says from when its age counts, in milliseconds since 1970, if
 * that is not its time: semel sets it when a message is sent with delay_ms, and when a dead
 * letter is replayed. */
#define SEMEL_HEADER_DUE "semeldue"

/* The caller sets `size`. A member that is zero is absent. */
typedef struct semel_message {
    size_t size;
    semel_bytes id;
    const char *source;
    const char *type;
    const char *topic; /* the destination: a routing key or subject */
    /* messages of one group leave the outbox in the order of capture; a message that waits (for its
     * delay_ms, or after a failure) delays those behind it */
    const char *group;
    semel_bytes correlation_id;
    const char *content_type;
    int64_t time_ms; /* when the message was made, in milliseconds since 1970 UTC */
    const semel_header *headers;
    size_t header_count;
    semel_bytes body;
    uint32_t delivery; /* receiving: 1 first delivery, 2 or more redelivery, 0 unknown */
    /* sending: the message, and those behind it in its group, leave no earlier than this long after
     * the commit. A message that others may overtake should have no group */
    uint32_t delay_ms;
} semel_message;

/* Copies a message and everything it points to into one block. Free it with
 * semel_message_free(). */
SEMEL_API semel_status semel_message_copy(semel_message **out, const semel_message *message,
                                          semel_error *err);
SEMEL_API void semel_message_free(semel_message *message);

/* The value of a header, or {NULL, 0} if there is no such header. */
SEMEL_API semel_bytes semel_message_header(const semel_message *message, const char *name);

#define SEMEL_DIGEST_SIZE 32

/* SHA-256 of type and body: what `digest` is in a key expression. SEMEL_EUNSUPPORTED in a build
 * without OpenSSL. */
SEMEL_API semel_status semel_message_digest(unsigned char out[SEMEL_DIGEST_SIZE],
                                            const semel_message *message, semel_error *err);

/* CloudEvents in structured mode (application/cloudevents+json). Reading returns a message, which
 * the caller frees with semel_message_free(). Writing returns a NUL-terminated text, which the
 * caller frees with semel_text_free(). */
SEMEL_API semel_status semel_message_read_cloudevent(semel_message **out, semel_bytes json,
                                                     semel_error *err);
SEMEL_API semel_status semel_message_write_cloudevent(char **out, const semel_message *message,
                                                      semel_error *err);
SEMEL_API void semel_text_free(char *text);

SEMEL_END_DECLS

#endif
