/* Waiting, being woken, running and stopping, and what the watcher is told of a broker that is
 * away; and that the store is free while the relay talks to the broker.
 *
 * The tests with a thread use the real clock and wait for conditions, with deadlines far below the
 * poll interval that would end the wait without a wake-up. */
#include "support/fake/spy.h"
#include "support/process/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { LONG_MS = 120000, SOON_MS = 45000 };

/* --- woken by a commit of this process -------------------------------------------------------- */

/* A seam that is the system's, but for counting how often the relay has looked at the clock: it
 * does so once in each turn, before it looks into the outbox. */
static atomic_int looks;

static int64_t count_and_tell(void *context)
{
    (void)context;
    atomic_fetch_add(&looks, 1);
    return process_now_ms();
}

typedef struct waiting {
    semel_store *store;
    semel_outbox *outbox;
    semel_inbox *inbox;
    semel_transport *recorder;
    semel_relay *relay;
    semel_seam seam;
    char url[SCRATCH_PATH];
    pthread_t thread;
    size_t sent;
    semel_status status;
    int64_t took_ms;
} waiting;

static void *wait_in_step(void *context)
{
    waiting *self = context;
    int64_t began = process_now_ms();
    self->status = semel_relay_step(&self->sent, self->relay, LONG_MS, NULL);
    self->took_ms = process_now_ms() - began;
    return NULL;
}

static void start_waiting(waiting *self, fixture *f)
{
    semel_relay_options slow = {.size = sizeof slow, .poll_ms = LONG_MS};
    semel_store_options options = {.size = sizeof options, .busy_ms = SOON_MS, .seam = &self->seam};
    self->seam = (semel_seam){.size = sizeof self->seam, .steady_ms = count_and_tell};
    OK(semel_store_open(&self->store, f->place.url, &options, &last_error));
    OK(semel_store_migrate(self->store, &last_error));
    OK(semel_outbox_open(&self->outbox, self->store, "out", &last_error));
    semel_inbox_options inbox_options = {.size = sizeof inbox_options, .faults = self->outbox};
    OK(semel_inbox_open(&self->inbox, self->store, "inbox", &inbox_options, &last_error));
    OK(semel_test_recorder_open(&self->recorder, &last_error));
    OK(semel_relay_open(&self->relay, self->outbox, self->recorder, &slow, &last_error));
    int before = atomic_load(&looks);
    assert_int_equal(pthread_create(&self->thread, NULL, wait_in_step, self), 0);
    for (int64_t end = process_now_ms() + SOON_MS; atomic_load(&looks) == before;)
        if (process_now_ms() < end)
            process_nap();
        else
            fail_msg("the relay does not begin");
}

static void check_woken(waiting *self, size_t sent)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    assert_int_equal(self->status, SEMEL_OK);
    assert_int_equal(self->sent, sent);
    assert_true(self->took_ms < SOON_MS);
    semel_relay_close(self->relay);
    semel_transport_close(self->recorder);
    semel_inbox_close(self->inbox);
    semel_outbox_close(self->outbox);
    semel_store_close(self->store);
}

static void a_waiting_relay_is_woken_by_a_message_that_is_sent(void **state)
{
    waiting self = {0};
    semel_message message = text_message("1", "a");
    start_waiting(&self, *state);
    OK(semel_outbox_send(self.outbox, &message, &last_error));
    check_woken(&self, 1);
}

static void a_waiting_relay_is_woken_by_a_handler_that_sends(void **state)
{
    waiting self = {0};
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    semel_outcome outcome;
    start_waiting(&self, *state);
    scripted_handler todo = {.outbox = self.outbox, .sends = &event};
    OK(semel_inbox_receive(&outcome, self.inbox, &message, scripted_handler_run, &todo,
                           &last_error));
    check_woken(&self, 1);
}

static void a_waiting_relay_is_woken_by_a_batch_that_sends(void **state)
{
    waiting self = {0};
    semel_message one = text_message("1", "a"), two = text_message("2", "a");
    semel_message event = text_message(NULL, "event");
    const semel_message *const both[] = {&one, &two};
    semel_outcome out[2];
    start_waiting(&self, *state);
    scripted_handler todo = {.outbox = self.outbox, .sends = &event};
    OK(semel_inbox_receive_batch(out, self.inbox, both, 2, scripted_handler_run, &todo,
                                 &last_error));
    check_woken(&self, 2);
}

static void a_waiting_relay_is_woken_by_a_fault_that_is_announced(void **state)
{
    waiting self = {0};
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    start_waiting(&self, *state);
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    OK(semel_inbox_receive(&outcome, self.inbox, &message, scripted_handler_run, &todo,
                           &last_error));
    OUTCOME(SEMEL_DEAD, outcome);
    check_woken(&self, 1);
}

static void a_waiting_relay_is_woken_to_be_stopped(void **state)
{
    waiting self = {0};
    start_waiting(&self, *state);
    semel_relay_stop(self.relay);
    check_woken(&self, 0);
}

/* A test's clock stands still, and the wait must end all the same. */
static void a_wait_ends_though_the_clock_stands(void **state)
{
    fixture *f = *state;
    semel_relay *relay = fixture_relay(f, fixture_outbox(f, "out"), fixture_recorder(f), NULL);
    size_t sent = 99;
    OK(semel_relay_step(&sent, relay, 20, &last_error));
    assert_int_equal(sent, 0);
}

/* --- run and stop ----------------------------------------------------------------------------- */

static void stop_at_the_third(spy *self, const semel_message *const messages[], size_t count)
{
    (void)messages;
    (void)count;
    if (self->publishes == 3)
        semel_relay_stop(self->context);
}

static void run_ends_when_it_is_stopped_and_finishes_its_turn(void **state)
{
    fixture *f = *state;
    spy s = {.inner = fixture_recorder(f), .on_publish = stop_at_the_third};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .batch = 2};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    s.context = relay;
    for (int i = 0; i < 10; i++) {
        semel_message message = text_message(NULL, "a");
        OK(semel_outbox_send(outbox, &message, &last_error));
    }
    OK(semel_relay_run(relay, &last_error));
    assert_int_equal(semel_test_recorder_count(s.inner), 6);
    assert_int_equal(fixture_counters(f).unsent, 4);
    OK(semel_relay_run(relay, &last_error)); /* it stays stopped */
    assert_int_equal(s.publishes, 3);
}

typedef struct mending {
    fixture *f;
    semel_relay *relay;
} mending;

static void mend_at_the_fifth(spy *self, const semel_message *const messages[], size_t count)
{
    mending *how = self->context;
    (void)messages;
    (void)count;
    semel_test_advance_ms(how->f->seam, 5000); /* the messages' own backoff is over by then */
    if (self->publishes == 5)
        self->publish_broken = SEMEL_OK;
    if (self->publishes == 6)
        semel_relay_stop(how->relay);
}

static void run_waits_out_a_broker_that_is_away(void **state)
{
    fixture *f = *state;
    mending how = {.f = f};
    spy s = {.inner = fixture_recorder(f),
             .publish_broken = SEMEL_EUNAVAILABLE,
             .on_publish = mend_at_the_fifth,
             .context = &how};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .poll_ms = 1};
    how.relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    for (int i = 0; i < 20; i++) {
        semel_message message = text_message(NULL, "a");
        OK(semel_outbox_send(outbox, &message, &last_error));
    }
    OK(semel_relay_run(how.relay, &last_error));
    assert_int_equal(s.publishes, 6);
    assert_true(semel_test_recorder_count(s.inner) > 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

typedef struct notices {
    char text[256]; /* a word for each, with a space behind it */
    semel_error first;
} notices;

static void write_down(void *context, const semel_error *trouble)
{
    notices *self = context;
    size_t used = strlen(self->text);
    if (trouble && !used)
        self->first = *trouble;
    (void)snprintf(self->text + used, sizeof self->text - used, "%s ",
                   trouble ? "trouble" : "over");
}

static void mend_at_the_fifth_and_stop(spy *self, const semel_message *const messages[],
                                       size_t count)
{
    (void)messages;
    (void)count;
    if (self->publishes < 5)
        return;
    self->publish_broken = SEMEL_OK;
    semel_relay_stop(self->context);
}

/* By the system's clock: the one message has to wait longer and longer, and meanwhile there are
 * turns in which nothing is due. They do not mean that the broker is back. */
static void a_broker_that_is_away_is_noticed_once_and_so_is_its_return(void **state)
{
    fixture *f = *state;
    semel_store *store = NULL;
    semel_outbox *outbox = NULL;
    semel_relay *relay = NULL;
    notices said = {0};
    spy s = {.inner = fixture_recorder(f),
             .publish_broken = SEMEL_EUNAVAILABLE,
             .on_publish = mend_at_the_fifth_and_stop};
    semel_relay_options options = {.size = sizeof options,
                                   .poll_ms = 1,
                                   .backoff_ms = 5,
                                   .backoff_max_ms = 50,
                                   .notice = write_down,
                                   .notice_context = &said};
    semel_message message = text_message("1", "a");
    OK(semel_store_open(&store, f->place.url, NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    OK(semel_outbox_open(&outbox, store, "out", &last_error));
    OK(semel_relay_open(&relay, outbox, spy_open(f, &s, 1), &options, &last_error));
    s.context = relay;
    OK(semel_outbox_send(outbox, &message, &last_error));
    OK(semel_relay_run(relay, &last_error));
    assert_string_equal(said.text, "trouble over ");
    assert_int_equal(said.first.status, SEMEL_EUNAVAILABLE);
    semel_relay_close(relay);
    semel_outbox_close(outbox);
    semel_store_close(store);
}

static void a_store_that_is_away_is_noticed_once_and_so_is_its_return(void **state)
{
    fixture *f = *state;
    notices said = {0};
    spy s = {
        .inner = fixture_recorder(f), .on_publish = mend_at_the_fifth_and_stop, .publishes = 5};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {
        .size = sizeof options, .notice = write_down, .notice_context = &said};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), &options);
    semel_message message = text_message("1", "a");
    s.context = relay;
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_fault(f->seam, "relay.leased", 1, SEMEL_EUNAVAILABLE);
    OK(semel_relay_run(relay, &last_error));
    assert_string_equal(said.text, "trouble over ");
}

static void run_ends_with_an_error_that_will_not_pass(void **state)
{
    fixture *f = *state;
    spy s = {.inner = fixture_recorder(f), .publish_broken = SEMEL_ETRANSPORT};
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), NULL);
    semel_message message = text_message("1", "a");
    OK(semel_outbox_send(outbox, &message, &last_error));
    FAILS(SEMEL_ETRANSPORT, semel_relay_run(relay, &last_error));
    assert_int_equal(fixture_counters(f).unsent, 1);
}

/* --- the store is free meanwhile -------------------------------------------------------------- */

typedef struct busy {
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_status status;
    semel_outcome outcome;
} busy;

static void receive_meanwhile(spy *self, const semel_message *const messages[], size_t count)
{
    busy *other = self->context;
    semel_message message = text_message("meanwhile", "a");
    (void)messages;
    (void)count;
    if (self->publishes > 1)
        return;
    other->status = semel_inbox_receive(&other->outcome, other->inbox, &message,
                                        scripted_handler_run, &(scripted_handler){0}, NULL);
    if (!other->status)
        other->status = semel_outbox_send(other->outbox, &message, NULL);
}

static void no_transaction_is_held_while_the_broker_is_talked_to(void **state)
{
    fixture *f = *state;
    busy other = {.inbox = fixture_inbox(f, "inbox", NULL), .outbox = fixture_outbox(f, "out")};
    spy s = {.inner = fixture_recorder(f), .on_publish = receive_meanwhile, .context = &other};
    semel_relay *relay = fixture_relay(f, other.outbox, spy_open(f, &s, 1), NULL);
    semel_message message = text_message("1", "a");
    size_t sent;
    OK(semel_outbox_send(other.outbox, &message, &last_error));
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    assert_int_equal(other.status, SEMEL_OK);
    OUTCOME(SEMEL_PROCESSED, other.outcome);
    assert_int_equal(fixture_drain(relay), 1);
}

/* --- stopped for good, and a broker that takes nothing ---------------------------------------- */

typedef struct relaying {
    spy spy;
    semel_relay *relay;
    unsigned troubles, reliefs;
    unsigned reliefs_at_last; /* when something was published for the last time */
} relaying;

static void stop_the_relay(spy *self, const semel_message *const messages[], size_t count)
{
    relaying *r = self->context;
    (void)messages, (void)count;
    semel_relay_stop(r->relay);
}

static void a_relay_that_was_stopped_stays_so(void **state)
{
    fixture *f = *state;
    semel_relay_options one = {.size = sizeof one, .batch = 1};
    semel_outbox *outbox = fixture_outbox(f, "out");
    relaying r = {.spy = {.inner = fixture_recorder(f), .on_publish = stop_the_relay}};
    r.spy.context = &r;
    semel_transport *transport = spy_open(f, &r.spy, 0);
    semel_message message = text_message("1", "a");
    for (size_t i = 0; i < 3; i++)
        OK(semel_outbox_send(outbox, &message, &last_error));
    for (unsigned relays = 1; relays <= 2; relays++) {
        r.relay = fixture_relay(f, outbox, transport, &one);
        for (unsigned runs = 0; runs < 2; runs++) {
            OK(semel_relay_run(r.relay, &last_error));
            assert_int_equal(r.spy.publishes, relays);
        }
    }
    r.relay = fixture_relay(f, outbox, transport, &one);
    semel_relay_stop(r.relay);
    OK(semel_relay_run(r.relay, &last_error));
    assert_int_equal(semel_test_recorder_count(r.spy.inner), 2);
}

static void note_relay(void *context, const semel_error *trouble)
{
    relaying *r = context;
    r->troubles += trouble != NULL;
    r->reliefs += !trouble;
}

/* Away, then refusing, then without a place for it, then well. */
static void play_the_broker(spy *self, const semel_message *const messages[], size_t count)
{
    static const semel_publish_result answers[] = {
        SEMEL_PUBLISH_UNKNOWN, SEMEL_PUBLISH_UNKNOWN,    SEMEL_PUBLISH_NACKED,
        SEMEL_PUBLISH_NACKED,  SEMEL_PUBLISH_UNROUTABLE, SEMEL_PUBLISH_CONFIRMED};
    relaying *r = self->context;
    size_t at = self->publishes - 1;
    (void)messages;
    r->reliefs_at_last = r->reliefs;
    self->publish_broken = answers[at] == SEMEL_PUBLISH_UNKNOWN ? SEMEL_EUNAVAILABLE : SEMEL_OK;
    if (!self->publish_broken)
        semel_test_recorder_answer(self->inner, NULL, answers[at], count);
    if (answers[at] == SEMEL_PUBLISH_CONFIRMED)
        semel_relay_stop(r->relay);
}

static void a_broker_that_takes_nothing_is_not_back(void **state)
{
    fixture *f = *state;
    semel_store *store; /* with the system's clock: what was refused waits a moment by it */
    semel_outbox *outbox;
    relaying r = {.spy = {.inner = fixture_recorder(f), .on_publish = play_the_broker}};
    semel_message message = text_message("1", "a");
    semel_relay_options options = {.size = sizeof options,
                                   .poll_ms = 5,
                                   .backoff_ms = 1,
                                   .backoff_max_ms = 2,
                                   .attempts_max = 100,
                                   .notice = note_relay,
                                   .notice_context = &r};
    r.spy.context = &r;
    OK(semel_store_open(&store, "memory:", NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    OK(semel_outbox_open(&outbox, store, "out", &last_error));
    OK(semel_relay_open(&r.relay, outbox, spy_open(f, &r.spy, 0), &options, &last_error));
    OK(semel_outbox_send(outbox, &message, &last_error));
    OK(semel_relay_run(r.relay, &last_error));
    assert_int_equal(r.spy.publishes, 6);
    assert_int_equal(r.troubles, 1);
    assert_int_equal(r.reliefs_at_last, 0);
    assert_int_equal(r.reliefs, 1);
    semel_relay_close(r.relay);
    semel_outbox_close(outbox);
    semel_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a waiting relay is woken by a message that is sent",
                a_waiting_relay_is_woken_by_a_message_that_is_sent),
        ON_BOTH("a waiting relay is woken by a handler that sends",
                a_waiting_relay_is_woken_by_a_handler_that_sends),
        ON_BOTH("a waiting relay is woken by a batch that sends",
                a_waiting_relay_is_woken_by_a_batch_that_sends),
        ON_BOTH("a waiting relay is woken by a fault that is announced",
                a_waiting_relay_is_woken_by_a_fault_that_is_announced),
        ON_BOTH("a waiting relay is woken to be stopped", a_waiting_relay_is_woken_to_be_stopped),
        ON_BOTH("a wait ends though the clock stands", a_wait_ends_though_the_clock_stands),
        ON_BOTH("run ends when it is stopped, and finishes its turn",
                run_ends_when_it_is_stopped_and_finishes_its_turn),
        ON_BOTH("run waits out a broker that is away", run_waits_out_a_broker_that_is_away),
        ON_BOTH("a broker that is away is noticed once, and so is its return",
                a_broker_that_is_away_is_noticed_once_and_so_is_its_return),
        ON_BOTH("a store that is away is noticed once, and so is its return",
                a_store_that_is_away_is_noticed_once_and_so_is_its_return),
        ON_BOTH("run ends with an error that will not pass",
                run_ends_with_an_error_that_will_not_pass),
        ON_BOTH("no transaction is held while the broker is talked to",
                no_transaction_is_held_while_the_broker_is_talked_to),
        ON_BOTH("a relay that was stopped stays so", a_relay_that_was_stopped_stays_so),
        ON_MEMORY("a broker that takes nothing is not back",
                  a_broker_that_takes_nothing_is_not_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
