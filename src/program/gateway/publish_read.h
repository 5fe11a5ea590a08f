/* The messages in a request to a publish route: a body with attributes in headers (Ce-*, binary
 * mode in the HTTP binding of CloudEvents), one CloudEvent in JSON, or a batch of them. */
#ifndef SEMEL_PROGRAM_GATEWAY_PUBLISH_READ_H
#define SEMEL_PROGRAM_GATEWAY_PUBLISH_READ_H

#include "program/http/server.h"

/* Zeroed before it is read; publish_read_free() in any case. */
typedef struct publish_read {
    semel_message *messages;
    size_t count;
    semel_message **owned; /* those that the library has made */
    size_t owned_count;
    size_t wrong;            /* how many errors there are */
    buffer errors;           /* of JSON: {"index":2,"detail":"..."},... */
    const char *unsupported; /* why the type of the content is: 415; NULL: it is not */
    int too_many;
} publish_read;

void publish_read_request(publish_read *out, http_request *request);
void publish_read_free(publish_read *all);

#endif
