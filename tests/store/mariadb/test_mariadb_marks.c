/* Markers on MariaDB: what the INSERT that never fails tells of a key, waits and deadlocks of
 * InnoDB's own making, and what a look before the INSERT is worth. */
#include "mariadb_kit.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <semel/test.h>

/* --- what the answer tells -------------------------------------------------------------------- */

/* LAST_INSERT_ID brings the fingerprint. Whatever it is, also where it is one of the numbers that
 * mean something else, it is compared as it is. */
static void every_fingerprint_is_compared(void **state)
{
    server_case *c = *state;
    static const char *const kept[] = {
        "1", "2", "3", "-1", "-9223372036854775808", "9223372036854775807"};
    semel_message message = text_message("m", "10 EUR");
    case_work todo = {.wrong = SEMEL_OK};
    semel_outcome out;
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char sql[128];
        (void)snprintf(sql, sizeof sql, "UPDATE semel_marker SET fingerprint = %s", kept[i]);
        server_run(c->base.place.url, sql);
        for (int k = 0; k < 6; k++) {
            FAILS(SEMEL_EREJECTED,
                  semel_inbox_receive(&out, c->inbox, &message, case_handle, &todo, &last_error));
            assert_int_equal(out, SEMEL_MISMATCH);
        }
    }
    server_run(c->base.place.url, "UPDATE semel_marker SET fingerprint = NULL");
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    assert_int_equal(case_times(c, "m"), 1);
}

static void without_fingerprints_the_key_alone_decides(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .on_mismatch = SEMEL_MISMATCH_IGNORE};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
    for (int i = 0; i < 8; i++)
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    server_run(c->base.place.url, "UPDATE semel_marker SET fingerprint = 2");
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    assert_int_equal(case_times(c, "m"), 1);
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { MANY = 1200 };

typedef struct copies_case {
    char ids[MANY][16];
    semel_message messages[MANY];
    const semel_message *pointers[MANY];
    semel_outcome outcomes[MANY];
} copies_case;

static void name_copies(copies_case *w, unsigned from)
{
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(w->ids[i], sizeof w->ids[i], "k%06u", from + i);
        w->messages[i] = text_message(w->ids[i], "10 EUR");
        w->pointers[i] = &w->messages[i];
    }
}

static unsigned count_outcomes(const copies_case *w, semel_outcome outcome)
{
    unsigned count = 0;
    for (unsigned i = 0; i < MANY; i++)
        count += w->outcomes[i] == outcome;
    return count;
}

/* Every third is done, every seventh has failed before, one is dead, one is claimed; over several
 * portions. */
static void a_batch_of_all_kinds_is_told_apart(void **state)
{
    server_case *c = *state;
    static copies_case w;
    case_work todo = {.wrong = SEMEL_OK};
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    name_copies(&w, 0);
    server_run(c->base.place.url,
               "INSERT INTO semel_marker (inbox, `key`, state, at_ms, attempts, token, "
               "lease_until_ms) SELECT (SELECT id FROM semel_scope WHERE kind = 1), "
               "concat('k', lpad(seq, 6, '0')), "
               "IF(seq = 5, 2, IF(seq = 4 OR seq % 7 = 0, 1, 0)), 0, "
               "IF(seq % 7 = 0, 1, NULL), IF(seq = 4, 9, NULL), IF(seq = 4, 9e15, NULL) "
               "FROM seq_0_to_1199 WHERE seq % 3 = 0 OR seq % 7 = 0 OR seq IN (4, 5)");
    OK(semel_inbox_receive_batch(w.outcomes, c->inbox, w.pointers, MANY, case_queue, &todo,
                                 &last_error));
    unsigned done = 0, claimed = 0;
    for (unsigned i = 0; i < MANY; i++) {
        semel_outcome expected = i == 5                ? SEMEL_DEAD
                                 : i == 4              ? SEMEL_IN_PROGRESS
                                 : i % 3 == 0 && i % 7 ? SEMEL_DUPLICATE
                                                       : SEMEL_PROCESSED;
        if (w.outcomes[i] != expected)
            fail_msg("%u is %s, not %s", i, semel_outcome_name(w.outcomes[i]),
                     semel_outcome_name(expected));
        done += expected == SEMEL_PROCESSED;
        claimed += expected == SEMEL_IN_PROGRESS;
    }
    assert_int_equal(claimed, 1);
    assert_int_equal(effects(c), done);
    assert_int_equal(case_open_transactions(c), 0);
}

/* The keys that others hold are held, the others are taken, and all of it in one call. */
static void a_batch_goes_on_without_those_that_are_held(void **state)
{
    server_case *c = *state;
    static copies_case w;
    case_work todo = {.wrong = SEMEL_OK};
    semel_message held[3];
    semel_unit *units[3];
    semel_inbox_options options = {.size = sizeof options, .wait_ms = 100};
    for (int reports = 0; reports < 2; reports++) {
        options.on_in_flight = reports ? SEMEL_IN_FLIGHT_REPORT : SEMEL_IN_FLIGHT_WAIT;
        case_close(c);
        case_open(c, CASE_BUSY_MS, &options);
        name_copies(&w, (unsigned)reports * 2 * MANY);
        units[0] = take(c, &held[0], w.ids[0]);
        units[1] = take(c, &held[1], w.ids[600]);
        units[2] = take(c, &held[2], w.ids[MANY - 1]);
        semel_outcome out;
        OK(semel_inbox_receive(&out, c->inbox, &w.messages[700], case_queue, &todo, &last_error));
        OK(semel_inbox_receive_batch(w.outcomes, c->inbox, w.pointers, MANY, case_queue, &todo,
                                     &last_error));
        assert_int_equal(count_outcomes(&w, SEMEL_IN_PROGRESS), 3);
        assert_int_equal(count_outcomes(&w, SEMEL_DUPLICATE), 1);
        assert_int_equal(count_outcomes(&w, SEMEL_PROCESSED), MANY - 4);
        assert_int_equal(w.outcomes[600], SEMEL_IN_PROGRESS);
        for (int i = 0; i < 3; i++)
            semel_unit_rollback(units[i]);
    }
    assert_int_equal(effects(c), 2 * (MANY - 3));
}

/* --- InnoDB's own deadlock -------------------------------------------------------------------- */

typedef struct copy {
    server_case *c;
    test_thread thread;
    case_work todo;
    semel_outcome outcome;
    semel_status status;
    semel_error err;
} copy;

static void receive_copy(test_thread *member)
{
    copy *self = member->context;
    self->status = case_receive(self->c, &self->outcome, "m", &self->todo, &self->err);
}

/* InnoDB refreshes its table of transactions when a session reads it, but not more often than every
 * tenth of a second. */
static void let_it_look_again(void)
{
    for (int64_t next = process_now_ms() + 120; process_now_ms() < next;)
        process_nap();
}

static void await_blocked(const server_case *c, int count)
{
    int64_t deadline = process_now_ms() + CASE_WAIT_MS;
    while (case_blocked(c) < count && process_now_ms() < deadline)
        let_it_look_again();
}

/* The first of several rolls back: those that wait for the same key deadlock, and InnoDB ends one
 * of them. No caller notices that. */
static void when_the_first_rolls_back_one_of_the_others_proceeds(void **state)
{
    enum { COPIES = 4, ROUNDS = 5 };
    server_case *c = *state;
    semel_inbox_options patient = {.size = sizeof patient, .wait_ms = CASE_WAIT_MS};
    case_close(c);
    case_open(c, CASE_BUSY_MS, &patient);
    for (int round = 0; round < ROUNDS; round++) {
        copy copies[COPIES];
        semel_message first;
        unsigned done = 0, runs = 0;
        semel_unit *unit = take(c, &first, "m");
        for (int i = 0; i < COPIES; i++) {
            copies[i] = (copy){.c = c};
            test_thread_start(&copies[i].thread, receive_copy, &copies[i]);
        }
        await_blocked(c, COPIES);
        semel_unit_rollback(unit);
        for (int i = 0; i < COPIES; i++) {
            assert_true(test_thread_join(&copies[i].thread, CASE_WAIT_MS));
            if (copies[i].status)
                fail_msg("%s", copies[i].err.text);
            done += copies[i].outcome == SEMEL_PROCESSED;
            runs += copies[i].todo.work.runs;
        }
        assert_int_equal(done, 1);
        if (c->mode == BY_TRANSACTION) /* in queued mode it only plans */
            assert_int_equal(runs, 1);
        server_run(c->base.place.url, "DELETE FROM semel_marker");
    }
    assert_int_equal(effects(c), ROUNDS);
}

/* --- few rows --------------------------------------------------------------------------------- */

/* A table of few rows is scanned rather than searched, unless the statement forbids it: then each
 * of these would wait for the one that another unit has locked. */
static void no_unit_waits_for_another_key(void **state)
{
    server_case *c = *state;
    semel_message held, message = text_message("a", "10 EUR");
    semel_outcome out;
    semel_unit *second = NULL;
    semel_inbox *claims = NULL;
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .accept_changes = 1};
    case_work failing = {.work = {.failures = 1}};
    OK(semel_inbox_open(&claims, c->base.store, "orders", &options, &last_error));
    semel_unit *unit = take(c, &held, "m");
    int64_t began = process_now_ms();
    CASE_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, c, "z", &failing);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "z", NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "z", NULL);
    OK(semel_unit_begin(&second, c->base.store, &last_error));
    OK(semel_unit_claim(&out, second, claims, &message, &last_error));
    OK(semel_unit_renew(second, 60000, &last_error));
    OK(semel_unit_set_result(second, "x", 1, &last_error));
    OK(semel_unit_commit(second, &last_error));
    OK(semel_inbox_forget(claims, &message, &last_error));
    assert_true(process_now_ms() - began < 3 * CASE_BUSY_MS);
    OK(semel_unit_commit(unit, &last_error));
    semel_inbox_close(claims);
}

/* --- looking first ---------------------------------------------------------------------------- */

/* Copies in many copies at once are looked up by a statement of their own: and among them a new one
 * is still new, a claimed one claimed, and one that is in the hands of another waited for. */
static void many_copies_at_once_hide_nothing(void **state)
{
    server_case *c = *state;
    semel_message held;
    copy late = {.c = c};
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "old", NULL);
    for (int round = 0; round < 3; round++) {
        char id[] = {'n', (char)('0' + round), 0};
        for (int i = 0; i < 10; i++)
            CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "old", NULL);
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, NULL);
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, id, NULL);
    }
    for (int i = 0; i < 10; i++)
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "old", NULL);
    semel_unit *unit = take(c, &held, "m");
    for (int i = 0; i < 10; i++)
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "old", NULL);
    test_thread_start(&late.thread, receive_copy, &late);
    await_blocked(c, 1);
    assert_true(case_sql(unit, "INSERT INTO effect VALUES ('m')"));
    OK(semel_unit_commit(unit, &last_error));
    assert_true(test_thread_join(&late.thread, CASE_WAIT_MS));
    assert_int_equal(late.outcome, SEMEL_DUPLICATE);
    assert_int_equal(case_times(c, "m"), 1);
    let_it_look_again();
    assert_int_equal(case_open_transactions(c), 0);
}

static void many_copies_at_once_cost_one_round_trip_each(void **state)
{
    server_case *c = *state;
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "old", NULL);
    for (int i = 0; i < 10; i++)
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "old", NULL);
    proxy_forget(c->between);
    for (int i = 0; i < 10; i++)
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "old", NULL);
    assert_int_equal(proxy_count(c->between).round_trips, 10);
}

static void many_copies_that_are_replayed_get_their_results(void **state)
{
    server_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_message message = text_message("m", "10 EUR");
    case_work todo = {.work = {.result = "receipt"}};
    semel_outcome out;
    case_close(c);
    case_open(c, CASE_BUSY_MS, &options);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", &todo);
    for (int i = 0; i < 8; i++) {
        semel_result *result = NULL;
        OK(semel_inbox_receive_result(&out, &result, c->inbox, &message, case_handle, &todo,
                                      &last_error));
        assert_int_equal(out, SEMEL_REPLAYED);
        BYTES_EQUAL(semel_str("receipt"), semel_result_bytes(result));
        semel_result_free(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_fingerprint_is_compared, by_transaction),
        CASE(every_fingerprint_is_compared, by_queue),
        CASE(every_fingerprint_is_compared, by_claim),
        CASE(without_fingerprints_the_key_alone_decides, by_transaction),
        CASE(without_fingerprints_the_key_alone_decides, by_queue),
        CASE(a_batch_of_all_kinds_is_told_apart, by_batch),
        CASE(a_batch_goes_on_without_those_that_are_held, by_batch),
        CASE(when_the_first_rolls_back_one_of_the_others_proceeds, by_transaction),
        CASE(when_the_first_rolls_back_one_of_the_others_proceeds, by_queue),
        CASE(no_unit_waits_for_another_key, by_transaction),
        CASE(many_copies_at_once_hide_nothing, by_transaction),
        CASE(many_copies_at_once_hide_nothing, by_queue),
        CASE(many_copies_at_once_cost_one_round_trip_each, by_transaction),
        CASE(many_copies_at_once_cost_one_round_trip_each, by_queue),
        CASE(many_copies_that_are_replayed_get_their_results, by_transaction),
        CASE(many_copies_that_are_replayed_get_their_results, by_queue),
    };
    return cmocka_run_group_tests_name("mariadb: markers", tests, NULL, NULL);
}
