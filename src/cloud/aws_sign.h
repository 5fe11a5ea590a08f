/* The signature of a request to AWS, version 4 (AWS4-HMAC-SHA256), of a request whose path is "/"
 * or is already escaped.
 *
 * libcurl can sign, too. It is done here because then the time is a parameter: a host whose clock
 * is wrong can be corrected by the server's time, and the examples that AWS has published are a
 * test. A test compares it with libcurl's, which is a second implementation. */
#ifndef SEMEL_CLOUD_AWS_SIGN_H
#define SEMEL_CLOUD_AWS_SIGN_H

#include <semel/message.h>

enum {
    AWS_ID_MAX = 128,
    AWS_SECRET_MAX = 256,
    AWS_TOKEN_MAX = 8192,
    AWS_DATE_TEXT = 17,           /* 20150830T123600Z and a NUL */
    AWS_AUTHORIZATION_MAX = 1024, /* of the value of that header */
    AWS_SIGNED_MAX = 10           /* headers that are signed */
};

typedef struct aws_keys {
    char id[AWS_ID_MAX + 1];
    char secret[AWS_SECRET_MAX + 1];
    char token[AWS_TOKEN_MAX + 1]; /* "": none */
    int64_t expires_ms;            /* since 1970; 0: never */
} aws_keys;

typedef struct aws_signed_header {
    const char *name; /* in lower case */
    const char *value;
} aws_signed_header;

typedef struct aws_to_sign {
    const char *method, *path, *query; /* the query as it is sent, its names in order */
    const char *region, *service;
    const char *date;                          /* as in x-amz-date */
    aws_signed_header headers[AWS_SIGNED_MAX]; /* in the order of their names, host and x-amz-date
                                                   among them; a name that is NULL ends them */
    semel_bytes body;
} aws_to_sign;

/* SHA-256 in hexadecimal digits; 0 if OpenSSL fails. */
enum { AWS_DIGEST_TEXT = 65 };
int aws_digest(char out[AWS_DIGEST_TEXT], semel_bytes data);

void aws_date(char out[AWS_DATE_TEXT], int64_t wall_ms);

/* The value of the Authorization header. ELIMIT if it is too long, ESTORE if OpenSSL fails. */
semel_status aws_sign(char out[AWS_AUTHORIZATION_MAX], const aws_to_sign *request,
                      const aws_keys *keys, semel_error *err);

#endif
