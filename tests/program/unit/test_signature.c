/* Signatures of webhooks: known answers (those that the senders publish, and others that Python's
 * hmac, and Ed25519 by RFC 8032, computed: tests/program/webhook_kit.py), and what must be refused.
 *
 * The comparison: CRYPTO_memcmp() is counted here, on its way to OpenSSL. Whether the first, the
 * last or no secret fits, it is called as often and for as many bytes. How long it takes is
 * compared for buffers that differ in the first and in the last byte; an ordinary comparison would
 * leave the former thousands of times earlier. */
#include "program/gateway/signature.h"
#include "program/gateway/signature_keys.h"
#include "program/support/show.h"
#include "support/base/check.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- the comparison, counted ------------------------------------------------------------------ */

static struct {
    size_t calls;
    size_t bytes;
} compared;

int CRYPTO_memcmp(const void *left, const void *right, size_t len)
{
    static int (*original)(const void *, const void *, size_t);
    if (!original) {
        void *found = dlsym(RTLD_NEXT, "CRYPTO_memcmp");
        memcpy((void *)&original, (void *)&found, sizeof original);
    }
    compared.calls++;
    compared.bytes += len;
    return original(left, right, len);
}

/* --- requests --------------------------------------------------------------------------------- */

#define AT   INT64_C(1700000000)
#define BODY "{\"id\":\"evt_1\"}"

enum { HEADERS_MAX = 6 };

typedef struct headers {
    const char *items[HEADERS_MAX][2];
} headers;

static const char *header(size_t *count, const void *from, const char *name)
{
    const headers *all = from;
    const char *found = NULL;
    *count = 0;
    for (size_t i = 0; i < HEADERS_MAX && all->items[i][0]; i++)
        if (strcasecmp(all->items[i][0], name) == 0) {
            found = found ? found : all->items[i][1];
            ++*count;
        }
    return found;
}

static const char *const secret_list[] = {"secret", NULL};

static route_config route_of(webhook_preset preset, const char *const *secrets)
{
    route_config route = {.preset = preset, .tolerance_ms = 300000};
    route.secrets.items = secrets;
    while (secrets[route.secrets.count])
        route.secrets.count++;
    return route;
}

static signature_verdict verify(const route_config *route, const headers *all, const char *body,
                                int64_t now_s)
{
    signature_facts facts;
    const signed_request request = {
        .header = header, .from = all, .body = semel_str(body), .now_ms = now_s * 1000};
    signature_verdict verdict = signature_verify(&facts, route, &request);
    assert_non_null(facts.header);
    return verdict;
}

/* --- known answers ---------------------------------------------------------------------------- */

#define WHSEC "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define WHPK  "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
#define V1    "v1,YvZ0WbZa1/aSr6rYI+WcCNp6iQc1VGsNE8L2cBNlvT4="
#define V1A                                               \
    "v1a,/l0Pm0nt+bY6j6WVqukgrJzYGBN02wOvNpIi1RAgdRdu1f/" \
    "KQxX45rpuxzZfxc9puC9KW4apl5JEeyIXjL2JCg=="
#define STRIPE "c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925"
#define GITHUB "sha256=16abb10adb33ff9cff34f6a57fc2c0b902c11ea19fe73dae86f2940c235e7ed5"

static const char slack_body[] =
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
    "channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
    "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%"
    "2F96rGlfmibIGl"
    "gcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

typedef struct known {
    webhook_preset preset;
    const char *secret;
    const char *body;
    int64_t at;
    headers headers;
} known;

static const known answers[] = {
    /* published: github.com/standard-webhooks */
    {WEBHOOK_STANDARD,
     WHSEC,
     "{\"test\": 2432232314}",
     1614265330,
     {{{"webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"},
       {"webhook-timestamp", "1614265330"},
       {"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}}},
    /* published: docs.github.com */
    {WEBHOOK_GITHUB,
     "It's a Secret to Everybody",
     "Hello, World!",
     AT,
     {{{"X-Hub-Signature-256",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}}}},
    /* published: docs.slack.dev */
    {WEBHOOK_SLACK,
     "8f742231b10e8888abcd99yyyzzz85a5",
     slack_body,
     1531420618,
     {{{"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
       {"X-Slack-Request-Timestamp", "1531420618"}}}},
    {WEBHOOK_STANDARD,
     WHSEC,
     BODY,
     AT,
     {{{"webhook-id", "msg_1"}, {"webhook-timestamp", "1700000000"}, {"webhook-signature", V1}}}},
    {WEBHOOK_STANDARD,
     WHPK,
     BODY,
     AT,
     {{{"webhook-id", "msg_1"}, {"webhook-timestamp", "1700000000"}, {"webhook-signature", V1A}}}},
    {WEBHOOK_STANDARD,
     WHSEC,
     BODY,
     AT,
     {{{"svix-id", "msg_1"}, {"svix-timestamp", "1700000000"}, {"svix-signature", V1}}}},
    {WEBHOOK_STRIPE,
     "whsec_test",
     BODY,
     AT,
     {{{"Stripe-Signature", "t=1700000000,v0=6ffbb59b,v1=" STRIPE}}}},
    {WEBHOOK_GITHUB, "secret", BODY, AT, {{{"X-Hub-Signature-256", GITHUB}}}},
    {WEBHOOK_GITHUB,
     "secret",
     "",
     AT,
     {{{"X-Hub-Signature-256",
        "sha256=f9e66e179b6747ae54108f82f8ade8b3c25d76fd30afde6c395822c530196169"}}}},
    {WEBHOOK_SHOPIFY,
     "secret",
     BODY,
     AT,
     {{{"X-Shopify-Hmac-Sha256", "FquxCtsz/5z/NPalf8LAuQLBHqGf5z2uhvKUDCNeftU="}}}},
    {WEBHOOK_SLACK,
     "secret",
     BODY,
     AT,
     {{{"X-Slack-Signature", "v0=b309f3d7239ac0374a6c849860bd0d4c399db9a34a5dc5a8898e32501a58ba22"},
       {"X-Slack-Request-Timestamp", "1700000000"}}}},
};

static void known_answers_are_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const known *k = &answers[i];
        const char *const secrets[] = {k->secret, NULL};
        route_config route = route_of(k->preset, secrets);
        if (verify(&route, &k->headers, k->body, k->at))
            fail_msg("answer %zu", i);
    }
}

/* One bit of the body, of each header, and of the secret. */
static void any_change_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const known *k = &answers[i];
        const char *const secrets[] = {k->secret, NULL};
        const char *const others[] = {
            k->preset == WEBHOOK_STANDARD ? "whsec_TWZLUTlyOEdLWXFyVHdqVVBEOElMUFpJ" : "other",
            NULL};
        route_config route = route_of(k->preset, secrets), other = route_of(k->preset, others);
        char body[1024];
        (void)snprintf(body, sizeof body, "%s ", k->body);
        assert_int_equal(verify(&route, &k->headers, body, k->at), SIGNATURE_WRONG);
        assert_int_equal(verify(&other, &k->headers, k->body, k->at), SIGNATURE_WRONG);
        for (size_t j = 0; j < HEADERS_MAX && k->headers.items[j][0]; j++) {
            headers changed = k->headers;
            char value[512];
            (void)snprintf(value, sizeof value, "%s", k->headers.items[j][1]);
            value[strlen(value) - 5] ^= 1;
            changed.items[j][1] = value;
            assert_int_not_equal(verify(&route, &changed, k->body, k->at), SIGNATURE_GOOD);
            changed.items[j][0] = "X-Other";
            assert_int_equal(verify(&route, &changed, k->body, k->at), SIGNATURE_MISSING);
        }
    }
}

static void times_are_compared_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const known *k = &answers[i];
        const char *const secrets[] = {k->secret, NULL};
        route_config route = route_of(k->preset, secrets);
        int has_time = k->preset != WEBHOOK_GITHUB && k->preset != WEBHOOK_SHOPIFY;
        assert_int_equal(verify(&route, &k->headers, k->body, k->at + 300), SIGNATURE_GOOD);
        assert_int_equal(verify(&route, &k->headers, k->body, k->at - 300), SIGNATURE_GOOD);
        assert_int_equal(verify(&route, &k->headers, k->body, k->at + 301),
                         has_time ? SIGNATURE_OLD : SIGNATURE_GOOD);
        assert_int_equal(verify(&route, &k->headers, k->body, k->at - 301),
                         has_time ? SIGNATURE_EARLY : SIGNATURE_GOOD);
        /* a stranger does not learn whether the time would do */
        const char *const others[] = {"c2VjcmV0", NULL};
        route_config other = route_of(k->preset, others);
        assert_int_equal(verify(&other, &k->headers, k->body, k->at + 999), SIGNATURE_WRONG);
    }
}

static void several_secrets_and_signatures(void **state)
{
    const char *const secrets[] = {"one", "whsec_test", "two", NULL};
    const char *const mixed[] = {WHPK, WHSEC, NULL};
    route_config stripe = route_of(WEBHOOK_STRIPE, secrets);
    route_config standard = route_of(WEBHOOK_STANDARD, mixed);
    const headers listed = {
        {{"Stripe-Signature", "t=1700000000,v1="
                              "0000000000000000000000000000000000000000000000000000000000000000,"
                              "v2=x, v1=" STRIPE}}};
    const headers both = {{{"webhook-id", "msg_1"},
                           {"webhook-timestamp", "1700000000"},
                           {"webhook-signature", "v9,x " V1A " " V1}}};
    (void)state;
    assert_int_equal(verify(&stripe, &listed, BODY, AT), SIGNATURE_GOOD);
    assert_int_equal(verify(&standard, &both, BODY, AT), SIGNATURE_GOOD);
    standard.secrets.count = 1;
    assert_int_equal(verify(&standard, &both, BODY, AT), SIGNATURE_GOOD);
    stripe.secrets.count = 0;
    assert_int_equal(verify(&stripe, &listed, BODY, AT), SIGNATURE_WRONG);
}

static void hmac_is_configurable(void **state)
{
    route_config route = route_of(WEBHOOK_HMAC, secret_list);
    const headers sha512 = {{{"X-Sign", "s=iRVqsNzq2wr+FaUlYlQnGwLHllbU90HQJRMfeyOb6owDngFYl6+"
                                        "nT3HB2sHsIMCMyk7A8ZD015kpQk3rZWavpg=="},
                             {"X-Time", "1700000000"}}};
    const headers sha1 = {{{"X-Sign", "fb22df8909e5dffcbbbc78d755a741bac4f08874"}}};
    (void)state;
    route.hmac = (hmac_config){.header = "X-Sign",
                               .prefix = "s=",
                               .algorithm = HMAC_SHA512,
                               .encoding = HMAC_BASE64,
                               .timestamp = "X-Time",
                               .content = "{timestamp}|{body}|x"};
    assert_int_equal(verify(&route, &sha512, BODY, AT), SIGNATURE_GOOD);
    assert_int_equal(verify(&route, &sha512, BODY, AT + 1000), SIGNATURE_OLD);
    assert_int_equal(verify(&route, &sha1, BODY, AT), SIGNATURE_MALFORMED);
    route.hmac = (hmac_config){
        .header = "X-Sign", .algorithm = HMAC_SHA1, .encoding = HMAC_HEX, .content = "{body}"};
    assert_int_equal(verify(&route, &sha1, BODY, AT), SIGNATURE_GOOD);
    assert_int_equal(verify(&route, &sha1, BODY " ", AT), SIGNATURE_WRONG);
}

/* --- what is malformed ------------------------------------------------------------------------ */

static void malformed_headers_are_refused(void **state)
{
    static const char *const values[] = {
        "t=1700000000",
        "v1=" STRIPE,
        "t=,v1=" STRIPE,
        "t=-1,v1=" STRIPE,
        "t=17000000000000,v1=" STRIPE,
        "t= 1700000000,v1=" STRIPE,
        "t=1700000000,t=1700000000,v1=" STRIPE,
        "t=1700000000,v1=" STRIPE "00",
        "t=1700000000,v1=c892",
        "t=1700000000,v1=",
        "t=1700000000;v1=" STRIPE,
        ",,,",
        "=",
    };
    const char *const secrets[] = {"whsec_test", NULL};
    route_config route = route_of(WEBHOOK_STRIPE, secrets);
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const headers one = {{{"Stripe-Signature", values[i]}}};
        if (verify(&route, &one, BODY, AT) != SIGNATURE_MALFORMED)
            fail_msg("%s", values[i]);
    }
    const headers twice = {{{"Stripe-Signature", "t=1700000000,v1=" STRIPE},
                            {"stripe-signature", "t=1700000000,v1=" STRIPE}}};
    assert_int_equal(verify(&route, &twice, BODY, AT), SIGNATURE_MALFORMED);
}

static void sizes_are_limited(void **state)
{
    enum { ROOM = 8192 };
    const char *const secrets[] = {WHSEC, NULL};
    route_config route = route_of(WEBHOOK_STANDARD, secrets);
    buffer list = {0}, spaces = {0};
    (void)state;
    for (size_t i = 0; i <= SIGNATURES_MAX; i++)
        buffer_text(&list, V1 " ");
    while (spaces.len < ROOM)
        buffer_text(&spaces, "                ");
    headers all = {{{"webhook-id", "msg_1"},
                    {"webhook-timestamp", "1700000000"},
                    {"webhook-signature", list.data}}};
    assert_int_equal(verify(&route, &all, BODY, AT), SIGNATURE_MALFORMED);
    all.items[2][1] = spaces.data;
    assert_int_equal(verify(&route, &all, BODY, AT), SIGNATURE_MALFORMED);
    all.items[2][1] = V1;
    assert_int_equal(verify(&route, &all, BODY, AT), SIGNATURE_GOOD);
    all.items[0][1] = "msg.1"; /* the signed text could be divided otherwise */
    assert_int_equal(verify(&route, &all, BODY, AT), SIGNATURE_MALFORMED);
    buffer_free(&list);
    buffer_free(&spaces);
}

static void secrets_are_checked(void **state)
{
    (void)state;
    assert_null(signature_check_secret(WEBHOOK_STANDARD, WHSEC));
    assert_null(signature_check_secret(WEBHOOK_STANDARD, WHPK));
    assert_null(signature_check_secret(WEBHOOK_STRIPE, "whsec_anything"));
    assert_non_null(signature_check_secret(WEBHOOK_STRIPE, ""));
    assert_non_null(signature_check_secret(WEBHOOK_STANDARD, "whsec_"));
    assert_non_null(signature_check_secret(WEBHOOK_STANDARD, "whsec_a"));
    assert_non_null(signature_check_secret(WEBHOOK_STANDARD, "whpk_c2VjcmV0"));
    assert_non_null(signature_check_secret(WEBHOOK_STANDARD, "whsk_c2VjcmV0"));
}

/* --- time ------------------------------------------------------------------------------------- */

static void every_secret_is_compared_in_full(void **state)
{
    static const char *const orders[][4] = {
        {"whsec_test", "b", "c", NULL}, {"a", "b", "whsec_test", NULL}, {"a", "b", "c", NULL}};
    const headers all = {{{"Stripe-Signature", "t=1700000000,v1=" STRIPE ",v1=" STRIPE}}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        route_config route = route_of(WEBHOOK_STRIPE, orders[i]);
        compared.calls = compared.bytes = 0;
        assert_int_equal(verify(&route, &all, BODY, AT), i == 2 ? SIGNATURE_WRONG : SIGNATURE_GOOD);
        assert_int_equal(compared.calls, 3 * 2); /* secrets, signatures */
        assert_int_equal(compared.bytes, 3 * 2 * 32);
    }
}

/* The shortest of many: what else the machine does only adds to it. */
static int64_t shortest(const unsigned char *left, const unsigned char *right, size_t len,
                        int64_t best)
{
    int64_t began = steady_clock_ns();
    int same = signature_same(left, right, len);
    int64_t took = steady_clock_ns() - began;
    assert_false(same);
    return took < best ? took : best;
}

static void the_place_of_a_difference_does_not_show(void **state)
{
    enum { LEN = 256 * 1024, ROUNDS = 200 };
    unsigned char *zeros = calloc(LEN, 1), *first = calloc(LEN, 1), *last = calloc(LEN, 1);
    int64_t early = INT64_MAX, late = INT64_MAX;
    (void)state;
    assert_non_null(zeros);
    assert_non_null(first);
    assert_non_null(last);
    first[0] = last[LEN - 1] = 1;
    for (size_t i = 0; i < ROUNDS; i++) {
        early = shortest(zeros, first, LEN, early);
        late = shortest(zeros, last, LEN, late);
    }
    if (early < late / 3 || late < early / 3)
        fail_msg("a difference at the beginning takes %lld ns, one at the end %lld ns",
                 (long long)early, (long long)late);
    free(zeros);
    free(first);
    free(last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_are_good),
        cmocka_unit_test(any_change_is_refused),
        cmocka_unit_test(times_are_compared_both_ways),
        cmocka_unit_test(several_secrets_and_signatures),
        cmocka_unit_test(hmac_is_configurable),
        cmocka_unit_test(malformed_headers_are_refused),
        cmocka_unit_test(sizes_are_limited),
        cmocka_unit_test(secrets_are_checked),
        cmocka_unit_test(every_secret_is_compared_in_full),
        cmocka_unit_test(the_place_of_a_difference_does_not_show),
    };
    return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
