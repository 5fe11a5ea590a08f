/* Dead letters that are replayed, discarded or overtaken: each takes effect once, however often it
 * is asked for, and none is swallowed by its own marker. */
#include "support/fixture/fixture.h"

/* A dead letter in the inbox; its id. */
static int64_t make_letter(fixture *f, semel_inbox *inbox, const semel_message *message)
{
    letter letters[8];
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, message, &todo);
    size_t count = fixture_letters(f, letters, 8);
    assert_in_range(count, 1, 8);
    return letters[count - 1].id;
}

static void check_replay(semel_status status, semel_outcome outcome, semel_inbox *inbox, int64_t id,
                         scripted_handler *todo)
{
    semel_outcome got;
    FAILS(status, semel_inbox_replay(&got, inbox, id, scripted_handler_run, todo, &last_error));
    OUTCOME(outcome, got);
}

static void a_replayed_letter_is_handled_once(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        int64_t id = make_letter(f, inbox, &message);
        scripted_handler todo = {0};
        check_replay(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &todo);
        check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, id, &todo);
        assert_int_equal(fixture_letters(f, NULL, 0), 0);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        assert_int_equal(todo.runs, 1);
        assert_int_equal(todo.attempt, 1);
    }
}

static void a_replay_that_fails_leaves_the_letter(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_message message = text_message("1", "a"), event = text_message(NULL, "an event");
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        int64_t id = make_letter(f, inbox, &message);
        scripted_handler todo = {.failures = 2, .outbox = outbox, .sends = &event};
        uint64_t before = fixture_counters(f).unsent;
        check_replay(SEMEL_EHANDLER, SEMEL_FAILED, inbox, id, &todo);
        SAYS("out of paper");
        check_replay(SEMEL_EHANDLER, SEMEL_FAILED, inbox, id, &todo);
        assert_true(fixture_only_letter(f).id == id);
        RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
        assert_int_equal(fixture_counters(f).unsent, before);
        check_replay(SEMEL_OK, SEMEL_PROCESSED, inbox, id, &todo);
        assert_int_equal(todo.runs, 3);
        assert_int_equal(fixture_counters(f).unsent, before + 1);
        assert_int_equal(fixture_letters(f, NULL, 0), 0);
    }
}

/* The work is done but the last answer is lost: the letter is gone, or its next replay is a
 * duplicate. */
static void a_replay_whose_end_is_unknown_is_not_done_twice(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(f, inbox, &message);
    scripted_handler todo = {0};
    semel_outcome outcome;
    semel_test_fault(f->seam, "replay.committed", 1, SEMEL_EUNKNOWN);
    FAILS(SEMEL_EUNKNOWN,
          semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, &todo, &last_error));
    FAILS(SEMEL_ENOTFOUND,
          semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, &todo, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
    assert_int_equal(todo.runs, 1);
}

static void a_replay_cut_off_before_its_commit_changes_nothing(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(f, inbox, &message);
    scripted_handler todo = {0};
    semel_test_fault(f->seam, "replay.begun", 1, SEMEL_EUNAVAILABLE);
    check_replay(SEMEL_EUNAVAILABLE, SEMEL_UNDECIDED, inbox, id, &todo);
    assert_true(fixture_only_letter(f).id == id);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
    assert_int_equal(todo.runs, 0);
}

static void a_letter_belongs_to_its_inbox(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL), *other = fixture_inbox(f, "other", NULL);
    semel_outbox *outbox = fixture_outbox(f, "inbox"); /* the same name, but an outbox */
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(f, inbox, &message);
    scripted_handler todo = {0};
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, other, id, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, id + 1, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, 0, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, INT64_MIN, &todo);
    check_replay(SEMEL_ENOTFOUND, SEMEL_UNDECIDED, inbox, INT64_MAX, &todo);
    FAILS(SEMEL_ENOTFOUND, semel_outbox_replay(outbox, id, &last_error));
    assert_int_equal(todo.runs, 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 1);
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
    fixture *f = *state;
    semel_inbox *inboxes[2];
    semel_message message = *full_message();
    fixture_both_modes(inboxes, f, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        int64_t id = make_letter(f, inbox, &message);
        semel_outcome outcome;
        OK(semel_inbox_replay(&outcome, inbox, id, compare, &message, &last_error));
        OUTCOME(SEMEL_PROCESSED, outcome);
    }
}

/* An operator made the key free, and a copy was handled: the letter has become a duplicate, and
 * goes. */
static void a_letter_whose_copy_was_handled_goes_without_a_run(void **state)
{
    static const semel_on_duplicate policies[] = {SEMEL_DUPLICATE_SKIP, SEMEL_DUPLICATE_REPLAY,
                                                  SEMEL_DUPLICATE_REJECT};
    fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        semel_inbox_options options = {.size = sizeof options, .on_duplicate = policies[i]};
        const char *names[] = {"skip", "replay", "reject"};
        semel_inbox *inbox = fixture_inbox(f, names[i], &options);
        semel_message message = text_message("1", "a");
        int64_t id = make_letter(f, inbox, &message);
        scripted_handler todo = {0};
        semel_outcome outcome;
        OK(semel_inbox_forget(inbox, &message, &last_error));
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        (void)semel_inbox_replay(&outcome, inbox, id, scripted_handler_run, &todo, &last_error);
        OUTCOME(SEMEL_DUPLICATE, outcome);
        assert_int_equal(todo.runs, 1);
        assert_int_equal(fixture_letters(f, NULL, 0), 0);
    }
}

static void a_letter_is_not_run_while_a_copy_is_in_progress(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(f, inbox, &message);
    scripted_handler todo = {0};
    semel_unit *unit;
    semel_outcome outcome;
    OK(semel_inbox_forget(inbox, &message, &last_error));
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    OUTCOME(SEMEL_CLAIMED, outcome);
    check_replay(SEMEL_EBUSY, SEMEL_IN_PROGRESS, inbox, id, &todo);
    OK(semel_unit_commit(unit, &last_error));
    check_replay(SEMEL_OK, SEMEL_DUPLICATE, inbox, id, &todo);
    assert_int_equal(todo.runs, 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

static void a_discarded_letter_is_gone_and_its_key_stays_dead(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "inbox", NULL);
    semel_message message = text_message("1", "a");
    int64_t id = make_letter(f, inbox, &message);
    scripted_handler todo = {0};
    OK(semel_dead_discard(f->store, id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_dead_discard(f->store, id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
    OK(semel_inbox_forget(inbox, &message, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
}

static void forgetting_needs_a_key_that_is_known_and_free(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_CLAIM};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    semel_message message = text_message("1", "a"), keyless = text_message(NULL, "a");
    semel_unit *unit;
    semel_outcome outcome;
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &keyless, &last_error));
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    FAILS(SEMEL_EBUSY, semel_inbox_forget(inbox, &message, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    OK(semel_inbox_forget(inbox, &message, &last_error));
    FAILS(SEMEL_ENOTFOUND, semel_inbox_forget(inbox, &message, &last_error));
}

/* --- listing ---------------------------------------------------------------------------------- */

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
    fixture *f = *state;
    semel_inbox *one = fixture_inbox(f, "one", NULL), *two = fixture_inbox(f, "two", NULL);
    static const char *const ids[] = {"1", "22", "333", "4444"};
    int64_t letter_ids[4];
    size_t lengths = 0;
    int seen = 0;
    for (size_t i = 0; i < 4; i++) {
        semel_message message = text_message(ids[i], "a");
        letter_ids[i] = make_letter(f, i % 2 ? two : one, &message);
    }
    semel_dead_filter filter = {.size = sizeof filter, .name = "two"};
    OK(semel_dead_list(f->store, &filter, note_id, &lengths, &last_error));
    assert_int_equal(lengths, 24);
    filter = (semel_dead_filter){.size = sizeof filter, .after_id = letter_ids[0], .limit = 2};
    lengths = 0;
    OK(semel_dead_list(f->store, &filter, note_id, &lengths, &last_error));
    assert_int_equal(lengths, 23);
    filter = (semel_dead_filter){.size = sizeof filter, .origin = SEMEL_DEAD_OUTBOX};
    lengths = 0;
    OK(semel_dead_list(f->store, &filter, note_id, &lengths, &last_error));
    assert_int_equal(lengths, 0);
    FAILS(SEMEL_EHANDLER, semel_dead_list(f->store, NULL, count_and_stop, &seen, &last_error));
    assert_int_equal(seen, 2);
}

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
    fixture_forget(f, route.inbox, SEMEL_RETENTION_DEFAULT_MS);
    todo.failures = 1;
    OK(semel_transport_publish(&result, queue, batch, 1, 0, &last_error));
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    int64_t id = fixture_only_letter(f).id;
    FAILS(SEMEL_EHANDLER, semel_consumer_replay(&outcome, consumer, id, &last_error));
    id = fixture_only_letter(f).id;
    OK(semel_consumer_replay(&outcome, consumer, id, &last_error));
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
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
        ON_BOTH("a refused letter that fails again is still one",
                a_refused_letter_that_fails_again_is_still_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
