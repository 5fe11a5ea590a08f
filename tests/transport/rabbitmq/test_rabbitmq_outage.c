/* The broker itself in trouble: killed while messages are out or under way, or out of memory or
 * disk, when it takes no messages but still gives some. It is one of our own, which is killed and
 * started again; the transport is never opened anew. */
#include "support/process/threads.h"
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

static server_own own;

static int start_broker(void **state)
{
    (void)state;
    server_own_start(&own, SERVER_RABBITMQ);
    return 0;
}

static int stop_broker(void **state)
{
    (void)state;
    server_own_stop(&own);
    return 0;
}

static void open_own(rabbit_kit *kit, const char *parameters)
{
    kit_prepare(kit, &own.at, parameters);
    OK(semel_transport_open(&kit->transport, kit->url, NULL, &last_error));
}

/* A quorum queue of RabbitMQ 3.10 is entered into a file that is written half a second later:
 * killed before that, the broker has the queue for ever without its contents. */
static void let_the_broker_remember_its_queues(void)
{
    char said[KIT_SAID];
    broker_eval(said, sizeof said, &own.at, "lists:foreach(fun dets:sync/1, dets:all()).");
}

/* A delivery in spite of the trouble; whatever else a call says must be that the broker is not
 * available. */
static semel_delivery take_at_last(rabbit_kit *kit)
{
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    semel_delivery one;
    size_t got = 0;
    while (!got) {
        if (process_now_ms() > until)
            fail_msg("nothing comes: %s", last_error.text);
        if (semel_transport_receive(kit->transport, &one, 1, &got, 1000, &last_error))
            assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
    }
    return one;
}

static void publish_at_last(rabbit_kit *kit, const semel_message *message)
{
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    while (result != SEMEL_PUBLISH_CONFIRMED) {
        if (process_now_ms() > until)
            fail_msg("not taken: %s", last_error.text);
        if (kit_publish(kit, &result, message, 1, 1000))
            assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
    }
}

/* --- killed ----------------------------------------------------------------------------------- */

enum { OUT = 6 };

static void send_letters(rabbit_kit *kit)
{
    static const char *const ids[OUT] = {"a", "b", "c", "d", "e", "f"};
    for (size_t i = 0; i < OUT; i++)
        kit_send(kit, ids[i]);
}

/* The letters that come now, each once, until the queue is empty. */
static void collect_letters(rabbit_kit *kit, char seen[OUT + 1], int count)
{
    memset(seen, '.', OUT);
    for (int i = 0; i < count; i++) {
        semel_delivery one = take_at_last(kit);
        char name = *(const char *)one.message->id.data;
        assert_in_range(name, 'a', 'a' + OUT - 1);
        assert_int_equal(seen[name - 'a'], '.');
        assert_true(one.message->delivery > 1); /* the prefetch had them all out */
        seen[name - 'a'] = name;
        kit_ack(kit, one);
    }
    EVENTUALLY(broker_count(&kit->broker, kit->queue) == 0);
}

/* Two acknowledged, two out, two that no consumer took: prefetch is 4. */
static void what_was_not_acknowledged_comes_again_after_a_crash(void **state)
{
    semel_message another = text_message("z", "20 EUR");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    char seen[OUT + 1] = "";
    semel_delivery out[4];
    size_t got = 0;
    rabbit_kit kit;
    (void)state;
    open_own(&kit, QUORUM "&prefetch=4");
    let_the_broker_remember_its_queues();
    send_letters(&kit);
    kit_take(&kit, out, 4);
    kit_ack(&kit, out[0]);
    kit_ack(&kit, out[2]);
    EVENTUALLY(broker_count(&own.at, kit.queue) == OUT - 2);
    server_own_crash(&own);
    EVENTUALLY(semel_transport_receive(kit.transport, out, 1, &got, 0, &last_error) ==
               SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, kit_settle(&kit, out[1], SEMEL_VERDICT_ACK));
    FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &another, 1, 500));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    assert_true(last_error.retryable);
    server_own_restart(&own);
    collect_letters(&kit, seen, OUT - 2);
    assert_string_equal(seen, ".b.def");
    FAILS(SEMEL_EUNAVAILABLE, kit_settle(&kit, out[3], SEMEL_VERDICT_ACK));
    FAILS(SEMEL_EINVAL, kit_settle(&kit, out[3], SEMEL_VERDICT_ACK)); /* it is not out any more */
    publish_at_last(&kit, &another);
    kit_close(&kit);
}

enum { STREAM_BATCH = 50, STREAM_MAX = 1000000, STREAM_FAST = 20000, STREAM_PAUSE_MS = 20 };

typedef struct stream {
    rabbit_kit *kit;
    unsigned char *confirmed; /* by number of the message */
    atomic_uint sent;
    atomic_uint known; /* how many were confirmed */
    semel_status end;
    int wrong; /* a result that no broker in trouble may give */
} stream;

/* The kill may be late: it must not come to the end of the stream, nor find more than can be read
 * again. */
static void pause_stream(unsigned sent)
{
    int64_t until = process_now_ms() + (sent < STREAM_FAST ? 0 : STREAM_PAUSE_MS);
    do
        process_nap();
    while (process_now_ms() < until);
}

/* Batches of numbered messages, until one fails. */
static void publish_stream(test_thread *member)
{
    stream *s = member->context;
    while (s->end == SEMEL_OK && atomic_load(&s->sent) + STREAM_BATCH <= STREAM_MAX) {
        semel_message messages[STREAM_BATCH];
        const semel_message *pointers[STREAM_BATCH];
        semel_publish_result results[STREAM_BATCH];
        char ids[STREAM_BATCH][16];
        unsigned first = atomic_load(&s->sent);
        semel_error err;
        for (unsigned i = 0; i < STREAM_BATCH; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "%u", first + i);
            messages[i] = text_message(ids[i], "10 EUR");
            pointers[i] = &messages[i];
        }
        s->end = semel_transport_publish(results, s->kit->transport, pointers, STREAM_BATCH,
                                         KIT_WAIT_MS, &err);
        for (unsigned i = 0; i < STREAM_BATCH; i++) {
            s->confirmed[first + i] = results[i] == SEMEL_PUBLISH_CONFIRMED;
            s->wrong |=
                !s->confirmed[first + i] && (!s->end || results[i] != SEMEL_PUBLISH_UNKNOWN);
            atomic_fetch_add(&s->known, s->confirmed[first + i]);
        }
        atomic_fetch_add(&s->sent, STREAM_BATCH);
        pause_stream(first);
    }
}

/* Until all that was confirmed has come; the wait for a lost one fails. The test cannot ask how
 * many there are: a queue that has just come back may not have read all of its log. */
static void expect_confirmed(rabbit_kit *kit, stream *s)
{
    for (unsigned left = atomic_load(&s->known); left > 0;) {
        semel_delivery out[KIT_BATCH];
        semel_delivery_settlement settles[KIT_BATCH];
        size_t got = 0;
        if (semel_transport_receive(kit->transport, out, KIT_BATCH, &got, KIT_WAIT_MS, &last_error))
            continue;
        if (!got)
            fail_msg("%u of %u that were confirmed are lost", left, atomic_load(&s->known));
        for (size_t i = 0; i < got; i++) {
            char id[16] = "";
            memcpy(id, out[i].message->id.data, out[i].message->id.len);
            unsigned long number = strtoul(id, NULL, 10);
            left -= s->confirmed[number];
            s->confirmed[number] = 0; /* it has come */
            settles[i] =
                (semel_delivery_settlement){.tag = out[i].tag, .verdict = SEMEL_VERDICT_ACK};
        }
        OK(semel_transport_settle(kit->transport, settles, got, &last_error));
    }
}

static void kill_while_publishing(const char *parameters)
{
    rabbit_kit kit;
    test_thread publisher = {0};
    stream s = {.kit = &kit, .confirmed = calloc(STREAM_MAX, 1)};
    open_own(&kit, parameters);
    kit_publish_only(&kit, "");
    let_the_broker_remember_its_queues();
    test_thread_start(&publisher, publish_stream, &s);
    EVENTUALLY(atomic_load(&s.known) > 500);
    server_own_crash(&own);
    assert_true(test_thread_join(&publisher, 2 * KIT_WAIT_MS));
    assert_int_equal(s.end, SEMEL_EUNAVAILABLE);
    assert_false(s.wrong);
    server_own_restart(&own);
    semel_transport_close(kit.transport);
    EVENTUALLY(semel_transport_open(&kit.transport, kit.url, NULL, &last_error) == SEMEL_OK);
    expect_confirmed(&kit, &s);
    kit_close(&kit);
    free(s.confirmed);
}

static void what_was_confirmed_is_there_after_a_crash_in_a_quorum_queue(void **state)
{
    (void)state;
    kill_while_publishing(QUORUM);
}

static void what_was_confirmed_is_there_after_a_crash_in_a_classic_queue(void **state)
{
    (void)state;
    kill_while_publishing(CLASSIC);
}

/* --- out of patience -------------------------------------------------------------------------- */

/* After half an hour the broker takes a delivery back, and closes the channel; here after a
 * moment. */
static void what_is_held_for_too_long_comes_again(void **state)
{
    char said[KIT_SAID];
    semel_delivery none;
    size_t got = 0;
    rabbit_kit kit;
    (void)state;
    broker_eval(said, sizeof said, &own.at,
                "application:set_env(rabbit, consumer_timeout, 500),"
                " application:set_env(rabbit, channel_tick_interval, 100).");
    open_own(&kit, QUORUM);
    kit_send(&kit, "1");
    semel_delivery held = take_at_last(&kit); /* late, it may come together with the end */
    /* A call that comes late does not get this error, and has the message once more. */
    EVENTUALLY(semel_transport_receive(kit.transport, &none, 1, &got, KIT_WAIT_MS, &last_error) !=
               SEMEL_OK);
    assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
    SAYS("timed out");
    broker_eval(said, sizeof said, &own.at,
                "application:set_env(rabbit, consumer_timeout, 1800000).");
    FAILS(SEMEL_EUNAVAILABLE, kit_settle(&kit, held, SEMEL_VERDICT_ACK));
    kit_reopen(&kit);
    held = kit_take_id(&kit, "1");
    assert_true(held.message->delivery >= 2);
    kit_ack(&kit, held);
    kit_close(&kit);
}

/* --- out of memory or disk -------------------------------------------------------------------- */

enum { ALARM_WAIT_MS = 1500, ALARM_LATE_MS = 20000, LARGE_COUNT = 4 };

/* In about the time that it was given. */
static void publish_in_vain(rabbit_kit *kit, const semel_message messages[], size_t count)
{
    semel_publish_result results[KIT_BATCH];
    int64_t start = process_now_ms();
    FAILS(SEMEL_EUNAVAILABLE, kit_publish(kit, results, messages, count, ALARM_WAIT_MS));
    assert_true(process_now_ms() - start < ALARM_WAIT_MS + ALARM_LATE_MS);
    assert_true(last_error.retryable);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(results[i], SEMEL_PUBLISH_UNKNOWN);
}

/* A broker that is slow to say why is asked again. */
static void expect_blocked_for(const char *reason, rabbit_kit *kit, const semel_message messages[],
                               size_t count)
{
    EVENTUALLY((publish_in_vain(kit, messages, count), strstr(last_error.text, reason)));
}

static void expect_blocked(rabbit_kit *kit, const semel_message messages[], size_t count)
{
    expect_blocked_for("low on memory", kit, messages, count);
}

static void a_broker_out_of_memory_is_waited_for(void **state)
{
    semel_message message = text_message("blocked", "20 EUR");
    rabbit_kit kit;
    (void)state;
    open_own(&kit, QUORUM);
    kit_send(&kit, "1");
    kit_send(&kit, "2");
    broker_alarm(&own.at, 1);
    expect_blocked(&kit, &message, 1);
    kit_ack(&kit, kit_take_id(&kit, "1")); /* the other direction works */
    kit_ack(&kit, kit_take_id(&kit, "2"));
    expect_blocked(&kit, &message, 1);
    broker_alarm(&own.at, 0);
    publish_at_last(&kit, &message);
    kit_ack(&kit, kit_take_id(&kit, "blocked"));
    kit_close(&kit);
}

/* A first connection learns of it only when it publishes. */
static void a_new_connection_learns_that_the_broker_is_out_of_disk_space(void **state)
{
    semel_message message = text_message("blocked", "20 EUR");
    rabbit_kit kit;
    (void)state;
    open_own(&kit, QUORUM);
    broker_disk_alarm(&own.at, 1);
    expect_blocked_for("low on disk", &kit, &message, 1);
    broker_disk_alarm(&own.at, 0);
    publish_at_last(&kit, &message);
    kit_close(&kit);
}

/* More than all buffers on the way hold: writing itself hangs. */
static void large_messages_do_not_hang_at_a_broker_out_of_memory(void **state)
{
    semel_message messages[LARGE_COUNT], small = text_message("small", "x");
    char *body = calloc(1, (size_t)8 << 20);
    rabbit_kit kit;
    (void)state;
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        messages[i] = text_message("large", "");
        messages[i].body = (semel_bytes){body, (size_t)8 << 20};
    }
    open_own(&kit, CLASSIC);
    kit_publish_only(&kit, "");
    kit_send(&kit, "1");
    broker_alarm(&own.at, 1);
    expect_blocked(&kit, messages, LARGE_COUNT);
    expect_blocked(&kit, messages, LARGE_COUNT);
    expect_blocked(&kit, &small, 1);
    broker_alarm(&own.at, 0);
    publish_at_last(&kit, &messages[0]);
    kit_close(&kit);
    free(body);
}

static void closing_does_not_wait_for_a_broker_out_of_memory(void **state)
{
    semel_message message = text_message("large", "");
    char *body = calloc(1, (size_t)1 << 20);
    rabbit_kit kit;
    (void)state;
    message.body = (semel_bytes){body, (size_t)1 << 20}; /* fits into the buffers on the way */
    open_own(&kit, CLASSIC);
    kit_publish_only(&kit, "");
    broker_alarm(&own.at, 1);
    expect_blocked(&kit, &message, 1);
    int64_t start = process_now_ms();
    semel_transport_close(kit.transport);
    kit.transport = NULL;
    assert_true(process_now_ms() - start < ALARM_LATE_MS);
    broker_alarm(&own.at, 0);
    kit_close(&kit);
    free(body);
}

/* --- relays and consumers on it --------------------------------------------------------------- */

enum { EARLY = 6, LATE = 5 };

typedef struct heard {
    atomic_uint troubles, relief;
    char last[sizeof((semel_error *)0)->text]; /* of the last trouble */
    atomic_uint tries;                         /* of a relay to publish */
    semel_seam seam;                           /* that counts them */
} heard;

static void hear(void *context, const semel_error *trouble)
{
    heard *h = context;
    if (trouble)
        (void)snprintf(h->last, sizeof h->last, "%s", trouble->text);
    atomic_fetch_add(trouble ? &h->troubles : &h->relief, 1);
}

static semel_status count_tries(void *context, const char *point)
{
    heard *h = context;
    atomic_fetch_add(&h->tries, strcmp(point, "relay.published") == 0);
    return SEMEL_OK;
}

static void run_service(test_thread *member)
{
    service *v = member->context;
    semel_status status =
        v->consumer ? semel_consumer_run(v->consumer, &v->err) : semel_relay_run(v->relay, &v->err);
    PROCESS_REQUIRE_OK(status, &v->err);
}

static void send_from_outbox(service *v, char initial, unsigned count)
{
    char id[ID_ROOM];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "%c%u", initial, i);
        semel_message message = text_message(id, id);
        OK(semel_outbox_send(v->outbox, &message, &last_error));
    }
}

/* How often the relay has spoken of trouble so far, none of which lasts: a slow machine may have
 * had some. */
static unsigned troubles_before(heard *by_relay)
{
    EVENTUALLY(atomic_load(&by_relay->troubles) == atomic_load(&by_relay->relief));
    return atomic_load(&by_relay->troubles);
}

static void start_relay(test_thread *runner, service *v, const service_case *s, heard *notices)
{
    notices->seam =
        (semel_seam){.size = sizeof notices->seam, .context = notices, .fault = count_tries};
    service_open_relay(v, s, s->kit.queue,
                       (semel_relay_options){.batch = 2,
                                             .lease_ms = 3000, /* half of it is a turn's patience */
                                             .poll_ms = 20,
                                             .backoff_ms = 20,
                                             .backoff_max_ms = 100,
                                             .notice = hear,
                                             .notice_context = notices},
                       &notices->seam);
    test_thread_start(runner, run_service, v);
}

static void start_consumer(test_thread *runner, service *v, service_case *s, heard *notices)
{
    service_open_consumer(v, s, NULL, (semel_inbox_options){0},
                          (semel_consumer_options){.notice = hear, .notice_context = notices});
    test_thread_start(runner, run_service, v);
}

static void stop_service(test_thread *runner, service *v)
{
    if (v->consumer)
        semel_consumer_stop(v->consumer);
    else
        semel_relay_stop(v->relay);
    assert_true(test_thread_join(runner, KIT_WAIT_MS));
    service_close(v);
}

/* What is in the queue already is handled and acknowledged; what is in the outbox stays there, but
 * for one message that the broker may take before it finds out that this connection publishes. */
static void a_relay_waits_for_disk_space_while_a_consumer_goes_on(void **state)
{
    service relay, consumer;
    test_thread relaying = {0}, consuming = {0};
    heard by_relay = {0}, by_consumer = {0};
    service_case s;
    (void)state;
    service_case_open_at(&s, &own.at, NULL, QUORUM);
    start_relay(&relaying, &relay, &s, &by_relay);
    send_from_outbox(&relay, 'g', EARLY);
    EVENTUALLY(unsent(&s) == 0);
    unsigned before = troubles_before(&by_relay);
    broker_disk_alarm(&own.at, 1);
    send_from_outbox(&relay, 'h', LATE);
    EVENTUALLY(atomic_load(&by_relay.troubles) > before);
    unsigned tries = atomic_load(&by_relay.tries);
    assert_true(strstr(by_relay.last, "low on disk") || /* or it could not say so in time: */
                strstr(by_relay.last, "not confirmed in time"));
    start_consumer(&consuming, &consumer, &s, &by_consumer);
    EVENTUALLY(effects(&s) >= EARLY);
    expect_empty_queue(&s);
    EVENTUALLY(atomic_load(&by_relay.tries) >= tries + 1);
    assert_in_range(unsent(&s), LATE - 1, LATE);
    assert_int_equal(atomic_load(&by_relay.relief), before);
    broker_disk_alarm(&own.at, 0);
    EVENTUALLY(unsent(&s) == 0 && effects(&s) == EARLY + LATE);
    /* Spoken of once, however often it was met. */
    EVENTUALLY(atomic_load(&by_relay.relief) == atomic_load(&by_relay.troubles));
    stop_service(&relaying, &relay);
    stop_service(&consuming, &consumer);
    expect_effects(&s, "g0 g1 g2 g3 g4 g5 h0 h1 h2 h3 h4");
    assert_int_equal(dead_letters(&s), 0);
    assert_int_equal(atomic_load(&by_consumer.troubles), 0);
    service_case_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_acknowledged_comes_again_after_a_crash),
        cmocka_unit_test(what_was_confirmed_is_there_after_a_crash_in_a_quorum_queue),
        cmocka_unit_test(what_was_confirmed_is_there_after_a_crash_in_a_classic_queue),
        cmocka_unit_test(what_is_held_for_too_long_comes_again),
        cmocka_unit_test(a_broker_out_of_memory_is_waited_for),
        cmocka_unit_test(a_new_connection_learns_that_the_broker_is_out_of_disk_space),
        cmocka_unit_test(large_messages_do_not_hang_at_a_broker_out_of_memory),
        cmocka_unit_test(closing_does_not_wait_for_a_broker_out_of_memory),
        cmocka_unit_test(a_relay_waits_for_disk_space_while_a_consumer_goes_on),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("RabbitMQ in trouble", tests, start_broker, stop_broker);
}
