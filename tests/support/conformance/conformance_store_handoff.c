/* Local hand-off: out of the outbox and into the inbox in one transaction. */
#include "support/conformance/conformance_store.h"

#include <string.h>

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    message.group = group;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void a_message_is_handed_over_once(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox *inbox = open_inbox(f, "projection", NULL);
    scripted_handler done = {0};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &done, NULL);
    send_id(outbox, "m-1", NULL);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(done.runs, 1);
    assert_string_equal(done.id, "m-1");

    semel_message copy = text_message("m-1", "10 EUR"); /* the time is not a part of the content */
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &copy, &done);
    assert_int_equal(counters_of(f).processed, 1);
    assert_int_equal(counters_of(f).sent, 1);
}

static void what_the_inbox_knows_is_taken_out_without_running(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox *inbox = open_inbox(f, "projection", NULL);
    scripted_handler done = {0};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &done, NULL);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    send_id(outbox, "m-1", NULL);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(done.runs, 1);
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(counters_of(f).duplicates, 1);
}

static void what_its_handler_sends_goes_with_it(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events"), *mail = open_outbox(f, "mail");
    semel_message payment = text_message("mail-1", "paid");
    scripted_handler failing = {.failures = 1, .outbox = mail, .sends = &payment};
    semel_relay *relay =
        open_local_relay(f, outbox, open_inbox(f, "projection", NULL), &failing, NULL);
    semel_transport *broker = open_recorder(f);
    semel_relay *post = open_relay(f, mail, broker, NULL);
    send_id(outbox, "m-1", NULL);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(relay_once(post), 0);
    pass_ms(f, 60000);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(relay_once(post), 1);
    assert_int_equal(failing.runs, 2);
    assert_int_equal(failing.attempt, 2);
}

static void a_failed_hand_over_waits_and_holds_up_its_group_only(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    scripted_handler failing = {.failures = 1, .only = "a1"};
    uint32_t backoff_ms = grains(f, 1000);
    semel_relay_options options = {
        .size = sizeof options, .backoff_ms = backoff_ms, .backoff_max_ms = 8 * backoff_ms};
    semel_relay *relay =
        open_local_relay(f, outbox, open_inbox(f, "projection", NULL), &failing, &options);
    send_id(outbox, "a1", "a");
    send_id(outbox, "a2", "a");
    send_id(outbox, "b1", "b");
    assert_int_equal(relay_once(relay), 1);
    pass_almost(f, backoff_ms / 2);
    assert_int_equal(relay_once(relay), 0);
    pass_ms(f, backoff_ms / 2 + f->grain_ms);
    assert_int_equal(relay_all(relay), 2);
    assert_string_equal(failing.ids, "a1 b1 a1 a2 ");
}

static void what_keeps_failing_is_a_dead_letter_of_the_inbox(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox *inbox = open_inbox(f, "projection", NULL);
    scripted_handler failing = {.failures = 99};
    semel_relay_options options = {.size = sizeof options, .attempts_max = 3};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &failing, &options);
    send_id(outbox, "m-1", "g");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_letters(f), 0);
        relay_once(relay);
        pass_ms(f, 60000);
    }
    relay_once(relay);
    assert_int_equal(failing.runs, 3);
    assert_int_equal(counters_of(f).unsent, 0);

    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].origin, SEMEL_DEAD_INBOX);
    assert_string_equal(found.all[0].name, "projection");
    assert_string_equal(found.all[0].error, "out of paper");
    assert_int_equal(found.all[0].attempts, 3);
    letters_free(&found);

    failing.failures = 0;
    semel_outcome outcome;
    OK(semel_inbox_replay(&outcome, inbox, only_letter(f), scripted_handler_run, &failing,
                          &last_error));
    assert_int_equal(outcome, SEMEL_PROCESSED);
}

/* It cannot be told from its copies, but it can be given up on: the outbox counts its attempts. */
static void what_has_no_key_and_keeps_failing_is_a_dead_letter_too(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox_options keyless = {.size = sizeof keyless,
                                   .key = "correlation-id",
                                   .on_missing_key = SEMEL_MISSING_KEY_PROCESS};
    scripted_handler failing = {.failures = 99};
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2};
    semel_relay *relay =
        open_local_relay(f, outbox, open_inbox(f, "projection", &keyless), &failing, &options);
    send_id(outbox, "m-1", NULL);
    for (int i = 0; i < 3; i++) {
        relay_once(relay);
        pass_ms(f, 60000);
    }
    assert_int_equal(failing.runs, 2);
    assert_int_equal(count_letters(f), 1);
    assert_int_equal(counters_of(f).unsent, 0);
}

/* P9: the handler kills the process each time. All that is left is a lease that ends. */
static void a_hand_over_that_never_ends_is_counted_until_it_is_dead(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    scripted_handler never = {0};
    semel_relay_options options = {.size = sizeof options, .attempts_max = 2, .lease_ms = 30000};
    semel_relay *relay =
        open_local_relay(f, outbox, open_inbox(f, "projection", NULL), &never, &options);
    size_t sent;
    send_id(outbox, "m-1", NULL);
    for (int i = 0; i < 2; i++) {
        semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_ESTORE);
        FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
        pass_ms(f, 30000);
    }
    relay_once(relay);
    assert_int_equal(never.runs, 0);
    assert_int_equal(counters_of(f).unsent, 0);
    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].attempts, 2);
    letters_free(&found);
}

/* P8: it came another way and was handled meanwhile, so it cannot be buried. It must not stay for
 * ever. */
static void what_was_tried_too_often_and_handled_elsewhere_leaves_the_outbox(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox *inbox = open_inbox(f, "projection", NULL);
    scripted_handler done = {0};
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1, .lease_ms = 30000};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &done, &options);
    size_t sent;
    send_id(outbox, "m-1", NULL);
    semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &done);
    pass_ms(f, 30000);
    relay_once(relay);
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(count_letters(f), 0);
    assert_int_equal(done.runs, 1);
}

/* Before the commit nothing has happened, after it both have. */
static void a_hand_over_that_the_store_fails_is_done_again(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events"), *mail = open_outbox(f, "mail");
    semel_message payment = text_message("mail-1", "paid");
    scripted_handler done = {.outbox = mail, .sends = &payment};
    semel_relay *relay =
        open_local_relay(f, outbox, open_inbox(f, "projection", NULL), &done, NULL);
    size_t sent;
    send_id(outbox, "m-1", NULL);
    semel_test_fault(f->base.seam, "handoff.marked", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(counters_of(f).unsent, 1);
    pass_ms(f, 30000);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(done.runs, 1);
    assert_int_equal(counters_of(f).unsent, 1); /* the letter */

    send_id(outbox, "m-2", NULL);
    semel_test_fault(f->base.seam, "handoff.committed", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, relay, 0, &last_error));
    pass_ms(f, 30000);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(done.runs, 2);
    assert_int_equal(counters_of(f).unsent, 2);
}

static void what_the_inbox_refuses_is_kept_as_its_dead_letter(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "events");
    semel_inbox *inbox = open_inbox(f, "projection", NULL);
    scripted_handler done = {0};
    semel_relay *relay = open_local_relay(f, outbox, inbox, &done, NULL);
    semel_message before = text_message("m-1", "other content");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &before, &done);
    send_id(outbox, "m-1", NULL);
    relay_once(relay);
    assert_int_equal(done.runs, 1);
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(count_letters(f), 1);
}

const store_test store_handoff_tests[] = {
    STORE_TEST_WITH(a_message_is_handed_over_once, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_the_inbox_knows_is_taken_out_without_running, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_its_handler_sends_goes_with_it, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_failed_hand_over_waits_and_holds_up_its_group_only, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_keeps_failing_is_a_dead_letter_of_the_inbox, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_has_no_key_and_keeps_failing_is_a_dead_letter_too, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_hand_over_that_never_ends_is_counted_until_it_is_dead, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_was_tried_too_often_and_handled_elsewhere_leaves_the_outbox,
                    IN_TRANSACTION_MODE),
    STORE_TEST_WITH(a_hand_over_that_the_store_fails_is_done_again, IN_TRANSACTION_MODE),
    STORE_TEST_WITH(what_the_inbox_refuses_is_kept_as_its_dead_letter, IN_TRANSACTION_MODE),
    {NULL, NULL, 0}};
