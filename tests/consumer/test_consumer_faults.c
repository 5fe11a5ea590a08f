/* The consumer in trouble: a store that fails, a transport that fails, handlers that fail again and
 * again. Nothing is lost, nothing happens twice, and it goes on by itself afterwards. An effect is
 * a message in the outbox: it is there if, and only if, the handler's unit was committed. */
#include "support/fake/no_delay_transport.h"
#include "support/fake/spy.h"

#include <stdio.h>

enum { COUNT = 20 };

typedef struct consumer_case {
    fixture *f;
    semel_transport *queue;
    semel_outbox *outbox;
    semel_message event;
    scripted_handler todo;
    semel_consumer *consumer;
} consumer_case;

static void publish(semel_transport *transport, const char *id)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, transport, &one, 1, 1000, &last_error));
}

/* A consumer on `transport` (NULL: the queue itself) with an inbox of this name, and COUNT
 * messages. */
static void open_case(consumer_case *s, fixture *f, const char *name, semel_transport *transport,
                      uint32_t batch, semel_inbox_options options)
{
    semel_consumer_options consumer_options = {.size = sizeof consumer_options, .batch = batch};
    options.size = sizeof options;
    s->f = f;
    if (!s->queue)
        s->queue = fixture_queue(f, "memory:");
    s->outbox = fixture_outbox(f, "out");
    s->event = text_message(NULL, "event");
    s->todo.outbox = s->outbox;
    s->todo.sends = &s->event;
    semel_route route = {"*", fixture_inbox(f, name, &options), scripted_handler_run, &s->todo};
    s->consumer =
        fixture_consumer(f, transport ? transport : s->queue, &route, 1, &consumer_options);
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "m%d", i);
        publish(s->queue, id);
    }
}

/* Steps, letting time pass, until nothing has been settled for a while; how many steps failed. */
static int run_dry(consumer_case *s, size_t *settled)
{
    int failed = 0;
    *settled = 0;
    for (int idle = 0; idle < 30; idle++) {
        size_t now = 0;
        if (semel_consumer_step(&now, s->consumer, 0, NULL))
            failed++;
        if (now)
            idle = 0;
        *settled += now;
        semel_test_advance_ms(s->f->seam, 1000);
    }
    return failed;
}

/* --- the store fails -------------------------------------------------------------------------- */

static void when_the_store_is_gone_everything_waits_for_it(void **state)
{
    fixture *f = *state;
    for (uint32_t batch = 1; batch <= 5; batch += 4) {
        consumer_case s = {0};
        size_t settled = 77;
        open_case(&s, f, "inbox", NULL, batch, (semel_inbox_options){0});
        semel_test_fault(f->seam, batch == 1 ? "receive.begun" : "batch.marked", 1,
                         SEMEL_EUNAVAILABLE);
        FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
        assert_int_equal(settled, 77); /* written on success only */
        assert_int_equal(s.todo.runs, 0);
        assert_int_equal(run_dry(&s, &settled), 0);
        assert_int_equal(settled, COUNT);
    }
    assert_int_equal(fixture_counters(f).unsent,
                     COUNT); /* in the second round all are duplicates */
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* One message fails twice, besides, so that the paths of failure are walked too. */
static int meets_fault(fixture *f, const char *name, const char *point, uint32_t nth,
                       semel_status status, uint32_t batch, semel_mode mode)
{
    consumer_case s = {.todo = {.failures = 2, .only = "m3"}};
    uint32_t before = semel_test_passed(f->seam, point);
    uint64_t effects = fixture_counters(f).unsent;
    size_t settled;
    open_case(&s, f, name, NULL, batch, (semel_inbox_options){.mode = mode, .lease_ms = 2000});
    semel_test_fault(f->seam, point, nth, status);
    run_dry(&s, &settled);
    semel_test_fault(f->seam, NULL, 0, SEMEL_OK);
    effects = fixture_counters(f).unsent - effects;
    if (settled != COUNT || effects != COUNT)
        fail_msg("%s: %zu settled and %zu effects, not %d", point, settled, (size_t)effects, COUNT);
    return semel_test_passed(f->seam, point) > before;
}

/* At every point where the store can fail: each effect once, and all settled in the end. */
static void fail_everywhere(fixture *f, uint32_t batch, semel_mode mode, int expected)
{
    static const char *const points[] = {"receive.begun",     "receive.marked",   "receive.handled",
                                         "receive.committed", "count.stored",     "count.committed",
                                         "claim.stored",      "claim.committed",  "claim.handled",
                                         "finish.stored",     "finish.committed", "fail.stored",
                                         "fail.committed",    "send.stored",      "batch.marked",
                                         "batch.handled",     "batch.committed"};
    static const semel_status statuses[] = {SEMEL_EUNAVAILABLE, SEMEL_EUNKNOWN, SEMEL_EBUSY};
    int passed = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "inbox%zu", i);
        passed +=
            meets_fault(f, name, points[i], (uint32_t)(i % 2 + 1), statuses[i % 3], batch, mode);
    }
    assert_int_equal(passed, expected);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void wherever_the_store_fails_each_effect_happens_once(void **state)
{
    fail_everywhere(*state, 1, SEMEL_TRANSACTION, 9);
}

static void wherever_the_store_fails_in_batches_each_effect_happens_once(void **state)
{
    fail_everywhere(*state, 5, SEMEL_TRANSACTION, 12);
}

static void wherever_the_store_fails_around_claims_each_effect_happens_once(void **state)
{
    fail_everywhere(*state, 1, SEMEL_CLAIM, 8);
}

static void a_refused_message_is_not_lost_when_its_letter_cannot_be_kept(void **state)
{
    fixture *f = *state;
    consumer_case s = {0};
    semel_message keyless = text_message("", "a");
    const semel_message *one = &keyless;
    semel_publish_result result;
    size_t settled;
    open_case(&s, f, "inbox", NULL, 1, (semel_inbox_options){0});
    OK(semel_transport_publish(&result, s.queue, &one, 1, 0, &last_error));
    semel_test_fault(f->seam, "bury.stored", 1, SEMEL_EUNAVAILABLE);
    assert_int_equal(run_dry(&s, &settled), 1);
    assert_int_equal(settled, COUNT + 1);
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
}

/* --- the transport fails ---------------------------------------------------------------------- */

static void a_broken_transport_is_reported_and_used_again(void **state)
{
    fixture *f = *state;
    spy watch = {.inner = fixture_queue(f, "memory:?ack_ms=5000"), .broken = SEMEL_EUNAVAILABLE};
    consumer_case s = {.queue = watch.inner};
    size_t settled;
    open_case(&s, f, "inbox", spy_open(f, &watch, 1), 4, (semel_inbox_options){0});
    FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    watch.broken = SEMEL_OK;
    run_dry(&s, &settled);
    assert_int_equal(settled, COUNT);
    assert_int_equal(fixture_counters(f).unsent, COUNT);
}

static void break_after_receive(spy *self, semel_delivery deliveries[], size_t count)
{
    (void)deliveries;
    self->broken = count ? SEMEL_EUNAVAILABLE : SEMEL_OK; /* the settling fails, the next works */
}

/* The work is committed and the acknowledgement lost: the delivery comes again, and is a
 * duplicate. */
static void a_lost_acknowledgement_leads_to_a_duplicate(void **state)
{
    fixture *f = *state;
    spy watch = {.inner = fixture_queue(f, "memory:?ack_ms=5000")};
    consumer_case s = {.queue = watch.inner};
    size_t settled;
    open_case(&s, f, "inbox", spy_open(f, &watch, 1), 4, (semel_inbox_options){0});
    watch.on_receive = break_after_receive;
    FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_int_equal(s.todo.runs, 4);
    watch.on_receive = NULL;
    watch.broken = SEMEL_OK;
    run_dry(&s, &settled);
    assert_int_equal(settled, COUNT);
    assert_int_equal(s.todo.runs, COUNT);
    assert_int_equal(fixture_counters(f).duplicates, 4);
}

/* A broker may hand out what semel cannot even look at. */
static void spoil_the_third(spy *self, semel_delivery deliveries[], size_t count)
{
    static semel_message huge = {.size = sizeof huge, .id = {"m2", 2}};
    huge.body = (semel_bytes){self, SEMEL_BODY_MAX + 1};
    for (size_t i = 0; i < count; i++)
        if (memcmp(deliveries[i].message->id.data, "m2", 3) == 0)
            deliveries[i].message = &huge;
}

static void spoiled(fixture *f, uint32_t batch)
{
    spy watch = {.inner = fixture_queue(f, "memory:")};
    consumer_case s = {.queue = watch.inner};
    size_t settled;
    open_case(&s, f, "inbox", spy_open(f, &watch, 1), batch, (semel_inbox_options){0});
    watch.on_receive = spoil_the_third;
    assert_int_equal(run_dry(&s, &settled), 0);
    assert_int_equal(s.todo.runs, COUNT - 1);
    assert_int_equal(fixture_counters(f).unsent, COUNT - 1);
    size_t rejected = 0;
    for (size_t i = 0; i < watch.settle_count; i++)
        rejected += watch.settles[i].verdict == SEMEL_VERDICT_REJECT;
    assert_int_equal(rejected, 1);
}

static void a_delivery_that_is_no_message_is_rejected_alone(void **state)
{
    spoiled(*state, 1);
}

static void a_delivery_that_is_no_message_is_rejected_alone_in_a_batch(void **state)
{
    spoiled(*state, 5);
}

/* --- backoff ---------------------------------------------------------------------------------- */

static void delays_grow_with_jitter_up_to_the_limit(void **state)
{
    fixture *f = *state;
    spy watch = {.inner = fixture_queue(f, "memory:")};
    semel_inbox_options stubborn = {.size = sizeof stubborn, .attempts_max = 16};
    semel_consumer_options options = {
        .size = sizeof options, .backoff_ms = 100, .backoff_max_ms = 3000};
    scripted_handler todo = {.failures = 15};
    semel_route route = {"*", fixture_inbox(f, "inbox", &stubborn), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, spy_open(f, &watch, 1), &route, 1, &options);
    uint32_t jitter = 0;
    size_t settled;
    publish(watch.inner, "1");
    for (uint32_t i = 0; i < 15; i++) {
        OK(semel_consumer_step(&settled, consumer, 0, &last_error));
        assert_int_equal(settled, 0);
        assert_int_equal(watch.settle_count, i + 1);
        assert_int_equal(watch.settles[i].verdict, SEMEL_VERDICT_RETRY);
        uint32_t most = i < 5 ? 100u << i : 3000;
        uint32_t delay = watch.settles[i].delay_ms;
        assert_in_range(delay, most / 2, most);
        jitter += delay != most && delay != most / 2;
        semel_test_advance_ms(f->seam, delay - 1);
        OK(semel_consumer_step(&settled, consumer, 0, &last_error)); /* not before it is over */
        assert_int_equal(watch.settle_count, i + 1);
        semel_test_advance_ms(f->seam, 1);
    }
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    assert_int_equal(settled, 1);
    assert_true(jitter >= 12);
}

/* --- run -------------------------------------------------------------------------------------- */

typedef struct stopper {
    semel_consumer *consumer;
    size_t runs;
} stopper;

static semel_status stop_at_the_end(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    stopper *self = context;
    (void)unit;
    (void)message;
    (void)err;
    if (++self->runs == COUNT)
        semel_consumer_stop(self->consumer);
    return SEMEL_OK;
}

static void mend_after_five(spy *self, semel_delivery deliveries[], size_t count)
{
    (void)deliveries;
    (void)count;
    if (self->receives == 5)
        self->broken = SEMEL_OK;
}

static void run_waits_out_what_may_pass_and_ends_when_stopped(void **state)
{
    fixture *f = *state;
    spy watch = {.inner = fixture_queue(f, "memory:"),
                 .broken = SEMEL_EUNAVAILABLE,
                 .on_receive = mend_after_five};
    stopper self = {0};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), stop_at_the_end, &self};
    int64_t before = f->host->steady_ms(f->host->context);
    self.consumer = fixture_consumer(f, spy_open(f, &watch, 1), &route, 1, NULL);
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "m%d", i);
        publish(watch.inner, id);
    }
    OK(semel_consumer_run(self.consumer, &last_error));
    assert_int_equal(self.runs, COUNT);
    assert_in_range(f->host->steady_ms(f->host->context) - before, /* it backed off five times */
                    (200 + 400 + 800 + 1600 + 3200) / 2, 200 + 400 + 800 + 1600 + 3200);
}

static void run_ends_with_an_error_that_will_not_pass(void **state)
{
    fixture *f = *state;
    spy watch = {.inner = fixture_queue(f, "memory:"), .broken = SEMEL_ETRANSPORT};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run,
                         &(scripted_handler){0}};
    semel_consumer *consumer = fixture_consumer(f, spy_open(f, &watch, 1), &route, 1, NULL);
    FAILS(SEMEL_ETRANSPORT, semel_consumer_run(consumer, &last_error));
    assert_int_equal(watch.receives, 1);
}

/* All that is in flight came by the connection that is lost; only the first that cannot be
 * settled is news, or the others would be waited for longer and longer. */
typedef struct cut {
    semel_consumer *consumer;
    unsigned runs;
    unsigned notices;
} cut;

static semel_status fail_at_first_and_stop(semel_unit *unit, const semel_message *message,
                                           void *context, semel_error *err)
{
    cut *self = context;
    (void)unit;
    (void)message;
    if (++self->runs <= COUNT)
        return semel_fail(err, SEMEL_EHANDLER, "later");
    if (self->runs == 2 * COUNT)
        semel_consumer_stop(self->consumer);
    return SEMEL_OK;
}

static void count_notice(void *context, const semel_error *trouble)
{
    cut *self = context;
    (void)trouble;
    self->notices++;
}

static void a_lost_connection_is_waited_for_once_however_much_is_inflight(void **state)
{
    fixture *f = *state;
    no_delay broker = {.inner = fixture_queue(f, "memory:")};
    cut self = {0};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), fail_at_first_and_stop, &self};
    semel_consumer_options options = {
        .size = sizeof options, .notice = count_notice, .notice_context = &self};
    size_t settled;
    OK(semel_consumer_open(&self.consumer, no_delay_open(f, &broker, f->host), &route, 1, &options,
                           &last_error));
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "m%d", i);
        publish(broker.inner, id);
        OK(semel_consumer_step(&settled, self.consumer, 0, &last_error));
    }
    semel_test_advance_ms(f->seam, 60000);
    int64_t before = f->host->steady_ms(f->host->context);
    atomic_store(&broker.lost, COUNT);
    OK(semel_consumer_run(self.consumer, &last_error));
    assert_in_range(f->host->steady_ms(f->host->context) - before, 100, 200);
    assert_int_equal(self.notices, 1);
    semel_consumer_close(self.consumer);
}

static semel_status step_inside(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    consumer_case *s = context;
    size_t settled;
    s->todo.trouble = semel_consumer_step(&settled, s->consumer, 0, err);
    (void)unit;
    (void)message;
    return SEMEL_OK;
}

static void a_step_inside_a_handler_is_a_misuse(void **state)
{
    fixture *f = *state;
    consumer_case s = {.queue = fixture_queue(f, "memory:")};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), step_inside, &s};
    size_t settled;
    s.consumer = fixture_consumer(f, s.queue, &route, 1, NULL);
    publish(s.queue, "1");
    OK(semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_int_equal(settled, 1);
    assert_int_equal(s.todo.trouble, SEMEL_EMISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("when the store is gone everything waits for it",
                when_the_store_is_gone_everything_waits_for_it),
        ON_BOTH("wherever the store fails, each effect happens once",
                wherever_the_store_fails_each_effect_happens_once),
        ON_BOTH("wherever the store fails in batches, each effect happens once",
                wherever_the_store_fails_in_batches_each_effect_happens_once),
        ON_BOTH("wherever the store fails around claims, each effect happens once",
                wherever_the_store_fails_around_claims_each_effect_happens_once),
        ON_BOTH("a refused message is not lost when its letter cannot be kept",
                a_refused_message_is_not_lost_when_its_letter_cannot_be_kept),
        ON_BOTH("a broken transport is reported and used again",
                a_broken_transport_is_reported_and_used_again),
        ON_BOTH("a lost acknowledgement leads to a duplicate",
                a_lost_acknowledgement_leads_to_a_duplicate),
        ON_BOTH("a delivery that is no message is rejected alone",
                a_delivery_that_is_no_message_is_rejected_alone),
        ON_BOTH("a delivery that is no message is rejected alone in a batch",
                a_delivery_that_is_no_message_is_rejected_alone_in_a_batch),
        ON_BOTH("delays grow with jitter up to the limit", delays_grow_with_jitter_up_to_the_limit),
        ON_BOTH("run waits out what may pass, and ends when stopped",
                run_waits_out_what_may_pass_and_ends_when_stopped),
        ON_BOTH("run ends with an error that will not pass",
                run_ends_with_an_error_that_will_not_pass),
        ON_BOTH("a lost connection is waited for once, however much is in flight",
                a_lost_connection_is_waited_for_once_however_much_is_inflight),
        ON_MEMORY("a step inside a handler is a misuse", a_step_inside_a_handler_is_a_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
