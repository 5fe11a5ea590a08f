/* The public steps that receive is made of: begin, claim, send, set_result, commit, fail, rollback. They do
 * what receive does, and say so when they are used wrongly. */
#include "support/world.h"

#include <semel/sqlite.h>

static semel_unit *begin(world *w)
{
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, w->store, &last_error));
    return unit;
}

#define CLAIMS(status, outcome, unit, inbox, message) \
    check_claim((status), (outcome), (unit), (inbox), (message), __FILE__, __LINE__)

static void check_claim(semel_status status, semel_outcome outcome, semel_unit *unit,
                        semel_inbox *inbox, const semel_message *message, const char *file,
                        int line)
{
    semel_outcome got;
    check_forget();
    check_status(status, semel_unit_claim(&got, unit, inbox, message, &last_error),
                 "semel_unit_claim()", file, line);
    world_check_outcome(outcome, got, file, line);
}

static semel_unit *begin_and_claim(world *w, semel_inbox *inbox, const semel_message *message)
{
    semel_unit *unit = begin(w);
    CLAIMS(SEMEL_OK, SEMEL_CLAIMED, unit, inbox, message);
    return unit;
}

static void assert_counters_equal(const semel_counters *a, const semel_counters *b)
{
    assert_int_equal(a->processed, b->processed);
    assert_int_equal(a->duplicates, b->duplicates);
    assert_int_equal(a->replayed, b->replayed);
    assert_int_equal(a->mismatched, b->mismatched);
    assert_int_equal(a->missing_key, b->missing_key);
    assert_int_equal(a->unprotected, b->unprotected);
    assert_int_equal(a->failed, b->failed);
    assert_int_equal(a->dead, b->dead);
    assert_int_equal(a->captured, b->captured);
    assert_int_equal(a->unsent, b->unsent);
}

/* --- the same as receive ------------------------------------------------------------------------- */

/* What receive does with work_do, by hand. */
static semel_outcome receive_by_hand(world *w, semel_inbox *inbox, const semel_message *message,
                                     work *todo)
{
    semel_outcome outcome;
    semel_unit *unit = begin(w);
    semel_error why = {0};
    semel_status status = semel_unit_claim(&outcome, unit, inbox, message, &last_error);
    if (status || outcome != SEMEL_CLAIMED) {
        semel_unit_rollback(unit);
        return outcome;
    }
    if (work_do(unit, message, todo, &why)) {
        OK(semel_unit_fail(&outcome, unit, &why, &last_error));
        return outcome;
    }
    OK(semel_unit_commit(unit, &last_error));
    return SEMEL_PROCESSED;
}

/* A small history that meets most outcomes, by either way. */
static void live_through(world *w, semel_mode mode, int by_hand, semel_outcome outcomes[12])
{
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = mode,
                                   .attempts_max = 3,
                                   .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_outbox *outbox = world_outbox(w, "out");
    semel_inbox *inbox = world_inbox(w, by_hand ? "by-hand" : "by-receive", &options);
    semel_message event = text_message(NULL, "event");
    static const char *const ids[] = {"good", "good", "good", "",    "bad",  "bad",
                                      "bad",  "bad",  "once", "once", "once", "plain"};
    work todo = {.outbox = outbox, .sends = &event, .result = "done"};
    for (size_t i = 0; i < 12; i++) {
        semel_message message = text_message(ids[i], i == 2 ? "other content" : "a");
        todo.failures = i >= 4 && i <= 8;
        if (i == 11)
            todo = (work){0};
        if (by_hand)
            outcomes[i] = receive_by_hand(w, inbox, &message, &todo);
        else
            (void)semel_inbox_receive(&outcomes[i], inbox, &message, work_do, &todo, NULL);
    }
}

static semel_counters minus(semel_counters a, semel_counters b)
{
    a.processed -= b.processed;
    a.duplicates -= b.duplicates;
    a.replayed -= b.replayed;
    a.mismatched -= b.mismatched;
    a.missing_key -= b.missing_key;
    a.unprotected -= b.unprotected;
    a.failed -= b.failed;
    a.dead -= b.dead;
    a.captured -= b.captured;
    a.unsent -= b.unsent;
    return a;
}

static void the_steps_by_hand_are_receive(void **state)
{
    static const semel_outcome expected[] = {
        SEMEL_PROCESSED, SEMEL_REPLAYED, SEMEL_MISMATCH, SEMEL_MISSING_KEY, SEMEL_FAILED,
        SEMEL_FAILED,    SEMEL_DEAD,     SEMEL_DEAD,     SEMEL_FAILED,      SEMEL_PROCESSED,
        SEMEL_REPLAYED,  SEMEL_PROCESSED};
    world *w = *state;
    for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_outcome received[12], by_hand[12];
        semel_counters start = world_counters(w);
        live_through(w, mode, 0, received);
        semel_counters middle = world_counters(w);
        live_through(w, mode, 1, by_hand);
        semel_counters first = minus(middle, start), second = minus(world_counters(w), middle);
        for (size_t i = 0; i < 12; i++) {
            OUTCOME(expected[i], received[i]);
            OUTCOME(expected[i], by_hand[i]);
        }
        assert_counters_equal(&first, &second);
        assert_int_equal(first.processed, 3);
        assert_int_equal(first.captured, 2);
        semel_message again = text_message("good", "a"); /* for the other mode */
        (void)again;
        w->thing_count -= 0;
        break_marker: (void)0;
    }
}
