/* When the handler fails: attempts, the limit, giving up, and what becomes of dead letters.
 * Everything in both modes; what a failed run did is never seen. */
#include "support/fixture/fixture.h"

/* --- attempts --------------------------------------------------------------------------------- */

static void the_fifth_failure_makes_a_dead_letter(void **state)
{
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    for (size_t mode = 0; mode < 2; mode++) {
        semel_message message = text_message("1", "a");
        letter letters[2];
        scripted_handler todo = {.failures = 5};
        for (uint32_t attempt = 1; attempt < 5; attempt++) {
            message.delivery = attempt;
            RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inboxes[mode], &message, &todo);
            SAYS("out of paper");
            assert_int_equal(todo.attempt, attempt);
        }
        assert_int_equal(fixture_letters(*state, letters, 2), mode);
        message.delivery = 5;
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inboxes[mode], &message, &todo);
        assert_int_equal(todo.attempt, 5);
        assert_int_equal(fixture_letters(*state, letters, 2), mode + 1);
        assert_string_equal(letters[mode].name, mode ? "by-claim" : "by-transaction");
        assert_string_equal(letters[mode].message_id, "1");
        assert_string_equal(letters[mode].error, "out of paper");
        assert_int_equal(letters[mode].attempts, 5);
        assert_int_equal(letters[mode].origin, SEMEL_DEAD_INBOX);
        assert_int_equal(letters[mode].key_len, 1);
    }
}

static void attempts_are_counted_without_the_transports_help(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a"); /* delivery 0: unknown */
    fixture_both_modes(inboxes, *state, (semel_inbox_options){.attempts_max = 3});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 9};
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        assert_int_equal(todo.attempt, 2);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        assert_int_equal(todo.attempt, 3);
    }
}

static void a_limit_of_one_allows_no_failure(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){.attempts_max = 1});
    EACH_MODE(inbox, inboxes)
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &(scripted_handler){.failures = 1});
}

static void giving_up_makes_a_dead_letter_at_once(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
    }
    letter letters[2];
    assert_int_equal(fixture_letters(*state, letters, 2), 2);
    assert_int_equal(letters[0].attempts, 1);
    assert_int_equal(letters[1].attempts, 1);
}

static void later_copies_of_a_dead_letter_are_dead(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REJECT});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        message.delivery = 2;
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        message.delivery = 0;
        assert_int_equal(todo.runs, 1);
    }
    assert_int_equal(fixture_letters(*state, NULL, 0), 2);
}

/* It was never handled and is in no letter: acknowledging it as dead would lose it. */
static void other_content_under_a_dead_key_is_a_mismatch(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a"), other = text_message("1", "b");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &other, &todo);
        assert_int_equal(todo.runs, 1);
    }
}

static void a_failed_run_leaves_nothing_but_its_count(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "an event");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 2, .outbox = outbox, .sends = &event};
        uint64_t before = fixture_counters(f).unsent;
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        assert_int_equal(fixture_counters(f).unsent, before);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        assert_int_equal(fixture_counters(f).unsent, before + 1);
    }
    semel_counters counters = fixture_counters(f);
    assert_int_equal(counters.captured, 2);
    assert_int_equal(counters.failed, 4);
    assert_int_equal(counters.processed, 2);
}

static semel_status fail_without_a_word(semel_unit *unit, const semel_message *message,
                                        void *context, semel_error *err)
{
    (void)unit;
    (void)message;
    (void)err;
    return *(const semel_status *)context;
}

static void any_status_of_a_handler_is_a_failure_and_comes_back(void **state)
{
    static const semel_status statuses[] = {SEMEL_EHANDLER, SEMEL_EUNAVAILABLE, SEMEL_EREJECTED,
                                            SEMEL_ENOMEM,   SEMEL_ELOST,        (semel_status)4711};
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, *state, (semel_inbox_options){.attempts_max = 100});
    EACH_MODE(inbox, inboxes)
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        semel_message message = text_message("1", "a");
        semel_status status = statuses[i];
        semel_outcome outcome;
        FAILS(status, semel_inbox_receive(&outcome, inbox, &message, fail_without_a_word, &status,
                                          &last_error));
        OUTCOME(SEMEL_FAILED, outcome);
    }
}

/* --- conflicts -------------------------------------------------------------------------------- */

/* A deadlock or serialization failure is no failure of the handler: the work is begun anew, in a
 * new transaction. */
static void a_conflict_is_tried_again_and_not_counted(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    scripted_handler todo = {.failures = 4,
                             .failure = SEMEL_ECONFLICT,
                             .outbox = fixture_outbox(f, "out"),
                             .sends = &event};
    semel_test_fault(f->seam, "receive.marked", 1, SEMEL_ECONFLICT);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.runs, 5);
    assert_int_equal(todo.attempt, 1);
    assert_int_equal(fixture_counters(f).unsent, 1);
    assert_int_equal(fixture_counters(f).failed, 0);
}

static void a_conflict_without_end_is_reported_and_decides_nothing(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {.failures = 100, .failure = SEMEL_ECONFLICT};
    RECEIVES(SEMEL_ECONFLICT, SEMEL_UNDECIDED, inbox, &message, &todo);
    assert_int_equal(last_error.retryable, 1);
    assert_int_equal(todo.runs, 6);
    todo = (scripted_handler){0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.attempt, 1);
}

/* --- announcements ---------------------------------------------------------------------------- */

static semel_inbox *inbox_with_faults(fixture *f, semel_mode mode, semel_outbox *faults,
                                      const char *topic)
{
    semel_inbox_options options = {
        .size = sizeof options, .mode = mode, .faults = faults, .fault_topic = topic};
    return fixture_inbox(f, mode ? "by-claim" : "by-transaction", &options);
}

static void a_dead_letter_is_announced_once(void **state)
{
    fixture *f = *state;
    semel_outbox *faults = fixture_outbox(f, "faults");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, faults, recorder, NULL);
    for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_inbox *inbox = inbox_with_faults(f, mode, faults, mode ? "alarms" : NULL);
        semel_message message = text_message("1", "a");
        scripted_handler todo = {.failures = 2, .failure = SEMEL_EGIVEUP};
        message.correlation_id = semel_str("c-1");
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        assert_int_equal(fixture_drain(relay), 1);
        const semel_message *fault = semel_test_recorder_message(recorder, mode);
        assert_string_equal(fault->topic, mode ? "alarms" : "semel.fault");
        assert_string_equal(fault->type, "semel.fault");
        assert_string_equal(fault->source, mode ? "by-claim" : "by-transaction");
        assert_int_equal(fault->body.len, 0); /* it was not asked for */
        BYTES_EQUAL(semel_str("c-1"), fault->correlation_id);
        BYTES_EQUAL(semel_str("1"), semel_message_header(fault, "semel-message-id"));
        BYTES_EQUAL(semel_str("out of paper"), semel_message_header(fault, "semel-error"));
    }
}

static void failures_that_are_not_the_last_are_not_announced(void **state)
{
    fixture *f = *state;
    semel_outbox *faults = fixture_outbox(f, "faults");
    semel_inbox *inbox = inbox_with_faults(f, SEMEL_TRANSACTION, faults, NULL);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {.failures = 4};
    for (int i = 0; i < 4; i++)
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(fixture_counters(f).unsent, 0);
}

/* Letter, dead marker and announcement are one transaction: before its commit none is there. */
static void letter_and_announcement_come_together(void **state)
{
    fixture *f = *state;
    semel_outbox *faults = fixture_outbox(f, "faults");
    for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_inbox *inbox = inbox_with_faults(f, mode, faults, NULL);
        semel_message message = text_message("1", "a");
        scripted_handler todo = {.failures = 2, .failure = SEMEL_EGIVEUP};
        size_t before = fixture_letters(f, NULL, 0);
        semel_outcome outcome;
        semel_test_fault(f->seam, "bury.stored", 1, SEMEL_EUNAVAILABLE);
        assert_int_not_equal(semel_inbox_receive(&outcome, inbox, &message, scripted_handler_run,
                                                 &todo, &last_error),
                             SEMEL_OK);
        assert_int_equal(fixture_letters(f, NULL, 0), before);
        assert_int_equal(fixture_counters(f).unsent, before);
        semel_test_advance_ms(f->seam, 60000); /* a claim ends */
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        assert_int_equal(todo.runs, 2);
        assert_int_equal(fixture_letters(f, NULL, 0), before + 1);
        assert_int_equal(fixture_counters(f).unsent, before + 1);
    }
}

static void faults_must_be_in_the_same_store(void **state)
{
    fixture *f = *state;
    semel_store *other = NULL;
    semel_outbox *faults = NULL;
    semel_inbox *inbox = NULL;
    OK(semel_store_open(&other, "memory:", NULL, &last_error));
    OK(semel_outbox_open(&faults, other, "faults", &last_error));
    semel_inbox_options options = {.size = sizeof options, .faults = faults};
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "inbox", &options, &last_error));
    SAYS("same store");
    semel_outbox_close(faults);
    semel_store_close(other);
}

static void a_store_in_trouble_uses_up_no_attempts(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {0};
    for (uint32_t delivery = 2; delivery < 10; delivery++) {
        message.delivery = delivery;
        semel_test_fault(f->seam, "receive.begun", 1, SEMEL_EBUSY);
        RECEIVES(SEMEL_EBUSY, SEMEL_UNDECIDED, inbox, &message, &todo);
    }
    semel_test_fault(f->seam, NULL, 0, SEMEL_OK);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
}

static void a_conflict_uses_up_no_attempts(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {.failures = 5, .failure = SEMEL_ECONFLICT};
    message.delivery = 2;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.runs, 6);
    assert_int_equal(todo.attempt, 2);
}

static void a_claim_that_is_rolled_back_uses_up_no_attempt(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a");
    for (int i = 0; i < 10; i++) {
        semel_outcome outcome;
        semel_unit *unit;
        OK(semel_unit_begin(&unit, f->store, &last_error));
        OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
        OUTCOME(SEMEL_CLAIMED, outcome);
        assert_int_equal(semel_unit_attempt(unit), 1);
        semel_unit_rollback(unit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("the fifth failure makes a dead letter", the_fifth_failure_makes_a_dead_letter),
        ON_BOTH("attempts are counted without the transport's help",
                attempts_are_counted_without_the_transports_help),
        ON_BOTH("a limit of one allows no failure", a_limit_of_one_allows_no_failure),
        ON_BOTH("giving up makes a dead letter at once", giving_up_makes_a_dead_letter_at_once),
        ON_BOTH("later copies of a dead letter are dead", later_copies_of_a_dead_letter_are_dead),
        ON_BOTH("other content under a dead key is a mismatch",
                other_content_under_a_dead_key_is_a_mismatch),
        ON_BOTH("a failed run leaves nothing but its count",
                a_failed_run_leaves_nothing_but_its_count),
        ON_BOTH("any status of a handler is a failure, and comes back",
                any_status_of_a_handler_is_a_failure_and_comes_back),
        ON_BOTH("a conflict is tried again and not counted",
                a_conflict_is_tried_again_and_not_counted),
        ON_BOTH("a conflict without end is reported and decides nothing",
                a_conflict_without_end_is_reported_and_decides_nothing),
        ON_BOTH("a dead letter is announced once", a_dead_letter_is_announced_once),
        ON_BOTH("failures that are not the last are not announced",
                failures_that_are_not_the_last_are_not_announced),
        ON_BOTH("letter and announcement come together", letter_and_announcement_come_together),
        ON_BOTH("faults must be in the same store", faults_must_be_in_the_same_store),
        ON_BOTH("a store in trouble uses up no attempts", a_store_in_trouble_uses_up_no_attempts),
        ON_BOTH("a conflict uses up no attempts", a_conflict_uses_up_no_attempts),
        ON_BOTH("a claim that is rolled back uses up no attempt",
                a_claim_that_is_rolled_back_uses_up_no_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
