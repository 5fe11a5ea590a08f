/* What DynamoDB and the endpoints of credentials answer: the input is a body.
 *
 *  - Errors have a type and a message that can be shown: printable ASCII, and never empty together
 *    with a status that is no success.
 *  - An item is refused, or has a key, and as a record a whole version and a value.
 *  - Credentials are refused, or have an id and a secret.
 *  - A statement of the application's is refused, or has as many marks as values. */
#include "cloud/aws.h"
#include "cloud/aws_credentials.h"
#include "property.h"
#include "store/dynamodb/dynamodb.h"

#include <string.h>

static void check_told_error(const char *body, size_t len)
{
    aws_answer answer = {.http = {.status = 400}};
    text_append(&answer.http.body, body, len);
    aws_answer_explain(&answer);
    HOLDS(answer.type[0]);
    for (const char *at = answer.type; *at; at++)
        HOLDS(*at >= ' ' && *at < 127);
    for (const char *at = answer.message; *at; at++)
        HOLDS(*at >= ' ' && *at < 127);
    aws_answer_clear(&answer);
}

static void check_item(json_object *json)
{
    semel_error err;
    mem_arena arena = {0};
    dynamo_item item;
    if (!dynamo_read_item(&item, json, &arena, &err)) {
        HOLDS(item.sort.data && item.sort.len);
        HOLDS(item.kind != DYNAMO_RECORD || item.record.value.data);
    } else {
        HOLDS(err.status == SEMEL_ESTORE && err.text[0]);
    }
    arena_free(&arena);
}

static void check_items(const char *body, size_t len)
{
    semel_error err;
    text_buffer text = {0};
    json_object *document = NULL;
    text_append(&text, body, len);
    if (!dynamo_parse(&document, &text, &err)) {
        json_object *items = dynamo_member(document, "Items", json_type_array);
        for (size_t i = 0; items && i < json_object_array_length(items); i++)
            check_item(json_object_array_get_idx(items, i));
        check_item(dynamo_member(document, "Item", json_type_object));
        check_item(document);
    }
    json_object_put(document);
    mem_free(text.bytes);
}

static void check_keys(const char *body, size_t len)
{
    semel_error err;
    aws_keys keys;
    if (!aws_keys_parse(&keys, (semel_bytes){body, len}, &err))
        HOLDS(keys.id[0] && keys.secret[0] && keys.expires_ms >= INT64_MIN / 2);
}

static void check_statement(const char *body, size_t len)
{
    enum { VALUES = 8 };
    semel_value values[VALUES] = {{SEMEL_VALUE_NULL, 0, 0, {NULL, 0}}};
    dynamo_store store = {.at = {.table = "semel"}};
    char *text = mem_alloc(len + 1);
    memcpy(text, body, len);
    for (size_t count = 0; count < VALUES; count++) {
        semel_error err;
        text_buffer out = {0};
        semel_keyed_change change = {
            .kind = SEMEL_KEYED_FOREIGN, .statement = text, .values = values, .count = count};
        if (!dynamo_queue(&store, text, values, count, &err)) {
            json_object *json = NULL;
            HOLDS(!dynamo_write_foreign(&out, &change, &err));
            HOLDS(!dynamo_parse(&json, &out, &err));
            json_object_put(json);
        }
        mem_free(out.bytes);
    }
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *)data;
    check_told_error(body, size);
    check_items(body, size);
    check_keys(body, size);
    check_statement(body, size);
    return 0;
}
