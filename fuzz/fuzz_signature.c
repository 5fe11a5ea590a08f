/* Headers of signatures: the first byte of an input chooses the preset, each line is the value of a
 * header of that preset, and what is behind an empty line is the body.
 *
 *  - No header of a stranger is a good signature: the secret is not known to the input.
 *  - The verdict names a header, and says why in one line.
 *  - A list has no more signatures than it may have, each of the size of its kind. */
#include "program/gateway/signature.h"
#include "program/gateway/signature_parse.h"
#include "property.h"

#include <strings.h>

enum { LINES_MAX = 4 };

typedef struct lines {
    char *values[LINES_MAX];
    size_t count;
    webhook_preset preset;
} lines;

static const char *const names[][LINES_MAX] = {
    [WEBHOOK_NONE] = {NULL},
    [WEBHOOK_STANDARD] = {"webhook-signature", "webhook-id", "webhook-timestamp"},
    [WEBHOOK_STRIPE] = {"Stripe-Signature"},
    [WEBHOOK_GITHUB] = {"X-Hub-Signature-256"},
    [WEBHOOK_SHOPIFY] = {"X-Shopify-Hmac-Sha256"},
    [WEBHOOK_SLACK] = {"X-Slack-Signature", "X-Slack-Request-Timestamp"},
    [WEBHOOK_HMAC] = {"X-Sign", "X-Time"}};

static const char *header(size_t *count, const void *from, const char *name)
{
    const lines *all = from;
    for (size_t i = 0; i < all->count; i++)
        if (names[all->preset][i] && strcasecmp(names[all->preset][i], name) == 0) {
            *count = 1;
            return all->values[i];
        }
    *count = 0;
    return NULL;
}

static void check_list(const signature_list *list)
{
    HOLDS(list->count <= SIGNATURES_MAX);
    for (size_t i = 0; i < list->count; i++)
        HOLDS(list->items[i].len == (list->items[i].kind == SIGNATURE_ED25519 ? 64 : 32));
}

static void check_parsers(const char *text)
{
    signature_list list = {0}, events = {0}, one = {0};
    semel_bytes time = {0};
    if (!signature_parse_standard(&list, text))
        HOLDS(list.count);
    check_list(&list);
    if (!signature_parse_stripe(&events, &time, text)) {
        HOLDS(events.count && time.data);
        HOLDS((const char *)time.data >= text &&
              (const char *)time.data + time.len <= text + strlen(text));
    }
    check_list(&events);
    if (!signature_parse_one(&one, text, "v0=", HMAC_HEX, 32))
        HOLDS(one.count == 1);
    HOLDS(signature_parse_time(semel_str(text)) >= -1);
}

static void check_request(const lines *all, semel_bytes body)
{
    const char *secret = "c2VjcmV0IHRoYXQgbm9ib2R5IGtub3dz";
    const route_config route = {.preset = all->preset,
                                .secrets = {&secret, 1},
                                .tolerance_ms = 300000,
                                .hmac = {.header = "X-Sign",
                                         .prefix = "s=",
                                         .timestamp = "X-Time",
                                         .content = "{timestamp}.{body}"}};
    const signed_request request = {
        .header = header, .from = all, .body = body, .now_ms = INT64_C(1700000000000)};
    signature_facts facts = {0};
    signature_verdict verdict = signature_verify(&facts, &route, &request);
    HOLDS(verdict != SIGNATURE_GOOD && verdict != SIGNATURE_FAILED);
    HOLDS(facts.header && !facts.time_s);
    HOLDS(!facts.why || !strpbrk(facts.why, "\r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lines all = {0};
    if (!size)
        return 0;
    all.preset = (webhook_preset)(WEBHOOK_STANDARD + data[0] % WEBHOOK_HMAC);
    const uint8_t *at = data + 1, *end = data + size;
    while (at < end && all.count < LINES_MAX && *at != '\n') {
        const uint8_t *line = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line ? line : end) - at);
        all.values[all.count++] = exact_text(at, len);
        at = line ? line + 1 : end;
    }
    at += at < end && *at == '\n';
    void *body = exact_copy(at, (size_t)(end - at));
    for (size_t i = 0; i < all.count; i++)
        check_parsers(all.values[i]);
    check_request(&all, (semel_bytes){body, (size_t)(end - at)});
    for (size_t i = 0; i < all.count; i++)
        free(all.values[i]);
    free(body);
    return 0;
}
