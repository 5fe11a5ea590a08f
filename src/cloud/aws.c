/* See aws.h. The host's wall clock is used for signatures only; when the service says that it is
 * wrong, the difference to the Date of that answer is kept and added. */
#include "cloud/aws.h"

#include "base/mem.h"
#include "base/seam.h"
#include "base/wait.h"
#include "cloud/aws_credentials.h"

#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_PAUSE_MS = 25,
    LONGEST_PAUSE_MS = 2000,
    CONNECT_MS = 5000,
    HOST_ROOM = 300,
    URL_ROOM = 320,
    REGION_ROOM = 64,
    TARGET_ROOM = 128
};

struct aws_client {
    aws_options options;
    char region[REGION_ROOM];
    char endpoint[URL_ROOM]; /* without a slash at its end */
    char host[HOST_ROOM];    /* as in the header */
    char url[URL_ROOM + 1];
    char profile[128];
    cloud_http *http;
    aws_credentials *credentials;
    atomic_llong behind_ms; /* what the host's clock lacks to the service's */
};

const char *aws_service(const aws_client *client)
{
    return client->options.service;
}

const char *aws_region(const aws_client *client)
{
    return client->region;
}

const char *aws_endpoint(const aws_client *client)
{
    return client->endpoint;
}

void aws_answer_clear(aws_answer *answer)
{
    cloud_answer_clear(&answer->http);
    *answer = (aws_answer){0};
}

/* --- opening ---------------------------------------------------------------------------------- */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int is_region(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len < REGION_ROOM &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static semel_status choose_region(aws_client *client, semel_error *err)
{
    aws_profile profile = {.found = 0};
    const char *name = client->options.profile ? client->options.profile : setting("AWS_PROFILE");
    const char *region = client->options.region;
    if (!region)
        region = setting("AWS_REGION");
    if (!region)
        region = setting("AWS_DEFAULT_REGION");
    if (!region && !aws_profile_read(&profile, name ? name : "default", NULL) && profile.region[0])
        region = profile.region;
    if (!region && client->options.endpoint)
        region =
            "us-east-1"; /* what has an address of its own needs a region for signatures only */
    int fine = region && is_region(region);
    if (fine)
        (void)snprintf(client->region, sizeof client->region, "%s", region);
    OPENSSL_cleanse(&profile, sizeof profile);
    if (fine)
        return SEMEL_OK;
    return region ? semel_fail(err, SEMEL_EINVAL,
                               "URL: region is a name like eu-central-1, of small letters, digits "
                               "and hyphens")
                  : semel_fail(err, SEMEL_EINVAL,
                               "URL: there is no region; add region=eu-central-1 to it, or set "
                               "AWS_REGION");
}

static semel_status choose_endpoint(aws_client *client, semel_error *err)
{
    const char *given = client->options.endpoint;
    const char *domain =
        strncmp(client->region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
    if (!given)
        given = setting("AWS_ENDPOINT_URL_DYNAMODB");
    if (!given)
        given = setting("AWS_ENDPOINT_URL");
    int len = given ? snprintf(client->endpoint, sizeof client->endpoint, "%s", given)
                    : snprintf(client->endpoint, sizeof client->endpoint, "https://%s.%s.%s",
                               client->options.service, client->region, domain);
    while (len > 0 && len < URL_ROOM && client->endpoint[len - 1] == '/')
        client->endpoint[--len] = 0;
    const char *host = strstr(client->endpoint, "://");
    int scheme = strncmp(client->endpoint, "http://", 7) == 0 ||
                 strncmp(client->endpoint, "https://", 8) == 0;
    if (len <= 0 || len >= URL_ROOM || !scheme || !host[3] || strpbrk(host + 3, "/?#@ \"\\") ||
        strlen(host + 3) >= HOST_ROOM)
        return semel_fail(err, SEMEL_EINVAL,
                          "URL: endpoint is like https://host:port, with neither a user nor a "
                          "path");
    (void)snprintf(client->host, sizeof client->host, "%.*s", HOST_ROOM - 1, host + 3);
    (void)snprintf(client->url, sizeof client->url, "%s/", client->endpoint);
    return SEMEL_OK;
}

static semel_status open_parts(aws_client *client, semel_error *err)
{
    const char *profile = client->options.profile;
    if (profile && strlen(profile) >= sizeof client->profile)
        return semel_fail(err, SEMEL_EINVAL, "URL: the name of the profile is too long");
    (void)snprintf(client->profile, sizeof client->profile, "%s", profile ? profile : "");
    semel_status status = choose_region(client, err);
    if (!status)
        status = choose_endpoint(client, err);
    if (!status)
        status = cloud_http_open(&client->http, client->options.pool, err);
    if (!status)
        status = aws_credentials_open(&client->credentials, client->http,
                                      profile ? client->profile : NULL, client->options.seam, err);
    client->options.region = client->region;
    client->options.endpoint = client->endpoint;
    client->options.profile = client->profile;
    return status;
}

semel_status aws_open(aws_client **out, const aws_options *options, semel_error *err)
{
    aws_client *client = mem_alloc(sizeof *client);
    if (!client)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a client of AWS");
    client->options = *options;
    semel_status status = open_parts(client, err);
    if (status)
        aws_close(client);
    else
        *out = client;
    return status;
}

void aws_close(aws_client *client)
{
    if (!client)
        return;
    aws_credentials_close(client->credentials);
    cloud_http_close(client->http);
    mem_free(client);
}

/* --- one request ------------------------------------------------------------------------------ */

/* The headers of a request, as they are sent. */
typedef struct headers {
    char date_value[AWS_DATE_TEXT];
    char type[64], date[48], target[TARGET_ROOM], token[AWS_TOKEN_MAX + 32];
    char authorization[AWS_AUTHORIZATION_MAX + 32];
} headers;

static semel_status make_headers(headers *h, const aws_client *client, const char *operation,
                                 semel_bytes body, const aws_keys *keys, semel_error *err)
{
    char content_type[48], target[TARGET_ROOM], value[AWS_AUTHORIZATION_MAX];
    int64_t now_ms = seam_wall_ms(client->options.seam) + atomic_load(&client->behind_ms);
    aws_date(h->date_value, now_ms);
    (void)snprintf(content_type, sizeof content_type, "application/x-amz-json-%s",
                   client->options.version);
    (void)snprintf(target, sizeof target, "%s.%s", client->options.target, operation);
    aws_to_sign sign = {.method = "POST",
                        .path = "/",
                        .query = "",
                        .region = client->region,
                        .service = client->options.service,
                        .date = h->date_value,
                        .headers = {{"content-type", content_type},
                                    {"host", client->host},
                                    {"x-amz-date", h->date_value}},
                        .body = body};
    size_t n = 3;
    if (keys->token[0])
        sign.headers[n++] = (aws_signed_header){"x-amz-security-token", keys->token};
    sign.headers[n] = (aws_signed_header){"x-amz-target", target};
    semel_status status = aws_sign(value, &sign, keys, err);
    (void)snprintf(h->type, sizeof h->type, "Content-Type: %s", content_type);
    (void)snprintf(h->date, sizeof h->date, "X-Amz-Date: %s", h->date_value);
    (void)snprintf(h->target, sizeof h->target, "X-Amz-Target: %.*s", TARGET_ROOM - 16, target);
    (void)snprintf(h->token, sizeof h->token, "X-Amz-Security-Token: %s", keys->token);
    (void)snprintf(h->authorization, sizeof h->authorization, "Authorization: %s", value);
    return status;
}

static semel_status send_once(aws_client *client, const char *operation, semel_bytes body,
                              const aws_keys *keys, aws_answer *answer, semel_error *err)
{
    headers h;
    semel_status status = make_headers(&h, client, operation, body, keys, err);
    uint32_t connect_ms =
        client->options.answer_ms < CONNECT_MS ? client->options.answer_ms : CONNECT_MS;
    cloud_request request = {
        .method = "POST",
        .url = client->url,
        .headers = {h.type, h.date, h.target, h.authorization, keys->token[0] ? h.token : NULL},
        .body = body,
        .connect_ms = connect_ms,
        .answer_ms = client->options.answer_ms,
        .wait_ms = client->options.busy_ms,
        .direct = strncmp(client->url, "http:", 5) == 0};
    answer->type[0] = answer->message[0] = 0;
    if (!status)
        status = cloud_http_exchange(client->http, &request, &answer->http, err);
    OPENSSL_cleanse(&h, sizeof h);
    if (!status)
        aws_answer_explain(answer);
    return status;
}

/* --- repeating -------------------------------------------------------------------------------- */

typedef enum verdict {
    FINAL,
    COME_AGAIN, /* throttled: it was not done */
    LOST,       /* it may have been done */
    NEW_KEYS,
    NEW_TIME
} verdict;

static int is_one_of(const char *type, const char *const names[])
{
    for (; *names; names++)
        if (strcmp(type, *names) == 0)
            return 1;
    return 0;
}

static verdict judge(const aws_answer *answer)
{
    static const char *const throttled[] = {"ProvisionedThroughputExceededException",
                                            "ThrottlingException",
                                            "Throttling",
                                            "RequestLimitExceeded",
                                            "RequestThrottled",
                                            "RequestThrottledException",
                                            "SlowDown",
                                            "LimitExceededException",
                                            "TransactionConflictException",
                                            "TransactionInProgressException",
                                            "ReplicatedWriteConflictException",
                                            NULL};
    static const char *const expired[] = {"ExpiredTokenException", "ExpiredToken", "RequestExpired",
                                          NULL};
    static const char *const skewed[] = {"RequestTimeTooSkewed", "InvalidSignatureException", NULL};
    if (is_one_of(answer->type, throttled) || answer->http.status == 429)
        return COME_AGAIN;
    if (answer->http.status >= 500)
        return LOST;
    if (is_one_of(answer->type, expired))
        return NEW_KEYS;
    return is_one_of(answer->type, skewed) ? NEW_TIME : FINAL;
}

int aws_pause(const aws_client *client, int64_t begun_ms, unsigned failures)
{
    int64_t left_ms = begun_ms + client->options.busy_ms - wait_clock_ms();
    uint32_t bound = FIRST_PAUSE_MS;
    if (left_ms <= 0)
        return 0;
    while (--failures && failures < 32 && bound < LONGEST_PAUSE_MS)
        bound *= 2;
    if (bound > (uint64_t)left_ms)
        bound = (uint32_t)left_ms;
    wait_nap_us((uint32_t)seam_random_below(client->options.seam, (uint64_t)bound * 1000 + 1));
    return 1;
}

/* Keeps the difference of the clocks if the answer has a time that is minutes from ours; a
 * signature may be wrong for other reasons. */
static int learn_time(aws_client *client, const aws_answer *answer)
{
    enum { TOLERATED_MS = 60 * 1000 };
    int64_t host_ms = seam_wall_ms(client->options.seam);
    int64_t behind = answer->http.date_s * 1000 - host_ms;
    int64_t change = behind - atomic_load(&client->behind_ms);
    if (!answer->http.date_s || (change < TOLERATED_MS && change > -TOLERATED_MS))
        return 0;
    atomic_store(&client->behind_ms, behind);
    return 1;
}

/* What a call knows between its attempts. */
typedef struct attempts {
    int64_t begun_ms;
    unsigned failures, lost;
    int keys_renewed, time_renewed;
} attempts;

static verdict settle(aws_client *client, attempts *so_far, const aws_answer *answer,
                      const aws_keys *keys, semel_status sent)
{
    if (sent)
        return sent == SEMEL_EUNAVAILABLE && (answer->http.maybe_sent || so_far->lost) ? LOST
                                                                                       : FINAL;
    verdict v = judge(answer);
    if (v == NEW_KEYS && !so_far->keys_renewed) {
        so_far->keys_renewed = 1;
        aws_credentials_refused(client->credentials, keys);
    } else if (v == NEW_TIME && !so_far->time_renewed && learn_time(client, answer)) {
        so_far->time_renewed = 1;
    } else if (v == NEW_KEYS || v == NEW_TIME) {
        v = FINAL;
    }
    return v;
}

/* The time for repeating is longer by answer_ms if something was lost: that much the first answer
 * may have taken. */
static int pause_after(const aws_client *client, attempts *so_far, verdict v)
{
    if (v == NEW_KEYS || v == NEW_TIME)
        return 1;
    if (v == LOST && so_far->lost == 1)
        return 1; /* a connection that was idle for too long: at once */
    int64_t begun_ms = so_far->begun_ms + (so_far->lost ? client->options.answer_ms : 0);
    return aws_pause(client, begun_ms, ++so_far->failures);
}

static semel_status give_up(const aws_client *client, const attempts *so_far,
                            const aws_answer *answer, const char *operation, semel_status sent,
                            semel_error *err)
{
    char why[AWS_TYPE_MAX + AWS_MESSAGE_MAX];
    if (so_far->lost && sent)
        return semel_fail(err, SEMEL_EUNKNOWN,
                          "%s %s: its answer was lost, and so were those to %u repetitions",
                          client->options.service, operation, so_far->lost - 1);
    (void)snprintf(why, sizeof why, "%s%s%.*s", answer->type, answer->message[0] ? ": " : "",
                   AWS_MESSAGE_MAX - 8, answer->message);
    if (so_far->lost)
        return semel_fail(err, SEMEL_EUNKNOWN, "%s %s: status %ld, %s; it may have been done",
                          client->options.service, operation, answer->http.status, why);
    return semel_fail(err, SEMEL_EBUSY,
                      "%s %s: %s; it was repeated for %u ms (busy_ms), and not done",
                      client->options.service, operation, why, client->options.busy_ms);
}

semel_status aws_call(aws_client *client, const char *operation, semel_bytes body,
                      aws_answer *answer, semel_error *err)
{
    attempts so_far = {.begun_ms = wait_clock_ms()};
    for (;;) {
        aws_keys keys;
        semel_status sent = aws_credentials_get(client->credentials, &keys, err);
        int had_keys = !sent;
        if (!sent)
            sent = send_once(client, operation, body, &keys, answer, err);
        verdict v = had_keys ? settle(client, &so_far, answer, &keys, sent) : FINAL;
        OPENSSL_cleanse(&keys, sizeof keys);
        answer->lost = so_far.lost;
        if (v == FINAL)
            return sent && so_far.lost ? give_up(client, &so_far, answer, operation, sent, err)
                                       : sent;
        so_far.lost += v == LOST;
        if (!pause_after(client, &so_far, v))
            return give_up(client, &so_far, answer, operation, sent, err);
    }
}
