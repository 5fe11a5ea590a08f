/* Order within a group, whatever fails, and leases that are shorter than the work: what is late is
 * given up and not sent by two relays. All of it happens in one millisecond of the fake clock
 * unless the test says otherwise, so no order can come from timestamps. */
#include "support/fake/spy.h"

#include <stdio.h>
#include <stdlib.h>

static void send_to(semel_outbox *outbox, const char *group, const char *id, const char *topic)
{
    semel_message message = text_message(id, "a");
    message.group = group;
    message.topic = topic;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static size_t step(semel_relay *relay)
{
    size_t sent = 99;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    return sent;
}

/* --- groups ----------------------------------------------------------------------------------- */

static void a_refused_message_holds_up_its_own_group_and_nothing_else(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f); /* does not promise to keep order by itself */
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    char ids[128];
    send_to(outbox, "g", "g1", "bad");
    send_to(outbox, "h", "h1", "good");
    send_to(outbox, "g", "g2", "good");
    send_to(outbox, NULL, "free", "good");
    send_to(outbox, "h", "h2", "good");
    send_to(outbox, "g", "g3", "good");
    semel_test_recorder_answer(recorder, "bad", SEMEL_PUBLISH_REFUSED, 2);
    assert_int_equal(step(relay), 3);
    assert_int_equal(step(relay), 0); /* g1 waits out its backoff, the others behind it */
    semel_test_advance_ms(f->seam, 200);
    assert_int_equal(step(relay), 0); /* refused again */
    semel_test_advance_ms(f->seam, 400);
    assert_int_equal(fixture_drain(relay), 3);
    const char *seen = fixture_recorded(ids, sizeof ids, recorder);
    assert_non_null(strstr(seen, "g1 g2 g3 "));
    assert_non_null(strstr(seen, "h1"));
    assert_true(strstr(seen, "h1") < strstr(seen, "h2"));
    assert_int_equal(fixture_counters(f).resent, 1); /* g2 and g3 were never tried before */
}

static void a_dead_letter_sets_its_group_free(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    char ids[64];
    send_to(outbox, "g", "1", "bad");
    send_to(outbox, "g", "2", "good");
    semel_test_recorder_answer(recorder, "bad", SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(step(relay), 0); /* not before the letter is stored */
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
    assert_int_equal(fixture_drain(relay), 1);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "2 ");
}

/* Refused, and no letter was stored: it comes again, and this time it is taken. */
static void a_dead_letter_that_is_not_stored_is_not_overtaken(void **state)
{
    enum { LEASE_MS = 30000 };
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1, .lease_ms = LEASE_MS};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    char ids[64];
    size_t sent;
    send_to(outbox, "g", "1", "bad");
    send_to(outbox, "g", "2", "good");
    semel_test_recorder_answer(recorder, "bad", SEMEL_PUBLISH_REFUSED, 1);
    semel_test_fault(f->seam, "relay.settled", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
    semel_test_advance_ms(f->seam, LEASE_MS + 1);
    assert_int_equal(fixture_drain(relay), 2);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "1 2 ");
}

static void a_group_has_one_message_in_each_wave(void **state)
{
    fixture *f = *state;
    spy unordered = {.inner = fixture_recorder(f)}, ordered = {.inner = fixture_recorder(f)};
    semel_outbox *one = fixture_outbox(f, "one"), *other = fixture_outbox(f, "other");
    semel_relay *by_waves = fixture_relay(f, one, spy_open(f, &unordered, 0), NULL);
    semel_relay *at_once = fixture_relay(f, other, spy_open(f, &ordered, 1), NULL);
    for (int i = 0; i < 4; i++) {
        send_to(one, "g", NULL, "t");
        send_to(other, "g", NULL, "t");
    }
    assert_int_equal(step(by_waves), 4);
    assert_int_equal(unordered.publishes, 4);
    assert_int_equal(step(at_once), 4);
    assert_int_equal(ordered.publishes, 1);
}

static void a_message_that_is_put_off_holds_up_its_group(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    semel_message reminder = text_message("reminder", "a");
    char ids[64];
    reminder.group = "g";
    reminder.delay_ms = 60000;
    OK(semel_outbox_send(outbox, &reminder, &last_error));
    send_to(outbox, "g", "1", "t");
    send_to(outbox, "h", "2", "t");
    assert_int_equal(fixture_drain(relay), 1);
    semel_test_advance_ms(f->seam, 59999);
    assert_int_equal(fixture_drain(relay), 0);
    semel_test_advance_ms(f->seam, 1);
    assert_int_equal(fixture_drain(relay), 2);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "2 reminder 1 ");
}

/* --- many relays, random answers -------------------------------------------------------------- */

enum { GROUPS = 6, EACH = 15, RELAYS = 4 };

/* One of the next answers is not what the relay hopes for. */
static void answer_at_random(spy *self, const semel_message *const messages[], size_t count)
{
    uint64_t *random = self->context;
    (void)messages;
    for (size_t i = 0; i < count; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        unsigned roll = (unsigned)(*random >> 33) % 10;
        semel_test_recorder_answer(self->inner, NULL,
                                   roll < 2   ? SEMEL_PUBLISH_REFUSED
                                   : roll < 4 ? SEMEL_PUBLISH_UNKNOWN
                                              : SEMEL_PUBLISH_CONFIRMED,
                                   1);
    }
}

/* Of each group, the messages appear for the first time in the order of capture. */
static void assert_first_in_order(const semel_transport *recorder)
{
    int next[GROUPS] = {0};
    for (size_t i = 0; i < semel_test_recorder_count(recorder); i++) {
        const semel_message *message = semel_test_recorder_message(recorder, i);
        int group = atoi(message->group + 1), number = atoi((const char *)message->id.data);
        if (number > next[group])
            fail_msg("%s: %d before %d", message->group, number, next[group]);
        next[group] += number == next[group];
    }
    for (int i = 0; i < GROUPS; i++)
        assert_int_equal(next[i], EACH);
}

static void first_deliveries_are_in_order_whatever_fails(void **state)
{
    fixture *f = *state;
    uint64_t random = 99;
    spy s = {.inner = fixture_recorder(f), .on_publish = answer_at_random, .context = &random};
    semel_transport *transport = spy_open(f, &s, 0);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relays[RELAYS];
    semel_relay_options options = {.size = sizeof options, .batch = 7, .attempts_max = 1000};
    for (int i = 0; i < RELAYS; i++)
        relays[i] = fixture_relay(f, outbox, transport, &options);
    for (int i = 0; i < EACH * GROUPS; i++) {
        char id[16], group[16];
        (void)snprintf(id, sizeof id, "%d", i / GROUPS);
        (void)snprintf(group, sizeof group, "g%d", i % GROUPS);
        send_to(outbox, group, id, "t");
    }
    for (int turn = 0; turn < 2000 && fixture_counters(f).unsent; turn++) {
        size_t sent;
        (void)semel_relay_step(&sent, relays[turn % RELAYS], 0, NULL);
        semel_test_advance_ms(f->seam, turn % 3 ? 0 : 150);
        if (turn % 50 == 0)
            semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(fixture_counters(f).unsent, 0);
    assert_first_in_order(s.inner);
}

/* --- lateness --------------------------------------------------------------------------------- */

typedef struct slow {
    fixture *f;
    int64_t takes_ms;   /* the first publish */
    semel_relay *other; /* steps meanwhile, if there is one */
} slow;

static void be_slow_once(spy *self, const semel_message *const messages[], size_t count)
{
    slow *how = self->context;
    (void)messages;
    (void)count;
    if (self->publishes > 1)
        return;
    semel_test_advance_ms(how->f->seam, how->takes_ms);
    if (how->other)
        (void)fixture_drain(how->other);
}

static void what_is_late_is_shed_and_counts_as_not_tried(void **state)
{
    fixture *f = *state;
    slow how = {.f = f, .takes_ms = 501};
    spy s = {.inner = fixture_recorder(f), .on_publish = be_slow_once, .context = &how};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .lease_ms = 1000};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 0), &options);
    char ids[64];
    for (const char *id = "1\0002\0003\0"; *id; id += 2)
        send_to(outbox, "g", id, "t");
    assert_int_equal(step(relay), 1); /* half of the lease is over */
    assert_int_equal(s.publishes, 1);
    assert_int_equal(step(relay), 2); /* at once: they were given back */
    assert_string_equal(fixture_recorded(ids, sizeof ids, s.inner), "1 2 3 ");
    assert_int_equal(fixture_counters(f).resent, 0);
}

/* The lease ended during the first message: another relay sent everything. Ours finds that out:
 * what it has not started it leaves alone, and what it settles is not its own any more. */
static void a_relay_that_lost_its_lease_sends_and_settles_nothing_more(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .lease_ms = 1000};
    slow how = {.f = f, .takes_ms = 1000, .other = fixture_relay(f, outbox, recorder, &options)};
    spy s = {.inner = recorder, .on_publish = be_slow_once, .context = &how};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 0), &options);
    char ids[64];
    for (const char *id = "1\0002\0003\0"; *id; id += 2)
        send_to(outbox, "g", id, "t");
    (void)step(relay);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "1 2 3 1 ");
    assert_int_equal(fixture_counters(f).unsent, 0);
    assert_int_equal(fixture_drain(relay), 0);
}

/* The other way round: the late relay failed, and must not put back what the other has leased. */
static void a_late_failure_does_not_disturb_the_new_owner(void **state)
{
    fixture *f = *state;
    spy theirs = {.inner = fixture_recorder(f), .publish_broken = SEMEL_EUNAVAILABLE};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .lease_ms = 1000};
    semel_relay *stale = fixture_relay(f, outbox, spy_open(f, &theirs, 0), &options);
    semel_transport *recorder = fixture_recorder(f);
    slow how = {.f = f, .takes_ms = 1000, .other = fixture_relay(f, outbox, recorder, &options)};
    size_t sent;
    theirs.on_publish = be_slow_once;
    theirs.context = &how;
    send_to(outbox, NULL, "1", "t");
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, stale, 0, &last_error));
    assert_int_equal(fixture_counters(f).unsent, 0);
    semel_test_advance_ms(f->seam, 60000);
    theirs.publish_broken = SEMEL_OK;
    assert_int_equal(fixture_drain(stale), 0);
    assert_int_equal(semel_test_recorder_count(recorder), 1);
}

static void within_its_lease_a_message_is_no_other_relays(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .lease_ms = 1000};
    slow how = {.f = f, .takes_ms = 999, .other = fixture_relay(f, outbox, recorder, &options)};
    spy s = {.inner = recorder, .on_publish = be_slow_once, .context = &how};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 0), &options);
    send_to(outbox, "g", "1", "t");
    send_to(outbox, NULL, "2", "t");
    assert_int_equal(step(relay), 2);
    assert_int_equal(semel_test_recorder_count(recorder), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a refused message holds up its own group and nothing else",
                a_refused_message_holds_up_its_own_group_and_nothing_else),
        ON_BOTH("a dead letter sets its group free", a_dead_letter_sets_its_group_free),
        ON_BOTH("a dead letter that is not stored is not overtaken",
                a_dead_letter_that_is_not_stored_is_not_overtaken),
        ON_BOTH("a group has one message in each wave", a_group_has_one_message_in_each_wave),
        ON_BOTH("a message that is put off does not hold up its group",
                a_message_that_is_put_off_holds_up_its_group),
        ON_BOTH("first deliveries are in order, whatever fails",
                first_deliveries_are_in_order_whatever_fails),
        ON_BOTH("what is late is shed and counts as not tried",
                what_is_late_is_shed_and_counts_as_not_tried),
        ON_BOTH("a relay that lost its lease sends and settles nothing more",
                a_relay_that_lost_its_lease_sends_and_settles_nothing_more),
        ON_BOTH("a late failure does not disturb the new owner",
                a_late_failure_does_not_disturb_the_new_owner),
        ON_BOTH("within its lease a message is no other relay's",
                within_its_lease_a_message_is_no_other_relays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
