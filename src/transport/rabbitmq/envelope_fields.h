/* Where each member of a message goes in AMQP: the one table that writing and reading share. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_ENVELOPE_FIELDS_H
#define SEMEL_TRANSPORT_RABBITMQ_ENVELOPE_FIELDS_H

#include <amqp.h>
#include <amqp_framing.h>
#include <semel/message.h>

typedef struct rabbit_field {
    const char *member; /* of semel_message, for errors */
    size_t offset;      /* ... and where it is */
    int is_bytes;       /* the member is a semel_bytes, else a text */
    amqp_flags_t flag;  /* of the AMQP property; 0: there is none */
    size_t property;    /* offset in amqp_basic_properties_t */
    const char
        *header;       /* where it goes if there is no property, or it is too long; NULL: nowhere */
    const char *event; /* the attribute's name in CloudEvents */
    int event_has_it;  /* not written as an attribute: the event has it from the property */
    int event_wants_it; /* no CloudEvent is without */
} rabbit_field;

enum { RABBIT_FIELDS = 7, RABBIT_SHORT_MAX = 255 /* bytes of an AMQP short string */ };
extern const rabbit_field rabbit_fields[RABBIT_FIELDS];

/* semel-time-ms, a 64-bit integer: the time where AMQP's whole seconds do not do. */
extern const char rabbit_time_header[];

/* As seconds an AMQP timestamp beyond this is in the year 5138; as milliseconds, which some
 * publishers put there, it is 1973. */
#define RABBIT_SECONDS_MAX INT64_C(100000000000)

/* Whole seconds, rounded down. */
static inline int64_t rabbit_seconds(int64_t time_ms)
{
    return time_ms / 1000 - (time_ms % 1000 < 0);
}

#endif
