/* Running: what ends a run and what does not, what the watcher is told of outages, and that a
 * consumer that was stopped stays so.
 *
 * The store has the test's seam, for its faults; transports have the system's clock, which backoffs
 * need to pass. */
#include "support/base/sanitizer.h"
#include "support/fake/failing_store.h"
#include "support/fake/no_delay_transport.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdio.h>

enum { WORKERS = 8, ROUNDS = 200 / SANITIZER_SLOWDOWN, SOON_MS = 60000 };

#define WAIT_UNTIL(condition)                              \
    for (int64_t wait_until_ = process_now_ms() + SOON_MS; \
         !(condition) && process_now_ms() < wait_until_;)  \
    process_nap()

/* --- running with several workers ------------------------------------------------------------- */

typedef struct consumer_case {
    no_delay broker;
    semel_consumer *consumer;
    semel_status ended;
    semel_error why;
    atomic_uint troubles, reliefs;
    atomic_uint runs;
    unsigned broken; /* commits after the first run */
    test_thread member;
} consumer_case;

/* The error that some of its commits meet will not pass. */
static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    consumer_case *s = context;
    (void)unit, (void)message, (void)err;
    if (atomic_fetch_add(&s->runs, 1) == 0 && s->broken)
        failing_store_break_commits(s->broken, SEMEL_EMISUSE);
    return SEMEL_OK;
}

static void note_trouble(void *context, const semel_error *trouble)
{
    consumer_case *s = context;
    atomic_fetch_add(trouble ? &s->troubles : &s->reliefs, 1);
}

static void publish(consumer_case *s, semel_message message)
{
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, s->broker.inner, &one, 1, 0, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static void open_case(consumer_case *s, fixture *f, semel_route route,
                      semel_consumer_options options)
{
    *s = (consumer_case){0};
    OK(semel_transport_open(&s->broker.inner, "memory:", NULL, &last_error));
    semel_transport *transport = no_delay_open(f, &s->broker, NULL);
    options.size = sizeof options;
    options.backoff_ms = 1;
    options.backoff_max_ms = 4;
    options.notice = note_trouble;
    options.notice_context = s;
    OK(semel_consumer_open(&s->consumer, transport, &route, 1, &options, &last_error));
}

static void open_workers(consumer_case *s, fixture *f, unsigned broken)
{
    semel_route route = {"order.*", fixture_inbox(f, "inbox", NULL), handle, s};
    failing_store_open(f);
    open_case(s, f, route, (semel_consumer_options){.workers = WORKERS});
    s->broken = broken;
}

static void close_case(consumer_case *s)
{
    semel_consumer_close(s->consumer);
    semel_transport_close(s->broker.inner);
}

static void run(test_thread *member)
{
    consumer_case *s = member->context;
    s->ended = semel_consumer_run(s->consumer, &s->why);
}

static void stop(consumer_case *s)
{
    semel_consumer_stop(s->consumer);
    assert_true(test_thread_join(&s->member, SOON_MS));
    assert_int_equal(s->ended, SEMEL_OK);
}

static void meet_trouble_once(consumer_case *s, fixture *f, unsigned round)
{
    char id[16];
    (void)snprintf(id, sizeof id, "%u", round);
    semel_test_fault(f->seam, "receive.begun", 1, SEMEL_EUNAVAILABLE);
    publish(s, text_message(id, "a"));
    WAIT_UNTIL(atomic_load(&s->broker.acked) > round && atomic_load(&s->troubles) > round &&
               atomic_load(&s->reliefs) > round);
    assert_int_equal(s->broker.acked, round + 1);
    assert_int_equal(s->troubles, round + 1);
    assert_int_equal(s->reliefs, round + 1);
}

/* Whichever worker did the work that was left: no other delivery comes that could show the end. */
static void the_end_of_trouble_is_always_said(void **state)
{
    fixture *f = *state;
    consumer_case s;
    open_workers(&s, f, 0);
    test_thread_start(&s.member, run, &s);
    for (unsigned i = 0; i < ROUNDS; i++)
        meet_trouble_once(&s, f, i);
    stop(&s);
    close_case(&s);
}

/* The others are waiting for something to do, and are woken by the end. */
static void an_error_that_ends_the_run_is_met_once(void **state)
{
    consumer_case s;
    open_workers(&s, *state, 100 * WORKERS);
    test_thread_start(&s.member, run, &s);
    WAIT_UNTIL(atomic_load(&s.broker.receives) > 0);
    publish(&s, text_message("m", "a"));
    assert_true(test_thread_join(&s.member, SOON_MS));
    assert_int_equal(s.ended, SEMEL_EMISUSE);
    assert_int_equal(s.why.status, SEMEL_EMISUSE);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.broker.inflight, 0);
    close_case(&s);
}

static void step_until_acked(consumer_case *s, unsigned count)
{
    size_t settled;
    for (int64_t deadline = process_now_ms() + SOON_MS;
         atomic_load(&s->broker.acked) < count && process_now_ms() < deadline;)
        OK(semel_consumer_step(&settled, s->consumer, 10, &last_error));
    assert_int_equal(s->broker.acked, count);
}

static void what_a_run_ended_by_does_not_keep_it_from_working_later(void **state)
{
    consumer_case s;
    open_workers(&s, *state, 1);
    publish(&s, text_message("1", "a"));
    FAILS(SEMEL_EMISUSE, semel_consumer_run(s.consumer, &last_error));
    assert_int_equal(s.runs, 1);
    step_until_acked(&s, 1);
    test_thread_start(&s.member, run, &s);
    publish(&s, text_message("2", "a"));
    WAIT_UNTIL(atomic_load(&s.broker.acked) == 2);
    stop(&s);
    assert_int_equal(s.broker.acked, 2);
    assert_int_equal(s.runs, 3);
    close_case(&s);
}

/* --- a batch whose store goes away ------------------------------------------------------------ */

static semel_inbox *inbox_by_claims(fixture *f)
{
    semel_inbox_options claims = {.size = sizeof claims, .mode = SEMEL_CLAIM};
    return fixture_inbox(f, "inbox", &claims);
}

/* k1 fails for a reason of its own, and then the store is gone: what the call returns is the
 * second. */
static semel_status miss_k1(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    unsigned *runs = context;
    (void)unit;
    ++*runs;
    if (memcmp(message->id.data, "k1", 2) == 0 && *runs == 1)
        return semel_fail(err, SEMEL_ENOTFOUND, "the customer is not there");
    return SEMEL_OK;
}

static void a_batch_says_why_it_ended_and_not_what_failed_before(void **state)
{
    fixture *f = *state;
    unsigned runs = 0;
    semel_outcome out[2];
    semel_error why = {0};
    semel_message k1 = text_message("k1", "a"), k2 = text_message("k2", "a");
    const semel_message *const all[] = {&k1, &k2};
    semel_inbox *inbox = inbox_by_claims(f);
    semel_test_fault(f->seam, "claim.stored", 2, SEMEL_EUNAVAILABLE);
    semel_status status = semel_inbox_receive_batch(out, inbox, all, 2, miss_k1, &runs, &why);
    assert_int_equal(status, SEMEL_EUNAVAILABLE);
    assert_int_equal(why.status, SEMEL_EUNAVAILABLE);
    assert_true(why.retryable);
    OUTCOME(SEMEL_FAILED, out[0]);
    OUTCOME(SEMEL_UNDECIDED, out[1]);
}

static void publish_id(semel_transport *transport, const char *id)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, transport, &one, 1, 0, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

typedef struct patient {
    semel_consumer *consumer;
    semel_status ended;
    atomic_uint troubles, reliefs;
} patient;

static void note_patient(void *context, const semel_error *trouble)
{
    patient *p = context;
    atomic_fetch_add(trouble ? &p->troubles : &p->reliefs, 1);
}

static void run_patient(test_thread *member)
{
    patient *p = member->context;
    p->ended = semel_consumer_run(p->consumer, NULL);
}

static void a_run_does_not_end_because_of_what_failed_before_the_store_did(void **state)
{
    fixture *f = *state;
    patient p = {0};
    no_delay broker = {0};
    unsigned runs = 0;
    test_thread member;
    semel_route route = {"*", inbox_by_claims(f), miss_k1, &runs};
    semel_consumer_options options = {.size = sizeof options,
                                      .batch = 2,
                                      .backoff_ms = 1,
                                      .backoff_max_ms = 4,
                                      .notice = note_patient,
                                      .notice_context = &p};
    OK(semel_transport_open(&broker.inner, "memory:", NULL, &last_error));
    OK(semel_consumer_open(&p.consumer, no_delay_open(f, &broker, NULL), &route, 1, &options,
                           &last_error));
    publish_id(broker.inner, "k1");
    publish_id(broker.inner, "k2");
    semel_test_fault(f->seam, "claim.stored", 2, SEMEL_EUNAVAILABLE);
    test_thread_start(&member, run_patient, &p);
    WAIT_UNTIL(atomic_load(&broker.acked) == 2);
    semel_consumer_stop(p.consumer);
    assert_true(test_thread_join(&member, SOON_MS));
    assert_int_equal(p.ended, SEMEL_OK);
    assert_int_equal(broker.acked, 2);
    assert_int_equal(p.troubles, 1);
    assert_int_equal(p.reliefs, 1);
    semel_consumer_close(p.consumer);
    semel_transport_close(broker.inner);
}

/* --- stopping is for good --------------------------------------------------------------------- */

static semel_status stop_the_run(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    patient *p = context;
    (void)unit, (void)message, (void)err;
    atomic_fetch_add(&p->reliefs, 1);
    semel_consumer_stop(p->consumer);
    return SEMEL_OK;
}

static void open_stopping(patient *p, semel_transport *transport, semel_inbox *inbox)
{
    semel_route route = {"*", inbox, stop_the_run, p};
    *p = (patient){0};
    OK(semel_consumer_open(&p->consumer, transport, &route, 1, NULL, &last_error));
}

/* Also if it never ran; and what it left is there for the next one. */
static void a_consumer_that_was_stopped_stays_so(void **state)
{
    fixture *f = *state;
    patient p;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    for (size_t i = 0; i < 3; i++)
        publish_id(queue, (const char *const[]){"1", "2", "3"}[i]);
    for (unsigned consumers = 0; consumers < 2; consumers++) {
        open_stopping(&p, queue, inbox);
        for (unsigned runs = 0; runs < 2; runs++) {
            OK(semel_consumer_run(p.consumer, &last_error));
            assert_int_equal(p.reliefs, 1);
        }
        semel_consumer_close(p.consumer);
    }
    open_stopping(&p, queue, inbox);
    semel_consumer_stop(p.consumer);
    OK(semel_consumer_run(p.consumer, &last_error));
    assert_int_equal(p.reliefs, 0);
    semel_consumer_close(p.consumer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("the end of trouble is always said", the_end_of_trouble_is_always_said),
        ON_MEMORY("an error that ends the run is met once", an_error_that_ends_the_run_is_met_once),
        ON_MEMORY("what a run ended by does not keep it from working later",
                  what_a_run_ended_by_does_not_keep_it_from_working_later),
        ON_BOTH("a batch says why it ended, and not what failed before",
                a_batch_says_why_it_ended_and_not_what_failed_before),
        ON_BOTH("a run does not end because of what failed before the store did",
                a_run_does_not_end_because_of_what_failed_before_the_store_did),
        ON_BOTH("a consumer that was stopped stays so", a_consumer_that_was_stopped_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
