/* The policies of an inbox: what becomes of a copy, of a message without a key, and of other
 * content under a known key. Status and outcome are exactly those that <semel/inbox.h> names, in
 * both modes. */
#include "support/fixture/fixture.h"

#include <stdlib.h>

/* receive_result with everything checked; `expected` NULL: no result. */
static void check_result(semel_status status, semel_outcome outcome, const char *expected,
                         semel_inbox *inbox, const semel_message *message, scripted_handler *todo)
{
    semel_outcome got;
    semel_result *result = (semel_result *)&got; /* must be overwritten */
    FAILS(status, semel_inbox_receive_result(&got, &result, inbox, message, scripted_handler_run,
                                             todo, &last_error));
    OUTCOME(outcome, got);
    if (expected) {
        assert_non_null(result);
        BYTES_EQUAL(semel_str(expected), semel_result_bytes(result));
    } else {
        assert_null(result);
    }
    semel_result_free(result);
}

/* --- duplicates ------------------------------------------------------------------------------- */

static void a_copy_is_skipped_by_default(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        assert_int_equal(todo.runs, 1);
    }
    semel_counters counters = fixture_counters(*state);
    assert_int_equal(counters.processed, 2);
    assert_int_equal(counters.duplicates, 4);
}

static void a_copy_is_answered_with_the_stored_result(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.result = "charged 7"};
        check_result(SEMEL_OK, SEMEL_PROCESSED, "charged 7", inbox, &message, &todo);
        todo.result = "charged again";
        check_result(SEMEL_OK, SEMEL_REPLAYED, "charged 7", inbox, &message, &todo);
        check_result(SEMEL_OK, SEMEL_REPLAYED, "charged 7", inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_REPLAYED, inbox, &message, &todo);
        assert_int_equal(todo.runs, 1);
    }
    semel_counters counters = fixture_counters(*state);
    assert_int_equal(counters.replayed, 6);
    assert_int_equal(counters.duplicates, 0);
}

static void without_a_stored_result_a_copy_is_a_duplicate(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        check_result(SEMEL_OK, SEMEL_PROCESSED, NULL, inbox, &message, &todo);
        check_result(SEMEL_OK, SEMEL_DUPLICATE, NULL, inbox, &message, &todo);
    }
}

static void an_empty_result_is_a_result(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.result = ""};
        check_result(SEMEL_OK, SEMEL_PROCESSED, "", inbox, &message, &todo);
        check_result(SEMEL_OK, SEMEL_REPLAYED, "", inbox, &message, &todo);
    }
}

static void a_copy_is_rejected_where_the_policy_says_so(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REJECT});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.result = "kept"};
        check_result(SEMEL_OK, SEMEL_PROCESSED, "kept", inbox, &message, &todo);
        check_result(SEMEL_EREJECTED, SEMEL_DUPLICATE, NULL, inbox, &message, &todo);
        assert_int_equal(last_error.retryable, 0);
        assert_int_equal(todo.runs, 1);
    }
}

static void a_failed_run_leaves_no_result(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.result = "of the first run", .failures = 1};
        check_result(SEMEL_EHANDLER, SEMEL_FAILED, NULL, inbox, &message, &todo);
        todo.result = NULL;
        check_result(SEMEL_OK, SEMEL_PROCESSED, NULL, inbox, &message, &todo);
        check_result(SEMEL_OK, SEMEL_DUPLICATE, NULL, inbox, &message, &todo);
    }
}

static semel_status set_many_results(semel_unit *unit, const semel_message *message, void *context,
                                     semel_error *err)
{
    (void)message;
    semel_status status = semel_unit_set_result(unit, "first", 5, err);
    if (!status)
        status = semel_unit_set_result(unit, "last", 4, err);
    *(semel_status *)context = semel_unit_set_result(unit, "", SEMEL_RESULT_MAX + 1, err);
    return status;
}

static void the_last_result_wins_and_a_huge_one_is_refused(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        semel_outcome outcome;
        semel_status huge = SEMEL_OK;
        OK(semel_inbox_receive(&outcome, inbox, &message, set_many_results, &huge, &last_error));
        assert_int_equal(huge, SEMEL_ELIMIT);
        check_result(SEMEL_OK, SEMEL_REPLAYED, "last", inbox, &message, &(scripted_handler){0});
    }
}

static semel_status set_largest_result(semel_unit *unit, const semel_message *message,
                                       void *context, semel_error *err)
{
    (void)message;
    return semel_unit_set_result(unit, context, SEMEL_RESULT_MAX, err);
}

static void the_largest_result_comes_back_whole(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a");
    unsigned char *data = malloc(SEMEL_RESULT_MAX);
    assert_non_null(data);
    for (size_t i = 0; i < SEMEL_RESULT_MAX; i++)
        data[i] = (unsigned char)(i * 7);
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        semel_outcome outcome;
        semel_result *result;
        OK(semel_inbox_receive(&outcome, inbox, &message, set_largest_result, data, &last_error));
        OK(semel_inbox_receive_result(&outcome, &result, inbox, &message, scripted_handler_run,
                                      NULL, &last_error));
        OUTCOME(SEMEL_REPLAYED, outcome);
        BYTES_EQUAL(((semel_bytes){data, SEMEL_RESULT_MAX}), semel_result_bytes(result));
        semel_result_free(result);
    }
    free(data);
}

/* --- missing keys ----------------------------------------------------------------------------- */

static void a_message_without_a_key_is_rejected(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("", "a");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox, &message, &todo);
        SAYS("on_missing_key");
        assert_int_equal(todo.runs, 0);
    }
    assert_int_equal(fixture_counters(*state).missing_key, 2);
}

static void without_a_key_each_copy_is_processed_and_counted_as_unprotected(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_PROCESS});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        assert_int_equal(todo.runs, 2);
        assert_string_equal(todo.key, "");
        todo.failures = 1;
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &todo);
    }
    semel_counters counters = fixture_counters(*state);
    assert_int_equal(counters.processed, 4);
    assert_int_equal(counters.unprotected, 4);
    assert_int_equal(counters.failed, 2);
}

static void a_result_needs_a_key(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("", "a");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_PROCESS});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.result = "kept nowhere"};
        RECEIVES(SEMEL_EMISUSE, SEMEL_FAILED, inbox, &message, &todo);
    }
}

static void without_a_key_the_digest_can_stand_in(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("", "a"), other = text_message("", "b");
    semel_message other_type = text_message("", "a"), with_id = text_message("1", "a");
    other_type.type = "order.cancelled";
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_missing_key = SEMEL_MISSING_KEY_DIGEST});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &other, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &other_type, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &with_id, &todo); /* it has a key: that counts */
        assert_int_equal(todo.runs, 4);
    }
    assert_int_equal(fixture_counters(*state).unprotected, 0);
}

/* --- mismatch --------------------------------------------------------------------------------- */

static void other_content_under_a_known_key_is_rejected(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "pay 7"), other_body = text_message("1", "pay 8");
    semel_message other_type = message;
    other_type.type = "order.sent"; /* as long as the other */
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_duplicate = SEMEL_DUPLICATE_REPLAY});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.result = "paid 7"};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        check_result(SEMEL_EREJECTED, SEMEL_MISMATCH, NULL, inbox, &other_body, &todo);
        check_result(SEMEL_EREJECTED, SEMEL_MISMATCH, NULL, inbox, &other_type, &todo);
        check_result(SEMEL_OK, SEMEL_REPLAYED, "paid 7", inbox, &message, &todo);
        assert_int_equal(todo.runs, 1);
    }
    assert_int_equal(fixture_counters(*state).mismatched, 4);
}

static void type_and_body_cannot_be_shifted_into_each_other(void **state)
{
    semel_inbox *inbox = fixture_inbox(*state, "shifted", NULL);
    semel_message one = text_message("1", "bc"), other = text_message("1", "c");
    scripted_handler todo = {0};
    one.type = "a";
    other.type = "ab";
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &one, &todo);
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &other, &todo);
}

static void all_that_is_not_type_or_body_may_differ(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "a"), copy = message;
    static const semel_header headers[] = {{"traceparent", {"00-1", 4}}};
    copy.headers = headers;
    copy.header_count = 1;
    copy.source = "elsewhere";
    copy.topic = "another";
    copy.group = "g";
    copy.content_type = "text/plain";
    copy.correlation_id = semel_str("c");
    copy.time_ms = INT64_C(1767225600000);
    copy.delivery = 3;
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &copy, &todo);
    }
}

static void with_ignore_the_key_alone_decides(void **state)
{
    semel_inbox *inboxes[2];
    semel_message message = text_message("1", "pay 7"), other = text_message("1", "pay 8");
    fixture_both_modes(inboxes, *state,
                       (semel_inbox_options){.on_mismatch = SEMEL_MISMATCH_IGNORE});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {0};
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &other, &todo);
    }
}

/* A marker from before the policy was changed has no fingerprint: nothing can be said against a
 * copy. */
static void a_marker_without_fingerprint_matches_anything(void **state)
{
    semel_inbox_options ignore = {.size = sizeof ignore, .on_mismatch = SEMEL_MISMATCH_IGNORE};
    semel_inbox *before = fixture_inbox(*state, "same", &ignore);
    semel_inbox *after = fixture_inbox(*state, "same", NULL);
    semel_message message = text_message("1", "pay 7"), other = text_message("1", "pay 8");
    scripted_handler todo = {0};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, before, &message, &todo);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, after, &other, &todo);
}

/* What was tried and failed has not been handled: the corrected message may come under the same
 * key. */
static void after_a_failure_other_content_is_no_mismatch(void **state)
{
    semel_inbox *inboxes[2];
    semel_message wrong = text_message("1", "pay -7"), right = text_message("1", "pay 7");
    fixture_both_modes(inboxes, *state, (semel_inbox_options){0});
    EACH_MODE(inbox, inboxes)
    {
        scripted_handler todo = {.failures = 1};
        RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &wrong, &todo);
        RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &right, &todo);
        RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &right, &todo);
        RECEIVES(SEMEL_EREJECTED, SEMEL_MISMATCH, inbox, &wrong, &todo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a copy is skipped by default", a_copy_is_skipped_by_default),
        ON_BOTH("a copy is answered with the stored result",
                a_copy_is_answered_with_the_stored_result),
        ON_BOTH("without a stored result a copy is a duplicate",
                without_a_stored_result_a_copy_is_a_duplicate),
        ON_BOTH("an empty result is a result", an_empty_result_is_a_result),
        ON_BOTH("a copy is rejected where the policy says so",
                a_copy_is_rejected_where_the_policy_says_so),
        ON_BOTH("a failed run leaves no result", a_failed_run_leaves_no_result),
        ON_BOTH("the last result wins, and a huge one is refused",
                the_last_result_wins_and_a_huge_one_is_refused),
        ON_BOTH("the largest result comes back whole", the_largest_result_comes_back_whole),
        ON_BOTH("a message without a key is rejected", a_message_without_a_key_is_rejected),
        ON_BOTH("without a key each copy is processed, and counted as unprotected",
                without_a_key_each_copy_is_processed_and_counted_as_unprotected),
        ON_BOTH("a result needs a key", a_result_needs_a_key),
        ON_BOTH("without a key the digest can stand in", without_a_key_the_digest_can_stand_in),
        ON_BOTH("other content under a known key is rejected",
                other_content_under_a_known_key_is_rejected),
        ON_BOTH("type and body cannot be shifted into each other",
                type_and_body_cannot_be_shifted_into_each_other),
        ON_BOTH("all that is not type or body may differ", all_that_is_not_type_or_body_may_differ),
        ON_BOTH("with ignore the key alone decides", with_ignore_the_key_alone_decides),
        ON_BOTH("a marker without fingerprint matches anything",
                a_marker_without_fingerprint_matches_anything),
        ON_BOTH("after a failure other content is no mismatch",
                after_a_failure_other_content_is_no_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
