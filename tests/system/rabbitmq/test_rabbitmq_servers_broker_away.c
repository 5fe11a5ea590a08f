/* The broker is killed under consumers and relays that run, with messages on every part of the way:
 * in the outbox, on to the broker, in the queue, in flight. When it is back all of it goes on by
 * itself: every effect is there once, nothing is left and nothing is a dead letter, and the
 * observer was told of the outage once.
 *
 * Two such systems at once, on SQLite and on PostgreSQL, because a broker takes its time to
 * start. */
#include "support/process/threads.h"
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

enum { SYSTEMS = 2, BEFORE = 60, MEANWHILE = 10 };

static server_own broker;

typedef struct half {
    service v;
    tally *notices;
    test_thread runner;
} half;

/* Messages go from the outbox by the exchange into the queue, and are handled. */
typedef struct whole {
    service_case s;
    half consumer, relay;
} whole;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    semel_status status = service_case_handle(unit, message, context, err);
    wait_for_harm(context, BEFORE / 2);
    for (int64_t until = process_now_ms() + 5; process_now_ms() < until;)
        process_nap();
    return status;
}

static void run_half(test_thread *member)
{
    service *v = member->context;
    semel_status status =
        v->consumer ? semel_consumer_run(v->consumer, &v->err) : semel_relay_run(v->relay, &v->err);
    PROCESS_REQUIRE_OK(status, &v->err);
}

static void send_all(whole *w, char initial, unsigned count)
{
    char id[ID_ROOM];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "%c%u", initial, i);
        semel_message message = text_message(id, id);
        OK(semel_outbox_send(w->relay.v.outbox, &message, &last_error));
    }
}

static void start(whole *w, const server_place *database, const char *queue)
{
    service_case_open_at(&w->s, &broker.at, database, queue);
    w->consumer.notices = process_share(sizeof(tally));
    w->relay.notices = process_share(sizeof(tally));
    service_open_consumer(&w->consumer.v, &w->s, handle, (semel_inbox_options){.attempts_max = 4},
                          (semel_consumer_options){.workers = 2,
                                                   .backoff_ms = 50,
                                                   .backoff_max_ms = 200,
                                                   .notice = note_trouble,
                                                   .notice_context = w->consumer.notices});
    service_open_relay(&w->relay.v, &w->s, w->s.kit.queue,
                       (semel_relay_options){.batch = 7,
                                             .poll_ms = 20,
                                             .backoff_ms = 50,
                                             .backoff_max_ms = 200,
                                             .notice = note_trouble,
                                             .notice_context = w->relay.notices},
                       NULL);
    send_all(w, 'g', BEFORE);
}

static void go(whole *w)
{
    test_thread_start(&w->consumer.runner, run_half, &w->consumer.v);
    test_thread_start(&w->relay.runner, run_half, &w->relay.v);
}

static void stop(whole *w)
{
    semel_consumer_stop(w->consumer.v.consumer);
    semel_relay_stop(w->relay.v.relay);
    assert_true(test_thread_join(&w->consumer.runner, KIT_WAIT_MS));
    assert_true(test_thread_join(&w->relay.runner, KIT_WAIT_MS));
    service_close(&w->consumer.v);
    service_close(&w->relay.v);
}

static void expect_one_notice(const half *h)
{
    assert_int_equal(atomic_load(&h->notices->troubles), 1);
    assert_int_equal(atomic_load(&h->notices->relief), 1);
    process_unshare(h->notices, sizeof *h->notices);
}

static void check(whole *w)
{
    char ids[2 * KIT_SAID];
    size_t used = strlen(numbered(ids, 'g', 0, BEFORE));
    (void)numbered(ids + used, 'h', 0, MEANWHILE);
    expect_effects(&w->s, ids);
    assert_int_equal(unsent(&w->s), 0);
    assert_int_equal(dead_letters(&w->s), 0);
    assert_int_equal(atomic_load(&w->s.tally->begun), BEFORE + MEANWHILE);
    expect_empty_queue(&w->s);
    expect_one_notice(&w->consumer);
    expect_one_notice(&w->relay);
}

static void consumers_and_relays_wait_for_their_broker(void **state)
{
    whole systems[SYSTEMS] = {0};
    server_place postgres;
    (void)state;
    server_find(&postgres, SERVER_POSTGRES);
    start(&systems[0], NULL, QUORUM "&prefetch=10");
    start(&systems[1], &postgres, CLASSIC "&prefetch=10");
    broker_sync(&broker.at);
    for (int i = 0; i < SYSTEMS; i++)
        go(&systems[i]);
    for (int i = 0; i < SYSTEMS; i++)
        EVENTUALLY(atomic_load(&systems[i].s.tally->begun) >= 10);
    server_own_crash(&broker);
    for (int i = 0; i < SYSTEMS; i++) {
        atomic_store(&systems[i].s.tally->struck, 1);
        send_all(&systems[i], 'h', MEANWHILE);
        EVENTUALLY(atomic_load(&systems[i].consumer.notices->troubles) == 1);
        EVENTUALLY(atomic_load(&systems[i].relay.notices->troubles) == 1);
    }
    server_own_restart(&broker);
    for (int i = 0; i < SYSTEMS; i++) {
        EVENTUALLY(effects(&systems[i].s) >= BEFORE + MEANWHILE);
        EVENTUALLY(unsent(&systems[i].s) == 0);
        expect_empty_queue(
            &systems[i].s); /* copies, too: a stopped consumer gives back what it has */
        EVENTUALLY(atomic_load(&systems[i].relay.notices->relief) == 1);
        EVENTUALLY(atomic_load(&systems[i].consumer.notices->relief) == 1);
        stop(&systems[i]);
        check(&systems[i]);
        service_case_close(&systems[i].s);
    }
}

static int start_broker(void **state)
{
    (void)state;
    server_own_start(&broker, SERVER_RABBITMQ);
    return 0;
}

static int stop_broker(void **state)
{
    (void)state;
    server_own_stop(&broker);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consumers_and_relays_wait_for_their_broker),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: the broker is away", tests,
                                       start_broker, stop_broker);
}
