/* Health: what another thread is told of a consumer, a relay and their store while they run, while
 * they wait an outage out, when they hang, and when they do not run.
 *
 * The transports have the system's clock, the store has the test's. */
#include "support/fake/failing_store.h"
#include "support/fake/no_delay_transport.h"
#include "support/fake/stub_transport.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdio.h>
#include <time.h>

enum { WORKERS = 4, MESSAGES = 200, SOON_MS = 60000, HOUR_MS = 3600000 };

#define WAIT_UNTIL(condition)                              \
    for (int64_t wait_until_ = process_now_ms() + SOON_MS; \
         !(condition) && process_now_ms() < wait_until_;)  \
    process_nap()

static int64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static semel_health ask(const semel_health_query *query)
{
    semel_health found;
    OK(semel_health_check(&found, sizeof found, query, &last_error));
    return found;
}

/* --- a consumer ------------------------------------------------------------------------------- */

typedef struct consuming {
    no_delay broker;
    semel_consumer *consumer;
    semel_status ended;
    atomic_uint runs;
    atomic_int hang; /* handlers do not return */
    atomic_int fail; /* handlers fail */
    test_thread member;
    semel_health_query query;
} consuming;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    consuming *c = context;
    (void)unit, (void)message;
    atomic_fetch_add(&c->runs, 1);
    WAIT_UNTIL(!atomic_load(&c->hang));
    return atomic_load(&c->fail) ? semel_fail(err, SEMEL_EHANDLER, "as it was told") : SEMEL_OK;
}

static void open_consumer(consuming *c, fixture *f, uint32_t workers, uint32_t backoff_ms)
{
    semel_consumer_options options = {.size = sizeof options,
                                      .workers = workers,
                                      .backoff_ms = backoff_ms,
                                      .backoff_max_ms = backoff_ms};
    *c = (consuming){0};
    OK(semel_transport_open(&c->broker.inner, "memory:", NULL, &last_error));
    fixture_keep_transport(f, c->broker.inner);
    semel_route route = {"*", fixture_inbox(f, "in", NULL), handle, c};
    failing_store_open(f);
    c->consumer = fixture_consumer(f, no_delay_open(f, &c->broker, NULL), &route, 1, &options);
    c->query = (semel_health_query){
        .size = sizeof c->query, .consumer = c->consumer, .stalled_after_ms = HOUR_MS};
}

static semel_health_part ask_consumer(const consuming *c)
{
    semel_health found = ask(&c->query);
    assert_int_equal(found.state, found.consumer.state);
    assert_int_equal(found.relay.state, SEMEL_HEALTH_NOT_ASKED);
    assert_int_equal(found.store.state, SEMEL_HEALTH_NOT_ASKED);
    return found.consumer;
}

static void publish(consuming *c, unsigned number)
{
    char id[16];
    semel_publish_result result;
    (void)snprintf(id, sizeof id, "%u", number);
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    OK(semel_transport_publish(&result, c->broker.inner, &one, 1, 0, &last_error));
}

static void run_consumer(test_thread *member)
{
    consuming *c = member->context;
    semel_error ignored;
    c->ended = semel_consumer_run(c->consumer, &ignored);
}

static void start(consuming *c)
{
    test_thread_start(&c->member, run_consumer, c);
}

static void stop(consuming *c)
{
    semel_consumer_stop(c->consumer);
    assert_true(test_thread_join(&c->member, SOON_MS));
    assert_int_equal(c->ended, SEMEL_OK);
    assert_int_equal(ask_consumer(c).state, SEMEL_HEALTH_STOPPED);
    assert_string_equal(ask_consumer(c).error, "");
}

/* Several workers change what another thread reads: a test for the thread sanitizer, too. */
static void a_running_consumer_is_ok(void **state)
{
    consuming c;
    int64_t before = wall_ms();
    open_consumer(&c, *state, WORKERS, 1);
    semel_health_part part = ask_consumer(&c);
    assert_int_equal(part.state, SEMEL_HEALTH_STOPPED);
    assert_int_equal(part.moved_ms, 0);
    start(&c);
    for (unsigned i = 0; i < MESSAGES; i++)
        publish(&c, i);
    WAIT_UNTIL((part = ask_consumer(&c)).state == SEMEL_HEALTH_OK && !part.waiting &&
               atomic_load(&c.broker.acked) == MESSAGES);
    assert_int_equal(part.state, SEMEL_HEALTH_OK);
    WAIT_UNTIL((part = ask_consumer(&c)).moved_ms);
    assert_in_range(part.since_ms, before, wall_ms());
    assert_in_range(part.moved_ms, part.since_ms, wall_ms());
    stop(&c);
}

/* `before`: when it could not have begun yet. */
static void check_outage(consuming *c, int64_t before, const char *error)
{
    semel_health_part part;
    publish(c, 1);
    WAIT_UNTIL((part = ask_consumer(c)).state == SEMEL_HEALTH_WAITING);
    assert_int_equal(part.state, SEMEL_HEALTH_WAITING);
    assert_in_range(part.since_ms, before, wall_ms());
    assert_non_null(strstr(part.error, error));
}

/* The same of its end. */
static void check_relief(consuming *c, int64_t before)
{
    semel_health_part part;
    WAIT_UNTIL((part = ask_consumer(c)).state == SEMEL_HEALTH_OK);
    assert_int_equal(part.state, SEMEL_HEALTH_OK);
    assert_in_range(part.since_ms, before, wall_ms());
    assert_string_equal(part.error, "");
    WAIT_UNTIL(atomic_load(&c->broker.acked) == 1);
    assert_int_equal(c->broker.acked, 1);
}

static void an_outage_of_the_broker_is_waiting(void **state)
{
    consuming c;
    open_consumer(&c, *state, WORKERS, 1);
    int64_t before = wall_ms();
    atomic_store(&c.broker.receive_broken, SEMEL_EUNAVAILABLE);
    start(&c);
    check_outage(&c, before, "");
    before = wall_ms();
    atomic_store(&c.broker.receive_broken, SEMEL_OK);
    check_relief(&c, before);
    stop(&c);
}

static void an_outage_of_the_store_is_waiting(void **state)
{
    consuming c;
    open_consumer(&c, *state, 1, 1);
    int64_t before = wall_ms();
    failing_store_break_commits(UINT32_MAX, SEMEL_EUNAVAILABLE);
    start(&c);
    check_outage(&c, before, "commit");
    before = wall_ms();
    failing_store_break_commits(0, SEMEL_OK);
    check_relief(&c, before);
    stop(&c);
}

static void a_run_that_ended_by_an_error_has_failed(void **state)
{
    consuming c;
    semel_error ignored;
    open_consumer(&c, *state, 1, 1);
    failing_store_break_commits(1, SEMEL_EMISUSE);
    publish(&c, 1);
    assert_int_equal(semel_consumer_run(c.consumer, &ignored), SEMEL_EMISUSE);
    semel_health_part part = ask_consumer(&c);
    assert_int_equal(part.state, SEMEL_HEALTH_FAILED);
    assert_string_equal(part.error, ignored.text);
    int64_t before = wall_ms();
    start(&c);
    check_relief(&c, before);
    stop(&c);
}

static void a_handler_that_hangs_is_a_stall(void **state)
{
    consuming c;
    semel_health_part part;
    open_consumer(&c, *state, 2, 1);
    atomic_store(&c.hang, 1);
    publish(&c, 1);
    start(&c);
    WAIT_UNTIL(atomic_load(&c.runs) == 1);
    assert_int_equal(ask_consumer(&c).state, SEMEL_HEALTH_OK); /* for an hour */
    c.query.stalled_after_ms = 1;
    WAIT_UNTIL((part = ask_consumer(&c)).state == SEMEL_HEALTH_STALLED);
    assert_int_equal(part.state, SEMEL_HEALTH_STALLED);
    assert_int_equal(part.waiting, 1);
    assert_non_null(strstr(part.error, "1 wait"));
    atomic_store(&c.hang, 0);
    WAIT_UNTIL((part = ask_consumer(&c)).state == SEMEL_HEALTH_OK);
    assert_int_equal(part.state, SEMEL_HEALTH_OK);
    stop(&c);
}

/* It waits for its next attempt, an hour from now: nothing is due. */
static void a_delivery_that_is_put_off_is_no_stall(void **state)
{
    static consuming c; /* the delivery goes back when the fixture closes the consumer */
    semel_health_part part;
    open_consumer(&c, *state, 1, HOUR_MS);
    atomic_store(&c.fail, 1);
    publish(&c, 1);
    start(&c);
    c.query.stalled_after_ms = 1;
    WAIT_UNTIL(atomic_load(&c.runs) == 1);
    for (int64_t until = process_now_ms() + 50; process_now_ms() < until;)
        process_nap(); /* much longer than a stall takes */
    WAIT_UNTIL((part = ask_consumer(&c)).state == SEMEL_HEALTH_OK && part.waiting == 1);
    assert_int_equal(part.state, SEMEL_HEALTH_OK);
    assert_int_equal(part.waiting, 1);
    stop(&c);
}

/* --- a relay ---------------------------------------------------------------------------------- */

typedef struct relaying {
    atomic_int broken; /* a semel_status */
    atomic_int hang;
    atomic_uint published;
    semel_outbox *outbox;
    semel_relay *relay;
    semel_status ended;
    test_thread member;
    semel_health_query query;
} relaying;

static semel_status publish_stub(void *context, semel_publish_result results[],
                                 const semel_message *const messages[], size_t count,
                                 semel_error *err)
{
    relaying *r = context;
    semel_status broken = (semel_status)atomic_load(&r->broken);
    (void)messages;
    atomic_fetch_add(&r->published, 1);
    WAIT_UNTIL(!atomic_load(&r->hang));
    for (size_t i = 0; i < count; i++)
        results[i] = broken ? SEMEL_PUBLISH_UNKNOWN : SEMEL_PUBLISH_CONFIRMED;
    return broken ? semel_fail(err, broken, "the broker is away") : SEMEL_OK;
}

static void open_relay(relaying *r, fixture *f)
{
    semel_transport *broker;
    semel_relay_options options = {
        .size = sizeof options, .poll_ms = 5, .backoff_ms = 1, .backoff_max_ms = 1};
    *r = (relaying){0};
    OK(stub_transport_open(&broker, publish_stub, r, &last_error));
    fixture_keep_transport(f, broker);
    r->outbox = fixture_outbox(f, "mail");
    r->relay = fixture_relay(f, r->outbox, broker, &options);
    r->query = (semel_health_query){
        .size = sizeof r->query, .relay = r->relay, .stalled_after_ms = HOUR_MS};
}

static semel_health ask_relay(const relaying *r)
{
    semel_health found = ask(&r->query);
    assert_int_equal(found.store.state, SEMEL_HEALTH_OK);
    assert_int_equal(found.state, found.relay.state);
    return found;
}

static void run_relay(test_thread *member)
{
    relaying *r = member->context;
    semel_error ignored;
    r->ended = semel_relay_run(r->relay, &ignored);
}

static void stop_relay(relaying *r)
{
    semel_relay_stop(r->relay);
    assert_true(test_thread_join(&r->member, SOON_MS));
    assert_int_equal(r->ended, SEMEL_OK);
}

static void send_one(relaying *r, const char *id)
{
    semel_message message = text_message(id, "a");
    OK(semel_outbox_send(r->outbox, &message, &last_error));
}

/* By one answer: with what is due the next one may be another. */
#define RELAY_IS(r, wanted)                                          \
    do {                                                             \
        semel_health_state state_;                                   \
        WAIT_UNTIL((state_ = ask_relay(r).relay.state) == (wanted)); \
        assert_int_equal(state_, (wanted));                          \
    } while (0)

static void an_outage_is_waiting_for_the_relay(void **state)
{
    relaying r;
    fixture *f = *state;
    open_relay(&r, f);
    assert_int_equal(ask_relay(&r).relay.state, SEMEL_HEALTH_STOPPED);
    atomic_store(&r.broken, SEMEL_EUNAVAILABLE);
    send_one(&r, "a");
    test_thread_start(&r.member, run_relay, &r);
    RELAY_IS(&r, SEMEL_HEALTH_WAITING);
    assert_non_null(strstr(ask_relay(&r).relay.error, "the broker is away"));
    atomic_store(&r.broken, SEMEL_OK);
    WAIT_UNTIL((semel_test_advance_ms(f->seam, 1000), ask_relay(&r).relay.moved_ms));
    RELAY_IS(&r, SEMEL_HEALTH_OK);
    assert_string_equal(ask_relay(&r).relay.error, "");
    stop_relay(&r);
    assert_int_equal(ask_relay(&r).relay.state, SEMEL_HEALTH_STOPPED);
}

static void a_relay_that_ended_by_an_error_has_failed(void **state)
{
    relaying r;
    semel_error ignored;
    open_relay(&r, *state);
    atomic_store(&r.broken, SEMEL_EINVAL);
    send_one(&r, "a");
    assert_int_equal(semel_relay_run(r.relay, &ignored), SEMEL_EINVAL);
    assert_int_equal(ask_relay(&r).relay.state, SEMEL_HEALTH_FAILED);
    assert_string_equal(ask_relay(&r).relay.error, "the broker is away");
}

/* The broker does not return from the first message; the second one is due. */
static void a_relay_that_hangs_is_a_stall(void **state)
{
    relaying r;
    fixture *f = *state;
    open_relay(&r, f);
    atomic_store(&r.hang, 1);
    send_one(&r, "a");
    test_thread_start(&r.member, run_relay, &r);
    WAIT_UNTIL(atomic_load(&r.published) == 1);
    send_one(&r, "b");
    r.query.stalled_after_ms = 100;
    semel_test_advance_ms(f->seam, 200); /* so long it has been due by the store's clock */
    RELAY_IS(&r, SEMEL_HEALTH_STALLED);
    assert_int_equal(ask_relay(&r).relay.waiting, 1);
    atomic_store(&r.hang, 0);
    RELAY_IS(&r, SEMEL_HEALTH_OK);
    stop_relay(&r);
}

static void a_relay_that_does_not_run_is_a_stall_when_something_is_due(void **state)
{
    relaying r;
    size_t sent;
    fixture *f = *state;
    open_relay(&r, f);
    r.query.stalled_after_ms = 1000;
    send_one(&r, "a");
    assert_int_equal(ask_relay(&r).relay.state, SEMEL_HEALTH_STOPPED);
    semel_test_advance_ms(f->seam, 10000);
    assert_int_equal(ask_relay(&r).relay.state, SEMEL_HEALTH_STALLED);
    OK(semel_relay_step(&sent, r.relay, 0, &last_error));
    assert_int_equal(ask_relay(&r).relay.state, SEMEL_HEALTH_STOPPED);
}

/* --- a store ---------------------------------------------------------------------------------- */

static void a_store_that_is_away_is_waiting(void **state)
{
    fixture *f = *state;
    char away[SERVER_URL_ROOM + 8];
    const char *path = strchr(f->place.url, ':') + 1;
    semel_health_query query = {.size = sizeof query, .store = f->store};
    (void)snprintf(away, sizeof away, "%s.away", path);
    assert_int_equal(ask(&query).state, SEMEL_HEALTH_OK);
    int64_t since = ask(&query).store.since_ms;
    assert_int_equal(rename(path, away), 0);
    semel_test_advance_ms(f->seam, 5000);
    assert_int_equal(ask(&query).state, SEMEL_HEALTH_WAITING);
    assert_int_equal(ask(&query).store.since_ms, since + 5000);
    assert_string_not_equal(ask(&query).store.error, "");
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(ask(&query).state, SEMEL_HEALTH_OK);
    assert_string_equal(ask(&query).store.error, "");
}

static void a_query_without_a_size_is_refused(void **state)
{
    semel_health found;
    semel_health_query query = {0};
    (void)state;
    FAILS(SEMEL_EINVAL, semel_health_check(&found, sizeof found, &query, &last_error));
    query.size = sizeof query;
    assert_int_equal(ask(&query).state, SEMEL_HEALTH_NOT_ASKED);
    assert_string_equal(semel_health_name(SEMEL_HEALTH_STALLED), "stalled");
    assert_string_equal(semel_health_name((semel_health_state)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a running consumer is ok", a_running_consumer_is_ok),
        ON_MEMORY("an outage of the broker is waiting", an_outage_of_the_broker_is_waiting),
        ON_MEMORY("an outage of the store is waiting", an_outage_of_the_store_is_waiting),
        ON_MEMORY("a run that ended by an error has failed",
                  a_run_that_ended_by_an_error_has_failed),
        ON_BOTH("a handler that hangs is a stall", a_handler_that_hangs_is_a_stall),
        ON_MEMORY("a delivery that is put off is no stall", a_delivery_that_is_put_off_is_no_stall),
        ON_BOTH("an outage is waiting for the relay", an_outage_is_waiting_for_the_relay),
        ON_MEMORY("a relay that ended by an error has failed",
                  a_relay_that_ended_by_an_error_has_failed),
        ON_BOTH("a relay that hangs is a stall", a_relay_that_hangs_is_a_stall),
        ON_BOTH("a relay that does not run is a stall when something is due",
                a_relay_that_does_not_run_is_a_stall_when_something_is_due),
        ON_SQLITE("a store that is away is waiting", a_store_that_is_away_is_waiting),
        ON_MEMORY("a query without a size is refused", a_query_without_a_size_is_refused)};
    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
