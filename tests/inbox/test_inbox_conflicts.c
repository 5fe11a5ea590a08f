/* Commits and completions that fail: what a conflict or a lost store is counted as, and how often a
 * handler runs for it. The servers' side is in test_servers_commits.c. */
#include "support/fake/failing_store.h"
#include "support/fixture/effect.h"

enum { ATTEMPTS = 3, IN_A_ROW = 5 };

/* --- handlers --------------------------------------------------------------------------------- */

/* The commit that follows fails, so many times. Only for the messages with this type, if there is
 * one. */
typedef struct start_case {
    unsigned times;
    unsigned commits; /* each time; a claim tries its own again */
    semel_status status;
    const char *type;
    unsigned runs;
    uint32_t attempt; /* of the last run */
    scripted_handler work;
    const effect *writes; /* one, by a queued statement */
} start_case;

static semel_status work_in_vain(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    start_case *v = context;
    if (v->writes && v->writes->place->has_sql) {
        semel_status status = effect_write(v->writes, unit, "e", 1, err);
        if (status)
            return status;
    }
    if (v->type && strcmp(v->type, message->type) != 0)
        return SEMEL_OK;
    v->runs++;
    v->attempt = semel_unit_attempt(unit);
    if (v->times) {
        v->times--;
        failing_store_break_commits(v->commits ? v->commits : 1, v->status);
    }
    return v->work.outbox ? scripted_handler_run(unit, message, &v->work, err) : SEMEL_OK;
}

static semel_message redelivery(const char *id)
{
    semel_message message = text_message(id, "a");
    message.delivery = 2;
    return message;
}

static semel_outcome receive(semel_status expected, semel_inbox *inbox,
                             const semel_message *message, start_case *v)
{
    semel_outcome out;
    FAILS(expected, semel_inbox_receive(&out, inbox, message, work_in_vain, v, &last_error));
    return out;
}

static semel_inbox *inbox_with(fixture *f, semel_inbox_options options)
{
    options.size = sizeof options;
    return fixture_inbox(f, "inbox", &options);
}

/* --- the attempts of what came again ---------------------------------------------------------- */

/* The second delivery is the second attempt, however often its commit fails by a conflict. */
static void conflicts_at_the_commit_of_a_redelivery_are_no_attempts(void **state)
{
    fixture *f = *state;
    semel_message message = redelivery("m");
    start_case v = {.times = IN_A_ROW, .status = SEMEL_ECONFLICT};
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.attempts_max = ATTEMPTS});
    OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, IN_A_ROW + 1);
    assert_int_equal(v.attempt, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void fail_in_a_row(fixture *f, semel_inbox *inbox, const char *id, semel_status status)
{
    semel_message message = redelivery(id);
    start_case v = {.times = IN_A_ROW, .status = status};
    while (v.times)
        OUTCOME(SEMEL_UNDECIDED, receive(status, inbox, &message, &v));
    OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, IN_A_ROW + 1);
    assert_int_equal(v.attempt, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void a_store_locked_at_the_commit_of_a_redelivery_is_no_attempt(void **state)
{
    fixture *f = *state;
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.attempts_max = ATTEMPTS});
    fail_in_a_row(f, inbox, "locked", SEMEL_EBUSY);
}

/* It does not answer when the failure is to be recorded, either. */
static void a_store_lost_at_the_commit_of_a_redelivery_is_no_attempt(void **state)
{
    fixture *f = *state;
    semel_message message = redelivery("lost");
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.attempts_max = ATTEMPTS});
    start_case v = {.times = IN_A_ROW, .commits = 2, .status = SEMEL_EUNAVAILABLE};
    while (v.times)
        OUTCOME(SEMEL_UNDECIDED, receive(SEMEL_EUNAVAILABLE, inbox, &message, &v));
    OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, IN_A_ROW + 1);
    assert_int_equal(v.attempt, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* The store answers others: then it is this message, which is counted, and given up on in the
 * end. */
static void a_message_that_takes_the_store_down_at_its_commit_is_counted(void **state)
{
    fixture *f = *state;
    semel_message message = text_message("poison", "a");
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.attempts_max = ATTEMPTS});
    start_case v = {.times = IN_A_ROW, .status = SEMEL_EUNAVAILABLE};
    for (int i = 1; i < ATTEMPTS; i++)
        OUTCOME(SEMEL_FAILED, receive(SEMEL_EHANDLER, inbox, &message, &v));
    OUTCOME(SEMEL_DEAD, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, ATTEMPTS);
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
}

/* It goes alone, before the others; and what becomes of these is not counted on it. */
static void the_same_in_a_batch(void **state)
{
    fixture *f = *state;
    semel_outcome out[3];
    semel_message one = text_message("1", "a"), again = redelivery("2"),
                  other = text_message("3", "a");
    const semel_message *const all[] = {&one, &again, &other};
    start_case v = {.times = IN_A_ROW, .status = SEMEL_ECONFLICT, .type = "again"};
    again.type = v.type;
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.attempts_max = ATTEMPTS});
    OK(semel_inbox_receive_batch(out, inbox, all, 3, work_in_vain, &v, &last_error));
    for (size_t i = 0; i < 3; i++)
        OUTCOME(SEMEL_PROCESSED, out[i]);
    assert_int_equal(v.runs, IN_A_ROW + 1);
    assert_int_equal(v.attempt, 2);
}

static semel_unit *claim(fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = NULL;
    semel_outcome out;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&out, unit, inbox, message, &last_error));
    OUTCOME(SEMEL_CLAIMED, out);
    assert_int_equal(semel_unit_attempt(unit), 2);
    return unit;
}

/* For a caller that takes the steps one by one. */
static void the_same_step_by_step(void **state)
{
    static const semel_status conflicts[] = {SEMEL_ECONFLICT, SEMEL_EBUSY};
    fixture *f = *state;
    semel_message message = redelivery("m");
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.attempts_max = ATTEMPTS});
    for (size_t i = 0; i < 2 * sizeof conflicts / sizeof *conflicts; i++) {
        semel_unit *unit = claim(f, inbox, &message);
        failing_store_break_commits(1, conflicts[i / 2]);
        FAILS(conflicts[i / 2], semel_unit_commit(unit, &last_error));
    }
    OK(semel_unit_commit(claim(f, inbox, &message), &last_error));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* --- the completion of a claim ---------------------------------------------------------------- */

static void check_done_so_often(fixture *f, int times)
{
    assert_int_equal(fixture_counters(f).unsent, times);
    if (f->place.has_sql)
        assert_int_equal(effect_count(&f->place, "effect").all, times);
}

static start_case make_claimer(fixture *f, const semel_message *mail)
{
    static effect writes;
    effect_build(&f->place, "effect");
    OK(effect_open(&writes, &f->place, f->store, "effect", &last_error)); /* opens nothing */
    return (start_case){
        .status = SEMEL_ECONFLICT,
        .writes = &writes,
        .work = {.outbox = fixture_outbox(f, "out"), .sends = mail, .result = "receipt"}};
}

static void a_conflict_at_the_completion_of_a_claim_repeats_the_completion_only(void **state)
{
    fixture *f = *state;
    semel_message message = text_message("m", "a"), mail = text_message("mail", "b");
    start_case v = make_claimer(f, &mail);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.mode = SEMEL_CLAIM});
    semel_test_fault(f->seam, "finish.stored", 1, SEMEL_ECONFLICT);
    OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, 1);
    check_done_so_often(f, 1);
    OUTCOME(SEMEL_DUPLICATE, receive(SEMEL_OK, inbox, &message, &v));
    check_done_so_often(f, 1);
}

static void so_do_as_many_as_are_tried_again(void **state)
{
    fixture *f = *state;
    semel_message message = text_message("m", "a"), mail = text_message("mail", "b");
    start_case v = make_claimer(f, &mail);
    v.times = 1;
    v.commits = IN_A_ROW;
    failing_store_open(f);
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.mode = SEMEL_CLAIM});
    OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, 1);
    check_done_so_often(f, 1);
}

/* Then the claim is left to end by itself, and the handler runs again: that is what claim mode
 * promises. */
static void a_claim_that_cannot_be_completed_leaves_nothing_half_done(void **state)
{
    enum { LEASE_MS = 60000 };
    fixture *f = *state;
    semel_message message = text_message("m", "a"), mail = text_message("mail", "b");
    start_case v = make_claimer(f, &mail);
    v.times = 1;
    v.commits = 10 * IN_A_ROW;
    failing_store_open(f);
    semel_inbox *inbox =
        inbox_with(f, (semel_inbox_options){.mode = SEMEL_CLAIM, .lease_ms = LEASE_MS});
    OUTCOME(SEMEL_IN_PROGRESS, receive(SEMEL_ECONFLICT, inbox, &message, &v));
    assert_true(last_error.retryable);
    assert_int_equal(v.runs, 1);
    check_done_so_often(f, 0);
    failing_store_break_commits(0, SEMEL_OK);
    semel_test_advance_ms(f->seam, LEASE_MS);
    OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
    assert_int_equal(v.runs, 2);
    check_done_so_often(f, 1);
}

/* Work that no transaction can undo is not begun anew: one delivery is one attempt, whatever the
 * handler calls it. */
static void a_conflict_that_a_claims_handler_reports_is_one_failure(void **state)
{
    fixture *f = *state;
    semel_message message = text_message("m", "a");
    scripted_handler todo = {.failures = IN_A_ROW, .failure = SEMEL_ECONFLICT};
    semel_inbox *inbox = inbox_with(f, (semel_inbox_options){.mode = SEMEL_CLAIM});
    RECEIVES(SEMEL_ECONFLICT, SEMEL_FAILED, inbox, &message, &todo);
    assert_int_equal(todo.runs, 1);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* --- giving up when the store is lost --------------------------------------------------------- */

enum { LEASE_OVER_MS = 60000 };

/* As many starts as there may be: each is counted and never ends. In transaction mode the first
 * delivery is one of them, which is not counted. */
static void start_in_vain(fixture *f, semel_inbox *inbox, int by_claims,
                          const semel_message *message, start_case *v)
{
    for (unsigned i = by_claims ? 0 : 1; i < ATTEMPTS; i++) {
        semel_test_fault(f->seam, by_claims ? "claim.committed" : "count.committed", 1,
                         SEMEL_EUNAVAILABLE);
        OUTCOME(SEMEL_UNDECIDED, receive(SEMEL_EUNAVAILABLE, inbox, message, v));
        semel_test_advance_ms(f->seam, LEASE_OVER_MS);
    }
}

static void give_up_in_vain(fixture *f, semel_inbox *inbox, const semel_message *message,
                            start_case *v)
{
    semel_test_fault(f->seam, "bury.stored", 1, SEMEL_EUNAVAILABLE);
    OUTCOME(SEMEL_UNDECIDED, receive(SEMEL_EUNAVAILABLE, inbox, message, v));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
    assert_int_equal(fixture_counters(f).failed, 0);
    semel_test_advance_ms(f->seam, LEASE_OVER_MS);
}

static void lose_the_store_while_giving_up(fixture *f, int by_claims)
{
    start_case v = {0};
    semel_message message = redelivery("m");
    semel_inbox *inbox =
        inbox_with(f, (semel_inbox_options){.mode = by_claims ? SEMEL_CLAIM : SEMEL_TRANSACTION,
                                            .attempts_max = ATTEMPTS});
    start_in_vain(f, inbox, by_claims, &message, &v);
    for (unsigned i = 0; i < IN_A_ROW; i++)
        give_up_in_vain(f, inbox, &message, &v);
    for (unsigned i = 0; i < 2; i++) {
        OUTCOME(SEMEL_DEAD, receive(SEMEL_OK, inbox, &message, &v));
        assert_int_equal(fixture_only_letter(f).attempts, ATTEMPTS);
    }
    assert_int_equal(v.runs, 0);
}

static void a_store_that_is_lost_while_giving_up_is_no_failure(void **state)
{
    lose_the_store_while_giving_up(*state, 0);
}

static void nor_is_it_in_claim_mode(void **state)
{
    lose_the_store_while_giving_up(*state, 1);
}

/* --- no old error ----------------------------------------------------------------------------- */

static void a_success_after_a_conflict_leaves_no_error(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        start_case v = {.times = 1, .status = SEMEL_ECONFLICT};
        semel_message message = text_message("1", "a"), stepwise = text_message("2", "a");
        semel_unit *unit;
        semel_outcome outcome;
        OUTCOME(SEMEL_PROCESSED, receive(SEMEL_OK, inbox, &message, &v));
        assert_int_equal(last_error.status, SEMEL_OK);
        assert_string_equal(last_error.text, "");
        if (inbox == inboxes[0])
            continue; /* the commit of a transaction is not repeated for its caller */
        OK(semel_unit_begin(&unit, f->store, &last_error));
        OK(semel_unit_claim(&outcome, unit, inbox, &stepwise, &last_error));
        failing_store_break_commits(1, SEMEL_ECONFLICT);
        OK(semel_unit_commit(unit, &last_error));
        assert_string_equal(last_error.text, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a success after a conflict leaves no error",
                a_success_after_a_conflict_leaves_no_error),
        ON_BOTH("conflicts at the commit of a redelivery are no attempts",
                conflicts_at_the_commit_of_a_redelivery_are_no_attempts),
        ON_BOTH("a store locked at the commit of a redelivery is no attempt",
                a_store_locked_at_the_commit_of_a_redelivery_is_no_attempt),
        ON_BOTH("a store lost at the commit of a redelivery is no attempt",
                a_store_lost_at_the_commit_of_a_redelivery_is_no_attempt),
        ON_BOTH("a message that takes the store down at its commit is counted",
                a_message_that_takes_the_store_down_at_its_commit_is_counted),
        ON_BOTH("the same in a batch", the_same_in_a_batch),
        ON_BOTH("the same step by step", the_same_step_by_step),
        ON_BOTH("a conflict at the completion of a claim repeats the completion only",
                a_conflict_at_the_completion_of_a_claim_repeats_the_completion_only),
        ON_BOTH("so do as many as are tried again", so_do_as_many_as_are_tried_again),
        ON_BOTH("a claim that cannot be completed leaves nothing half done",
                a_claim_that_cannot_be_completed_leaves_nothing_half_done),
        ON_BOTH("a conflict that a claim's handler reports is one failure",
                a_conflict_that_a_claims_handler_reports_is_one_failure),
        ON_BOTH("a store that is lost while giving up is no failure",
                a_store_that_is_lost_while_giving_up_is_no_failure),
        ON_BOTH("nor is it in claim mode", nor_is_it_in_claim_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
