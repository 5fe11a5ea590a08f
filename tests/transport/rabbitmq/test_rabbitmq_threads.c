/* One transport, many threads: some publish, some receive, some settle what others received, while
 * the broker closes the connections under them. At the end every message that was confirmed has
 * been received, and each delivery that was acknowledged without an error on a connection that
 * stayed is gone from the queue. */
#include "support/process/threads.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    PUBLISHERS = 2,
    RECEIVERS = 2,
    SETTLERS = 2,
    CLOSERS = 1,
    BATCHES = 30,
    BATCH = 10,
    MESSAGES = PUBLISHERS * BATCHES * BATCH,
    HELD = 4096,
    PAUSE_MS = 100, /* between two closings, in which at least ... */
    PAUSE_BATCHES = 2,
    DEADLINE_MS = 60000
};

typedef struct thread_case {
    rabbit_kit kit;
    char name[BROKER_NAME_ROOM];
    int64_t until;
    atomic_uint wrong;     /* calls that ended as they must not */
    atomic_uint published; /* messages that were confirmed */
    atomic_uint received;  /* different ones */
    atomic_uint publishers_left;
    atomic_uchar seen[MESSAGES];

    pthread_mutex_t lock;
    uint64_t held[HELD]; /* tags that wait for a settler */
    size_t held_count;
} thread_case;

static int is_hopeless(const thread_case *t)
{
    return process_now_ms() > t->until || atomic_load(&t->wrong);
}

static int is_over(const thread_case *t)
{
    return atomic_load(&t->received) == MESSAGES || is_hopeless(t);
}

static void expect(thread_case *t, int good)
{
    atomic_fetch_add(&t->wrong, !good);
}

/* --- what they do ----------------------------------------------------------------------------- */

static int publish_batch(thread_case *t, unsigned first)
{
    semel_message messages[BATCH];
    const semel_message *pointers[BATCH];
    semel_publish_result results[BATCH];
    char ids[BATCH][16];
    semel_error err;
    unsigned confirmed = 0;
    for (unsigned i = 0; i < BATCH; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%u", first + i);
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    semel_status status =
        semel_transport_publish(results, t->kit.transport, pointers, BATCH, 5000, &err);
    expect(t, !status || status == SEMEL_EUNAVAILABLE || status == SEMEL_EBUSY);
    for (unsigned i = 0; i < BATCH; i++)
        confirmed += results[i] == SEMEL_PUBLISH_CONFIRMED;
    expect(t, (confirmed == BATCH) == (status == SEMEL_OK));
    return confirmed == BATCH;
}

/* Also what has been received already, if the connection was lost before it was confirmed. */
static void publish(thread_case *t, unsigned first)
{
    for (unsigned batch = 0; batch < BATCHES && !is_hopeless(t);) {
        if (!publish_batch(t, first + batch * BATCH))
            continue;
        atomic_fetch_add(&t->published, BATCH);
        batch++;
    }
    atomic_fetch_sub(&t->publishers_left, 1);
}

static void hold(thread_case *t, const semel_delivery *delivery)
{
    char id[16] = "";
    size_t len = delivery->message->id.len;
    expect(t, len > 0 && len < sizeof id);
    memcpy(id, delivery->message->id.data, len < sizeof id ? len : 0);
    unsigned number = (unsigned)strtoul(id, NULL, 10);
    expect(t, number < MESSAGES);
    if (number < MESSAGES && !atomic_exchange(&t->seen[number], 1))
        atomic_fetch_add(&t->received, 1);
    pthread_mutex_lock(&t->lock);
    expect(t, t->held_count < HELD);
    if (t->held_count < HELD)
        t->held[t->held_count++] = delivery->tag;
    pthread_mutex_unlock(&t->lock);
}

static void receive(thread_case *t)
{
    while (!is_over(t)) {
        semel_delivery out[7];
        size_t got = 0;
        semel_error err;
        semel_status status = semel_transport_receive(t->kit.transport, out, 7, &got, 200, &err);
        expect(t, !status || status == SEMEL_EUNAVAILABLE);
        for (size_t i = 0; i < got && !status; i++)
            hold(t, &out[i]);
    }
}

/* The last ones first, so that others stay unfinished before them. */
static size_t take_held(thread_case *t, semel_delivery_settlement settles[], size_t max)
{
    size_t count = 0;
    pthread_mutex_lock(&t->lock);
    for (; count < max && t->held_count; count++)
        settles[count] = (semel_delivery_settlement){
            .tag = t->held[--t->held_count],
            .verdict = t->held_count % 9 ? SEMEL_VERDICT_ACK : SEMEL_VERDICT_RETRY};
    pthread_mutex_unlock(&t->lock);
    return count;
}

static void settle(thread_case *t, int to_the_end)
{
    while (to_the_end || !is_over(t)) {
        semel_delivery_settlement settles[5];
        semel_error err;
        size_t count = take_held(t, settles, 5);
        if (!count && to_the_end)
            return;
        if (!count) {
            process_nap();
            continue;
        }
        semel_status status = semel_transport_settle(t->kit.transport, settles, count, &err);
        expect(t, !status || status == SEMEL_EUNAVAILABLE);
    }
}

static int goes_on(const thread_case *t)
{
    return !is_over(t) && atomic_load(&t->publishers_left);
}

/* With pauses, or no thread would get anything done: on a slow machine connecting may take longer
 * than PAUSE_MS. */
static void close_connections(thread_case *t)
{
    while (goes_on(t)) {
        unsigned due = atomic_load(&t->published) + PAUSE_BATCHES * BATCH;
        (void)broker_close_connections(&t->kit.broker, t->name);
        int64_t next = process_now_ms() + PAUSE_MS;
        while (goes_on(t) && (process_now_ms() < next || atomic_load(&t->published) < due))
            process_nap();
    }
}

static void live(test_thread *member)
{
    thread_case *t = member->context;
    if (member->index < PUBLISHERS)
        publish(t, member->index * BATCHES * BATCH);
    else if (member->index < PUBLISHERS + RECEIVERS)
        receive(t);
    else if (member->index < PUBLISHERS + RECEIVERS + SETTLERS)
        settle(t, 0);
    else
        close_connections(t);
}

/* --- what is left ----------------------------------------------------------------------------- */

/* Now in peace: what comes still are copies of what has come. */
static void empty_the_queue(thread_case *t)
{
    settle(t, 1);
    t->until = process_now_ms() + DEADLINE_MS;
    while (broker_count(&t->kit.broker, t->kit.queue) > 0) {
        semel_delivery out[KIT_BATCH];
        size_t got = 0;
        assert_true(process_now_ms() < t->until);
        if (semel_transport_receive(t->kit.transport, out, KIT_BATCH, &got, 200, &last_error))
            continue;
        for (size_t i = 0; i < got; i++) {
            hold(t, &out[i]);
            if (kit_settle(&t->kit, out[i], SEMEL_VERDICT_ACK)) /* closed at last */
                assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        }
    }
}

static void live_together(const char *kind, unsigned closers)
{
    char parameters[3 * BROKER_NAME_ROOM];
    thread_case *t = calloc(1, sizeof *t);
    broker_name(t->name);
    (void)snprintf(parameters, sizeof parameters, "declare=yes&type=%s&name=%s&prefetch=30", kind,
                   t->name);
    kit_open(&t->kit, parameters);
    assert_int_equal(pthread_mutex_init(&t->lock, NULL), 0);
    atomic_store(&t->publishers_left, PUBLISHERS);
    t->until = process_now_ms() + DEADLINE_MS;
    assert_true(threads_run(PUBLISHERS + RECEIVERS + SETTLERS + closers, live, t));
    assert_int_equal(atomic_load(&t->wrong), 0);
    assert_int_equal(atomic_load(&t->published), MESSAGES);
    assert_int_equal(atomic_load(&t->received), MESSAGES);
    empty_the_queue(t);
    assert_int_equal(atomic_load(&t->wrong), 0);
    kit_close(&t->kit);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void many_threads_share_one_transport(void **state)
{
    (void)state;
    live_together("quorum", 0);
}

static void many_threads_live_through_closed_connections_with_a_quorum_queue(void **state)
{
    (void)state;
    live_together("quorum", CLOSERS);
}

static void many_threads_live_through_closed_connections_with_a_classic_queue(void **state)
{
    (void)state;
    live_together("classic", CLOSERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_share_one_transport),
        cmocka_unit_test(many_threads_live_through_closed_connections_with_a_quorum_queue),
        cmocka_unit_test(many_threads_live_through_closed_connections_with_a_classic_queue),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("threads on RabbitMQ", tests, NULL, NULL);
}
