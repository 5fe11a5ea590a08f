/* Claims: at most one live owner, and a stale owner can change nothing with any verb (P2).
 *
 * The last test here is a table: what became of the key after the lease of its first owner ended,
 * against every verb that the first owner may then try. */
#include "support/conformance/conformance_store.h"

#include <string.h>

enum { LEASE_MS = 30000 };

static semel_inbox *open_claims(store_fixture *f)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .lease_ms = LEASE_MS,
                                   .attempts_max = 3,
                                   .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    return open_inbox(f, "orders", &options);
}

static void a_live_claim_is_in_progress_for_others(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR"), other = text_message("m-2", "10 EUR");
    scripted_handler done = {0};
    semel_unit *unit = claim_message(f, inbox, &message);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    FAILS(SEMEL_EBUSY, semel_inbox_forget(inbox, &message, &last_error));
    assert_int_equal(done.runs, 0);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &other, &done);
    pass_almost(f, LEASE_MS);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
    assert_int_equal(counters_of(f).in_progress, 2);
}

/* P13: the owner of a claim may take an hour for the work, and no other unit waits for a
 * transaction of it. */
static void a_claim_keeps_no_transaction_open(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR"), other = text_message("m-2", "10 EUR");
    semel_unit *unit = claim_message(f, inbox, &message);
    semel_unit *beside = claim_message(f, inbox, &other);
    OK(semel_outbox_send(open_outbox(f, "mail"), &message, &last_error));
    OK(semel_unit_commit(beside, &last_error));
    OK(semel_unit_commit(unit, &last_error));
}

static void waiting_for_a_claim_ends_at_the_deadline(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .wait_ms = 5000};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    abandon_claim(f, inbox, &message);
    int64_t before = wall_of(f); /* which goes on by what semel sleeps, however long that takes */
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    assert_in_range(wall_of(f) - before, 5000, 5100);
    assert_int_equal(done.runs, 0);
}

static void a_copy_that_waits_beyond_the_lease_takes_over(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {
        .size = sizeof options, .lease_ms = LEASE_MS, .wait_ms = LEASE_MS + grains(f, 1000)};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    abandon_claim(f, inbox, &message);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    assert_int_equal(done.attempt, 2);
}

static void renewing_makes_the_lease_longer(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_unit *unit = claim_message(f, inbox, &message);
    for (int i = 0; i < 3; i++) {
        pass_almost(f, LEASE_MS);
        OK(semel_unit_renew(unit, 0, &last_error));
    }
    OK(semel_unit_renew(unit, 3600000, &last_error));
    pass_almost(f, 3600000);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
}

static void a_renewed_lease_ends_when_it_says(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_unit *unit = claim_message(f, inbox, &message);
    OK(semel_unit_renew(unit, 1000, &last_error));
    pass_ms(f, 1000);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
}

static void rolling_back_frees_the_key_at_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_unit_rollback(claim_message(f, inbox, &message));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    assert_int_equal(done.runs, 1);
}

/* Nothing was tried, so there is nothing to remember; an attempt that failed before is. */
static void a_claim_that_was_rolled_back_leaves_no_row(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler fails = {.failures = 1};
    for (int i = 0; i < 2; i++) {
        semel_unit_rollback(claim_message(f, inbox, &message));
        FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    }
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &fails);
    semel_unit_rollback(claim_message(f, inbox, &message));
    semel_unit *unit = claim_message(f, inbox, &message);
    assert_int_equal(semel_unit_attempt(unit), 2);
    semel_unit_rollback(unit);
    OK(semel_inbox_forget(inbox, &message, &last_error));
}

/* A handler that ends early because the program stops has not tried: no row, or the one that was
 * there. */
static void a_handler_that_stops_leaves_no_trace(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler stops = {.failures = 3, .failure = SEMEL_ESTOPPED}, fails = {.failures = 1};
    RECEIVES(SEMEL_ESTOPPED, SEMEL_UNDECIDED, inbox, &message, &stops);
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &fails);
    RECEIVES(SEMEL_ESTOPPED, SEMEL_UNDECIDED, inbox, &message, &stops);
    message.delivery = 2;
    RECEIVES(SEMEL_ESTOPPED, SEMEL_UNDECIDED, inbox, &message, &stops);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &stops);
    assert_int_equal(stops.attempt, 2);
    assert_int_equal(counters_of(f).failed, 1);
}

/* A plan that was not finished is not tried once more in the ordinary way. */
static void a_queued_handler_that_stops_is_called_once(void **state)
{
    store_fixture *f = *state;
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler stops = {.failures = 1, .failure = SEMEL_ESTOPPED};
    if (!store_has(f, LACKS_QUEUE))
        return;
    f->mode = SEMEL_QUEUED;
    semel_inbox *inbox = open_inbox(f, "queued", NULL);
    RECEIVES(SEMEL_ESTOPPED, SEMEL_UNDECIDED, inbox, &message, &stops);
    assert_int_equal(stops.runs, 1);
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &stops);
    assert_int_equal(stops.runs, 2);
}

static void what_a_claim_sends_and_answers_comes_with_its_commit(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler unused = {0};
    semel_unit *unit = claim_message(f, inbox, &message);
    OK(semel_unit_send(unit, outbox, &message, &last_error));
    OK(semel_unit_set_result(unit, "receipt", 7, &last_error));
    assert_int_equal(counters_of(f).unsent, 0);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(counters_of(f).unsent, 1);
    RECEIVES(SEMEL_OK, SEMEL_REPLAYED, inbox, &message, &unused);
}

/* At most once: a run that never came back is not repeated, nor is one that failed. */
static void with_one_attempt_the_handler_runs_at_most_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .attempts_max = 1};
    semel_inbox *inbox = open_inbox(f, "mail", &options);
    semel_message lost = text_message("m-1", "10 EUR"), failed = text_message("m-2", "10 EUR");
    scripted_handler never = {0}, failing = {.failures = 1};
    abandon_claim(f, inbox, &lost);
    pass_ms(f, LEASE_MS);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &lost, &never);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &failed, &failing);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &failed, &never);
    assert_int_equal(never.runs, 0);
    assert_int_equal(failing.runs, 1);
    assert_int_equal(count_letters(f), 2);
}

/* P9: the attempt is counted when it starts, so one that never comes back is counted, too. */
static void abandoned_claims_are_counted_until_it_is_dead(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler never = {0};
    for (int i = 0; i < 3; i++) {
        abandon_claim(f, inbox, &message);
        pass_ms(f, LEASE_MS);
    }
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &never);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &never);
    assert_int_equal(never.runs, 0);

    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    MESSAGE_EQUAL(&message, found.all[0].message);
    assert_int_equal(found.all[0].attempts, 3);
    assert_non_null(strstr(found.all[0].error, "3 attempts"));
    letters_free(&found);
}

/* The same in transaction mode, where a broker that counts its deliveries tells of the lost
 * ones. */
static void redeliveries_are_counted_when_they_start(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler never = {0};
    for (message.delivery = 2; message.delivery <= 3; message.delivery++) {
        semel_unit *unit = claim_message(f, inbox, &message);
        assert_int_equal(semel_unit_attempt(unit), message.delivery);
        semel_unit_rollback(unit); /* all that is left of a process that died */
    }
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &never);
    assert_int_equal(never.runs, 0);
    assert_int_equal(count_letters(f), 1);
}

static void a_redelivery_of_something_handled_is_a_duplicate(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    for (message.delivery = 2; message.delivery < 9; message.delivery++)
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
    assert_int_equal(done.runs, 1);
}

/* --- the stale owner -------------------------------------------------------------------------- */

/* What became of the key since. */
typedef enum since { NOTHING, TAKEN_OVER, RELEASED, HANDLED, DEAD, FORGOTTEN } since;

/* What the stale owner tries. */
typedef enum verb { COMMIT, FAIL, GIVE_UP, RENEW, ROLL_BACK } verb;

static void let_happen(store_fixture *f, since what, semel_inbox *inbox,
                       const semel_message *message, semel_unit **new_owner)
{
    scripted_handler done = {0}, failing = {.failures = 1},
                     hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    *new_owner = NULL;
    if (what == TAKEN_OVER)
        *new_owner = claim_message(f, inbox, message);
    else if (what == RELEASED)
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, message, &failing);
    else if (what == HANDLED)
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, message, &done);
    else if (what == DEAD)
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, message, &hopeless);
    else if (what == FORGOTTEN)
        OK(semel_inbox_forget(inbox, message, &last_error));
}

static void try_verb(verb what, semel_unit *stale)
{
    semel_error why = {0};
    semel_outcome outcome = SEMEL_UNDECIDED;
    switch (what) {
    case COMMIT:
        FAILS(SEMEL_ELOST, semel_unit_commit(stale, &last_error));
        break;
    case FAIL:
    case GIVE_UP: /* the failure of a stale owner changes nothing: not an error, not recorded */
        semel_fail(&why, what == GIVE_UP ? SEMEL_EGIVEUP : SEMEL_EHANDLER, "too late");
        OK(semel_unit_fail(&outcome, stale, &why, &last_error));
        assert_int_equal(outcome, SEMEL_FAILED);
        break;
    case RENEW:
        FAILS(SEMEL_ELOST, semel_unit_renew(stale, 0, &last_error));
        FAILS(SEMEL_ELOST, semel_unit_commit(stale, &last_error));
        break;
    case ROLL_BACK:
        semel_unit_rollback(stale);
        break;
    }
}

/* The state is what it was before the stale owner came. */
static void expect_unchanged(store_fixture *f, since what, semel_inbox *inbox,
                             const semel_message *message, semel_unit *new_owner)
{
    scripted_handler done = {0};
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(count_letters(f), what == DEAD);
    if (what == HANDLED) {
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, message, &done);
    } else if (what == DEAD) {
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, message, &done);
    } else if (what == TAKEN_OVER) {
        RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, message, &done);
        OK(semel_unit_renew(new_owner, 0, &last_error));
        OK(semel_unit_commit(new_owner, &last_error));
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, message, &done);
    } else {
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, message, &done);
        assert_int_equal(done.attempt, what == FORGOTTEN ? 1 : what == NOTHING ? 2 : 3);
    }
}

/* Every key that the schedule needs is new, so that all of it runs in one store. */
static void a_stale_owner_changes_nothing(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_claims(f);
    semel_outbox *outbox = store_has(f, LACKS_OUTBOX) ? open_outbox(f, "mail") : NULL;
    for (since happened = NOTHING; happened <= FORGOTTEN; happened++)
        for (verb tried = COMMIT; tried <= ROLL_BACK; tried++) {
            if (happened == DEAD && !store_has(f, LACKS_DEAD))
                continue;
            char id[] = {(char)('a' + happened), (char)('0' + tried), 0};
            semel_message message = text_message(id, "10 EUR");
            semel_unit *stale = claim_message(f, inbox, &message), *new_owner;
            if (outbox)
                OK(semel_unit_send(stale, outbox, &message, &last_error));
            if (store_has(f, LACKS_RESULTS))
                OK(semel_unit_set_result(stale, "stale", 5, &last_error));
            pass_ms(f, LEASE_MS);
            let_happen(f, happened, inbox, &message, &new_owner);
            try_verb(tried, stale);
            expect_unchanged(f, happened, inbox, &message, new_owner);
            if (happened == DEAD)
                OK(semel_dead_discard(f->base.store, only_letter(f), SEMEL_DISCARD_KEEP_DEAD,
                                      &last_error));
        }
}

const store_test store_claim_tests[] = {
    STORE_TEST_WITH(a_live_claim_is_in_progress_for_others, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_claim_keeps_no_transaction_open, IN_CLAIM_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(waiting_for_a_claim_ends_at_the_deadline, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_copy_that_waits_beyond_the_lease_takes_over, IN_CLAIM_MODE),
    STORE_TEST_WITH(renewing_makes_the_lease_longer, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_renewed_lease_ends_when_it_says, IN_CLAIM_MODE),
    STORE_TEST_WITH(rolling_back_frees_the_key_at_once, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_claim_that_was_rolled_back_leaves_no_row, IN_CLAIM_MODE),
    STORE_TEST(a_handler_that_stops_leaves_no_trace),
    STORE_TEST_WITH(a_queued_handler_that_stops_is_called_once, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_a_claim_sends_and_answers_comes_with_its_commit,
                    IN_CLAIM_MODE | NEEDS_OUTBOX | NEEDS_RESULTS),
    STORE_TEST_WITH(with_one_attempt_the_handler_runs_at_most_once, IN_CLAIM_MODE | NEEDS_DEAD),
    STORE_TEST_WITH(abandoned_claims_are_counted_until_it_is_dead, IN_CLAIM_MODE | NEEDS_DEAD),
    STORE_TEST_WITH(redeliveries_are_counted_when_they_start, IN_TRANSACTION_MODE | NEEDS_DEAD),
    STORE_TEST(a_redelivery_of_something_handled_is_a_duplicate),
    STORE_TEST_WITH(a_stale_owner_changes_nothing, IN_CLAIM_MODE),
    {NULL, NULL, 0}};
