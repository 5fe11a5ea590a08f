/* The signatures of webhooks: pure functions over what the configuration says, the headers, the raw
 * bytes of the body, and the time.
 *
 * A sender and its receiver share a secret (or the receiver has the sender's public key), and the
 * sender signs the body, mostly together with the time. While a secret is changed there are two of
 * them at either end, so any secret of the receiver may fit any signature of the request.
 *
 * Every secret is tried with every signature, also after one fitted, and a comparison looks at all
 * bytes (CRYPTO_memcmp): how long the verification takes says nothing about what was expected. The
 * time is compared only after a signature fitted, so that a stranger learns nothing from it. */
#ifndef SEMEL_PROGRAM_GATEWAY_SIGNATURE_H
#define SEMEL_PROGRAM_GATEWAY_SIGNATURE_H

#include "program/config/config.h"

#include <stdint.h>

enum {
    SIGNATURES_MAX = 16,       /* of one request */
    SIGNATURE_SECRETS_MAX = 8, /* of one route */
    SIGNATURE_SECRET_MAX = 1024,
    SIGNATURE_HEADER_MAX = 4096
};

typedef enum signature_verdict {
    SIGNATURE_GOOD = 0,
    SIGNATURE_MISSING,   /* a header that the scheme needs is not there */
    SIGNATURE_MALFORMED, /* a header is not what the scheme says */
    SIGNATURE_WRONG,     /* no secret fits */
    SIGNATURE_OLD,       /* one fits, but its time is too long ago ... */
    SIGNATURE_EARLY,     /* ... or in the future */
    SIGNATURE_FAILED     /* OpenSSL cannot compute it */
} signature_verdict;

/* The value of a header and how often it was sent; NULL: not at all. */
typedef const char *signature_header(size_t *count, const void *from, const char *name);

typedef struct signed_request {
    signature_header *header;
    const void *from; /* of the function above */
    semel_bytes body;
    int64_t now_ms;
} signed_request;

typedef struct signature_facts {
    const char *header; /* of which the verdict speaks; never NULL */
    const char *why;    /* for a log: "it has no v1 signature"; NULL: the verdict says it */
    int64_t time_s;     /* of the signature, if it is good; 0: the scheme has none */
    const char *id;     /* the one that was signed; NULL: the scheme signs none by itself */
} signature_facts;

/* What a route says: preset, secrets, tolerance and hmac are used, nothing else. */
signature_verdict signature_verify(signature_facts *out, const route_config *route,
                                   const signed_request *request);

/* What is wrong with a secret for a preset: "it is not base64 behind whsec_"; NULL: nothing. The
 * secret itself is never in it. */
const char *signature_check_secret(webhook_preset preset, const char *secret);

/* What is wrong with the content of `hmac`; NULL: nothing. */
const char *signature_check_content(const hmac_config *hmac);

#endif
