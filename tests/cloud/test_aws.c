/* HTTP, signatures and credentials of AWS, against a scripted server. */
#include "cloud/aws.h"
#include "cloud/aws_credentials.h"
#include "support/base/check.h"
#include "support/base/scratch.h"
#include "support/servers/http_script.h"

#include <curl/curl.h>
#include <pthread.h>
#include <semel/test.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ID     "AKIDEXAMPLE"
#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

/* --- signatures ------------------------------------------------------------------------------- */

static aws_keys example_keys(void)
{
    aws_keys keys = {.id = ID, .secret = SECRET};
    return keys;
}

/* The example of AWS's General Reference, "Signature Version 4 signing process". */
static void the_published_example(void **state)
{
    char value[AWS_AUTHORIZATION_MAX];
    aws_keys keys = example_keys();
    aws_to_sign request = {
        .method = "GET",
        .path = "/",
        .query = "Action=ListUsers&Version=2010-05-08",
        .region = "us-east-1",
        .service = "iam",
        .date = "20150830T123600Z",
        .headers = {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"},
                    {"host", "iam.amazonaws.com"},
                    {"x-amz-date", "20150830T123600Z"}}};
    (void)state;
    assert_int_equal(aws_sign(value, &request, &keys, &last_error), SEMEL_OK);
    assert_string_equal(
        value, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/"
               "aws4_request, SignedHeaders=content-type;host;x-amz-date, "
               "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

/* The value of a header of a request; "" if it has none. */
static void header_of(char *out, size_t room, const char *request, const char *name)
{
    const char *found = strcasestr(request, name);
    out[0] = 0;
    if (found)
        (void)snprintf(out, room, "%.*s", (int)strcspn(found + strlen(name), "\r\n"),
                       found + strlen(name));
}

static size_t discard(char *data, size_t one, size_t count, void *context)
{
    (void)data;
    (void)context;
    return one * count;
}

static void send_by_curl(unsigned port, const char *body)
{
    char url[64];
    CURL *curl = curl_easy_init();
    struct curl_slist *headers =
        curl_slist_append(NULL, "Content-Type: application/x-amz-json-1.0");
    headers = curl_slist_append(headers, "X-Amz-Target: DynamoDB_20120810.GetItem");
    headers = curl_slist_append(headers, "X-Amz-Security-Token: a+token/of=some");
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", port);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, "aws:amz:eu-central-1:dynamodb");
    (void)curl_easy_setopt(curl, CURLOPT_USERPWD, ID ":" SECRET);
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, discard);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}

/* Two implementations: what libcurl has signed is signed here again, with its time. */
static void libcurl_signs_the_same(void **state)
{
    static const char body[] = "{\"TableName\":\"semel\"}";
    char request[4096], theirs[1024], ours[AWS_AUTHORIZATION_MAX], date[64], host[64];
    aws_keys keys = example_keys();
    http_script *server = http_script_open(0);
    (void)state;
    http_script_answer(server, "GetItem", 1, 200, "{}");
    send_by_curl(http_script_port(server), body);
    http_script_last(server, "GetItem", request, sizeof request);
    header_of(theirs, sizeof theirs, request, "\nAuthorization: ");
    header_of(date, sizeof date, request, "\nX-Amz-Date: ");
    header_of(host, sizeof host, request, "\nHost: ");
    aws_to_sign sign = {.method = "POST",
                        .path = "/",
                        .query = "",
                        .region = "eu-central-1",
                        .service = "dynamodb",
                        .date = date,
                        .headers = {{"content-type", "application/x-amz-json-1.0"},
                                    {"host", host},
                                    {"x-amz-date", date},
                                    {"x-amz-security-token", "a+token/of=some"},
                                    {"x-amz-target", "DynamoDB_20120810.GetItem"}},
                        .body = semel_str(body)};
    assert_int_equal(aws_sign(ours, &sign, &keys, &last_error), SEMEL_OK);
    assert_string_equal(strstr(ours, "Signature="), strstr(theirs, "Signature="));
    http_script_close(server);
}

/* --- credentials ------------------------------------------------------------------------------ */

typedef struct place {
    scratch directory;
    semel_test_seam *seam;
    cloud_http *http;
    aws_credentials *chain;
    http_script *server;
} place;

static void clear_environment(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_DYNAMODB",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unsetenv(names[i]);
    (void)setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

static void write_file(const place *p, const char *name, const char *variable, const char *text)
{
    char path[SCRATCH_PATH];
    FILE *file = fopen(scratch_file(path, &p->directory, name), "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)setenv(variable, path, 1);
}

static place *open_place(void)
{
    place *p = calloc(1, sizeof *p);
    clear_environment();
    scratch_open(&p->directory);
    write_file(p, "config", "AWS_CONFIG_FILE", "");
    write_file(p, "credentials", "AWS_SHARED_CREDENTIALS_FILE", "");
    OK(semel_test_seam_open(&p->seam, 1, &last_error));
    OK(cloud_http_open(&p->http, 4, &last_error));
    p->server = http_script_open(0);
    return p;
}

static void open_chain(place *p, const char *profile)
{
    OK(aws_credentials_open(&p->chain, p->http, profile, semel_test_seam_get(p->seam),
                            &last_error));
}

static void close_place(place *p)
{
    aws_credentials_close(p->chain);
    cloud_http_close(p->http);
    semel_test_seam_close(p->seam);
    http_script_close(p->server);
    scratch_close(&p->directory);
    clear_environment();
    free(p);
}

static void expect_id(place *p, const char *id)
{
    aws_keys keys;
    OK(aws_credentials_get(p->chain, &keys, &last_error));
    assert_string_equal(keys.id, id);
}

static void expect_refusal(place *p, semel_status status, const char *part)
{
    aws_keys keys;
    FAILS(status, aws_credentials_get(p->chain, &keys, &last_error));
    if (!strstr(last_error.text, part))
        fail_msg("\"%s\" has no \"%s\"", last_error.text, part);
    assert_null(strstr(last_error.text, "s3cret"));
}

static void of_the_environment(void **state)
{
    place *p = open_place();
    aws_keys keys;
    (void)state;
    (void)setenv("AWS_ACCESS_KEY_ID", "AKIAENV", 1);
    open_chain(p, NULL);
    expect_refusal(p, SEMEL_ESTORE, "has AWS_ACCESS_KEY_ID but not AWS_SECRET_ACCESS_KEY");
    (void)setenv("AWS_SECRET_ACCESS_KEY", "s3cret", 1);
    (void)setenv("AWS_SESSION_TOKEN", "s3cret-token", 1);
    OK(aws_credentials_get(p->chain, &keys, &last_error));
    assert_string_equal(keys.id, "AKIAENV");
    assert_string_equal(keys.secret, "s3cret");
    assert_string_equal(keys.token, "s3cret-token");
    close_place(p);
}

static void of_profiles(void **state)
{
    place *p = open_place();
    aws_profile profile;
    (void)state;
    write_file(p, "config", "AWS_CONFIG_FILE",
               "[default]\nregion = eu-west-1\n# a comment\n[profile shop]\nregion=eu-central-1\n"
               "s3 =\n  addressing_style = path\n[profile role]\nrole_arn = arn:aws:iam::1:role/x\n"
               "source_profile = shop\n");
    write_file(p, "credentials", "AWS_SHARED_CREDENTIALS_FILE",
               "[default]\naws_access_key_id = AKIADEFAULT\naws_secret_access_key = s3cret1\n\n"
               "[shop]\r\naws_access_key_id=AKIASHOP\r\naws_secret_access_key=s3cret=2\r\n"
               "aws_session_token = s3cret3\r\n[empty]\n");
    open_chain(p, NULL);
    expect_id(p, "AKIADEFAULT");
    OK(aws_profile_read(&profile, "shop", &last_error));
    assert_string_equal(profile.keys.secret, "s3cret=2");
    assert_string_equal(profile.keys.token, "s3cret3");
    assert_string_equal(profile.region, "eu-central-1");
    aws_credentials_close(p->chain);
    (void)setenv("AWS_PROFILE", "shop", 1);
    open_chain(p, NULL);
    expect_id(p, "AKIASHOP");
    aws_credentials_close(p->chain);
    open_chain(p, "nobody");
    expect_refusal(p, SEMEL_ESTORE, "no profile \"nobody\"");
    aws_credentials_close(p->chain);
    open_chain(p, "role");
    expect_refusal(p, SEMEL_ESTORE, "by role_arn, which semel does not do");
    aws_credentials_close(p->chain);
    open_chain(p, "empty");
    expect_refusal(p, SEMEL_ESTORE, "has no aws_access_key_id");
    close_place(p);
}

static void none_at_all(void **state)
{
    place *p = open_place();
    (void)state;
    open_chain(p, NULL);
    expect_refusal(p, SEMEL_ESTORE, "there are no AWS credentials: set AWS_ACCESS_KEY_ID");
    (void)setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere", 1);
    expect_refusal(p, SEMEL_ESTORE, "AWS_WEB_IDENTITY_TOKEN_FILE is set, which semel does not use");
    close_place(p);
}

/* --- endpoints -------------------------------------------------------------------------------- */

/* Credentials that expire so many minutes from now, by the seam's clock. */
static void write_keys(char *out, size_t room, const place *p, const char *id, int minutes)
{
    char date[32];
    const semel_seam *seam = semel_test_seam_get(p->seam);
    time_t at = (time_t)(seam->wall_ms(seam->context) / 1000 + minutes * 60);
    struct tm utc;
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &utc));
    (void)snprintf(out, room,
                   "{\"Code\":\"Success\",\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"s3cret\","
                   "\"Token\":\"s3cret-token\",\"Expiration\":\"%s\"}",
                   id, date);
}

static void of_a_container(void **state)
{
    char url[128], keys[512];
    place *p = open_place();
    (void)state;
    write_file(p, "token", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "Basic s3cret\n");
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/creds", http_script_port(p->server));
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    open_chain(p, NULL);
    http_script_answer(p->server, "/creds", 1, 500, "s3cret");
    expect_refusal(p, SEMEL_EUNAVAILABLE, "the container's endpoint answers with status 500");
    http_script_answer(p->server, "/creds", 1, 200, "{\"AccessKeyId\":\"A\",\"Token\":\"s3cret\"}");
    expect_refusal(p, SEMEL_ESTORE, "answers with no document");
    write_keys(keys, sizeof keys, p, "ASIACONTAINER", 60);
    http_script_answer(p->server, "Authorization: Basic s3cret\r\n", 1, 200, keys);
    expect_id(p, "ASIACONTAINER");
    aws_credentials_close(p->chain);
    open_chain(p, NULL);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://evil.example/creds", 1);
    expect_refusal(p, SEMEL_ESTORE, "must be https, or an address of this host");
    close_place(p);
}

static void serve_instance(place *p, const char *keys, unsigned times)
{
    char base[64];
    (void)snprintf(base, sizeof base, "http://127.0.0.1:%u/", http_script_port(p->server));
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", base, 1);
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    http_script_answer(p->server, "PUT /latest/api/token", times, 200, "session-1");
    http_script_answer(p->server, "GET /latest/meta-data/iam/security-credentials/ HTTP", times,
                       200, "shop-role\n");
    http_script_answer(p->server, "GET /latest/meta-data/iam/security-credentials/shop-role", times,
                       200, keys);
}

static void of_an_instance(void **state)
{
    char keys[512];
    place *p = open_place();
    (void)state;
    write_keys(keys, sizeof keys, p, "ASIAINSTANCE", 60);
    serve_instance(p, keys, 1);
    open_chain(p, NULL);
    expect_id(p, "ASIAINSTANCE");
    assert_int_equal(http_script_count(p->server, "X-aws-ec2-metadata-token-ttl-seconds: 21600"),
                     1);
    assert_int_equal(http_script_count(p->server, "X-aws-ec2-metadata-token: session-1"), 2);
    expect_id(p, "ASIAINSTANCE");
    assert_int_equal(http_script_count(p->server, "shop-role"), 1);
    close_place(p);
}

static void an_instance_without_a_role(void **state)
{
    char base[64];
    place *p = open_place();
    (void)state;
    (void)snprintf(base, sizeof base, "http://127.0.0.1:%u", http_script_port(p->server));
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", base, 1);
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    http_script_answer(p->server, "PUT /latest/api/token", 1, 200, "session-1");
    http_script_answer(p->server, "security-credentials/ HTTP", 1, 404, "");
    open_chain(p, NULL);
    expect_refusal(p, SEMEL_ESTORE, "there are no AWS credentials");
    close_place(p);
}

/* Five minutes before they expire there are new ones; if that fails, the old ones last. */
static void they_are_renewed_before_they_expire(void **state)
{
    enum { MINUTE_MS = 60000 };
    char keys[512];
    place *p = open_place();
    (void)state;
    write_keys(keys, sizeof keys, p, "ASIAFIRST", 60);
    serve_instance(p, keys, 1);
    open_chain(p, NULL);
    expect_id(p, "ASIAFIRST");
    semel_test_advance_ms(p->seam, 54 * MINUTE_MS);
    expect_id(p, "ASIAFIRST");
    assert_int_equal(http_script_count(p->server, "PUT /latest"), 1);
    semel_test_advance_ms(p->seam, 2 * MINUTE_MS);
    http_script_answer(p->server, "PUT /latest/api/token", 1, 503, "");
    expect_id(p, "ASIAFIRST");
    assert_int_equal(http_script_count(p->server, "PUT /latest"), 2);
    expect_id(p, "ASIAFIRST"); /* not at once again */
    assert_int_equal(http_script_count(p->server, "PUT /latest"), 2);
    semel_test_advance_ms(p->seam, 5 * MINUTE_MS);
    write_keys(keys, sizeof keys, p, "ASIASECOND", 60);
    serve_instance(p, keys, 1);
    expect_id(p, "ASIASECOND");
    aws_keys refused = {.id = "ASIASECOND", .token = "s3cret-token"};
    aws_credentials_refused(p->chain, &refused);
    write_keys(keys, sizeof keys, p, "ASIATHIRD", 60);
    serve_instance(p, keys, 1);
    expect_id(p, "ASIATHIRD");
    close_place(p);
}

static void *get_many_times(void *context)
{
    place *p = context;
    aws_keys keys;
    long bad = 0;
    for (int i = 0; i < 200; i++)
        bad += aws_credentials_get(p->chain, &keys, NULL) != SEMEL_OK ||
               strcmp(keys.id, "ASIASHARED") != 0;
    return (void *)bad;
}

static void threads_ask_once(void **state)
{
    enum { THREADS = 8 };
    char keys[512];
    pthread_t threads[THREADS];
    place *p = open_place();
    (void)state;
    write_keys(keys, sizeof keys, p, "ASIASHARED", 60);
    serve_instance(p, keys, 1);
    open_chain(p, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_many_times, p), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(http_script_count(p->server, "PUT /latest"), 1);
    close_place(p);
}

/* --- requests --------------------------------------------------------------------------------- */

static aws_client *open_client(place *p, uint32_t busy_ms, uint32_t answer_ms)
{
    char endpoint[64];
    aws_client *client = NULL;
    (void)setenv("AWS_ACCESS_KEY_ID", ID, 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u/", http_script_port(p->server));
    aws_options options = {.service = "dynamodb",
                           .target = "DynamoDB_20120810",
                           .version = "1.0",
                           .endpoint = endpoint,
                           .pool = 2,
                           .busy_ms = busy_ms,
                           .answer_ms = answer_ms,
                           .seam = semel_test_seam_get(p->seam)};
    OK(aws_open(&client, &options, &last_error));
    return client;
}

static semel_status call(aws_client *client, aws_answer *answer)
{
    aws_answer_clear(answer);
    return aws_call(client, "PutItem", semel_str("{}"), answer, &last_error);
}

static void what_is_throttled_is_sent_again(void **state)
{
    static const char throttled[] =
        "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException\"}";
    place *p = open_place();
    aws_client *client = open_client(p, 60000, 10000);
    aws_answer answer = {.lost = 0};
    (void)state;
    http_script_answer(p->server, "PutItem", 3, 400, throttled);
    http_script_answer(p->server, "PutItem", 1, 200, "{\"x\":1}");
    OK(call(client, &answer));
    assert_string_equal(answer.type, "");
    assert_int_equal(answer.lost, 0);
    assert_int_equal(http_script_count(p->server, "PutItem"), 4);
    aws_close(client);
    client = open_client(p, 200, 10000);
    http_script_answer(p->server, "PutItem", 1000, 400, throttled);
    FAILS(SEMEL_EBUSY, call(client, &answer));
    aws_answer_clear(&answer);
    aws_close(client);
    close_place(p);
}

static void what_was_lost_is_sent_again_and_told(void **state)
{
    place *p = open_place();
    aws_client *client = open_client(p, 60000, 10000);
    aws_answer answer = {.lost = 0};
    (void)state;
    http_script_lose_request(p->server, "PutItem", 2);
    http_script_answer(p->server, "PutItem", 1, 500,
                       "{\"__type\":\"InternalServerError\",\"message\":\"oh\"}");
    http_script_answer(p->server, "PutItem", 1, 200, "{}");
    OK(call(client, &answer));
    assert_int_equal(answer.lost, 3);
    aws_close(client);
    client = open_client(p, 100, 100);
    http_script_lose_request(p->server, "PutItem", 1000);
    FAILS(SEMEL_EUNKNOWN, call(client, &answer));
    http_script_forget(p->server);
    http_script_answer(p->server, "PutItem", 1000, 503, "busy");
    FAILS(SEMEL_EUNKNOWN, call(client, &answer));
    aws_answer_clear(&answer);
    aws_close(client);
    close_place(p);
}

static void who_cannot_be_reached_is_not_waited_for(void **state)
{
    place *p = open_place();
    aws_client *client = open_client(p, 60000, 60000);
    aws_answer answer = {.lost = 0};
    (void)state;
    http_script_close(p->server);
    FAILS(SEMEL_EUNAVAILABLE, call(client, &answer));
    assert_int_equal(answer.lost, 0);
    p->server = http_script_open(0);
    aws_answer_clear(&answer);
    aws_close(client);
    close_place(p);
}

/* The host's clock is years off: the server's Date of the refusal is signed the next time. */
static void a_wrong_clock_is_corrected(void **state)
{
    char request[4096], date[64];
    place *p = open_place();
    aws_client *client = open_client(p, 60000, 10000);
    aws_answer answer = {.lost = 0};
    (void)state;
    http_script_answer_with(p->server, "PutItem", 1, 403, "{\"__type\":\"RequestTimeTooSkewed\"}",
                            "Date: Fri, 13 Nov 2037 10:20:30 GMT");
    http_script_answer(p->server, "PutItem", 2, 200, "{}");
    OK(call(client, &answer));
    assert_string_equal(answer.type, "");
    OK(call(client, &answer));
    http_script_last(p->server, "PutItem", request, sizeof request);
    header_of(date, sizeof date, request, "\nX-Amz-Date: ");
    assert_int_equal(strncmp(date, "20371113T1020", 13), 0);
    http_script_answer_with(p->server, "PutItem", 1, 403, "{\"__type\":\"RequestTimeTooSkewed\"}",
                            "Date: Fri, 13 Nov 2037 10:20:30 GMT");
    OK(call(client, &answer)); /* it is right by that time: no reason to try again */
    FAILS(SEMEL_ESTORE, aws_fail(client, &answer, "writing", &last_error));
    assert_non_null(strstr(last_error.text, "the clock of this host is wrong"));
    aws_answer_clear(&answer);
    aws_close(client);
    close_place(p);
}

static void expired_credentials_are_read_anew(void **state)
{
    char keys[512], request[4096];
    place *p = open_place();
    aws_answer answer = {.lost = 0};
    (void)state;
    aws_client *client = open_client(p, 60000, 10000);
    (void)unsetenv("AWS_ACCESS_KEY_ID");
    (void)unsetenv("AWS_SECRET_ACCESS_KEY");
    write_keys(keys, sizeof keys, p, "ASIAOLD", 60);
    serve_instance(p, keys, 1);
    http_script_answer(p->server, "PutItem", 1, 400, "{\"__type\":\"a#ExpiredTokenException\"}");
    write_keys(keys, sizeof keys, p, "ASIANEW", 60);
    serve_instance(p, keys, 1);
    http_script_answer(p->server, "Credential=ASIANEW", 1, 200, "{}");
    OK(call(client, &answer));
    assert_string_equal(answer.type, "");
    http_script_last(p->server, "PutItem", request, sizeof request);
    assert_non_null(strcasestr(request, "\nX-Amz-Security-Token: s3cret-token"));
    aws_answer_clear(&answer);
    aws_close(client);
    close_place(p);
}

static void an_endpoint_or_region_that_is_none(void **state)
{
    static const char *const endpoints[] = {"ftp://x", "http://", "http://u:p@h", "https://h/path",
                                            "127.0.0.1:8000"};
    place *p = open_place();
    aws_client *client = NULL;
    aws_options options = {.service = "dynamodb",
                           .target = "x",
                           .version = "1.0",
                           .pool = 1,
                           .seam = semel_test_seam_get(p->seam)};
    (void)state;
    FAILS(SEMEL_EINVAL, aws_open(&client, &options, &last_error));
    assert_non_null(strstr(last_error.text, "there is no region"));
    options.region = "EU Central";
    FAILS(SEMEL_EINVAL, aws_open(&client, &options, &last_error));
    options.region = "eu-central-1";
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        options.endpoint = endpoints[i];
        FAILS(SEMEL_EINVAL, aws_open(&client, &options, &last_error));
        assert_null(strstr(last_error.text, "u:p"));
    }
    options.endpoint = NULL;
    OK(aws_open(&client, &options, &last_error));
    assert_string_equal(aws_endpoint(client), "https://dynamodb.eu-central-1.amazonaws.com");
    aws_close(client);
    close_place(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_published_example),
                                       cmocka_unit_test(libcurl_signs_the_same),
                                       cmocka_unit_test(of_the_environment),
                                       cmocka_unit_test(of_profiles),
                                       cmocka_unit_test(none_at_all),
                                       cmocka_unit_test(of_a_container),
                                       cmocka_unit_test(of_an_instance),
                                       cmocka_unit_test(an_instance_without_a_role),
                                       cmocka_unit_test(they_are_renewed_before_they_expire),
                                       cmocka_unit_test(threads_ask_once),
                                       cmocka_unit_test(what_is_throttled_is_sent_again),
                                       cmocka_unit_test(what_was_lost_is_sent_again_and_told),
                                       cmocka_unit_test(who_cannot_be_reached_is_not_waited_for),
                                       cmocka_unit_test(a_wrong_clock_is_corrected),
                                       cmocka_unit_test(expired_credentials_are_read_anew),
                                       cmocka_unit_test(an_endpoint_or_region_that_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
