/* What is in the headers of a signature: lists of signatures, digits, times. Everything here comes
 * from a stranger: sizes are limited, and what is not exactly as it should be is refused. */
#ifndef SEMEL_PROGRAM_GATEWAY_SIGNATURE_PARSE_H
#define SEMEL_PROGRAM_GATEWAY_SIGNATURE_PARSE_H

#include "program/gateway/signature.h"
#include "program/support/memory.h"

enum { SIGNATURE_BYTES_MAX = 64 }; /* SHA-512 and Ed25519 have 64 */

typedef enum signature_kind { SIGNATURE_HMAC, SIGNATURE_ED25519 } signature_kind;

typedef struct signature_bytes {
    signature_kind kind;
    size_t len;
    unsigned char bytes[SIGNATURE_BYTES_MAX];
} signature_bytes;

typedef struct signature_list {
    size_t count;
    signature_bytes items[SIGNATURES_MAX];
} signature_list;

/* NULL, or what is wrong. `size` is that of the signature in bytes. */
const char *signature_parse_one(signature_list *out, const char *text, const char *prefix,
                                hmac_encoding encoding, size_t size);
/* v1,BASE64 v1a,BASE64; other versions are passed over. */
const char *signature_parse_standard(signature_list *out, const char *text);
/* t=SECONDS,v1=HEX,v1=HEX,v0=...; *time is a part of `text`, not ended by a NUL. */
const char *signature_parse_stripe(signature_list *out, semel_bytes *time, const char *text);

/* Seconds since 1970 in decimal digits, and nothing else; -1: that is not it. */
int64_t signature_parse_time(semel_bytes text);

#endif
