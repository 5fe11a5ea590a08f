/* How old a message is: where its age is read, by which clock it is measured, and the policies to
 * which it makes no difference. What follows from it is in test_inbox_stale.c. */
#include "base/uuid.h"
#include "support/fixture/fixture.h"

#include <stdio.h>

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

/* --- where the age is read -------------------------------------------------------------------- */

static void a_uuidv7_tells_its_age_only_when_asked(void **state)
{
    fixture *f = *state;
    static const unsigned char noise[10] = {1, 2, 3};
    char old[UUID_TEXT + 1], young[UUID_TEXT + 1], random[UUID_TEXT + 1];
    semel_inbox *plain = inbox_for_an_hour(f, "plain", (semel_inbox_options){0});
    semel_inbox *asked =
        inbox_for_an_hour(f, "asked", (semel_inbox_options){.age = SEMEL_AGE_UUID});
    scripted_handler todo = {0};
    uuid_v7(old, now(f), noise);
    forget_an_hour(f, plain);
    forget_an_hour(f, asked);
    uuid_v7(young, now(f) - hour_ms / 2, noise);
    memcpy(random, old, sizeof random);
    random[14] = '4'; /* version 4: its bits are no time */
    semel_message message = text_message(old, "a");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, plain, &message, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, asked, &message, &todo);
    message.id = semel_str(young);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, asked, &message, &todo);
    message.id = semel_str(random);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, asked, &message, &todo);
    message = message_of_age(f, old, 1); /* the message's time counts before its id */
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, asked, &message, &todo);
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
    semel_inbox *plain =
        inbox_for_an_hour(f, "plain", (semel_inbox_options){.age = SEMEL_AGE_UUID});
    semel_inbox *asked =
        inbox_for_an_hour(f, "asked", (semel_inbox_options){.age = SEMEL_AGE_ULID});
    scripted_handler todo = {0};
    make_ulid(id, now(f));
    forget_an_hour(f, plain);
    forget_an_hour(f, asked);
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
    forget_an_hour(f, inbox);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &(scripted_handler){0});
}

/* Only a header that makes the message younger counts, and only one that is a number. */
static void the_header_makes_a_message_younger_and_never_older(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    static const char *const useless[] = {"", "1", "-5", "1e30", "9999999999999999999"};
    scripted_handler todo = {0};
    semel_message old = message_of_age(f, "old", 0);
    forget_an_hour(f, inbox);
    semel_message young = message_of_age(f, "young", 0);
    semel_header header = {SEMEL_HEADER_DUE, semel_str("1")};
    old.headers = young.headers = &header;
    old.header_count = young.header_count = 1;
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) {
        header.value = semel_str(useless[i]);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &old, &todo);
    }
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &young, &todo);
    char due[32];
    (void)snprintf(due, sizeof due, "%lld", (long long)(now(f) - 1));
    header.value = semel_str(due);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &old, &todo);
}

/* --- policies --------------------------------------------------------------------------------- */

static void nothing_is_stale_where_the_policy_says_so(void **state)
{
    fixture *f = *state;
    semel_inbox *inboxes[] = {
        inbox_for_an_hour(f, "process", (semel_inbox_options){.on_stale = SEMEL_STALE_PROCESS}),
        inbox_for_an_hour(f, "ignore", (semel_inbox_options){.age = SEMEL_AGE_IGNORE})};
    for (size_t i = 0; i < 2; i++) {
        semel_message old = message_of_age(f, "old", 100000 * hour_ms);
        scripted_handler todo = {0};
        forget_an_hour(f, inboxes[i]);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inboxes[i], &old, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inboxes[i], &old, &todo);
        assert_int_equal(todo.runs, 1);
    }
    assert_int_equal(fixture_counters(f).stale, 0);
}

/* --- clocks ----------------------------------------------------------------------------------- */

/* A wall clock gave the message its time, so a wall clock tells its age: also after it was set
 * right. */
static void the_age_is_told_by_the_wall_clock(void **state)
{
    fixture *f = *state;
    semel_inbox *inbox = inbox_for_an_hour(f, "inbox", (semel_inbox_options){0});
    scripted_handler todo = {0};
    semel_test_jump_ms(f->seam, 2 * hour_ms);
    semel_message fresh = message_of_age(f, "fresh", 0), later = message_of_age(f, "later", 0);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &fresh, &todo);
    semel_test_advance_ms(f->seam, hour_ms + 1);
    fixture_sweep(inbox);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &fresh, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &later, &todo);
    semel_test_jump_ms(f->seam, -20000 * hour_ms);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &later, &todo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a UUIDv7 tells its age only when asked", a_uuidv7_tells_its_age_only_when_asked),
        ON_BOTH("a ULID tells its age only when asked", a_ulid_tells_its_age_only_when_asked),
        ON_BOTH("a message of unknown age is never stale", a_message_of_unknown_age_is_never_stale),
        ON_BOTH("the header makes a message younger, and never older",
                the_header_makes_a_message_younger_and_never_older),
        ON_BOTH("nothing is stale where the policy says so",
                nothing_is_stale_where_the_policy_says_so),
        ON_BOTH("the age is told by the wall clock", the_age_is_told_by_the_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
