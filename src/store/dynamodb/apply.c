/* Writing. One WRITE alone is a PutItem or UpdateItem, at half the price; all else is a
 * transaction: TransactWriteItems, or ExecuteTransaction if the application's writes are
 * statements.
 *
 * An answer that was lost. A transaction has a token, and DynamoDB carries out one with the same
 * token once in ten minutes: it is repeated until there is an answer. A single write is repeated,
 * too. If the second one is refused and the record that is there has the version that we wrote,
 * the first one arrived: versions are never used twice. If another record is there, ours may
 * have been there in between, and the answer is EUNKNOWN; the layer's fence settles it. So does it
 * when nothing answers until the time is over. A REMOVE leaves no version behind to look at, so
 * it is a transaction also when it is alone. */
#include "base/seam.h"
#include "base/wait.h"
#include "cloud/aws_sign.h"
#include "store/dynamodb/dynamodb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- before anything is sent ------------------------------------------------------------------ */

static semel_status check_limits(const semel_keyed_change changes[], size_t count, semel_error *err)
{
    uint64_t all = 0;
    if (count > DYNAMO_ACTIONS_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "dynamodb: %zu changes in one transaction; its limit is %d, the "
                          "application's own among them",
                          count, DYNAMO_ACTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = dynamo_size(&changes[i]);
        if (size > DYNAMO_ITEM_MAX && changes[i].kind != SEMEL_KEYED_FOREIGN)
            return semel_fail(err, SEMEL_ELIMIT,
                              "dynamodb: a record of %" PRIu64 " bytes; an item has at most 400 KB "
                              "(%d bytes)",
                              size, DYNAMO_ITEM_MAX);
        all += size;
    }
    return all <= DYNAMO_APPLY_MAX
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ELIMIT,
                            "dynamodb: %" PRIu64 " bytes in one transaction; its limit is 4 MB (%d "
                            "bytes)",
                            all, DYNAMO_APPLY_MAX);
}

static semel_status find_foreign(dynamo_writing *w, semel_error *err)
{
    int items = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->changes[i].kind != SEMEL_KEYED_FOREIGN)
            continue;
        w->foreign = 1;
        if (dynamo_is_json(w->changes[i].statement))
            items = 1;
        else
            w->statements = 1;
    }
    return items && w->statements
               ? semel_fail(err, SEMEL_EINVAL,
                            "dynamodb: a unit has PartiQL statements or items in JSON, not both: "
                            "DynamoDB has no transaction for that")
               : SEMEL_OK;
}

/* The item that announces a long key is written before it (place.c). */
static semel_status announce(dynamo_store *store, const semel_keyed_record *r, semel_error *err)
{
    dynamo_place head;
    text_buffer request = {0};
    json_object *answer;
    dynamo_place_of_head(&head, r->space, r->key);
    text_append_z(&request, "{");
    dynamo_write_table(&request, store);
    text_append_z(&request, ",\"Item\":{");
    dynamo_write_key(&request, &head);
    text_append_z(&request, ",\"l\":{\"BOOL\":true}}}");
    semel_status status = dynamo_ask(store, "PutItem", &request, "writing", &answer, err);
    mem_free(request.bytes);
    json_object_put(answer);
    return status;
}

static semel_status find_places(dynamo_writing *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    w->places = arena_alloc(&w->arena, w->count * sizeof *w->places);
    if (!w->places)
        return dynamo_no_memory(err);
    for (size_t i = 0; !status && i < w->count; i++) {
        semel_keyed_change *change = &w->changes[i];
        change->refused = 0;
        if (change->kind == SEMEL_KEYED_FOREIGN)
            continue;
        status = dynamo_place_of(&w->places[i], change->record.space, change->record.key, err);
        if (!status && change->kind == SEMEL_KEYED_WRITE && dynamo_is_long(change->record.key))
            status = announce(w->store, &change->record, err);
    }
    return status;
}

/* --- refusals --------------------------------------------------------------------------------- */

semel_status dynamo_refuse(dynamo_writing *w, size_t index, json_object *item, semel_error *err)
{
    dynamo_item there;
    semel_keyed_change *change = &w->changes[index];
    change->refused = 1;
    if (!w->sink || !item || json_object_object_length(item) == 0)
        return SEMEL_OK;
    semel_status status = dynamo_read_item(&there, item, &w->arena, err);
    if (status || there.kind != DYNAMO_RECORD)
        return status;
    there.record.space = change->record.space;
    there.record.key = change->record.key;
    there.record.body = (semel_bytes){NULL, 0};
    return w->sink(&there.record, w->context, err);
}

static semel_status not_as_expected(semel_error *err)
{
    return semel_fail(err, SEMEL_ECONFLICT,
                      "dynamodb: a record was changed by another process in the meantime");
}

/* 1 if what is there is what this change writes. */
static int is_ours(const semel_keyed_change *change, json_object *item, mem_arena *arena)
{
    dynamo_item there;
    return change->kind == SEMEL_KEYED_WRITE && item && json_object_object_length(item) > 0 &&
           !dynamo_read_item(&there, item, arena, NULL) && there.kind == DYNAMO_RECORD &&
           memcmp(there.record.version, change->record.version, SEMEL_KEYED_VERSION_LEN) == 0;
}

static semel_status unknown_before(const aws_answer *answer, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNKNOWN,
                      "dynamodb: the answer to a write was lost, and its repetition was answered "
                      "with %s",
                      answer->type);
}

/* Only an object in JSON tells that a write was done: a proxy's page with status 200 does not. Nor
 * is a write not done because its answer was too large, or there was no memory for it. */
static semel_status check_answer(const aws_answer *answer, semel_status status, semel_error *err)
{
    json_object *document = NULL;
    if (status)
        return status != SEMEL_EUNKNOWN && answer->http.maybe_sent
                   ? semel_fail(err, SEMEL_EUNKNOWN, "dynamodb: the answer to a write was lost")
                   : status;
    if (answer->type[0])
        return SEMEL_OK;
    if (dynamo_parse(&document, &answer->http.body, NULL))
        return semel_fail(
            err, SEMEL_EUNKNOWN,
            "dynamodb: the answer to a write has status %ld and is not DynamoDB's; is "
            "there a proxy before it?",
            answer->http.status);
    json_object_put(document);
    return SEMEL_OK;
}

/* --- one -------------------------------------------------------------------------------------- */

static semel_status settle_one(dynamo_writing *w, const aws_answer *answer, semel_error *err)
{
    json_object *document = NULL;
    if (strcmp(answer->type, "ConditionalCheckFailedException") != 0)
        return answer->lost ? unknown_before(answer, err)
                            : dynamo_fail(w->store, answer, "writing", err);
    semel_status status = dynamo_parse(&document, &answer->http.body, err);
    json_object *item = dynamo_member(document, "Item", json_type_object);
    if (!status && answer->lost)
        status = is_ours(w->changes, item, &w->arena) ? SEMEL_OK : unknown_before(answer, err);
    else if (!status && !(status = dynamo_refuse(w, 0, item, err)))
        status = not_as_expected(err);
    json_object_put(document);
    return status;
}

static semel_status apply_one(dynamo_writing *w, semel_error *err)
{
    text_buffer request = {0};
    aws_answer answer = {.lost = 0};
    char operation[16];
    (void)snprintf(operation, sizeof operation, "%sItem", dynamo_action_name(w->changes));
    text_append_z(&request, "{");
    dynamo_write_action(&request, w->store, w->changes, w->places);
    text_append_z(&request, "}");
    semel_status status = dynamo_call(w->store, operation, &request, &answer, err);
    status = check_answer(&answer, status, err);
    if (!status && answer.type[0])
        status = settle_one(w, &answer, err);
    mem_free(request.bytes);
    aws_answer_clear(&answer);
    return status;
}

/* --- several ---------------------------------------------------------------------------------- */

static semel_status write_actions(text_buffer *to, const dynamo_writing *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    text_append_z(to, w->statements ? "{\"TransactStatements\":[" : "{\"TransactItems\":[");
    for (size_t i = 0; !status && i < w->count; i++) {
        const semel_keyed_change *change = &w->changes[i];
        text_append_z(to, i ? "," : "");
        if (change->kind == SEMEL_KEYED_FOREIGN) {
            status = dynamo_write_foreign(to, change, err);
        } else if (w->statements) {
            dynamo_write_statement(to, w, i);
        } else {
            text_append_z(to, "{\"");
            text_append_z(to, dynamo_action_name(change));
            text_append_z(to, "\":{");
            dynamo_write_action(to, w->store, change, &w->places[i]);
            text_append_z(to, "}}");
        }
    }
    return status;
}

/* The token is a digest of the request: who sends the same changes again, with their new versions,
 * gets the answer of the first time. Changes without a version of their own have a random
 * number with them, because the same ones may be meant twice. */
static semel_status write_token(text_buffer *to, const dynamo_writing *w, semel_error *err)
{
    enum { TOKEN_LEN = 32 };
    char digest[AWS_DIGEST_TEXT], text[TOKEN_LEN + 40], number[32];
    int versions = 0;
    for (size_t i = 0; i < w->count; i++)
        versions |= w->changes[i].kind == SEMEL_KEYED_WRITE;
    size_t len = to->len;
    (void)snprintf(number, sizeof number, "%016" PRIx64,
                   versions ? 0 : seam_random(w->store->settings.seam));
    text_append_z(to, number);
    if (to->failed)
        return dynamo_no_memory(err);
    if (!aws_digest(digest, (semel_bytes){to->bytes, to->len}))
        return semel_fail(err, SEMEL_ESTORE, "OpenSSL could not make a token");
    to->len = len;
    (void)snprintf(text, sizeof text, "],\"ClientRequestToken\":\"%.*s\"}", TOKEN_LEN, digest);
    text_append_z(to, text);
    return SEMEL_OK;
}

/* After an answer that was lost: does one of the records that refused the repetition have the
 * version that the first request writes? Then that one was carried out, as a whole. The token makes
 * this impossible at DynamoDB; it is for what only looks like it. */
static int was_done_before(dynamo_writing *w, const aws_answer *answer)
{
    json_object *document = NULL, *reasons;
    int ours = 0;
    if (!answer->lost || dynamo_parse(&document, &answer->http.body, NULL))
        return 0;
    reasons = dynamo_member(document, "CancellationReasons", json_type_array);
    for (size_t i = 0; reasons && i < json_object_array_length(reasons) && i < w->count; i++)
        ours |=
            is_ours(&w->changes[i],
                    dynamo_member(json_object_array_get_idx(reasons, i), "Item", json_type_object),
                    &w->arena);
    json_object_put(document);
    return ours;
}

/* A table that is not there may be semel's own, or the application's. */
static semel_status fail_foreign(dynamo_writing *w, const aws_answer *answer, semel_error *err)
{
    dynamo_place at;
    dynamo_item item;
    int found;
    semel_status status = dynamo_place_of(&at, semel_str("s"), semel_str("layout"), err);
    if (!status && strcmp(answer->type, "ResourceNotFoundException") == 0)
        status = dynamo_get_item(&item, &found, w->store, &at, 0, &w->arena, err);
    if (status)
        return status;
    return semel_fail(err, SEMEL_EHANDLER, "dynamodb refuses a queued write: %s: %s", answer->type,
                      answer->message);
}

static semel_status settle_many(dynamo_writing *w, const aws_answer *answer, int *again,
                                semel_error *err)
{
    *again = 0;
    if (strcmp(answer->type, "TransactionCanceledException") == 0) {
        if (was_done_before(w, answer))
            return SEMEL_OK;
        semel_status status = dynamo_canceled(w, answer, again, err);
        return status == SEMEL_ECONFLICT ? not_as_expected(err) : status;
    }
    if (answer->lost)
        return unknown_before(answer, err);
    if (w->foreign && (strcmp(answer->type, "ValidationException") == 0 ||
                       strcmp(answer->type, "ResourceNotFoundException") == 0))
        return fail_foreign(w, answer, err);
    return dynamo_fail(w->store, answer, "writing", err);
}

/* The same text with the same token, until there is an answer that is one. */
static semel_status send_many(dynamo_writing *w, const text_buffer *request, semel_error *err)
{
    const char *operation = w->statements ? "ExecuteTransaction" : "TransactWriteItems";
    int64_t begun_ms = wait_clock_ms();
    unsigned failures = 0;
    for (;;) {
        aws_answer answer = {.lost = 0};
        int again = 0;
        semel_status status = dynamo_call(w->store, operation, request, &answer, err);
        status = check_answer(&answer, status, err);
        if (!status && answer.type[0])
            status = settle_many(w, &answer, &again, err);
        aws_answer_clear(&answer);
        if (status || !again)
            return status;
        if (!aws_pause(w->store->aws, begun_ms, ++failures))
            return semel_fail(err, SEMEL_ECONFLICT,
                              "dynamodb: the transaction collided with others or was throttled, "
                              "again and again for %u ms (busy_ms)",
                              w->store->settings.busy_ms);
    }
}

static semel_status apply_many(dynamo_writing *w, semel_error *err)
{
    text_buffer request = {0};
    semel_status status = write_actions(&request, w, err);
    if (!status)
        status = write_token(&request, w, err);
    if (!status)
        status = send_many(w, &request, err);
    mem_free(request.bytes);
    if (!status && w->statements)
        dynamo_drop_gone(w);
    return status;
}

semel_status dynamo_apply(void *state, semel_keyed_change changes[], size_t count,
                          semel_begin durability, semel_keyed_sink *sink, void *context,
                          semel_error *err)
{
    dynamo_writing w = {
        .store = state, .changes = changes, .count = count, .sink = sink, .context = context};
    (void)durability; /* DynamoDB has one */
    if (!count)
        return SEMEL_OK;
    semel_status status = check_limits(changes, count, err);
    if (!status)
        status = find_foreign(&w, err);
    if (!status)
        status = find_places(&w, err);
    if (!status)
        status = count == 1 && changes->kind == SEMEL_KEYED_WRITE ? apply_one(&w, err)
                                                                  : apply_many(&w, err);
    arena_free(&w.arena);
    return status;
}
