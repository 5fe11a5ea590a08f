/* The DynamoDB driver in trouble: throttled, refused, cut off. Between it and the emulator stands a
 * scripted server, for what the emulator never does. */
#include "store/dynamodb/dynamodb.h"
#include "support/base/check.h"
#include "support/servers/http_script.h"
#include "support/servers/server.h"

#include <semel/test.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THROTTLED "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ThrottlingException\"}"
#define CANCELED(codes)                                                              \
    "{\"__type\":\"com.amazonaws.dynamodb.v20120810#TransactionCanceledException\"," \
    "\"Message\":\"cancelled\",\"CancellationReasons\":[" codes "]}"
#define NONE     "{\"Code\":\"None\"}"
#define CONFLICT "{\"Code\":\"TransactionConflict\",\"Message\":\"ongoing\"}"

typedef struct place {
    char direct[SERVER_URL_ROOM], url[SERVER_URL_ROOM + 64];
    http_script *server;
    semel_test_seam *seam;
    dynamo_store *store;
    semel_store_settings settings;
    mem_arena arena;
} place;

static semel_status open_store(place *p)
{
    p->store = calloc(1, sizeof *p->store);
    semel_status status = dynamo_driver.open(p->store, p->url, &p->settings, &last_error);
    if (status) {
        free(p->store);
        p->store = NULL;
    }
    return status;
}

static void close_store(place *p)
{
    if (p->store)
        dynamo_driver.close(p->store);
    free(p->store);
    p->store = NULL;
}

/* A table through the script; the waits are short ones. */
static place *open_place(uint32_t busy_ms, uint32_t answer_ms)
{
    char table[128];
    server_place emulator;
    place *p = calloc(1, sizeof *p);
    server_find(&emulator, SERVER_DYNAMODB);
    server_fresh(p->direct, &emulator);
    p->server = http_script_open(emulator.port);
    (void)snprintf(table, sizeof table, "%.*s", (int)strcspn(p->direct + 11, "?"), p->direct + 11);
    (void)snprintf(p->url, sizeof p->url, "dynamodb://%s?endpoint=http://127.0.0.1:%u", table,
                   http_script_port(p->server));
    OK(semel_test_seam_open(&p->seam, (uint64_t)getpid(), &last_error));
    p->settings = (semel_store_settings){
        .busy_ms = busy_ms, .answer_ms = answer_ms, .seam = semel_test_seam_get(p->seam)};
    OK(open_store(p));
    OK(dynamo_driver.prepare(p->store, &last_error));
    return p;
}

static void close_place(place *p)
{
    close_store(p);
    http_script_close(p->server);
    server_drop(p->direct);
    semel_test_seam_close(p->seam);
    arena_free(&p->arena);
    free(p);
}

/* --- changes ---------------------------------------------------------------------------------- */

static semel_keyed_change write_of(const char *key, const char *value)
{
    static unsigned char count;
    semel_keyed_change change = {.kind = SEMEL_KEYED_WRITE, .expect = SEMEL_EXPECT_ABSENT};
    change.record.space = semel_str("m/0");
    change.record.key = semel_str(key);
    change.record.value = semel_str(value);
    change.record.version[0] = ++count;
    return change;
}

static semel_keyed_change expecting(semel_keyed_change change, const semel_keyed_change *before)
{
    change.expect = SEMEL_EXPECT_VERSION;
    memcpy(change.expected_version, before->record.version, SEMEL_KEYED_VERSION_LEN);
    return change;
}

static semel_keyed_change removal_of(const semel_keyed_change *before)
{
    semel_keyed_change change = expecting(*before, before);
    change.kind = SEMEL_KEYED_REMOVE;
    return change;
}

static semel_keyed_change statement_of(const char *text)
{
    return (semel_keyed_change){.kind = SEMEL_KEYED_FOREIGN, .statement = text};
}

static semel_status apply(place *p, semel_keyed_change changes[], size_t count)
{
    return dynamo_driver.apply(p->store, changes, count, SEMEL_BEGIN_DURABLE, NULL, NULL,
                               &last_error);
}

static semel_status keep_value(const semel_keyed_record *record, void *context, semel_error *err)
{
    (void)err;
    (void)snprintf(context, 64, "%.*s", (int)record->value.len, (const char *)record->value.data);
    return SEMEL_OK;
}

static semel_status keep_key_len(const semel_keyed_record *record, void *context, semel_error *err)
{
    (void)err;
    (void)snprintf(context, 64, "%zu", record->key.len);
    return SEMEL_OK;
}

static void value_is(place *p, const char *key, const char *value)
{
    char found[64] = "nothing";
    semel_bytes bytes = semel_str(key);
    http_script_forget(p->server);
    OK(dynamo_driver.get(p->store, semel_str("m/0"), &bytes, 1, 0, keep_value, found, &last_error));
    assert_string_equal(found, value);
}

/* --- throttling and conflicts ----------------------------------------------------------------- */

static void a_throttled_write_is_sent_again(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1"), two[] = {write_of("b", "2"), write_of("c", "3")};
    (void)state;
    http_script_answer(p->server, "PutItem", 3, 400, THROTTLED);
    OK(apply(p, &one, 1));
    assert_int_equal(http_script_count(p->server, "PutItem"), 4);
    http_script_answer(p->server, "TransactWriteItems", 2, 400,
                       CANCELED(NONE ",{\"Code\":\"ThrottlingError\"}"));
    http_script_answer(p->server, "TransactWriteItems", 2, 400, CANCELED(CONFLICT "," NONE));
    http_script_answer(p->server, "TransactWriteItems", 1, 400,
                       "{\"__type\":\"TransactionInProgressException\"}");
    OK(apply(p, two, 2));
    assert_int_equal(http_script_count(p->server, "TransactWriteItems"), 6);
    value_is(p, "b", "2");
    close_place(p);
}

static void a_write_that_is_throttled_for_too_long_is_not_done(void **state)
{
    place *p = open_place(150, 10000);
    semel_keyed_change one = write_of("a", "1"), two[] = {write_of("a", "2"), write_of("b", "3")};
    (void)state;
    http_script_answer(p->server, "PutItem", 10000, 400, THROTTLED);
    FAILS(SEMEL_EBUSY, apply(p, &one, 1));
    http_script_answer(p->server, "TransactWriteItems", 10000, 400,
                       CANCELED(CONFLICT "," CONFLICT));
    FAILS(SEMEL_ECONFLICT, apply(p, two, 2));
    assert_false(two[0].refused || two[1].refused);
    value_is(p, "a", "nothing");
    close_place(p);
}

static void keys_that_are_left_are_asked_for_again(void **state)
{
    char answer[512], seen[64] = "";
    place *p = open_place(60000, 10000);
    semel_keyed_change two[] = {write_of("a", "1"), write_of("b", "2")};
    semel_bytes keys[] = {semel_str("a"), semel_str("b")};
    (void)state;
    OK(apply(p, two, 2));
    dynamo_place at;
    text_buffer key = {0};
    OK(dynamo_place_of(&at, semel_str("m/0"), keys[1], &last_error));
    dynamo_write_key(&key, &at);
    (void)snprintf(answer, sizeof answer,
                   "{\"Responses\":{\"%s\":[]},\"UnprocessedKeys\":{\"%s\":{\"Keys\":[{%.*s}],"
                   "\"ConsistentRead\":true}}}",
                   p->store->at.table, p->store->at.table, (int)key.len, key.bytes);
    mem_free(key.bytes);
    http_script_answer(p->server, "BatchGetItem", 2, 200, answer);
    OK(dynamo_driver.get(p->store, semel_str("m/0"), keys, 2, 0, keep_value, seen, &last_error));
    assert_string_equal(seen, "2");
    assert_int_equal(http_script_count(p->server, "BatchGetItem"), 3);
    close_place(p);
}

/* --- answers that are lost -------------------------------------------------------------------- */

static void a_write_whose_answer_was_lost_is_done_once(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1"), next = expecting(write_of("a", "2"), &one);
    (void)state;
    http_script_lose_answer(p->server, "PutItem", 1);
    OK(apply(p, &one, 1)); /* the second is refused by the first */
    http_script_lose_request(p->server, "PutItem", 1);
    OK(apply(p, &next, 1));
    value_is(p, "a", "2");
    close_place(p);
}

/* Somebody else has written since: ours may have been there in between. */
static void a_write_that_was_lost_and_is_refused_is_unknown(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1"), other = write_of("a", "2");
    (void)state;
    OK(apply(p, &one, 1));
    http_script_lose_request(p->server, "PutItem", 1);
    FAILS(SEMEL_EUNKNOWN, apply(p, &other, 1));
    FAILS(SEMEL_ECONFLICT, apply(p, &other, 1));
    assert_true(other.refused);
    value_is(p, "a", "1");
    close_place(p);
}

static void make_stock(const place *p)
{
    server_run(p->direct, "CreateTable {\"TableName\":\"test-stock\",\"AttributeDefinitions\":["
                          "{\"AttributeName\":\"id\",\"AttributeType\":\"S\"}],\"KeySchema\":["
                          "{\"AttributeName\":\"id\",\"KeyType\":\"HASH\"}],"
                          "\"BillingMode\":\"PAY_PER_REQUEST\"}");
    server_run(p->direct, "INSERT INTO \"test-stock\" VALUE {'id':'a','n':0}");
}

static int64_t stock_of(const place *p)
{
    return server_number(p->direct, "SELECT n FROM \"test-stock\" WHERE id='a'");
}

/* The token: also the application's write, which has no version, is done once. */
static void a_transaction_whose_answer_was_lost_is_done_once(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change statements[] = {
        write_of("a", "1"), statement_of("UPDATE \"test-stock\" SET n=n+1 WHERE id='a'")};
    semel_keyed_change items[] = {
        write_of("b", "1"),
        statement_of("{\"Update\":{\"TableName\":\"test-stock\",\"Key\":{\"id\":{\"S\":\"a\"}},"
                     "\"UpdateExpression\":\"SET n=n+:n\",\"ExpressionAttributeValues\":{\":n\":"
                     "{\"N\":\"1\"}}}}")};
    semel_keyed_change gone = removal_of(&items[0]);
    (void)state;
    make_stock(p);
    http_script_lose_answer(p->server, "ExecuteTransaction", 2);
    OK(apply(p, statements, 2));
    assert_int_equal(stock_of(p), 1);
    http_script_lose_answer(p->server, "TransactWriteItems", 2);
    OK(apply(p, items, 2));
    assert_int_equal(stock_of(p), 2);
    http_script_lose_answer(p->server, "TransactWriteItems", 1);
    OK(apply(p, &gone, 1));
    FAILS(SEMEL_ECONFLICT, apply(p, &gone, 1));
    value_is(p, "b", "nothing");
    server_run(p->direct, "DeleteTable {\"TableName\":\"test-stock\"}");
    close_place(p);
}

static void what_is_never_answered_is_unknown_and_may_be_repeated(void **state)
{
    place *p = open_place(100, 200);
    semel_keyed_change two[] = {write_of("a", "1"), write_of("b", "2")};
    (void)state;
    http_script_lose_answer(p->server, "TransactWriteItems", 10000);
    FAILS(SEMEL_EUNKNOWN, apply(p, two, 2));
    http_script_forget(p->server);
    OK(apply(p, two, 2)); /* the same changes have the same token */
    value_is(p, "b", "2");
    close_place(p);
}

/* --- statements ------------------------------------------------------------------------------- */

/* A record that is removed beside a statement is gone for everybody, at once and later. */
static void records_are_removed_beside_statements(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1"), again = write_of("a", "2"),
                       missing = write_of("q", "1");
    semel_keyed_change gone[] = {removal_of(&one),
                                 statement_of("UPDATE \"test-stock\" SET n=n+1 WHERE id='a'")};
    semel_keyed_change none[] = {removal_of(&missing), gone[1]};
    uint64_t count = 9;
    (void)state;
    make_stock(p);
    FAILS(SEMEL_ECONFLICT, apply(p, none, 2));
    assert_true(none[0].refused);
    OK(apply(p, &one, 1));
    http_script_answer(p->server, "DeleteItem", 1, 400, THROTTLED); /* what tidies up is repeated */
    http_script_answer(p->server, "DeleteItem", 1, 400, "{\"__type\":\"AccessDeniedException\"}");
    OK(apply(p, gone, 2));
    value_is(p, "a", "nothing"); /* though the item is still there */
    OK(dynamo_driver.count(p->store, semel_str("m/0"), &count, &last_error));
    assert_int_equal(count, 0);
    FAILS(SEMEL_ECONFLICT, apply(p, gone, 2));
    assert_int_equal(stock_of(p), 1);
    semel_keyed_change beside[] = {again, gone[1]};
    OK(apply(p, beside, 2)); /* an INSERT comes upon it */
    value_is(p, "a", "2");
    server_run(p->direct, "DeleteTable {\"TableName\":\"test-stock\"}");
    close_place(p);
}

static void statements_and_items_do_not_mix(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change both[] = {
        statement_of("DELETE FROM t WHERE id='a'"),
        statement_of("{\"Delete\":{\"TableName\":\"t\",\"Key\":{\"id\":{\"S\":\"a\"}}}}")};
    semel_value values[] = {semel_int(1), semel_real(1.0 / 0.0), semel_text("\xff")};
    (void)state;
    FAILS(SEMEL_EINVAL, apply(p, both, 2));
    SAYS("not both");
#define REFUSED(text, n) FAILS(SEMEL_EINVAL, dynamo_queue(p->store, text, values, n, &last_error))
    REFUSED("", 0);
    REFUSED("SELECT * FROM t", 0);
    REFUSED("INSERTED", 0);
    REFUSED("DELETE FROM t WHERE id='?'", 1);
    REFUSED("DELETE FROM t WHERE id=?", 0);
    REFUSED("DELETE FROM t WHERE id='a'; DELETE FROM t WHERE id='b'", 0);
    REFUSED("DELETE FROM t WHERE id=? AND n=?", 2);
    SAYS("value 2 is not a finite number");
    REFUSED("{\"Put\":{}}", 0);
    REFUSED("{\"Put\":{\"TableName\":\"t\"},\"Delete\":{\"TableName\":\"t\"}}", 0);
    REFUSED("{\"Get\":{\"TableName\":\"t\"}}", 0);
    REFUSED("{\"Put\":{\"TableName\":\"t\"}", 0);
    REFUSED("{\"Put\":{\"TableName\":\"t\",\"Item\":{\"a\":\"?\"}}}", 0);
#undef REFUSED
    OK(dynamo_queue(p->store, " delete from t where id='it''s ?' and n=? ; ", values, 1,
                    &last_error));
    OK(dynamo_queue(p->store, "{\"Put\":{\"TableName\":\"t\",\"Item\":{\"a\":\"?\"}}}", values, 1,
                    &last_error));
    OK(dynamo_queue(p->store, "{\"Put\": {\"TableName\": \"t\", \"Item\": {\"a \\\" ?\": ?}}}",
                    values, 1, &last_error));
    close_place(p);
}

/* --- keys ------------------------------------------------------------------------------------- */

static semel_status keep_lengths(const semel_keyed_record *record, void *context, semel_error *err)
{
    char *text = context;
    size_t used = strlen(text);
    (void)err;
    (void)snprintf(text + used, 256 - used, "%zu%.*s ", record->key.len, (int)record->value.len,
                   (const char *)record->value.data);
    return SEMEL_OK;
}

/* Around the length where keys are cut, in both directions, from within and until. */
static void long_keys_stand_in_their_order(void **state)
{
    static char keys[8][SEMEL_KEYED_KEY_MAX + 1];
    static const size_t lengths[] = {1022, 1023, 1024, 1025, 1026, 1100, 1024, 1};
    static const char *const spaces[] = {"w/0", "m/0"};
    char text[256];
    place *p = open_place(60000, 10000);
    (void)state;
    for (size_t i = 0; i < 8; i++)
        memset(keys[i], 'x', lengths[i]);
    keys[6][1023] = 'y'; /* behind all others of that length and longer */
    keys[7][0] = 'z';
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 8; i > 0; i--) {
            semel_keyed_change change = write_of(keys[i - 1], i == 7 ? "y" : "");
            change.record.space = semel_str(spaces[s]);
            OK(apply(p, &change, 1));
        }
        semel_keyed_range range = {.space = semel_str(spaces[s]), .limit = 100};
        text[0] = 0;
        OK(dynamo_driver.scan(p->store, &range, keep_lengths, text, &last_error));
        assert_string_equal(text, "1022 1023 1024 1025 1026 1100 1024y 1 ");
        range.after = semel_str(keys[3]);
        range.until = semel_str(keys[7]);
        range.limit = 3;
        text[0] = 0;
        OK(dynamo_driver.scan(p->store, &range, keep_lengths, text, &last_error));
        assert_string_equal(text, "1026 1100 1024y ");
        range.descending = 1;
        range.after = semel_str(keys[6]);
        range.until = semel_str(keys[1]);
        range.limit = 100;
        text[0] = 0;
        OK(dynamo_driver.scan(p->store, &range, keep_lengths, text, &last_error));
        assert_string_equal(text, "1100 1026 1025 1024 ");
        uint64_t count = 0;
        OK(dynamo_driver.count(p->store, semel_str(spaces[s]), &count, &last_error));
        assert_int_equal(count, 8);
    }
    semel_bytes two[] = {semel_str(keys[5]), semel_str(keys[6])};
    text[0] = 0;
    OK(dynamo_driver.get(p->store, semel_str("w/0"), two, 2, 1, keep_lengths, text, &last_error));
    assert_true(strstr(text, "1100 ") && strstr(text, "1024y "));
    close_place(p);
}

/* --- tables and errors ------------------------------------------------------------------------ */

#define TABLE(more)                                                                   \
    "{\"Table\":{\"TableStatus\":\"ACTIVE\",\"KeySchema\":[{\"AttributeName\":\"p\"," \
    "\"KeyType\":\"HASH\"},{\"AttributeName\":\"k\",\"KeyType\":\"RANGE\"}],"         \
    "\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"B\"},"    \
    "{\"AttributeName\":\"k\",\"AttributeType\":\"" more "}}"
#define GLOBAL TABLE("B\"}],\"Replicas\":[{\"RegionName\":\"us-west-2\"}]")

static void a_global_table_is_refused_unless_it_is_accepted(void **state)
{
    place *p = open_place(60000, 10000);
    (void)state;
    close_store(p);
    http_script_answer(p->server, "DescribeTable", 2, 200, GLOBAL);
    FAILS(SEMEL_EUNSUPPORTED, open_store(p));
    SAYS("is a global table (1 replicas)");
    SAYS("loss=warn");
    (void)strncat(p->url, "&loss=warn", sizeof p->url - strlen(p->url) - 1);
    OK(open_store(p));
    close_place(p);
}

static void a_table_of_somebody_else_is_refused(void **state)
{
    place *p = open_place(60000, 10000);
    (void)state;
    close_store(p);
    http_script_answer(p->server, "DescribeTable", 1, 200, TABLE("S\"}]"));
    FAILS(SEMEL_ESCHEMA, open_store(p));
    SAYS("is not semel's");
    close_place(p);
}

static void a_table_that_is_missing_is_named(void **state)
{
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1");
    (void)state;
    server_drop(p->direct);
    FAILS(SEMEL_ESCHEMA, apply(p, &one, 1));
    SAYS("semel migrate up");
    OK(dynamo_driver.prepare(p->store, &last_error));
    OK(apply(p, &one, 1));
    close_place(p);
}

static void errors_say_what_to_do(void **state)
{
    static const struct {
        const char *type, *says;
    } known[] = {{"AccessDeniedException", "docs/DYNAMODB.md has the policy"},
                 {"UnrecognizedClientException", "check AWS_ACCESS_KEY_ID"},
                 {"ExpiredTokenException", "renew the credentials"},
                 {"InvalidSignatureException", "check AWS_SECRET_ACCESS_KEY"},
                 {"RequestTimeTooSkewed", "clock of this host"},
                 {"SomethingNewException", "SomethingNewException: how odd"}};
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1");
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char answer[256];
        (void)snprintf(answer, sizeof answer, "{\"__type\":\"x#%s\",\"message\":\"how odd\"}",
                       known[i].type);
        http_script_answer(p->server, "PutItem", 3, 400, answer);
        FAILS(SEMEL_ESTORE, apply(p, &one, 1));
        SAYS(known[i].says);
        assert_int_equal(last_error.native, 400);
        http_script_forget(p->server);
    }
    close_place(p);
}

/* Whatever comes back, it is an error and not a crash, and not a record. */
static void answers_that_are_none(void **state)
{
    static const char *const answers[] = {
        "",
        "[]",
        "{",
        "{\"Items\":3}",
        "{\"Items\":[{}]}",
        "{\"Items\":[{\"k\":{\"B\":\"YQ==\"},\"v\":{\"S\":\"x\"}}]}",
        "{\"Items\":[{\"k\":{\"B\":\"?\"}}]}"};
    place *p = open_place(60000, 10000);
    semel_keyed_range range = {.space = semel_str("w/0"), .limit = 1};
    char text[256] = "";
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        http_script_answer(p->server, "Query", 1, 200, answers[i]);
        FAILS(SEMEL_ESTORE, dynamo_driver.scan(p->store, &range, keep_lengths, text, &last_error));
    }
    assert_string_equal(text, "");
    close_place(p);
}

static void limits_are_named(void **state)
{
    static char large[DYNAMO_ITEM_MAX];
    static semel_keyed_change many[DYNAMO_ACTIONS_MAX + 1];
    place *p = open_place(60000, 10000);
    semel_keyed_change one = write_of("a", "1");
    (void)state;
    unsigned before = http_script_count(p->server, "Item");
    one.record.body = (semel_bytes){large, sizeof large};
    FAILS(SEMEL_ELIMIT, apply(p, &one, 1));
    SAYS("at most 400 KB");
    for (size_t i = 0; i <= DYNAMO_ACTIONS_MAX; i++)
        many[i] = one;
    FAILS(SEMEL_ELIMIT, apply(p, many, DYNAMO_ACTIONS_MAX + 1));
    SAYS("its limit is 100");
    for (size_t i = 0; i < 20; i++)
        many[i].record.body.len = sizeof large - 2 * DYNAMO_ROOM;
    FAILS(SEMEL_ELIMIT, apply(p, many, 20));
    SAYS("its limit is 4 MB");
    assert_int_equal(http_script_count(p->server, "Item"), before);
    close_place(p);
}

/* A page of a proxy's with status 200, or more than anybody reads: it says nothing about the write,
 * which is neither done nor certainly not done. */
static void a_page_is_not_an_answer(void **state)
{
    enum { HUGE = 65 << 20 };
    place *p = open_place(60000, 30000);
    semel_keyed_change one = write_of("a", "1"), two[] = {write_of("b", "2"), write_of("c", "3")};
    semel_keyed_change huge = write_of("d", "4");
    char *page = malloc(HUGE + 1);
    (void)state;
    memset(page, ' ', HUGE);
    page[HUGE] = 0;
    http_script_answer(p->server, "PutItem", 1, 200, "<html>back soon</html>");
    FAILS(SEMEL_EUNKNOWN, apply(p, &one, 1));
    OK(apply(p, &one, 1));
    value_is(p, "a", "1");
    http_script_answer(p->server, "TransactWriteItems", 1, 200, "");
    FAILS(SEMEL_EUNKNOWN, apply(p, two, 2));
    OK(apply(p, two, 2));
    value_is(p, "c", "3");
    http_script_answer(p->server, "PutItem", 1, 200, page);
    FAILS(SEMEL_EUNKNOWN, apply(p, &huge, 1));
    OK(apply(p, &huge, 1));
    value_is(p, "d", "4");
    free(page);
    close_place(p);
}

/* The rest of a long key looks like a short one. */
static void a_long_key_is_not_taken_for_a_short_one(void **state)
{
    place *p = open_place(60000, 10000);
    char text[1025], found[64] = "nothing";
    (void)state;
    memset(text, 'x', 1024);
    text[1024] = 0;
    semel_keyed_change one = write_of(text, "long");
    semel_bytes keys[] = {semel_str("\x01"), semel_str(text)};
    OK(apply(p, &one, 1));
    OK(dynamo_driver.get(p->store, semel_str("m/0"), keys, 2, 0, keep_key_len, found, &last_error));
    assert_string_equal(found, "1024");
    close_place(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_throttled_write_is_sent_again),
        cmocka_unit_test(a_write_that_is_throttled_for_too_long_is_not_done),
        cmocka_unit_test(keys_that_are_left_are_asked_for_again),
        cmocka_unit_test(a_write_whose_answer_was_lost_is_done_once),
        cmocka_unit_test(a_write_that_was_lost_and_is_refused_is_unknown),
        cmocka_unit_test(a_transaction_whose_answer_was_lost_is_done_once),
        cmocka_unit_test(what_is_never_answered_is_unknown_and_may_be_repeated),
        cmocka_unit_test(records_are_removed_beside_statements),
        cmocka_unit_test(statements_and_items_do_not_mix),
        cmocka_unit_test(long_keys_stand_in_their_order),
        cmocka_unit_test(a_global_table_is_refused_unless_it_is_accepted),
        cmocka_unit_test(a_table_of_somebody_else_is_refused),
        cmocka_unit_test(a_table_that_is_missing_is_named),
        cmocka_unit_test(errors_say_what_to_do),
        cmocka_unit_test(answers_that_are_none),
        cmocka_unit_test(a_page_is_not_an_answer),
        cmocka_unit_test(a_long_key_is_not_taken_for_a_short_one),
        cmocka_unit_test(limits_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
