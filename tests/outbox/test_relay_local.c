/* The local hand-off as a user of it composes it: what is refused at opening, what the policies of
 * the inbox mean for it, and leases that end too early. How it keeps its one transaction is in the
 * conformance suite. */
#include "support/fake/failing_store.h"
#include "support/fixture/fixture.h"

#include <stdio.h>

static void send(semel_outbox *outbox, const char *id, const char *body)
{
    semel_message message = text_message(id, body);
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static size_t step(semel_relay *relay)
{
    size_t sent = 99;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    return sent;
}

static void inbox_and_outbox_must_fit_together(void **state)
{
    fixture *f = *state;
    semel_inbox_options claims = {.size = sizeof claims, .mode = SEMEL_CLAIM};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_store *other = NULL;
    semel_inbox *inbox = NULL;
    semel_relay *relay = NULL;
    FAILS(SEMEL_EINVAL, semel_relay_open_local(&relay, outbox, fixture_inbox(f, "claims", &claims),
                                               scripted_handler_run, NULL, NULL, &last_error));
    SAYS("transaction mode");
    OK(semel_store_open(&other, "memory:", NULL, &last_error));
    OK(semel_inbox_open(&inbox, other, "inbox", NULL, &last_error));
    FAILS(SEMEL_EINVAL, semel_relay_open_local(&relay, outbox, inbox, scripted_handler_run, NULL,
                                               NULL, &last_error));
    SAYS("one store");
    semel_inbox_close(inbox);
    semel_store_close(other);
}

/* To reject a duplicate is an answer for a sender who waits for one; here there is none. */
static void a_duplicate_leaves_the_outbox_whatever_the_policy(void **state)
{
    static const semel_on_duplicate policies[] = {SEMEL_DUPLICATE_SKIP, SEMEL_DUPLICATE_REPLAY,
                                                  SEMEL_DUPLICATE_REJECT};
    static const char *const names[] = {"skip", "replay", "reject"};
    fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        semel_inbox_options options = {.size = sizeof options, .on_duplicate = policies[i]};
        semel_outbox *outbox = fixture_outbox(f, names[i]);
        scripted_handler todo = {.result = "done"};
        semel_relay *relay = fixture_local_relay(f, outbox, fixture_inbox(f, names[i], &options),
                                                 scripted_handler_run, &todo, NULL);
        send(outbox, "1", "a");
        send(outbox, "1", "a");
        assert_int_equal(fixture_drain(relay), 2);
        assert_int_equal(todo.runs, 1);
        assert_int_equal(fixture_counters(f).unsent, 0);
    }
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void other_content_under_a_known_key_is_kept_as_a_dead_letter(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    scripted_handler todo = {0};
    semel_relay *relay = fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL),
                                             scripted_handler_run, &todo, NULL);
    send(outbox, "1", "a");
    send(outbox, "1", "other content");
    (void)fixture_drain(relay);
    assert_int_equal(todo.runs, 1);
    assert_int_equal(fixture_counters(f).unsent, 0);
    letter one = fixture_only_letter(f);
    assert_string_equal(one.name, "inbox");
    assert_int_equal(one.origin, SEMEL_DEAD_INBOX);
}

/* A handler that works for two seconds, so many times. */
typedef struct sleeper {
    fixture *f;
    unsigned runs;
    unsigned sleeps;
} sleeper;

static semel_status sleep_once(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    sleeper *self = context;
    (void)unit;
    (void)message;
    (void)err;
    self->runs++;
    if (self->sleeps) {
        self->sleeps--;
        semel_test_advance_ms(self->f->seam, 2000);
    }
    return SEMEL_OK;
}

/* No other relay took it, so it is still this relay's: one run, and it is gone. */
static void a_lease_that_ended_unnoticed_does_no_harm(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .lease_ms = 1000};
    sleeper self = {.f = f, .sleeps = 1};
    semel_relay *relay = fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL), sleep_once,
                                             &self, &options);
    send(outbox, "1", "a");
    assert_int_equal(step(relay), 1);
    assert_int_equal(self.runs, 1);
    assert_int_equal(fixture_counters(f).unsent, 0);
    assert_int_equal(step(relay), 0);
}

/* What was not begun when half of the lease was over is given back, and its attempt with it. */
static void what_is_late_is_shed(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .lease_ms = 3000};
    sleeper self = {.f = f, .sleeps = 1};
    semel_relay *relay = fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL), sleep_once,
                                             &self, &options);
    send(outbox, "1", "a");
    send(outbox, "2", "a");
    assert_int_equal(step(relay), 1);
    assert_int_equal(self.runs, 1);
    assert_int_equal(step(relay), 1);
    assert_int_equal(self.runs, 2);
    assert_int_equal(fixture_counters(f).resent, 0);
}

/* A handler that takes a while for each. */
typedef struct slow_work {
    fixture *f;
    int64_t takes_ms;
} slow_work;

static semel_status work_slowly(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    slow_work *self = context;
    (void)unit, (void)message, (void)err;
    semel_test_advance_ms(self->f->seam, self->takes_ms);
    return SEMEL_OK;
}

static void fill(semel_outbox *outbox, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        send(outbox, id, "a");
    }
}

/* Ten at first; then as many as a tenth of a second is enough for. */
static void slow_messages_share_no_transaction(void **state)
{
    enum { ALL = 14, FIRST = 10 };
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    slow_work self = {f, 200};
    semel_relay *relay =
        fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL), work_slowly, &self, NULL);
    fill(outbox, 0, ALL);
    assert_int_equal(step(relay), ALL);
    assert_int_equal(semel_test_passed(f->seam, "batch.committed"), 1);
    assert_int_equal(semel_test_passed(f->seam, "handoff.committed"), ALL - FIRST);
    self.takes_ms = 0;
    fill(outbox, ALL, ALL);
    assert_int_equal(step(relay), ALL);
    assert_int_equal(semel_test_passed(f->seam, "handoff.committed"), ALL - FIRST + 1);
    assert_int_equal(semel_test_passed(f->seam, "batch.committed"), 1 + 3); /* 2, 4, and the rest */
}

static void each_attempt_is_counted_and_seen_by_the_handler(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    scripted_handler todo = {.failures = 2};
    semel_relay *relay = fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL),
                                             scripted_handler_run, &todo, NULL);
    send(outbox, "1", "a");
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        assert_int_equal(step(relay), attempt == 3);
        assert_int_equal(todo.attempt, attempt);
        semel_test_advance_ms(f->seam, 1000);
    }
}

/* A conflict that does not end: each is begun anew a few times, with a pause, and then the message
 * waits. The relay does not ask the store without a pause, and a healthy message behind it is
 * handled. */
static semel_status collide(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    unsigned *runs = context;
    (void)unit;
    if (message->id.len != 1 || *(const char *)message->id.data != 'c')
        return SEMEL_OK;
    ++*runs;
    return semel_fail(err, SEMEL_ECONFLICT, "in its way");
}

static void a_conflict_is_met_with_patience(void **state)
{
    enum { STEPS = 20, BEGUN_ANEW = 5 };
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    unsigned runs = 0;
    semel_relay *relay =
        fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL), collide, &runs, NULL);
    send(outbox, "c", "a");
    send(outbox, "h", "a");
    size_t sent = 0;
    for (int i = 0; i < STEPS; i++)
        sent += step(relay);
    assert_int_equal(sent, 1);
    /* in the batch and by itself. It is not due again: time stands still */
    assert_int_equal(runs, 2 * (1 + BEGUN_ANEW));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
    assert_int_equal(fixture_counters(f).unsent, 1);
    semel_test_advance_ms(f->seam, 60000);
    assert_int_equal(step(relay), 0);
    assert_int_equal(runs, 3 * (1 + BEGUN_ANEW));
}

static void a_hand_off_in_trouble_uses_up_no_attempts(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler todo = {0};
    semel_relay *relay = fixture_local_relay(f, outbox, inbox, scripted_handler_run, &todo, NULL);
    size_t sent;
    send(outbox, "1", "a");
    send(outbox, "2", "a");
    for (int i = 0; i < 20; i++) { /* the first pass takes both, the next ones are small */
        semel_test_fault(f->seam, i ? "handoff.marked" : "batch.marked", 1, SEMEL_EUNAVAILABLE);
        FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    }
    semel_test_fault(f->seam, NULL, 0, SEMEL_OK);
    assert_int_equal(fixture_drain(relay), 2);
    assert_int_equal(todo.runs, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* Fails at its first attempt, and makes the next commit fail, which is to put the message back. */
typedef struct troublemaker {
    unsigned runs;
    semel_status status;
} troublemaker;

static semel_status fail_with_trouble(semel_unit *unit, const semel_message *message, void *context,
                                      semel_error *err)
{
    troublemaker *self = context;
    (void)unit;
    (void)message;
    if (self->runs++)
        return SEMEL_OK;
    failing_store_break_commits(1, self->status);
    return semel_fail(err, SEMEL_EHANDLER, "not the first time");
}

static semel_relay *relay_in_trouble(fixture *f, troublemaker *self)
{
    semel_relay_options options = {
        .size = sizeof options, .batch = 1, .backoff_ms = 10, .lease_ms = 600000};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_local_relay(f, outbox, fixture_inbox(f, "inbox", NULL),
                                             fail_with_trouble, self, &options);
    failing_store_open(f);
    send(outbox, "1", "a");
    return relay;
}

/* Two relays that settle may deadlock in a server. */
static void a_conflict_while_it_goes_back_leaves_no_lease(void **state)
{
    fixture *f = *state;
    troublemaker self = {.status = SEMEL_ECONFLICT};
    semel_relay *relay = relay_in_trouble(f, &self);
    assert_int_equal(step(relay), 0);
    semel_test_advance_ms(f->seam, 1000);
    assert_int_equal(step(relay), 1);
    assert_int_equal(self.runs, 2);
}

static void an_outage_while_it_goes_back_leaves_no_lease(void **state)
{
    fixture *f = *state;
    troublemaker self = {.status = SEMEL_EBUSY};
    semel_relay *relay = relay_in_trouble(f, &self);
    size_t sent;
    FAILS(SEMEL_EBUSY, semel_relay_step(&sent, relay, 0, &last_error));
    semel_test_advance_ms(f->seam, 1000);
    assert_int_equal(step(relay), 1);
    assert_int_equal(self.runs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("inbox and outbox must fit together", inbox_and_outbox_must_fit_together),
        ON_BOTH("a duplicate leaves the outbox, whatever the policy",
                a_duplicate_leaves_the_outbox_whatever_the_policy),
        ON_BOTH("other content under a known key is kept as a dead letter",
                other_content_under_a_known_key_is_kept_as_a_dead_letter),
        ON_BOTH("a lease that ended unnoticed does no harm",
                a_lease_that_ended_unnoticed_does_no_harm),
        ON_BOTH("what is late is shed", what_is_late_is_shed),
        ON_BOTH("slow messages share no transaction", slow_messages_share_no_transaction),
        ON_BOTH("each attempt is counted and seen by the handler",
                each_attempt_is_counted_and_seen_by_the_handler),
        ON_BOTH("a conflict is met with patience", a_conflict_is_met_with_patience),
        ON_BOTH("a hand-off in trouble uses up no attempts",
                a_hand_off_in_trouble_uses_up_no_attempts),
        ON_BOTH("a conflict while it goes back leaves no lease",
                a_conflict_while_it_goes_back_leaves_no_lease),
        ON_BOTH("an outage while it goes back leaves no lease",
                an_outage_while_it_goes_back_leaves_no_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
