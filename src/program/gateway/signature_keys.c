/* See signature_keys.h. No result ends a loop early: as many comparisons are made as there are
 * signatures of the kind, whether one of them fitted or not. */
#include "program/gateway/signature_keys.h"

#include "program/support/memory.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

static const char *algorithm_name(hmac_algorithm algorithm)
{
    return algorithm == HMAC_SHA512 ? "SHA512" : algorithm == HMAC_SHA1 ? "SHA1" : "SHA256";
}

size_t signature_size(hmac_algorithm algorithm)
{
    return algorithm == HMAC_SHA512 ? 64 : algorithm == HMAC_SHA1 ? 20 : 32;
}

int signature_same(const void *left, const void *right, size_t len)
{
    return CRYPTO_memcmp(left, right, len) == 0;
}

/* --- HMAC ------------------------------------------------------------------------------------- */

static int add_parts(EVP_MAC_CTX *context, const signature_content *content)
{
    for (size_t i = 0; i < content->count; i++)
        if (content->parts[i].len &&
            !EVP_MAC_update(context, content->parts[i].data, content->parts[i].len))
            return 0;
    return 1;
}

/* OpenSSL takes no empty key: one byte of zero is the same key. */
static int start(EVP_MAC_CTX *context, hmac_algorithm algorithm, semel_bytes key)
{
    static const unsigned char zero[1];
    char name[8];
    const char *from = algorithm_name(algorithm);
    memcpy(name, from, strlen(from) + 1);
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string("digest", name, 0),
                               OSSL_PARAM_construct_end()};
    return EVP_MAC_init(context, key.len ? key.data : zero, key.len ? key.len : 1, parameters);
}

static int compute(unsigned char out[SIGNATURE_BYTES_MAX], hmac_algorithm algorithm,
                   semel_bytes key, const signature_content *content)
{
    size_t len = 0;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac ? EVP_MAC_CTX_new(mac) : NULL;
    int good = context && start(context, algorithm, key) && add_parts(context, content) &&
               EVP_MAC_final(context, out, &len, SIGNATURE_BYTES_MAX) &&
               len == signature_size(algorithm);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
    return good;
}

int signature_hmac_fits(const signature_list *given, hmac_algorithm algorithm, semel_bytes key,
                        const signature_content *content)
{
    unsigned char wanted[SIGNATURE_BYTES_MAX] = {0};
    int fits = 0, good = compute(wanted, algorithm, key, content);
    for (size_t i = 0; i < given->count; i++)
        if (given->items[i].kind == SIGNATURE_HMAC)
            fits |= signature_same(wanted, given->items[i].bytes, signature_size(algorithm));
    OPENSSL_cleanse(wanted, sizeof wanted);
    return good ? fits : -1;
}

/* --- Ed25519 ---------------------------------------------------------------------------------- */

/* Ed25519 signs one message, so its parts are put together. */
static void join(buffer *out, const signature_content *content)
{
    buffer_text(out, "");
    for (size_t i = 0; i < content->count; i++)
        buffer_add(out, content->parts[i].data, content->parts[i].len);
}

/* 1, 0 or -1: the context must be a new one for each signature. */
static int verify_one(EVP_PKEY *key, const signature_bytes *given, const buffer *text)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int result = -1;
    if (context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1)
        result = EVP_DigestVerify(context, given->bytes, given->len,
                                  (const unsigned char *)text->data, text->len) == 1;
    EVP_MD_CTX_free(context);
    return result;
}

int signature_ed25519_fits(const signature_list *given, semel_bytes key,
                           const signature_content *content)
{
    buffer text = {0};
    int fits = 0, failed = 0;
    EVP_PKEY *public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key.data, key.len);
    if (!public_key)
        return -1;
    join(&text, content);
    for (size_t i = 0; i < given->count; i++) {
        int one = given->items[i].kind == SIGNATURE_ED25519
                      ? verify_one(public_key, &given->items[i], &text)
                      : 0;
        fits |= one == 1;
        failed |= one < 0;
    }
    buffer_free(&text);
    EVP_PKEY_free(public_key);
    return failed && !fits ? -1 : fits;
}
