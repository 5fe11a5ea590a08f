/* Opening, migrating, sharing, closing: what a store is before anything is in it, and what is left
 * of it afterwards. */
#include "support/conformance/conformance_store.h"

#include <pthread.h>
#include <string.h>

static void migrating_again_changes_nothing(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    OK(semel_store_migrate(f->base.store, &last_error));
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    assert_int_equal(done.runs, 1);
}

static void nothing_opens_before_it_is_migrated(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = NULL;
    semel_outbox *outbox = NULL;
    FAILS(SEMEL_ESCHEMA, semel_inbox_open(&inbox, f->base.store, "orders", NULL, &last_error));
    SAYS("semel_store_migrate");
    FAILS(SEMEL_ESCHEMA, semel_outbox_open(&outbox, f->base.store, "mail", &last_error));
    assert_null(inbox);
    assert_null(outbox);

    OK(semel_store_migrate(f->base.store, &last_error));
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, open_inbox(f, "orders", NULL), "m-1", &done);
}

typedef struct migration {
    pthread_t thread;
    semel_store *store;
    semel_status status;
    semel_error err;
} migration;

static void *migrate(void *context)
{
    migration *self = context;
    self->status = semel_store_migrate(self->store, &self->err);
    return NULL;
}

static void several_may_migrate_at_once(void **state)
{
    store_fixture *f = *state;
    migration all[3] = {{.store = f->base.store}};
    for (size_t i = 1; i < 3; i++)
        all[i].store = open_second_handle(f);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&all[i].thread, NULL, migrate, &all[i]), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        if (all[i].status)
            fail_msg("%s", all[i].err.text);

    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, open_inbox_on(f, all[0].store, "orders", NULL), "m-1",
                &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, open_inbox_on(f, all[2].store, "orders", NULL), "m-1",
                &done);
}

static void two_handles_share_their_keys(void **state)
{
    store_fixture *f = *state;
    semel_inbox *one = open_inbox(f, "orders", NULL);
    semel_inbox *other = open_inbox_on(f, open_second_handle(f), "orders", NULL);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, one, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, other, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, other, "m-2", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, one, "m-2", &done);
    assert_int_equal(done.runs, 2);
}

/* The attempts of a failing message are counted across handles, and so is its end. */
static void two_handles_share_their_attempts(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 2};
    scripted_handler failing = {.failures = 9};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, open_inbox(f, "orders", &options), "m-1", &failing);
    semel_inbox *other = open_inbox_on(f, open_second_handle(f), "orders", &options);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, other, "m-1", &failing);
    assert_int_equal(failing.attempt, 2);
    assert_int_equal(count_letters(f), 1);
}

static void an_inbox_and_an_outbox_may_have_the_same_name(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_outbox *outbox = open_outbox(f, "orders");
    semel_transport *broker = open_recorder(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {.outbox = outbox, .sends = &message};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
    assert_int_equal(relay_once(open_relay(f, outbox, broker, NULL)), 1);
}

/* --- long names ------------------------------------------------------------------------------- */

static const char *long_name(char name[SEMEL_NAME_MAX + 1], char last)
{
    memset(name, 'n', SEMEL_NAME_MAX);
    name[SEMEL_NAME_MAX - 1] = last;
    name[SEMEL_NAME_MAX] = 0;
    return name;
}

/* Names that differ in their last byte only are two names, also after opening again. */
static void names_of_255_bytes_are_told_apart(void **state)
{
    store_fixture *f = *state;
    char a[SEMEL_NAME_MAX + 1], b[SEMEL_NAME_MAX + 1];
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, open_inbox(f, long_name(a, 'a'), NULL), "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, open_inbox(f, long_name(b, 'b'), NULL), "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, open_inbox(f, a, NULL), "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, open_inbox(f, b, NULL), "m-1", &done);
    semel_inbox *inbox = open_inbox(f, a, NULL);
    size_t swept;
    int more;
    OK(semel_inbox_sweep(&swept, &more, inbox, 0, &last_error));
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    assert_int_equal(done.runs, 2);
}

static void letters_and_outboxes_have_long_names_too(void **state)
{
    store_fixture *f = *state;
    char name[SEMEL_NAME_MAX + 1];
    semel_outbox *outbox = open_outbox(f, long_name(name, 'o'));
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 1, .faults = outbox};
    semel_inbox *inbox = open_inbox(f, name, &options);
    scripted_handler failing = {.failures = 1};
    letters found;
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &failing);
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.all[0].name, name);
    letters_free(&found);
    assert_int_equal(relay_all(open_relay(f, outbox, open_recorder(f), NULL)), 1);
}

static void its_commits_are_as_durable_as_it_says(void **state)
{
    store_fixture *f = *state;
    assert_int_equal(semel_store_durability(f->base.store), f->quirks->durability);
}

/* --- what is left after closing --------------------------------------------------------------- */

static void keys_and_results_are_there_after_opening_again(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    scripted_handler done = {.result = "receipt 7"};
    semel_message message = text_message("m-1", "10 EUR");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, open_inbox(f, "orders", &options), &message, &done);
    reopen(f);

    semel_result *result = NULL;
    semel_outcome outcome;
    OK(semel_inbox_receive_result(&outcome, &result, open_inbox(f, "orders", &options), &message,
                                  scripted_handler_run, &done, &last_error));
    assert_int_equal(outcome, SEMEL_REPLAYED);
    BYTES_EQUAL(semel_str("receipt 7"), semel_result_bytes(result));
    semel_result_free(result);
    assert_int_equal(done.runs, 1);
}

static void unsent_messages_are_there_after_opening_again(void **state)
{
    store_fixture *f = *state;
    OK(semel_outbox_send(open_outbox(f, "mail"), full_message(), &last_error));
    reopen(f);
    assert_int_equal(counters_of(f).unsent, 1);
    semel_transport *broker = open_recorder(f);
    assert_int_equal(relay_once(open_relay(f, open_outbox(f, "mail"), broker, NULL)), 1);
    MESSAGE_EQUAL(full_message(), semel_test_recorder_message(broker, 0));
}

static void dead_letters_are_there_after_opening_again(void **state)
{
    store_fixture *f = *state;
    scripted_handler failing = {.failures = 9, .failure = SEMEL_EGIVEUP};
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, open_inbox(f, "orders", NULL), "m-1", &failing);
    int64_t id = only_letter(f);
    reopen(f);
    assert_int_equal(only_letter(f), id);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, open_inbox(f, "orders", NULL), "m-1", &failing);
    assert_int_equal(failing.runs, 1);
}

static void a_claim_is_there_after_opening_again_until_its_lease_ends(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {
        .size = sizeof options, .lease_ms = 30000, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    scripted_handler done = {0};
    semel_message message = text_message("m-1", "10 EUR");
    abandon_claim(f, open_inbox(f, "orders", &options), &message);
    reopen(f);
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    pass_almost(f, 30000);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    pass_grain(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    assert_int_equal(done.attempt, 2);
}

static void a_claim_holds_against_other_handles(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *other = open_inbox_on(f, open_second_handle(f), "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_unit *unit = claim_message(f, open_inbox(f, "orders", &options), &message);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, other, &message, &done);
    FAILS(SEMEL_EBUSY, semel_inbox_forget(other, &message, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, other, &message, &done);
}

const store_test store_opening_tests[] = {
    STORE_TEST_WITH(migrating_again_changes_nothing, IN_ANY_MODE),
    STORE_TEST_WITH(nothing_opens_before_it_is_migrated,
                    IN_ANY_MODE | NOT_MIGRATED | NEEDS_MIGRATES | NEEDS_OUTBOX),
    STORE_TEST_WITH(several_may_migrate_at_once, IN_ANY_MODE | NOT_MIGRATED | NEEDS_SHARED),
    STORE_TEST_WITH(two_handles_share_their_keys, NEEDS_SHARED),
    STORE_TEST_WITH(two_handles_share_their_attempts, NEEDS_SHARED | NEEDS_DEAD),
    STORE_TEST_WITH(an_inbox_and_an_outbox_may_have_the_same_name, NEEDS_OUTBOX),
    STORE_TEST(names_of_255_bytes_are_told_apart),
    STORE_TEST_WITH(letters_and_outboxes_have_long_names_too, NEEDS_OUTBOX | NEEDS_DEAD),
    STORE_TEST_WITH(its_commits_are_as_durable_as_it_says, IN_ANY_MODE),
    STORE_TEST_WITH(keys_and_results_are_there_after_opening_again, NEEDS_KEEPS | NEEDS_RESULTS),
    STORE_TEST_WITH(unsent_messages_are_there_after_opening_again,
                    IN_ANY_MODE | NEEDS_KEEPS | NEEDS_OUTBOX),
    STORE_TEST_WITH(dead_letters_are_there_after_opening_again, NEEDS_KEEPS | NEEDS_DEAD),
    STORE_TEST_WITH(a_claim_is_there_after_opening_again_until_its_lease_ends,
                    IN_CLAIM_MODE | NEEDS_KEEPS),
    STORE_TEST_WITH(a_claim_holds_against_other_handles, IN_CLAIM_MODE | NEEDS_SHARED),
    {NULL, NULL, 0}};
