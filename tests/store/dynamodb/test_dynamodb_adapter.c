/* The adapter suite on DynamoDB's emulator, where a table is a database. It runs twice: with the
 * application's writes as statements, and as items in JSON. */
#include "store/dynamodb/dynamodb.h"
#include "support/keyed/adapter_suite.h"
#include "support/servers/server.h"

#include <stdlib.h>

#define EFFECTS "semel-adapter-effects"
#define INT(number)                 \
    {                               \
        SEMEL_VALUE_INT, number, 0, \
        {                           \
            NULL, 0                 \
        }                           \
    }

/* One for all databases of the suite: its statements are the same for each. */
static void make_effects(const char *argument)
{
    server_run(argument, "CreateTable {\"TableName\":\"" EFFECTS "\",\"AttributeDefinitions\":["
                         "{\"AttributeName\":\"id\",\"AttributeType\":\"S\"}],\"KeySchema\":["
                         "{\"AttributeName\":\"id\",\"KeyType\":\"HASH\"}],"
                         "\"BillingMode\":\"PAY_PER_REQUEST\"}");
    server_run(argument, "INSERT INTO \"" EFFECTS "\" VALUE {'id':'all','n':0}");
}

static void make(char argument[ADAPTER_ROOM])
{
    static int made;
    server_fresh_dynamodb(argument);
    if (!made++)
        make_effects(argument);
    server_run(argument, "UPDATE \"" EFFECTS "\" SET n=0 WHERE id='all'");
}

static int64_t effects(const char *argument)
{
    return server_number(argument, "SELECT n FROM \"" EFFECTS "\" WHERE id='all'");
}

static void clean(const char *argument)
{
    server_drop(argument);
}

int main(void)
{
    adapter_quirks dynamodb = {
        .name = "dynamodb",
        .driver = &dynamo_driver,
        .flags = ADAPTER_KEEPS | ADAPTER_PROCESSES | ADAPTER_SLOW,
        .durability = SEMEL_DURABLE_POWER,
        .make = make,
        .remove = clean,
        .good = {"UPDATE \"" EFFECTS "\" SET n=n+? WHERE id='all'", {INT(1)}, 1},
        .invalid = {"SELECT n FROM \"" EFFECTS "\" WHERE n=?", {INT(1)}, 1},
        .failing = {"UPDATE \"" EFFECTS "\" SET n=n+? WHERE id='none'", {INT(1)}, 1},
        .effects = effects};
    char argument[ADAPTER_ROOM];
    int failed = adapter_suite(&dynamodb);
    if (getenv("SEMEL_TEST_FILTER"))
        return failed;
    dynamodb.name = "dynamodb with items";
    dynamodb.good.text =
        "{\"Update\":{\"TableName\":\"" EFFECTS "\",\"Key\":{\"id\":{\"S\":\"all\"}"
        "},\"UpdateExpression\":\"ADD n :n\",\"ExpressionAttributeValues\":{"
        "\":n\":\"?\"}}}";
    dynamodb.invalid.text = "{\"Scan\":{\"TableName\":\"" EFFECTS "\",\"Limit\":\"?\"}}";
    dynamodb.failing.text =
        "{\"Update\":{\"TableName\":\"" EFFECTS "\",\"Key\":{\"id\":{\"S\":\"none\"}},"
        "\"UpdateExpression\":\"ADD n :n\",\"ConditionExpression\":\"attribute_exists(id)\","
        "\"ExpressionAttributeValues\":{\":n\":\"?\"}}}";
    failed += adapter_suite(&dynamodb);
    server_fresh_dynamodb(argument);
    server_run(argument, "DeleteTable {\"TableName\":\"" EFFECTS "\"}");
    return failed;
}
