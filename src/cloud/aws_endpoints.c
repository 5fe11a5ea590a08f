/* Credentials that a container or an instance is given by an HTTP endpoint of its own. They are
 * asked without a proxy. An endpoint that is named and not on this host, nor one of AWS's own
 * addresses, must have TLS: what it answers is a secret. */
#include "cloud/aws_credentials.h"

#include "base/rfc3339.h"

#include <json-c/json.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    URL_ROOM = 1024,
    HEADER_ROOM = AWS_TOKEN_MAX + 64,
    ROLE_ROOM = 256,
    FILE_ROOM = AWS_TOKEN_MAX
};

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* --- the document ----------------------------------------------------------------------------- */

static int take_text(char *out, size_t room, json_object *from, const char *name)
{
    json_object *value = NULL;
    if (!json_object_object_get_ex(from, name, &value) ||
        !json_object_is_type(value, json_type_string))
        return 0;
    size_t len = (size_t)json_object_get_string_len(value);
    if (len >= room || memchr(json_object_get_string(value), 0, len))
        return 0;
    memcpy(out, json_object_get_string(value), len + 1);
    return 1;
}

static int take_keys(aws_keys *out, json_object *from)
{
    char expiration[64] = "";
    *out = (aws_keys){0};
    if (!take_text(out->id, sizeof out->id, from, "AccessKeyId") ||
        !take_text(out->secret, sizeof out->secret, from, "SecretAccessKey") || !out->id[0] ||
        !out->secret[0] || !take_text(out->token, sizeof out->token, from, "Token"))
        return 0;
    return !take_text(expiration, sizeof expiration, from, "Expiration") ||
           rfc3339_parse(&out->expires_ms, expiration, strlen(expiration));
}

semel_status aws_keys_parse(aws_keys *out, semel_bytes json, semel_error *err)
{
    json_tokener *reader = json_tokener_new_ex(8);
    json_object *document = NULL;
    int len = json.len < 1 << 20 ? (int)json.len : 0;
    if (reader && len)
        document = json_tokener_parse_ex(reader, json.data, len);
    int fine =
        document && json_object_is_type(document, json_type_object) && take_keys(out, document);
    json_object_put(document);
    if (reader)
        json_tokener_free(reader);
    return fine ? SEMEL_OK
                : semel_fail(err, SEMEL_EINVAL,
                             "no document with AccessKeyId, SecretAccessKey and Token");
}

/* --- one question ----------------------------------------------------------------------------- */

typedef struct question {
    const char *method, *url, *header; /* the header may be NULL */
    uint32_t connect_ms;
} question;

static semel_status ask(cloud_answer *answer, cloud_http *http, const question *q, semel_error *err)
{
    enum { ANSWER_MS = 5000 };
    cloud_request request = {.method = q->method,
                             .url = q->url,
                             .headers = {q->header},
                             .connect_ms = q->connect_ms,
                             .answer_ms = ANSWER_MS,
                             .wait_ms = ANSWER_MS,
                             .direct = 1};
    return cloud_http_exchange(http, &request, answer, err);
}

static semel_status read_answer(aws_keys *out, const cloud_answer *answer, const char *place,
                                semel_error *err)
{
    semel_error why;
    semel_bytes body = {answer->body.bytes, answer->body.len};
    if (answer->status != 200)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "AWS credentials: %s answers with status %ld",
                          place, answer->status);
    if (aws_keys_parse(out, body, &why))
        return semel_fail(err, SEMEL_ESTORE, "AWS credentials: %s answers with %s", place,
                          why.text);
    return SEMEL_OK;
}

static void clear(cloud_answer *answer)
{
    if (answer->body.bytes)
        OPENSSL_cleanse(answer->body.bytes, answer->body.len);
    cloud_answer_clear(answer);
}

/* --- containers ------------------------------------------------------------------------------- */

static int is_private(const char *url)
{
    static const char *const hosts[] = {"127.0.0.1",     "localhost",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (strncmp(url, "https://", 8) == 0)
        return 1;
    if (strncmp(url, "http://", 7) != 0)
        return 0;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        size_t len = strlen(hosts[i]);
        if (strncasecmp(url + 7, hosts[i], len) == 0 &&
            (!url[7 + len] || strchr(":/?", url[7 + len])))
            return 1;
    }
    return 0;
}

/* A token that is sent as Authorization: in the environment, or in a file that is renewed. */
static semel_status read_authorization(char out[HEADER_ROOM], semel_error *err)
{
    const char *path = setting("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *given = setting("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char token[FILE_ROOM + 1] = "";
    if (path) {
        FILE *file = fopen(path, "re");
        size_t len = file ? fread(token, 1, FILE_ROOM, file) : 0;
        int bad = !file || ferror(file) || len == FILE_ROOM;
        if (file)
            (void)fclose(file);
        if (bad)
            return semel_fail(err, SEMEL_ESTORE,
                              "AWS credentials: cannot read %s, which "
                              "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names",
                              path);
        token[len] = 0;
        token[strcspn(token, "\r\n")] = 0;
        given = token;
    }
    if (given && (strlen(given) > AWS_TOKEN_MAX || strpbrk(given, "\r\n")))
        return semel_fail(err, SEMEL_ESTORE,
                          "AWS credentials: the container's authorization token is no header");
    (void)snprintf(out, HEADER_ROOM, "%s%s", given ? "Authorization: " : "", given ? given : "");
    OPENSSL_cleanse(token, sizeof token);
    return SEMEL_OK;
}

semel_status aws_container_read(aws_keys *out, int *found, cloud_http *http, semel_error *err)
{
    static const char place[] = "the container's endpoint";
    enum { CONNECT_MS = 2000 };
    const char *relative = setting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = setting("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    char url[URL_ROOM], authorization[HEADER_ROOM] = "";
    cloud_answer answer = {0};
    *found = 0;
    if (!relative && !full)
        return SEMEL_OK;
    int len = relative ? snprintf(url, sizeof url, "http://169.254.170.2%s", relative)
                       : snprintf(url, sizeof url, "%s", full);
    if (len < 0 || (size_t)len >= sizeof url || !is_private(url))
        return semel_fail(err, SEMEL_ESTORE,
                          "AWS credentials: AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or "
                          "an address of this host or of AWS's own agents");
    semel_status status = read_authorization(authorization, err);
    question q = {"GET", url, authorization[0] ? authorization : NULL, CONNECT_MS};
    if (!status)
        status = ask(&answer, http, &q, err);
    if (!status)
        status = read_answer(out, &answer, place, err);
    *found = !status;
    OPENSSL_cleanse(authorization, sizeof authorization);
    clear(&answer);
    return status;
}

/* --- instances -------------------------------------------------------------------------------- */

/* A host that is no instance has no server at that address: a short wait tells. */
enum { INSTANCE_CONNECT_MS = 1000 };
#define ROLES "/latest/meta-data/iam/security-credentials/"

typedef struct instance {
    cloud_http *http;
    char base[URL_ROOM / 2];
    char header[HEADER_ROOM]; /* of the session */
} instance;

static semel_status open_session(instance *at, int *found, semel_error *err)
{
    char url[URL_ROOM];
    cloud_answer answer = {0};
    (void)snprintf(url, sizeof url, "%s/latest/api/token", at->base);
    question q = {"PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", INSTANCE_CONNECT_MS};
    semel_status status = ask(&answer, at->http, &q, err);
    *found = !status && answer.status == 200 && answer.body.len > 0 &&
             answer.body.len <= AWS_TOKEN_MAX && !memchr(answer.body.bytes, '\n', answer.body.len);
    if (*found)
        (void)snprintf(at->header, sizeof at->header, "X-aws-ec2-metadata-token: %.*s",
                       (int)answer.body.len, answer.body.bytes);
    clear(&answer);
    return status == SEMEL_EUNAVAILABLE ? SEMEL_OK : status; /* no instance */
}

/* The name of the role, the first line of a list. */
static semel_status read_role(char role[ROLE_ROOM], int *found, instance *at, semel_error *err)
{
    char url[URL_ROOM];
    cloud_answer answer = {0};
    (void)snprintf(url, sizeof url, "%s" ROLES, at->base);
    question q = {"GET", url, at->header, INSTANCE_CONNECT_MS};
    semel_status status = ask(&answer, at->http, &q, err);
    if (!status && answer.status != 200 && answer.status != 404)
        status = semel_fail(err, SEMEL_EUNAVAILABLE,
                            "AWS credentials: the instance's metadata service answers with status "
                            "%ld",
                            answer.status);
    *found = !status && answer.status == 200 && answer.body.len > 0;
    if (*found) {
        (void)snprintf(role, ROLE_ROOM, "%.*s", (int)answer.body.len, answer.body.bytes);
        role[strcspn(role, "\r\n")] = 0;
    }
    cloud_answer_clear(&answer);
    return status;
}

static semel_status read_role_keys(aws_keys *out, instance *at, const char *role, semel_error *err)
{
    char url[URL_ROOM];
    cloud_answer answer = {0};
    (void)snprintf(url, sizeof url, "%s" ROLES "%s", at->base, role);
    question q = {"GET", url, at->header, INSTANCE_CONNECT_MS};
    semel_status status = ask(&answer, at->http, &q, err);
    if (!status)
        status = read_answer(out, &answer, "the instance's metadata service", err);
    clear(&answer);
    return status;
}

semel_status aws_instance_read(aws_keys *out, int *found, cloud_http *http, semel_error *err)
{
    const char *disabled = setting("AWS_EC2_METADATA_DISABLED");
    const char *base = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    instance at = {.http = http};
    char role[ROLE_ROOM] = "";
    *found = 0;
    if (disabled && strcasecmp(disabled, "true") == 0)
        return SEMEL_OK;
    int len = snprintf(at.base, sizeof at.base, "%s", base ? base : "http://169.254.169.254");
    if (len < 0 || (size_t)len >= sizeof at.base)
        return semel_fail(err, SEMEL_ESTORE, "AWS_EC2_METADATA_SERVICE_ENDPOINT is too long");
    while (len && at.base[len - 1] == '/')
        at.base[--len] = 0;
    semel_status status = open_session(&at, found, err);
    if (!status && *found)
        status = read_role(role, found, &at, err);
    if (!status && *found)
        status = read_role_keys(out, &at, role, err);
    OPENSSL_cleanse(at.header, sizeof at.header);
    return status;
}
