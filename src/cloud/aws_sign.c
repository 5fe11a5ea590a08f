/* See aws_sign.h: a canonical form of the request, its digest in a text to sign, and a key for one
 * day, region and service that is derived from the secret. */
#include "cloud/aws_sign.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SHA256_LEN = 32, HEX_LEN = 2 * SHA256_LEN, DAY_LEN = 8, NAMES_MAX = 256, SCOPE_MAX = 256 };

void aws_date(char out[AWS_DATE_TEXT], int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc = {0};
    if (!gmtime_r(&seconds, &utc) || !strftime(out, AWS_DATE_TEXT, "%Y%m%dT%H%M%SZ", &utc))
        (void)snprintf(out, AWS_DATE_TEXT, "19700101T000000Z");
}

static void write_hex(char out[HEX_LEN + 1], const unsigned char digest[SHA256_LEN])
{
    for (size_t i = 0; i < SHA256_LEN; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

int aws_digest(char out[AWS_DIGEST_TEXT], semel_bytes data)
{
    unsigned char digest[SHA256_LEN];
    unsigned len = 0;
    if (!EVP_Digest(data.data ? data.data : "", data.len, digest, &len, EVP_sha256(), NULL))
        return 0;
    write_hex(out, digest);
    return 1;
}

static int mac(unsigned char out[SHA256_LEN], const void *key, size_t key_len, const void *data,
               size_t len)
{
    unsigned made = 0;
    return HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &made) && made == SHA256_LEN;
}

/* "content-type;host;x-amz-date" */
static void write_names(char out[NAMES_MAX], const aws_to_sign *request)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < AWS_SIGNED_MAX && request->headers[i].name && used < NAMES_MAX; i++)
        used += (size_t)snprintf(out + used, NAMES_MAX - used, "%s%s", i ? ";" : "",
                                 request->headers[i].name);
}

/* The digest of the canonical request, fed piece by piece: a token may be long. */
static int digest_request(char out[HEX_LEN + 1], const aws_to_sign *request, const char *names)
{
    unsigned char digest[SHA256_LEN];
    char body[HEX_LEN + 1];
    unsigned len = 0;
    EVP_MD_CTX *on = EVP_MD_CTX_new();
    int fine = on && aws_digest(body, request->body);
    fine = fine && EVP_DigestInit_ex(on, EVP_sha256(), NULL);
#define FEED(text) (fine = fine && EVP_DigestUpdate(on, (text), strlen(text)))
    FEED(request->method);
    FEED("\n");
    FEED(request->path);
    FEED("\n");
    FEED(request->query);
    FEED("\n");
    for (size_t i = 0; i < AWS_SIGNED_MAX && request->headers[i].name; i++) {
        FEED(request->headers[i].name);
        FEED(":");
        FEED(request->headers[i].value);
        FEED("\n");
    }
    FEED("\n");
    FEED(names);
    FEED("\n");
    FEED(fine ? body : "");
#undef FEED
    fine = fine && EVP_DigestFinal_ex(on, digest, &len);
    EVP_MD_CTX_free(on);
    if (fine)
        write_hex(out, digest);
    return fine;
}

static int derive_key(unsigned char key[SHA256_LEN], const aws_to_sign *request,
                      const aws_keys *keys)
{
    char first[4 + AWS_SECRET_MAX + 1];
    int len = snprintf(first, sizeof first, "AWS4%s", keys->secret);
    int fine = mac(key, first, (size_t)len, request->date, DAY_LEN) &&
               mac(key, key, SHA256_LEN, request->region, strlen(request->region)) &&
               mac(key, key, SHA256_LEN, request->service, strlen(request->service)) &&
               mac(key, key, SHA256_LEN, "aws4_request", strlen("aws4_request"));
    OPENSSL_cleanse(first, sizeof first);
    return fine;
}

semel_status aws_sign(char out[AWS_AUTHORIZATION_MAX], const aws_to_sign *request,
                      const aws_keys *keys, semel_error *err)
{
    unsigned char key[SHA256_LEN], signature[SHA256_LEN];
    char names[NAMES_MAX], digest[HEX_LEN + 1], hex[HEX_LEN + 1], scope[SCOPE_MAX];
    char text[SCOPE_MAX + HEX_LEN + 64];
    write_names(names, request);
    (void)snprintf(scope, sizeof scope, "%.8s/%s/%s/aws4_request", request->date, request->region,
                   request->service);
    int fine = digest_request(digest, request, names);
    int len = snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", request->date, scope,
                       fine ? digest : "");
    fine = fine && derive_key(key, request, keys) &&
           mac(signature, key, sizeof key, text, (size_t)len);
    OPENSSL_cleanse(key, sizeof key);
    if (!fine)
        return semel_fail(err, SEMEL_ESTORE, "OpenSSL could not sign a request to AWS");
    write_hex(hex, signature);
    len = snprintf(out, AWS_AUTHORIZATION_MAX,
                   "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", keys->id,
                   scope, names, hex);
    return len > 0 && len < AWS_AUTHORIZATION_MAX
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ELIMIT, "the signature of a request to AWS is too long");
}
