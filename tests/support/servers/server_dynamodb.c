/* DynamoDB's emulator as a server of tests: a store is a table. See server_internal.h. Its "SQL" is
 * a statement of PartiQL, or an operation and its JSON; a connection of its own for each. */
#include "support/servers/server_internal.h"

#ifdef SEMEL_WITH_DYNAMODB
#include "cloud/http.h"
#include "support/keyed/keyed_skew.h"
#include "support/process/process.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

/* It checks no signature. The library wants credentials, and any will do. */
static void have_credentials(void)
{
    (void)setenv("AWS_ACCESS_KEY_ID", "emulator", 0);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "none", 0);
    (void)setenv("AWS_EC2_METADATA_DISABLED", "true", 0);
}

static void try_once(cloud_answer *answer, cloud_http *http, const server_target *at,
                     const char *operation, const char *json)
{
    char url[SERVER_HOST_ROOM + 32], target[SERVER_NAME_ROOM];
    semel_error err;
    server_print(url, sizeof url, "http://%s:%u/", at->host, at->port);
    server_print(target, sizeof target, "X-Amz-Target: DynamoDB_20120810.%s", operation);
    cloud_request request = {
        .method = "POST",
        .url = url,
        .headers = {target, "Content-Type: application/x-amz-json-1.0",
                    "X-Amz-Date: 20260101T000000Z",
                    "Authorization: AWS4-HMAC-SHA256 Credential=emulator/20260101/us-east-1/"
                    "dynamodb/aws4_request, SignedHeaders=host, Signature=00"},
        .body = semel_str(json),
        .connect_ms = 10000,
        .answer_ms = 30000,
        .wait_ms = 1000,
        .direct = 1};
    (void)cloud_http_exchange(http, &request, answer, &err);
}

/* The document that it answers, also with an error; for json_object_put(). */
static json_object *ask(const server_target *at, const char *operation, const char *json)
{
    cloud_http *http = NULL;
    cloud_answer answer = {0};
    int64_t deadline = process_now_ms() + SERVER_CONNECT_S * 1000;
    if (cloud_http_open(&http, 1, NULL))
        server_die("dynamodb: no memory");
    try_once(&answer, http, at, operation, json);
    while (!answer.status && process_now_ms() < deadline) {
        process_nap();
        try_once(&answer, http, at, operation, json);
    }
    text_append(&answer.body, "", 1);
    json_object *document = answer.status ? json_tokener_parse(answer.body.bytes) : NULL;
    if (!document)
        server_die("dynamodb: no answer to %s", operation);
    cloud_answer_clear(&answer);
    cloud_http_close(http);
    return document;
}

static void check(json_object *document, const char *text)
{
    json_object *type = NULL;
    if (json_object_object_get_ex(document, "__type", &type))
        server_die("dynamodb: %s: %s", text, json_object_to_json_string(document));
}

/* The first attribute of each item, as text. */
static void show(json_object *document, server_row *row, void *context)
{
    json_object *items = NULL;
    if (!json_object_object_get_ex(document, "Items", &items))
        return;
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        json_object_object_foreach(json_object_array_get_idx(items, i), name, attribute)
        {
            (void)name;
            json_object_object_foreach(attribute, type, value)
            {
                row(strcmp(type, "NULL") == 0 ? NULL : json_object_get_string(value), context);
                break;
            }
            break;
        }
    }
}

static void each_dynamodb(const server_target *at, const char *text, server_row *row, void *context)
{
    char operation[SERVER_NAME_ROOM] = "ExecuteStatement";
    json_object *request = NULL;
    const char *json = strchr(text, '{');
    size_t word = strcspn(text, " ");
    if (json && word < sizeof operation && text + word + 1 == json) { /* CreateTable {...} */
        server_print(operation, sizeof operation, "%.*s", (int)word, text);
        request = json_tokener_parse(json);
    } else {
        request = json_object_new_object();
        (void)json_object_object_add(request, "Statement", json_object_new_string(text));
        (void)json_object_object_add(request, "ConsistentRead", json_object_new_boolean(1));
    }
    json_object *answer = ask(at, operation, json_object_to_json_string(request));
    check(answer, text);
    if (row)
        show(answer, row, context);
    json_object_put(answer);
    json_object_put(request);
}

/* The table is made by migrating. */
static void fresh_dynamodb(char url[SERVER_URL_ROOM], const server_place *where, const char *name)
{
    have_credentials();
    server_print(url, SERVER_URL_ROOM, "dynamodb://%s?endpoint=http://%s:%u", name, where->host,
                 where->port);
}

static void drop_dynamodb(const char *url, const server_target *at)
{
    char json[SERVER_SQL_ROOM];
    (void)url;
    server_print(json, sizeof json, "{\"TableName\":\"%s\"}", at->database);
    json_object_put(ask(at, "DeleteTable", json)); /* it may never have been made */
}

static void pass_dynamodb(const char *url, int64_t ms)
{
    (void)url;
    keyed_skew_pass(ms);
}
#else
#define each_dynamodb  NULL
#define fresh_dynamodb NULL
#define drop_dynamodb  NULL
#define pass_dynamodb  NULL
#endif

const server_type server_dynamodb = {
    .name = "dynamodb",
    .scheme = "dynamodb",
    .prefix = "DYNAMODB",
    .each = each_dynamodb,
    .fresh = fresh_dynamodb,
    .drop = drop_dynamodb,
    .pass = pass_dynamodb,
    .clock_ms = SERVER_DYNAMODB_CLOCK_MS,
};
