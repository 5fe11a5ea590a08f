/* The key that a handler passes on to other services: the same for every copy and attempt, another
 * one for every other inbox or key, and always the text of a UUID. */
#include "support/fixture/fixture.h"

typedef struct passing {
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_status status;
    int failures; /* so many runs fail */
} passing;

static semel_status pass_on(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    passing *p = context;
    (void)message;
    p->status = semel_unit_idempotency_key(p->key, unit, err);
    return p->failures-- > 0 ? SEMEL_EHANDLER : SEMEL_OK;
}

static void receive(semel_inbox *inbox, const semel_message *message, passing *p)
{
    semel_outcome outcome;
    int fails = p->failures > 0;
    FAILS(fails ? SEMEL_EHANDLER : SEMEL_OK,
          semel_inbox_receive(&outcome, inbox, message, pass_on, p, &last_error));
    OUTCOME(fails ? SEMEL_FAILED : SEMEL_PROCESSED, outcome);
    OK(p->status);
}

static const char *asked(char out[SEMEL_IDEMPOTENCY_KEY_SIZE], const semel_inbox *inbox,
                         const semel_message *message)
{
    OK(semel_inbox_idempotency_key(out, inbox, message, &last_error));
    return out;
}

/* The expected text comes from another implementation:
 *     printf '\x08\0\0\0\0\0\0\0paymentsorder-7' | sha256sum
 * with version 8 and variant 10 put in their places. What providers have stored must not change. */
static void it_is_a_uuid_of_name_and_key(void **state)
{
    semel_inbox *inbox = fixture_inbox(*state, "payments", NULL);
    semel_message message = text_message("order-7", "a");
    passing p = {.failures = 0};
    receive(inbox, &message, &p);
    assert_string_equal(p.key, "45f020ff-c74f-817d-8634-3cce5b39391f");
    assert_int_equal(strlen(p.key), SEMEL_IDEMPOTENCY_KEY_SIZE - 1);
}

static void every_attempt_and_every_mode_has_the_same(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a"), copy = text_message("1", "a");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    copy.delivery = 3;
    copy.source = "elsewhere";
    EACH_MODE(inbox, inboxes)
    {
        passing first = {.failures = 1}, second = {.failures = 0};
        char by_tool[SEMEL_IDEMPOTENCY_KEY_SIZE];
        receive(inbox, &message, &first);
        receive(inbox, &copy, &second);
        assert_string_equal(first.key, second.key);
        assert_string_equal(first.key, asked(by_tool, inbox, &message));
    }
}

static void another_store_with_the_same_inbox_has_the_same(void **state)
{
    fixture *f = *state;
    semel_store *store = NULL;
    semel_inbox *there = NULL;
    char here_key[SEMEL_IDEMPOTENCY_KEY_SIZE], there_key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_message message = text_message("1", "a"), other_body = text_message("1", "b");
    semel_inbox *here = fixture_inbox(f, "payments", NULL);
    OK(semel_store_open(&store, "memory:", NULL, &last_error));
    OK(semel_inbox_open(&there, store, "payments", NULL, &last_error));
    assert_string_equal(asked(here_key, here, &message), asked(there_key, there, &other_body));
    semel_inbox_close(there);
    semel_store_close(store);
}

static void two_inboxes_and_two_keys_have_others(void **state)
{
    semel_inbox_options options = {
        .size = sizeof options, .key = "id", .on_missing_key = SEMEL_MISSING_KEY_DIGEST};
    /* names and keys that are the same bytes, one behind the other */
    static const char *const pairs[][2] = {{"pay", "ments1"},
                                           {"payments", "1"},
                                           {"payments", "2"},
                                           {"receipts", "1"},
                                           {"payments", ""}};
    enum { COUNT = sizeof pairs / sizeof *pairs };
    char keys[COUNT][SEMEL_IDEMPOTENCY_KEY_SIZE];
    for (size_t i = 0; i < COUNT; i++) {
        semel_inbox *inbox = fixture_inbox(*state, pairs[i][0], &options);
        semel_message message = text_message(pairs[i][1], "a");
        asked(keys[i], inbox, &message);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
}

/* A long key is stored as its digest; the key that is passed on is made of the whole key. */
static void keys_of_any_length_and_bytes_will_do(void **state)
{
    unsigned char long_key[1000] = {0xff, 0, '\n'};
    char one[SEMEL_IDEMPOTENCY_KEY_SIZE], two[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_inbox *inbox = fixture_inbox(*state, "long", NULL);
    semel_message message = {.size = sizeof message, .id = {long_key, sizeof long_key}};
    passing p = {.failures = 0};
    receive(inbox, &message, &p);
    assert_string_equal(p.key, asked(one, inbox, &message));
    assert_int_equal(strspn(p.key, "0123456789abcdef-"), SEMEL_IDEMPOTENCY_KEY_SIZE - 1);
    long_key[sizeof long_key - 1] = 1;
    assert_string_not_equal(one, asked(two, inbox, &message));
}

static void in_a_batch_each_message_has_its_own(void **state)
{
    semel_inbox *inbox = fixture_inbox(*state, "batch", NULL);
    semel_message one = text_message("1", "a"), two = text_message("2", "a");
    const semel_message *const both[] = {&one, &two};
    semel_outcome out[2];
    passing p = {.failures = 0};
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE];
    OK(semel_inbox_receive_batch(out, inbox, both, 2, pass_on, &p, &last_error));
    assert_string_equal(p.key, asked(key, inbox, &two));
}

static void without_a_key_there_is_none(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options,
                                   .on_missing_key = SEMEL_MISSING_KEY_PROCESS};
    semel_inbox *inbox = fixture_inbox(f, "keyless", &options);
    semel_message keyless = text_message("", "a");
    semel_unit *unit = NULL;
    semel_outcome outcome;
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE] = "untouched";
    passing p = {.failures = 0};
    FAILS(SEMEL_ENOTFOUND, semel_inbox_idempotency_key(key, inbox, &keyless, &last_error));
    OK(semel_inbox_receive(&outcome, inbox, &keyless, pass_on, &p, &last_error));
    assert_int_equal(p.status, SEMEL_ENOTFOUND);
    OK(semel_unit_begin(&unit, f->store, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_idempotency_key(key, unit, &last_error));
    SAYS("claimed no key");
    semel_unit_rollback(unit);
    FAILS(SEMEL_EMISUSE, semel_unit_idempotency_key(key, unit, &last_error));
    assert_string_equal(key, "untouched");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("it is a UUID of name and key", it_is_a_uuid_of_name_and_key),
        ON_BOTH("every attempt and every mode has the same",
                every_attempt_and_every_mode_has_the_same),
        ON_SQLITE("another store with the same inbox has the same",
                  another_store_with_the_same_inbox_has_the_same),
        ON_MEMORY("two inboxes and two keys have others", two_inboxes_and_two_keys_have_others),
        ON_BOTH("keys of any length and bytes will do", keys_of_any_length_and_bytes_will_do),
        ON_BOTH("in a batch each message has its own", in_a_batch_each_message_has_its_own),
        ON_BOTH("without a key there is none", without_a_key_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
