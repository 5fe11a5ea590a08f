/* Many messages in one transaction; in claim mode one by one, with the same outcomes. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

enum { BATCH_ROOM = 16 };

/* The ids, separated by spaces, become messages with one body. An id that ends in ' has another
 * one. */
typedef struct message_list {
    char text[128];
    semel_message messages[BATCH_ROOM];
    const semel_message *pointers[BATCH_ROOM];
    size_t count;
} message_list;

static void list_messages(message_list *out, const char *ids)
{
    char *rest;
    (void)snprintf(out->text, sizeof out->text, "%s", ids);
    out->count = 0;
    for (char *id = strtok_r(out->text, " ", &rest); id; id = strtok_r(NULL, " ", &rest)) {
        char *quote = strchr(id, '\'');
        assert_true(out->count < BATCH_ROOM);
        if (quote)
            *quote = 0;
        out->messages[out->count] = text_message(id, quote ? "11 EUR" : "10 EUR");
        out->pointers[out->count] = &out->messages[out->count];
        out->count++;
    }
}

/* One letter per outcome, in the order of the messages. */
static void spell(char *text, const semel_outcome *outcomes, size_t count)
{
    static const char letters_of[] = {
        [SEMEL_UNDECIDED] = '?', [SEMEL_CLAIMED] = 'c',  [SEMEL_PROCESSED] = 'P',
        [SEMEL_DUPLICATE] = 'd', [SEMEL_REPLAYED] = 'r', [SEMEL_IN_PROGRESS] = 'i',
        [SEMEL_MISMATCH] = 'm',  [SEMEL_STALE] = 's',    [SEMEL_MISSING_KEY] = 'k',
        [SEMEL_FAILED] = 'F',    [SEMEL_DEAD] = 'D'};
    for (size_t i = 0; i < count; i++)
        text[i] = letters_of[outcomes[i]];
    text[count] = 0;
}

static void check_batch(const char *expected, semel_inbox *inbox, const char *ids,
                        scripted_handler *context, const char *file, int line)
{
    message_list batch;
    semel_outcome outcomes[BATCH_ROOM];
    char found[BATCH_ROOM + 1];
    list_messages(&batch, ids);
    check_forget();
    semel_status status = semel_inbox_receive_batch(outcomes, inbox, batch.pointers, batch.count,
                                                    scripted_handler_run, context, &last_error);
    spell(found, outcomes, batch.count);
    check_status(SEMEL_OK, status, "semel_inbox_receive_batch", file, line);
    if (strcmp(found, expected) != 0) {
        print_error("\"%s\" came to %s, not %s\n", ids, found, expected);
        _fail(file, line);
    }
}
#define BATCH(expected, inbox, ids, work) \
    check_batch((expected), (inbox), (ids), (work), __FILE__, __LINE__)

static void a_batch_of_new_messages_is_handled_in_order(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    BATCH("PPPPP", inbox, "d a c e b", &done);
    assert_string_equal(done.ids, "d a c e b ");
    BATCH("ddddd", inbox, "a b c d e", &done);
    assert_int_equal(done.runs, 5);
    assert_int_equal(counters_of(f).processed, 5);
    assert_int_equal(counters_of(f).duplicates, 5);
}

static void a_batch_of_nothing_is_fine(void **state)
{
    store_fixture *f = *state;
    scripted_handler done = {0};
    BATCH("", open_inbox(f, "orders", NULL), "", &done);
    assert_int_equal(done.runs, 0);
}

static void a_batch_may_mix_new_and_known(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0}, hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "b", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "d", &hopeless);
    BATCH("PdPDm", inbox, "a b c d b'", &done);
    assert_string_equal(done.ids, "b a c ");
}

/* P14: one batch, one message twice. The second sees what a later copy would. */
static void a_message_twice_in_a_batch_is_handled_once(void **state)
{
    store_fixture *f = *state;
    scripted_handler done = {0};
    BATCH("PPddPm", open_inbox(f, "orders", NULL), "a b a b c a'", &done);
    assert_string_equal(done.ids, "a b c ");
}

/* P3: its copy must not be acknowledged either, or the message is lost. In claim mode the copy is
 * one more attempt. */
static void a_copy_of_what_failed_in_a_batch_failed_too(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler failing = {.failures = 9};
    BATCH("FF", inbox, "a a", &failing);
    assert_int_equal(failing.runs, f->mode == SEMEL_CLAIM ? 2 : 1);
    failing.failures = 0;
    BATCH("Pd", inbox, "a a", &failing);
}

static void a_copy_of_what_was_given_up_in_a_batch_is_dead_too(void **state)
{
    store_fixture *f = *state;
    scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    BATCH("DD", open_inbox(f, "orders", NULL), "a a", &hopeless);
    assert_int_equal(hopeless.runs, 1);
    assert_int_equal(count_letters(f), 1);
}

/* P9: one that fails fails alone. */
static void a_failure_in_a_batch_fails_one_message(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid");
    scripted_handler failing = {
        .failures = 9, .only = "b", .outbox = open_outbox(f, "mail"), .sends = &mail};
    BATCH("PFP", inbox, "a b c", &failing);
    assert_string_equal(last_error.text, "out of paper");
    assert_int_equal(counters_of(f).unsent, 2);
    failing.failures = 0;
    BATCH("dPd", inbox, "a b c", &failing);
    assert_int_equal(failing.attempt, 2);
    assert_int_equal(counters_of(f).unsent, 3);
    assert_int_equal(counters_of(f).captured, 3);
}

static void a_batch_of_failures_leaves_nothing_but_their_count(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 3};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    scripted_handler failing = {.failures = 99};
    BATCH("FFF", inbox, "a b c", &failing);
    BATCH("FFF", inbox, "a b c", &failing);
    assert_int_equal(failing.attempt, 2);
    BATCH("DDD", inbox, "a b c", &failing);
    assert_int_equal(count_letters(f), 3);
    BATCH("DDD", inbox, "a b c", &failing);
    assert_int_equal(failing.runs, 9);
    assert_int_equal(count_letters(f), 3);
}

static void giving_up_in_a_batch_makes_one_dead_letter(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP, .only = "b"};
    BATCH("PDP", inbox, "a b c", &hopeless);
    assert_int_equal(count_letters(f), 1);
    BATCH("dDd", inbox, "a b c", &hopeless);
    assert_int_equal(hopeless.runs, 3);
}

static void each_result_of_a_batch_stays_with_its_key(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    scripted_handler failing = {.failures = 1, .only = "b", .result = "receipt"}, plain = {0};
    BATCH("PFP", inbox, "a b c", &failing);
    BATCH("P", inbox, "b", &plain);
    RECEIVES_ID(SEMEL_OK, SEMEL_REPLAYED, inbox, "a", &plain);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "b", &plain);
    RECEIVES_ID(SEMEL_OK, SEMEL_REPLAYED, inbox, "c", &plain);
}

/* A copy that comes with its first one, and one that comes later. */
static void a_copy_in_a_batch_is_replayed_as_a_single_one_is(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    scripted_handler answers = {.result = "receipt"}, plain = {0};
    BATCH("PPr", inbox, "a b a", &answers);
    BATCH("Pd", inbox, "c c", &plain);
    BATCH("rrdPm", inbox, "a b c d a'", &plain);
    assert_int_equal(counters_of(f).replayed, 3);
    assert_int_equal(counters_of(f).duplicates, 2);
}

/* Those before it are done; it, its copy and, where each has its own unit, those behind it are
 * not. */
static void a_handler_that_stops_leaves_its_message_out_of_the_batch(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid"), stopped = text_message("b", "10 EUR");
    scripted_handler stops = {.failures = 1, .only = "b", .failure = SEMEL_ESTOPPED};
    message_list batch;
    semel_outcome outcomes[4];
    char found[5];
    if (store_has(f, LACKS_OUTBOX)) {
        stops.outbox = open_outbox(f, "mail");
        stops.sends = &mail;
    }
    list_messages(&batch, "a b b c");
    FAILS(SEMEL_ESTOPPED, semel_inbox_receive_batch(outcomes, inbox, batch.pointers, 4,
                                                    scripted_handler_run, &stops, &last_error));
    spell(found, outcomes, 4);
    int together = f->mode != SEMEL_CLAIM && store_has(f, LACKS_SAVEPOINTS);
    assert_string_equal(found, together ? "P??P" : "P???");
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &stopped, &last_error));
    BATCH(together ? "dPdd" : "dPdP", inbox, "a b b c", &stops);
    assert_int_equal(counters_of(f).failed, 0);
    if (stops.outbox)
        assert_int_equal(counters_of(f).unsent, 3);
}

static void a_message_without_a_key_does_not_spoil_the_batch(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message messages[3] = {text_message("a", "1"), text_message("", "2"),
                                 text_message("c", "3")};
    const semel_message *pointers[3] = {&messages[0], &messages[1], &messages[2]};
    semel_outcome outcomes[3];
    scripted_handler done = {0};
    OK(semel_inbox_receive_batch(outcomes, inbox, pointers, 3, scripted_handler_run, &done,
                                 &last_error));
    assert_int_equal(outcomes[0], SEMEL_PROCESSED);
    assert_int_equal(outcomes[1], SEMEL_MISSING_KEY);
    assert_int_equal(outcomes[2], SEMEL_PROCESSED);
    assert_int_equal(last_error.status, SEMEL_EREJECTED);
}

/* A failure of the store, not of a handler: nothing was processed, all of it may come again. */
static void a_batch_that_the_store_fails_is_undecided(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid");
    scripted_handler done = {.outbox = open_outbox(f, "mail"), .sends = &mail};
    message_list batch;
    semel_outcome outcomes[3] = {SEMEL_PROCESSED, SEMEL_PROCESSED, SEMEL_PROCESSED};
    list_messages(&batch, "a b c");
    semel_test_fault(f->base.seam, "batch.marked", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_inbox_receive_batch(outcomes, inbox, batch.pointers, 3,
                                                  scripted_handler_run, &done, &last_error));
    for (int i = 0; i < 3; i++)
        assert_int_equal(outcomes[i], SEMEL_UNDECIDED);
    assert_int_equal(counters_of(f).unsent, 0);
    BATCH("PPP", inbox, "a b c", &done);
    assert_int_equal(counters_of(f).unsent, 3);
}

/* A deadlock is no failure of a message: the transaction is begun anew, and nothing of the first
 * try is left. */
static void a_batch_in_a_conflict_is_begun_anew(void **state)
{
    static const char *const points[] = {"batch.marked", "batch.handled"};
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message mail = text_message("", "paid");
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        scripted_handler done = {.outbox = open_outbox(f, "mail"), .sends = &mail};
        semel_test_fault(f->base.seam, points[i], 1, SEMEL_ECONFLICT);
        BATCH("PPP", inbox, i ? "d e f" : "a b c", &done);
        assert_int_equal(done.attempt, 1);
        assert_int_equal(done.runs, 3 + i); /* what had run before the conflict runs again */
        assert_int_equal(counters_of(f).unsent, 3 * (i + 1));
    }
}

enum { THOUSAND = 1000 };

static void receive_thousand(semel_inbox *inbox, scripted_handler *context, semel_outcome *outcomes,
                             int backwards)
{
    static char ids[THOUSAND][8];
    static semel_message messages[THOUSAND];
    static const semel_message *pointers[THOUSAND];
    for (int i = 0; i < THOUSAND; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%d", backwards ? THOUSAND - 1 - i : i);
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    OK(semel_inbox_receive_batch(outcomes, inbox, pointers, THOUSAND, scripted_handler_run, context,
                                 &last_error));
}

static void a_thousand_messages_are_one_batch(void **state)
{
    static semel_outcome outcomes[THOUSAND];
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    receive_thousand(inbox, &done, outcomes, 0);
    for (int i = 0; i < THOUSAND; i++)
        assert_int_equal(outcomes[i], SEMEL_PROCESSED);
    receive_thousand(inbox, &done, outcomes, 1);
    for (int i = 0; i < THOUSAND; i++)
        assert_int_equal(outcomes[i], SEMEL_DUPLICATE);
    assert_int_equal(done.runs, THOUSAND);
}

static void a_batch_over_the_limit_is_refused(void **state)
{
    static semel_outcome outcomes[SEMEL_BATCH_MAX + 1];
    static const semel_message *pointers[SEMEL_BATCH_MAX + 1];
    store_fixture *f = *state;
    scripted_handler done = {0};
    FAILS(SEMEL_ELIMIT,
          semel_inbox_receive_batch(outcomes, open_inbox(f, "orders", NULL), pointers,
                                    SEMEL_BATCH_MAX + 1, scripted_handler_run, &done, &last_error));
    assert_int_equal(done.runs, 0);
}

const store_test store_batch_tests[] = {
    STORE_TEST(a_batch_of_new_messages_is_handled_in_order),
    STORE_TEST(a_batch_of_nothing_is_fine),
    STORE_TEST_WITH(a_batch_may_mix_new_and_known, NEEDS_DEAD),
    STORE_TEST(a_message_twice_in_a_batch_is_handled_once),
    STORE_TEST(a_copy_of_what_failed_in_a_batch_failed_too),
    STORE_TEST_WITH(a_copy_of_what_was_given_up_in_a_batch_is_dead_too, NEEDS_DEAD),
    STORE_TEST_WITH(a_failure_in_a_batch_fails_one_message, NEEDS_OUTBOX),
    STORE_TEST_WITH(a_batch_of_failures_leaves_nothing_but_their_count, NEEDS_DEAD),
    STORE_TEST_WITH(giving_up_in_a_batch_makes_one_dead_letter, NEEDS_DEAD),
    STORE_TEST_WITH(each_result_of_a_batch_stays_with_its_key, NEEDS_RESULTS),
    STORE_TEST_WITH(a_copy_in_a_batch_is_replayed_as_a_single_one_is, NEEDS_RESULTS),
    STORE_TEST(a_handler_that_stops_leaves_its_message_out_of_the_batch),
    STORE_TEST(a_message_without_a_key_does_not_spoil_the_batch),
    STORE_TEST_WITH(a_batch_that_the_store_fails_is_undecided,
                    IN_TRANSACTION_MODE | NEEDS_OUTBOX | NEEDS_SAVEPOINTS),
    STORE_TEST_WITH(a_batch_in_a_conflict_is_begun_anew,
                    IN_TRANSACTION_MODE | NEEDS_OUTBOX | NEEDS_SAVEPOINTS),
    STORE_TEST(a_thousand_messages_are_one_batch),
    STORE_TEST(a_batch_over_the_limit_is_refused),
    {NULL, NULL, 0}};
