/* Stale messages: older than the retention and without a marker, so that nobody can tell whether they were
 * handled. The age is read from the message's time, else from a UUIDv7 id, else (only when asked for) from
 * a ULID, and measured by the store's clock, which does not jump. */
#include "base/uuid.h"
#include "support/fixture/fixture.h"

static const int64_t hour_ms = 3600000;

/* An inbox that remembers for an hour. */
static semel_inbox *inbox_for_an_hour(fixture *f, const char *name, semel_inbox_options options)
{
    options.size = sizeof options;
    options.retention_ms = (uint64_t)hour_ms;
    return fixture_inbox(f, name, &options);
}

static int64_t now(fixture *f)
{
    int64_t ms;
    OK(semel_store_now(&ms, f->store, &last_error));
    return ms;
}

static semel_message message_of_age(fixture *f, const char *id, int64_t age_ms)
{
    semel_message message = text_message(id, "a");
    message.time_ms = now(f) - age_ms;
    return message;
}

static void sweep(semel_inbox *inbox)
{
    size_t swept;
    int more;
    do
        OK(semel_inbox_sweep(&swept, &more, inbox, 0, &last_error));
    while (more);
}

static void a_message_older_than_the_retention_is_stale(void **state)
{
    fixture *f = *state;
    for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_inbox *inbox = inbox_for_an_hour(f, mode ? "by-claim" : "by-transaction",
                                               (semel_inbox_options){.mode = mode});
        semel_message old = message_of_age(f, "old", hour_ms + 1);
        semel_message just = message_of_age(f, "just", hour_ms);
        semel_message future = message_of_age(f, "future", -100 * hour_ms);
        scripted_handler todo = {0};
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &old, &todo);
        SAYS("3600000 ms");
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &just, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &future, &todo);
        assert_int_equal(todo.runs, 2);
    }
    assert_int_equal(fixture_counters(f).stale, 2);
}

static void the_default_retention_is_seven_days(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = fixture_inbox(f, "default", NULL);
    semel_message old = message_of_age(f, "old", 7 * 24 * hour_ms + 1);
    semel_message just = message_of_age(f, "just", 7 * 24 * hour_ms);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &old, &todo);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &just, &todo);
}

/* --- where the age is read ----------------------------------------------------------------------- */

static void a_uuidv7_tells_its_age(void **state)
{
    fixture *f = *state;
    static const unsigned char noise[10] = {1, 2, 3};
    char old[UUID_TEXT + 1], young[UUID_TEXT + 1], random[UUID_TEXT + 1];
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    scripted_handler todo = {0};
    uuid_v7(old, now(f) - 2 * hour_ms, noise);
    uuid_v7(young, now(f) - hour_ms / 2, noise);
    memcpy(random, old, sizeof random);
    random[14] = '4'; /* version 4: its bits are no time */
    semel_message message = text_message(old, "a");
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &message, &todo);
    message.id = semel_str(young);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    message.id = semel_str(random);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
}

static void the_messages_time_counts_before_its_id(void **state)
{
    fixture *f = *state;
    static const unsigned char noise[10] = {1, 2, 3};
    char id[UUID_TEXT + 1];
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    uuid_v7(id, now(f) - 2 * hour_ms, noise);
    semel_message message = message_of_age(f, id, 1);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

/* 26 characters of Crockford's base 32, the first ten of which are the time. */
static void make_ulid(char out[27], int64_t ms)
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    memset(out, '7', 26);
    out[26] = 0;
    for (int i = 9; i >= 0; i--, ms >>= 5)
        out[i] = digits[ms & 31];
}

static void a_ulid_tells_its_age_only_when_asked(void **state)
{
    fixture *f = *state;
    char id[27];
    semel_inbox *plain = inbox_for_an_hour(f, "plain", (semel_inbox_options){0});
    semel_inbox *asked =
        inbox_for_an_hour(f, "asked", (semel_inbox_options){.age = SEMEL_AGE_ULID});
    scripted_handler todo = {0};
    make_ulid(id, now(f) - 2 * hour_ms);
    semel_message message = text_message(id, "a");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, plain, &message, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, asked, &message, &todo);
    make_ulid(id, now(f) - hour_ms / 2);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, asked, &message, &todo);
    message = message_of_age(f, "no ulid at all", 2 * hour_ms); /* the others still count */
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, asked, &message, &todo);
}

static void a_message_of_unknown_age_is_never_stale(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message message = text_message("1", "a");
    semel_test_advance_ms(f->seam, 1000 * hour_ms);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

/* --- policies ------------------------------------------------------------------------------------ */

static void nothing_is_stale_where_the_policy_says_so(void **state)
{
    fixture *f = *state;
    semel_inbox_options forever = {.size = sizeof forever, .retention_ms = SEMEL_RETENTION_FOREVER};
    semel_inbox *inboxes[] = {
        inbox_for_an_hour(f, "process", (semel_inbox_options){.on_stale = SEMEL_STALE_PROCESS}),
        inbox_for_an_hour(f, "ignore", (semel_inbox_options){.age = SEMEL_AGE_IGNORE}),
        fixture_inbox(f, "forever", &forever)};
    semel_message old = message_of_age(f, "old", 100000 * hour_ms);
    for (size_t i = 0; i < 3; i++) {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inboxes[i], &old, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inboxes[i], &old, &todo);
        assert_int_equal(todo.runs, 1);
    }
    assert_int_equal(fixture_counters(f).stale, 0);
}

static void with_no_retention_all_that_was_made_before_now_is_stale(void **state)
{
    fixture *f = *state;
    semel_inbox_options none = {.size = sizeof none, .retention_ms = SEMEL_RETENTION_NONE};
    semel_inbox *inbox = fixture_inbox(f, "none", &none);
    semel_message before = message_of_age(f, "before", 1), just_now = message_of_age(f, "now", 0);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &before, &todo);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &just_now, &todo);
}

/* --- with a marker it is known ------------------------------------------------------------------- */

static void while_its_marker_is_there_an_old_copy_is_a_duplicate(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message message = message_of_age(f, "1", 0);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    semel_test_advance_ms(f->seam, 2 * hour_ms);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
    sweep(inbox);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &message, &todo);
    assert_int_equal(todo.runs, 1);
}

/* Its failed attempt is on record: so it was not handled, and its age is no reason to refuse it. */
static void a_message_that_failed_before_is_tried_again_however_old(void **state)
{
    fixture *f = *state;
    for (semel_mode mode = SEMEL_TRANSACTION; mode <= SEMEL_CLAIM; mode++) {
        semel_inbox *inbox = inbox_for_an_hour(f, mode ? "by-claim" : "by-transaction",
                                               (semel_inbox_options){.mode = mode});
        semel_message message = message_of_age(f, "1", 0);
        scripted_handler todo = {.failures = 2};
        message.delivery = 1;
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        semel_test_advance_ms(f->seam, 2 * hour_ms);
        message.delivery = 2;
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
        assert_int_equal(todo.attempt, 2);
        message.delivery = 3;
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        assert_int_equal(todo.attempt, 3);
    }
}

static void refusing_a_stale_message_leaves_nothing_behind(void **state)
{
    fixture *f = *state;
    semel_inbox *strict = inbox_for_an_hour(f, "same", (semel_inbox_options){0});
    semel_inbox *lenient =
        inbox_for_an_hour(f, "same", (semel_inbox_options){.on_stale = SEMEL_STALE_PROCESS});
    semel_message old = message_of_age(f, "1", 2 * hour_ms);
    scripted_handler todo = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, strict, &old, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, strict, &old, &todo);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, lenient, &old, &todo);
}

static void a_dead_letter_can_be_replayed_however_old(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message message = message_of_age(f, "1", 0);
    semel_outcome outcome;
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &todo);
    semel_test_advance_ms(f->seam, 1000 * hour_ms);
    sweep(inbox);
    OK(semel_inbox_replay(&outcome, inbox, fixture_only_letter(f).id, scripted_handler_run, &todo,
                          &last_error));
    OUTCOME(SEMEL_PROCESSED, outcome);
    assert_int_equal(todo.runs, 2);
}

/* --- clocks -------------------------------------------------------------------------------------- */

/* A wall clock gave the message its time, so a wall clock tells its age: also after it was set right. */
static void the_age_is_told_by_the_wall_clock(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    semel_message message = message_of_age(f, "1", 0), later = message_of_age(f, "2", 0);
    scripted_handler todo = {0};
    semel_test_jump_ms(f->seam, 2 * hour_ms);
    semel_message fresh = message_of_age(f, "3", 0);
    fresh.time_ms = f->host->wall_ms(f->host->context);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &fresh, &todo);
    semel_test_advance_ms(f->seam, hour_ms + 1);
    sweep(inbox);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &fresh, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &message, &todo);
    semel_test_jump_ms(f->seam, -20000 * hour_ms);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &later, &todo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a message older than the retention is stale",
                a_message_older_than_the_retention_is_stale),
        ON_BOTH("the default retention is seven days", the_default_retention_is_seven_days),
        ON_BOTH("a UUIDv7 tells its age", a_uuidv7_tells_its_age),
        ON_BOTH("the message's time counts before its id", the_messages_time_counts_before_its_id),
        ON_BOTH("a ULID tells its age only when asked", a_ulid_tells_its_age_only_when_asked),
        ON_BOTH("a message of unknown age is never stale", a_message_of_unknown_age_is_never_stale),
        ON_BOTH("nothing is stale where the policy says so",
                nothing_is_stale_where_the_policy_says_so),
        ON_BOTH("with no retention all that was made before now is stale",
                with_no_retention_all_that_was_made_before_now_is_stale),
        ON_BOTH("while its marker is there an old copy is a duplicate",
                while_its_marker_is_there_an_old_copy_is_a_duplicate),
        ON_BOTH("a message that failed before is tried again, however old",
                a_message_that_failed_before_is_tried_again_however_old),
        ON_BOTH("refusing a stale message leaves nothing behind",
                refusing_a_stale_message_leaves_nothing_behind),
        ON_BOTH("a dead letter can be replayed, however old",
                a_dead_letter_can_be_replayed_however_old),
        ON_BOTH("the age is told by the wall clock", the_age_is_told_by_the_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
