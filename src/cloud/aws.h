/* A client of an AWS service that speaks JSON (DynamoDB, SQS): signed requests, repeated while
 * that may help.
 *
 * What is repeated, with full jitter (a random time up to a bound that doubles):
 *  - a request that the service throttles, or asks to send again: until busy_ms is over;
 *  - a request whose answer did not come, or was a failure inside the service: until busy_ms and
 *    answer_ms are over. The caller must be able to tell what a second arrival means, and reads
 *    from `lost` whether there may have been one;
 *  - once, at once: if the credentials have expired, with new ones; if the host's clock is wrong,
 *    with the server's time.
 * A server that cannot be reached at all is not waited for: the core does that. */
#ifndef SEMEL_CLOUD_AWS_H
#define SEMEL_CLOUD_AWS_H

#include "cloud/http.h"

#include <semel/sys/store.h>

typedef struct aws_client aws_client;

typedef struct aws_options {
    const char *service;  /* "dynamodb" */
    const char *target;   /* "DynamoDB_20120810": before the operation's name */
    const char *version;  /* of JSON: "1.0" */
    const char *region;   /* NULL: AWS_REGION, AWS_DEFAULT_REGION, or the profile's */
    const char *endpoint; /* "http://127.0.0.1:8000"; NULL: AWS_ENDPOINT_URL, or the service's */
    const char *profile;  /* NULL: the usual ones */
    uint32_t pool;
    uint32_t busy_ms, answer_ms;
    const semel_seam *seam; /* borrowed */
} aws_options;

/* Makes no request. EINVAL if there is no region, or a wrong endpoint. */
semel_status aws_open(aws_client **out, const aws_options *options, semel_error *err);
void aws_close(aws_client *client); /* NULL is a no-op */

const char *aws_service(const aws_client *client);
const char *aws_region(const aws_client *client);
const char *aws_endpoint(const aws_client *client);

enum { AWS_TYPE_MAX = 96, AWS_MESSAGE_MAX = 256 };

typedef struct aws_answer {
    cloud_answer http;
    char type[AWS_TYPE_MAX];       /* of an error: "ResourceNotFoundException"; "": none */
    char message[AWS_MESSAGE_MAX]; /* the service's text, cut; without line breaks */
    unsigned lost;                 /* requests before this one that may have arrived */
} aws_answer;

void aws_answer_clear(aws_answer *answer);

/* OK if the service has answered, also with an error that is not worth repeating: `type` says
 * which, and is "" if it did what it was asked to. EUNAVAILABLE: it was certainly not done, or only
 * read. EUNKNOWN: the request may have been carried out. EBUSY: throttled for too long, and not
 * done. */
semel_status aws_call(aws_client *client, const char *operation, semel_bytes body,
                      aws_answer *answer, semel_error *err);

/* A wait before attempt number `failures` + 1 of something that the caller repeats: 0 if
 * busy_ms since `begun_ms` (wait_clock_ms) are over, else it has waited. */
int aws_pause(const aws_client *client, int64_t begun_ms, unsigned failures);

/* What an error that is the same for every operation means: ESTORE or another status, with what to
 * do. `doing` is for the text. */
semel_status aws_fail(const aws_client *client, const aws_answer *answer, const char *doing,
                      semel_error *err);

/* For fuzzing and tests: reads `type` and `message` from the answer's body. */
void aws_answer_explain(aws_answer *answer);

#endif
