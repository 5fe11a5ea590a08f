/* Retention (P11, P12): what is old goes, in bounded steps; what is not old, not finished or not
 * sent stays. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

#define DAY_MS  INT64_C(86400000)
#define YEAR_MS (365 * DAY_MS)

static semel_inbox *open_with_retention(store_fixture *f, uint64_t retention_ms)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .retention_ms = retention_ms,
                                   .lease_ms = grains(f, 30000),
                                   .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    return open_inbox(f, "orders", &options);
}

/* A whole round, in steps of `rows`: how many it removed. No step may look at more than it was
 * told. */
static size_t sweep_round(semel_inbox *inbox, uint32_t rows)
{
    size_t total = 0, swept;
    int more = 1;
    for (int steps = 0; more; steps++) {
        assert_true(steps < 1000);
        OK(semel_inbox_sweep(&swept, &more, inbox, rows, &last_error));
        assert_true(swept <= (rows ? rows : SEMEL_SWEEP_BATCH));
        total += swept;
    }
    return total;
}

static void receive_many(semel_inbox *inbox, int from, int to)
{
    scripted_handler done = {0};
    for (int i = from; i < to; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &done);
    }
}

/* For each retention: the last moment at which a key must be known, and the first at which it may
 * go. */
static void a_key_is_remembered_for_its_retention_and_no_longer(void **state)
{
    static const uint64_t retentions_ms[] = {1,
                                             1000,
                                             604800000 /* 7 days */,
                                             2160000000 /* 25 days: beyond 2^31 ms */,
                                             4320000000 /* 50 days: beyond 2^32 ms */,
                                             (uint64_t)(10 * YEAR_MS)};
    store_fixture *f = *state;
    for (size_t i = 0; i < sizeof retentions_ms / sizeof *retentions_ms; i++) {
        char name[16], id[16];
        uint64_t shortest = grains(f, 1);
        uint64_t retention = retentions_ms[i] > shortest ? retentions_ms[i] : shortest;
        semel_inbox_options options = {.size = sizeof options, .retention_ms = retention};
        (void)snprintf(name, sizeof name, "in%zu", i);
        (void)snprintf(id, sizeof id, "m%zu", i);
        semel_inbox *inbox = open_inbox(f, name, &options);
        scripted_handler done = {0};
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &done);
        assert_int_equal(sweep_round(inbox, 100), 0);
        pass_almost(f, (int64_t)retention + 1);
        assert_int_equal(sweep_round(inbox, 100), 0);
        RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, id, &done);
        pass_grain(f);
        assert_int_equal(sweep_round(inbox, 100), 1);
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &done);
    }
}

static void a_retention_of_zero_forgets_at_the_next_sweep(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, SEMEL_RETENTION_NONE);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    assert_int_equal(sweep_round(inbox, 100), 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
}

/* It reaches back beyond 1970: that must not come out as "everything". */
static void a_retention_of_a_hundred_years_is_kept(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, (uint64_t)(100 * YEAR_MS));
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    assert_int_equal(sweep_round(inbox, 100), 0);
    pass_ms(f, 99 * YEAR_MS);
    assert_int_equal(sweep_round(inbox, 100), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    if (f->quirks->flags & STORE_SERVER_CLOCK)
        return; /* it cannot be moved to the year 2070, and before that nothing is so old */
    pass_ms(f, 2 * YEAR_MS);
    assert_int_equal(sweep_round(inbox, 100), 1);
}

/* As a signed number it would be less than nothing, and everything would be older than that. */
static void a_retention_beyond_all_time_is_kept(void **state)
{
    static const uint64_t retentions_ms[] = {(uint64_t)INT64_MAX, (uint64_t)INT64_MAX + 1,
                                             UINT64_MAX - 2};
    store_fixture *f = *state;
    for (size_t i = 0; i < sizeof retentions_ms / sizeof *retentions_ms; i++) {
        char id[] = {(char)('a' + i), 0};
        semel_inbox *inbox = open_with_retention(f, retentions_ms[i]);
        scripted_handler done = {0};
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &done);
        pass_ms(f, YEAR_MS);
        assert_int_equal(sweep_round(inbox, 100), 0);
        RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, id, &done);
    }
}

static void forever_is_forever(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, SEMEL_RETENTION_FOREVER);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    pass_ms(f, 1000 * YEAR_MS);
    assert_int_equal(sweep_round(inbox, 100), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
}

static void a_sweep_goes_in_bounded_steps_to_its_end(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    receive_many(inbox, 0, 130);
    pass_ms(f, grains(f, 1001));
    receive_many(inbox, 130, 150);
    assert_int_equal(sweep_round(inbox, 7), 130);
    assert_int_equal(sweep_round(inbox, 7), 0);
    assert_int_equal(counters_of(f).swept, 130);
    pass_ms(f, grains(f, 1001));
    assert_int_equal(sweep_round(inbox, 0), 20);
    assert_int_equal(sweep_round(inbox, 1), 0);
}

/* New keys come while a round is under way, before and behind where it stands. */
static void a_sweep_does_not_mind_being_overtaken(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    size_t total = 0, swept;
    int more = 1;
    receive_many(inbox, 1000, 1060);
    pass_ms(f, grains(f, 1001));
    for (int i = 0; more; i++) {
        char before[16], behind[16];
        scripted_handler done = {0};
        assert_true(i < 200);
        (void)snprintf(before, sizeof before, "a%d", i);
        (void)snprintf(behind, sizeof behind, "z%d", i);
        if (i < 5) {
            RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, before, &done);
            RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, behind, &done);
        }
        OK(semel_inbox_sweep(&swept, &more, inbox, 10, &last_error));
        total += swept;
    }
    assert_int_equal(total, 60);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "a0", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "z4", &done);
}

static void two_sweepers_do_each_other_no_harm(void **state)
{
    store_fixture *f = *state;
    semel_inbox *one = open_with_retention(f, grains(f, 1000));
    semel_inbox *other = open_with_retention(f, grains(f, 1000));
    size_t total = 0, swept;
    int one_more = 1, other_more = 1;
    receive_many(one, 0, 100);
    pass_ms(f, grains(f, 1001));
    receive_many(one, 100, 110);
    for (int i = 0; (one_more || other_more) && i < 100; i++) {
        OK(semel_inbox_sweep(&swept, &one_more, one, 8, &last_error));
        total += swept;
        OK(semel_inbox_sweep(&swept, &other_more, other, 5, &last_error));
        total += swept;
    }
    total += sweep_round(one, 100);
    assert_int_equal(total, 100);
    assert_int_equal(sweep_round(other, 100), 0);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, other, "105", &done);
}

static void sweepers_on_two_handles_do_each_other_no_harm(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .retention_ms = grains(f, 1000)};
    semel_inbox *one = open_inbox(f, "orders", &options);
    semel_inbox *other = open_inbox_on(f, open_second_handle(f), "orders", &options);
    size_t swept, again;
    int more;
    receive_many(one, 0, 20);
    pass_ms(f, grains(f, 1001));
    OK(semel_inbox_sweep(&swept, &more, one, 12, &last_error));
    OK(semel_inbox_sweep(&again, &more, other, 12, &last_error));
    assert_int_equal(swept + again + sweep_round(one, 100) + sweep_round(other, 100), 20);
}

static void a_sweep_is_of_its_own_inbox_only(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options brief = {.size = sizeof brief, .retention_ms = 1};
    semel_inbox *one = open_inbox(f, "brief", &brief), *other = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, one, "m-1", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, other, "m-1", &done);
    pass_ms(f, 1000);
    assert_int_equal(sweep_round(one, 100), 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, other, "m-1", &done);
}

/* Age counts from the last change, not from the first (P11): a key whose work took its time is not
 * old. */
static void age_counts_from_the_last_change(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    scripted_handler failing = {.failures = 1};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &failing);
    pass_ms(f, grains(f, 900));
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &failing);
    pass_ms(f, grains(f, 900));
    assert_int_equal(sweep_round(inbox, 100), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &failing);
    pass_ms(f, grains(f, 101));
    assert_int_equal(sweep_round(inbox, 100), 1);
}

/* P8: a key that failed and never came again is swept in the end like any other; a dead one stays
 * as long as its letter. */
static void failed_keys_are_swept_and_dead_ones_stay(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    scripted_handler failing = {.failures = 1},
                     hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "failed", &failing);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "dead", &hopeless);
    pass_ms(f, grains(f, 1001));
    assert_int_equal(sweep_round(inbox, 100), 1);
    assert_int_equal(count_letters(f), 1);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "dead", &hopeless);
    assert_int_equal(hopeless.runs, 1);
}

static void a_live_claim_is_not_swept(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1));
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    semel_unit *unit = claim_message(f, inbox, &message);
    pass_almost(f, grains(f, 30000));
    assert_int_equal(sweep_round(inbox, 100), 0);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    OK(semel_unit_renew(unit, 0, &last_error));
    pass_almost(f, grains(f, 30000));
    assert_int_equal(sweep_round(inbox, 100), 0);
    OK(semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &done);
    pass_ms(f, grains(f, 2));
    assert_int_equal(sweep_round(inbox, 100), 1);
}

/* P2: its fence is gone with the row, and still the stale owner gets nothing done. */
static void an_abandoned_claim_is_swept_and_its_owner_stays_stale(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    semel_message message = text_message("m-1", "10 EUR");
    semel_unit *unit = claim_message(f, inbox, &message);
    pass_ms(f, grains(f, 30000));
    assert_int_equal(sweep_round(inbox, 100), 1);
    FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
    scripted_handler done = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
}

typedef struct late_copy {
    semel_inbox *inbox;
    scripted_handler done;
    semel_outcome outcome;
    semel_status status;
} late_copy;

static void receive_late_copy(store_fixture *f, const char *point)
{
    late_copy *self = f->passing_context;
    semel_message message = text_message("m-1", "10 EUR");
    if (strcmp(point, "sweep.looked") != 0 || self->done.runs)
        return;
    self->status = semel_inbox_receive(&self->outcome, self->inbox, &message, scripted_handler_run,
                                       &self->done, NULL);
}

/* It failed long ago, the sweep has found it, and then it comes again and is handled: the sweep
 * must look twice, or the copy after that is handled, too. */
static void what_is_handled_after_the_sweep_looked_stays(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    late_copy late = {.inbox = open_inbox_on(f, open_second_handle(f), "orders", NULL)};
    scripted_handler failing = {.failures = 1};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &failing);
    pass_ms(f, grains(f, 1001));
    f->passing_context = &late;
    f->passing = receive_late_copy;
    assert_int_equal(sweep_round(inbox, 100), 0);
    OK(late.status);
    assert_int_equal(late.outcome, SEMEL_PROCESSED);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &failing);
}

static void an_unsent_message_is_never_swept(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_message mail = text_message("mail-1", "paid");
    scripted_handler done = {.outbox = outbox, .sends = &mail};
    semel_inbox *inbox = open_with_retention(f, SEMEL_RETENTION_NONE);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    pass_ms(f, 100 * YEAR_MS);
    assert_int_equal(sweep_round(inbox, 100), 1);
    assert_int_equal(counters_of(f).unsent, 1);
    assert_int_equal(relay_once(open_relay(f, outbox, open_recorder(f), NULL)), 1);
}

static void a_copy_that_comes_after_the_sweep_is_stale_if_its_age_is_known(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    semel_message dated = text_message("dated", "10 EUR"), undated = text_message("undated", "");
    scripted_handler done = {0};
    dated.time_ms = wall_of(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &dated, &done);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &undated, &done);
    pass_ms(f, grains(f, 1001));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &dated,
             &done); /* late, but its marker is still there */
    assert_int_equal(sweep_round(inbox, 100), 2);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &dated, &done);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &undated, &done);
    assert_int_equal(done.runs, 3);
}

static void handle_and_forget(store_fixture *f, const char *point)
{
    late_copy *self = f->passing_context;
    semel_message message = text_message("m-1", "10 EUR");
    size_t swept;
    int more = 1;
    if (strcmp(point, "count.committed") != 0 || self->done.runs)
        return;
    self->status = semel_inbox_receive(&self->outcome, self->inbox, &message, scripted_handler_run,
                                       &self->done, NULL);
    pass_ms(f, grains(f, 1001));
    while (more && !self->status)
        self->status = semel_inbox_sweep(&swept, &more, self->inbox, 100, NULL);
}

/* Its process stood still between the count of the attempt and the work: the count is no proof that
 * the key was not forgotten since. */
static void what_was_counted_then_handled_and_forgotten_is_stale(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_retention(f, grains(f, 1000));
    semel_inbox_options options = {.size = sizeof options, .retention_ms = grains(f, 1000)};
    late_copy other = {.inbox = open_inbox_on(f, open_second_handle(f), "orders", &options)};
    semel_message again = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    again.time_ms = wall_of(f);
    again.delivery = 2;
    f->passing_context = &other;
    f->passing = handle_and_forget;
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &again, &done);
    OK(other.status);
    assert_int_equal(other.outcome, SEMEL_PROCESSED);
    assert_int_equal(other.done.runs, 1);
    assert_int_equal(done.runs, 0);
}

const store_test store_sweep_tests[] = {
    STORE_TEST(a_key_is_remembered_for_its_retention_and_no_longer),
    STORE_TEST(a_retention_of_zero_forgets_at_the_next_sweep),
    STORE_TEST(a_retention_of_a_hundred_years_is_kept),
    STORE_TEST(a_retention_beyond_all_time_is_kept),
    STORE_TEST(forever_is_forever),
    STORE_TEST_WITH(a_sweep_goes_in_bounded_steps_to_its_end, IN_ANY_MODE),
    STORE_TEST_WITH(a_sweep_does_not_mind_being_overtaken, IN_ANY_MODE),
    STORE_TEST_WITH(two_sweepers_do_each_other_no_harm, IN_ANY_MODE),
    STORE_TEST_WITH(sweepers_on_two_handles_do_each_other_no_harm, IN_ANY_MODE | NEEDS_SHARED),
    STORE_TEST_WITH(a_sweep_is_of_its_own_inbox_only, IN_ANY_MODE),
    STORE_TEST(age_counts_from_the_last_change),
    STORE_TEST_WITH(failed_keys_are_swept_and_dead_ones_stay, NEEDS_DEAD),
    STORE_TEST_WITH(a_live_claim_is_not_swept, IN_CLAIM_MODE),
    STORE_TEST_WITH(an_abandoned_claim_is_swept_and_its_owner_stays_stale, IN_CLAIM_MODE),
    STORE_TEST_WITH(what_is_handled_after_the_sweep_looked_stays, NEEDS_SHARED),
    STORE_TEST_WITH(an_unsent_message_is_never_swept, NEEDS_OUTBOX),
    STORE_TEST(a_copy_that_comes_after_the_sweep_is_stale_if_its_age_is_known),
    STORE_TEST_WITH(what_was_counted_then_handled_and_forgotten_is_stale,
                    IN_TRANSACTION_MODE | NEEDS_SHARED | NEEDS_NOTES),
    {NULL, NULL, 0}};
