/* SHA-256, as hexadecimal digits. */
#ifndef SEMEL_PROGRAM_SUPPORT_DIGEST_H
#define SEMEL_PROGRAM_SUPPORT_DIGEST_H

#include <stddef.h>

enum { DIGEST_HEX_SIZE = 65 };

void digest_hex(char out[DIGEST_HEX_SIZE], const void *data, size_t len);

#endif
