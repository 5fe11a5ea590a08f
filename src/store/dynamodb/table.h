/* What DynamoDB says of the table. */
#ifndef SEMEL_STORE_DYNAMODB_TABLE_H
#define SEMEL_STORE_DYNAMODB_TABLE_H

#include "store/dynamodb/dynamodb.h"

typedef struct dynamo_table {
    int found;  /* or all else is 0 */
    int active; /* it can be used */
    int fits;   /* its keys are as semel needs them */
    int on_demand;
    int is_protected; /* from being deleted */
    size_t replicas;
} dynamo_table;

semel_status dynamo_describe(dynamo_table *out, dynamo_store *store, semel_error *err);
semel_status dynamo_has_ttl(int *out, dynamo_store *store, semel_error *err);

#endif
