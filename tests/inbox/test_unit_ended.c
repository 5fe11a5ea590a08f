/* Units that are used when they must not be: ended inside their handler, used after their end,
 * joined twice. Each is refused and changes nothing; above all, nothing of it leaves with another
 * transaction. And values without data. */
#include "support/fixture/fixture.h"

#include <semel/sqlite.h>

/* --- ended inside the handler ----------------------------------------------------------------- */

typedef enum ending { BY_COMMIT, BY_FAIL, BY_ROLLBACK, ENDINGS } ending;

typedef struct ender {
    ending how;
    semel_outbox *outbox;
    unsigned runs;
    semel_status refused; /* with what */
    semel_unit *unit;     /* kept for too long */
} ender;

static semel_status end_it(ender *self, semel_unit *unit)
{
    semel_outcome out = SEMEL_PROCESSED;
    semel_status status = SEMEL_EMISUSE;
    switch (self->how) {
    case BY_COMMIT:
        return semel_unit_commit(unit, NULL);
    case BY_FAIL:
        status = semel_unit_fail(&out, unit, NULL, NULL);
        assert_int_equal(out, SEMEL_UNDECIDED);
        return status;
    default:
        semel_unit_rollback(unit);
        return status; /* a rollback cannot say so */
    }
}

static semel_status end_inside(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    ender *self = context;
    semel_message mail = text_message("mail", "paid");
    (void)message;
    self->runs++;
    OK(semel_unit_send(unit, self->outbox, &mail, err));
    self->refused = end_it(self, unit);
    return SEMEL_OK;
}

static void a_handler_cannot_end_its_own_unit(void **state)
{
    static const char *const ids[ENDINGS] = {"commit", "fail", "rollback"};
    fixture *f = *state;
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, f, (semel_inbox_options){.size = sizeof(semel_inbox_options)});
    semel_outbox *outbox = fixture_outbox(f, "mail");
    EACH_MODE(inbox, inboxes)
    {
        for (int how = 0; how < ENDINGS; how++) {
            semel_message message = text_message(ids[how], "a");
            ender self = {.how = (ending)how, .outbox = outbox};
            semel_outcome out;
            FAILS(SEMEL_EMISUSE,
                  semel_inbox_receive(&out, inbox, &message, end_inside, &self, &last_error));
            OUTCOME(SEMEL_FAILED, out);
            SAYS("ended its own unit");
            assert_int_equal(self.refused, SEMEL_EMISUSE);
            assert_int_equal(fixture_counters(f).unsent, 0);
            scripted_handler fine = {0};
            RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &fine);
            assert_int_equal(fine.attempt, 2); /* it was a failure, and is counted */
        }
    }
}

static void it_becomes_a_dead_letter_in_the_end(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 2};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("m", "a");
    ender self = {.how = BY_ROLLBACK, .outbox = fixture_outbox(f, "mail")};
    semel_outcome out;
    FAILS(SEMEL_EMISUSE,
          semel_inbox_receive(&out, inbox, &message, end_inside, &self, &last_error));
    OK(semel_inbox_receive(&out, inbox, &message, end_inside, &self, &last_error));
    OUTCOME(SEMEL_DEAD, out);
    assert_int_equal(self.runs, 2);
}

static void nor_in_a_batch_or_in_a_hand_off(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "mail"), *source = fixture_outbox(f, "source");
    semel_message one = text_message("1", "a"), two = text_message("2", "a"), three = two;
    const semel_message *const both[] = {&one, &two};
    semel_outcome out[2];
    size_t sent;
    ender self = {.how = BY_COMMIT, .outbox = outbox};
    OK(semel_inbox_receive_batch(out, inbox, both, 2, end_inside, &self, &last_error));
    for (int i = 0; i < 2; i++)
        OUTCOME(SEMEL_FAILED, out[i]);
    three.id = semel_str("3");
    OK(semel_outbox_send(source, &three, &last_error));
    semel_relay *relay = fixture_local_relay(f, source, inbox, end_inside, &self, NULL);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(self.runs, 3);
    assert_int_equal(fixture_counters(f).unsent, 1); /* the message itself, for another try */
    assert_int_equal(fixture_counters(f).processed, 0);
}

/* --- used after its end ----------------------------------------------------------------------- */

static void expect_refusal(semel_unit *unit, semel_inbox *inbox, semel_outbox *outbox)
{
    semel_message message = text_message("stray", "a");
    semel_outcome out;
    FAILS(SEMEL_EMISUSE, semel_unit_send(unit, outbox, &message, &last_error));
    SAYS("has ended");
    FAILS(SEMEL_EMISUSE, semel_unit_queue(unit, "SELECT 1", NULL, 0, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_set_result(unit, "x", 1, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_renew(unit, 0, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_claim(&out, unit, inbox, &message, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_fail(&out, unit, NULL, &last_error));
    semel_unit_rollback(unit);
    assert_null(semel_unit_key(unit).data);
    assert_int_equal(semel_unit_attempt(unit), 0);
}

static semel_status keep_unit(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    ender *self = context;
    (void)message, (void)err;
    self->unit = unit;
    return SEMEL_OK;
}

/* The next message's handler, with the unit of the last one. */
static semel_status send_by_the_last(semel_unit *unit, const semel_message *message, void *context,
                                     semel_error *err)
{
    ender *self = context;
    semel_message mail = text_message("stray", "paid");
    (void)message, (void)err;
    assert_ptr_not_equal(unit, self->unit);
    self->refused = semel_unit_send(self->unit, self->outbox, &mail, NULL);
    return SEMEL_OK;
}

static void a_handlers_unit_is_of_no_use_afterwards(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, f, (semel_inbox_options){.size = sizeof(semel_inbox_options)});
    semel_outbox *outbox = fixture_outbox(f, "mail");
    EACH_MODE(inbox, inboxes)
    {
        semel_message first = text_message("1", "a"), second = text_message("2", "a");
        ender self = {.outbox = outbox};
        semel_outcome out;
        OK(semel_inbox_receive(&out, inbox, &first, keep_unit, &self, &last_error));
        expect_refusal(self.unit, inbox, outbox);
        OK(semel_inbox_receive(&out, inbox, &second, send_by_the_last, &self, &last_error));
        OUTCOME(SEMEL_PROCESSED, out);
        assert_int_equal(self.refused, SEMEL_EMISUSE);
        assert_int_equal(fixture_counters(f).unsent, 0); /* nothing left with the second */
    }
}

static void nor_is_one_that_was_ended_step_by_step(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "mail");
    static const char *const ids[ENDINGS] = {"commit", "fail", "rollback"};
    semel_unit *unit = NULL;
    semel_outcome out;
    for (int how = 0; how < ENDINGS; how++) {
        semel_message message = text_message(ids[how], "a");
        OK(semel_unit_begin(&unit, f->store, &last_error));
        OK(semel_unit_claim(&out, unit, inbox, &message, &last_error));
        if (how == BY_ROLLBACK)
            semel_unit_rollback(unit);
        else if (how == BY_FAIL)
            OK(semel_unit_fail(&out, unit, NULL, &last_error));
        else
            OK(semel_unit_commit(unit, &last_error));
        expect_refusal(unit, inbox, outbox);
    }
    assert_int_equal(fixture_counters(f).unsent, 0);
}

/* --- values without data ---------------------------------------------------------------------- */

static semel_status give_nothing(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    const fixture *f = context;
    semel_value text = {.kind = SEMEL_VALUE_TEXT, .bytes = {NULL, 3}};
    semel_value bytes = {.kind = SEMEL_VALUE_BYTES, .bytes = {NULL, 3}};
    (void)message, (void)err;
    FAILS(SEMEL_EINVAL, semel_unit_set_result(unit, NULL, 3, &last_error));
    if (!f->place.has_sql)
        return SEMEL_OK;
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "SELECT ?", &text, 1, &last_error));
    SAYS("value 1");
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "SELECT ?", &bytes, 1, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "SELECT ?", NULL, 1, &last_error));
    return SEMEL_OK;
}

static void a_value_with_a_length_and_no_data_is_refused(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("m", "a");
    semel_outcome out;
    OK(semel_inbox_receive(&out, inbox, &message, give_nothing, f, &last_error));
    OUTCOME(SEMEL_PROCESSED, out);
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

static void one_connection_is_joined_by_one_unit_at_a_time(void **state)
{
    fixture *f = *state;
    semel_unit *first, *second;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(strchr(f->place.url, ':') + 1, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    OK(semel_unit_join_sqlite(&first, f->store, db, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_join_sqlite(&second, f->store, db, &last_error));
    OK(semel_unit_commit(first, &last_error));
    OK(semel_unit_join_sqlite(&second, f->store, db, &last_error));
    semel_unit_rollback(second);
    sqlite3_close(db);
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
        ON_BOTH("a handler cannot end its own unit", a_handler_cannot_end_its_own_unit),
        ON_BOTH("it becomes a dead letter in the end", it_becomes_a_dead_letter_in_the_end),
        ON_BOTH("nor in a batch or in a hand-off", nor_in_a_batch_or_in_a_hand_off),
        ON_BOTH("a handler's unit is of no use afterwards",
                a_handlers_unit_is_of_no_use_afterwards),
        ON_BOTH("nor is one that was ended step by step", nor_is_one_that_was_ended_step_by_step),
        ON_BOTH("a value with a length and no data is refused",
                a_value_with_a_length_and_no_data_is_refused),
        ON_SQLITE("one connection is joined by one unit at a time",
                  one_connection_is_joined_by_one_unit_at_a_time),
        ON_SQLITE("a handler may leave an insert unfinished",
                  a_handler_may_leave_an_insert_unfinished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
