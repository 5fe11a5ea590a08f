/* What handlers answer: read strictly, passed on unchanged, and stored with the completion. */
#include "program/handler/answer.h"
#include "program/support/binary.h"
#include "program/support/json_scan.h"
#include "program/support/strict_json.h"
#include "support/base/check.h"
#include "support/base/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_is_checked_strictly(void **state)
{
    static const char *const good[] = {"{}",
                                       "[]",
                                       " [1, -0, 1.5e+9, true, false, null, \"\\u00e9\\n\"] ",
                                       "\"x\"",
                                       "0",
                                       "-1.0E-2",
                                       "{\"a\":{\"b\":[[],{}]}}",
                                       "\"\xc3\xa9\"",
                                       "\t\r\n1\n"};
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{'a':1}",
                                      "01",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "nul",
                                      "NaN",
                                      "Infinity",
                                      "-",
                                      "\"\n\"",
                                      "\"\\x\"",
                                      "\"\\u12g4\"",
                                      "\"",
                                      "\"\\",
                                      "\"\\u1",
                                      "1 2",
                                      "[1] x",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "\"\xff\"",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "/* */ 1",
                                      "[1 2]",
                                      "{1:2}",
                                      "\"\\ud83d\"",
                                      "\"\\ude00\"",
                                      "\"\\ud83d\\u0041\"",
                                      "{\"\\u0000\":1}",
                                      "\"\x01\""};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!strict_json_check(semel_str(good[i]), 8, NULL))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (strict_json_check(semel_str(bad[i]), 8, NULL))
            fail_msg("accepted: %s", bad[i]);
}

static void json_is_not_read_deeper_than_allowed(void **state)
{
    static char deep[200001];
    (void)state;
    assert_true(strict_json_check(semel_str("[[{}]]"), 3, NULL));
    assert_false(strict_json_check(semel_str("[[{}]]"), 2, NULL));
    assert_false(strict_json_check(semel_str("[[1]]"), 2, NULL)); /* as in a key expression */
    memset(deep, '[', sizeof deep - 1);
    assert_false(strict_json_check(semel_str(deep), 64, NULL));
}

/* Each is given without a NUL behind it, so that a sanitizer sees a step too far. */
static void json_is_never_read_beyond_its_end(void **state)
{
    static const char text[] = "{\"a\\u00e9\": [1.5e3, true, null, \"\xc3\xa9\"], \"b\": {}}";
    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char *part = malloc(len + 1);
        assert_non_null(part);
        char *exact = realloc(part, len ? len : 1);
        assert_non_null(exact);
        memcpy(exact, text, len);
        assert_false(strict_json_check((semel_bytes){exact, len}, 8, NULL));
        free(exact);
    }
    assert_true(strict_json_check(semel_str(text), 8, NULL));
}

static void strings_are_decoded(void **state)
{
    static const struct {
        const char *json;
        const char *text; /* NULL: refused */
    } table[] = {{"\"\"", ""},
                 {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t"},
                 {"\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
                 {"\"\\ud83d\"", NULL},
                 {"\"\\ude00\"", NULL},
                 {"\"\\ud83d\\u0041\"", NULL},
                 {"1", NULL}};
    region memory = {0};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t len = 0;
        const char *text = scan_text(&len, &memory, semel_str(table[i].json));
        if (!table[i].text) {
            assert_null(text);
            continue;
        }
        assert_string_equal(text, table[i].text);
        assert_int_equal(len, strlen(table[i].text));
    }
    region_free(&memory);
}

static void bytes_are_read_from_text(void **state)
{
    static const char *const texts[] = {"", "f", "fo", "foo", "foob", "\xff\xfe"};
    static const char *const encoded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "//4="};
    static const char *const wrong[] = {"Z", "Zg=", "Z===", "Zg==Zg==", "Z g=", "====", "=Zg="};
    region memory = {0};
    semel_bytes got;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        buffer text = {0};
        buffer_text(&text, "");
        binary_add_base64(&text, semel_str(texts[i]));
        assert_string_equal(text.data ? text.data : "", encoded[i]);
        assert_true(binary_from_base64(&got, &memory, encoded[i], strlen(encoded[i])));
        BYTES_EQUAL(semel_str(texts[i]), got);
        buffer_free(&text);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (binary_from_base64(&got, &memory, wrong[i], strlen(wrong[i])))
            fail_msg("accepted: %s", wrong[i]);
    assert_true(binary_from_hex(&got, &memory, "00fF3A", 6));
    assert_memory_equal(got.data, "\x00\xff\x3a", 3);
    assert_false(binary_from_hex(&got, &memory, "0", 1));
    assert_false(binary_from_hex(&got, &memory, "0g", 2));
    region_free(&memory);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void answers_are_read(void **state)
{
    static const char text[] =
        " {\"status\": \"done\", \"id\": \"m-1\", \"error\": null,\n"
        "  \"result\": {\"n\": 1.10, \"big\": 123456789012345678901234567890 },\n"
        "  \"send\": [{\"to\": \"shipping\", \"type\": \"order.paid\", \"group\": \"g\",\n"
        "             \"headers\": {\"x-a\": \"1\", \"x-b\": \"\\u0000\"}, \"body\": [1, 2.0]},\n"
        "            {\"type\": \"b\", \"to\": \"t\", \"id\": \"i\", \"topic\": \"p\",\n"
        "             \"body_base64\": \"/w==\"},\n"
        "            {\"type\": \"c\", \"to\": \"t\", \"body_text\": \"\\u00e9\"}]}\n";
    answer a;
    (void)state;
    OK(answer_parse(&a, semel_str(text), &last_error));
    assert_int_equal(a.status, ANSWER_DONE);
    assert_string_equal(a.id, "m-1");
    assert_null(a.error);
    BYTES_EQUAL(semel_str("{\"n\": 1.10, \"big\": 123456789012345678901234567890 }"), a.result);
    assert_int_equal(a.send_count, 3);
    assert_string_equal(a.sends[0].to, "shipping");
    assert_string_equal(a.sends[0].message.content_type, "application/json");
    BYTES_EQUAL(semel_str("[1, 2.0]"), a.sends[0].message.body);
    assert_int_equal(a.sends[0].message.header_count, 2);
    assert_int_equal(a.sends[0].message.headers[1].value.len, 1);
    BYTES_EQUAL(semel_str("i"), a.sends[1].message.id);
    BYTES_EQUAL(semel_str("\xff"), a.sends[1].message.body);
    BYTES_EQUAL(semel_str("\xc3\xa9"), a.sends[2].message.body);
    answer_free(&a);
}

static void an_empty_answer_is_done(void **state)
{
    answer a;
    (void)state;
    OK(answer_parse(&a, semel_str("{}"), &last_error));
    assert_int_equal(a.status, ANSWER_DONE);
    assert_null(a.result.data);
    answer_free(&a);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } table[] = {
        {"", "is not JSON"},
        {"ok", "is not JSON"},
        {"[]", "is not a JSON object"},
        {"{\"staus\": \"done\"}", "unknown member \"staus\""},
        {"{\"\\u001b[31m\": 1}", "unknown member \"\\x1b[31m\""},
        {"{\"status\": \"DONE!\"}", "\"status\" is not one of done, retry, dead"},
        {"{\"status\": 1}", "\"status\" is not a text"},
        {"{\"result\": 1, \"result\": 2}", "\"result\" is there twice"},
        {"{\"error\": {}}", "\"error\" is not a text"},
        {"{\"send\": {}}", "\"send\" is not a list"},
        {"{\"send\": [1]}", "\"send\" has an element that is not an object"},
        {"{\"send\": [{\"type\": \"t\"}]}", "a message without \"to\""},
        {"{\"send\": [{\"to\": \"t\"}]}", "a message without \"type\""},
        {"{\"send\": [{\"to\": \"t\", \"type\": \"a\\u0000b\"}]}", "\"type\" is not a text"},
        {"{\"send\": [{\"to\": \"t\", \"type\": \"t\", \"boddy\": 1}]}",
         "unknown member \"boddy\""},
        {"{\"send\": [{\"to\": \"t\", \"type\": \"t\", \"body\": 1, \"body_text\": \"\"}]}",
         "two bodies"},
        {"{\"send\": [{\"to\": \"t\", \"type\": \"t\", \"body_base64\": \"x\"}]}", "is not base64"},
        {"{\"send\": [{\"to\": \"t\", \"type\": \"t\", \"headers\": {\"a\": 1}}]}",
         "a value that is not a text"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        answer a;
        FAILS(SEMEL_EHANDLER, answer_parse(&a, semel_str(table[i].text), &last_error));
        SAYS(table[i].says);
    }
}

/* --- with a store ----------------------------------------------------------------------------- */

static const queue_config queues[] = {
    {.name = "shipping"},
    {.name = "alarms", .url = "amqp://h/?exchange=alarms&x=1"},
    {.name = "jobs", .url = "amqp://h/?x=1&queue=the%2Fjobs&exchange="}};
static const config all = {.queues = queues, .queue_count = 3};

static semel_status answer_with(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    answer a;
    (void)message;
    semel_status status = answer_parse(&a, semel_str(context), err);
    if (!status) {
        status = answer_apply(&a, unit, &all, err);
        answer_free(&a);
    }
    return status;
}

static semel_status note_outgoing(const semel_outgoing *one, void *context, semel_error *err)
{
    char *text = context;
    (void)err;
    size_t len = strlen(text);
    (void)snprintf(text + len, 1024 - len, "%s>%s:%.*s;", one->message->type, one->message->topic,
                   (int)one->message->body.len, (const char *)one->message->body.data);
    return SEMEL_OK;
}

static void messages_and_result_are_stored_with_the_completion(void **state)
{
    static char good[] = "{\"result\": [1], \"send\": ["
                         "{\"to\": \"shipping\", \"type\": \"a\", \"body\": {\"n\":1}},"
                         "{\"to\": \"alarms\", \"type\": \"b\"},"
                         "{\"to\": \"jobs\", \"type\": \"c\"}]}";
    static char lost[] = "{\"send\": [{\"to\": \"shipping\", \"type\": \"d\"},"
                         "{\"to\": \"nowhere\", \"type\": \"e\"}]}";
    static char retry[] =
        "{\"status\": \"retry\", \"send\": [{\"to\": \"shipping\", \"type\": \"f\"}]}";
    scratch directory;
    char url[SCRATCH_PATH], text[1024] = "";
    semel_store *store = NULL;
    semel_outbox *outboxes[3] = {0};
    semel_inbox *inbox = NULL;
    semel_outcome outcome;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_message message = {.size = sizeof message, .id = semel_str("m-1")};
    semel_outgoing_filter filter = {.size = sizeof filter, .contents = 1};
    (void)state;
    scratch_open(&directory);
    OK(semel_store_open(&store, scratch_sqlite(url, &directory, "a.db"), NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    for (size_t i = 0; i < all.queue_count; i++)
        OK(semel_outbox_open(&outboxes[i], store, queues[i].name, &last_error));
    OK(semel_inbox_open(&inbox, store, "in", &options, &last_error));
    FAILS(SEMEL_EHANDLER,
          semel_inbox_receive(&outcome, inbox, &message, answer_with, lost, &last_error));
    SAYS("sends message 2 to a queue that has no outbox");
    FAILS(SEMEL_EHANDLER,
          semel_inbox_receive(&outcome, inbox, &message, answer_with, retry, &last_error));
    OK(semel_inbox_receive(&outcome, inbox, &message, answer_with, good, &last_error));
    assert_int_equal(outcome, SEMEL_PROCESSED);
    for (size_t i = 0; i < all.queue_count; i++)
        OK(semel_outbox_list(outboxes[i], &filter, note_outgoing, text, &last_error));
    assert_string_equal(text, "a>shipping:{\"n\":1};b>b:;c>the/jobs:;");
    semel_inbox_close(inbox);
    for (size_t i = 0; i < all.queue_count; i++)
        semel_outbox_close(outboxes[i]);
    semel_store_close(store);
    scratch_close(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_checked_strictly),
        cmocka_unit_test(json_is_not_read_deeper_than_allowed),
        cmocka_unit_test(json_is_never_read_beyond_its_end),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(bytes_are_read_from_text),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(an_empty_answer_is_done),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(messages_and_result_are_stored_with_the_completion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
