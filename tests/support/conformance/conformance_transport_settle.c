/* Settling (P7): every delivery ends by its own verdict and by no other. */
#include "support/conformance/conformance_transport.h"

#include <string.h>
#include <time.h>

static void what_is_acknowledged_is_gone(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "m-1", NULL);
    settle(f, take_id(f, "m-1").tag, SEMEL_VERDICT_ACK, 0);
    pass_broker_ms(f, 86400000);
    expect_nothing(f);
}

static void what_is_rejected_is_gone(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "m-1", NULL);
    settle(f, take_id(f, "m-1").tag, SEMEL_VERDICT_REJECT, 0);
    pass_broker_ms(f, 86400000);
    expect_nothing(f);
}

static void what_is_out_is_not_given_to_another(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "m-1", NULL);
    (void)take_id(f, "m-1");
    expect_nothing(f);
    publish_id(f, "m-2", NULL);
    (void)take_id(f, "m-2");
    expect_nothing(f);
}

static void what_is_retried_comes_back_whole(void **state)
{
    transport_fixture *f = *state;
    const semel_message *message = full_message();
    semel_delivery delivery;
    publish_all(f, &message, 1);
    for (uint32_t time = 1; time <= 3; time++) {
        take(f, &delivery, 1);
        expect_delivery(f, message, delivery.message, time);
        settle(f, delivery.tag, time < 3 ? SEMEL_VERDICT_RETRY : SEMEL_VERDICT_ACK, 0);
    }
    expect_nothing(f);
}

static void a_retry_comes_back_not_before_its_delay(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "m-1", NULL);
    settle(f, take_id(f, "m-1").tag, SEMEL_VERDICT_RETRY, 60000);
    pass_broker_ms(f, 60000 - (int64_t)broker_grain_ms(f));
    expect_nothing(f);
    pass_broker_ms(f, broker_grain_ms(f));
    expect_nth(f, take_id(f, "m-1").message, 2);
}

static void a_retry_holds_up_no_other_message(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "1", NULL);
    publish_id(f, "2", NULL);
    settle(f, take_id(f, "1").tag, SEMEL_VERDICT_RETRY, 60000);
    settle(f, take_id(f, "2").tag, SEMEL_VERDICT_ACK, 0);
    publish_id(f, "3", NULL);
    settle(f, take_id(f, "3").tag, SEMEL_VERDICT_ACK, 0);
    expect_nothing(f);
    pass_broker_ms(f, 60000);
    (void)take_id(f, "1");
}

/* Several delays at once end each at its own time, whatever the order in which they were asked
 * for. */
static void each_retry_has_its_own_delay(void **state)
{
    transport_fixture *f = *state;
    static const char *const ids[] = {"1", "2", "3"};
    semel_delivery out[3];
    for (int i = 0; i < 3; i++)
        publish_id(f, ids[i], NULL);
    take(f, out, 3);
    const semel_delivery_settlement settles[] = {{out[0].tag, SEMEL_VERDICT_RETRY, 180000},
                                                 {out[1].tag, SEMEL_VERDICT_RETRY, 60000},
                                                 {out[2].tag, SEMEL_VERDICT_RETRY, 120000}};
    OK(semel_transport_settle(f->transport, settles, 3, &last_error));
    static const char *const order[] = {"2", "3", "1"};
    for (int i = 0; i < 3; i++) {
        expect_nothing(f);
        pass_broker_ms(f, 60000);
        settle(f, take_id(f, order[i]).tag, SEMEL_VERDICT_ACK, 0);
    }
}

/* P7: never cumulatively. Of four that are out the third is acknowledged, then the first sent
 * back. */
static void a_verdict_holds_for_its_own_delivery_only(void **state)
{
    transport_fixture *f = *state;
    static const char *const ids[] = {"1", "2", "3", "4"};
    semel_delivery out[4];
    for (int i = 0; i < 4; i++)
        publish_id(f, ids[i], "g");
    take(f, out, 4);
    settle(f, out[2].tag, SEMEL_VERDICT_ACK, 0);
    expect_nothing(f);
    settle(f, out[0].tag, SEMEL_VERDICT_RETRY, 0);
    semel_delivery again = take_id(f, "1");
    expect_nothing(f);
    const semel_delivery_settlement rest[] = {{out[3].tag, SEMEL_VERDICT_REJECT, 0},
                                              {again.tag, SEMEL_VERDICT_ACK, 0},
                                              {out[1].tag, SEMEL_VERDICT_RETRY, 0}};
    OK(semel_transport_settle(f->transport, rest, 3, &last_error));
    (void)take_id(f, "2");
    expect_nothing(f);
}

static void an_unknown_tag_is_refused_and_the_others_are_settled(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "1", NULL);
    publish_id(f, "2", NULL);
    semel_delivery out[2];
    take(f, out, 2);
    const semel_delivery_settlement settles[] = {
        {out[0].tag, SEMEL_VERDICT_ACK, 0},
        {out[0].tag + out[1].tag + 1000, SEMEL_VERDICT_ACK, 0},
        {out[1].tag, SEMEL_VERDICT_RETRY, 0}};
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->transport, settles, 3, &last_error));
    (void)take_id(f, "2");
    expect_nothing(f);
}

static void a_delivery_is_settled_once(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "m-1", NULL);
    semel_delivery_settlement twice = {take_id(f, "m-1").tag, SEMEL_VERDICT_RETRY, 0};
    OK(semel_transport_settle(f->transport, &twice, 1, &last_error));
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->transport, &twice, 1, &last_error));
    semel_delivery again = take_id(f, "m-1");
    assert_true(again.tag != twice.tag); /* a tag is never reused */
    twice.verdict = SEMEL_VERDICT_ACK;
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->transport, &twice, 1, &last_error));
    settle(f, again.tag, SEMEL_VERDICT_ACK, 0);
    expect_nothing(f);
}

/* A handler may read its delivery until it is settled, whatever else is received meanwhile. */
static void a_delivery_stays_readable_until_it_is_settled(void **state)
{
    transport_fixture *f = *state;
    const semel_message *message = full_message();
    semel_delivery first, others[20];
    publish_all(f, &message, 1);
    take(f, &first, 1);
    for (int i = 0; i < 20; i++)
        publish_id(f, "other", NULL);
    take(f, others, 20);
    for (int i = 0; i < 20; i++)
        settle(f, others[i].tag, i % 2 ? SEMEL_VERDICT_ACK : SEMEL_VERDICT_REJECT, 0);
    MESSAGE_EQUAL(message, first.message);
    settle(f, first.tag, SEMEL_VERDICT_ACK, 0);
}

/* --- without a verdict ------------------------------------------------------------------------ */

static void an_unsettled_delivery_comes_back_after_a_while(void **state)
{
    transport_fixture *f = *state;
    uint32_t lapse_ms = f->quirks->lapse_ms;
    publish_id(f, "m-1", NULL);
    semel_delivery first = take_id(f, "m-1");
    if (!lapse_ms) {
        pass_broker_ms(f, 86400000);
        expect_nothing(f);
        return;
    }
    pass_broker_ms(f, lapse_ms - (int64_t)broker_grain_ms(f));
    expect_nothing(f);
    pass_broker_ms(f, broker_grain_ms(f));
    semel_delivery again = take_id(f, "m-1");
    expect_nth(f, again.message, 2);
    semel_delivery_settlement late = {first.tag, SEMEL_VERDICT_ACK, 0};
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->transport, &late, 1, &last_error));
    settle(f, again.tag, SEMEL_VERDICT_ACK, 0);
    pass_broker_ms(f, 10 * (int64_t)lapse_ms);
    expect_nothing(f);
}

static void an_unsettled_delivery_comes_back_after_opening_again(void **state)
{
    transport_fixture *f = *state;
    publish_id(f, "out", NULL);
    (void)take_id(f, "out");
    publish_id(f, "acked", NULL);
    settle(f, take_id(f, "acked").tag, SEMEL_VERDICT_ACK, 0);
    reopen_transport(f);
    if (f->quirks->flags & TRANSPORT_KEEPS)
        (void)take_id(f, "out");
    expect_nothing(f);
}

/* --- in a unit of the store that the queue is in ---------------------------------------------- */

static const semel_transport_driver *driver_and_state(const transport_fixture *f, void **state)
{
    const semel_transport_driver *driver = semel_transport_driver_of(f->transport);
    *state = semel_transport_state(f->transport, driver);
    return driver;
}

static void a_verdict_in_a_unit_counts_with_its_commit(void **state)
{
    enum { TWO = 2 };
    transport_fixture *f = *state;
    void *self;
    const semel_transport_driver *driver = driver_and_state(f, &self);
    semel_delivery_settlement both[TWO];
    semel_unit *unit;
    publish_id(f, "m-1", NULL);
    publish_id(f, "m-2", NULL);
    both[0] = (semel_delivery_settlement){take_id(f, "m-1").tag, SEMEL_VERDICT_ACK, 0};
    both[1] = (semel_delivery_settlement){take_id(f, "m-2").tag, SEMEL_VERDICT_RETRY, 0};
    OK(semel_unit_begin(&unit, driver->store_of(self), &last_error));
    OK(driver->settle_in(self, unit, both, TWO, &last_error));
    semel_unit_rollback(unit); /* it was in vain: both are out as before */
    expect_nothing(f);
    OK(semel_unit_begin(&unit, driver->store_of(self), &last_error));
    OK(driver->settle_in(self, unit, both, TWO, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    driver->settled(self, both, TWO);
    FAILS(SEMEL_EINVAL, semel_transport_settle(f->transport, both, TWO, &last_error));
    expect_nth(f, take_id(f, "m-2").message, 2);
    pass_broker_ms(f, 1000);
    expect_nothing(f);
}

static void a_verdict_in_a_unit_on_what_is_not_out_is_refused(void **state)
{
    transport_fixture *f = *state;
    void *self;
    const semel_transport_driver *driver = driver_and_state(f, &self);
    semel_unit *unit;
    publish_id(f, "m-1", NULL);
    semel_delivery_settlement gone = {take_id(f, "m-1").tag, SEMEL_VERDICT_ACK, 0};
    settle(f, gone.tag, SEMEL_VERDICT_ACK, 0);
    OK(semel_unit_begin(&unit, driver->store_of(self), &last_error));
    FAILS(SEMEL_ELOST, driver->settle_in(self, unit, &gone, 1, &last_error));
    semel_unit_rollback(unit);
    driver->settled(self, &gone, 1); /* does no harm */
}

/* A broker may count a moment later. The wait ends after a minute at the least. */
static void expect_depth(transport_fixture *f, uint64_t wanted)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    uint64_t ready = wanted + 1;
    for (int looks = 0; ready != wanted && looks < 6000; looks++) {
        if (looks)
            (void)nanosleep(&moment, NULL);
        OK(semel_transport_depth(&ready, f->transport, &last_error));
    }
    assert_int_equal(ready, wanted);
}

static void its_depth_is_what_no_consumer_has(void **state)
{
    transport_fixture *f = *state;
    semel_delivery out[3];
    expect_depth(f, 0);
    for (int i = 0; i < 3; i++)
        publish_id(f, "m-1", NULL);
    expect_depth(f, 3);
    expect_depth(f, 3); /* none was received by asking */
    take(f, out, 3);
    expect_depth(f, 0);
    settle(f, out[1].tag, SEMEL_VERDICT_ACK, 0);
    reopen_transport(f);
    if ((f->quirks->flags & TRANSPORT_KEEPS) && !(f->quirks->flags & TRANSPORT_DEPTH_OF_NEW))
        expect_depth(f, 2);
}

const transport_test transport_settle_tests[] = {
    TRANSPORT_TEST(what_is_acknowledged_is_gone),
    TRANSPORT_TEST(what_is_rejected_is_gone),
    TRANSPORT_TEST(what_is_out_is_not_given_to_another),
    TRANSPORT_TEST(what_is_retried_comes_back_whole),
    TRANSPORT_TEST_OF(a_retry_comes_back_not_before_its_delay, SEMEL_TRANSPORT_DELAYS),
    TRANSPORT_TEST_OF(a_retry_holds_up_no_other_message, SEMEL_TRANSPORT_DELAYS),
    TRANSPORT_TEST_OF(each_retry_has_its_own_delay, SEMEL_TRANSPORT_DELAYS),
    TRANSPORT_TEST(a_verdict_holds_for_its_own_delivery_only),
    TRANSPORT_TEST(an_unknown_tag_is_refused_and_the_others_are_settled),
    TRANSPORT_TEST(a_delivery_is_settled_once),
    TRANSPORT_TEST(a_delivery_stays_readable_until_it_is_settled),
    TRANSPORT_TEST(an_unsettled_delivery_comes_back_after_a_while),
    TRANSPORT_TEST(an_unsettled_delivery_comes_back_after_opening_again),
    TRANSPORT_TEST_OF(a_verdict_in_a_unit_counts_with_its_commit, TRANSPORT_SETTLES_IN_UNITS),
    TRANSPORT_TEST_OF(a_verdict_in_a_unit_on_what_is_not_out_is_refused,
                      TRANSPORT_SETTLES_IN_UNITS),
    TRANSPORT_TEST_OF(its_depth_is_what_no_consumer_has, TRANSPORT_TELLS_DEPTH),
    {NULL, NULL, 0}};
