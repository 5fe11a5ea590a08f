/* See signature.h. Each scheme reads its headers into a list of signatures and a content; what
 * follows is the same for all: any secret, any signature, then the time. */
#include "program/gateway/signature.h"

#include "program/gateway/signature_keys.h"
#include "program/support/binary.h"

#include <openssl/crypto.h>
#include <string.h>

typedef struct verifying {
    const route_config *route;
    const signed_request *request;
    signature_facts *facts;
    signature_list given;
    signature_content content;
    hmac_algorithm algorithm;
    int has_time;
    int64_t time_s;
} verifying;

/* --- headers ---------------------------------------------------------------------------------- */

static signature_verdict malformed(verifying *v, const char *header, const char *why)
{
    v->facts->header = header;
    v->facts->why = why;
    return SIGNATURE_MALFORMED;
}

/* A header that is there once and is not too long. One that comes twice may be read differently by
 * whatever is between the sender and here. */
static signature_verdict take(const char **out, verifying *v, const char *name)
{
    size_t count = 0;
    *out = v->request->header(&count, v->request->from, name);
    v->facts->header = name;
    if (!*out || !**out)
        return SIGNATURE_MISSING;
    if (count > 1)
        return malformed(v, name, "it was sent twice");
    return strlen(*out) > SIGNATURE_HEADER_MAX ? malformed(v, name, "it is too long")
                                               : SIGNATURE_GOOD;
}

static void sign(verifying *v, semel_bytes part)
{
    v->content.parts[v->content.count++] = part;
}

static signature_verdict take_time(verifying *v, const char *name, semel_bytes *text)
{
    const char *value = NULL;
    signature_verdict verdict = take(&value, v, name);
    if (verdict)
        return verdict;
    *text = semel_str(value);
    v->time_s = signature_parse_time(*text);
    v->has_time = 1;
    return v->time_s < 0 ? malformed(v, name, "it is not a time in seconds") : SIGNATURE_GOOD;
}

/* --- schemes ---------------------------------------------------------------------------------- */

/* Senders that are older than the standard send the same under svix-. */
static int is_svix(const verifying *v)
{
    size_t count = 0;
    return !v->request->header(&count, v->request->from, "webhook-signature") &&
           v->request->header(&count, v->request->from, "svix-signature");
}

/* An id without a signature beside one with it: whatever reads headers might take the wrong one. */
static signature_verdict refuse_unsigned_id(verifying *v, int svix)
{
    size_t count = 0;
    return svix && v->request->header(&count, v->request->from, "webhook-id")
               ? malformed(v, "webhook-id", "it is not signed: the signature is of svix-id")
               : SIGNATURE_GOOD;
}

/* The id may have no dot: the signed text could be divided in two ways. */
static signature_verdict read_standard(verifying *v)
{
    int svix = is_svix(v);
    const char *id_name = svix ? "svix-id" : "webhook-id", *id = NULL;
    const char *list_name = svix ? "svix-signature" : "webhook-signature", *list = NULL;
    semel_bytes time = {0};
    signature_verdict verdict = refuse_unsigned_id(v, svix);
    if (!verdict)
        verdict = take(&list, v, list_name);
    if (!verdict)
        verdict = take(&id, v, id_name);
    if (!verdict)
        verdict = take_time(v, svix ? "svix-timestamp" : "webhook-timestamp", &time);
    if (verdict)
        return verdict;
    if (strchr(id, '.'))
        return malformed(v, id_name, "it has a dot");
    v->facts->id = id;
    sign(v, semel_str(id));
    sign(v, semel_str("."));
    sign(v, time);
    sign(v, semel_str("."));
    sign(v, v->request->body);
    const char *why = signature_parse_standard(&v->given, list);
    return why ? malformed(v, list_name, why) : SIGNATURE_GOOD;
}

static signature_verdict read_stripe(verifying *v)
{
    static const char name[] = "Stripe-Signature";
    const char *value = NULL;
    semel_bytes time;
    signature_verdict verdict = take(&value, v, name);
    if (verdict)
        return verdict;
    const char *why = signature_parse_stripe(&v->given, &time, value);
    if (why)
        return malformed(v, name, why);
    v->time_s = signature_parse_time(time);
    v->has_time = 1;
    sign(v, time);
    sign(v, semel_str("."));
    sign(v, v->request->body);
    return v->time_s < 0 ? malformed(v, name, "t= is not a time in seconds") : SIGNATURE_GOOD;
}

static signature_verdict read_one(verifying *v, const char *name, const char *prefix,
                                  hmac_encoding encoding)
{
    const char *value = NULL;
    signature_verdict verdict = take(&value, v, name);
    if (verdict)
        return verdict;
    const char *why =
        signature_parse_one(&v->given, value, prefix, encoding, signature_size(v->algorithm));
    return why ? malformed(v, name, why) : SIGNATURE_GOOD;
}

static signature_verdict read_body_only(verifying *v, const char *name, const char *prefix,
                                        hmac_encoding encoding)
{
    sign(v, v->request->body);
    return read_one(v, name, prefix, encoding);
}

static signature_verdict read_slack(verifying *v)
{
    semel_bytes time = {0};
    signature_verdict verdict = read_one(v, "X-Slack-Signature", "v0=", HMAC_HEX);
    if (!verdict)
        verdict = take_time(v, "X-Slack-Request-Timestamp", &time);
    sign(v, semel_str("v0:"));
    sign(v, time);
    sign(v, semel_str(":"));
    sign(v, v->request->body);
    return verdict;
}

/* --- what `hmac` says ------------------------------------------------------------------------- */

static const char body_word[] = "{body}", time_word[] = "{timestamp}";

/* The next part of the template: a word in braces, or the text up to one. */
static size_t next_part(const char *at)
{
    if (strncmp(at, body_word, sizeof body_word - 1) == 0)
        return sizeof body_word - 1;
    if (strncmp(at, time_word, sizeof time_word - 1) == 0)
        return sizeof time_word - 1;
    size_t len = strcspn(at + 1, "{") + 1;
    return len;
}

static int is_word(const char *at, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(at, word, len) == 0;
}

static signature_verdict read_hmac(verifying *v)
{
    const hmac_config *hmac = &v->route->hmac;
    semel_bytes time = {0};
    v->algorithm = hmac->algorithm;
    signature_verdict verdict =
        read_one(v, hmac->header, hmac->prefix ? hmac->prefix : "", hmac->encoding);
    if (!verdict && hmac->timestamp)
        verdict = take_time(v, hmac->timestamp, &time);
    size_t len;
    for (const char *at = hmac->content; *at && v->content.count < SIGNATURE_PARTS_MAX; at += len) {
        len = next_part(at);
        sign(v, is_word(at, len, body_word)   ? v->request->body
                : is_word(at, len, time_word) ? time
                                              : (semel_bytes){at, len});
    }
    return verdict;
}

/* 1 if there is a word in braces that is neither of the two. */
static int has_other_word(const char *content)
{
    for (const char *at = content; *at; at += next_part(at)) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        size_t len = next_part(at);
        if (end && !is_word(at, len, body_word) && !is_word(at, len, time_word))
            return 1;
    }
    return 0;
}

const char *signature_check_content(const hmac_config *hmac)
{
    size_t parts = 0;
    for (const char *at = hmac->content; *at; at += next_part(at))
        parts++;
    if (!strstr(hmac->content, body_word))
        return "the body is not signed; add {body}";
    if (has_other_word(hmac->content))
        return "it knows {body} and {timestamp} only";
    if (strstr(hmac->content, time_word) && !hmac->timestamp)
        return "it has {timestamp}, but no header is named by hmac.timestamp";
    return parts > SIGNATURE_PARTS_MAX ? "it has more than 16 parts" : NULL;
}

/* --- secrets ---------------------------------------------------------------------------------- */

static const char hmac_secret[] = "whsec_", public_key[] = "whpk_", private_key[] = "whsk_";
enum { ED25519_KEY = 32 };

static int begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The key behind the prefix; the prefix of an HMAC's may be left out. 0: it is not base64. */
static int standard_key(semel_bytes *out, region *memory, const char *secret, int *is_public)
{
    *is_public = begins_with(secret, public_key);
    size_t prefix = *is_public                         ? sizeof public_key - 1
                    : begins_with(secret, hmac_secret) ? sizeof hmac_secret - 1
                                                       : 0;
    return binary_from_base64(out, memory, secret + prefix, strlen(secret + prefix)) && out->len;
}

static int fits_standard(const verifying *v, const char *secret)
{
    region memory = {0};
    semel_bytes key = {0};
    int is_public = 0, fits = -1;
    if (standard_key(&key, &memory, secret, &is_public))
        fits = is_public ? signature_ed25519_fits(&v->given, key, &v->content)
                         : signature_hmac_fits(&v->given, v->algorithm, key, &v->content);
    if (key.data)
        OPENSSL_cleanse((void *)key.data, key.len);
    region_free(&memory);
    return fits;
}

static const char *check_standard(const char *secret)
{
    region memory = {0};
    semel_bytes key = {0};
    int is_public = 0;
    const char *why = NULL;
    if (begins_with(secret, private_key))
        why = "a whsk_ key is the sender's own, which nobody else should have; use its whpk_ key";
    else if (!standard_key(&key, &memory, secret, &is_public))
        why = is_public ? "it is not base64 behind whpk_" : "it is not base64 behind whsec_";
    else if (is_public && key.len != ED25519_KEY)
        why = "a whpk_ key has 32 bytes";
    if (key.data)
        OPENSSL_cleanse((void *)key.data, key.len);
    region_free(&memory);
    return why;
}

const char *signature_check_secret(webhook_preset preset, const char *secret)
{
    if (!*secret)
        return "it is empty";
    if (strlen(secret) > SIGNATURE_SECRET_MAX)
        return "it is longer than 1024 bytes";
    return preset == WEBHOOK_STANDARD ? check_standard(secret) : NULL;
}

/* --- the verdict ------------------------------------------------------------------------------ */

static signature_verdict read_request(verifying *v)
{
    switch (v->route->preset) {
    case WEBHOOK_STANDARD:
        return read_standard(v);
    case WEBHOOK_STRIPE:
        return read_stripe(v);
    case WEBHOOK_GITHUB:
        return read_body_only(v, "X-Hub-Signature-256", "sha256=", HMAC_HEX);
    case WEBHOOK_SHOPIFY:
        return read_body_only(v, "X-Shopify-Hmac-Sha256", "", HMAC_BASE64);
    case WEBHOOK_SLACK:
        return read_slack(v);
    case WEBHOOK_HMAC:
        return read_hmac(v);
    case WEBHOOK_NONE:
        break;
    }
    return malformed(v, "", "the route has no preset");
}

static signature_verdict try_secrets(const verifying *v)
{
    int fits = 0, failed = 0;
    for (size_t i = 0; i < v->route->secrets.count; i++) {
        const char *secret = v->route->secrets.items[i];
        int one =
            v->route->preset == WEBHOOK_STANDARD
                ? fits_standard(v, secret)
                : signature_hmac_fits(&v->given, v->algorithm, semel_str(secret), &v->content);
        fits |= one == 1;
        failed |= one < 0;
    }
    return fits ? SIGNATURE_GOOD : failed ? SIGNATURE_FAILED : SIGNATURE_WRONG;
}

/* The tolerance is for clocks that differ, so it holds in both directions. */
static signature_verdict compare_time(const verifying *v)
{
    int64_t tolerance = (int64_t)v->route->tolerance_ms;
    if (!v->has_time)
        return SIGNATURE_GOOD;
    if (v->time_s * 1000 < v->request->now_ms - tolerance)
        return SIGNATURE_OLD;
    return v->time_s * 1000 > v->request->now_ms + tolerance ? SIGNATURE_EARLY : SIGNATURE_GOOD;
}

signature_verdict signature_verify(signature_facts *out, const route_config *route,
                                   const signed_request *request)
{
    verifying v = {.route = route, .request = request, .facts = out};
    *out = (signature_facts){.header = ""};
    signature_verdict verdict = read_request(&v);
    if (!verdict)
        verdict = try_secrets(&v);
    if (!verdict)
        verdict = compare_time(&v);
    out->time_s = verdict ? 0 : v.time_s;
    return verdict;
}
