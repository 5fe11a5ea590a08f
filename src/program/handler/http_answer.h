/* What a webhook answered, and what that means for the message. */
#ifndef SEMEL_PROGRAM_HANDLER_HTTP_ANSWER_H
#define SEMEL_PROGRAM_HANDLER_HTTP_ANSWER_H

#include "program/config/config.h"
#include "program/support/memory.h"

typedef struct http_answer {
    long code;
    const char *content_type; /* NULL: none */
    buffer body;
    int64_t retry_after_s; /* 0: not said */
} http_answer;

/* OK: done, its result set and its messages queued (answer.h). SEMEL_EGIVEUP: no further attempt.
 * SEMEL_EHANDLER: another one. The error says "http 422: " and what the service said, if that is
 * text, without the values of the configured headers. */
semel_status http_answer_take(const http_answer *got, const http_config *to, semel_unit *unit,
                              const config *all, semel_error *err);

#endif
