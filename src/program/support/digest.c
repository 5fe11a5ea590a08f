/* See digest.h. */
#include "program/support/digest.h"

#include <openssl/sha.h>
#include <stdio.h>

void digest_hex(char out[DIGEST_HEX_SIZE], const void *data, size_t len)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    (void)SHA256(data, len, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
