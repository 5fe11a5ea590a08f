#include "base/digest.h"

#ifdef SEMEL_WITH_OPENSSL
#include <openssl/evp.h>

int digest_built_in(void)
{
    return 1;
}

semel_status digest_parts(unsigned char out[DIGEST_SIZE], const semel_bytes parts[], size_t count,
                          semel_error *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a digest");
    int ok = EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (size_t i = 0; ok && i < count; i++)
        ok = EVP_DigestUpdate(context, parts[i].data, parts[i].len);
    ok = ok && EVP_DigestFinal_ex(context, out, NULL);
    EVP_MD_CTX_free(context);
    return ok ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "libcrypto could not compute SHA-256");
}

#else

int digest_built_in(void)
{
    return 0;
}

semel_status digest_parts(unsigned char out[DIGEST_SIZE], const semel_bytes parts[], size_t count,
                          semel_error *err)
{
    (void)out;
    (void)parts;
    (void)count;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "SHA-256 is not built in: build semel with SEMEL_OPENSSL=ON for digest keys, "
                      "for keys over %zu bytes and for idempotency keys",
                      (size_t)255);
}

#endif
