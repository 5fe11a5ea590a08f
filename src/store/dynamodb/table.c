/* The table: made by `prepare` with the on-demand price model, unless it is there. One that someone
 * else has made is used as it is, if its keys are p and k, both binary.
 *
 * A global table is refused: its replicas take writes on their own and settle conflicts by "the
 * last one wins", so that two regions can both be first with a key; and transactions are atomic in
 * one region only. */
#include "store/dynamodb/table.h"

#include "base/wait.h"

#include <stdio.h>
#include <string.h>

enum { MAKE_MS = 120000, LOOK_MS = 200 };

/* --- what is there ---------------------------------------------------------------------------- */

static const char *text_of(json_object *object, const char *name)
{
    json_object *text = dynamo_member(object, name, json_type_string);
    return text ? json_object_get_string(text) : "";
}

/* {"TableName":"..."} */
static void write_name(text_buffer *to, const dynamo_store *store)
{
    text_append_z(to, "{");
    dynamo_write_table(to, store);
    text_append_z(to, "}");
}

static int has_key(json_object *list, const char *name, const char *member, const char *value)
{
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *one = json_object_array_get_idx(list, i);
        if (strcmp(text_of(one, "AttributeName"), name) == 0 &&
            strcmp(text_of(one, member), value) == 0)
            return 1;
    }
    return 0;
}

static void read_description(dynamo_table *out, json_object *table)
{
    json_object *keys = dynamo_member(table, "KeySchema", json_type_array);
    json_object *types = dynamo_member(table, "AttributeDefinitions", json_type_array);
    json_object *replicas = dynamo_member(table, "Replicas", json_type_array);
    json_object *billing = dynamo_member(table, "BillingModeSummary", json_type_object);
    json_object *protected = dynamo_member(table, "DeletionProtectionEnabled", json_type_boolean);
    out->found = 1;
    out->active = strcmp(text_of(table, "TableStatus"), "ACTIVE") == 0 ||
                  strcmp(text_of(table, "TableStatus"), "UPDATING") == 0;
    out->fits = has_key(keys, "p", "KeyType", "HASH") && has_key(keys, "k", "KeyType", "RANGE") &&
                has_key(types, "p", "AttributeType", "B") &&
                has_key(types, "k", "AttributeType", "B");
    out->replicas = replicas ? json_object_array_length(replicas) : 0;
    out->on_demand = strcmp(text_of(billing, "BillingMode"), "PAY_PER_REQUEST") == 0;
    out->is_protected = protected && json_object_get_boolean(protected);
}

semel_status dynamo_describe(dynamo_table *out, dynamo_store *store, semel_error *err)
{
    text_buffer request = {0};
    json_object *answer;
    semel_error local, *why = err ? err : &local;
    *out = (dynamo_table){.found = 0};
    write_name(&request, store);
    semel_status status =
        dynamo_ask(store, "DescribeTable", &request, "looking at its table", &answer, why);
    mem_free(request.bytes);
    json_object *table = dynamo_member(answer, "Table", json_type_object);
    if (!status && !table)
        status = dynamo_strange("no description of the table", why);
    else if (!status)
        read_description(out, table);
    json_object_put(answer);
    return status == SEMEL_ESCHEMA ? SEMEL_OK : status;
}

static semel_status check_description(const dynamo_store *store, const dynamo_table *table,
                                      semel_error *err)
{
    if (table->found && !table->fits)
        return semel_fail(
            err, SEMEL_ESCHEMA,
            "dynamodb: the table \"%s\" is not semel's: its keys must be p (HASH) and "
            "k (RANGE), both of type B; name another one in the URL",
            store->at.table);
    if (table->replicas && !store->at.global)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "dynamodb: \"%s\" is a global table (%zu replicas); in two regions at "
                          "once both can be first with a message, so semel would let it through "
                          "twice. If all processes use this region alone, say loss=warn in the URL",
                          store->at.table, table->replicas);
    return SEMEL_OK;
}

semel_status dynamo_check_table(dynamo_store *store, semel_error *err)
{
    dynamo_table table;
    semel_status status = dynamo_describe(&table, store, err);
    return status ? status : check_description(store, &table, err);
}

/* --- making it -------------------------------------------------------------------------------- */

/* Another process may have been faster, which is as good. */
static semel_status create(dynamo_store *store, semel_error *err)
{
    text_buffer request = {0};
    aws_answer answer = {.lost = 0};
    text_append_z(&request, "{");
    dynamo_write_table(&request, store);
    text_append_z(&request,
                  ",\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"B\"},"
                  "{\"AttributeName\":\"k\",\"AttributeType\":\"B\"}],"
                  "\"KeySchema\":[{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},"
                  "{\"AttributeName\":\"k\",\"KeyType\":\"RANGE\"}],"
                  "\"BillingMode\":\"PAY_PER_REQUEST\"}");
    semel_status status = dynamo_call(store, "CreateTable", &request, &answer, err);
    if (!status && answer.type[0] && strcmp(answer.type, "ResourceInUseException") != 0)
        status = dynamo_fail(store, &answer, "making its table", err);
    aws_answer_clear(&answer);
    mem_free(request.bytes);
    return status == SEMEL_EUNKNOWN ? SEMEL_OK : status; /* whether it is there is looked at next */
}

static semel_status await(dynamo_store *store, semel_error *err)
{
    enum { US_OF_MS = 1000 };
    dynamo_table table;
    int64_t end_ms = wait_clock_ms() + MAKE_MS;
    for (;;) {
        semel_status status = dynamo_describe(&table, store, err);
        if (!status)
            status = check_description(store, &table, err);
        if (status || table.active)
            return status;
        if (wait_clock_ms() >= end_ms)
            return semel_fail(err, SEMEL_EUNAVAILABLE,
                              "dynamodb: the table \"%s\" was not ready after %d s; look at it in "
                              "AWS's console, then migrate again",
                              store->at.table, MAKE_MS / 1000);
        wait_nap_us(LOOK_MS * US_OF_MS);
    }
}

semel_status dynamo_has_ttl(int *out, dynamo_store *store, semel_error *err)
{
    text_buffer request = {0};
    json_object *answer;
    write_name(&request, store);
    semel_status status = dynamo_ask(store, "DescribeTimeToLive", &request,
                                     "looking at its table's TTL", &answer, err);
    mem_free(request.bytes);
    json_object *ttl = dynamo_member(answer, "TimeToLiveDescription", json_type_object);
    *out = strncmp(text_of(ttl, "TimeToLiveStatus"), "ENABL", strlen("ENABL")) == 0 &&
           strcmp(text_of(ttl, "AttributeName"), "x") == 0;
    json_object_put(answer);
    return status;
}

/* Without TTL nothing is wrong: sweeps remove what is old, and `semel doctor` tells. So a lack of
 * rights is no failure here, and neither is another process that does the same at this moment. */
static semel_status enable_ttl(dynamo_store *store, semel_error *err)
{
    text_buffer request = {0};
    aws_answer answer = {.lost = 0};
    text_append_z(&request, "{");
    dynamo_write_table(&request, store);
    text_append_z(&request, ",\"TimeToLiveSpecification\":{\"Enabled\":true,\"AttributeName\":"
                            "\"x\"}}");
    semel_status status = dynamo_call(store, "UpdateTimeToLive", &request, &answer, err);
    if (!status && answer.type[0] && strcmp(answer.type, "AccessDeniedException") != 0 &&
        strcmp(answer.type, "ResourceInUseException") != 0 &&
        strcmp(answer.type, "ValidationException") != 0)
        status = dynamo_fail(store, &answer, "enabling TTL", err);
    aws_answer_clear(&answer);
    mem_free(request.bytes);
    return status == SEMEL_EUNKNOWN ? SEMEL_EUNAVAILABLE : status;
}

semel_status dynamo_prepare(void *state, semel_error *err)
{
    dynamo_store *store = state;
    dynamo_table table;
    int enabled = 0;
    semel_status status = dynamo_describe(&table, store, err);
    if (!status && !table.found)
        status = create(store, err);
    if (!status)
        status = await(store, err);
    if (!status && dynamo_has_ttl(&enabled, store, NULL))
        enabled = 0;
    if (!status && !enabled)
        status = enable_ttl(store, err);
    return status;
}
