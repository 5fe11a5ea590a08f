/* What answers mean: by their type, never by their text. */
#include "store/dynamodb/dynamodb.h"

#include "base/wait.h"

#include <string.h>

semel_status dynamo_no_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a request to DynamoDB");
}

semel_status dynamo_strange(const char *what, semel_error *err)
{
    return semel_fail(err, SEMEL_ESTORE, "dynamodb: the answer has %s", what);
}

semel_status dynamo_fail(const dynamo_store *store, const aws_answer *answer, const char *doing,
                         semel_error *err)
{
    if (strcmp(answer->type, "ResourceNotFoundException") == 0)
        return semel_fail(err, SEMEL_ESCHEMA,
                          "dynamodb: there is no table \"%s\" in %s (%s), or it is not ready; call "
                          "semel_store_migrate() or run `semel migrate up`, which makes it",
                          store->at.table, aws_region(store->aws), aws_endpoint(store->aws));
    if (strcmp(answer->type, "ResourceInUseException") == 0)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "dynamodb: the table \"%s\" is being made or changed; wait until it is "
                          "ACTIVE",
                          store->at.table);
    return aws_fail(store->aws, answer, doing, err);
}

semel_status dynamo_parse(json_object **out, const text_buffer *body, semel_error *err)
{
    json_tokener *reader =
        body->len && body->len < INT32_MAX ? json_tokener_new_ex(DYNAMO_JSON_DEPTH) : NULL;
    *out = reader ? json_tokener_parse_ex(reader, body->bytes, (int)body->len) : NULL;
    if (reader)
        json_tokener_free(reader);
    if (json_object_is_type(*out, json_type_object))
        return SEMEL_OK;
    json_object_put(*out);
    *out = NULL;
    return dynamo_strange("no JSON object", err);
}

/* The Date has seconds, and was true at some moment between the request and its answer. */
static void learn_time(dynamo_store *store, const cloud_answer *answer)
{
    enum { SECOND_US = 1000000 };
    if (!answer->date_s)
        return;
    (void)pthread_mutex_lock(&store->lock);
    semel_keyed_clock_learn(&store->clock, answer->sent_us, answer->heard_us,
                            answer->date_s * SECOND_US, (answer->date_s + 1) * SECOND_US);
    (void)pthread_mutex_unlock(&store->lock);
}

semel_status dynamo_call(dynamo_store *store, const char *operation, const text_buffer *body,
                         aws_answer *answer, semel_error *err)
{
    if (body->failed)
        return dynamo_no_memory(err);
    semel_status status =
        aws_call(store->aws, operation, (semel_bytes){body->bytes, body->len}, answer, err);
    if (!status)
        learn_time(store, &answer->http);
    return status;
}

semel_status dynamo_ask(dynamo_store *store, const char *operation, const text_buffer *body,
                        const char *doing, json_object **out, semel_error *err)
{
    aws_answer answer = {.lost = 0};
    *out = NULL;
    semel_status status = dynamo_call(store, operation, body, &answer, err);
    if (status == SEMEL_EUNKNOWN) {
        status = SEMEL_EUNAVAILABLE;
        if (err) {
            err->status = status;
            err->retryable = 1;
        }
    } else if (!status && answer.type[0]) {
        status = dynamo_fail(store, &answer, doing, err);
    } else if (!status) {
        status = dynamo_parse(out, &answer.http.body, err);
    }
    aws_answer_clear(&answer);
    return status;
}
