/* A MAC or a public-key signature over the parts of a content, by OpenSSL. */
#ifndef SEMEL_PROGRAM_GATEWAY_SIGNATURE_KEYS_H
#define SEMEL_PROGRAM_GATEWAY_SIGNATURE_KEYS_H

#include "program/gateway/signature_parse.h"

enum { SIGNATURE_PARTS_MAX = 16 };

/* What is signed: its parts, one behind the other. */
typedef struct signature_content {
    size_t count;
    semel_bytes parts[SIGNATURE_PARTS_MAX];
} signature_content;

size_t signature_size(hmac_algorithm algorithm); /* of an HMAC, in bytes */

/* 1 if `given` is the HMAC of the content under the key, 0 if not, -1 if OpenSSL fails. */
int signature_hmac_fits(const signature_list *given, hmac_algorithm algorithm, semel_bytes key,
                        const signature_content *content);
/* The same for Ed25519 and its public key of 32 bytes. */
int signature_ed25519_fits(const signature_list *given, semel_bytes key,
                           const signature_content *content);

/* The comparison of all of them: every byte is looked at, wherever the first difference is. 1: the
 * same. */
int signature_same(const void *left, const void *right, size_t len);

#endif
