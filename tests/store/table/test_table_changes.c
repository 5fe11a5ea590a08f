/* A driver whose units take a limited number of changes: batches are cut by it, and no unit is
 * asked for more. */
#include "support/fake/noting_store.h"

#include <stdio.h>

enum { CHANGES_MAX = 8, KEYS = CHANGES_MAX / 4, MESSAGES = 20 };

/* --- batches ---------------------------------------------------------------------------------- */

typedef struct message_batch {
    char ids[MESSAGES][8];
    semel_message messages[MESSAGES];
    const semel_message *pointers[MESSAGES];
    semel_outcome outcomes[MESSAGES];
} message_batch;

static void fill(message_batch *out)
{
    for (int i = 0; i < MESSAGES; i++) {
        (void)snprintf(out->ids[i], sizeof out->ids[i], "m-%02d", i);
        out->messages[i] = text_message(out->ids[i], "10 EUR");
        out->pointers[i] = &out->messages[i];
    }
}

/* A handler that sends, and counts. */
typedef struct sender {
    semel_outbox *outbox;
    unsigned sends;   /* messages by each run ... */
    const char *only; /* ... for this id; NULL: for all */
    unsigned runs;
} sender;

static semel_status send_all(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    sender *self = context;
    semel_message mail = text_message("", "paid");
    semel_bytes key = semel_unit_key(unit);
    int chosen = !self->only || memcmp(key.data, self->only, key.len) == 0;
    (void)message;
    self->runs++;
    for (unsigned i = 0; chosen && i < self->sends; i++) {
        semel_status status = semel_unit_send(unit, self->outbox, &mail, err);
        if (status)
            return status;
    }
    return SEMEL_OK;
}

static store_notes expect_within_limit(void)
{
    store_notes notes = noting_store_take();
    assert_in_range(notes.changes_most, 1, CHANGES_MAX);
    return notes;
}

static void a_batch_is_cut_by_the_limit(void **state)
{
    fixture *f = *state;
    message_batch all;
    scripted_handler done = {0};
    fill(&all);
    noting_store_open(f, CHANGES_MAX);
    semel_inbox *inbox = fixture_inbox(f, "orders", NULL);
    OK(semel_inbox_receive_batch(all.outcomes, inbox, all.pointers, MESSAGES, scripted_handler_run,
                                 &done, &last_error));
    for (int i = 0; i < MESSAGES; i++)
        OUTCOME(SEMEL_PROCESSED, all.outcomes[i]);
    assert_int_equal(done.runs, MESSAGES);
    store_notes notes = expect_within_limit();
    assert_int_equal(notes.keys_most, KEYS);
    assert_int_equal(notes.calls[VERB_MARK], MESSAGES / KEYS);
}

/* Each key becomes a dead one, with a letter. */
static void a_batch_of_dead_letters_is_within_the_limit(void **state)
{
    fixture *f = *state;
    message_batch all;
    scripted_handler hopeless = {.failures = MESSAGES, .failure = SEMEL_EGIVEUP};
    fill(&all);
    noting_store_open(f, CHANGES_MAX);
    semel_inbox *inbox = fixture_inbox(f, "orders", NULL);
    OK(semel_inbox_receive_batch(all.outcomes, inbox, all.pointers, MESSAGES, scripted_handler_run,
                                 &hopeless, &last_error));
    for (int i = 0; i < MESSAGES; i++)
        OUTCOME(SEMEL_DEAD, all.outcomes[i]);
    store_notes notes = expect_within_limit();
    assert_int_equal(notes.keys_most, KEYS);
    assert_int_equal(fixture_letters(f, NULL, 0), MESSAGES);
}

/* What does not fit beside others fits alone: two keys leave room for four messages, one key for
 * six. */
static void what_does_not_fit_into_a_batch_is_received_by_itself(void **state)
{
    enum { EACH = 5 };
    fixture *f = *state;
    message_batch all;
    fill(&all);
    noting_store_open(f, CHANGES_MAX);
    sender plenty = {.outbox = fixture_outbox(f, "mail"), .sends = EACH};
    semel_inbox *inbox = fixture_inbox(f, "orders", NULL);
    OK(semel_inbox_receive_batch(all.outcomes, inbox, all.pointers, MESSAGES, send_all, &plenty,
                                 &last_error));
    for (int i = 0; i < MESSAGES; i++)
        OUTCOME(SEMEL_PROCESSED, all.outcomes[i]);
    assert_true(plenty.runs > MESSAGES); /* each was begun together with another one first */
    assert_int_equal(fixture_counters(f).unsent, MESSAGES * EACH);
    assert_int_equal(fixture_counters(f).captured, MESSAGES * EACH);
    assert_int_equal(fixture_counters(f).processed, MESSAGES);
    (void)expect_within_limit();
}

static void what_fits_nowhere_fails_and_the_others_do_not(void **state)
{
    fixture *f = *state;
    message_batch all;
    fill(&all);
    noting_store_open(f, CHANGES_MAX);
    sender too_many = {.outbox = fixture_outbox(f, "mail"), .sends = CHANGES_MAX, .only = "m-07"};
    semel_inbox *inbox = fixture_inbox(f, "orders", NULL);
    OK(semel_inbox_receive_batch(all.outcomes, inbox, all.pointers, MESSAGES, send_all, &too_many,
                                 &last_error));
    SAYS("8 changes");
    for (int i = 0; i < MESSAGES; i++)
        OUTCOME(i == 7 ? SEMEL_FAILED : SEMEL_PROCESSED, all.outcomes[i]);
    assert_int_equal(fixture_counters(f).unsent, 0);
    (void)expect_within_limit();
}

static void a_message_that_sends_too_many_fails_in_every_mode(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    noting_store_open(f, CHANGES_MAX);
    sender fits = {.outbox = fixture_outbox(f, "mail"), .sends = CHANGES_MAX - 2},
           too_many = {.outbox = fits.outbox, .sends = CHANGES_MAX - 1};
    fixture_both_modes(inboxes, f, (semel_inbox_options){.attempts_max = 9});
    EACH_MODE(inbox, inboxes)
    {
        RECEIVES_ID_BY(SEMEL_OK, SEMEL_PROCESSED, inbox, "fits", send_all, &fits);
        RECEIVES_ID_BY(SEMEL_ELIMIT, SEMEL_FAILED, inbox, "more", send_all, &too_many);
        SAYS("send fewer");
        (void)expect_within_limit();
    }
    assert_int_equal(fixture_counters(f).unsent, 2 * fits.sends);
}

/* --- relays ----------------------------------------------------------------------------------- */

static void send_mails(semel_outbox *outbox, int count)
{
    semel_message mail = text_message("", "paid");
    for (int i = 0; i < count; i++)
        OK(semel_outbox_send(outbox, &mail, &last_error));
    (void)noting_store_take();
}

static void a_relay_leases_and_settles_within_the_limit(void **state)
{
    fixture *f = *state;
    noting_store_open(f, CHANGES_MAX);
    semel_outbox *outbox = fixture_outbox(f, "mail");
    semel_relay_options options = {.size = sizeof options, .batch = 100};
    semel_relay *relay = fixture_relay(f, outbox, fixture_recorder(f), &options);
    send_mails(outbox, MESSAGES);
    assert_int_equal(fixture_drain(relay), MESSAGES);
    store_notes notes = expect_within_limit();
    assert_int_equal(notes.leased_most, CHANGES_MAX / 2);
    assert_int_equal(notes.settled_most, CHANGES_MAX / 2);
}

/* Each of them is settled, and becomes a letter. */
static void letters_of_a_relay_are_within_the_limit(void **state)
{
    fixture *f = *state;
    noting_store_open(f, CHANGES_MAX);
    semel_outbox *outbox = fixture_outbox(f, "mail");
    semel_transport *broker = fixture_recorder(f);
    semel_relay_options options = {.size = sizeof options, .batch = 100, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, broker, &options);
    size_t sent;
    send_mails(outbox, MESSAGES);
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, MESSAGES);
    for (int steps = 0; fixture_counters(f).unsent && steps < MESSAGES; steps++)
        OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(fixture_letters(f, NULL, 0), MESSAGES);
    (void)expect_within_limit();
}

static void a_local_relay_is_within_the_limit(void **state)
{
    fixture *f = *state;
    scripted_handler done = {0};
    noting_store_open(f, CHANGES_MAX);
    semel_outbox *outbox = fixture_outbox(f, "mail");
    semel_inbox *inbox = fixture_inbox(f, "orders", NULL);
    semel_relay *relay = fixture_local_relay(f, outbox, inbox, scripted_handler_run, &done, NULL);
    send_mails(outbox, MESSAGES);
    assert_int_equal(fixture_drain(relay), MESSAGES);
    assert_int_equal(done.runs, MESSAGES);
    (void)expect_within_limit();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("a batch is cut by the limit", a_batch_is_cut_by_the_limit),
        ON_MEMORY("a batch of dead letters is within the limit",
                  a_batch_of_dead_letters_is_within_the_limit),
        ON_MEMORY("what does not fit into a batch is received by itself",
                  what_does_not_fit_into_a_batch_is_received_by_itself),
        ON_MEMORY("what fits nowhere fails, and the others do not",
                  what_fits_nowhere_fails_and_the_others_do_not),
        ON_MEMORY("a message that sends too many fails in every mode",
                  a_message_that_sends_too_many_fails_in_every_mode),
        ON_MEMORY("a relay leases and settles within the limit",
                  a_relay_leases_and_settles_within_the_limit),
        ON_MEMORY("letters of a relay are within the limit",
                  letters_of_a_relay_are_within_the_limit),
        ON_MEMORY("a local relay is within the limit", a_local_relay_is_within_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
