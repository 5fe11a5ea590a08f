/* What goes wrong in systems like this one: P1 to P10, each with the smallest schedule that fails
 * elsewhere. P11 to P24 are in test_pitfalls_p11_p24.c. Above each test stands what the naive
 * design does.
 *
 * Not here, because it cannot happen with memory, SQLite and the memory transport:
 *   P1 on SQLite, which has one writer, so ids commit in their order; P1's second half (xid8
 *   cursors); P5's isolation levels; P6's aborted transactions and translated error texts
 *   (PostgreSQL); P7's unroutable messages and unbound queues (RabbitMQ). */
#include "support/fake/spy.h"
#include "support/process/process.h"

#include <pthread.h>
#include <semel/sqlite.h>
#include <signal.h>
#include <stdio.h>

static semel_unit *claim(fixture *f, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = NULL;
    semel_outcome outcome;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, message, &last_error));
    OUTCOME(SEMEL_CLAIMED, outcome);
    return unit;
}

static void query(sqlite3 *db, const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &error))
        fail_msg("%s: %s", sql, error);
}

static void query_in_unit(fixture *f, const char *sql)
{
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    query(semel_unit_sqlite(unit), sql);
    OK(semel_unit_commit(unit, &last_error));
}

static int count_rows(fixture *f, const char *table)
{
    semel_unit *unit = NULL;
    sqlite3_stmt *statement = NULL;
    char sql[100];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    OK(semel_unit_begin(&unit, f->store, &last_error));
    assert_int_equal(sqlite3_prepare_v2(semel_unit_sqlite(unit), sql, -1, &statement, NULL), 0);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int count = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    semel_unit_rollback(unit);
    return count;
}

/* --- P1 --------------------------------------------------------------------------------------- */

/* A relay that remembers the last id it has seen has passed 1 when 1 commits after 2, and never
 * looks back: the message is lost. */
static void p1_late_committer(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    semel_message first = text_message("1", "a"), second = text_message("2", "a");
    semel_unit *slow = NULL;
    char ids[32];
    OK(semel_unit_begin(&slow, f->store, &last_error));
    OK(semel_unit_send(slow, outbox, &first, &last_error)); /* takes its id, and stalls */
    OK(semel_outbox_send(outbox, &second, &last_error));
    assert_int_equal(fixture_drain(relay), 1);
    OK(semel_unit_commit(slow, &last_error));
    assert_int_equal(fixture_drain(relay), 1);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "2 1 ");
}

/* --- P2 --------------------------------------------------------------------------------------- */

typedef enum owner { MINE_BUT_LATE, ANOTHER, UNOWNED, DONE, GONE, OWNERS } owner;
typedef enum verb { COMMIT, FAIL, RENEW, ROLLBACK, VERBS } verb;

/* What happened to the key after its first owner's lease was over; the new owner's unit, if it has
 * one. */
static semel_unit *pass_on(fixture *f, semel_inbox *inbox, const semel_message *message, owner to)
{
    semel_outcome outcome;
    if (to == MINE_BUT_LATE)
        return NULL;
    semel_unit *unit = claim(f, inbox, message);
    if (to == ANOTHER)
        return unit;
    if (to == UNOWNED)
        OK(semel_unit_fail(&outcome, unit, NULL, &last_error));
    else
        OK(semel_unit_commit(unit, &last_error));
    if (to == GONE)
        OK(semel_inbox_forget(inbox, message, &last_error));
    return NULL;
}

static void act(semel_unit *stale, verb what)
{
    semel_error why;
    semel_outcome outcome;
    semel_fail(&why, SEMEL_EGIVEUP, "the stale owner gives up");
    if (what == RENEW)
        FAILS(SEMEL_ELOST, semel_unit_renew(stale, 1000, &last_error));
    if (what == FAIL) {
        OK(semel_unit_fail(&outcome, stale, &why, &last_error));
        OUTCOME(SEMEL_FAILED, outcome);
    } else if (what == COMMIT) {
        FAILS(SEMEL_ELOST, semel_unit_commit(stale, &last_error));
    } else {
        semel_unit_rollback(stale);
    }
}

/* The key is as the others left it: told by what a copy meets, and at which attempt. */
static void check_untouched(semel_inbox *inbox, const semel_message *message, owner left_by,
                            semel_unit *theirs)
{
    static const uint32_t attempt[OWNERS] = {[MINE_BUT_LATE] = 2, [UNOWNED] = 3, [GONE] = 1};
    scripted_handler todo = {0};
    if (theirs)
        OK(semel_unit_commit(theirs, &last_error));
    RECEIVES(SEMEL_OK, attempt[left_by] ? SEMEL_PROCESSED : SEMEL_DUPLICATE, inbox, message, &todo);
    assert_int_equal(todo.attempt, attempt[left_by]);
}

/* An UPDATE by key alone lets a worker whose lease is over complete, fail, extend or delete what
 * another one is working on: the other's work is lost, or done a third time. */
static void p2_stale_owner(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM, .lease_ms = 1000};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    for (owner to = MINE_BUT_LATE; to < OWNERS; to++)
        for (verb what = COMMIT; what < VERBS; what++) {
            char id[16];
            (void)snprintf(id, sizeof id, "%d-%d", (int)to, (int)what);
            semel_message message = text_message(id, "a");
            semel_unit *stale = claim(f, inbox, &message);
            semel_test_advance_ms(f->seam, 1000);
            semel_unit *theirs = pass_on(f, inbox, &message, to);
            act(stale, what);
            check_untouched(inbox, &message, to, theirs);
        }
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* --- P3 and P9: processes that die ------------------------------------------------------------ */

typedef struct victim {
    char url[SCRATCH_PATH];
    const char *dies_at; /* NULL: in the handler */
    uint32_t delivery;
    unsigned *runs; /* shared */
} victim;

static semel_status die(semel_unit *unit, const semel_message *message, void *context,
                        semel_error *err)
{
    victim *self = context;
    (void)unit;
    (void)message;
    (void)err;
    ++*self->runs;
    if (!self->dies_at)
        raise(SIGKILL);
    return SEMEL_OK;
}

/* Opens everything, receives the one message, and closes; the outcome. */
static semel_outcome receive_in(victim *self)
{
    semel_error err = {0};
    semel_test_seam *seam = NULL;
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_message message = text_message("1", "a");
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 3};
    message.delivery = self->delivery;
    PROCESS_REQUIRE_OK(semel_test_seam_open(&seam, 1, &err), &err);
    semel_store_options store_options = {.size = sizeof store_options,
                                         .seam = semel_test_seam_get(seam)};
    if (self->dies_at && *self->dies_at)
        semel_test_fault(seam, self->dies_at, 1, SEMEL_OK);
    PROCESS_REQUIRE_OK(semel_store_open(&store, self->url, &store_options, &err), &err);
    PROCESS_REQUIRE_OK(semel_store_migrate(store, &err), &err);
    PROCESS_REQUIRE_OK(semel_inbox_open(&inbox, store, "inbox", &options, &err), &err);
    PROCESS_REQUIRE_OK(semel_inbox_receive(&outcome, inbox, &message, die, self, &err), &err);
    semel_inbox_close(inbox);
    semel_store_close(store);
    semel_test_seam_close(seam);
    return outcome;
}

static int receive_in_child(void *context)
{
    return (int)receive_in(context);
}

static void start_victim(victim *self, scratch *directory)
{
    scratch_open(directory);
    scratch_sqlite(self->url, directory, "semel.db");
    self->runs = process_share(sizeof *self->runs);
}

static void end_victim(victim *self, scratch *directory)
{
    process_unshare(self->runs, sizeof *self->runs);
    scratch_close(directory);
}

/* The key is stored first, then the process dies before the work: the redelivery is "a duplicate",
 * and the work is never done. */
static void p3_marked_before_the_effect(void **state)
{
    victim self = {.dies_at = "receive.marked", .delivery = 1};
    scratch directory;
    (void)state;
    start_victim(&self, &directory);
    assert_int_equal(process_run(receive_in_child, &self), PROCESS_KILLED + SIGKILL);
    assert_int_equal(*self.runs, 0);
    self.dies_at = "";
    self.delivery = 2;
    assert_int_equal(process_run(receive_in_child, &self), SEMEL_PROCESSED);
    assert_int_equal(*self.runs, 1);
    assert_int_equal(process_run(receive_in_child, &self), SEMEL_DUPLICATE);
    end_victim(&self, &directory);
}

/* Attempts are counted when the handler returns. One that kills its process never returns, is never
 * counted, and takes the process down for ever. */
static void p9_poison_that_kills(void **state)
{
    victim self = {.delivery = 0};
    scratch directory;
    (void)state;
    start_victim(&self, &directory);
    for (self.delivery = 1; self.delivery <= 3; self.delivery++)
        assert_int_equal(process_run(receive_in_child, &self), PROCESS_KILLED + SIGKILL);
    assert_int_equal(process_run(receive_in_child, &self), SEMEL_DEAD);
    assert_int_equal(*self.runs, 3);
    end_victim(&self, &directory);
}

/* --- P4 and P6: effects in the same database -------------------------------------------------- */

static semel_status insert(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    sqlite3 *db = semel_unit_sqlite(unit);
    (void)message;
    if (sqlite3_exec(db, context, NULL, NULL, NULL))
        return semel_fail(err, SEMEL_EHANDLER, "%s", sqlite3_errmsg(db));
    return SEMEL_OK;
}

/* The handler commits its own work, then the marker cannot be written: the redelivery does the work
 * again, and a customer pays twice. */
static void p4_effect_without_its_marker(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    char charge[] = "INSERT INTO charge VALUES (7)";
    query_in_unit(f, "CREATE TABLE charge (amount)");
    semel_test_fault(f->seam, "receive.handled", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE,
          semel_inbox_receive(&outcome, inbox, &message, insert, charge, &last_error));
    assert_int_equal(count_rows(f, "charge"), 0);
    OK(semel_inbox_receive(&outcome, inbox, &message, insert, charge, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    OK(semel_inbox_receive(&outcome, inbox, &message, insert, charge, &last_error));
    OUTCOME(SEMEL_DUPLICATE, outcome);
    assert_int_equal(count_rows(f, "charge"), 1);
}

/* Any "unique constraint" error is taken for "seen before": when the handler's own table objects,
 * the message is acknowledged and its work never done. */
static void p6_constraint_of_the_business(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    char seat[] = "INSERT INTO seat VALUES (7)";
    query_in_unit(f, "CREATE TABLE seat (number PRIMARY KEY); INSERT INTO seat VALUES (7)");
    FAILS(SEMEL_EHANDLER,
          semel_inbox_receive(&outcome, inbox, &message, insert, seat, &last_error));
    OUTCOME(SEMEL_FAILED, outcome);
    SAYS("UNIQUE constraint failed: seat.number");
    query_in_unit(f, "DELETE FROM seat");
    OK(semel_inbox_receive(&outcome, inbox, &message, insert, seat, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
}

/* --- P5 --------------------------------------------------------------------------------------- */

typedef struct copy {
    semel_inbox *inbox;
    pthread_t thread;
    unsigned runs;
    semel_outcome outcome;
} copy;

/* However long the other copy takes: a copy that is told to come back later does so. */
static void *receive_a_copy(void *context)
{
    copy *self = context;
    semel_message message = text_message("1", "a");
    scripted_handler todo = {0};
    enum { TIMES = 12 }; /* each waits some seconds */
    semel_status status = SEMEL_EBUSY;
    for (int i = 0; i < TIMES && status == SEMEL_EBUSY; i++)
        status = semel_inbox_receive(&self->outcome, self->inbox, &message, scripted_handler_run,
                                     &todo, NULL);
    self->runs = todo.runs;
    return NULL;
}

static semel_status be_raced(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    copy *other = context;
    (void)unit;
    (void)message;
    return pthread_create(&other->thread, NULL, receive_a_copy, other)
               ? semel_fail(err, SEMEL_EHANDLER, "no thread")
               : SEMEL_OK;
}

/* Both look, neither finds the key, both do the work; that one of the two inserts then fails comes
 * too late. */
static void p5_check_then_act(void **state)
{
    fixture *f = *state;
    copy other = {.inbox = fixture_inbox(f, "inbox", NULL)};
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    OK(semel_inbox_receive(&outcome, other.inbox, &message, be_raced, &other, &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    OUTCOME(SEMEL_DUPLICATE, other.outcome);
    assert_int_equal(other.runs, 0);
}

/* --- P7 --------------------------------------------------------------------------------------- */

/* "Acknowledge everything up to this one" sweeps away the one that failed; and a path that gives no
 * verdict, or two, loses it or makes two dead letters of it. */
static void p7_settlement(void **state)
{
    static const semel_verdict expected[] = {SEMEL_VERDICT_ACK, SEMEL_VERDICT_RETRY,
                                             SEMEL_VERDICT_ACK, SEMEL_VERDICT_ACK};
    fixture *f = *state;
    spy s = {.inner = fixture_queue(f, "memory:")};
    scripted_handler todo = {.failures = 1, .only = "2"};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, &todo};
    semel_consumer_options options = {.size = sizeof options, .batch = 3};
    semel_consumer *consumer = fixture_consumer(f, spy_open(f, &s, 1), &route, 1, &options);
    size_t settled;
    for (const char *id = "1\0002\0003\0"; *id; id += 2) {
        semel_message message = text_message(id, "a");
        const semel_message *one = &message;
        semel_publish_result result;
        OK(semel_transport_publish(&result, s.inner, &one, 1, 0, &last_error));
    }
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    assert_int_equal(settled, 2);
    semel_test_advance_ms(f->seam, 1000);
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    assert_int_equal(settled, 1);
    assert_int_equal(s.settle_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(s.settles[i].verdict, expected[i]);
        for (size_t j = 0; j < i; j++)
            assert_true(s.settles[i].tag != s.settles[j].tag);
    }
}

/* --- P8 --------------------------------------------------------------------------------------- */

static size_t sweep(semel_inbox *inbox)
{
    size_t all = 0, swept;
    int more;
    do {
        OK(semel_inbox_sweep(&swept, &more, inbox, 2, &last_error));
        all += swept;
    } while (more);
    return all;
}

/* The clean-up asks for the states that its author thought of; a row in any other one stays for
 * ever, and its message is stuck. */
static void p8_rows_that_no_sweep_sees(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .lease_ms = 1000, .retention_ms = 3600000};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message done = text_message("done", "a"), failed = text_message("failed", "a");
    semel_message dead = text_message("dead", "a"), crashed = text_message("crashed", "a");
    semel_message live = text_message("live", "a");
    scripted_handler bad = {.failures = 1}, worse = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &done, &(scripted_handler){0});
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &failed, &bad);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &dead, &worse);
    semel_unit *abandoned = claim(f, inbox, &crashed), *unit = claim(f, inbox, &live);
    OK(semel_unit_renew(unit, 2 * 3600000, &last_error));
    assert_int_equal(sweep(inbox), 0); /* all are young */
    semel_test_advance_ms(f->seam, 3600001);
    assert_int_equal(sweep(inbox), 3);
    assert_int_equal(sweep(inbox), 0); /* the sweep leaves alone: the live claim, the dead letter */
    OK(semel_dead_discard(f->store, fixture_only_letter(f).id, SEMEL_DISCARD_KEEP_DEAD,
                          &last_error));
    semel_test_advance_ms(f->seam, 3600001);
    assert_int_equal(sweep(inbox), 2);
    semel_unit_rollback(abandoned);
    semel_unit_rollback(unit);
}

/* "Fetch where attempts < max" and "dead if attempts >= max" in two places: a row whose last
 * attempt was cut off is neither fetched nor dead. */
static void p8_the_attempt_that_was_cut_off(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    semel_message message = text_message("1", "a");
    size_t sent;
    OK(semel_outbox_send(outbox, &message, &last_error));
    semel_test_fault(f->seam, "relay.taken", 1, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    semel_test_advance_ms(f->seam, 30000);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(fixture_drain(relay), 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
    assert_int_equal(fixture_counters(f).unsent, 0);
}

/* --- P10 -------------------------------------------------------------------------------------- */

/* 1 fails and waits; the next turn takes what is due, which is 2 and 3: the group arrives as 2, 3,
 * 1. And all three have the same millisecond, so sorting by time puts them in any order. */
static void p10_overtaking_in_backoff(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_relay *relay = fixture_relay(f, outbox, recorder, NULL);
    char ids[32];
    for (const char *id = "1\0002\0003\0"; *id; id += 2) {
        semel_message message = text_message(id, "a");
        message.group = "g";
        OK(semel_outbox_send(outbox, &message, &last_error));
    }
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 1);
    assert_int_equal(fixture_drain(relay), 0);
    assert_int_equal(fixture_drain(relay), 0);
    semel_test_advance_ms(f->seam, 200);
    assert_int_equal(fixture_drain(relay), 3);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "1 2 3 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"P3: a marker is never there without its effect (sqlite)", p3_marked_before_the_effect,
         NULL, NULL, NULL},
        {"P9: a handler that kills its process is counted, and given up on (sqlite)",
         p9_poison_that_kills, NULL, NULL, NULL},
        ON_MEMORY("P1: ids that commit out of order are never skipped", p1_late_committer),
        ON_BOTH("P2: a stale owner changes nothing, with any verb", p2_stale_owner),
        ON_SQLITE("P4: an effect is never there without its marker", p4_effect_without_its_marker),
        ON_BOTH("P5: of two workers with one key, one does the work", p5_check_then_act),
        ON_SQLITE("P6: a constraint of the business is no duplicate message",
                  p6_constraint_of_the_business),
        ON_BOTH("P7: each delivery gets one verdict, its own", p7_settlement),
        ON_BOTH("P8: there is no row that no sweep sees", p8_rows_that_no_sweep_sees),
        ON_BOTH("P8: a last attempt that was cut off is not stuck",
                p8_the_attempt_that_was_cut_off),
        ON_BOTH("P10: nothing overtakes a message of its group in backoff",
                p10_overtaking_in_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
