/* Counters: those of the inboxes and outboxes of a store add up to those of the store, and count
 * what was committed. */
#include "support/fixture/fixture.h"

/* Every member is 64 bits wide. */
enum { MEMBERS = offsetof(semel_counters, unsent) / sizeof(uint64_t) };

typedef struct numbers {
    uint64_t of[MEMBERS];
} numbers;

static void add(numbers *sum, const semel_counters *c)
{
    uint64_t now[MEMBERS];
    memcpy(now, c, sizeof now);
    for (size_t i = 0; i < MEMBERS; i++)
        sum->of[i] += now[i];
}

static semel_counters of_inbox(const semel_inbox *inbox)
{
    semel_counters c;
    semel_inbox_counters(&c, sizeof c, inbox);
    return c;
}

static semel_counters of_outbox(const semel_outbox *outbox)
{
    semel_counters c;
    semel_outbox_counters(&c, sizeof c, outbox);
    return c;
}

static void work_through(fixture *f, semel_inbox *inbox, semel_outbox *outbox, const char *prefix)
{
    semel_message event = text_message(NULL, "event"), none = text_message("", "no key");
    scripted_handler good = {.outbox = outbox, .sends = &event}, bad = {.failures = 9};
    semel_message a = text_message(prefix, "body"), other = text_message(prefix, "other");
    semel_message b = text_message(prefix + 1, "body");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &a, &good);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &a, &good);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &other, &good);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &none, &good); /* unprotected */
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &b, &bad);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &b, &bad);
    semel_transport *broker = fixture_recorder(f);
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_NACKED, 1);
    semel_relay *relay = fixture_relay(f, outbox, broker, NULL);
    (void)fixture_drain(relay);
    semel_test_advance_ms(f->seam, 3600000);
    (void)fixture_drain(relay);
}

static void inboxes_and_outboxes_add_up_to_the_store(void **state)
{
    fixture *f = *state;
    numbers parts = {0}, whole = {0};
    semel_inbox_options options = {
        .size = sizeof options, .attempts_max = 2, .on_missing_key = SEMEL_MISSING_KEY_PROCESS};
    semel_inbox *in[] = {fixture_inbox(f, "one", &options), fixture_inbox(f, "two", &options)};
    semel_outbox *out[] = {fixture_outbox(f, "first"), fixture_outbox(f, "second")};
    for (size_t i = 0; i < 2; i++)
        for (size_t round = 0; round <= i; round++)
            work_through(f, in[i], out[i], round ? "xy" : "ab");
    for (size_t i = 0; i < 2; i++) {
        semel_counters inbox = of_inbox(in[i]), outbox = of_outbox(out[i]);
        assert_int_equal(inbox.processed, 2 * (i + 1));
        assert_int_equal(inbox.unprotected, i + 1);
        assert_int_equal(inbox.dead, i + 1);
        assert_int_equal(outbox.captured, 2 * (i + 1));
        assert_int_equal(outbox.sent, 2 * (i + 1));
        assert_int_equal(outbox.send_failed, i + 1);
        add(&parts, &inbox);
        add(&parts, &outbox);
    }
    semel_counters store = fixture_counters(f);
    add(&whole, &store);
    assert_memory_equal(&parts, &whole, sizeof whole);
}

/* What a failed message of a batch sent is undone with it; its fault announcement is not. */
static void a_batch_counts_what_it_sent_to_each_outbox(void **state)
{
    fixture *f = *state;
    semel_outcome out[3];
    semel_outbox *events = fixture_outbox(f, "events"), *faults = fixture_outbox(f, "faults");
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 1, .faults = faults};
    semel_inbox *inbox = fixture_inbox(f, "in", &options);
    semel_message event = text_message(NULL, "event");
    scripted_handler todo = {.failures = 9, .only = "b", .outbox = events, .sends = &event};
    semel_message a = text_message("a", ""), b = text_message("b", ""), c = text_message("c", "");
    const semel_message *all[] = {&a, &b, &c};
    semel_test_fault(f->seam, "batch.handled", 2, SEMEL_ECONFLICT);
    OK(semel_inbox_receive_batch(out, inbox, all, 3, scripted_handler_run, &todo, &last_error));
    OUTCOME(SEMEL_DEAD, out[1]);
    assert_int_equal(of_outbox(events).captured, 2);
    assert_int_equal(of_outbox(faults).captured, 1);
    assert_int_equal(fixture_counters(f).captured, 3);
    assert_int_equal(fixture_counters(f).unsent, 3);
}

static void announcements_count_as_captured(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *faults = fixture_outbox(f, "faults");
    scripted_handler bad = {.failures = 9};
    fixture_both_modes(inboxes, f, (semel_inbox_options){.attempts_max = 1, .faults = faults});
    for (uint64_t i = 0; i < 2; i++) {
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inboxes[i], "a", &bad);
        assert_int_equal(of_outbox(faults).captured, i + 1);
        assert_int_equal(fixture_counters(f).unsent, i + 1);
    }
}

/* A program that was built with a shorter struct gets what it knows, and no byte more. */
static void a_shorter_struct_is_filled_as_far_as_it_goes(void **state)
{
    fixture *f = *state;
    scripted_handler good = {0};
    semel_inbox *inbox = fixture_inbox(f, "in", NULL);
    struct {
        uint64_t processed, behind;
    } shorter = {7, 7};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &good);
    semel_inbox_counters((semel_counters *)(void *)&shorter, sizeof shorter.processed, inbox);
    assert_int_equal(shorter.processed, 1);
    assert_int_equal(shorter.behind, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("inboxes and outboxes add up to the store",
                inboxes_and_outboxes_add_up_to_the_store),
        ON_BOTH("a batch counts what it sent to each outbox",
                a_batch_counts_what_it_sent_to_each_outbox),
        ON_BOTH("announcements count as captured", announcements_count_as_captured),
        ON_MEMORY("a shorter struct is filled as far as it goes",
                  a_shorter_struct_is_filled_as_far_as_it_goes)};
    return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
