/* Where each member of a message goes in a Kafka record: the one table that writing and reading
 * share. The group is not in it: it is the key. */
#ifndef SEMEL_TRANSPORT_KAFKA_ENVELOPE_FIELDS_H
#define SEMEL_TRANSPORT_KAFKA_ENVELOPE_FIELDS_H

#include <semel/message.h>

typedef struct kafka_field {
    const char *member; /* of semel_message, for errors */
    size_t offset;      /* ... and where it is */
    const char *header;
    int is_bytes;       /* the member is a semel_bytes, else a text */
    int event_wants_it; /* no CloudEvent is without */
} kafka_field;

enum { KAFKA_FIELDS = 6 };
extern const kafka_field kafka_fields[KAFKA_FIELDS];

extern const char kafka_event_prefix[];      /* "ce_": of every attribute of a CloudEvent */
extern const char kafka_version_header[];    /* its value says that the record is a CloudEvent */
extern const char kafka_time_header[];       /* the time as RFC 3339 has it */
extern const char kafka_exact_time_header[]; /* milliseconds, if RFC 3339 cannot say it */
extern const char kafka_no_topic_header[];   /* the message has no topic: it is not that of Kafka */

/* 1 for a header that says something about a member. */
int kafka_header_is_ours(const char *name);

#endif
