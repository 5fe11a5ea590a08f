/* A transaction that was cancelled, reason by reason. What semel expected comes first: the
 * statement of a copy fails as well (its INSERT finds the row of the first one), and that is not a
 * failure of the application's. Then its own failures, and at last what only had bad luck. */
#include "store/dynamodb/dynamodb.h"

#include <stdio.h>
#include <string.h>

typedef struct reason {
    const char *code, *message;
    json_object *item; /* that is there; NULL: not told */
} reason;

static const char *text_of(json_object *object, const char *name)
{
    json_object *text = dynamo_member(object, name, json_type_string);
    return text ? json_object_get_string(text) : "";
}

static reason reason_at(json_object *reasons, size_t index)
{
    json_object *one = index < json_object_array_length(reasons)
                           ? json_object_array_get_idx(reasons, index)
                           : NULL;
    return (reason){text_of(one, "Code"), text_of(one, "Message"),
                    dynamo_member(one, "Item", json_type_object)};
}

static int is_code(const reason *r, const char *a, const char *b, const char *c)
{
    return strcmp(r->code, a) == 0 || strcmp(r->code, b) == 0 || strcmp(r->code, c) == 0;
}

static int is_nothing(const reason *r)
{
    return is_code(r, "None", "", "None");
}

static int is_refusal(const reason *r)
{
    return is_code(r, "ConditionalCheckFailed", "DuplicateItem", "DuplicateItem");
}

static int is_bad_luck(const reason *r)
{
    return is_code(r, "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded") ||
           is_code(r, "RequestLimitExceeded", "AccountProvisionedThroughputExceeded",
                   "TransactionInProgress");
}

/* A statement that inserts does not tell what is there, which may be the rest of a record that was
 * removed by another statement: that is dropped, and it is tried again. */
static semel_status refuse(dynamo_writing *w, size_t index, const reason *why, int *again,
                           semel_error *err)
{
    dynamo_item there = {.kind = DYNAMO_RECORD};
    int found = 0;
    semel_status status = SEMEL_OK;
    if (strcmp(why->code, "DuplicateItem") != 0 || why->item)
        return dynamo_refuse(w, index, why->item, err);
    status = dynamo_get_item(&there, &found, w->store, &w->places[index], 0, &w->arena, err);
    if (!status && found && there.kind == DYNAMO_GONE)
        status = dynamo_drop_item(w->store, &w->places[index], err);
    if (status || !found || there.kind == DYNAMO_GONE) {
        *again = 1;
        return status;
    }
    w->changes[index].refused = 1;
    if (!w->sink)
        return SEMEL_OK;
    there.record.space = w->changes[index].record.space;
    there.record.key = w->changes[index].record.key;
    return w->sink(&there.record, w->context, err);
}

static semel_status look_at_ours(dynamo_writing *w, json_object *reasons, int *again,
                                 semel_error *err)
{
    int refused = 0;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->count; i++) {
        reason why = reason_at(reasons, i);
        if (w->changes[i].kind == SEMEL_KEYED_FOREIGN || !is_refusal(&why))
            continue;
        status = refuse(w, i, &why, again, err);
        refused |= w->changes[i].refused;
    }
    return status || !refused ? status : SEMEL_ECONFLICT;
}

static semel_status fail_change(const dynamo_writing *w, size_t index, const reason *why,
                                semel_error *err)
{
    int foreign = w->changes[index].kind == SEMEL_KEYED_FOREIGN;
    return semel_fail(err, foreign ? SEMEL_EHANDLER : SEMEL_ESTORE,
                      "dynamodb refuses %s write %zu of %zu of a transaction: %s: %s",
                      foreign ? "a queued" : "semel's", index + 1, w->count, why->code,
                      why->message);
}

static semel_status look_at_others(dynamo_writing *w, json_object *reasons, int *again,
                                   semel_error *err)
{
    for (size_t i = 0; i < w->count; i++) {
        reason why = reason_at(reasons, i);
        int foreign = w->changes[i].kind == SEMEL_KEYED_FOREIGN;
        if (is_nothing(&why) || (!foreign && is_refusal(&why)))
            continue;
        if (!is_bad_luck(&why))
            return fail_change(w, i, &why, err);
        *again = 1;
    }
    return *again ? SEMEL_OK : dynamo_strange("a cancelled transaction without a reason", err);
}

semel_status dynamo_canceled(dynamo_writing *w, const aws_answer *answer, int *again,
                             semel_error *err)
{
    json_object *document = NULL;
    semel_status status = dynamo_parse(&document, &answer->http.body, err);
    json_object *reasons = dynamo_member(document, "CancellationReasons", json_type_array);
    if (!status && !reasons)
        status = dynamo_strange("a cancelled transaction without reasons", err);
    if (!status)
        status = look_at_ours(w, reasons, again, err);
    if (!status)
        status = look_at_others(w, reasons, again, err);
    json_object_put(document);
    return status;
}
