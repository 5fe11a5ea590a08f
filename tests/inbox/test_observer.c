/* The observer of a store: one event for each outcome, by whatever way a message was received,
 * after the commit and outside of every transaction. What observed.c checks at each event is
 * part of each test here. */
#include "support/fixture/observed.h"

#include <semel/sqlite.h>
#include <sqlite3.h>

/* --- receive ---------------------------------------------------------------------------------- */

static void meet_every_outcome(semel_inbox *inbox)
{
    scripted_handler good = {0}, bad = {.failures = 9};
    semel_message other = text_message("a", "another body"), none = text_message("", "body");
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &good);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "a", &good);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &other, &good);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox, &none, &good);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &bad);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "b", &bad);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "b", &bad);
}

static void see_every_outcome(observed *o)
{
    RECEIVED(o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    RECEIVED(o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    RECEIVED(o, SEMEL_MISMATCH, "in", "a", 0, 0, "other content");
    RECEIVED(o, SEMEL_MISSING_KEY, "in", "", 0, 0, "finds nothing");
    RECEIVED(o, SEMEL_FAILED, "in", "b", 1, 1, "out of paper");
    RECEIVED(o, SEMEL_DEAD, "in", "b", 2, 1, "out of paper");
    RECEIVED(o, SEMEL_DEAD, "in", "b", 0, 0, NULL);
    NO_MORE(o);
}

static void check_mode(fixture *f, semel_mode mode)
{
    observed o;
    semel_inbox_options options = {
        .mode = mode, .attempts_max = 2, .on_missing_key = SEMEL_MISSING_KEY_REJECT};
    observed_open(&o, f, NULL);
    meet_every_outcome(observed_inbox(&o, "in", options));
    see_every_outcome(&o);
}

static void each_outcome_of_a_transaction_is_one_event(void **state)
{
    check_mode(*state, SEMEL_TRANSACTION);
}

static void each_outcome_of_a_claim_is_one_event(void **state)
{
    check_mode(*state, SEMEL_CLAIM);
}

static void each_outcome_of_a_plan_is_one_event(void **state)
{
    check_mode(*state, SEMEL_QUEUED);
}

/* The handler has run twice; its first run was undone. */
static void check_conflict(fixture *f, semel_mode mode)
{
    observed o;
    scripted_handler todo = {0};
    observed_open(&o, f, NULL);
    semel_inbox *inbox = observed_inbox(&o, "in", (semel_inbox_options){.mode = mode});
    semel_test_fault(f->seam, "receive.handled", 1, SEMEL_ECONFLICT);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &todo);
    assert_int_equal(todo.runs, 2);
    RECEIVED(&o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    NO_MORE(&o);
}

static void what_is_begun_anew_is_one_event(void **state)
{
    check_conflict(*state, SEMEL_TRANSACTION);
}

static void what_is_planned_anew_is_one_event(void **state)
{
    check_conflict(*state, SEMEL_QUEUED);
}

static void what_is_undecided_is_no_event(void **state)
{
    observed o;
    fixture *f = *state;
    scripted_handler todo = {0};
    observed_open(&o, f, NULL);
    semel_inbox *inbox = observed_inbox(&o, "in", (semel_inbox_options){0});
    semel_test_fault(f->seam, "receive.begun", 1, SEMEL_EUNAVAILABLE);
    RECEIVES_ID(SEMEL_EUNAVAILABLE, SEMEL_UNDECIDED, inbox, "a", &todo);
    semel_test_fault(f->seam, "receive.marked", 1, SEMEL_EBUSY);
    RECEIVES_ID(SEMEL_EBUSY, SEMEL_UNDECIDED, inbox, "a", &todo);
    NO_MORE(&o);
}

static semel_status lose_the_claim(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    (void)unit, (void)message, (void)err;
    observed *o = context;
    scripted_handler other = {0};
    semel_test_advance_ms(o->f->seam, 3600000);
    o->inside = 1;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, o->copies, message, &other);
    o->inside = 0;
    return SEMEL_OK;
}

/* The work was done, and another one's counts. */
static void a_lost_claim_is_a_failure(void **state)
{
    observed o;
    observed_open(&o, *state, NULL);
    semel_inbox *inbox = observed_inbox(&o, "in", (semel_inbox_options){.mode = SEMEL_CLAIM});
    RECEIVES_ID_BY(SEMEL_ELOST, SEMEL_UNDECIDED, inbox, "a", lose_the_claim, &o);
    RECEIVED(&o, SEMEL_FAILED, "in", "a", 1, 1, "");
    assert_int_equal(o.count, 1);
}

/* --- steps ------------------------------------------------------------------------------------ */

static semel_unit *claim(observed *o, semel_inbox *inbox, semel_status status,
                         semel_outcome outcome, const semel_message *message)
{
    semel_outcome got;
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, o->f->store, &last_error));
    FAILS(status, semel_unit_claim(&got, unit, inbox, message, &last_error));
    OUTCOME(outcome, got);
    return unit;
}

static void take_steps(observed *o, semel_inbox *inbox)
{
    semel_outcome out;
    semel_error why = {.status = SEMEL_EHANDLER, .text = "no ink"};
    semel_message a = text_message("a", "body"), b = text_message("b", "body");
    OK(semel_unit_commit(claim(o, inbox, SEMEL_OK, SEMEL_CLAIMED, &a), &last_error));
    RECEIVED(o, SEMEL_PROCESSED, "in", "a", 1, 0, NULL);
    semel_unit_rollback(claim(o, inbox, SEMEL_OK, SEMEL_CLAIMED, &b));
    OK(semel_unit_fail(&out, claim(o, inbox, SEMEL_OK, SEMEL_CLAIMED, &b), &why, &last_error));
    RECEIVED(o, SEMEL_FAILED, "in", "b", 1, 0, "no ink");
    OK(semel_unit_fail(&out, claim(o, inbox, SEMEL_OK, SEMEL_CLAIMED, &b), &why, &last_error));
    RECEIVED(o, SEMEL_DEAD, "in", "b", 2, 0, "no ink");
}

/* The transaction of the unit is open until the unit ends: the event waits for that. */
static void see_what_is_not_claimed(observed *o, semel_inbox *inbox)
{
    semel_outcome out;
    semel_message a = text_message("a", "body"), other = text_message("a", "other");
    semel_unit *unit = claim(o, inbox, SEMEL_OK, SEMEL_DUPLICATE, &a);
    assert_int_equal(o->seen, o->count);
    semel_unit_rollback(unit);
    RECEIVED(o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    unit = claim(o, inbox, SEMEL_EREJECTED, SEMEL_MISMATCH, &other);
    FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
    RECEIVED(o, SEMEL_MISMATCH, "in", "a", 0, 0, "other content");
    (void)semel_unit_fail(&out, claim(o, inbox, SEMEL_OK, SEMEL_DUPLICATE, &a), NULL, &last_error);
    RECEIVED(o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
}

static void check_steps(fixture *f, semel_mode mode)
{
    observed o;
    observed_open(&o, f, NULL);
    semel_inbox *inbox =
        observed_inbox(&o, "in", (semel_inbox_options){.mode = mode, .attempts_max = 2});
    take_steps(&o, inbox);
    see_what_is_not_claimed(&o, inbox);
    NO_MORE(&o);
}

static void steps_are_reported_at_their_end(void **state)
{
    check_steps(*state, SEMEL_TRANSACTION);
}

static void steps_of_a_claim_are_reported_at_their_end(void **state)
{
    check_steps(*state, SEMEL_CLAIM);
}

static void joined_is_reported_when_the_unit_ends(void **state)
{
    observed o;
    fixture *f = *state;
    sqlite3 *db = NULL;
    semel_unit *unit = NULL;
    semel_outcome out;
    semel_message a = text_message("a", "body");
    observed_open(&o, f, NULL);
    o.looks_only = 1;
    semel_inbox *inbox = observed_inbox(&o, "in", (semel_inbox_options){0});
    assert_int_equal(sqlite3_open(strchr(f->place.url, ':') + 1, &db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        OK(semel_unit_join_sqlite(&unit, f->store, db, &last_error));
        OK(semel_unit_claim(&out, unit, inbox, &a, &last_error));
        OUTCOME(i ? SEMEL_DUPLICATE : SEMEL_CLAIMED, out);
        assert_int_equal(o.seen, o.count);
        if (i)
            semel_unit_rollback(unit);
        else
            OK(semel_unit_commit(unit, &last_error));
        assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
        RECEIVED(&o, i ? SEMEL_DUPLICATE : SEMEL_PROCESSED, "in", "a", !i, 0, NULL);
    }
    NO_MORE(&o);
    sqlite3_close(db);
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { BATCH = 8 };

static void receive_batch(semel_inbox *inbox, scripted_handler *todo, semel_message messages[BATCH])
{
    semel_outcome out[BATCH];
    const semel_message *all[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        all[i] = &messages[i];
    OK(semel_inbox_receive_batch(out, inbox, all, BATCH, scripted_handler_run, todo, &last_error));
}

static void each_message_of_a_batch_is_one_event(void **state)
{
    observed o;
    scripted_handler todo = {.failures = 9, .only = "bad"};
    semel_message messages[BATCH] = {text_message("a", "body"),   text_message("a", "body"),
                                     text_message("bad", "body"), text_message("bad", "body"),
                                     text_message("known", "1"),  text_message("", "no key"),
                                     text_message("again", ""),   text_message("known", "2")};
    messages[6].delivery = 2;
    observed_open(&o, *state, NULL);
    semel_inbox *inbox =
        observed_inbox(&o, "in", (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_REJECT});
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &messages[4], &todo);
    RECEIVED(&o, SEMEL_PROCESSED, "in", "known", 1, 1, NULL);
    receive_batch(inbox, &todo, messages);
    RECEIVED(&o, SEMEL_MISSING_KEY, "in", "", 0, 0, "finds nothing");
    RECEIVED(&o, SEMEL_PROCESSED, "in", "again", 2, 1, NULL);
    RECEIVED(&o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    RECEIVED(&o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    RECEIVED(&o, SEMEL_FAILED, "in", "bad", 1, 1, "out of paper");
    RECEIVED(&o, SEMEL_FAILED, "in", "bad", 0, 0, "out of paper");
    RECEIVED(&o, SEMEL_DUPLICATE, "in", "known", 0, 0, NULL);
    RECEIVED(&o, SEMEL_MISMATCH, "in", "known", 0, 0, "other content");
    NO_MORE(&o);
}

/* The seam of a store between two tries: another one handles the message meanwhile. */
typedef struct meddling {
    semel_seam seam;
    const semel_seam *host;
    observed *o;
    semel_message message;
} meddling;

static semel_status pass_on_fault(void *context, const char *point)
{
    meddling *m = context;
    return m->host->fault(m->host->context, point);
}

static void meddle(void *context, uint32_t ms)
{
    meddling *m = context;
    scripted_handler other = {0};
    m->host->sleep_ms(m->host->context, ms);
    m->o->inside = 1;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, m->o->copies, &m->message, &other);
    m->o->inside = 0;
}

static int64_t meddling_wall(void *context)
{
    meddling *m = context;
    return m->host->wall_ms(m->host->context);
}

static int64_t meddling_steady(void *context)
{
    meddling *m = context;
    return m->host->steady_ms(m->host->context);
}

/* The handler ran, in a transaction that was undone; what is reported is the second try. */
static void an_undone_try_leaves_no_trace(void **state)
{
    observed o;
    fixture *f = *state;
    semel_outcome out[2];
    scripted_handler todo = {0};
    semel_message a = text_message("a", "body"), b = text_message("b", "body");
    const semel_message *both[] = {&a, &b};
    meddling m = {.host = f->host, .o = &o, .message = a};
    m.seam = (semel_seam){.size = sizeof m.seam,
                          .context = &m,
                          .wall_ms = meddling_wall,
                          .steady_ms = meddling_steady,
                          .sleep_ms = meddle,
                          .fault = pass_on_fault};
    observed_open(&o, f, &m.seam);
    semel_inbox *inbox = observed_inbox(&o, "in", (semel_inbox_options){0});
    semel_test_fault(f->seam, "batch.handled", 2, SEMEL_ECONFLICT);
    OK(semel_inbox_receive_batch(out, inbox, both, 2, scripted_handler_run, &todo, &last_error));
    RECEIVED(&o, SEMEL_DUPLICATE, "in", "a", 0, 0, NULL);
    RECEIVED(&o, SEMEL_PROCESSED, "in", "b", 1, 1, NULL);
    assert_int_equal(o.count, 2);
    assert_int_equal(todo.runs, 3);
}

/* --- replay ----------------------------------------------------------------------------------- */

static void check_replay(fixture *f, semel_mode mode)
{
    observed o;
    semel_outcome out;
    scripted_handler todo = {.failures = 2};
    observed_open(&o, f, NULL);
    semel_inbox *inbox =
        observed_inbox(&o, "in", (semel_inbox_options){.mode = mode, .attempts_max = 1});
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "a", &todo);
    RECEIVED(&o, SEMEL_DEAD, "in", "a", 1, 1, "out of paper");
    int64_t id = fixture_only_letter(f).id;
    FAILS(SEMEL_EHANDLER,
          semel_inbox_replay(&out, inbox, id, scripted_handler_run, &todo, &last_error));
    RECEIVED(&o, SEMEL_FAILED, "in", "a", 1, 1, "out of paper");
    TRIED_AGAIN_IN(&o, 0);
    OK(semel_inbox_replay(&out, inbox, id, scripted_handler_run, &todo, NULL));
    RECEIVED(&o, SEMEL_PROCESSED, "in", "a", 1, 1, NULL);
    FAILS(SEMEL_ENOTFOUND,
          semel_inbox_replay(&out, inbox, id, scripted_handler_run, &todo, &last_error));
    NO_MORE(&o);
}

static void a_replay_is_one_event(void **state)
{
    check_replay(*state, SEMEL_TRANSACTION);
}

static void a_replay_by_claim_is_one_event(void **state)
{
    check_replay(*state, SEMEL_CLAIM);
}

/* --- transactions ----------------------------------------------------------------------------- */

typedef struct ends {
    size_t of[SEMEL_OPERATION_QUEUE + 1][2]; /* rolled back, committed */
} ends;

static void note_end(void *context, const semel_transaction_end *end)
{
    ends *seen = context;
    assert_int_equal(end->size, sizeof *end);
    assert_true(end->took_ns > 0);
    seen->of[end->operation][end->is_committed]++;
}

#define ENDS(seen, operation, committed, rolled_back)           \
    do {                                                        \
        assert_int_equal((seen).of[operation][1], committed);   \
        assert_int_equal((seen).of[operation][0], rolled_back); \
        (seen).of[operation][0] = (seen).of[operation][1] = 0;  \
    } while (0)

static semel_store *watched_store(fixture *f, ends *seen)
{
    semel_store_options options = {
        .size = sizeof options, .transactions = note_end, .observer_context = seen};
    fixture_close_things(f);
    OK(semel_store_open(&f->store, f->place.url, &options, &last_error));
    OK(semel_store_migrate(f->store, &last_error));
    return f->store;
}

static void check_transactions(fixture *f, semel_mode mode, size_t of_one_message)
{
    ends seen = {0};
    scripted_handler good = {0}, bad = {.failures = 1};
    (void)watched_store(f, &seen);
    semel_inbox_options options = {.size = sizeof options, .mode = mode};
    semel_inbox *inbox = fixture_inbox(f, "in", &options);
    seen = (ends){0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &good);
    ENDS(seen, SEMEL_OPERATION_RECEIVE, of_one_message, 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "a", &good);
    assert_int_equal(seen.of[SEMEL_OPERATION_RECEIVE][1], 0);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &bad);
    assert_true(seen.of[SEMEL_OPERATION_RECEIVE][0] + seen.of[SEMEL_OPERATION_RECEIVE][1] > 0);
}

static void transactions_of_an_inbox_are_reported(void **state)
{
    check_transactions(*state, SEMEL_TRANSACTION, 1);
}

static void transactions_of_a_claim_are_reported(void **state)
{
    check_transactions(*state, SEMEL_CLAIM, 2);
}

static void transactions_of_a_relay_are_reported(void **state)
{
    ends seen = {0};
    fixture *f = *state;
    size_t sent;
    (void)watched_store(f, &seen);
    semel_message message = text_message("a", "body");
    semel_outbox *outbox = fixture_outbox(f, "mail");
    semel_relay *relay = fixture_relay(f, outbox, fixture_recorder(f), NULL);
    seen = (ends){0};
    OK(semel_outbox_send(outbox, &message, &last_error));
    ENDS(seen, SEMEL_OPERATION_OTHER, 1, 0);
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    assert_int_equal(sent, 1);
    ENDS(seen, SEMEL_OPERATION_RELAY, 2, 0);
}

/* The caller's transaction is the caller's to measure. */
static void a_transaction_of_the_caller_is_not_reported(void **state)
{
    ends seen = {0};
    fixture *f = *state;
    sqlite3 *own = NULL;
    semel_unit *unit = NULL;
    semel_store *store = watched_store(f, &seen);
    seen = (ends){0};
    assert_int_equal(sqlite3_open(strchr(f->place.url, ':') + 1, &own), SQLITE_OK);
    assert_int_equal(sqlite3_exec(own, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    OK(semel_unit_join_sqlite(&unit, store, own, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(sqlite3_exec(own, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(own);
    for (int i = 0; i <= SEMEL_OPERATION_QUEUE; i++)
        ENDS(seen, i, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("each outcome of a transaction is one event",
                each_outcome_of_a_transaction_is_one_event),
        ON_BOTH("each outcome of a claim is one event", each_outcome_of_a_claim_is_one_event),
        ON_SQLITE("each outcome of a plan is one event", each_outcome_of_a_plan_is_one_event),
        ON_BOTH("what is begun anew is one event", what_is_begun_anew_is_one_event),
        ON_SQLITE("what is planned anew is one event", what_is_planned_anew_is_one_event),
        ON_BOTH("what is undecided is no event", what_is_undecided_is_no_event),
        ON_BOTH("a lost claim is a failure", a_lost_claim_is_a_failure),
        ON_BOTH("steps are reported at their end", steps_are_reported_at_their_end),
        ON_BOTH("steps of a claim are reported at their end",
                steps_of_a_claim_are_reported_at_their_end),
        ON_SQLITE("joined is reported when the unit ends", joined_is_reported_when_the_unit_ends),
        ON_BOTH("each message of a batch is one event", each_message_of_a_batch_is_one_event),
        ON_BOTH("an undone try leaves no trace", an_undone_try_leaves_no_trace),
        ON_BOTH("a replay is one event", a_replay_is_one_event),
        ON_BOTH("a replay by claim is one event", a_replay_by_claim_is_one_event),
        ON_SQLITE("transactions of an inbox are reported", transactions_of_an_inbox_are_reported),
        ON_SQLITE("transactions of a claim are reported", transactions_of_a_claim_are_reported),
        ON_SQLITE("transactions of a relay are reported", transactions_of_a_relay_are_reported),
        ON_SQLITE("a transaction of the caller is not reported",
                  a_transaction_of_the_caller_is_not_reported)};
    return cmocka_run_group_tests_name("observer", tests, NULL, NULL);
}
