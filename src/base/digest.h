/* SHA-256, by OpenSSL's libcrypto where it is built in. */
#ifndef SEMEL_BASE_DIGEST_H
#define SEMEL_BASE_DIGEST_H

#include <semel/message.h>

enum { DIGEST_SIZE = 32 };

int digest_built_in(void);

/* Over all parts together. SEMEL_EUNSUPPORTED if it is not built in. */
semel_status digest_parts(unsigned char out[DIGEST_SIZE], const semel_bytes parts[], size_t count,
                          semel_error *err);

#endif
