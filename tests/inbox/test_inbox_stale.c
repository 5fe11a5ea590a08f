/* Stale messages: those without a marker that were made no later than the newest marker that was
 * ever removed. Everything else without a marker is a first copy, however late it comes. */
#include "core/store.h"
#include "support/fixture/fixture.h"

#include <stdio.h>

enum { MARGIN_MS = 60000 }; /* the default */
static const int64_t hour_ms = 3600000, day_ms = 24 * 3600000;

/* An inbox that remembers for an hour. */
static semel_inbox *inbox_for_an_hour(fixture *f, const char *name, semel_inbox_options options)
{
    options.size = sizeof options;
    options.retention_ms = (uint64_t)hour_ms;
    return fixture_inbox(f, name, &options);
}

static void both_modes_for_an_hour(semel_inbox *inboxes[2], fixture *f)
{
    fixture_both_modes(inboxes, f, (semel_inbox_options){.retention_ms = (uint64_t)hour_ms});
}

static int64_t now(fixture *f)
{
    return f->host->wall_ms(f->host->context);
}

static semel_message message_of_age(fixture *f, const char *id, int64_t age_ms)
{
    semel_message message = text_message(id, "a");
    message.time_ms = now(f) - age_ms;
    return message;
}

static void forget_an_hour(fixture *f, semel_inbox *inbox)
{
    fixture_forget(f, inbox, (uint64_t)hour_ms);
}

/* --- late, and not stale ---------------------------------------------------------------------- */

static void a_late_message_runs_if_nothing_was_forgotten(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message late = message_of_age(f, "late", 1000 * day_ms);
    both_modes_for_an_hour(inboxes, f);
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &late, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &late, &todo);
        assert_int_equal(todo.runs, 1);
    }
    assert_int_equal(fixture_counters(f).stale, 0);
}

/* The consumers were away for eight days. What was made since they went cannot have been
 * handled. */
static void a_backlog_older_than_the_retention_runs(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        semel_message backlog[8];
        char ids[8][2] = {"0", "1", "2", "3", "4", "5", "6", "7"};
        int64_t went = now(f);
        fixture_forget(f, inbox, (uint64_t)(8 * day_ms));
        for (int i = 0; i < 8; i++) {
            backlog[i] = text_message(ids[i], "a");
            backlog[i].time_ms = went + i * day_ms + 2 * MARGIN_MS;
            RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &backlog[i], &todo);
        }
        assert_int_equal(todo.runs, 8);
    }
}

static void a_retention_of_five_minutes_and_a_wait_of_six(void **state)
{
    fixture *f = *state;
    semel_inbox_options short_memory = {.size = sizeof short_memory, .retention_ms = 300000};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &short_memory);
    scripted_handler todo = {0};
    fixture_forget(f, inbox, short_memory.retention_ms);
    for (int i = 0; i < 20; i++) { /* with a sweep between any two */
        char id[8];
        (void)snprintf(id, sizeof id, "%d", i);
        semel_message waiting = message_of_age(f, id, 0);
        semel_test_advance_ms(f->seam, 360000);
        fixture_sweep(inbox);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &waiting, &todo);
        semel_test_advance_ms(f->seam, MARGIN_MS + 1);
    }
    assert_int_equal(todo.runs, 20);
}

/* --- stale ------------------------------------------------------------------------------------ */

/* With a margin: the clock that gave the message its time may be ahead of the store's. */
static void what_was_made_before_the_newest_forgotten_key_is_stale(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    both_modes_for_an_hour(inboxes, f);
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        semel_message before = message_of_age(f, "before", 0),
                      after = message_of_age(f, "after", 0);
        before.time_ms += MARGIN_MS;
        after.time_ms += MARGIN_MS + 1;
        forget_an_hour(f, inbox);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &before, &todo);
        SAYS("may have been handled before");
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &after, &todo);
        assert_int_equal(todo.runs, 1);
    }
    assert_int_equal(fixture_counters(f).stale, 2);
}

static void the_margin_is_an_option(void **state)
{
    fixture *f = *state;
    semel_inbox *narrow = inbox_for_an_hour(f, "1", (semel_inbox_options){.clock_margin_ms = 1});
    semel_inbox *wide =
        inbox_for_an_hour(f, "2", (semel_inbox_options){.clock_margin_ms = 10 * MARGIN_MS});
    semel_message later = message_of_age(f, "later", -5 * MARGIN_MS);
    semel_message soon = message_of_age(f, "soon", -1);
    scripted_handler todo = {0};
    forget_an_hour(f, narrow);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, narrow, &soon, &todo);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, narrow, &later, &todo);
    later = message_of_age(f, "later", -5 * MARGIN_MS);
    forget_an_hour(f, wide);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, wide, &later, &todo);
}

static void while_its_marker_is_there_an_old_copy_is_a_duplicate(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    both_modes_for_an_hour(inboxes, f);
    EACH_MODE(inbox, inboxes)
    {
        semel_message message = message_of_age(f, "1", 0);
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        semel_test_advance_ms(f->seam, 2 * hour_ms);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        fixture_sweep(inbox);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &message, &todo);
        assert_int_equal(todo.runs, 1);
    }
}

static void the_default_retention_is_seven_days(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "default", NULL);
    semel_message message = message_of_age(f, "1", 0);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    semel_test_advance_ms(f->seam, 7 * day_ms);
    fixture_sweep(inbox);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
    semel_test_advance_ms(f->seam, 1);
    fixture_sweep(inbox);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &message, &todo);
}

static void refusing_a_stale_message_leaves_nothing_behind(void **state)
{
    fixture *f = *state;
    for (uint32_t delivery = 0; delivery <= 2; delivery += 2)
        for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
            char name[32];
            (void)snprintf(name, sizeof name, "%d-%u", (int)mode, delivery);
            semel_inbox *strict = inbox_for_an_hour(f, name, (semel_inbox_options){.mode = mode});
            semel_inbox *lenient = inbox_for_an_hour(
                f, name, (semel_inbox_options){.mode = mode, .on_stale = SEMEL_STALE_PROCESS});
            semel_message old = message_of_age(f, "1", 0);
            scripted_handler todo = {0};
            old.delivery = delivery;
            forget_an_hour(f, strict);
            RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, strict, &old, &todo);
            RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, strict, &old, &todo);
            RECEIVES(SEMEL_OK, SEMEL_PROCESSED, lenient, &old, &todo);
            assert_int_equal(todo.runs, 1);
            assert_int_equal(todo.attempt, delivery == 2 && mode == SEMEL_TRANSACTION ? 2 : 1);
        }
}

static void forgetting_one_key_by_hand_makes_nothing_stale(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message message = message_of_age(f, "1", 0), other = message_of_age(f, "2", 0);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    OK(semel_inbox_forget(inbox, &message, &last_error));
    semel_test_advance_ms(f->seam, 2 * hour_ms);
    fixture_sweep(inbox);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &other, &todo);
}

/* What the shorter retention has removed, the longer one does not bring back. */
static void a_longer_retention_still_finds_them_stale(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    both_modes_for_an_hour(inboxes, f);
    for (int i = 0; i < 2; i++) {
        semel_inbox_options longer = {.size = sizeof longer, .mode = i ? SEMEL_CLAIM : 0};
        semel_message message = message_of_age(f, "1", 0);
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inboxes[i], &message, &todo);
        forget_an_hour(f, inboxes[i]);
        semel_inbox *later = fixture_inbox(f, i ? "by-claim" : "by-transaction", &longer);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, later, &message, &todo);
        longer.retention_ms = SEMEL_RETENTION_FOREVER;
        later = fixture_inbox(f, i ? "by-claim" : "by-transaction", &longer);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, later, &message, &todo);
        assert_int_equal(todo.runs, 1);
    }
}

static void with_no_retention_all_is_looked_up(void **state)
{
    fixture *f = *state;
    semel_inbox_options none = {
        .size = sizeof none, .retention_ms = SEMEL_RETENTION_NONE, .clock_margin_ms = 1};
    semel_inbox *inbox = fixture_inbox(f, "none", &none);
    semel_message message = message_of_age(f, "1", 0), before = message_of_age(f, "2", 1);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    fixture_sweep(inbox);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &message, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &before, &todo);
    semel_test_advance_ms(f->seam, 2);
    semel_message later = message_of_age(f, "3", 0);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &later, &todo);
}

/* --- attempts --------------------------------------------------------------------------------- */

/* Its failed attempt is on record: so it was not handled, and its age is no reason to refuse it. */
static void a_message_that_failed_before_is_tried_again_however_old(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    both_modes_for_an_hour(inboxes, f);
    EACH_MODE(inbox, inboxes)
    {
        semel_message message = message_of_age(f, "1", 2 * hour_ms);
        scripted_handler todo = {.failures = 2};
        message.delivery = 1;
        forget_an_hour(f, inbox);
        message.time_ms = now(f);
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        message.time_ms = now(f) - 2 * hour_ms;
        message.delivery = 2;
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        assert_int_equal(todo.attempt, 2);
        message.delivery = 3;
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        assert_int_equal(todo.attempt, 3);
    }
}

/* The first delivery counts as an attempt, though it was not counted. */
static void the_first_redelivery_of_an_old_message_is_attempt_two(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message message = message_of_age(f, "1", day_ms);
    scripted_handler todo = {.failures = 2};
    message.delivery = 2;
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
    assert_int_equal(todo.attempt, 2);
    message.delivery = 3;
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
    assert_int_equal(todo.attempt, 3);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.attempt, 4);
}

static void an_old_message_with_a_single_attempt_gets_it(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){.attempts_max = 1});
    semel_message message = message_of_age(f, "1", day_ms);
    scripted_handler todo = {0};
    message.delivery = 2;
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.attempt, 1);
}

static void a_dead_letter_can_be_replayed_however_old(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    both_modes_for_an_hour(inboxes, f);
    EACH_MODE(inbox, inboxes)
    {
        semel_message message = message_of_age(f, "1", 0);
        semel_outcome outcome;
        scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        forget_an_hour(f, inbox);
        OK(semel_inbox_replay(&outcome, inbox, fixture_only_letter(f).id, scripted_handler_run,
                              &todo, &last_error));
        OUTCOME(SEMEL_PROCESSED, outcome);
        assert_int_equal(todo.runs, 2);
    }
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { MANY = 10, STALE_ONE = 3, STALE_OTHER = 7 };

/* The others are handled, in one transaction. */
static void in_a_batch_only_the_stale_ones_are_refused(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    static char ids[MANY][8];
    semel_message messages[MANY];
    const semel_message *list[MANY];
    semel_outcome outcomes[MANY];
    scripted_handler todo = {0};
    int64_t before = now(f);
    forget_an_hour(f, inbox);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "m%d", i);
        messages[i] = message_of_age(f, ids[i], i % 2 ? 0 : hour_ms - 2 * MARGIN_MS);
        list[i] = &messages[i];
    }
    messages[STALE_ONE].time_ms = messages[STALE_OTHER].time_ms = before;
    uint32_t commits = semel_test_passed(f->seam, "batch.committed");
    OK(semel_inbox_receive_batch(outcomes, inbox, list, MANY, scripted_handler_run, &todo,
                                 &last_error));
    SAYS("may have been handled before");
    for (int i = 0; i < MANY; i++)
        OUTCOME(i == STALE_ONE || i == STALE_OTHER ? SEMEL_STALE : SEMEL_PROCESSED, outcomes[i]);
    assert_int_equal(todo.runs, MANY - 2);
    assert_int_equal(semel_test_passed(f->seam, "batch.committed"), commits + 1);
    assert_int_equal(fixture_counters(f).stale, 2);
    assert_int_equal(fixture_counters(f).processed, MANY - 2 + 1);
}

static void in_a_batch_late_messages_run_if_nothing_was_forgotten(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message one = message_of_age(f, "1", day_ms), other = message_of_age(f, "2", 2 * day_ms);
    const semel_message *const list[] = {&one, &other, &one};
    semel_outcome outcomes[3];
    scripted_handler todo = {0};
    OK(semel_inbox_receive_batch(outcomes, inbox, list, 3, scripted_handler_run, &todo,
                                 &last_error));
    OUTCOME(SEMEL_PROCESSED, outcomes[0]);
    OUTCOME(SEMEL_PROCESSED, outcomes[1]);
    OUTCOME(SEMEL_DUPLICATE, outcomes[2]);
    assert_int_equal(todo.runs, 2);
}

/* --- a claim that takes long ------------------------------------------------------------------ */

static struct {
    fixture *f;
    semel_inbox *inbox;
    const semel_store_driver *original;
    semel_store_driver driver;
    semel_store_markers markers;
} slow;

/* The message was young when the core looked; then its marker became old enough to be swept. */
static void let_it_be_swept(void)
{
    semel_test_advance_ms(slow.f->seam, 2 * hour_ms);
    if (slow.inbox)
        fixture_sweep(slow.inbox);
    slow.inbox = NULL;
}

static semel_status mark_slowly(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                                semel_error *err)
{
    let_it_be_swept();
    return slow.original->markers->mark(unit, marks, count, wait_ms, err);
}

static semel_status claim_slowly(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    let_it_be_swept();
    return slow.original->markers->claim(unit, mark, lease_ms, err);
}

static void open_slow_driver(fixture *f)
{
    slow.f = f;
    slow.original = f->store->driver;
    slow.driver = *slow.original;
    slow.markers = *slow.original->markers;
    slow.markers.mark = mark_slowly;
    slow.markers.claim = claim_slowly;
    slow.driver.markers = &slow.markers;
}

static void a_copy_that_becomes_old_while_it_waits_is_stale(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    both_modes_for_an_hour(inboxes, f);
    open_slow_driver(f);
    for (uint32_t delivery = 1; delivery <= 2; delivery++)
        EACH_MODE(inbox, inboxes)
        {
            scripted_handler todo = {0};
            char id[8];
            (void)snprintf(id, sizeof id, "%u", delivery);
            semel_message message = message_of_age(f, id, 0);
            const semel_message *const list[] = {&message, &message};
            semel_outcome outcomes[2];
            RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
            message.delivery = delivery;
            slow.inbox = inbox;
            f->store->driver = &slow.driver;
            OK(semel_inbox_receive_batch(outcomes, inbox, list, 2, scripted_handler_run, &todo,
                                         &last_error));
            f->store->driver = slow.original;
            OUTCOME(SEMEL_STALE, outcomes[0]);
            OUTCOME(SEMEL_STALE, outcomes[1]);
            assert_int_equal(todo.runs, 1);
        }
}

/* --- a store that keeps no notes -------------------------------------------------------------- */

/* Its sweeps may have removed everything that is older than the retention. */
static void without_notes_everything_older_than_the_retention_is_stale(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    const semel_store_driver *original = f->store->driver;
    semel_store_driver plain = *original;
    plain.notes = NULL;
    f->store->driver = &plain;
    both_modes_for_an_hour(inboxes, f);
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        semel_message old = message_of_age(f, "old", hour_ms);
        semel_message young = message_of_age(f, "young", hour_ms - MARGIN_MS - 1);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &old, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &young, &todo);
        semel_test_advance_ms(f->seam, hour_ms);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &young, &todo);
        assert_int_equal(todo.runs, 1);
    }
    f->store->driver = original;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a late message runs if nothing was forgotten",
                a_late_message_runs_if_nothing_was_forgotten),
        ON_BOTH("a backlog older than the retention runs", a_backlog_older_than_the_retention_runs),
        ON_BOTH("a retention of five minutes and a wait of six",
                a_retention_of_five_minutes_and_a_wait_of_six),
        ON_BOTH("what was made before the newest forgotten key is stale",
                what_was_made_before_the_newest_forgotten_key_is_stale),
        ON_BOTH("the margin is an option", the_margin_is_an_option),
        ON_BOTH("while its marker is there an old copy is a duplicate",
                while_its_marker_is_there_an_old_copy_is_a_duplicate),
        ON_BOTH("the default retention is seven days", the_default_retention_is_seven_days),
        ON_BOTH("refusing a stale message leaves nothing behind",
                refusing_a_stale_message_leaves_nothing_behind),
        ON_BOTH("forgetting one key by hand makes nothing stale",
                forgetting_one_key_by_hand_makes_nothing_stale),
        ON_BOTH("a longer retention still finds them stale",
                a_longer_retention_still_finds_them_stale),
        ON_BOTH("with no retention all is looked up", with_no_retention_all_is_looked_up),
        ON_BOTH("a message that failed before is tried again, however old",
                a_message_that_failed_before_is_tried_again_however_old),
        ON_BOTH("the first redelivery of an old message is attempt two",
                the_first_redelivery_of_an_old_message_is_attempt_two),
        ON_BOTH("an old message with a single attempt gets it",
                an_old_message_with_a_single_attempt_gets_it),
        ON_BOTH("a dead letter can be replayed, however old",
                a_dead_letter_can_be_replayed_however_old),
        ON_BOTH("in a batch only the stale ones are refused",
                in_a_batch_only_the_stale_ones_are_refused),
        ON_BOTH("in a batch late messages run if nothing was forgotten",
                in_a_batch_late_messages_run_if_nothing_was_forgotten),
        ON_MEMORY("a copy that becomes old while it waits is stale",
                  a_copy_that_becomes_old_while_it_waits_is_stale),
        ON_BOTH("without notes everything older than the retention is stale",
                without_notes_everything_older_than_the_retention_is_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
