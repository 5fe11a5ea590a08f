/* Receiving: the first copy is handled, the others are known. */
#include "support/conformance/conformance_store.h"

#include <pthread.h>
#include <string.h>

static void a_copy_is_a_duplicate(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    assert_int_equal(done.runs, 1);
    assert_int_equal(done.attempt, 1);
    assert_string_equal(done.key, "m-1");

    semel_counters counters = counters_of(f);
    assert_int_equal(counters.processed, 1);
    assert_int_equal(counters.duplicates, 2);
}

/* P14: a message that two handlers want is handled by each. */
static void each_inbox_handles_the_same_message(void **state)
{
    store_fixture *f = *state;
    semel_inbox *billing = open_inbox(f, "billing", NULL);
    semel_inbox *shipping = open_inbox(f, "shipping", NULL);
    scripted_handler billed = {0}, shipped = {.failures = 1};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, billing, "m-1", &billed);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, shipping, "m-1", &shipped);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, billing, "m-1", &billed);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, shipping, "m-1", &shipped);
    assert_int_equal(billed.runs, 1);
    assert_int_equal(shipped.runs, 2);
}

/* P3: nothing that a failed run leaves may suppress the next one. */
static void a_failed_run_is_followed_by_another(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler failing = {.failures = 2};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &failing);
    assert_string_equal(last_error.text, "out of paper");
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &failing);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &failing);
    assert_int_equal(failing.attempt, 3);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &failing);
    assert_int_equal(failing.runs, 3);
    assert_int_equal(counters_of(f).failed, 2);
}

static void a_failed_run_leaves_neither_message_nor_result(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message mail = text_message("mail-1", "paid");
    scripted_handler failing = {
        .failures = 1, .result = "half", .outbox = open_outbox(f, "mail"), .sends = &mail};
    scripted_handler plain = {0};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &failing);
    assert_int_equal(counters_of(f).unsent, 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &plain);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &plain);
    assert_int_equal(counters_of(f).unsent, 0);
}

/* --- the public steps ------------------------------------------------------------------------- */

static void what_is_rolled_back_never_happened(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_message message = text_message("m-1", "10 EUR");
    semel_unit *unit = claim_message(f, inbox, &message);
    OK(semel_unit_set_result(unit, "half", 4, &last_error));
    OK(semel_unit_send(unit, outbox, &message, &last_error));
    semel_unit_rollback(unit);

    assert_int_equal(counters_of(f).unsent, 0);
    scripted_handler done = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    assert_int_equal(counters_of(f).unsent, 0);
}

static void the_steps_of_a_unit_are_what_receive_does(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_message message = text_message("m-1", "10 EUR");
    semel_unit *unit = claim_message(f, inbox, &message);
    BYTES_EQUAL(semel_str("m-1"), semel_unit_key(unit));
    assert_int_equal(semel_unit_attempt(unit), 1);
    OK(semel_unit_send(unit, outbox, &message, &last_error));
    OK(semel_unit_commit(unit, &last_error));

    semel_outcome outcome;
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    semel_unit_rollback(unit);
    assert_int_equal(outcome, SEMEL_DUPLICATE);
    assert_int_equal(counters_of(f).unsent, 1);
}

static void a_unit_that_failed_is_counted(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 2};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    semel_error why;
    semel_outcome outcome;
    semel_fail(&why, SEMEL_EHANDLER, "out of paper");
    OK(semel_unit_fail(&outcome, claim_message(f, inbox, &message), &why, &last_error));
    assert_int_equal(outcome, SEMEL_FAILED);
    semel_unit *unit = claim_message(f, inbox, &message);
    assert_int_equal(semel_unit_attempt(unit), 2);
    OK(semel_unit_fail(&outcome, unit, &why, &last_error));
    assert_int_equal(outcome, SEMEL_DEAD);
    assert_int_equal(count_letters(f), 1);
}

/* --- results ---------------------------------------------------------------------------------- */

static semel_result *receive_result(semel_outcome expected, semel_inbox *inbox,
                                    const semel_message *message, scripted_handler *context)
{
    semel_result *result = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    OK(semel_inbox_receive_result(&outcome, &result, inbox, message, scripted_handler_run, context,
                                  &last_error));
    assert_int_equal(outcome, expected);
    return result;
}

static void expect_result(semel_outcome expected, semel_inbox *inbox, const semel_message *message,
                          scripted_handler *context, semel_bytes bytes)
{
    semel_result *result = receive_result(expected, inbox, message, context);
    assert_non_null(result);
    BYTES_EQUAL(bytes, semel_result_bytes(result));
    semel_result_free(result);
}

static void the_result_comes_back_with_every_copy(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {.result = "receipt 7"};
    expect_result(SEMEL_PROCESSED, inbox, &message, &done, semel_str("receipt 7"));
    expect_result(SEMEL_REPLAYED, inbox, &message, &done, semel_str("receipt 7"));
    expect_result(SEMEL_REPLAYED, inbox, &message, &done, semel_str("receipt 7"));
    assert_int_equal(done.runs, 1);
    assert_int_equal(counters_of(f).replayed, 2);
}

/* An empty answer is an answer. */
static void an_empty_result_is_a_result(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {.result = ""};
    expect_result(SEMEL_PROCESSED, inbox, &message, &done, semel_str(""));
    expect_result(SEMEL_REPLAYED, inbox, &message, &done, semel_str(""));
}

static void without_a_result_a_copy_is_a_plain_duplicate(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    assert_null(receive_result(SEMEL_PROCESSED, inbox, &message, &done));
    assert_null(receive_result(SEMEL_DUPLICATE, inbox, &message, &done));
}

static void a_result_is_kept_whatever_its_bytes_and_up_to_its_limit(void **state)
{
    static unsigned char large[SEMEL_RESULT_MAX];
    store_fixture *f = *state;
    size_t most = f->quirks->record_max ? f->quirks->record_max - 1000 : sizeof large;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler unused = {0};
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (unsigned char)(i * 31 >> 3);
    semel_unit *unit = claim_message(f, inbox, &message);
    FAILS(SEMEL_ELIMIT, semel_unit_set_result(unit, large, sizeof large + 1, &last_error));
    OK(semel_unit_set_result(unit, "the last call wins", 18, &last_error));
    OK(semel_unit_set_result(unit, large, most, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    expect_result(SEMEL_REPLAYED, inbox, &message, &unused, (semel_bytes){large, most});
}

/* --- policies that the store has a part in ---------------------------------------------------- */

static void other_content_under_a_known_key_is_a_mismatch(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message ten = text_message("m-1", "10 EUR"), eleven = text_message("m-1", "11 EUR");
    scripted_handler done = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &ten, &done);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &eleven, &done);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &ten, &done);
    assert_int_equal(done.runs, 1);
    assert_int_equal(counters_of(f).mismatched, 1);
}

static void where_mismatch_is_ignored_the_key_alone_decides(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_mismatch = SEMEL_MISMATCH_IGNORE};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message ten = text_message("m-1", "10 EUR"), eleven = text_message("m-1", "11 EUR");
    scripted_handler done = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &ten, &done);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &eleven, &done);
}

/* A message that failed may be corrected by its sender: what counts is the content that was
 * handled. */
static void the_fingerprint_is_that_of_the_copy_that_was_handled(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message wrong = text_message("m-1", "-10 EUR"), right = text_message("m-1", "10 EUR");
    scripted_handler failing = {.failures = 1};
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &wrong, &failing);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &right, &failing);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &right, &failing);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &wrong, &failing);
}

static void a_forgotten_key_is_new_again(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    OK(semel_inbox_forget(inbox, &message, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
    assert_int_equal(done.runs, 2);
}

/* Where the database lets rows expire, no sweep is needed to be new again. */
static void a_key_is_known_for_its_retention_without_a_sweep(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .retention_ms = grains(f, 1000)};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    pass_almost(f, grains(f, 1000));
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    pass_ms(f, grains(f, 1000));
    if (!store_has(f, LACKS_SWEEP))
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
}

/* --- a copy in flight ------------------------------------------------------------------------- */

typedef struct copy {
    pthread_t thread;
    semel_inbox *inbox;
    scripted_handler done;
    semel_outcome outcome;
    semel_status status;
} copy;

static void *receive_copy(void *context)
{
    copy *self = context;
    semel_message message = text_message("m-1", "10 EUR");
    self->status = semel_inbox_receive(&self->outcome, self->inbox, &message, scripted_handler_run,
                                       &self->done, NULL);
    return NULL;
}

/* Its handler body does not run at all: it waits for the marker, and then it knows. */
static void a_copy_in_flight_waits_for_the_first(void **state)
{
    store_fixture *f = *state;
    semel_message message = text_message("m-1", "10 EUR");
    copy late = {.inbox = open_inbox(f, "orders", NULL)};
    semel_unit *unit = claim_message(f, late.inbox, &message);
    assert_int_equal(pthread_create(&late.thread, NULL, receive_copy, &late), 0);
    semel_status committed = semel_unit_commit(unit, &last_error);
    assert_int_equal(pthread_join(late.thread, NULL), 0);
    assert_int_equal(committed, SEMEL_OK);
    assert_int_equal(late.status, SEMEL_OK);
    assert_int_equal(late.outcome, SEMEL_DUPLICATE);
    assert_int_equal(late.done.runs, 0);
}

static void a_copy_in_flight_takes_over_if_the_first_rolls_back(void **state)
{
    store_fixture *f = *state;
    semel_message message = text_message("m-1", "10 EUR");
    copy late = {.inbox = open_inbox(f, "orders", NULL)};
    semel_unit *unit = claim_message(f, late.inbox, &message);
    assert_int_equal(pthread_create(&late.thread, NULL, receive_copy, &late), 0);
    semel_unit_rollback(unit);
    assert_int_equal(pthread_join(late.thread, NULL), 0);
    assert_int_equal(late.status, SEMEL_OK);
    assert_int_equal(late.outcome, SEMEL_PROCESSED);
    assert_int_equal(late.done.runs, 1);
}

const store_test store_marker_tests[] = {
    STORE_TEST(a_copy_is_a_duplicate),
    STORE_TEST(each_inbox_handles_the_same_message),
    STORE_TEST(a_failed_run_is_followed_by_another),
    STORE_TEST_WITH(a_failed_run_leaves_neither_message_nor_result, NEEDS_OUTBOX | NEEDS_RESULTS),
    STORE_TEST_WITH(what_is_rolled_back_never_happened, NEEDS_OUTBOX | NEEDS_RESULTS),
    STORE_TEST_WITH(the_steps_of_a_unit_are_what_receive_does, NEEDS_OUTBOX),
    STORE_TEST_WITH(a_unit_that_failed_is_counted, NEEDS_DEAD),
    STORE_TEST_WITH(the_result_comes_back_with_every_copy, NEEDS_RESULTS),
    STORE_TEST_WITH(an_empty_result_is_a_result, NEEDS_RESULTS),
    STORE_TEST_WITH(without_a_result_a_copy_is_a_plain_duplicate, NEEDS_RESULTS),
    STORE_TEST_WITH(a_result_is_kept_whatever_its_bytes_and_up_to_its_limit, NEEDS_RESULTS),
    STORE_TEST(other_content_under_a_known_key_is_a_mismatch),
    STORE_TEST(where_mismatch_is_ignored_the_key_alone_decides),
    STORE_TEST(the_fingerprint_is_that_of_the_copy_that_was_handled),
    STORE_TEST(a_forgotten_key_is_new_again),
    STORE_TEST(a_key_is_known_for_its_retention_without_a_sweep),
    STORE_TEST_WITH(a_copy_in_flight_waits_for_the_first, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_copy_in_flight_takes_over_if_the_first_rolls_back, IN_TRANSACTION_MODE),
    {NULL, NULL, 0}};
