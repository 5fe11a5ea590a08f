/* What goes wrong in systems like this one: P11 to P24, each with the smallest schedule that fails
 * elsewhere. P1 to P10 are in test_pitfalls.c. Above each test stands what the naive design does.
 *
 * Not here, because it cannot happen with memory, SQLite and the memory transport:
 *   P12's lock escalation and deadlocks between clean-up and marking: there is one writer, or one
 *   lock; P13's SKIP LOCKED under REPEATABLE READ, P19's vacuum horizon and replication slots (a
 *   SQL server); P20, the price and the loss of NOTIFY: there is none. That a relay is woken inside
 *   the process, and
 *        polls besides, is in test_relay_wait.c;
 *   P23: broker-first designs. semel writes to the store first, always. */
#include "support/fake/spy.h"

#include <semel/sqlite.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t hour_ms = 3600000;

static size_t sweep(semel_inbox *inbox, uint32_t rows)
{
    size_t all = 0, swept;
    int more;
    do {
        OK(semel_inbox_sweep(&swept, &more, inbox, rows, &last_error));
        assert_in_range(swept, 0, rows);
        all += swept;
    } while (more);
    return all;
}

static void send_three(semel_outbox *outbox)
{
    for (const char *id = "1\0002\0003\0"; *id; id += 2) {
        semel_message message = text_message(id, "a");
        message.group = "g";
        OK(semel_outbox_send(outbox, &message, &last_error));
    }
}

/* --- P11 -------------------------------------------------------------------------------------- */

/* 25 days in milliseconds do not fit into 31 bits: the cutoff lies in the future, and the table is
 * wiped. Zero means "not set", so nothing is kept or everything; 100 years reach back before
 * 1970. */
static void p11_retention_arithmetic(void **state)
{
    static const uint64_t retentions[] = {1,
                                          1000,
                                          UINT64_C(2147483648),    /* 2^31 */
                                          UINT64_C(2160000000),    /* 25 days */
                                          UINT64_C(4294967296),    /* 2^32 */
                                          UINT64_C(3155760000000), /* 100 years */
                                          0};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof retentions / sizeof *retentions; i++) {
        char name[16];
        semel_inbox_options options = {.size = sizeof options, .retention_ms = retentions[i]};
        uint64_t meant = retentions[i] ? retentions[i] : SEMEL_RETENTION_DEFAULT_MS;
        (void)snprintf(name, sizeof name, "inbox%zu", i);
        semel_inbox *inbox = fixture_inbox(f, name, &options);
        semel_message message = text_message("1", "a");
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
        assert_int_equal(sweep(inbox, 10), 0);
        semel_test_advance_ms(f->seam, (int64_t)meant);
        assert_int_equal(sweep(inbox, 10), 0);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &(scripted_handler){0});
        semel_test_advance_ms(f->seam, 1);
        assert_int_equal(sweep(inbox, 10), 1);
    }
}

static void p11_no_retention_and_for_ever(void **state)
{
    fixture *f = *state;
    semel_inbox_options none = {.size = sizeof none, .retention_ms = SEMEL_RETENTION_NONE};
    semel_inbox_options ever = {.size = sizeof ever, .retention_ms = SEMEL_RETENTION_FOREVER};
    semel_inbox *forgets = fixture_inbox(f, "forgets", &none),
                *keeps = fixture_inbox(f, "keeps", &ever);
    semel_message message = text_message("1", "a");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, forgets, &message, &(scripted_handler){0});
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, keeps, &message, &(scripted_handler){0});
    semel_test_advance_ms(f->seam, INT64_C(10000000) * hour_ms);
    assert_int_equal(sweep(forgets, 10), 1);
    assert_int_equal(sweep(keeps, 10), 0);
}

/* An operator sets the clock, or summer time begins, and a wall clock that is compared with a wall
 * clock sweeps an hour too early, or lets a lease end that has just begun. */
static void p11_clocks_that_jump(void **state)
{
    static const int64_t jumps[] = {1, -1, 24 * 365, -24 * 365 * 2};
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = SEMEL_CLAIM,
                                   .on_in_flight = SEMEL_IN_FLIGHT_REPORT,
                                   .lease_ms = 300000,
                                   .retention_ms = (uint64_t)hour_ms};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message done = text_message("done", "a"), live = text_message("live", "a");
    semel_unit *unit = NULL;
    semel_outcome outcome;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &done, &(scripted_handler){0});
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &live, &last_error));
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        semel_test_jump_ms(f->seam, jumps[i] * hour_ms);
        assert_int_equal(sweep(inbox, 10), 0);
        RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &live, &(scripted_handler){0});
    }
    semel_test_advance_ms(f->seam, 299999); /* 300 seconds are 300 seconds */
    RECEIVES(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, &live, &(scripted_handler){0});
    OK(semel_unit_commit(unit, &last_error));
}

/* --- P12 -------------------------------------------------------------------------------------- */

/* One DELETE of everything old keeps the writers waiting for seconds; with several instances
 * cleaning, they wait for each other; and a clean-up by age alone takes unsent messages along. */
static void p12_clean_up_in_the_way(void **state)
{
    enum { OLD = 600, ROWS = 50 };
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .retention_ms = (uint64_t)hour_ms};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_inbox *other = fixture_inbox(f, "inbox", &options); /* a second sweeper */
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message event = text_message(NULL, "event");
    size_t removed = 0, swept;
    int more = 1;
    for (int i = 0; i < OLD; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        semel_message message = text_message(id, "a");
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
    }
    OK(semel_outbox_send(outbox, &event, &last_error));
    semel_test_advance_ms(f->seam, 2 * hour_ms);
    for (int turn = 0; more; turn++) {
        char id[24];
        OK(semel_inbox_sweep(&swept, &more, turn % 2 ? other : inbox, ROWS, &last_error));
        assert_in_range(swept, 0, ROWS);
        removed += swept;
        (void)snprintf(id, sizeof id, "between%d", turn); /* the hot path in between */
        semel_message message = text_message(id, "a");
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &(scripted_handler){0});
    }
    removed += sweep(inbox, ROWS) + sweep(other, ROWS);
    assert_int_equal(removed, OLD);
    assert_int_equal(fixture_counters(f).swept, OLD);
    assert_int_equal(fixture_counters(f).unsent, 1);
}

/* --- P13 -------------------------------------------------------------------------------------- */

static void receive_meanwhile(spy *self, const semel_message *const messages[], size_t count)
{
    semel_message message = text_message("meanwhile", "a");
    (void)messages;
    (void)count;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, self->context, &message, &(scripted_handler){0});
}

/* The rows are locked until the broker has answered: a broker that takes thirty seconds stops the
 * database for thirty seconds, and SQLite, which has one writer, altogether. */
static void p13_transaction_over_broker_io(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    spy s = {.inner = fixture_recorder(f),
             .on_publish = receive_meanwhile,
             .context = fixture_inbox(f, "inbox", NULL)};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 1), NULL);
    semel_message message = text_message("1", "a");
    OK(semel_outbox_send(outbox, &message, &last_error));
    assert_int_equal(fixture_drain(relay), 1);
}

/* --- P14 -------------------------------------------------------------------------------------- */

/* A collation that ignores case or trailing spaces, a column that is cut at 255, a string that ends
 * at NUL: a stranger is taken for a copy, and lost. */
static void p14_keys_that_look_alike(void **state)
{
    static const semel_bytes ids[] = {
        {"a", 1},         {"A", 1},    {"a ", 2},   {" a", 2},       {"a\0", 2},
        {"a\0b", 3},      {"a\t", 2},  {"\xff", 1}, {"\xff\xff", 2}, {"\xc3\xa9", 2},
        {"e\xcc\x81", 3}, {"\xc3", 1}, {"1", 1},    {"1.0", 3},      {"01", 2}};
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    scripted_handler todo = {0};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
            semel_message message = {.size = sizeof message, .id = ids[i]};
            RECEIVES(SEMEL_OK, round ? SEMEL_DUPLICATE : SEMEL_PROCESSED, inbox, &message, &todo);
        }
    assert_int_equal(todo.runs, sizeof ids / sizeof *ids);
}

static void p14_keys_of_ten_kilobytes(void **state)
{
    static char body[10240];
    fixture *f = *state;
    semel_inbox_options options = {
        .size = sizeof options, .key = "json:/k", .on_mismatch = SEMEL_MISMATCH_IGNORE};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = {.size = sizeof message, .body = {body, sizeof body}};
    scripted_handler todo = {0};
    memset(body, 'k', sizeof body);
    memcpy(body, "{\"k\":\"", 6);
    memcpy(body + sizeof body - 2, "\"}", 2);
    for (char last = 'a'; last <= 'c'; last++) {
        body[sizeof body - 3] = last;
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
    }
}

/* One table of ids for all: what the first consumer has handled is a duplicate for the second,
 * which never sees it. */
static void p14_one_id_for_two_consumers(void **state)
{
    fixture *f = *state;
    semel_inbox *billing = fixture_inbox(f, "billing", NULL),
                *mail = fixture_inbox(f, "mail", NULL);
    semel_inbox *mails = fixture_inbox(f, "mails", NULL), *Mail = fixture_inbox(f, "Mail", NULL);
    semel_inbox *all[] = {billing, mail, mails, Mail};
    semel_message message = text_message("1", "a");
    for (size_t i = 0; i < 4; i++) {
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, all[i], &message, &(scripted_handler){0});
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, all[i], &message, &(scripted_handler){0});
    }
}

/* --- P15 and P21 ------------------------------------------------------------------------------ */

/* The state in memory says "handled" before the commit; when that fails, memory and database
 * disagree, and one of them is believed. */
static void p15_believed_before_the_commit(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    semel_test_fault(f->seam, "receive.handled", 1, SEMEL_EUNAVAILABLE);
    RECEIVES(SEMEL_EUNAVAILABLE, SEMEL_FAILED, inbox, &message, &todo);
    assert_int_equal(fixture_counters(f).processed, 0);
    assert_int_equal(fixture_counters(f).captured, 0);
    assert_int_equal(fixture_counters(f).unsent, 0);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(fixture_counters(f).processed, 1);
    assert_int_equal(fixture_counters(f).unsent, 1);
}

/* The connection is cut after COMMIT was sent. A program that takes that for a failure does the
 * work again; one that takes it for success may have lost it. */
static void p21_the_answer_to_commit_is_lost(void **state)
{
    static const char *const points[] = {"receive.committed", "finish.committed"};
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "event");
    scripted_handler todo = {.outbox = outbox, .sends = &event};
    semel_outcome outcome;
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    for (size_t mode = 0; mode < 2; mode++) {
        semel_test_fault(f->seam, points[mode], 1, SEMEL_EUNKNOWN);
        FAILS(SEMEL_EUNKNOWN, semel_inbox_receive(&outcome, inboxes[mode], &message,
                                                  scripted_handler_run, &todo, &last_error));
        assert_int_equal(last_error.retryable, 1);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inboxes[mode], &message, &todo);
        assert_int_equal(todo.runs, mode + 1);
        assert_int_equal(fixture_counters(f).unsent, mode + 1);
    }
}

/* --- P16 and P18 ------------------------------------------------------------------------------ */

typedef struct pause_plan {
    fixture *f;
    int64_t ms;
    semel_relay *other;
} pause_plan;

static void pause_once(spy *self, const semel_message *const messages[], size_t count)
{
    pause_plan *plan = self->context;
    (void)messages;
    (void)count;
    if (self->publishes > 1)
        return;
    semel_test_advance_ms(plan->f->seam, plan->ms);
    if (plan->other)
        (void)fixture_drain(plan->other);
}

/* Three are leased together, the first takes longer than the lease: by its turn the third belongs
 * to another relay, and both send it. */
static void p16_the_tail_of_a_slow_batch(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    pause_plan plan = {.f = f, .ms = 20000};
    spy s = {.inner = fixture_recorder(f), .on_publish = pause_once, .context = &plan};
    semel_relay *relay = fixture_relay(f, outbox, spy_open(f, &s, 0), NULL); /* a lease of 30 s */
    char ids[32];
    size_t sent;
    send_three(outbox);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    semel_test_advance_ms(f->seam, 20000); /* their lease would be over now */
    assert_int_equal(fixture_drain(relay), 2);
    assert_string_equal(fixture_recorded(ids, sizeof ids, s.inner), "1 2 3 ");
}

/* The leader stands still for longer than its lease, another takes over, the first wakes up and
 * goes on as if nothing had been. */
static void p18_a_leader_that_was_paused(void **state)
{
    fixture *f = *state;
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    pause_plan plan = {.f = f, .ms = 30000, .other = fixture_relay(f, outbox, recorder, NULL)};
    spy s = {.inner = recorder, .on_publish = pause_once, .context = &plan};
    semel_relay *paused = fixture_relay(f, outbox, spy_open(f, &s, 0), NULL);
    char ids[32];
    size_t sent;
    send_three(outbox);
    OK(semel_relay_step(&sent, paused, 0, &last_error));
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder),
                        "1 2 3 1 "); /* one, in flight */
    assert_int_equal(fixture_counters(f).unsent, 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

/* --- P17 -------------------------------------------------------------------------------------- */

/* The letter is replayed, and the inbox says "seen before", because the failed delivery left its
 * key; or the replay inserts the key again, and fails for ever. */
static void p17_replay_against_its_own_marker(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, f, (semel_inbox_options){.attempts_max = 2});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 3};
        semel_outcome outcome;
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        int64_t id = fixture_only_letter(f).id;
        FAILS(SEMEL_EHANDLER,
              semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, &todo, &last_error));
        OK(semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, &todo, &last_error));
        OUTCOME(SEMEL_PROCESSED, outcome);
        FAILS(SEMEL_ENOTFOUND,
              semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, &todo, &last_error));
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        assert_int_equal(todo.runs, 4);
    }
}

/* --- P19 -------------------------------------------------------------------------------------- */

/* A report that reads for an hour keeps old versions alive, and all others slow down or stop. In
 * SQLite it must at least keep no other process from writing and sweeping. */
static void p19_a_reader_that_stands(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .retention_ms = 1000};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    char path[SCRATCH_PATH];
    sqlite3 *reader = NULL;
    assert_int_equal(sqlite3_open(store_place_file(path, &f->place, STORE_PLACE_FILE), &reader),
                     SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM semel_marker", NULL, NULL, NULL),
        SQLITE_OK);
    for (int i = 0; i < 100; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        semel_message message = text_message(id, "a");
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
    }
    semel_test_advance_ms(f->seam, 1001);
    assert_int_equal(sweep(inbox, 1000), 100);
    sqlite3_close(reader);
}

/* --- P22 -------------------------------------------------------------------------------------- */

static void damage(fixture *f, const char *table)
{
    char sql[128];
    semel_unit *unit = NULL;
    (void)snprintf(sql, sizeof sql, "UPDATE %s SET headers = x'ff00ff00ff' WHERE id = x'626164'",
                   table);
    OK(semel_unit_begin(&unit, f->store, &last_error));
    assert_int_equal(sqlite3_exec(semel_unit_sqlite(unit), sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(semel_unit_sqlite(unit)), 1);
    OK(semel_unit_commit(unit, &last_error));
}

/* The first row of the page cannot be decoded: the page fails, and with it every other one, for
 * ever. */
static void p22_one_bad_row(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_transport *recorder = fixture_recorder(f);
    semel_message bad = text_message("bad", "a"), good = text_message("good", "a");
    scripted_handler todo = {.failures = 2, .failure = SEMEL_EGIVEUP};
    letter letters[2];
    semel_outcome outcome;
    char ids[32];
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &bad, &todo);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &good, &todo);
    damage(f, "semel_dead");
    assert_int_equal(fixture_letters(f, letters, 2), 2);
    assert_true(letters[0].damaged);
    assert_string_equal(letters[1].message_id, "good");
    OK(semel_inbox_replay(&outcome, inbox, letters[1].id, scripted_handler_run, &todo,
                          &last_error));
    FAILS(SEMEL_ESTORE, semel_inbox_replay(&outcome, inbox, letters[0].id, scripted_handler_run,
                                           &todo, &last_error));
    OK(semel_dead_discard(f->store, letters[0].id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    OK(semel_outbox_send(outbox, &bad, &last_error));
    OK(semel_outbox_send(outbox, &good, &last_error));
    damage(f, "semel_outbox");
    assert_int_equal(fixture_drain(fixture_relay(f, outbox, recorder, NULL)), 1);
    assert_string_equal(fixture_recorded(ids, sizeof ids, recorder), "good ");
    assert_int_equal(fixture_counters(f).unsent, 1); /* and the bad one is still to be seen */
}

/* --- P24 -------------------------------------------------------------------------------------- */

/* A statement that changed no row, or a member that a backend left empty, returns success: the
 * caller goes on as if it was done. */
static void p24_silent_no_op(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM, .lease_ms = 1000};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a");
    semel_outcome outcome;
    semel_unit *unit = NULL;
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_dead_discard(f->store, 1, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    FAILS(SEMEL_ENOTFOUND,
          semel_inbox_replay(&outcome, inbox, 1, scripted_handler_run, NULL, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(outbox, 1, &last_error));
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    OK(semel_unit_set_result(unit, "r", 1, &last_error));
    semel_test_advance_ms(f->seam, 1000);
    OK(semel_inbox_forget(inbox, &message, &last_error)); /* the row is gone under its hands */
    FAILS(SEMEL_ELOST, semel_unit_renew(unit, 0, &last_error));
    FAILS(SEMEL_ELOST, semel_unit_commit(unit, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("P11: retention is right from 1 ms to 100 years", p11_retention_arithmetic),
        ON_BOTH("P11: no retention forgets, and for ever is for ever",
                p11_no_retention_and_for_ever),
        ON_BOTH("P11: clocks that jump end no lease and sweep nothing", p11_clocks_that_jump),
        ON_BOTH("P12: a sweep is bounded and blocks no other", p12_clean_up_in_the_way),
        ON_BOTH("P13: no transaction is open over the broker's I/O",
                p13_transaction_over_broker_io),
        ON_BOTH("P14: keys are compared byte by byte", p14_keys_that_look_alike),
        ON_BOTH("P14: keys are never cut", p14_keys_of_ten_kilobytes),
        ON_BOTH("P14: each inbox has its own keys", p14_one_id_for_two_consumers),
        ON_BOTH("P15: nothing counts as handled before the commit", p15_believed_before_the_commit),
        ON_BOTH("P16: the tail of a slow batch is shed, not sent twice",
                p16_the_tail_of_a_slow_batch),
        ON_BOTH("P17: a replay is not swallowed by its own marker",
                p17_replay_against_its_own_marker),
        ON_BOTH("P18: a relay that was paused past its lease settles nothing",
                p18_a_leader_that_was_paused),
        ON_SQLITE("P19: a reader that stands keeps no other from writing",
                  p19_a_reader_that_stands),
        ON_BOTH("P21: a commit whose answer was lost is settled by asking again",
                p21_the_answer_to_commit_is_lost),
        ON_SQLITE("P22: a damaged row hides no other", p22_one_bad_row),
        ON_BOTH("P24: what changes nothing says so", p24_silent_no_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
