/* A running relay leases the next batch and settles the last one while the broker has the one
 * between. The broker here is a transport that can tell: it looks around when it has the messages,
 * before and after it lets the relay go on. The clock stands still and leases last an hour, so
 * whatever is leased and forgotten shows as never sent. */
#include "support/fixture/fixture.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <semel/sys/transport.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BATCH = 2, HOUR_MS = 3600 * 1000, CALLS_MAX = 200, SOON_MS = 60000 };

/* --- a broker that looks around --------------------------------------------------------------- */

typedef struct sight {
    size_t messages;
    uint64_t unsent_before, unsent_after; /* the relay went on to other work */
} sight;

typedef struct broker {
    fixture *f;
    semel_transport *recorder;
    semel_relay *relay;
    sight calls[CALLS_MAX];
    size_t count;
    atomic_size_t total; /* confirmed by the recorder */
    size_t enough;       /* then the relay is stopped; 0: never */
    size_t stop_at;      /* this call stops the relay when it has leased the next batch; 0: none */
    size_t fail_at;      /* the answers to this call are lost; 0: none */
    unsigned fail_each;  /* per cent of the messages get no answer, and were not there */
    unsigned random;
    int unmarked;        /* the first settlement behind each call fails */
    unsigned told, over; /* by its notice */
    semel_status ended;  /* of a run in another thread */
    semel_error why;
} broker;

static broker *broker_of(void *transport)
{
    return *(broker **)transport;
}

static semel_status broker_open(void *transport, const char *argument,
                                const semel_transport_settings *settings, semel_error *err)
{
    (void)settings;
    (void)err;
    memcpy(transport, &argument, sizeof argument);
    return SEMEL_OK;
}

static void broker_close(void *transport)
{
    (void)transport;
}

static semel_durability broker_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static int is_unlucky(broker *self)
{
    self->random = self->random * 1103515245u + 12345u;
    return (self->random >> 16) % 100 < self->fail_each;
}

static void pass_on(broker *self, semel_publish_result results[],
                    const semel_message *const messages[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_unlucky(self))
            results[i] = SEMEL_PUBLISH_NACKED;
        else
            OK(semel_transport_publish(&results[i], self->recorder, &messages[i], 1, 0,
                                       &last_error));
        self->total += results[i] == SEMEL_PUBLISH_CONFIRMED;
    }
}

static semel_status broker_publish_while(void *transport, semel_publish_result results[],
                                         const semel_message *const messages[], size_t count,
                                         uint32_t wait_ms, semel_meanwhile *meanwhile,
                                         void *context, semel_error *err)
{
    broker *self = broker_of(transport);
    (void)wait_ms;
    assert_true(self->count < CALLS_MAX);
    sight *seen = &self->calls[self->count++];
    seen->messages = count;
    if (self->count != self->fail_at)
        pass_on(self, results, messages, count);
    seen->unsent_before = fixture_counters(self->f).unsent;
    if (self->unmarked)
        semel_test_fault(self->f->seam, "relay.settled", 1, SEMEL_EUNAVAILABLE);
    if (meanwhile)
        meanwhile(context);
    seen->unsent_after = fixture_counters(self->f).unsent;
    if (self->count == self->stop_at || (self->enough && self->total >= self->enough))
        semel_relay_stop(self->relay);
    return self->count == self->fail_at
               ? semel_fail(err, SEMEL_EUNAVAILABLE, "the broker was told to be away")
               : SEMEL_OK;
}

static semel_status broker_publish(void *transport, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    return broker_publish_while(transport, results, messages, count, wait_ms, NULL, NULL, err);
}

static semel_status broker_receive(void *transport, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    return semel_transport_receive(broker_of(transport)->recorder, deliveries, max, count, wait_ms,
                                   err);
}

static semel_status broker_settle(void *transport, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    return semel_transport_settle(broker_of(transport)->recorder, settles, count, err);
}

static const semel_transport_driver driver = {.version = SEMEL_TRANSPORT_DRIVER_VERSION,
                                              .scheme = "broker",
                                              .transport_size = sizeof(broker *),
                                              .open = broker_open,
                                              .close = broker_close,
                                              .durability = broker_durability,
                                              .publish = broker_publish,
                                              .receive = broker_receive,
                                              .settle = broker_settle,
                                              .publish_while = broker_publish_while};

/* --- the case --------------------------------------------------------------------------------- */

static void close_transport(void *thing)
{
    semel_transport_close(thing);
}

static void count_notice(void *context, const semel_error *trouble)
{
    broker *b = context;
    if (trouble)
        b->told++;
    else
        b->over++;
}

static semel_outbox *open_case(broker *b, fixture *f, uint32_t batch)
{
    semel_transport *transport = NULL;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options,
                                   .batch = batch,
                                   .lease_ms = HOUR_MS,
                                   .backoff_ms = 1,
                                   .poll_ms = 1,
                                   .notice = count_notice,
                                   .notice_context = b};
    b->f = f;
    b->recorder = fixture_recorder(f);
    OK(semel_transport_open_driver(&transport, &driver, b, NULL, &last_error));
    fixture_keep(f, close_transport, transport);
    b->relay = fixture_relay(f, outbox, transport, &options);
    return outbox;
}

static void send(semel_outbox *outbox, unsigned number, const char *group)
{
    char id[16];
    (void)snprintf(id, sizeof id, "%u", number);
    semel_message message = text_message(id, "body");
    message.group = group;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void send_many(semel_outbox *outbox, unsigned count)
{
    for (unsigned i = 1; i <= count; i++)
        send(outbox, i, NULL);
}

static void check_recorded(const broker *b, const char *ids)
{
    char room[512];
    assert_string_equal(fixture_recorded(room, sizeof room, b->recorder), ids);
}

/* Another relay finds this many: so they are not leased. */
static void check_left(broker *b, semel_outbox *outbox, size_t count)
{
    semel_relay *other = fixture_relay(b->f, outbox, b->recorder, NULL);
    assert_int_equal(fixture_drain(other), count);
    assert_int_equal(fixture_counters(b->f).unsent, 0);
}

/* --- the tests -------------------------------------------------------------------------------- */

static void a_batch_is_settled_while_the_next_one_is_under_way(void **state)
{
    broker b = {.enough = 6};
    send_many(open_case(&b, *state, BATCH), 6);
    OK(semel_relay_run(b.relay, &last_error));
    check_recorded(&b, "1 2 3 4 5 6 ");
    assert_int_equal(b.count, 3);
    for (size_t i = 0; i < b.count; i++) {
        assert_int_equal(b.calls[i].messages, BATCH);
        assert_int_equal(b.calls[i].unsent_before, i ? 6 - BATCH * (i - 1) : 6);
        assert_int_equal(b.calls[i].unsent_after, 6 - BATCH * i);
    }
    assert_int_equal(fixture_counters(b.f).unsent, 0);
    assert_int_equal(fixture_counters(b.f).sent, 6);
}

static void a_step_leases_nothing_ahead(void **state)
{
    broker b = {0};
    size_t sent;
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    send_many(outbox, 6);
    OK(semel_relay_step(&sent, b.relay, 0, &last_error));
    assert_int_equal(sent, BATCH);
    check_left(&b, outbox, 6 - BATCH);
}

static void what_was_leased_ahead_is_given_back_when_it_is_stopped(void **state)
{
    broker b = {.stop_at = 1};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    send_many(outbox, 6);
    OK(semel_relay_run(b.relay, &last_error));
    check_recorded(&b, "1 2 ");
    assert_int_equal(fixture_counters(b.f).sent, BATCH);
    check_left(&b, outbox, 4);
    check_recorded(&b, "1 2 3 4 5 6 ");
    assert_int_equal(fixture_counters(b.f).resent, 0); /* given back is not tried */
}

/* The answers to 3 and 4 are lost: they were not sent, and are tried again. 5 and 6 were leased
 * ahead. */
static void what_was_leased_ahead_is_given_back_when_the_broker_fails(void **state)
{
    broker b = {.enough = 6, .fail_at = 2};
    send_many(open_case(&b, *state, BATCH), 6);
    OK(semel_relay_run(b.relay, &last_error));
    assert_int_equal(b.total, 6);
    assert_int_equal(b.calls[2].messages, 1); /* trouble is met in small steps */
    assert_int_equal(fixture_counters(b.f).unsent, 0);
    assert_int_equal(fixture_counters(b.f).resent, 2);
}

/* What was confirmed and could not be marked comes again when its lease is over, and nothing else
 * does. */
static void a_store_that_fails_meanwhile_costs_a_copy_and_no_more(void **state)
{
    broker b = {.enough = 6};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    send_many(outbox, 6);
    semel_test_fault(b.f->seam, "relay.settled", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_run(b.relay, &last_error));
    check_recorded(&b, "1 2 3 4 ");
    assert_int_equal(fixture_counters(b.f).unsent, 4);
    semel_test_advance_ms(b.f->seam, HOUR_MS + 1);
    check_left(&b, outbox, 4);
    check_recorded(&b, "1 2 3 4 5 6 1 2 ");
}

static void a_store_that_cannot_lease_meanwhile_does_not_keep_the_last_from_being_settled(
    void **state)
{
    broker b = {.enough = 6};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    send_many(outbox, 6);
    semel_test_fault(b.f->seam, "relay.leased", 2, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_run(b.relay, &last_error));
    check_recorded(&b, "1 2 ");
    check_left(&b, outbox, 4);
}

/* Stopped with a batch answered and not marked: that it could not be marked is told. */
static void the_last_settlement_is_part_of_the_run(void **state)
{
    broker b = {.stop_at = 1};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    send_many(outbox, 6);
    semel_test_fault(b.f->seam, "relay.settled", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_run(b.relay, &last_error));
    assert_int_equal(fixture_counters(b.f).sent, 0);
    assert_int_equal(fixture_drain(fixture_relay(b.f, outbox, b.recorder, NULL)), 4);
    assert_int_equal(fixture_counters(b.f).unsent, BATCH);
}

/* It leases, and cannot mark what was sent: one trouble, however often it is met, and not over
 * before that works. */
static void a_store_that_cannot_settle_is_one_trouble(void **state)
{
    broker b = {.stop_at = 12, .unmarked = 1};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    send_many(outbox, 40);
    OK(semel_relay_run(b.relay, &last_error));
    assert_int_equal(b.told, 1);
    assert_int_equal(b.over, 0);
}

static void check_groups(const broker *b, unsigned groups, unsigned messages)
{
    unsigned next[8] = {0};
    assert_int_equal(semel_test_recorder_count(b->recorder), messages);
    for (size_t i = 0; i < messages; i++) {
        const semel_message *m = semel_test_recorder_message(b->recorder, i);
        unsigned number = 0;
        assert_int_equal(sscanf(m->id.data, "%u", &number), 1); /* a copied id ends with a NUL */
        assert_int_equal(number / groups, next[number % groups]++);
    }
}

static void run(test_thread *member)
{
    broker *b = member->context;
    b->ended = semel_relay_run(b->relay, &b->why);
}

/* What is tried again waits for its time, and so that passes. */
static void run_while_time_passes(broker *b)
{
    test_thread member;
    int64_t until = process_now_ms() + SOON_MS;
    test_thread_start(&member, run, b);
    while (atomic_load(&b->total) < b->enough && process_now_ms() < until) {
        semel_test_advance_ms(b->f->seam, 10);
        process_nap();
    }
    semel_relay_stop(b->relay);
    assert_true(test_thread_join(&member, SOON_MS));
    if (b->ended)
        fail_msg("%s", b->why.text);
}

/* Batches larger and smaller than what there is of each group, and a broker that takes only some of
 * it. */
static void groups_keep_their_order_though_the_broker_takes_only_some(void **state)
{
    enum { GROUPS = 5, MESSAGES = 40 };
    static const char *const names[GROUPS] = {"a", "b", "c", "d", "e"};
    broker b = {.enough = MESSAGES, .fail_each = 20, .random = 1};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    for (unsigned i = 0; i < MESSAGES; i++)
        send(outbox, i, names[i % GROUPS]);
    run_while_time_passes(&b);
    check_groups(&b, GROUPS, MESSAGES);
    assert_true(fixture_counters(b.f).send_failed > 0);
    assert_int_equal(fixture_counters(b.f).unsent, 0);
}

/* Nothing of a group is leased ahead while something of it is under way. */
static void a_group_is_not_leased_ahead_of_itself(void **state)
{
    broker b = {.enough = 6};
    semel_outbox *outbox = open_case(&b, *state, BATCH);
    for (unsigned i = 1; i <= 6; i++)
        send(outbox, i, "group");
    OK(semel_relay_run(b.relay, &last_error));
    check_recorded(&b, "1 2 3 4 5 6 ");
    for (size_t i = 0; i < b.count; i++)
        assert_int_equal(b.calls[i].unsent_before, b.calls[i].unsent_after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a batch is settled while the next one is under way",
                a_batch_is_settled_while_the_next_one_is_under_way),
        ON_BOTH("a step leases nothing ahead", a_step_leases_nothing_ahead),
        ON_BOTH("what was leased ahead is given back when it is stopped",
                what_was_leased_ahead_is_given_back_when_it_is_stopped),
        ON_BOTH("what was leased ahead is given back when the broker fails",
                what_was_leased_ahead_is_given_back_when_the_broker_fails),
        ON_BOTH("a store that fails meanwhile costs a copy and no more",
                a_store_that_fails_meanwhile_costs_a_copy_and_no_more),
        ON_BOTH("a store that cannot lease meanwhile does not keep the last from being settled",
                a_store_that_cannot_lease_meanwhile_does_not_keep_the_last_from_being_settled),
        ON_BOTH("the last settlement is part of the run", the_last_settlement_is_part_of_the_run),
        ON_BOTH("a store that cannot settle is one trouble",
                a_store_that_cannot_settle_is_one_trouble),
        ON_BOTH("groups keep their order though the broker takes only some",
                groups_keep_their_order_though_the_broker_takes_only_some),
        ON_BOTH("a group is not leased ahead of itself", a_group_is_not_leased_ahead_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
