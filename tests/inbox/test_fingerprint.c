/* Fingerprints: what is compared between two messages with the same key, by default and by
 * expression, and that an inbox keeps to it. */
#include "support/fixture/fixture.h"

#include <stdio.h>

static semel_message json_message(const char *id, const char *body)
{
    semel_message message = text_message(id, body);
    message.type = "order.placed";
    return message;
}

/* Two messages in a new inbox: what becomes of the second? */
static semel_outcome second_of(fixture *f, const semel_inbox_options *chosen,
                               const semel_message *first, const semel_message *second)
{
    static int number;
    char name[32];
    semel_inbox_options options = *chosen;
    semel_outcome outcome;
    scripted_handler todo = {0};
    options.size = sizeof options;
    (void)snprintf(name, sizeof name, "pair-%d", ++number);
    semel_inbox *inbox = fixture_inbox(f, name, &options);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, first, &todo);
    semel_status status =
        semel_inbox_receive(&outcome, inbox, second, scripted_handler_run, &todo, &last_error);
    assert_int_equal(status, outcome == SEMEL_MISMATCH ? SEMEL_EREJECTED : SEMEL_OK);
    assert_int_equal(todo.runs, 1);
    return outcome;
}

static void assert_second(semel_outcome expected, fixture *f, const semel_inbox_options *chosen,
                          const semel_message *first, const semel_message *second)
{
    for (int mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_inbox_options options = *chosen;
        options.mode = (semel_mode)mode;
        semel_outcome got = second_of(f, &options, first, second);
        if (got != expected)
            fail_msg("key %s, fingerprint %s: %s, not %s", options.key ? options.key : "id",
                     options.fingerprint ? options.fingerprint : "by default",
                     semel_outcome_name(got), semel_outcome_name(expected));
    }
}

/* --- the default ------------------------------------------------------------------------------ */

static semel_status key_is_id(void *key, size_t capacity, size_t *len, const semel_message *message,
                              void *context, semel_error *err)
{
    (void)capacity, (void)context, (void)err;
    *len = message->id.len;
    memcpy(key, message->id.data, message->id.len);
    return SEMEL_OK;
}

static void a_key_that_is_not_of_the_body_compares_the_body(void **state)
{
    static const char *const keys[] = {"id",        "correlation-id", "source", "header:X",
                                       "source+id", "'payment:'+id",  "type+id"};
    static const semel_header header = {"X", {"x", 1}};
    semel_message first = json_message("1", "{\"n\":1}"), other;
    first.correlation_id = semel_str("c");
    first.source = "/shop";
    first.headers = &header;
    first.header_count = 1;
    other = first;
    other.body = semel_str("{\"n\":2}");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        semel_inbox_options options = {.key = keys[i]};
        assert_second(SEMEL_MISMATCH, *state, &options, &first, &other);
        assert_second(SEMEL_DUPLICATE, *state, &options, &first, &first);
    }
    semel_inbox_options function = {.key_function = key_is_id};
    assert_second(SEMEL_MISMATCH, *state, &function, &first, &other);
}

/* The same order under a new event id, with other details: that is what the key is for. */
static void a_key_of_the_body_compares_nothing(void **state)
{
    static const char *const keys[] = {"json:/order", "type+json:/order", "'o:'+json:/order",
                                       "source+json:/order"};
    semel_message first = json_message("1", "{\"order\":7,\"event\":\"a\"}");
    semel_message again = json_message("2", "{\"order\":7,\"event\":\"b\"}");
    first.source = again.source = "/shop";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_second(SEMEL_DUPLICATE, *state, &(semel_inbox_options){.key = keys[i]}, &first,
                      &again);
    assert_second(SEMEL_DUPLICATE, *state, &(semel_inbox_options){.key = "digest"}, &first, &first);
}

/* --- by expression ---------------------------------------------------------------------------- */

static const char expression[] = "json:/amount+json:/currency";

static void the_named_parts_are_compared_and_nothing_else(void **state)
{
    semel_inbox_options options = {.key = "json:/order", .fingerprint = expression};
    static const struct {
        const char *body;
        semel_outcome outcome;
    } others[] = {
        {"{\"order\":7,\"amount\":5,\"currency\":\"EUR\",\"event\":\"b\"}", SEMEL_DUPLICATE},
        {"{\"order\":7,\"currency\":\"EUR\",\"amount\":5}", SEMEL_DUPLICATE},
        {"{\"order\":7,\"amount\":6,\"currency\":\"EUR\"}", SEMEL_MISMATCH},
        {"{\"order\":7,\"amount\":5,\"currency\":\"USD\"}", SEMEL_MISMATCH},
        {"{\"order\":7,\"amount\":5.0,\"currency\":\"EUR\"}", SEMEL_MISMATCH}, /* as written */
        {"{\"order\":7,\"amount\":\"5E\",\"currency\":\"UR\"}", SEMEL_MISMATCH},
        {"{\"order\":7,\"amount\":\"EUR\",\"currency\":5}", SEMEL_MISMATCH}};
    semel_message first =
        json_message("1", "{\"order\":7,\"amount\":5,\"currency\":\"EUR\",\"event\":\"a\"}");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        semel_message other = json_message("2", others[i].body);
        assert_second(others[i].outcome, *state, &options, &first, &other);
    }
}

static void a_part_that_is_not_there_counts_as_empty(void **state)
{
    semel_inbox_options options = {.key = "json:/order", .fingerprint = expression};
    semel_message without = json_message("1", "{\"order\":7,\"amount\":5}");
    semel_message also_without = json_message("2", "{\"amount\":5,\"order\":7}");
    semel_message null = json_message("3", "{\"order\":7,\"amount\":5,\"currency\":null}");
    semel_message empty = json_message("4", "{\"order\":7,\"amount\":5,\"currency\":\"\"}");
    semel_message with = json_message("5", "{\"order\":7,\"amount\":5,\"currency\":\"EUR\"}");
    semel_message neither = json_message("6", "{\"order\":7}");
    semel_message shifted = json_message("7", "{\"order\":7,\"currency\":5}");
    assert_second(SEMEL_DUPLICATE, *state, &options, &without, &also_without);
    assert_second(SEMEL_DUPLICATE, *state, &options, &without, &null);
    assert_second(SEMEL_DUPLICATE, *state, &options, &without, &empty);
    assert_second(SEMEL_DUPLICATE, *state, &options, &neither, &neither);
    assert_second(SEMEL_MISMATCH, *state, &options, &without, &with);
    assert_second(SEMEL_MISMATCH, *state, &options, &with, &without);
    assert_second(SEMEL_MISMATCH, *state, &options, &with, &neither);
    assert_second(SEMEL_MISMATCH, *state, &options, &without, &shifted);
}

static void any_part_of_a_message_can_be_compared(void **state)
{
    static const semel_header one = {"Version", {"1", 1}}, two = {"Version", {"2", 1}};
    semel_message first = json_message("1", "{\"order\":7}"), other = first, body = first;
    first.headers = &one;
    first.header_count = 1;
    body = other = first;
    other.headers = &two;
    body.body = semel_str("{\"order\":7,\"x\":1}");
    semel_inbox_options header = {.fingerprint = "header:Version"};
    assert_second(SEMEL_MISMATCH, *state, &header, &first, &other);
    assert_second(SEMEL_DUPLICATE, *state, &header, &first, &body);
    semel_inbox_options digest = {.key = "json:/order", .fingerprint = "digest"};
    assert_second(SEMEL_DUPLICATE, *state, &digest, &first, &other);
    assert_second(SEMEL_MISMATCH, *state, &digest, &first, &body);
    semel_inbox_options quoted = {.fingerprint = "'v'+header:'Version'"};
    assert_second(SEMEL_MISMATCH, *state, &quoted, &first, &other);
}

static void body_and_none_can_be_asked_for(void **state)
{
    semel_message first = json_message("1", "{\"order\":7}");
    semel_message other = json_message("1", "{\"order\":7,\"x\":1}"), type = first;
    type.type = "order.paid";
    semel_inbox_options body = {.key = "json:/order", .fingerprint = "body"};
    assert_second(SEMEL_MISMATCH, *state, &body, &first, &other);
    assert_second(SEMEL_MISMATCH, *state, &body, &first, &type);
    semel_inbox_options none = {.fingerprint = "none"};
    assert_second(SEMEL_DUPLICATE, *state, &none, &first, &other);
    semel_inbox_options ignored = {.fingerprint = "body", .on_mismatch = SEMEL_MISMATCH_IGNORE};
    assert_second(SEMEL_DUPLICATE, *state, &ignored, &first, &other);
}

static void in_a_batch_the_same_is_compared(void **state)
{
    semel_inbox_options options = {
        .size = sizeof options, .key = "json:/order", .fingerprint = expression};
    semel_inbox *inbox = fixture_inbox(*state, "batch", &options);
    semel_message first = json_message("1", "{\"order\":7,\"amount\":5}");
    semel_message again = json_message("2", "{\"order\":7,\"amount\":5,\"event\":\"b\"}");
    semel_message other = json_message("3", "{\"order\":7,\"amount\":6}");
    const semel_message *const all[] = {&first, &again, &other};
    semel_outcome out[3];
    scripted_handler todo = {0};
    OK(semel_inbox_receive_batch(out, inbox, all, 3, scripted_handler_run, &todo, &last_error));
    OUTCOME(SEMEL_PROCESSED, out[0]);
    OUTCOME(SEMEL_DUPLICATE, out[1]);
    OUTCOME(SEMEL_MISMATCH, out[2]);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &other, &todo);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &again, &todo);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void a_bad_expression_names_the_option_and_the_position(void **state)
{
    static const struct {
        const char *expression, *says;
    } cases[] = {{"", "fingerprint expression, at character 1: a part is missing"},
                 {"Body", "fingerprint expression, at character 1: unknown word"},
                 {"body+id", "body or none alone"},
                 {"id+none", "fingerprint expression, at character 4: unknown word"},
                 {"json:amount", "fingerprint expression, at character 6: this is not a JSON"},
                 {"'x'", "the same for every message"}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        semel_inbox_options options = {.size = sizeof options, .fingerprint = cases[i].expression};
        semel_inbox *inbox = NULL;
        FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "bad", &options, &last_error));
        SAYS(cases[i].says);
        assert_null(inbox);
    }
}

static semel_status open_again(fixture *f, semel_inbox_options options)
{
    semel_inbox *inbox = NULL;
    options.size = sizeof options;
    semel_status status = semel_inbox_open(&inbox, f->store, "same", &options, &last_error);
    semel_inbox_close(inbox);
    return status;
}

static void the_fingerprint_is_a_part_of_the_definition(void **state)
{
    OK(open_again(*state, (semel_inbox_options){0}));
    OK(open_again(*state, (semel_inbox_options){.fingerprint = "body"})); /* the default, named */
    OK(open_again(*state, (semel_inbox_options){.on_mismatch = SEMEL_MISMATCH_IGNORE}));
    FAILS(SEMEL_EINVAL, open_again(*state, (semel_inbox_options){.fingerprint = "none"}));
    SAYS("key id, mode transaction, fingerprint body");
    SAYS("key id, mode transaction, fingerprint none");
    OK(open_again(*state, (semel_inbox_options){.fingerprint = "none", .accept_changes = 1}));
    OK(open_again(*state, (semel_inbox_options){.fingerprint = "none"}));
    FAILS(SEMEL_EINVAL, open_again(*state, (semel_inbox_options){0}));
}

/* A difference that is far behind in a long definition is shown, too. */
static void a_difference_at_the_end_of_a_long_definition_is_shown(void **state)
{
    char key[900] = "header:", fingerprint[900] = "header:";
    memset(key + 7, 'k', sizeof key - 8);
    memset(fingerprint + 7, 'f', sizeof fingerprint - 8);
    semel_inbox_options options = {.key = key, .fingerprint = fingerprint};
    OK(open_again(*state, options));
    fingerprint[sizeof fingerprint - 2] = 'g';
    FAILS(SEMEL_EINVAL, open_again(*state, options));
    SAYS("ffffff\"");
    SAYS("fffffg\"");
    SAYS("accept_changes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("a key that is not of the body compares the body",
                  a_key_that_is_not_of_the_body_compares_the_body),
        ON_BOTH("a key of the body compares nothing", a_key_of_the_body_compares_nothing),
        ON_BOTH("the named parts are compared, and nothing else",
                the_named_parts_are_compared_and_nothing_else),
        ON_MEMORY("a part that is not there counts as empty",
                  a_part_that_is_not_there_counts_as_empty),
        ON_MEMORY("any part of a message can be compared", any_part_of_a_message_can_be_compared),
        ON_MEMORY("body and none can be asked for", body_and_none_can_be_asked_for),
        ON_BOTH("in a batch the same is compared", in_a_batch_the_same_is_compared),
        ON_MEMORY("a bad expression names the option and the position",
                  a_bad_expression_names_the_option_and_the_position),
        ON_BOTH("the fingerprint is a part of the definition",
                the_fingerprint_is_a_part_of_the_definition),
        ON_BOTH("a difference at the end of a long definition is shown",
                a_difference_at_the_end_of_a_long_definition_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
