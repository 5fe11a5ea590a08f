/* Keys of the proxy.
 *
 * A key belongs to a route (which has an inbox of its own) and to a caller: two callers who choose
 * the same key never meet. Whoever has no identity shares the name "anyone". The values of identity
 * headers are secrets more often than not, so 128 bits of their SHA-256 are stored, and never the
 * values.
 *
 * Each value is hashed with its length before it: no two requests give the same bytes. */
#include "program/gateway/proxy.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { IDENTITY_DIGITS = 32 };

/* --- the header ------------------------------------------------------------------------------- */

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* From behind the first quote. */
static key_finding parse_quoted(char out[PROXY_KEY_MAX + 1], const char *at, const char *end)
{
    size_t len = 0;
    for (; at < end && *at != '"'; at++) {
        if (*at == '\\' && (++at == end || (*at != '"' && *at != '\\')))
            return KEY_BAD;
        if (*at < ' ' || *at > '~' || len == PROXY_KEY_MAX)
            return KEY_BAD;
        out[len++] = *at;
    }
    out[len] = 0;
    return len && at + 1 == end ? KEY_FOUND : KEY_BAD;
}

static key_finding parse_bare(char out[PROXY_KEY_MAX + 1], const char *at, const char *end)
{
    size_t len = (size_t)(end - at);
    if (len > PROXY_KEY_MAX)
        return KEY_BAD;
    for (size_t i = 0; i < len; i++)
        if (at[i] <= ' ' || at[i] > '~' || at[i] == '"')
            return KEY_BAD;
    memcpy(out, at, len);
    out[len] = 0;
    return len ? KEY_FOUND : KEY_BAD;
}

key_finding proxy_key_parse(char out[PROXY_KEY_MAX + 1], const char *header)
{
    const char *end = header + strlen(header);
    while (is_blank(*header))
        header++;
    while (end > header && is_blank(end[-1]))
        end--;
    return *header == '"' ? parse_quoted(out, header + 1, end) : parse_bare(out, header, end);
}

/* --- digests ---------------------------------------------------------------------------------- */

typedef struct hashing {
    EVP_MD_CTX *state;
    const char *wanted; /* the header that is looked for */
    int found;
} hashing;

static void hash_bytes(hashing *h, const void *data, size_t len)
{
    uint64_t count = len;
    if (!EVP_DigestUpdate(h->state, &count, sizeof count) ||
        (len && !EVP_DigestUpdate(h->state, data, len)))
        abort();
}

static void hash_text(hashing *h, const char *text)
{
    hash_bytes(h, text, strlen(text));
}

/* A process whose libcrypto has no SHA-256 can do nothing right. */
static void hash_begin(hashing *h)
{
    *h = (hashing){.state = EVP_MD_CTX_new()};
    if (!h->state || !EVP_DigestInit_ex(h->state, EVP_sha256(), NULL))
        abort();
}

static void hash_end(hashing *h, char out[DIGEST_HEX_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    static const char digits[] = "0123456789abcdef";
    unsigned len = 0;
    if (!EVP_DigestFinal_ex(h->state, digest, &len))
        abort();
    EVP_MD_CTX_free(h->state);
    for (unsigned i = 0; i < len; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * len] = 0;
}

static void hash_if_wanted(void *context, const char *name, const char *value)
{
    hashing *h = context;
    if (strcasecmp(name, h->wanted) != 0)
        return;
    h->found = 1;
    hash_text(h, h->wanted);
    hash_text(h, value);
}

static const char *identity_of(const route_config *route, http_request *request)
{
    hashing h;
    char digest[DIGEST_HEX_SIZE];
    hash_begin(&h);
    hash_text(&h, route->name);
    for (size_t i = 0; i < route->identity.count; i++) {
        h.wanted = route->identity.items[i];
        http_request_headers(request, hash_if_wanted, &h);
    }
    int found = h.found;
    hash_end(&h, digest);
    return found ? region_copy(http_request_memory(request), digest, IDENTITY_DIGITS) : "anyone";
}

static void fingerprint(char out[DIGEST_HEX_SIZE], const http_request *request)
{
    hashing h;
    const char *type = http_request_header(request, "Content-Type");
    semel_bytes body = http_request_body(request);
    hash_begin(&h);
    hash_text(&h, http_request_method(request));
    hash_text(&h, http_request_target(request));
    hash_text(&h, type ? type : "");
    hash_bytes(&h, body.data, body.len);
    hash_end(&h, out);
}

/* --- both ------------------------------------------------------------------------------------- */

key_finding proxy_key_read(proxy_key *out, const route_config *route, http_request *request,
                           const char **why)
{
    char key[PROXY_KEY_MAX + 1];
    size_t count = http_request_header_count(request, route->key_header);
    const char *header = http_request_header(request, route->key_header);
    *why = "It has 1 to 255 visible ASCII characters, bare or as a string in double quotes (RFC "
           "8941).";
    if (!count || !header)
        return KEY_MISSING;
    if (count > 1) {
        *why = "The header was sent more than once.";
        return KEY_BAD;
    }
    if (proxy_key_parse(key, header) != KEY_FOUND)
        return KEY_BAD;
    out->text =
        region_printf(http_request_memory(request), "%s:%s", identity_of(route, request), key);
    out->len = strlen(out->text);
    fingerprint(out->fingerprint, request);
    return KEY_FOUND;
}
