/* Claim mode as its users see it: a copy in flight is waited for or reported, a lease is renewed or
 * lost, and what is sent goes out with the completion only. Waiting moves the fake clock and takes
 * no time. The state machine underneath is tested by the conformance suite. */
#include "support/fixture/fixture.h"

static semel_inbox *claim_inbox(fixture *f, const char *name, semel_inbox_options options)
{
    options.size = sizeof options;
    options.mode = SEMEL_CLAIM;
    return fixture_inbox(f, name, &options);
}

static semel_unit *claim(semel_store *store, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = NULL;
    semel_outcome outcome;
    OK(semel_unit_begin(&unit, store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, message, &last_error));
    OUTCOME(SEMEL_CLAIMED, outcome);
    return unit;
}

static int64_t now(fixture *f)
{
    return f->host->steady_ms(f->host->context);
}

/* --- in flight -------------------------------------------------------------------------------- */

static void a_copy_in_flight_is_reported_at_once(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox =
        claim_inbox(f, "inbox", (semel_inbox_options){.on_in_flight = SEMEL_IN_FLIGHT_REPORT});
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, inbox, &message);
    scripted_handler todo = {0};
    int64_t before = now(f);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &todo);
    assert_int_equal(last_error.retryable, 1);
    assert_int_equal(now(f), before);
    assert_int_equal(fixture_counters(f).in_progress, 1);
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
    assert_int_equal(todo.runs, 0);
}

static void a_copy_in_flight_is_waited_for_up_to_the_deadline(void **state)
{
    fixture *f = *state;
    semel_inbox *patient = claim_inbox(f, "inbox", (semel_inbox_options){0});
    semel_inbox *hasty = claim_inbox(f, "inbox", (semel_inbox_options){.wait_ms = 70});
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, patient, &message);
    int64_t before = now(f);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, hasty, &message, &(scripted_handler){0});
    assert_int_equal(now(f) - before, 70);
    before = now(f);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, patient, &message, &(scripted_handler){0});
    assert_int_equal(now(f) - before, 5000); /* the default */
    semel_unit_rollback(unit);
}

/* The other one is done while we wait: its seam's sleep is where that happens. */
static struct {
    semel_unit *unit;
    const semel_seam *seam;
    int sleeps;
} meanwhile;

static void finish_meanwhile(void *context, uint32_t ms)
{
    meanwhile.seam->sleep_ms(context, ms);
    if (++meanwhile.sleeps == 3)
        OK(semel_unit_commit(meanwhile.unit, &last_error));
}

static void a_copy_that_waits_gets_the_answer_of_the_first(void **state)
{
    fixture *f = *state;
    semel_seam seam = *f->host;
    semel_store_options store_options = {.size = sizeof store_options, .seam = &seam};
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_message message = text_message("1", "a");
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_outcome outcome;
    semel_result *result = NULL;
    scripted_handler todo = {0};
    seam.sleep_ms = finish_meanwhile;
    OK(semel_store_open(&store, f->place.url, &store_options, &last_error));
    OK(semel_inbox_open(&inbox, store, "waited", &options, &last_error));
    meanwhile.seam = f->host;
    meanwhile.sleeps = 0;
    meanwhile.unit = claim(store, inbox, &message);
    OK(semel_unit_set_result(meanwhile.unit, "theirs", 6, &last_error));
    OK(semel_inbox_receive_result(&outcome, &result, inbox, &message, scripted_handler_run, &todo,
                                  &last_error));
    OUTCOME(SEMEL_REPLAYED, outcome);
    BYTES_EQUAL(semel_str("theirs"), semel_result_bytes(result));
    assert_int_equal(todo.runs, 0);
    assert_int_equal(meanwhile.sleeps, 3);
    semel_result_free(result);
    semel_inbox_close(inbox);
    semel_store_close(store);
}

static void a_lease_that_ends_while_we_wait_is_taken_over(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = claim_inbox(f, "inbox", (semel_inbox_options){.lease_ms = 1000});
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    semel_unit *unit = claim(f->store, inbox, &message);
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    int64_t before = now(f);
    OK(semel_unit_send(unit, outbox, &event, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_in_range(now(f) - before, 1000, 1050);
    assert_int_equal(todo.attempt, 2);
    FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
    assert_int_equal(fixture_counters(f).unsent, 1);
}

/* An inbox whose mode was changed meets claims of before. */
static void transaction_mode_respects_a_live_claim(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {
        .size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT, .accept_changes = 1};
    semel_inbox *before = claim_inbox(f, "inbox", (semel_inbox_options){.lease_ms = 1000});
    semel_inbox *after = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, before, &message);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, after, &message, &todo);
    semel_test_advance_ms(f->seam, 1000);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, after, &message, &todo);
    FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
    assert_int_equal(todo.runs, 1);
}

/* In transaction mode too, where a store lets two units be open at once. */
static void an_open_transaction_is_reported_as_in_progress(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    options.on_in_flight = SEMEL_IN_FLIGHT_WAIT;
    options.wait_ms = 20;
    semel_inbox *waits = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, inbox, &message);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &(scripted_handler){0});
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, waits, &message, &(scripted_handler){0});
    semel_unit_rollback(unit);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, waits, &message, &(scripted_handler){0});
}

/* --- the lease -------------------------------------------------------------------------------- */

static void the_default_lease_is_thirty_seconds(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox =
        claim_inbox(f, "inbox", (semel_inbox_options){.on_in_flight = SEMEL_IN_FLIGHT_REPORT});
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, inbox, &message);
    semel_test_advance_ms(f->seam, 29999);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &(scripted_handler){0});
    semel_test_advance_ms(f->seam, 1);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
    semel_unit_rollback(unit);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &(scripted_handler){0});
}

static void a_renewed_lease_lasts_longer(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = claim_inbox(f, "inbox", (semel_inbox_options){.lease_ms = 1000});
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, inbox, &message);
    semel_test_advance_ms(f->seam, 999);
    OK(semel_unit_renew(unit, 0, &last_error)); /* the inbox's lease again */
    semel_test_advance_ms(f->seam, 999);
    OK(semel_unit_renew(unit, 5000, &last_error));
    semel_test_advance_ms(f->seam, 4999);
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &(scripted_handler){0});
}

static void a_lease_that_ended_cannot_be_renewed(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = claim_inbox(f, "inbox", (semel_inbox_options){.lease_ms = 1000});
    semel_message message = text_message("1", "a");
    semel_unit *unit = claim(f->store, inbox, &message);
    semel_test_advance_ms(f->seam, 1000);
    FAILS(SEMEL_ELOST, semel_unit_renew(unit, 0, &last_error));
    FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

static semel_status work_for_too_long(semel_unit *unit, const semel_message *message, void *context,
                                      semel_error *err)
{
    fixture *f = context;
    semel_test_advance_ms(f->seam, 2000);
    return semel_unit_set_result(unit, message->id.data, message->id.len, err);
}

static void a_handler_that_outlives_its_lease_completes_nothing(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = claim_inbox(f, "inbox", (semel_inbox_options){.lease_ms = 1000});
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    FAILS(SEMEL_ELOST,
          semel_inbox_receive(&outcome, inbox, &message, work_for_too_long, f, &last_error));
    OUTCOME(SEMEL_UNDECIDED, outcome);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

static semel_status work_and_renew(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    fixture *f = context;
    semel_status status = SEMEL_OK;
    (void)message;
    for (int i = 0; !status && i < 10; i++) {
        semel_test_advance_ms(f->seam, 900);
        status = semel_unit_renew(unit, 0, err);
    }
    return status;
}

static void a_handler_may_renew_for_as_long_as_it_works(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = claim_inbox(f, "inbox", (semel_inbox_options){.lease_ms = 1000});
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    OK(semel_inbox_receive(&outcome, inbox, &message, work_and_renew, f, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
}

/* --- no transaction is open while it works ---------------------------------------------------- */

static semel_status receive_another(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    semel_message other = text_message("inner", "b");
    semel_outcome outcome;
    (void)unit;
    (void)message;
    return semel_inbox_receive(&outcome, context, &other, scripted_handler_run,
                               &(scripted_handler){0}, err);
}

static void a_handler_can_use_the_store_meanwhile(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = claim_inbox(f, "inbox", (semel_inbox_options){0});
    semel_inbox *other = fixture_inbox(f, "other", NULL);
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    OK(semel_inbox_receive(&outcome, inbox, &message, receive_another, other, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    assert_int_equal(fixture_counters(f).processed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a copy in flight is reported at once", a_copy_in_flight_is_reported_at_once),
        ON_BOTH("a copy in flight is waited for up to the deadline",
                a_copy_in_flight_is_waited_for_up_to_the_deadline),
        ON_SQLITE("a copy that waits gets the answer of the first",
                  a_copy_that_waits_gets_the_answer_of_the_first),
        ON_BOTH("a lease that ends while we wait is taken over",
                a_lease_that_ends_while_we_wait_is_taken_over),
        ON_BOTH("transaction mode respects a live claim", transaction_mode_respects_a_live_claim),
        ON_MEMORY("an open transaction is reported as in progress",
                  an_open_transaction_is_reported_as_in_progress),
        ON_BOTH("the default lease is thirty seconds", the_default_lease_is_thirty_seconds),
        ON_BOTH("a renewed lease lasts longer", a_renewed_lease_lasts_longer),
        ON_BOTH("a lease that ended cannot be renewed", a_lease_that_ended_cannot_be_renewed),
        ON_BOTH("a handler that outlives its lease completes nothing",
                a_handler_that_outlives_its_lease_completes_nothing),
        ON_BOTH("a handler may renew for as long as it works",
                a_handler_may_renew_for_as_long_as_it_works),
        ON_BOTH("a handler can use the store meanwhile", a_handler_can_use_the_store_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
