/* The definition of an inbox: its key and its mode are kept with its name, and opening it with
 * others is refused, unless the caller accepts the change. */
#include "core/store.h"
#include "support/fixture/fixture.h"

static semel_status open_as(fixture *f, const char *key, semel_mode mode, int accept_changes)
{
    semel_inbox_options options = {
        .size = sizeof options, .key = key, .mode = mode, .accept_changes = accept_changes};
    semel_inbox *inbox = NULL;
    semel_status status = semel_inbox_open(&inbox, f->store, "orders", &options, &last_error);
    semel_inbox_close(inbox);
    return status;
}

static semel_status key_by_function(void *key, size_t capacity, size_t *len,
                                    const semel_message *message, void *context, semel_error *err)
{
    (void)err;
    (void)key;
    (void)capacity;
    (void)message;
    (void)context;
    *len = 0;
    return SEMEL_OK;
}

static semel_status open_by_function(fixture *f, int accept_changes)
{
    semel_inbox_options options = {
        .size = sizeof options, .key_function = key_by_function, .accept_changes = accept_changes};
    semel_inbox *inbox = NULL;
    semel_status status = semel_inbox_open(&inbox, f->store, "orders", &options, &last_error);
    semel_inbox_close(inbox);
    return status;
}

static void another_key_is_refused_and_both_are_named(void **state)
{
    fixture *f = *state;
    OK(open_as(f, "json:/order/id", SEMEL_TRANSACTION, 0));
    FAILS(SEMEL_EINVAL, open_as(f, "header:order", SEMEL_TRANSACTION, 0));
    SAYS("\"orders\"");
    SAYS("key json:/order/id, mode transaction");
    SAYS("key header:order, mode transaction");
    SAYS("accept_changes");
    FAILS(SEMEL_EINVAL, open_by_function(f, 0));
    SAYS("key function");
    OK(open_as(f, "json:/order/id", SEMEL_TRANSACTION, 0)); /* nothing has changed */
}

static void no_key_is_the_same_as_the_id(void **state)
{
    fixture *f = *state;
    OK(open_as(f, NULL, SEMEL_TRANSACTION, 0));
    OK(open_as(f, "id", SEMEL_TRANSACTION, 0));
}

static void another_mode_is_refused_and_both_are_named(void **state)
{
    fixture *f = *state;
    OK(open_as(f, "id", SEMEL_TRANSACTION, 0));
    FAILS(SEMEL_EINVAL, open_as(f, "id", SEMEL_CLAIM, 0));
    SAYS("key id, mode transaction");
    SAYS("key id, mode claim");
}

/* Both write the same markers. */
static void queued_mode_is_transaction_mode(void **state)
{
    fixture *f = *state;
    OK(open_as(f, "id", SEMEL_TRANSACTION, 0));
    OK(open_as(f, "id", SEMEL_QUEUED, 0));
    OK(open_as(f, "id", SEMEL_TRANSACTION, 0));
}

static void an_accepted_change_is_the_definition_from_then_on(void **state)
{
    fixture *f = *state;
    OK(open_as(f, "id", SEMEL_TRANSACTION, 0));
    OK(open_as(f, "type+id", SEMEL_CLAIM, 1));
    FAILS(SEMEL_EINVAL, open_as(f, "id", SEMEL_TRANSACTION, 0));
    SAYS("defined as \"key type+id, mode claim, ");
    OK(open_as(f, "type+id", SEMEL_CLAIM, 0));
    OK(open_by_function(f, 1));
    FAILS(SEMEL_EINVAL, open_as(f, "type+id", SEMEL_CLAIM, 0));
}

static void other_inboxes_have_definitions_of_their_own(void **state)
{
    fixture *f = *state;
    semel_inbox_options claims = {.size = sizeof claims, .mode = SEMEL_CLAIM};
    OK(open_as(f, "type", SEMEL_TRANSACTION, 0));
    fixture_inbox(f, "payments", &claims);
    fixture_inbox(f, "payments", &claims);
}

/* An expression may be longer than an error has room for. */
static void long_keys_are_told_apart(void **state)
{
    fixture *f = *state;
    char one[600], other[600];
    memset(one, 'a', sizeof one);
    memcpy(one, "header:", 7);
    one[sizeof one - 1] = 0;
    memcpy(other, one, sizeof other);
    other[sizeof other - 2] = 'b';
    OK(open_as(f, one, SEMEL_TRANSACTION, 0));
    FAILS(SEMEL_EINVAL, open_as(f, other, SEMEL_TRANSACTION, 0));
    SAYS("aaab, mode transaction");
    OK(open_as(f, one, SEMEL_TRANSACTION, 0));
}

/* A store that keeps no notes cannot compare. */
static void without_notes_nothing_is_refused(void **state)
{
    fixture *f = *state;
    const semel_store_driver *original = f->store->driver;
    semel_store_driver plain = *original;
    plain.notes = NULL;
    f->store->driver = &plain;
    semel_status first = open_as(f, "id", SEMEL_TRANSACTION, 0);
    semel_status second = open_as(f, "type", SEMEL_CLAIM, 0);
    f->store->driver = original;
    assert_int_equal(first, SEMEL_OK);
    assert_int_equal(second, SEMEL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("another key is refused, and both are named",
                another_key_is_refused_and_both_are_named),
        ON_BOTH("no key is the same as the id", no_key_is_the_same_as_the_id),
        ON_BOTH("another mode is refused, and both are named",
                another_mode_is_refused_and_both_are_named),
        ON_SQLITE("queued mode is transaction mode", queued_mode_is_transaction_mode),
        ON_BOTH("an accepted change is the definition from then on",
                an_accepted_change_is_the_definition_from_then_on),
        ON_BOTH("other inboxes have definitions of their own",
                other_inboxes_have_definitions_of_their_own),
        ON_BOTH("long keys are told apart", long_keys_are_told_apart),
        ON_BOTH("without notes nothing is refused", without_notes_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
