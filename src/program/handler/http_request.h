/* The request of a webhook: headers and body. */
#ifndef SEMEL_PROGRAM_HANDLER_HTTP_REQUEST_H
#define SEMEL_PROGRAM_HANDLER_HTTP_REQUEST_H

#include "program/config/config.h"
#include "program/support/memory.h"

struct curl_slist;

typedef struct http_request {
    struct curl_slist *headers;
    const void *body;
    size_t body_len;
    char *event; /* structured: the body is in it */
    int failed;  /* memory ran out for a header */
} http_request;

/* SEMEL_EINVAL if a configured header cannot be sent: a name that is none or that semel sets, a
 * value with a control character. The value is not shown. */
semel_status http_headers_check(const config_pairs *headers, semel_error *err);

/* SEMEL_EGIVEUP if the message cannot be sent as it is. Freed by the caller, also after an
 * error. */
semel_status http_request_make(http_request *out, const http_config *to, const char *inbox,
                               const semel_unit *unit, const semel_message *message,
                               semel_error *err);
void http_request_free(http_request *request);

#endif
