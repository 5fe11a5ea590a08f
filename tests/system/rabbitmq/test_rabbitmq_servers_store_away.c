/* The database is killed under a consumer that runs, and comes back some time later. Meanwhile
 * nothing more is received, what is in flight stays there, and the observer is told of it once;
 * then all goes on by itself. No message is blamed: nothing was returned to the broker, nothing is
 * a dead letter, and every effect is there once. */
#include "support/process/threads.h"
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { BEFORE = 40, MEANWHILE = 10, PREFETCH = 8, LIMIT = 0, AT_WORK = 3, STEADY_MS = 3000 };

typedef struct outage_case {
    server_own database;
    service_case s;
    char dead[BROKER_NAME_ROOM]; /* what the broker gives up */
    service v;
    test_thread runner;
} outage_case;

static void take_time(void)
{
    for (int64_t until = process_now_ms() + 5; process_now_ms() < until;)
        process_nap();
}

/* Slow enough for the kill to find it at work, before its statement or after it. */
static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    take_time();
    wait_for_harm(context, BEFORE / 2);
    semel_status status = service_case_handle(unit, message, context, err);
    take_time();
    return status;
}

static void run_consumer(test_thread *member)
{
    service *v = member->context;
    PROCESS_REQUIRE_OK(semel_consumer_run(v->consumer, &v->err), &v->err);
}

/* A queue that gives up what comes back even once. */
static void open_case(outage_case *y, server_kind kind)
{
    char parameters[SERVER_URL_ROOM];
    server_place broker;
    server_own_start(&y->database, kind);
    server_find(&broker, SERVER_RABBITMQ);
    broker_name(y->dead);
    broker_make_queue(&broker, y->dead, "quorum");
    (void)snprintf(parameters, sizeof parameters,
                   QUORUM "&delivery_limit=%d&dead_letter=&dead_letter_key=%s&prefetch=%d", LIMIT,
                   y->dead, PREFETCH);
    service_case_open_at(&y->s, &broker, &y->database.at, parameters);
}

static void close_case(outage_case *y)
{
    broker_delete_queue(&y->s.kit.broker, y->dead);
    service_case_close(&y->s);
    server_own_stop(&y->database);
}

static void start(outage_case *y, uint32_t workers, uint32_t batch)
{
    service_open_consumer(&y->v, &y->s, handle, (semel_inbox_options){.attempts_max = 2},
                          (semel_consumer_options){.workers = workers,
                                                   .batch = batch,
                                                   .backoff_ms = 50,
                                                   .backoff_max_ms = 200,
                                                   .notice = note_trouble,
                                                   .notice_context = y->s.tally});
    test_thread_start(&y->runner, run_consumer, &y->v);
}

static void stop(outage_case *y)
{
    semel_consumer_stop(y->v.consumer);
    assert_true(test_thread_join(&y->runner, KIT_WAIT_MS));
    service_close(&y->v);
}

static int64_t ready(const outage_case *y)
{
    return broker_ready(&y->s.kit.broker, y->s.kit.queue);
}

/* Of the BEFORE and MEANWHILE. What had begun was done and acknowledged, but for some of what was
 * at work; the test cannot tell when the last of these acknowledgements comes. */
static int none_but_begun_are_settled(const outage_case *y)
{
    int64_t others = BEFORE + MEANWHILE - (int64_t)atomic_load(&y->s.tally->begun);
    int64_t count = broker_count(&y->s.kit.broker, y->s.kit.queue);
    assert_true(count >= others);
    return count <= others + AT_WORK;
}

/* Of those that are left the consumer has as many as it may have, and so it stays. */
static void expect_no_intake(const outage_case *y)
{
    EVENTUALLY(none_but_begun_are_settled(y));
    for (int64_t until = process_now_ms() + STEADY_MS; process_now_ms() < until; take_time())
        assert_true(none_but_begun_are_settled(y));
    EVENTUALLY(broker_count(&y->s.kit.broker, y->s.kit.queue) - ready(y) == PREFETCH);
}

static void kill_under_load(outage_case *y)
{
    char ids[KIT_SAID];
    tally *t = y->s.tally;
    EVENTUALLY(atomic_load(&t->begun) >= 5);
    server_own_crash(&y->database);
    atomic_store(&t->struck, 1);
    EVENTUALLY(atomic_load(&t->troubles) >= 1);
    service_case_publish(&y->s, numbered(ids, 'h', 0, MEANWHILE));
    expect_no_intake(y);
    assert_int_equal(atomic_load(&t->relief), 0);
    server_own_restart(&y->database);
}

/* A message in work when it happened may have run twice; none was delivered twice. */
static void check(outage_case *y)
{
    char ids[2 * KIT_SAID];
    size_t used = strlen(numbered(ids, 'g', 0, BEFORE));
    (void)numbered(ids + used, 'h', 0, MEANWHILE);
    const tally *t = y->s.tally;
    /* One notice, however often it was tried; on a machine that stalls a connection to the broker
     * may be lost, too, which is one more. */
    assert_in_range(atomic_load(&t->troubles), 1, 3);
    assert_int_equal(atomic_load(&t->relief), atomic_load(&t->troubles));
    expect_effects(&y->s, ids);
    assert_int_equal(dead_letters(&y->s), 0);
    assert_int_equal(broker_ready(&y->s.kit.broker, y->dead), 0);
    expect_empty_queue(&y->s);
    assert_in_range(atomic_load(&t->begun), BEFORE + MEANWHILE, BEFORE + MEANWHILE + PREFETCH);
}

static void outlive(server_kind kind, uint32_t workers, uint32_t batch)
{
    char ids[KIT_SAID];
    outage_case y = {0};
    open_case(&y, kind);
    service_case_publish(&y.s, numbered(ids, 'g', 0, BEFORE));
    start(&y, workers, batch);
    kill_under_load(&y);
    EVENTUALLY(effects(&y.s) >= BEFORE + MEANWHILE);
    EVENTUALLY(atomic_load(&y.s.tally->relief) >= 1);
    expect_empty_queue(&y.s); /* copies, too: a stopped consumer gives back what it has */
    stop(&y);
    check(&y);
    close_case(&y);
}

static void a_consumer_waits_for_its_postgres(void **state)
{
    (void)state;
    outlive(SERVER_POSTGRES, 3, 1);
}

static void a_consumer_of_batches_waits_for_its_mariadb(void **state)
{
    (void)state;
    outlive(SERVER_MARIADB, 1, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_consumer_waits_for_its_postgres),
        cmocka_unit_test(a_consumer_of_batches_waits_for_its_mariadb),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: the store is away", tests, NULL, NULL);
}
