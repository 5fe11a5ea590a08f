/* The public steps that receive is made of: begin, claim, send, set_result, commit, fail, rollback.
 * They do what receive does, and say so when they are used wrongly. */
#include "support/fixture/fixture.h"

#include <semel/sqlite.h>

static semel_unit *begin(fixture *f)
{
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    return unit;
}

#define CLAIMS(status, outcome, unit, inbox, message) \
    check_claim((status), (outcome), (unit), (inbox), (message), __FILE__, __LINE__)

static void check_claim(semel_status status, semel_outcome outcome, semel_unit *unit,
                        semel_inbox *inbox, const semel_message *message, const char *file,
                        int line)
{
    semel_outcome got;
    check_forget();
    check_status(status, semel_unit_claim(&got, unit, inbox, message, &last_error),
                 "semel_unit_claim()", file, line);
    check_outcome(outcome, got, file, line);
}

static semel_unit *begin_and_claim(fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = begin(f);
    CLAIMS(SEMEL_OK, SEMEL_CLAIMED, unit, inbox, message);
    return unit;
}

/* --- the same as receive ---------------------------------------------------------------------- */

/* What receive does with scripted_handler_run, by hand. */
static semel_outcome receive_by_hand(fixture *f, semel_inbox *inbox, const semel_message *message,
                                     scripted_handler *todo)
{
    semel_outcome outcome;
    semel_unit *unit = begin(f);
    semel_error why = {0};
    semel_status status = semel_unit_claim(&outcome, unit, inbox, message, &last_error);
    if (status || outcome != SEMEL_CLAIMED) {
        semel_unit_rollback(unit);
        return outcome;
    }
    if (scripted_handler_run(unit, message, todo, &why)) {
        OK(semel_unit_fail(&outcome, unit, &why, &last_error));
        return outcome;
    }
    OK(semel_unit_commit(unit, &last_error));
    return SEMEL_PROCESSED;
}

/* A small history that meets most outcomes, by either way. */
static void live_through(fixture *f, const char *name, semel_mode mode, int by_hand,
                         semel_outcome outcomes[12])
{
    static const char *const ids[] = {"good", "good", "good", "",     "bad",  "bad",
                                      "bad",  "bad",  "once", "once", "once", "plain"};
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = mode,
                                   .attempts_max = 3,
                                   .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = fixture_inbox(f, name, &options);
    semel_message event = text_message(NULL, "event");
    scripted_handler todo = {.outbox = fixture_outbox(f, "out"), .sends = &event, .result = "done"};
    for (size_t i = 0; i < 12; i++) {
        semel_message message = text_message(ids[i], i == 2 ? "other content" : "a");
        todo.failures = i >= 4 && i <= 8;
        if (by_hand)
            outcomes[i] = receive_by_hand(f, inbox, &message, &todo);
        else
            (void)semel_inbox_receive(&outcomes[i], inbox, &message, scripted_handler_run, &todo,
                                      NULL);
    }
}

/* The members are all 64 bits wide; the last is a time. */
static void assert_same_change(const semel_counters at[3])
{
    enum { COUNT = offsetof(semel_counters, oldest_unsent_ms) / sizeof(uint64_t) };
    uint64_t numbers[3][COUNT];
    for (size_t i = 0; i < 3; i++)
        memcpy(numbers[i], &at[i], sizeof numbers[i]);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(numbers[1][i] - numbers[0][i], numbers[2][i] - numbers[1][i]);
}

static void the_steps_by_hand_are_receive(void **state)
{
    static const semel_outcome expected[] = {SEMEL_PROCESSED,   SEMEL_REPLAYED, SEMEL_MISMATCH,
                                             SEMEL_MISSING_KEY, SEMEL_FAILED,   SEMEL_FAILED,
                                             SEMEL_DEAD,        SEMEL_DEAD,     SEMEL_FAILED,
                                             SEMEL_PROCESSED,   SEMEL_REPLAYED, SEMEL_PROCESSED};
    static const char *const names[][2] = {{"transaction", "transaction.by-hand"},
                                           {"claim", "claim.by-hand"}};
    fixture *f = *state;
    for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_outcome received[12], by_hand[12];
        semel_counters at[3] = {fixture_counters(f)};
        live_through(f, names[mode][0], mode, 0, received);
        at[1] = fixture_counters(f);
        live_through(f, names[mode][1], mode, 1, by_hand);
        at[2] = fixture_counters(f);
        for (size_t i = 0; i < 12; i++) {
            OUTCOME(expected[i], received[i]);
            OUTCOME(expected[i], by_hand[i]);
        }
        assert_same_change(at);
        assert_int_equal(at[1].processed - at[0].processed, 3);
        assert_int_equal(at[1].unsent - at[0].unsent, 3);
    }
}

static void claim_has_the_status_of_receive(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REJECT};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a"), other = text_message("1", "b");
    semel_message keyless = text_message("", "a");
    const struct {
        semel_message *message;
        semel_outcome outcome;
    } cases[] = {
        {&message, SEMEL_DUPLICATE}, {&other, SEMEL_MISMATCH}, {&keyless, SEMEL_MISSING_KEY}};
    OK(semel_unit_commit(begin_and_claim(f, inbox, &message), &last_error));
    for (size_t i = 0; i < 3; i++) {
        semel_unit *unit = begin(f);
        CLAIMS(SEMEL_EREJECTED, cases[i].outcome, unit, inbox, cases[i].message);
        semel_unit_rollback(unit);
    }
}

/* --- ending ----------------------------------------------------------------------------------- */

static void a_rollback_undoes_everything_and_frees_the_key(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    fixture_both_modes(inboxes, f, (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        semel_unit *unit = begin_and_claim(f, inbox, &message);
        OK(semel_unit_send(unit, outbox, &event, &last_error));
        OK(semel_unit_set_result(unit, "result", 6, &last_error));
        semel_unit_rollback(unit);
        assert_int_equal(fixture_counters(f).unsent, 0);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &(scripted_handler){0});
    }
}

static void a_unit_without_a_claim_only_sends(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message event = text_message(NULL, "event");
    semel_unit *unit = begin(f);
    assert_null(semel_unit_key(unit).data);
    assert_int_equal(semel_unit_attempt(unit), 0);
    OK(semel_unit_send(unit, outbox, &event, &last_error));
    OK(semel_unit_send(unit, outbox, &event, &last_error));
    assert_int_equal(fixture_counters(f).captured, 0);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(fixture_counters(f).captured, 2);
    assert_int_equal(fixture_counters(f).unsent, 2);
    assert_int_equal(fixture_counters(f).processed, 0);
}

static void failing_counts_keeps_the_reason_and_gives_up(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, f, (semel_inbox_options){.attempts_max = 3});
    for (size_t mode = 0; mode < 2; mode++) {
        semel_outcome outcome;
        letter letters[2];
        semel_error why;
        semel_fail(&why, SEMEL_EHANDLER, "the printer is on fire");
        for (uint32_t attempt = 1; attempt <= 3; attempt++) {
            semel_unit *unit = begin_and_claim(f, inboxes[mode], &message);
            assert_int_equal(semel_unit_attempt(unit), attempt);
            OK(semel_unit_fail(&outcome, unit, &why, &last_error));
            OUTCOME(attempt < 3 ? SEMEL_FAILED : SEMEL_DEAD, outcome);
        }
        assert_int_equal(fixture_letters(f, letters, 2), mode + 1);
        assert_string_equal(letters[mode].error, "the printer is on fire");
    }
}

static void failing_needs_no_reason(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, f, (semel_inbox_options){.attempts_max = 2});
    EACH_MODE(inbox, inboxes)
    {
        semel_outcome outcome;
        OK(semel_unit_fail(&outcome, begin_and_claim(f, inbox, &message), NULL, &last_error));
        OUTCOME(SEMEL_FAILED, outcome);
        OK(semel_unit_fail(&outcome, begin_and_claim(f, inbox, &message), NULL, NULL));
        OUTCOME(SEMEL_DEAD, outcome);
    }
}

static void failing_without_a_claim_is_a_rollback(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message event = text_message(NULL, "event");
    semel_unit *unit = begin(f);
    semel_outcome outcome;
    OK(semel_unit_send(unit, outbox, &event, &last_error));
    OK(semel_unit_fail(&outcome, unit, NULL, &last_error));
    OUTCOME(SEMEL_FAILED, outcome);
    assert_int_equal(fixture_counters(f).unsent, 0);
}

static void the_unit_knows_its_whole_key(void **state)
{
    fixture *f = *state;
    char id[SEMEL_KEY_MAX + 50];
    semel_inbox *inboxes[2];
    semel_message message = {.size = sizeof message, .id = {id, sizeof id}};
    memset(id, 'x', sizeof id);
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        semel_unit *unit = begin_and_claim(f, inbox, &message);
        BYTES_EQUAL(message.id, semel_unit_key(unit));
        OK(semel_unit_commit(unit, &last_error));
    }
}

/* --- misuse ----------------------------------------------------------------------------------- */

static void a_unit_takes_one_key(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a"), second = text_message("2", "a");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        semel_unit *unit = begin_and_claim(f, inbox, &message);
        CLAIMS(SEMEL_EMISUSE, SEMEL_UNDECIDED, unit, inbox, &second);
        OK(semel_unit_commit(unit, &last_error)); /* the first is as it was */
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &(scripted_handler){0});
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &second, &(scripted_handler){0});
    }
}

static void what_was_not_claimed_is_not_committed(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
        semel_unit *unit = begin(f);
        CLAIMS(SEMEL_OK, SEMEL_DUPLICATE, unit, inbox, &message);
        OK(semel_unit_send(unit, outbox, &event,
                           &last_error)); /* a caller that ignores the answer */
        FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
        assert_int_equal(fixture_counters(f).unsent, 0);
    }
    assert_int_equal(fixture_counters(f).processed, 2);
}

static void inbox_and_outbox_must_be_of_the_units_store(void **state)
{
    fixture *f = *state;
    semel_store *other = NULL;
    semel_inbox *inbox = NULL;
    semel_outbox *outbox = NULL;
    semel_message message = text_message("1", "a");
    OK(semel_store_open(&other, "memory:", NULL, &last_error));
    OK(semel_inbox_open(&inbox, other, "inbox", NULL, &last_error));
    OK(semel_outbox_open(&outbox, other, "outbox", &last_error));
    semel_unit *unit = begin(f);
    CLAIMS(SEMEL_EINVAL, SEMEL_UNDECIDED, unit, inbox, &message);
    SAYS("another store");
    FAILS(SEMEL_EINVAL, semel_unit_send(unit, outbox, &message, &last_error));
    SAYS("another store");
    semel_unit_rollback(unit);
    semel_inbox_close(inbox);
    semel_outbox_close(outbox);
    semel_store_close(other);
}

static void a_result_and_a_lease_need_what_they_belong_to(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    semel_unit *unit = begin(f);
    FAILS(SEMEL_EMISUSE, semel_unit_set_result(unit, "r", 1, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_renew(unit, 0, &last_error));
    CLAIMS(SEMEL_OK, SEMEL_CLAIMED, unit, inbox, &message);
    FAILS(SEMEL_EMISUSE, semel_unit_renew(unit, 1000, &last_error)); /* transaction mode */
    OK(semel_unit_set_result(unit, NULL, 0, &last_error));
    OK(semel_unit_commit(unit, &last_error));
}

static void a_bad_message_is_refused_before_anything_happens(void **state)
{
    static const semel_header nameless[] = {{NULL, {"v", 1}}};
    static char text[SEMEL_TEXT_MAX + 2];
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "out");
    memset(text, 'x', SEMEL_TEXT_MAX + 1);
    semel_message bad[] = {
        {.size = 0, .id = {"1", 1}},
        {.size = sizeof *bad, .id = {text, sizeof text}},
        {.size = sizeof *bad, .id = {"1", 1}, .type = text},
        {.size = sizeof *bad, .id = {"1", 1}, .body = {NULL, 5}},
        {.size = sizeof *bad, .id = {"1", 1}, .body = {text, SEMEL_BODY_MAX + 1}},
        {.size = sizeof *bad, .id = {"1", 1}, .headers = nameless, .header_count = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        semel_outcome outcome;
        scripted_handler todo = {0};
        semel_status status =
            semel_inbox_receive(&outcome, inbox, &bad[i], scripted_handler_run, &todo, &last_error);
        assert_true(status == SEMEL_EINVAL || status == SEMEL_ELIMIT);
        OUTCOME(SEMEL_UNDECIDED, outcome);
        assert_int_equal(todo.runs, 0);
        FAILS(status, semel_outbox_send(outbox, &bad[i], &last_error));
    }
    assert_int_equal(fixture_counters(f).unsent, 0);
}

static void one_thread_has_one_unit_of_sqlite(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    semel_unit *unit = begin(f), *second = NULL;
    FAILS(SEMEL_EMISUSE, semel_unit_begin(&second, f->store, &last_error));
    RECEIVES(SEMEL_EMISUSE, SEMEL_UNDECIDED, inbox, &message, &(scripted_handler){0});
    semel_unit_rollback(unit);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

static void the_native_handle_is_there_while_a_transaction_is(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    semel_unit *unit = begin_and_claim(f, inboxes[0], &message);
    assert_int_equal(semel_unit_sqlite(unit) != NULL, f->place.has_sql);
    semel_unit_rollback(unit);
    unit = begin_and_claim(f, inboxes[1], &message);
    assert_null(semel_unit_sqlite(unit));
    semel_unit_rollback(unit);
}

/* Counting a redelivery, and claiming, end the transaction: what was done in it must not vanish
 * silently. */
static void work_before_the_claim_is_refused(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message("e", "a");
    semel_outcome outcome;
    semel_unit *unit;
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    message.delivery = 2;
    EACH_MODE(inbox, inboxes)
    {
        OK(semel_unit_begin(&unit, f->store, &last_error));
        OK(semel_unit_send(unit, outbox, &event, &last_error));
        FAILS(SEMEL_EMISUSE, semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
        semel_unit_rollback(unit);
    }
    assert_int_equal(fixture_counters(f).unsent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("the steps by hand are receive", the_steps_by_hand_are_receive),
        ON_BOTH("claim has the status of receive", claim_has_the_status_of_receive),
        ON_BOTH("a rollback undoes everything and frees the key",
                a_rollback_undoes_everything_and_frees_the_key),
        ON_BOTH("a unit without a claim only sends", a_unit_without_a_claim_only_sends),
        ON_BOTH("failing counts, keeps the reason, and gives up at the limit",
                failing_counts_keeps_the_reason_and_gives_up),
        ON_BOTH("failing needs no reason", failing_needs_no_reason),
        ON_BOTH("failing without a claim is a rollback", failing_without_a_claim_is_a_rollback),
        ON_BOTH("the unit knows its whole key", the_unit_knows_its_whole_key),
        ON_BOTH("a unit takes one key", a_unit_takes_one_key),
        ON_BOTH("what was not claimed is not committed", what_was_not_claimed_is_not_committed),
        ON_BOTH("inbox and outbox must be of the unit's store",
                inbox_and_outbox_must_be_of_the_units_store),
        ON_BOTH("a result and a lease need what they belong to",
                a_result_and_a_lease_need_what_they_belong_to),
        ON_BOTH("a bad message is refused before anything happens",
                a_bad_message_is_refused_before_anything_happens),
        ON_SQLITE("one thread has one unit at a time", one_thread_has_one_unit_of_sqlite),
        ON_BOTH("the native handle is there while a transaction is",
                the_native_handle_is_there_while_a_transaction_is),
        ON_BOTH("work before the claim is refused", work_before_the_claim_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
