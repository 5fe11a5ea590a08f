/* CloudEvents: what reading and writing them share. See cloudevent.c for the mapping. */
#ifndef SEMEL_CORE_CLOUDEVENT_H
#define SEMEL_CORE_CLOUDEVENT_H

#include <semel/message.h>

typedef struct event_attribute {
    const char *name;   /* in CloudEvents */
    const char *member; /* of semel_message */
    size_t offset;      /* ... and where it is */
    int is_bytes;       /* the member is a semel_bytes, else a text */
    int required;
} event_attribute;

enum { EVENT_ATTRIBUTES = 7 };
extern const event_attribute event_attributes[EVENT_ATTRIBUTES];

/* 1 for names that are not an extension's, in any case of letters. */
int event_name_is_taken(const char *name);

/* 1 for application/json, anything/json, anything+json, with or without parameters; and for
 * NULL. */
int event_type_is_json(const char *content_type);

#endif
