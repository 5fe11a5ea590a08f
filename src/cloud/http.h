/* HTTP requests to services, by libcurl: one exchange at a time, with a deadline.
 *
 * A pool of easy handles, each with connections that stay open, so that a request in the steady
 * state is one round trip. Threads share it.
 *
 * Nothing is repeated here, and libcurl is kept from doing so by itself: it would send a request
 * again when a connection that was idle turns out to be dead, and whether a write may be sent twice
 * is for the caller to say. Without an answer the caller reads whether the server may have got the
 * request. Nothing is logged, and no header is in an error: they have tokens. */
#ifndef SEMEL_CLOUD_HTTP_H
#define SEMEL_CLOUD_HTTP_H

#include "base/text.h"

#include <semel/message.h>

typedef struct cloud_http cloud_http;

/* At most `handles` requests at once; others wait. */
semel_status cloud_http_open(cloud_http **out, uint32_t handles, semel_error *err);
void cloud_http_close(cloud_http *http); /* no request is under way; NULL is a no-op */

enum { CLOUD_HEADERS_MAX = 12 };

typedef struct cloud_request {
    const char *method; /* GET, PUT or POST */
    const char *url;
    const char *headers[CLOUD_HEADERS_MAX]; /* "Name: value"; the last is followed by NULL */
    semel_bytes body;
    uint32_t connect_ms; /* longest time until the connection stands */
    uint32_t answer_ms;  /* longest time for all of it */
    uint32_t wait_ms;    /* longest wait for a handle */
    int direct;          /* no proxy, whatever the environment says */
} cloud_request;

/* Starts as {0}. */
typedef struct cloud_answer {
    long status; /* 0: there was no answer */
    text_buffer body;
    int64_t date_s;            /* the Date header, in seconds since 1970; 0: there was none */
    int64_t sent_us, heard_us; /* by wait_clock_ns(), around the exchange */
    int maybe_sent;            /* no answer: the server may have got the request */
} cloud_answer;

void cloud_answer_clear(cloud_answer *answer); /* and frees what it has */

/* OK if there was an answer, whatever its status. EUNAVAILABLE if not; EBUSY if no handle was free
 * in time; ELIMIT if the answer was too large; EMISUSE in a process that was forked since. */
semel_status cloud_http_exchange(cloud_http *http, const cloud_request *request,
                                 cloud_answer *answer, semel_error *err);

#endif
