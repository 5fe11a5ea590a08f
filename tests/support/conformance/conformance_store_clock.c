/* The store's clock when the host's is set, and when the host restarts: a key is never forgotten
 * early, nothing stands still, a lease is as long as it was. */
#include "support/conformance/conformance_store.h"

#define HOUR_MS INT64_C(3600000)
#define DAY_MS  (24 * HOUR_MS)
#define YEAR_MS (365 * DAY_MS)

static const int64_t jumps_ms[] = {HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, YEAR_MS, -YEAR_MS};
enum { JUMPS = sizeof jumps_ms / sizeof *jumps_ms };

static semel_inbox *open_week(store_fixture *f)
{
    semel_inbox_options options = {.size = sizeof options,
                                   .retention_ms = (uint64_t)(7 * DAY_MS),
                                   .lease_ms = 30000,
                                   .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    return open_inbox(f, "orders", &options);
}

static size_t sweep(semel_inbox *inbox)
{
    size_t swept = 0;
    int more = 1;
    OK(semel_inbox_sweep(&swept, &more, inbox, 1000, &last_error));
    assert_false(more);
    return swept;
}

static void the_clock_moves_with_time(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_week(f);
    int64_t before = now_of(f);
    (void)inbox;
    pass_ms(f, grains(f, 12345));
    IS_ABOUT(before + grains(f, 12345), f, now_of(f));
}

static void the_clock_does_not_follow_the_hosts(void **state)
{
    store_fixture *f = *state;
    (void)open_week(f);
    int64_t before = now_of(f);
    for (size_t i = 0; i < JUMPS; i++) {
        semel_test_jump_ms(f->base.seam, jumps_ms[i]);
        IS_ABOUT(before, f, now_of(f));
    }
}

/* Each jump for itself, and the sum of all before it: nothing is swept early, and nothing late. */
static void a_jump_of_the_hosts_clock_sweeps_neither_early_nor_late(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_week(f);
    scripted_handler done = {0};
    for (size_t i = 0; i < JUMPS; i++) {
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
        semel_test_jump_ms(f->base.seam, jumps_ms[i]);
        assert_int_equal(sweep(inbox), 0);
        RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
        pass_almost(f, 7 * DAY_MS + 1);
        assert_int_equal(sweep(inbox), 0);
        pass_grain(f);
        assert_int_equal(sweep(inbox), 1);
    }
}

static void a_jump_of_the_hosts_clock_does_not_change_a_lease(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_week(f);
    for (size_t i = 0; i < JUMPS; i++) {
        char id[] = {(char)('a' + i), 0};
        semel_message message = text_message(id, "10 EUR");
        scripted_handler done = {0};
        semel_unit *unit = claim_message(f, inbox, &message);
        semel_test_jump_ms(f->base.seam, jumps_ms[i]);
        pass_almost(f, 30000);
        RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
        pass_grain(f);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
        FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
    }
}

/* A message that waits to be sent, or to be tried again, waits as long as it was told. */
static void a_jump_of_the_hosts_clock_does_not_change_a_delay(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), NULL);
    for (size_t i = 0; i < JUMPS; i++) {
        semel_message message = text_message("", "paid");
        message.delay_ms = grains(f, 10000);
        OK(semel_outbox_send(outbox, &message, &last_error));
        semel_test_jump_ms(f->base.seam, jumps_ms[i]);
        pass_almost(f, message.delay_ms);
        assert_int_equal(relay_once(relay), 0);
        pass_grain(f);
        assert_int_equal(relay_once(relay), 1);
    }
}

/* A process that starts after the jump agrees with those that were there before it. */
static void a_new_process_agrees_on_the_time(void **state)
{
    store_fixture *f = *state;
    (void)open_week(f);
    int64_t before = now_of(f);
    semel_test_jump_ms(f->base.seam, YEAR_MS);
    pass_ms(f, 5000);
    reopen(f);
    (void)open_week(f);
    IS_ABOUT(before + 5000, f, now_of(f));
    semel_test_jump_ms(f->base.seam, -2 * YEAR_MS);
    pass_ms(f, 5000);
    reopen(f);
    (void)open_week(f);
    IS_ABOUT(before + 10000, f, now_of(f));
}

static void two_handles_agree_on_the_time(void **state)
{
    store_fixture *f = *state;
    (void)open_week(f);
    semel_test_jump_ms(f->base.seam, -YEAR_MS);
    semel_store *other = open_second_handle(f);
    (void)open_inbox_on(f, other, "orders", NULL);
    pass_ms(f, 1000);
    int64_t now = now_of(f);
    IS_ABOUT(now, f, now_on(f, other));
}

/* --- restarts --------------------------------------------------------------------------------- */

/* The host is down for a while, then everything is opened again. */
static semel_inbox *restart(store_fixture *f, int64_t off_ms)
{
    close_all(f);
    semel_test_reboot(f->base.seam, off_ms);
    reopen(f);
    return open_week(f);
}

static void time_goes_on_while_the_host_is_off(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_week(f);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    int64_t before = now_of(f);
    inbox = restart(f, 3 * DAY_MS);
    assert_int_equal(now_of(f), before + 3 * DAY_MS);
    assert_int_equal(sweep(inbox), 0);
    inbox = restart(f, 4 * DAY_MS);
    assert_int_equal(sweep(inbox), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &done);
    inbox = restart(f, 1);
    assert_int_equal(sweep(inbox), 1);
}

/* A claim that was open when the power went is free after its lease, not before and not never. */
static void a_lease_ends_while_the_host_is_off(void **state)
{
    store_fixture *f = *state;
    semel_message message = text_message("m-1", "10 EUR");
    scripted_handler done = {0};
    abandon_claim(f, open_week(f), &message);
    semel_inbox *inbox = restart(f, 10000);
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &message, &done);
    inbox = restart(f, 20000);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
}

/* A device without a battery wakes up in 1970 and learns the time later. */
static void a_host_that_wakes_up_in_1970_forgets_nothing(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_week(f);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "before", &done);
    int64_t before = now_of(f);

    inbox = restart(f, -before);
    assert_in_range(now_of(f), before, before + 1000);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "before", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "meanwhile", &done);
    pass_ms(f, 3 * DAY_MS); /* time goes on all the same */
    assert_in_range(now_of(f), before + 3 * DAY_MS, before + 3 * DAY_MS + 1000);

    semel_test_jump_ms(f->base.seam, before); /* the network is there: the clock is set right */
    assert_int_equal(sweep(inbox), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "before", &done);
    pass_ms(f, 4 * DAY_MS + 1001);
    assert_int_equal(sweep(inbox), 2);
}

/* Two restarts: right, wrong, right again. The second must not count the years twice. */
static void a_host_that_was_in_1970_and_is_right_again_goes_on(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_week(f);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "before", &done);
    int64_t before = now_of(f);
    inbox = restart(f, -before);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "meanwhile", &done);
    inbox = restart(f, before + DAY_MS);
    assert_in_range(now_of(f), before + DAY_MS, before + DAY_MS + 1000);
    assert_int_equal(sweep(inbox), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "before", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "meanwhile", &done);
    pass_ms(f, 7 * DAY_MS);
    assert_int_equal(sweep(inbox), 2);
}

const store_test store_clock_tests[] = {
    STORE_TEST_WITH(the_clock_moves_with_time, IN_ANY_MODE),
    STORE_TEST_WITH(the_clock_does_not_follow_the_hosts, IN_ANY_MODE),
    STORE_TEST_WITH(a_jump_of_the_hosts_clock_sweeps_neither_early_nor_late,
                    IN_ANY_MODE | NEEDS_SWEEP),
    STORE_TEST_WITH(a_jump_of_the_hosts_clock_does_not_change_a_lease, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_jump_of_the_hosts_clock_does_not_change_a_delay, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(a_new_process_agrees_on_the_time,
                    IN_ANY_MODE | NEEDS_KEEPS | NEEDS_STORED_CLOCK),
    STORE_TEST_WITH(two_handles_agree_on_the_time, IN_ANY_MODE | NEEDS_SHARED),
    STORE_TEST_WITH(time_goes_on_while_the_host_is_off,
                    IN_ANY_MODE | NEEDS_HOST_CLOCK | NEEDS_KEEPS | NEEDS_SWEEP),
    STORE_TEST_WITH(a_lease_ends_while_the_host_is_off,
                    IN_CLAIM_MODE | NEEDS_HOST_CLOCK | NEEDS_KEEPS),
    STORE_TEST_WITH(a_host_that_wakes_up_in_1970_forgets_nothing, IN_ANY_MODE | NEEDS_HOST_CLOCK |
                                                                      NEEDS_KEEPS | NEEDS_SWEEP |
                                                                      NEEDS_STORED_CLOCK),
    STORE_TEST_WITH(a_host_that_was_in_1970_and_is_right_again_goes_on,
                    IN_ANY_MODE | NEEDS_HOST_CLOCK | NEEDS_KEEPS | NEEDS_SWEEP |
                        NEEDS_STORED_CLOCK),
    {NULL, NULL, 0}};
