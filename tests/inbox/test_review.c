/* What a reviewer with fresh eyes found, one test each: schedules that broke a promise once. */
#include "support/fake/spy.h"

#include <semel/sys/transport.h>

#include <semel/sqlite.h>
#include <stdio.h>

static void send(semel_outbox *outbox, const char *id, const char *group, const char *topic)
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

/* A broker that promises order refuses the rest of a group with its first: the rest waits, too. */
static void the_rest_of_a_refused_group_waits_for_its_first(void **state)
{
    fixture *f = *state;
    semel_transport *full = fixture_queue(f, "memory:?messages_max=2");
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, full, NULL);
    static const char *const ids[] = {"1", "2", "3", "4", "5", "6"};
    char arrived[32] = "";
    for (size_t i = 0; i < 6; i++)
        send(outbox, ids[i], "g", NULL);
    for (int turn = 0; turn < 40 && strlen(arrived) < 6; turn++) {
        semel_delivery delivery;
        size_t got = 0;
        (void)step(relay);
        OK(semel_transport_receive(full, &delivery, 1, &got, 0, &last_error));
        if (got) {
            strncat(arrived, delivery.message->id.data, 1);
            semel_settle ack = {.tag = delivery.tag, .verdict = SEMEL_SETTLE_ACK};
            OK(semel_transport_settle(full, &ack, 1, &last_error));
        }
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_string_equal(arrived, "123456");
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

static void two_messages_with_one_id_are_two_dead_letters(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    send(outbox, "same", NULL, "a");
    send(outbox, "same", NULL, "b");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 2);
    assert_int_equal(step(relay), 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 2);
}

/* Counting a redelivery, and claiming, end the transaction: what was done in it must not vanish silently. */
static void work_before_the_claim_is_refused(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message("e", "a");
    semel_outcome outcome;
    semel_unit *unit;
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    message.delivery = 2;
    EACH_MODE(inbox, inboxes)
    {
        OK(semel_unit_begin(&unit, f->store, &last_error));
        OK(semel_unit_send(unit, outbox, &event, &last_error));
        FAILS(SEMEL_EMISUSE, semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
        semel_unit_rollback(unit);
    }
    assert_int_equal(fixture_counters(f).unsent, 0);
}

/* --- attempts that were nobody's fault ------------------------------------------------------------ */

static void a_store_in_trouble_uses_up_no_attempts(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {0};
    for (uint32_t delivery = 2; delivery < 10; delivery++) {
        message.delivery = delivery;
        semel_test_fault(f->seam, "receive.begun", 1, SEMEL_EBUSY);
        RECEIVES(SEMEL_EBUSY, SEMEL_UNDECIDED, inbox, &message, &todo);
    }
    semel_test_fault(f->seam, NULL, 0, SEMEL_OK);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
}

static void a_conflict_uses_up_no_attempts(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    scripted_handler todo = {.failures = 5, .failure = SEMEL_ECONFLICT};
    message.delivery = 2;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.runs, 6);
    assert_int_equal(todo.attempt, 2);
}

static void a_claim_that_is_rolled_back_uses_up_no_attempt(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a");
    for (int i = 0; i < 10; i++) {
        semel_outcome outcome;
        semel_unit *unit;
        OK(semel_unit_begin(&unit, f->store, &last_error));
        OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
        OUTCOME(SEMEL_CLAIMED, outcome);
        assert_int_equal(semel_unit_attempt(unit), 1);
        semel_unit_rollback(unit);
    }
}

static void a_hand_off_in_trouble_uses_up_no_attempts(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler todo = {0};
    semel_relay *relay = fixture_local_relay(f, outbox, inbox, scripted_handler_run, &todo, NULL);
    size_t sent;
    send(outbox, "1", NULL, NULL);
    send(outbox, "2", NULL, NULL);
    for (int i = 0; i < 20; i++) {
        semel_test_fault(f->seam, "handoff.marked", 1, SEMEL_EUNAVAILABLE);
        FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    }
    semel_test_fault(f->seam, NULL, 0, SEMEL_OK);
    assert_int_equal(fixture_drain(relay), 2);
    assert_int_equal(todo.runs, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* --- who comes when ------------------------------------------------------------------------------- */

static void two_outboxes_do_not_take_each_others_turns(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outboxes[] = {fixture_outbox(f, "one"), fixture_outbox(f, "two")};
    semel_relay_options options = {.size = sizeof options, .batch = 1};
    semel_relay *relays[] = {fixture_relay(f, outboxes[0], recorder, &options),
                             fixture_relay(f, outboxes[1], recorder, &options)};
    char id[24];
    send(outboxes[0], "last", "z", NULL);
    for (int round = 0; round < 20; round++) {
        (void)snprintf(id, sizeof id, "a%d", round);
        for (int i = 0; i < 2; i++) {
            send(outboxes[i], id, "a", NULL);
            (void)step(relays[i]);
        }
    }
    char recorded[1024];
    assert_non_null(strstr(fixture_recorded(recorded, sizeof recorded, recorder), "last "));
}

static void a_single_place_goes_to_groups_and_others_in_turn(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .batch = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    char id[24], recorded[1024];
    send(outbox, "alone", NULL, NULL);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "g%d", i);
        send(outbox, id, "g", NULL);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(relay), 1);
    assert_non_null(strstr(fixture_recorded(recorded, sizeof recorded, recorder), "alone "));
}

/* --- letters, routes, SQLite ----------------------------------------------------------------------- */

static void a_refused_letter_that_fails_again_is_still_one(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    scripted_handler todo = {.failures = 1};
    semel_route route = {"*", fixture_inbox(f, "inbox", &options), scripted_handler_run, &todo};
    semel_consumer *consumer = fixture_consumer(f, queue, &route, 1, NULL);
    semel_message stale = text_message("1", "a");
    const semel_message *batch[] = {&stale};
    semel_publish_result result;
    semel_outcome outcome;
    size_t settled;
    stale.time_ms = 1000;
    OK(semel_transport_publish(&result, queue, batch, 1, 0, &last_error));
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    int64_t id = fixture_only_letter(f).id;
    FAILS(SEMEL_EHANDLER, semel_consumer_replay(&outcome, consumer, id, &last_error));
    id = fixture_only_letter(f).id;
    OK(semel_consumer_replay(&outcome, consumer, id, &last_error));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void routes_with_one_inbox_and_two_contexts_are_refused(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler one = {0}, two = {0};
    semel_route routes[] = {{"*", inbox, scripted_handler_run, &one},
                            {"*", inbox, scripted_handler_run, &two}};
    semel_consumer *consumer;
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, fixture_queue(f, "memory:"), routes, 2, NULL,
                                            &last_error));
}

static void one_connection_is_joined_by_one_unit_at_a_time(void **state)
{
    fixture *f = *state;
    semel_unit *first, *second;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(strchr(f->url, ':') + 1, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    OK(semel_unit_join_sqlite(&first, f->store, db, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_join_sqlite(&second, f->store, db, &last_error));
    OK(semel_unit_commit(first, &last_error));
    OK(semel_unit_join_sqlite(&second, f->store, db, &last_error));
    semel_unit_rollback(second);
    sqlite3_close(db);
}

static semel_status leave_insert_open(semel_unit *unit, const semel_message *message, void *context,
                                      semel_error *err)
{
    sqlite3_stmt **stmt = context;
    (void)message, (void)err;
    sqlite3_exec(semel_unit_sqlite(unit), "CREATE TABLE t (a)", NULL, NULL, NULL);
    sqlite3_prepare_v2(semel_unit_sqlite(unit), "INSERT INTO t VALUES (1), (2) RETURNING a", -1,
                       stmt, NULL);
    return sqlite3_step(*stmt) == SQLITE_ROW ? SEMEL_OK : SEMEL_EHANDLER;
}

static void a_handler_may_leave_an_insert_unfinished(void **state)
{
    fixture *f = *state;
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    sqlite3_stmt *stmt = NULL;
    OK(semel_inbox_receive(&outcome, fixture_inbox(f, "inbox", NULL), &message, leave_insert_open,
                           &stmt, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    sqlite3_finalize(stmt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("the rest of a refused group waits for its first",
                the_rest_of_a_refused_group_waits_for_its_first),
        ON_BOTH("a batch does not swallow other content behind a dead message",
                a_batch_does_not_swallow_other_content_behind_a_dead_message),
        ON_BOTH("two messages with one id are two dead letters",
                two_messages_with_one_id_are_two_dead_letters),
        ON_BOTH("work before the claim is refused", work_before_the_claim_is_refused),
        ON_BOTH("a store in trouble uses up no attempts", a_store_in_trouble_uses_up_no_attempts),
        ON_BOTH("a conflict uses up no attempts", a_conflict_uses_up_no_attempts),
        ON_BOTH("a claim that is rolled back uses up no attempt",
                a_claim_that_is_rolled_back_uses_up_no_attempt),
        ON_BOTH("a hand-off in trouble uses up no attempts",
                a_hand_off_in_trouble_uses_up_no_attempts),
        ON_BOTH("two outboxes do not take each other's turns",
                two_outboxes_do_not_take_each_others_turns),
        ON_BOTH("a single place goes to groups and others in turn",
                a_single_place_goes_to_groups_and_others_in_turn),
        ON_BOTH("a refused letter that fails again is still one",
                a_refused_letter_that_fails_again_is_still_one),
        ON_BOTH("routes with one inbox and two contexts are refused",
                routes_with_one_inbox_and_two_contexts_are_refused),
        ON_SQLITE("one connection is joined by one unit at a time",
                  one_connection_is_joined_by_one_unit_at_a_time),
        ON_SQLITE("a handler may leave an insert unfinished",
                  a_handler_may_leave_an_insert_unfinished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
