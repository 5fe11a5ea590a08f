/* Replaying a dead letter (P17): it takes effect once, it is not swallowed by its own marker, and
 * if it fails again nothing is lost. */
#include "support/conformance/conformance_store.h"
#include "support/inspect/inspect.h"
#include "support/servers/server.h"

#include <stdio.h>
#include <string.h>

static void bury(store_fixture *f, semel_inbox *inbox, const semel_message *message)
{
    scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    (void)f;
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, message, &hopeless);
}

static semel_outcome replay(semel_status expected, semel_inbox *inbox, int64_t id,
                            scripted_handler *context)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    FAILS(expected,
          semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, context, &last_error));
    return outcome;
}

static void a_replayed_letter_takes_effect_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR"), mail = text_message("mail-1", "paid");
    scripted_handler done = {
        .result = "receipt 7", .outbox = open_outbox(f, "mail"), .sends = &mail};
    bury(f, inbox, &message);
    int64_t id = only_letter(f);

    assert_int_equal(replay(SEMEL_OK, inbox, id, &done), SEMEL_PROCESSED);
    assert_int_equal(done.runs, 1);
    assert_string_equal(done.id, "m-1");
    assert_int_equal(count_letters(f), 0);
    assert_int_equal(counters_of(f).unsent, 1);
    RECEIVES(SEMEL_OK, SEMEL_REPLAYED, inbox, &message, &done);

    assert_int_equal(replay(SEMEL_ENOTFOUND, inbox, id, &done), SEMEL_UNDECIDED);
    assert_int_equal(done.runs, 1);
    assert_int_equal(counters_of(f).unsent, 1);
}

static void a_letter_is_replayed_as_it_came(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_message message = *full_message();
    message.time_ms = 0;
    message.delivery = 5;
    bury(f, inbox, &message);
    scripted_handler done = {.outbox = outbox, .sends = &message};
    assert_int_equal(replay(SEMEL_OK, inbox, only_letter(f), &done), SEMEL_PROCESSED);
    assert_int_equal(relay_once(open_relay(f, outbox, broker, NULL)), 1);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
}

static void a_letter_that_fails_again_stays(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR"), mail = text_message("mail-1", "paid");
    scripted_handler failing = {.failures = 2, .outbox = open_outbox(f, "mail"), .sends = &mail};
    scripted_handler never = {0};
    bury(f, inbox, &message);
    int64_t id = only_letter(f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(replay(SEMEL_EHANDLER, inbox, id, &failing), SEMEL_FAILED);
        assert_string_equal(last_error.text, "out of paper");
        assert_int_equal(only_letter(f), id);
        assert_int_equal(counters_of(f).unsent, 0);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message,
                 &never); /* the letter alone may be replayed */
    }
    assert_int_equal(replay(SEMEL_OK, inbox, id, &failing), SEMEL_PROCESSED);
    assert_int_equal(count_letters(f), 0);
    assert_int_equal(never.runs, 0);
    assert_int_equal(failing.runs, 3);
}

static semel_status stop_now(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    (void)unit;
    (void)message;
    (void)context;
    return semel_fail(err, SEMEL_ESTOPPED, "the program ends");
}

static void expect_letter(const store_fixture *f, uint32_t attempts, const char *error)
{
    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].attempts, attempts);
    assert_string_equal(found.all[0].error, error);
    letters_free(&found);
}

/* Whether or not the replay buries the message anew, as in claim mode: the letter has the attempts
 * that it had, and an error of the same cause; a handler that was stopped changes neither. */
static void a_letter_that_fails_again_keeps_its_attempts(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 3};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler failing = {.failures = 99};
    semel_outcome outcome;
    for (message.delivery = 1; message.delivery < 3; message.delivery++)
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &failing);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &failing);
    expect_letter(f, 3, "out of paper");
    replay(SEMEL_EHANDLER, inbox, only_letter(f), &failing);
    expect_letter(f, 3, "out of paper");
    FAILS(SEMEL_ESTOPPED,
          semel_inbox_replay(&outcome, inbox, only_letter(f), stop_now, NULL, &last_error));
    expect_letter(f, 3, "out of paper");
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &failing);
}

/* A caller forgot the key, and a copy was handled: the letter has nothing left to do. */
static void a_letter_whose_message_was_handled_meanwhile_goes(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    bury(f, inbox, &message);
    OK(semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    assert_int_equal(replay(SEMEL_OK, inbox, only_letter(f), &done), SEMEL_DUPLICATE);
    assert_int_equal(done.runs, 1);
    assert_int_equal(count_letters(f), 0);
}

static void a_letter_belongs_to_its_inbox(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler never = {0};
    bury(f, inbox, &message);
    int64_t id = only_letter(f);
    replay(SEMEL_ENOTFOUND, open_inbox(f, "invoices", NULL), id, &never);
    replay(SEMEL_ENOTFOUND, inbox, id + 1, &never);
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(open_outbox(f, "orders"), id, &last_error));
    assert_int_equal(never.runs, 0);
    assert_int_equal(count_letters(f), 1);
}

/* Letters lie for weeks before an operator looks: longer than the retention, whose sweep leaves the
 * marker. */
static void an_old_letter_can_still_be_replayed(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .retention_ms = grains(f, 1000)};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    size_t swept;
    int more;
    message.time_ms = wall_of(f);
    bury(f, inbox, &message);
    pass_ms(f, grains(f, 100000));
    OK(semel_inbox_sweep(&swept, &more, inbox, 100, &last_error));
    assert_int_equal(swept, 0);
    assert_int_equal(replay(SEMEL_OK, inbox, only_letter(f), &done), SEMEL_PROCESSED);
    assert_int_equal(done.runs, 1);
    assert_int_equal(count_letters(f), 0);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
}

/* Before the commit nothing has happened: marker, letter and effect are as they were. */
static void a_replay_that_the_store_fails_can_be_repeated(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    bury(f, inbox, &message);
    int64_t id = only_letter(f);
    semel_test_fault(f->base.seam, "replay.begun", 1, SEMEL_ESTORE);
    replay(SEMEL_ESTORE, inbox, id, &done);
    assert_int_equal(only_letter(f), id);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &done);
    assert_int_equal(done.runs, 0);
    assert_int_equal(replay(SEMEL_OK, inbox, id, &done), SEMEL_PROCESSED);
}

/* --- no old error ----------------------------------------------------------------------------- */

static int64_t count_markers(const store_fixture *f, const char *condition)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM semel_marker WHERE %s", condition);
    return inspect_is_server(f->base.place.url) ? server_number(f->base.place.url, sql)
                                                : inspect_number(f->base.place.url, sql);
}

/* In queued mode one receive may run the handler twice. */
static void fail_and_succeed(semel_inbox *inbox, semel_message message)
{
    scripted_handler todo = {.failures = 3};
    semel_outcome outcome;
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
    while (semel_inbox_receive(&outcome, inbox, &message, scripted_handler_run, &todo,
                               &last_error) == SEMEL_EHANDLER)
        message.delivery += message.delivery > 0;
    assert_int_equal(outcome, SEMEL_PROCESSED);
}

static void fail_and_succeed_in_a_batch(semel_inbox *inbox)
{
    semel_message one = text_message("b-1", "10 EUR"), two = text_message("b-2", "10 EUR");
    const semel_message *both[] = {&one, &two};
    semel_outcome outcomes[2];
    scripted_handler todo = {.failures = 1};
    OK(semel_inbox_receive_batch(outcomes, inbox, both, 2, scripted_handler_run, &todo,
                                 &last_error));
    OK(semel_inbox_receive_batch(outcomes, inbox, both, 2, scripted_handler_run, &todo,
                                 &last_error));
    assert_int_equal(outcomes[0], SEMEL_PROCESSED);
}

static semel_inbox *open_queued(store_fixture *f)
{
    semel_mode mode = f->mode;
    f->mode = SEMEL_QUEUED;
    semel_inbox *inbox = open_inbox(f, "queued", NULL);
    f->mode = mode;
    return inbox;
}

/* The claim of a replay that died is waited for, and its attempt does not use up those of the next:
 * the caller of a replay has asked for one more. */
static void a_letter_whose_replay_died_can_be_replayed(void **state)
{
    enum { LEASE_MS = 60000 };
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options,
                                   .attempts_max = 1,
                                   .lease_ms = LEASE_MS,
                                   .wait_ms = LEASE_MS + grains(f, 1000)};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler never = {0}, done = {0};
    bury(f, inbox, &message);
    int64_t id = only_letter(f);
    for (int i = 0; i < 3; i++) {
        semel_test_fault(f->base.seam, "claim.committed", 1, SEMEL_ESTORE);
        assert_int_equal(replay(SEMEL_ESTORE, inbox, id, &never), SEMEL_UNDECIDED);
        assert_int_equal(only_letter(f), id);
        if (i == 1)
            pass_ms(f, LEASE_MS);
    }
    assert_int_equal(replay(SEMEL_OK, inbox, id, &done), SEMEL_PROCESSED);
    assert_int_equal(never.runs, 0);
    assert_int_equal(count_letters(f), 0);
}

/* In the row, where an operator would read it; so on SQL stores only. */
static void a_success_leaves_no_old_error_with_its_marker(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("m-1", "10 EUR"), again = text_message("m-2", "10 EUR");
    scripted_handler done = {0};
    if (!store_has(f, LACKS_QUEUE))
        return;
    again.delivery = 2;
    fail_and_succeed(inbox, message);
    fail_and_succeed(inbox, again);
    fail_and_succeed_in_a_batch(inbox);
    if (f->mode == SEMEL_TRANSACTION)
        fail_and_succeed(open_queued(f), message);
    message = text_message("m-3", "10 EUR");
    bury(f, inbox, &message);
    assert_int_equal(replay(SEMEL_OK, inbox, only_letter(f), &done), SEMEL_PROCESSED);
    assert_int_equal(count_markers(f, "state = 0"), f->mode == SEMEL_TRANSACTION ? 6 : 5);
    assert_int_equal(count_markers(f, "state = 0 AND error IS NOT NULL"), 0);
}

const store_test store_replay_tests[] = {
    STORE_TEST_WITH(a_replayed_letter_takes_effect_once, NEEDS_OUTBOX | NEEDS_RESULTS),
    STORE_TEST_WITH(a_letter_is_replayed_as_it_came, NEEDS_OUTBOX),
    STORE_TEST_WITH(a_letter_that_fails_again_stays, NEEDS_OUTBOX),
    STORE_TEST(a_letter_that_fails_again_keeps_its_attempts),
    STORE_TEST(a_letter_whose_message_was_handled_meanwhile_goes),
    STORE_TEST_WITH(a_letter_belongs_to_its_inbox, NEEDS_OUTBOX),
    STORE_TEST_WITH(an_old_letter_can_still_be_replayed, NEEDS_SWEEP),
    STORE_TEST(a_replay_that_the_store_fails_can_be_repeated),
    STORE_TEST_WITH(a_letter_whose_replay_died_can_be_replayed, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_success_leaves_no_old_error_with_its_marker, NEEDS_SQL),
    {NULL, NULL, 0}};
