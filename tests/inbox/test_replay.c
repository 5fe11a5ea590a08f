/* Dead letters that are replayed, discarded or overtaken: each takes effect once, however often it is asked
 * for, and none is swallowed by its own marker. */
#include "support/fixture/fixture.h"

/* A dead letter in the inbox; its id. */
static int64_t make_letter(world *w, semel_inbox *inbox, const semel_message *message)
{
    letter letters[8];
    work todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, message, &todo);
    size_t count = world_letters(w, letters, 8);
    assert_in_range(count, 1, 8);
    return letters[count - 1].id;
}

static void check_replay(semel_status status, semel_outcome outcome, semel_inbox *inbox, int64_t id,
                         work *todo)
{
    semel_outcome got;
    FAILS(status, semel_inbox_replay(&got, inbox, id, work_do, todo, &last_error));
    OUTCOME(outcome, got);
}

static void a_replayed_letter_is_handled_once(void **state)
{
    world *w = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    world_both_modes(inboxes, w, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        int64_t id = make_letter(w, inbox, &message);
        work todo = {0};
        check_replay(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &todo);
        check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, id, &todo);
        assert_int_equal(world_letters(w, NULL, 0), 0);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        assert_int_equal(todo.runs, 1);
        assert_int_equal(todo.attempt, 1);
    }
}

static void a_replay_that_fails_leaves_the_letter(void **state)
{
    world *w = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = world_outbox(w, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "an event");
    world_both_modes(inboxes, w, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        int64_t id = make_letter(w, inbox, &message);
        work todo = {.failures = 2, .outbox = outbox, .sends = &event};
        uint64_t before = world_counters(w).unsent;
        check_replay(SEMEL_EHANDLER, SEMEL_FAILED, inbox, id, &todo);
        SAYS("out of paper");
        check_replay(SEMEL_EHANDLER, SEMEL_FAILED, inbox, id, &todo);
        assert_true(world_only_letter(w).id == id);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        assert_int_equal(world_counters(w).unsent, before);
        check_replay(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &todo);
        assert_int_equal(todo.runs, 3);
        assert_int_equal(world_counters(w).unsent, before + 1);
        assert_int_equal(world_letters(w, NULL, 0), 0);
    }
}

/* The work is done but the last answer is lost: the letter is gone, or its next replay is a duplicate. */
static void a_replay_whose_end_is_unknown_is_not_done_twice(void **state)
{
    world *w = *state;
    semel_inbox *inbox = world_inbox(w, "inbox", NULL);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(w, inbox, &message);
    work todo = {0};
    semel_outcome outcome;
    semel_test_fault(w->seam, "replay.committed", 1, SEMEL_EUNKNOWN);
    FAILS(SEMEL_EUNKNOWN, semel_inbox_replay(&outcome, inbox, id, work_do, &todo, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_replay(&outcome, inbox, id, work_do, &todo, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
    assert_int_equal(todo.runs, 1);
}

static void a_replay_cut_off_before_its_commit_changes_nothing(void **state)
{
    world *w = *state;
    semel_inbox *inbox = world_inbox(w, "inbox", NULL);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(w, inbox, &message);
    work todo = {0};
    semel_test_fault(w->seam, "replay.begun", 1, SEMEL_EUNAVAILABLE);
    check_replay(SEMEL_EUNAVAILABLE, SEMEL_UNDECIDED, inbox, id, &todo);
    assert_true(world_only_letter(w).id == id);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
    assert_int_equal(todo.runs, 0);
}

static void a_letter_belongs_to_its_inbox(void **state)
{
    world *w = *state;
    semel_inbox *inbox = world_inbox(w, "inbox", NULL), *other = world_inbox(w, "other", NULL);
    semel_outbox *outbox = world_outbox(w, "inbox"); /* the same name, but an outbox */
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(w, inbox, &message);
    work todo = {0};
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, other, id, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, id + 1, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, 0, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, INT64_MIN, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, INT64_MAX, &todo);
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(outbox, id, &last_error));
    assert_int_equal(todo.runs, 0);
    assert_int_equal(world_letters(w, NULL, 0), 1);
}

static semel_status compare(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    (void)unit;
    (void)err;
    MESSAGE_EQUAL((const semel_message *)context, message);
    return SEMEL_OK;
}

static void a_letter_holds_the_whole_message(void **state)
{
    world *w = *state;
    semel_inbox *inboxes[2];
    semel_message message = *full_message();
    world_both_modes(inboxes, w, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        int64_t id = make_letter(w, inbox, &message);
        semel_outcome outcome;
        OK(semel_inbox_replay(&outcome, inbox, id, compare, &message, &last_error));
        OUTCOME(SEMEL_PROCESSED, outcome);
    }
}

/* Somebody made the key free, and a copy was handled: the letter has become a duplicate, and goes. */
static void a_letter_whose_copy_was_handled_goes_without_a_run(void **state)
{
    static const semel_on_duplicate policies[] = {SEMEL_DUPLICATE_SKIP, SEMEL_DUPLICATE_REPLAY,
                                                  SEMEL_DUPLICATE_REJECT};
    world *w = *state;
    for (size_t i = 0; i < 3; i++) {
        semel_inbox_options options = {.size = sizeof options, .on_duplicate = policies[i]};
        const char *names[] = {"skip", "replay", "reject"};
        semel_inbox *inbox = world_inbox(w, names[i], &options);
        semel_message message = text_message("1", "a");
        int64_t id = make_letter(w, inbox, &message);
        work todo = {0};
        semel_outcome outcome;
        OK(semel_inbox_forget(inbox, &message, &last_error));
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        (void)semel_inbox_replay(&outcome, inbox, id, work_do, &todo, &last_error);
        OUTCOME(SEMEL_DUPLICATE, outcome);
        assert_int_equal(todo.runs, 1);
        assert_int_equal(world_letters(w, NULL, 0), 0);
    }
}

static void a_letter_is_not_run_while_a_copy_is_in_progress(void **state)
{
    world *w = *state;
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *inbox = world_inbox(w, "inbox", &options);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(w, inbox, &message);
    work todo = {0};
    semel_unit *unit;
    semel_outcome outcome;
    OK(semel_inbox_forget(inbox, &message, &last_error));
    OK(semel_unit_begin(&unit, w->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    OUTCOME(SEMEL_CLAIMED, outcome);
    check_replay(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, id, &todo);
    OK(semel_unit_commit(unit, &last_error));
    check_replay(SEMEL_OK, SEMEL_DUPLICATE, inbox, id, &todo);
    assert_int_equal(todo.runs, 0);
    assert_int_equal(world_letters(w, NULL, 0), 0);
}

static void a_discarded_letter_is_gone_and_its_key_stays_dead(void **state)
{
    world *w = *state;
    semel_inbox *inbox = world_inbox(w, "inbox", NULL);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(w, inbox, &message);
    work todo = {0};
    OK(semel_dead_discard(w->store, id, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_dead_discard(w->store, id, &last_error));
    assert_int_equal(world_letters(w, NULL, 0), 0);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
    OK(semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
}

static void forgetting_needs_a_key_that_is_known_and_free(void **state)
{
    world *w = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_inbox *inbox = world_inbox(w, "inbox", &options);
    semel_message message = text_message("1", "a"), keyless = text_message(NULL, "a");
    semel_unit *unit;
    semel_outcome outcome;
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &keyless, &last_error));
    OK(semel_unit_begin(&unit, w->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    FAILS(SEMEL_EBUSY, semel_inbox_forget(inbox, &message, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    OK(semel_inbox_forget(inbox, &message, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
}

/* --- listing ------------------------------------------------------------------------------------- */

static semel_status count_and_stop(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead;
    return ++*(int *)context == 2 ? semel_fail(err, SEMEL_EHANDLER, "seen enough") : SEMEL_OK;
}

static semel_status note_id(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(size_t *)context = *(size_t *)context * 10 + dead->message->id.len;
    return SEMEL_OK;
}

static void letters_are_listed_by_filter_and_page(void **state)
{
    world *w = *state;
    semel_inbox *one = world_inbox(w, "one", NULL), *two = world_inbox(w, "two", NULL);
    static const char *const ids[] = {"1", "22", "333", "4444"};
    int64_t letter_ids[4];
    size_t lengths = 0;
    int seen = 0;
    for (size_t i = 0; i < 4; i++) {
        semel_message message = text_message(ids[i], "a");
        letter_ids[i] = make_letter(w, i % 2 ? two : one, &message);
    }
    semel_dead_filter filter = {.size = sizeof filter, .name = "two"};
    OK(semel_dead_list(w->store, &filter, note_id, &lengths, &last_error));
    assert_int_equal(lengths, 24);
    filter = (semel_dead_filter){.size = sizeof filter, .after_id = letter_ids[0], .limit = 2};
    lengths = 0;
    OK(semel_dead_list(w->store, &filter, note_id, &lengths, &last_error));
    assert_int_equal(lengths, 23);
    filter = (semel_dead_filter){.size = sizeof filter, .origin = SEMEL_DEAD_OUTBOX};
    lengths = 0;
    OK(semel_dead_list(w->store, &filter, note_id, &lengths, &last_error));
    assert_int_equal(lengths, 0);
    FAILS(SEMEL_EHANDLER, semel_dead_list(w->store, NULL, count_and_stop, &seen, &last_error));
    assert_int_equal(seen, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a replayed letter is handled once", a_replayed_letter_is_handled_once),
        ON_BOTH("a replay that fails leaves the letter", a_replay_that_fails_leaves_the_letter),
        ON_BOTH("a replay whose end is unknown is not done twice",
                a_replay_whose_end_is_unknown_is_not_done_twice),
        ON_BOTH("a replay cut off before its commit changes nothing",
                a_replay_cut_off_before_its_commit_changes_nothing),
        ON_BOTH("a letter belongs to its inbox", a_letter_belongs_to_its_inbox),
        ON_BOTH("a letter holds the whole message", a_letter_holds_the_whole_message),
        ON_BOTH("a letter whose copy was handled goes without a run",
                a_letter_whose_copy_was_handled_goes_without_a_run),
        ON_BOTH("a letter is not run while a copy is in progress",
                a_letter_is_not_run_while_a_copy_is_in_progress),
        ON_BOTH("a discarded letter is gone, and its key stays dead",
                a_discarded_letter_is_gone_and_its_key_stays_dead),
        ON_BOTH("forgetting needs a key that is known and free",
                forgetting_needs_a_key_that_is_known_and_free),
        ON_BOTH("letters are listed by filter and page", letters_are_listed_by_filter_and_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
