/* Many messages in one transaction: the order of the handlers, the outcomes by index, and that one
 * message's failure is its own; and the failures that concern all messages. */
#include "support/fixture/fixture.h"

#include <semel/sqlite.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 8 };

/* A batch of messages with these ids, in the order given. */
typedef struct batch {
    semel_message messages[BATCH];
    const semel_message *all[BATCH];
    semel_outcome out[BATCH];
    size_t count;
} batch;

static batch batch_of(const char *const ids[], size_t count)
{
    batch b = {.count = count};
    for (size_t i = 0; i < count; i++) {
        b.messages[i] = text_message(ids[i], "a");
        b.out[i] = SEMEL_CLAIMED; /* must be overwritten */
    }
    return b;
}

static semel_status receive_by(semel_handler *handler, void *context, batch *b, semel_inbox *inbox)
{
    for (size_t i = 0; i < b->count; i++)
        b->all[i] = &b->messages[i];
    return semel_inbox_receive_batch(b->out, inbox, b->all, b->count, handler, context,
                                     &last_error);
}

static semel_status receive(batch *b, semel_inbox *inbox, scripted_handler *todo)
{
    return receive_by(scripted_handler_run, todo, b, inbox);
}

static void assert_all(const batch *b, semel_outcome outcome)
{
    for (size_t i = 0; i < b->count; i++)
        OUTCOME(outcome, b->out[i]);
}

/* --- order and outcomes ----------------------------------------------------------------------- */

static void handlers_run_in_the_order_given(void **state)
{
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        batch b = batch_of((const char *const[]){"c", "a", "d", "b"}, 4);
        scripted_handler todo = {0};
        OK(receive(&b, inbox, &todo));
        assert_all(&b, SEMEL_PROCESSED);
        assert_string_equal(todo.ids, "c a d b ");
        OK(receive(&b, inbox, &todo));
        assert_all(&b, SEMEL_DUPLICATE);
        assert_int_equal(todo.runs, 4);
    }
    assert_int_equal(fixture_counters(*state).processed, 8);
    assert_int_equal(fixture_counters(*state).duplicates, 8);
}

static void each_message_has_the_outcome_at_its_index(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message known = text_message("known", "a"), dead = text_message("dead", "a");
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP, .only = "dead"};
    fixture_forget(f, inbox, SEMEL_RETENTION_DEFAULT_MS);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &known, &todo);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &dead, &todo);
    batch b = batch_of(
        (const char *const[]){"new", "known", "known", "", "bad", "dead", "old", "new"}, 8);
    b.messages[2].body = semel_str("other content");
    b.messages[6].time_ms = 1;
    todo = (scripted_handler){.failures = 1, .only = "bad"};
    OK(receive(&b, inbox, &todo));
    OUTCOME(SEMEL_PROCESSED, b.out[0]);
    OUTCOME(SEMEL_DUPLICATE, b.out[1]);
    OUTCOME(SEMEL_MISMATCH, b.out[2]);
    OUTCOME(SEMEL_MISSING_KEY, b.out[3]);
    OUTCOME(SEMEL_FAILED, b.out[4]);
    OUTCOME(SEMEL_DEAD, b.out[5]);
    OUTCOME(SEMEL_STALE, b.out[6]);
    OUTCOME(SEMEL_DUPLICATE, b.out[7]); /* of the first one in this batch */
    assert_string_equal(todo.ids, "new bad ");
}

static void a_message_twice_in_a_batch_is_handled_once(void **state)
{
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        batch b = batch_of((const char *const[]){"2", "1", "1", "1", "2"}, 5);
        scripted_handler todo = {0};
        b.messages[3].body = semel_str("other content");
        OK(receive(&b, inbox, &todo));
        OUTCOME(SEMEL_PROCESSED, b.out[0]);
        OUTCOME(SEMEL_PROCESSED, b.out[1]);
        OUTCOME(SEMEL_DUPLICATE, b.out[2]);
        OUTCOME(SEMEL_MISMATCH, b.out[3]);
        OUTCOME(SEMEL_DUPLICATE, b.out[4]);
        assert_string_equal(todo.ids, "2 1 ");
    }
}

static void a_rejected_duplicate_is_no_failure_of_the_batch(void **state)
{
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REJECT};
    semel_inbox *inbox = fixture_inbox(*state, "inbox", &options);
    batch b = batch_of((const char *const[]){"1", "1"}, 2);
    OK(receive(&b, inbox, &(scripted_handler){0}));
    OUTCOME(SEMEL_PROCESSED, b.out[0]);
    OUTCOME(SEMEL_DUPLICATE, b.out[1]);
}

static semel_status give_id_as_result(semel_unit *unit, const semel_message *message, void *context,
                                      semel_error *err)
{
    (void)context;
    BYTES_EQUAL(message->id, semel_unit_key(unit));
    assert_int_equal(semel_unit_attempt(unit), 1);
    return semel_unit_set_result(unit, message->id.data, message->id.len, err);
}

static void each_message_has_its_own_key_and_result(void **state)
{
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = fixture_inbox(*state, "inbox", &options);
    batch b = batch_of((const char *const[]){"three", "one", "two"}, 3);
    OK(receive_by(give_id_as_result, NULL, &b, inbox));
    for (size_t i = 0; i < 3; i++) {
        semel_result *result;
        semel_outcome outcome;
        OK(semel_inbox_receive_result(&outcome, &result, inbox, b.all[i], scripted_handler_run,
                                      NULL, &last_error));
        OUTCOME(SEMEL_REPLAYED, outcome);
        BYTES_EQUAL(b.messages[i].id, semel_result_bytes(result));
        semel_result_free(result);
    }
}

static void a_key_in_use_elsewhere_holds_up_its_own_message_only(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    batch b = batch_of((const char *const[]){"1", "busy", "2"}, 3);
    semel_unit *unit;
    semel_outcome outcome;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &b.messages[1], &last_error));
    OK(receive(&b, inbox, &(scripted_handler){0}));
    OUTCOME(SEMEL_PROCESSED, b.out[0]);
    OUTCOME(SEMEL_IN_PROGRESS, b.out[1]);
    OUTCOME(SEMEL_PROCESSED, b.out[2]);
    semel_unit_rollback(unit);
}

static void a_batch_has_limits(void **state)
{
    semel_inbox *inbox = fixture_inbox(*state, "inbox", NULL);
    batch b = batch_of((const char *const[]){"1"}, 1);
    scripted_handler todo = {0};
    OK(semel_inbox_receive_batch(NULL, inbox, NULL, 0, scripted_handler_run, &todo, &last_error));
    FAILS(SEMEL_ELIMIT, semel_inbox_receive_batch(b.out, inbox, b.all, SEMEL_BATCH_MAX + 1,
                                                  scripted_handler_run, &todo, &last_error));
    OUTCOME(SEMEL_CLAIMED, b.out[0]); /* not even looked at */
    assert_int_equal(todo.runs, 0);
}

static void the_largest_batch_is_handled_whole(void **state)
{
    semel_inbox *inbox = fixture_inbox(*state, "inbox", NULL);
    semel_message *messages = calloc(SEMEL_BATCH_MAX, sizeof *messages);
    const semel_message **all = calloc(SEMEL_BATCH_MAX, sizeof(semel_message *));
    semel_outcome *out = calloc(SEMEL_BATCH_MAX, sizeof *out);
    char(*ids)[8] = calloc(SEMEL_BATCH_MAX, sizeof *ids);
    assert_true(messages && all && out && ids);
    for (size_t i = 0; i < SEMEL_BATCH_MAX; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%05u", (unsigned)(i * 7919 % SEMEL_BATCH_MAX));
        messages[i] = text_message(ids[i], "a");
        all[i] = &messages[i];
    }
    for (int round = 0; round < 2; round++) {
        scripted_handler todo = {0};
        OK(semel_inbox_receive_batch(out, inbox, all, SEMEL_BATCH_MAX, scripted_handler_run, &todo,
                                     &last_error));
        assert_int_equal(todo.runs, round ? 0 : SEMEL_BATCH_MAX);
        for (size_t i = 0; i < SEMEL_BATCH_MAX; i++)
            OUTCOME(round ? SEMEL_DUPLICATE : SEMEL_PROCESSED, out[i]);
    }
    free(messages);
    free(all);
    free(out);
    free(ids);
}

/* --- one message's trouble -------------------------------------------------------------------- */

static void a_redelivery_is_handled_alone_and_first(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    batch b = batch_of((const char *const[]){"1", "2", "again", "3"}, 4);
    scripted_handler todo = {0};
    b.messages[0].delivery = b.messages[1].delivery = b.messages[3].delivery = 1;
    b.messages[2].delivery = 2;
    OK(receive(&b, inbox, &todo));
    assert_all(&b, SEMEL_PROCESSED);
    assert_string_equal(todo.ids, "again 1 2 3 ");
    assert_int_equal(semel_test_passed(f->seam, "count.committed"), 1);
    assert_int_equal(semel_test_passed(f->seam, "receive.committed"), 1);
    assert_int_equal(semel_test_passed(f->seam, "batch.committed"), 1);
}

static void a_failure_is_undone_and_counted_for_its_own_message(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message event = text_message(NULL, "event");
    fixture_both_modes(inboxes, f, (semel_inbox_options){.attempts_max = 3});
    for (size_t mode = 0; mode < 2; mode++) {
        batch b = batch_of((const char *const[]){"1", "bad", "2"}, 3);
        uint64_t before = fixture_counters(f).unsent;
        scripted_handler todo = {.failures = 2, .only = "bad", .outbox = outbox, .sends = &event};
        OK(receive(&b, inboxes[mode], &todo));
        OUTCOME(SEMEL_PROCESSED, b.out[0]);
        OUTCOME(SEMEL_FAILED, b.out[1]);
        OUTCOME(SEMEL_PROCESSED, b.out[2]);
        assert_int_equal(last_error.status, SEMEL_EHANDLER); /* the first one's that failed */
        SAYS("out of paper");
        assert_int_equal(fixture_counters(f).unsent, before + 2);
        OK(receive(&b, inboxes[mode], &todo));
        OUTCOME(SEMEL_DUPLICATE, b.out[0]);
        OUTCOME(SEMEL_FAILED, b.out[1]);
        OUTCOME(SEMEL_DUPLICATE, b.out[2]);
        OK(receive(&b, inboxes[mode], &todo));
        OUTCOME(SEMEL_PROCESSED, b.out[1]);
        assert_int_equal(todo.attempt, 3);
        assert_int_equal(fixture_counters(f).unsent, before + 3);
        assert_int_equal(fixture_counters(f).captured, before + 3);
    }
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void poison_becomes_one_dead_letter_and_harms_no_neighbour(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 3};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    scripted_handler todo = {.failures = 100, .only = "poison"};
    for (int round = 0; round < 5; round++) {
        char one[16], two[16];
        (void)snprintf(one, sizeof one, "%da", round);
        (void)snprintf(two, sizeof two, "%db", round);
        batch b = batch_of((const char *const[]){one, "poison", two}, 3);
        OK(receive(&b, inbox, &todo));
        OUTCOME(SEMEL_PROCESSED, b.out[0]);
        OUTCOME(round < 2 ? SEMEL_FAILED : SEMEL_DEAD, b.out[1]);
        OUTCOME(SEMEL_PROCESSED, b.out[2]);
    }
    assert_int_equal(todo.runs, 13);
    letter one = fixture_only_letter(f);
    assert_string_equal(one.message_id, "poison");
    assert_int_equal(one.attempts, 3);
}

static void giving_up_in_a_batch_announces_with_it(void **state)
{
    fixture *f = *state;
    semel_outbox *faults = fixture_outbox(f, "faults");
    semel_inbox_options options = {.size = sizeof options, .faults = faults};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    batch b = batch_of((const char *const[]){"1", "bad", "bad"}, 3);
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP, .only = "bad"};
    OK(receive(&b, inbox, &todo));
    OUTCOME(SEMEL_PROCESSED, b.out[0]);
    OUTCOME(SEMEL_DEAD, b.out[1]);
    OUTCOME(SEMEL_DEAD, b.out[2]);
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
    assert_int_equal(fixture_counters(f).unsent, 1);
}

/* --- failures that concern all ---------------------------------------------------------------- */

/* Nothing of the batch has happened, and the next try finds it as new. */
static void assert_nothing_happened(fixture *f, batch *b, semel_inbox *inbox, semel_outbox *outbox)
{
    semel_message event = text_message(NULL, "event");
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    assert_all(b, SEMEL_UNDECIDED);
    assert_int_equal(fixture_counters(f).unsent, 0);
    assert_int_equal(fixture_counters(f).processed, 0);
    OK(receive(b, inbox, &todo));
    assert_all(b, SEMEL_PROCESSED);
    assert_int_equal(todo.runs, b->count);
    assert_int_equal(todo.attempt, 1);
    assert_int_equal(fixture_counters(f).unsent, b->count);
}

static void when_the_store_fails_nothing_has_happened(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "out");
    batch b = batch_of((const char *const[]){"3", "1", "2"}, 3);
    scripted_handler todo = {0};
    semel_test_fault(f->seam, "batch.marked", 1, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, receive(&b, inbox, &todo));
    assert_int_equal(todo.runs, 0);
    assert_nothing_happened(f, &b, inbox, outbox);
}

/* A fault behind one handler is that message's failure: it is undone to its savepoint. */
static void a_fault_behind_one_handler_fails_one_message(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message event = text_message(NULL, "event");
    scripted_handler todo = {.outbox = fixture_outbox(f, "out"), .sends = &event};
    batch b = batch_of((const char *const[]){"1", "2", "3"}, 3);
    semel_test_fault(f->seam, "batch.handled", 2, SEMEL_EUNAVAILABLE);
    OK(receive(&b, inbox, &todo));
    OUTCOME(SEMEL_PROCESSED, b.out[0]);
    OUTCOME(SEMEL_FAILED, b.out[1]);
    OUTCOME(SEMEL_PROCESSED, b.out[2]);
    assert_int_equal(fixture_counters(f).unsent, 2);
}

static void when_the_answer_of_the_commit_is_lost_asking_again_settles_it(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message event = text_message(NULL, "event");
    scripted_handler todo = {.outbox = fixture_outbox(f, "out"), .sends = &event};
    batch b = batch_of((const char *const[]){"1", "2", "3"}, 3);
    semel_test_fault(f->seam, "batch.committed", 1, SEMEL_EUNKNOWN);
    FAILS(SEMEL_EUNKNOWN, receive(&b, inbox, &todo));
    assert_all(&b, SEMEL_UNDECIDED);
    OK(receive(&b, inbox, &todo));
    assert_all(&b, SEMEL_DUPLICATE);
    assert_int_equal(todo.runs, 3);
    assert_int_equal(fixture_counters(f).unsent, 3);
}

/* A child without its parent, which SQLite notices at the commit and not before. */
static semel_status orphan(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    (void)message;
    (void)context;
    if (sqlite3_exec(semel_unit_sqlite(unit), "INSERT INTO child VALUES (7)", NULL, NULL, NULL))
        return semel_fail(err, SEMEL_EHANDLER, "%s", sqlite3_errmsg(semel_unit_sqlite(unit)));
    return SEMEL_OK;
}

static void make_family(fixture *f)
{
    semel_unit *unit;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    sqlite3 *db = semel_unit_sqlite(unit);
    assert_int_equal(sqlite3_exec(db,
                                  "CREATE TABLE parent (id INTEGER PRIMARY KEY);"
                                  "CREATE TABLE child (parent REFERENCES parent DEFERRABLE "
                                  "INITIALLY DEFERRED)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(sqlite3_exec(db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL), SQLITE_OK);
}

/* A constraint that was deferred: which message violates it shows when each is received by
 * itself. */
static void a_commit_that_is_refused_is_the_handlers_failure(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    batch b = batch_of((const char *const[]){"1", "2", "3"}, 3);
    make_family(f);
    OK(receive_by(orphan, NULL, &b, inbox));
    assert_all(&b, SEMEL_FAILED);
    assert_int_equal(fixture_counters(f).failed, 3);
    scripted_handler todo = {0};
    OK(receive(&b, inbox, &todo));
    assert_all(&b, SEMEL_PROCESSED);
    assert_int_equal(todo.attempt, 2);
}

static semel_status roll_back(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    (void)err;
    if (message->id.len == 1 && *(const char *)message->id.data == *(const char *)context)
        (void)sqlite3_exec(semel_unit_sqlite(unit), "ROLLBACK", NULL, NULL, NULL);
    return SEMEL_OK;
}

static void a_handler_that_ends_the_transaction_is_found_out(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    batch b = batch_of((const char *const[]){"1", "2", "3"}, 3);
    FAILS(SEMEL_EMISUSE, receive_by(roll_back, "2", &b, inbox));
    assert_all(&b, SEMEL_UNDECIDED);
}

/* Claim mode: the second handler outlives its lease. */
static semel_status outlive_lease(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    (void)unit, (void)err;
    if (memcmp(message->id.data, "2", 1) == 0)
        semel_test_advance_ms(context, 60000);
    return SEMEL_OK;
}

static void a_lost_lease_fails_its_own_message_only(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message one = text_message("1", "a"), two = text_message("2", "a"),
                  three = text_message("3", "a");
    const semel_message *messages[] = {&one, &two, &three};
    semel_outcome out[3];
    OK(semel_inbox_receive_batch(out, inbox, messages, 3, outlive_lease, f->seam, &last_error));
    OUTCOME(SEMEL_PROCESSED, out[0]);
    OUTCOME(SEMEL_FAILED, out[1]);
    OUTCOME(SEMEL_PROCESSED, out[2]);
    assert_int_equal(last_error.status, SEMEL_ELOST);
}

static void a_batch_does_not_swallow_other_content_behind_a_dead_message(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message one = text_message("k", "a"), two = text_message("k", "b");
    const semel_message *messages[] = {&one, &two};
    semel_outcome out[2];
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    OK(semel_inbox_receive_batch(out, inbox, messages, 2, scripted_handler_run, &todo,
                                 &last_error));
    OUTCOME(SEMEL_DEAD, out[0]);
    OUTCOME(SEMEL_MISMATCH, out[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a lost lease fails its own message only", a_lost_lease_fails_its_own_message_only),
        ON_BOTH("handlers run in the order given", handlers_run_in_the_order_given),
        ON_BOTH("each message has the outcome at its index",
                each_message_has_the_outcome_at_its_index),
        ON_BOTH("a message twice in a batch is handled once",
                a_message_twice_in_a_batch_is_handled_once),
        ON_BOTH("a rejected duplicate is no failure of the batch",
                a_rejected_duplicate_is_no_failure_of_the_batch),
        ON_BOTH("each message has its own key and result", each_message_has_its_own_key_and_result),
        ON_MEMORY("a key in use elsewhere holds up its own message only",
                  a_key_in_use_elsewhere_holds_up_its_own_message_only),
        ON_BOTH("a batch has limits", a_batch_has_limits),
        ON_BOTH("the largest batch is handled whole", the_largest_batch_is_handled_whole),
        ON_BOTH("a redelivery is handled alone and first", a_redelivery_is_handled_alone_and_first),
        ON_BOTH("a failure is undone and counted for its own message",
                a_failure_is_undone_and_counted_for_its_own_message),
        ON_BOTH("poison becomes one dead letter and harms no neighbour",
                poison_becomes_one_dead_letter_and_harms_no_neighbour),
        ON_BOTH("giving up in a batch announces with it", giving_up_in_a_batch_announces_with_it),
        ON_BOTH("when the store fails nothing has happened",
                when_the_store_fails_nothing_has_happened),
        ON_BOTH("a fault behind one handler fails one message",
                a_fault_behind_one_handler_fails_one_message),
        ON_BOTH("when the answer of the commit is lost, asking again settles it",
                when_the_answer_of_the_commit_is_lost_asking_again_settles_it),
        ON_SQLITE("a commit that is refused is the handlers failure",
                  a_commit_that_is_refused_is_the_handlers_failure),
        ON_SQLITE("a handler that ends the transaction is found out",
                  a_handler_that_ends_the_transaction_is_found_out),
        ON_BOTH("a batch does not swallow other content behind a dead message",
                a_batch_does_not_swallow_other_content_behind_a_dead_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
