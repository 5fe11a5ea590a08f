/* The relay against brokers that refuse, lose answers, or take longer than the lease. */
#include "support/conformance/conformance_store.h"
#include "support/fake/stub_transport.h"

#include <semel/sys/transport.h>
#include <string.h>

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    message.topic = id;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

/* --- refused ---------------------------------------------------------------------------------- */

/* The backoff has jitter: between half of it and all of it. */
static void a_refused_message_waits_out_its_backoff(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    uint32_t backoff_ms = grains(f, 1000);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = backoff_ms, .backoff_max_ms = 8 * backoff_ms};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    char ids[64];
    send_id(outbox, "bad", NULL);
    send_id(outbox, "good", NULL);
    semel_test_recorder_answer(broker, "bad", SEMEL_PUBLISH_REFUSED, 2);
    assert_int_equal(relay_once(relay), 1);
    pass_almost(f, backoff_ms / 2);
    send_id(outbox, "new", NULL);
    assert_int_equal(relay_once(relay), 1);
    pass_ms(f, backoff_ms / 2 + f->grain_ms);
    assert_int_equal(relay_once(relay), 0); /* refused again: now it waits twice as long */
    pass_almost(f, backoff_ms);
    assert_int_equal(relay_once(relay), 0);
    pass_ms(f, backoff_ms + f->grain_ms);
    assert_int_equal(relay_once(relay), 1);
    recorded_ids(ids, sizeof ids, broker);
    assert_string_equal(ids, "good new bad");
    assert_int_equal(counters_of(f).send_failed, 2);
    assert_int_equal(counters_of(f).resent, 1);
}

/* P10: what failed holds up its own group, in order, and nothing else. */
static void a_refused_message_holds_up_its_group_only(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = grains(f, 200), .backoff_max_ms = grains(f, 60000)};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    char ids[64];
    send_id(outbox, "a1", "a");
    send_id(outbox, "a2", "a");
    send_id(outbox, "b1", "b");
    send_id(outbox, "x", NULL);
    semel_test_recorder_answer(broker, "a1", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_once(relay), 2);
    send_id(outbox, "a3", "a");
    send_id(outbox, "b2", "b");
    assert_int_equal(relay_once(relay), 1);
    pass_ms(f, grains(f, 60000));
    assert_int_equal(relay_once(relay), 3);
    recorded_ids(ids, sizeof ids, broker);
    assert_non_null(strstr(ids, "b2 a1 a2 a3"));
}

static void what_is_refused_to_the_limit_is_a_dead_letter(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 3};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    semel_message message = *full_message();
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_recorder_answer(broker, message.topic, SEMEL_PUBLISH_REFUSED, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_letters(f), 0);
        assert_int_equal(relay_once(relay), 0);
        pass_ms(f, 60000);
    }
    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].origin, SEMEL_DEAD_OUTBOX);
    assert_string_equal(found.all[0].name, "mail");
    assert_int_equal(found.all[0].attempts, 3);
    assert_true(found.all[0].key_len > message.id.len); /* its id, and its place in the outbox */
    assert_memory_equal(found.all[0].key, message.id.data, message.id.len);
    MESSAGE_EQUAL(&message, found.all[0].message);
    letters_free(&found);
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(counters_of(f).dead, 1);
    assert_int_equal(relay_once(relay), 0);
}

static void a_group_goes_on_behind_a_dead_letter(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    char ids[64];
    send_id(outbox, "a1", "a");
    send_id(outbox, "a2", "a");
    semel_test_recorder_answer(broker, "a1", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(relay_once(relay) + relay_once(relay), 1);
    recorded_ids(ids, sizeof ids, broker);
    assert_string_equal(ids, "a2");
    assert_int_equal(count_letters(f), 1);
}

/* The id is what a receiving inbox knows a copy by: it must survive the replay. Attempts begin
 * anew. */
static void a_dead_letter_of_an_outbox_is_replayed_under_its_id(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    OK(semel_outbox_send(outbox, full_message(), &last_error));
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 3);
    relay_once(relay);
    pass_ms(f, 60000);
    relay_once(relay);
    int64_t id = only_letter(f);
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(open_outbox(f, "ledger"), id, &last_error));
    OK(semel_outbox_replay(outbox, id, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(outbox, id, &last_error));
    assert_int_equal(count_letters(f), 0);
    assert_int_equal(counters_of(f).unsent, 1);

    assert_int_equal(relay_once(relay), 0); /* refused once more, which is its first attempt now */
    assert_int_equal(count_letters(f), 0);
    pass_ms(f, 60000);
    assert_int_equal(relay_once(relay), 1);
    MESSAGE_EQUAL_BUT_DUE(full_message(), semel_test_recorder_message(broker, 0));
}

/* --- no answer -------------------------------------------------------------------------------- */

/* A lost answer is not the message's fault: it is tried for as long as it takes. */
static void a_lost_answer_never_makes_a_dead_letter(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay = open_relay(f, outbox, broker, &options);
    size_t sent;
    send_id(outbox, "m-1", "g");
    send_id(outbox, "m-2", "g");
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_UNKNOWN, 5);
    for (int i = 0; i < 5; i++) {
        FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
        assert_true(last_error.retryable);
        pass_ms(f, 120000);
    }
    assert_int_equal(count_letters(f), 0);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(counters_of(f).unsent, 0);
}

/* --- leases ----------------------------------------------------------------------------------- */

static void the_lease_of_a_dead_relay_is_taken_over(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .lease_ms = 30000};
    semel_relay *dead = open_relay(f, outbox, broker, &options);
    semel_relay *alive = open_relay(f, outbox, broker, &options);
    size_t sent;
    send_id(outbox, "m-1", NULL);
    semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, dead, 0, &last_error));
    pass_almost(f, 30000);
    assert_int_equal(relay_once(alive), 0);
    pass_grain(f);
    assert_int_equal(relay_once(alive), 1);
    assert_int_equal(semel_test_recorder_count(broker), 1);
    assert_int_equal(counters_of(f).resent, 1);
}

/* The one way to a second copy: it dies when the broker has it and the store does not know. */
static void what_was_sent_but_not_settled_is_sent_again_under_its_id(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, outbox, broker, NULL);
    size_t sent;
    char ids[64];
    send_id(outbox, "m-1", NULL);
    semel_test_fault(f->base.seam, "relay.published", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
    pass_ms(f, 30000);
    assert_int_equal(relay_once(relay), 1);
    recorded_ids(ids, sizeof ids, broker);
    assert_string_equal(ids, "m-1 m-1");
}

/* A broker during whose answer something else happens: the lease ends and another relay comes
 * by. */
typedef struct slow_broker {
    store_fixture *fixture;
    int64_t takes_ms;
    semel_relay *meanwhile;      /* takes a turn before the answer comes; may be NULL */
    semel_publish_result answer; /* then */
    unsigned published;
} slow_broker;

static semel_status slow_publish(void *context, semel_publish_result results[],
                                 const semel_message *const messages[], size_t count,
                                 semel_error *err)
{
    slow_broker *self = context;
    size_t sent = 0;
    (void)messages;
    self->published += (unsigned)count;
    pass_ms(self->fixture, self->takes_ms);
    if (self->meanwhile)
        (void)semel_relay_step(&sent, self->meanwhile, 0, NULL); /* it may have its own troubles */
    for (size_t i = 0; i < count; i++)
        results[i] = self->answer;
    return self->answer == SEMEL_PUBLISH_UNKNOWN ? semel_fail(err, SEMEL_EUNAVAILABLE, "no answer")
                                                 : SEMEL_OK;
}

static semel_transport *open_slow(store_fixture *f, slow_broker *broker)
{
    semel_transport *transport = NULL;
    broker->fixture = f;
    OK(stub_transport_open(&transport, slow_publish, broker, &last_error));
    fixture_keep_transport(&f->base, transport);
    return transport;
}

/* P2: the first relay's word, whatever it is, counts for nothing once another one has the message.
 * That the other can work at all shows that no transaction was open meanwhile (P13). */
static void a_stale_relay_settles_nothing(void **state)
{
    static const semel_publish_result answers[] = {SEMEL_PUBLISH_CONFIRMED, SEMEL_PUBLISH_REFUSED,
                                                   SEMEL_PUBLISH_UNKNOWN};
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *dropping = open_recorder(f), *taking = open_recorder(f);
    semel_relay_options options = {
        .size = sizeof options, .lease_ms = 30000, .attempts_max = 1, .backoff_ms = 1000};
    semel_relay *alive = open_relay(f, outbox, taking, &options);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        slow_broker slow = {.takes_ms = 30000,
                            .meanwhile = open_relay(f, outbox, dropping, &options),
                            .answer = answers[i]};
        semel_relay *stale = open_relay(f, outbox, open_slow(f, &slow), &options);
        size_t sent = 0;
        send_id(outbox, "m-1", "g");
        semel_test_recorder_answer(dropping, NULL, SEMEL_PUBLISH_UNKNOWN, 1);
        (void)semel_relay_step(&sent, stale, 0, NULL);
        assert_int_equal(semel_test_recorder_count(dropping), i + 1);
        /* The other relay got no answer: the message is still there, waiting out its backoff. */
        assert_int_equal(counters_of(f).unsent, 1);
        assert_int_equal(count_letters(f), 0);
        pass_ms(f, 2000);
        assert_int_equal(relay_once(alive), 1);
        assert_int_equal(counters_of(f).unsent, 0);
    }
}

/* The other one died with its lease: whatever the first says now, the lease is the other's, to its
 * end. */
static void a_stale_relay_does_not_end_the_lease_of_another(void **state)
{
    static const semel_publish_result answers[] = {SEMEL_PUBLISH_UNKNOWN, SEMEL_PUBLISH_REFUSED};
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .lease_ms = 30000, .backoff_ms = 1};
    semel_relay *alive = open_relay(f, outbox, broker, &options);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        slow_broker slow = {.takes_ms = 30000,
                            .meanwhile = open_relay(f, outbox, broker, &options),
                            .answer = answers[i]};
        semel_relay *stale = open_relay(f, outbox, open_slow(f, &slow), &options);
        size_t sent = 0;
        send_id(outbox, "1", "g"); /* the stale one would try this again ... */
        send_id(outbox, "2", "g"); /* ... and give this back untried */
        semel_test_fault(f->base.seam, "relay.taken", 2,
                         SEMEL_ESTORE); /* the second to take dies */
        (void)semel_relay_step(&sent, stale, 0, NULL);
        assert_int_equal(slow.published, 1);
        pass_almost(f, 30000);
        assert_int_equal(relay_once(alive), 0);
        pass_grain(f);
        assert_int_equal(relay_all(alive), 2);
    }
}

/* The lease may end while the broker answers; as long as no other relay took the message, that is
 * fine. */
static void a_late_answer_counts_if_no_relay_took_over(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    slow_broker slow = {.takes_ms = 90000, .answer = SEMEL_PUBLISH_CONFIRMED};
    send_id(outbox, "m-1", NULL);
    assert_int_equal(relay_once(open_relay(f, outbox, open_slow(f, &slow), NULL)), 1);
    assert_int_equal(counters_of(f).unsent, 0);
}

/* P16: what cannot be started within half of the lease is given back, not sent by two. */
static void what_does_not_fit_into_the_lease_is_given_back(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    slow_broker slow = {.takes_ms = 20000, .answer = SEMEL_PUBLISH_CONFIRMED};
    semel_relay_options options = {.size = sizeof options, .lease_ms = 30000};
    semel_relay *relay = open_relay(f, outbox, open_slow(f, &slow), &options);
    semel_transport *broker = open_recorder(f);
    send_id(outbox, "1", "g"); /* one wave each, since this transport does not promise order */
    send_id(outbox, "2", "g");
    send_id(outbox, "3", "g");
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(slow.published, 1);
    assert_int_equal(relay_once(open_relay(f, outbox, broker, NULL)), 2);
    assert_int_equal(counters_of(f).resent, 0);
}

const store_test store_relay_tests[] = {
    STORE_TEST_WITH(a_refused_message_waits_out_its_backoff, IN_ANY_MODE),
    STORE_TEST_WITH(a_refused_message_holds_up_its_group_only, IN_ANY_MODE),
    STORE_TEST_WITH(what_is_refused_to_the_limit_is_a_dead_letter, IN_ANY_MODE),
    STORE_TEST_WITH(a_group_goes_on_behind_a_dead_letter, IN_ANY_MODE),
    STORE_TEST_WITH(a_dead_letter_of_an_outbox_is_replayed_under_its_id, IN_ANY_MODE),
    STORE_TEST_WITH(a_lost_answer_never_makes_a_dead_letter, IN_ANY_MODE),
    STORE_TEST_WITH(the_lease_of_a_dead_relay_is_taken_over, IN_ANY_MODE),
    STORE_TEST_WITH(what_was_sent_but_not_settled_is_sent_again_under_its_id, IN_ANY_MODE),
    STORE_TEST_WITH(a_stale_relay_settles_nothing, IN_ANY_MODE),
    STORE_TEST_WITH(a_stale_relay_does_not_end_the_lease_of_another, IN_ANY_MODE),
    STORE_TEST_WITH(a_late_answer_counts_if_no_relay_took_over, IN_ANY_MODE),
    STORE_TEST_WITH(what_does_not_fit_into_the_lease_is_given_back, IN_ANY_MODE),
    {NULL, NULL, 0}};
