/* DynamoDB's: the table's name is one, and all else is within its limits. */
#include "property.h"
#include "store/dynamodb/address.h"
#include "url_parts.h"

semel_status check_dynamodb_address(const char *url, int secret, semel_error *err)
{
    mem_arena arena = {0};
    dynamo_address a = {0};
    semel_status status = dynamo_address_read(&a, &arena, url, err);
    if (!status) {
        size_t len = strlen(a.table);
        HOLDS(len >= 3 && len <= DYNAMO_TABLE_MAX && !strpbrk(a.table, "\"'/@:?&% "));
        HOLDS(a.pool >= 1 && a.pool <= DYNAMO_POOL_MAX && (a.global == 0 || a.global == 1));
        HOLDS(keeps(secret, a.table));
        HOLDS((!a.region || *a.region) && (!a.endpoint || *a.endpoint));
    }
    arena_free(&arena);
    return status;
}
