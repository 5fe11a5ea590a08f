/* A consumer whose batch is not given: it grows, it falls, and a handler that is slow or fails in
 * the middle of a batch costs no other message anything but time.
 *
 * The clock stands still unless a handler moves it, so that a handler is as slow as the test
 * wants. */
#include "core/consumer.h"
#include "support/fake/no_delay_transport.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <semel/look.h>
#include <stdio.h>

enum { WARM_UP = 200, BATCH = 10, GROUPS = 40, SLOW_MS = BATCH_BUDGET_MS + 5, LONG_MS = 120000 };

typedef struct consumer_case {
    fixture *f;
    no_delay broker;
    semel_inbox *inbox;
    semel_outbox *effects;
    semel_consumer *consumer;
    unsigned published;

    /* What the handler does: with the message of this number, each time. */
    unsigned slow;  /* it takes SLOW_MS */
    unsigned fails; /* ... fails, so often */
    unsigned failures;
    unsigned stops; /* it stops the consumer */

    /* What it saw, by number. */
    unsigned runs[2000];
    uint32_t attempts[2000];
    unsigned order[2000]; /* the numbers, as they ran */
    unsigned run_count;
    unsigned last_of[GROUPS]; /* the last number that was handled, by group */
    unsigned disorder;
} consumer_case;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    consumer_case *s = context;
    unsigned number = 0;
    semel_message effect = text_message(NULL, "effect");
    (void)sscanf(message->body.data, "%u", &number);
    s->runs[number]++;
    s->attempts[number] = semel_unit_attempt(unit);
    s->order[s->run_count++] = number;
    semel_status status = semel_unit_send(unit, s->effects, &effect, err);
    if (number == s->slow)
        semel_test_advance_ms(s->f->seam, SLOW_MS);
    if (number == s->stops)
        semel_consumer_stop(s->consumer);
    if (!status && number == s->fails && s->failures && s->failures--)
        return semel_fail(err, SEMEL_EHANDLER, "out of paper");
    if (message->group) {
        unsigned *last = &s->last_of[number % GROUPS];
        s->disorder += *last > number;
        *last = number;
    }
    return status;
}

static void publish(consumer_case *s, unsigned count, unsigned groups)
{
    for (unsigned i = 0; i < count; i++) {
        char number[16], group[16];
        semel_publish_result result;
        (void)snprintf(number, sizeof number, "%u", ++s->published);
        (void)snprintf(group, sizeof group, "g%u", s->published % GROUPS);
        semel_message message = text_message(number, number);
        const semel_message *one = &message;
        message.group = groups ? group : NULL;
        OK(semel_transport_publish(&result, s->broker.inner, &one, 1, 0, &last_error));
    }
}

static void open_on(consumer_case *s, fixture *f, semel_transport *transport,
                    semel_inbox_options inbox, semel_consumer_options options)
{
    inbox.size = sizeof inbox;
    options.size = sizeof options;
    s->f = f;
    s->inbox = fixture_inbox(f, "inbox", &inbox);
    s->effects = fixture_outbox(f, "effects");
    semel_route route = {"*", s->inbox, handle, s};
    OK(semel_consumer_open(&s->consumer, transport, &route, 1, &options, &last_error));
}

static void open_case(consumer_case *s, fixture *f, semel_inbox_options inbox,
                      semel_consumer_options options)
{
    s->broker.inner = fixture_queue(f, "memory:");
    open_on(s, f, no_delay_open(f, &s->broker, f->host), inbox, options);
}

static size_t step(consumer_case *s)
{
    size_t settled = 99;
    OK(semel_consumer_step(&settled, s->consumer, 0, &last_error));
    return settled;
}

static uint32_t limit_of(const consumer_case *s)
{
    return s->consumer->workers[0].limit.now;
}

/* Quick handlers until the batch is as large as it gets; then one of this size. */
static void warm_up(consumer_case *s)
{
    unsigned before = s->published;
    publish(s, WARM_UP, 0);
    while (atomic_load(&s->broker.acked) < before + WARM_UP)
        assert_true(step(s) > 0);
    assert_true(limit_of(s) >= BATCH);
}

static void take_the_rest(consumer_case *s)
{
    for (int i = 0; i < 200 && atomic_load(&s->broker.acked) < s->published; i++) {
        (void)step(s);
        if (!s->consumer->inflight.ready.first)
            semel_test_advance_ms(s->f->seam, LONG_MS);
    }
    assert_int_equal(s->broker.acked, s->published);
    assert_int_equal(s->broker.inflight, 0);
    assert_int_equal(fixture_counters(s->f).unsent, s->published);
    assert_int_equal(fixture_counters(s->f).duplicates, 0);
    assert_int_equal(fixture_letters(s->f, NULL, 0), 0);
}

static void end(consumer_case *s)
{
    semel_consumer_close(s->consumer);
}

static semel_marker_state state_of(consumer_case *s, unsigned number)
{
    char id[16];
    semel_marker *marker = NULL;
    (void)snprintf(id, sizeof id, "%u", number);
    semel_message message = text_message(id, id);
    OK(semel_inbox_look(&marker, s->inbox, &message, &last_error));
    semel_marker_state state = marker->state;
    assert_int_equal(marker->attempts, 0);
    semel_marker_free(marker);
    return state;
}

/* --- growing and falling ---------------------------------------------------------------------- */

static void a_step_takes_more_while_all_goes_well(void **state)
{
    consumer_case s = {0};
    size_t expected = 1;
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    publish(&s, 127, 0);
    for (int i = 0; i < 7; i++, expected *= 2)
        assert_int_equal(step(&s), expected);
    assert_int_equal(limit_of(&s), BATCH_MOST);
    take_the_rest(&s);
    end(&s);
}

static void slow_handlers_are_called_one_by_one(void **state)
{
    consumer_case s = {0};
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    publish(&s, 5, 0);
    for (unsigned i = 1; i <= 5; i++) {
        s.slow = i;
        assert_int_equal(step(&s), 1);
    }
    take_the_rest(&s);
    end(&s);
}

static void a_store_that_is_away_makes_it_one(void **state)
{
    consumer_case s = {0};
    size_t settled;
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    warm_up(&s);
    publish(&s, BATCH, 0);
    semel_test_fault(s.f->seam, "batch.marked", 1, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_int_equal(limit_of(&s), 1);
    assert_int_equal(step(&s), 1);
    take_the_rest(&s);
    end(&s);
}

/* --- one that fails --------------------------------------------------------------------------- */

/* Its neighbours are settled with the batch, and it is handled again after its backoff. */
static void fail_at(fixture *f, unsigned place)
{
    consumer_case s = {0};
    open_case(&s, f, (semel_inbox_options){0}, (semel_consumer_options){0});
    warm_up(&s);
    s.fails = WARM_UP + 1 + place;
    s.failures = 1;
    publish(&s, BATCH, 0);
    assert_int_equal(step(&s), BATCH - 1);
    assert_int_equal(limit_of(&s), 1);
    take_the_rest(&s);
    for (unsigned i = WARM_UP + 1; i <= s.published; i++) {
        assert_int_equal(s.runs[i], i == s.fails ? 2 : 1);
        assert_int_equal(s.attempts[i], i == s.fails ? 2 : 1);
    }
    end(&s);
}

static void a_failure_is_its_own_message_only_first(void **state)
{
    fail_at(*state, 0);
}

static void a_failure_is_its_own_message_only_in_the_middle(void **state)
{
    fail_at(*state, BATCH / 2);
}

static void a_failure_is_its_own_message_only_last(void **state)
{
    fail_at(*state, BATCH - 1);
}

/* --- one that is slow ------------------------------------------------------------------------- */

/* What comes behind it is left: no marker, no attempt, no backoff, and the same order. */
static void be_slow_at(fixture *f, unsigned place, semel_mode mode)
{
    consumer_case s = {0};
    open_case(&s, f, (semel_inbox_options){.mode = mode}, (semel_consumer_options){0});
    warm_up(&s);
    s.slow = WARM_UP + 1 + place;
    publish(&s, BATCH, 0);
    assert_int_equal(step(&s), place + 1);
    assert_int_equal(s.broker.inflight, BATCH - 1 - place);
    for (unsigned i = WARM_UP + 1; i <= s.published; i++)
        assert_int_equal(state_of(&s, i), i <= s.slow ? SEMEL_MARKER_DONE : SEMEL_MARKER_NONE);
    assert_int_equal(fixture_counters(f).failed, 0);
    for (unsigned before = 0; before != s.run_count;) { /* at once: the clock stands still */
        before = s.run_count;
        (void)step(&s);
    }
    take_the_rest(&s);
    assert_int_equal(s.run_count, s.published);
    for (unsigned i = 0; i < s.run_count; i++) {
        assert_int_equal(s.order[i], i + 1);
        assert_int_equal(s.attempts[i + 1], 1);
    }
    end(&s);
}

static void what_is_behind_a_slow_one_is_left_first(void **state)
{
    be_slow_at(*state, 0, SEMEL_TRANSACTION);
}

static void what_is_behind_a_slow_one_is_left_in_the_middle(void **state)
{
    be_slow_at(*state, BATCH / 2, SEMEL_TRANSACTION);
}

static void what_is_behind_a_slow_one_is_left_last(void **state)
{
    be_slow_at(*state, BATCH - 1, SEMEL_TRANSACTION);
}

static void what_is_behind_a_slow_one_is_left_under_claims(void **state)
{
    be_slow_at(*state, BATCH / 2, SEMEL_CLAIM);
}

/* A broker that could put it off hears nothing of it: it would count a delivery. */
static void what_is_left_stays_with_the_consumer(void **state)
{
    consumer_case s = {.broker = {.inner = fixture_queue(*state, "memory:")}};
    open_on(&s, *state, s.broker.inner, (semel_inbox_options){0}, (semel_consumer_options){0});
    publish(&s, WARM_UP + BATCH, 0);
    s.slow = WARM_UP;
    while (s.run_count < WARM_UP)
        (void)step(&s);
    for (int i = 0; i < BATCH && s.run_count < s.published; i++)
        (void)step(&s);
    assert_int_equal(fixture_counters(s.f).processed, s.published);
    assert_int_equal(s.run_count, s.published);
    end(&s);
}

/* The transaction that leaves some fails: nothing of it has happened. */
static void leaving_can_fail(void **state)
{
    consumer_case s = {0};
    size_t settled;
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    warm_up(&s);
    s.slow = WARM_UP + 3;
    publish(&s, BATCH, 0);
    semel_test_fault(s.f->seam, "batch.left", 1, SEMEL_EUNKNOWN);
    FAILS(SEMEL_EUNKNOWN, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    for (unsigned i = WARM_UP + 1; i <= s.published; i++)
        assert_int_equal(state_of(&s, i), SEMEL_MARKER_NONE);
    take_the_rest(&s);
    end(&s);
}

/* A copy in the same batch, and one that came before: both are left, and both are duplicates. */
static void copies_may_be_left(void **state)
{
    consumer_case s = {0};
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    warm_up(&s);
    s.slow = WARM_UP + 2;
    publish(&s, 4, 0);
    s.published = WARM_UP + 1; /* ... 2, 3, 4 once more, and 5 */
    publish(&s, 4, 0);
    assert_int_equal(step(&s), 2);
    for (int i = 0; i < 10; i++)
        (void)step(&s);
    assert_int_equal(s.broker.acked, WARM_UP + 8);
    assert_int_equal(fixture_counters(s.f).duplicates, 3);
    assert_int_equal(fixture_counters(s.f).unsent, WARM_UP + 5);
    end(&s);
}

/* --- order ------------------------------------------------------------------------------------ */

static void groups_stay_in_order(void **state)
{
    enum { COUNT = 600 };
    consumer_case s = {0};
    open_case(&s, *state, (semel_inbox_options){0},
              (semel_consumer_options){.order = SEMEL_ORDER_GROUP});
    publish(&s, COUNT, 1);
    for (int i = 0; i < 2000 && s.broker.acked < COUNT; i++) {
        s.slow = s.run_count + 1 + (unsigned)i % 17; /* now and then one is */
        if (i % 7 == 0) {
            s.fails = s.run_count + 1 + (unsigned)i % 5;
            s.failures = 1;
        }
        (void)step(&s);
        if (!s.consumer->inflight.ready.first)
            semel_test_advance_ms(s.f->seam, 300);
    }
    take_the_rest(&s);
    assert_int_equal(s.disorder, 0);
    end(&s);
}

/* --- stopping --------------------------------------------------------------------------------- */

static void a_stop_does_not_wait_for_the_batch(void **state)
{
    consumer_case s = {0};
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    warm_up(&s);
    s.stops = WARM_UP + 3;
    publish(&s, BATCH, 0);
    OK(semel_consumer_run(s.consumer, &last_error));
    assert_int_equal(s.run_count, WARM_UP + 3);
    assert_int_equal(s.broker.acked, WARM_UP + 3);
    end(&s);
    assert_int_equal(s.broker.retried, BATCH - 3); /* in the order of their delivery */
    for (int i = 1; i < BATCH - 3; i++)
        assert_true(s.broker.retried_tags[i - 1] < s.broker.retried_tags[i]);
}

/* --- claims and workers ----------------------------------------------------------------------- */

enum { WORKERS = 4, AT_ONCE = 60000 };

typedef struct crowd {
    semel_consumer *consumer;
    atomic_int entered;
    atomic_int lonely; /* handlers that waited in vain for the others */
    atomic_int left;
} crowd;

/* WORKERS messages in a row are each handled while the others are: a worker that kept one of them
 * behind another would wait for itself. */
static semel_status meet(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    crowd *c = context;
    int64_t end_ms = process_now_ms() + AT_ONCE;
    (void)unit, (void)err;
    if (((const char *)message->body.data)[0] == 'm') {
        atomic_fetch_add(&c->entered, 1);
        while (atomic_load(&c->entered) < WORKERS && !atomic_load(&c->lonely) &&
               process_now_ms() < end_ms)
            process_nap();
        atomic_fetch_add(&c->lonely, atomic_load(&c->entered) < WORKERS);
    }
    if (atomic_fetch_sub(&c->left, 1) == 1)
        semel_consumer_stop(c->consumer);
    return SEMEL_OK;
}

/* Many quick ones around them, so that workers would take many. */
static void claims_are_handled_side_by_side(void **state)
{
    enum { QUICK = 400, COUNT = 2 * QUICK + WORKERS };
    fixture *f = *state;
    crowd c = {.left = COUNT};
    semel_transport *queue = fixture_queue(f, "memory:");
    const semel_inbox_options claims = {.size = sizeof claims, .mode = SEMEL_CLAIM};
    const semel_consumer_options options = {.size = sizeof options, .workers = WORKERS};
    semel_route route = {"*", fixture_inbox(f, "inbox", &claims), meet, &c};
    c.consumer = fixture_consumer(f, queue, &route, 1, &options);
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        semel_publish_result result;
        (void)snprintf(id, sizeof id, "%d", i);
        semel_message message =
            text_message(id, i / QUICK != 1 || i >= QUICK + WORKERS ? "quick" : "meet");
        const semel_message *one = &message;
        OK(semel_transport_publish(&result, queue, &one, 1, 0, &last_error));
    }
    OK(semel_consumer_run(c.consumer, &last_error));
    assert_int_equal(c.lonely, 0);
    assert_int_equal(fixture_counters(f).processed, COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a step takes more while all goes well", a_step_takes_more_while_all_goes_well),
        ON_BOTH("slow handlers are called one by one", slow_handlers_are_called_one_by_one),
        ON_BOTH("a store that is away makes it one", a_store_that_is_away_makes_it_one),
        ON_BOTH("a failure is its own message's only, first",
                a_failure_is_its_own_message_only_first),
        ON_BOTH("a failure is its own message's only, in the middle",
                a_failure_is_its_own_message_only_in_the_middle),
        ON_BOTH("a failure is its own message's only, last",
                a_failure_is_its_own_message_only_last),
        ON_BOTH("what is behind a slow one is left, first",
                what_is_behind_a_slow_one_is_left_first),
        ON_BOTH("what is behind a slow one is left, in the middle",
                what_is_behind_a_slow_one_is_left_in_the_middle),
        ON_BOTH("what is behind a slow one is left, last", what_is_behind_a_slow_one_is_left_last),
        ON_BOTH("what is behind a slow one is left, under claims",
                what_is_behind_a_slow_one_is_left_under_claims),
        ON_BOTH("what is left stays with the consumer", what_is_left_stays_with_the_consumer),
        ON_BOTH("leaving can fail", leaving_can_fail),
        ON_BOTH("copies may be left", copies_may_be_left),
        ON_BOTH("groups stay in order", groups_stay_in_order),
        ON_BOTH("a stop does not wait for the batch", a_stop_does_not_wait_for_the_batch),
        ON_BOTH("claims are handled side by side", claims_are_handled_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
