/* Looking at keys: what an inbox knows of one, and lists of them by pages. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

/* What a look found, with its texts copied. */
typedef struct seen {
    semel_marker_state state;
    uint32_t attempts;
    int64_t first_ms;
    int64_t last_ms;
    int64_t lease_until_ms;
    int has_result;
    char error[128];
    char result[64];
    char type[64];
    char source[64];
    int64_t received_ms;
} seen;

static seen look_at(semel_inbox *inbox, const semel_message *message)
{
    semel_marker *found = NULL;
    seen out = {0};
    OK(semel_inbox_look(&found, inbox, message, &last_error));
    out.state = found->state;
    out.attempts = found->attempts;
    out.first_ms = found->first_ms;
    out.last_ms = found->last_ms;
    out.lease_until_ms = found->lease_until_ms;
    out.has_result = found->has_result;
    out.received_ms = found->received_ms;
    (void)snprintf(out.error, sizeof out.error, "%s", found->error);
    (void)snprintf(out.result, sizeof out.result, "%.*s", (int)found->result.len,
                   found->result.data ? (const char *)found->result.data : "");
    (void)snprintf(out.type, sizeof out.type, "%s", found->type ? found->type : "");
    (void)snprintf(out.source, sizeof out.source, "%s", found->source ? found->source : "");
    semel_marker_free(found);
    return out;
}

static seen look_at_id(semel_inbox *inbox, const char *id)
{
    semel_message message = text_message(id, "paid");
    return look_at(inbox, &message);
}

static void a_look_knows_what_became_of_a_key(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {.result = store_has(f, LACKS_RESULTS) ? "42" : NULL};
    assert_int_equal(look_at_id(inbox, "o-1").state, SEMEL_MARKER_NONE);
    assert_int_equal(look_at_id(inbox, "o-1").last_ms, 0);
    int64_t then = now_of(f);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "o-1", &done);
    seen found = look_at_id(inbox, "o-1");
    assert_int_equal(found.state, SEMEL_MARKER_DONE);
    assert_int_equal(found.attempts, 0);
    assert_string_equal(found.error, "");
    STORED_AT(then, f, found.last_ms);
    assert_int_equal(found.has_result, store_has(f, LACKS_RESULTS));
    assert_string_equal(found.result, store_has(f, LACKS_RESULTS) ? "42" : "");
    assert_int_equal(look_at_id(inbox, "o-2").state, SEMEL_MARKER_NONE);
    assert_int_equal(found.received_ms, 0);
}

/* Failed, failed again, handled: the time of the first attempt stays, the error goes. */
static void a_look_tells_of_failures(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler fails = {.failures = 2};
    int64_t first = now_of(f);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "o-1", &fails);
    seen found = look_at_id(inbox, "o-1");
    assert_int_equal(found.state, SEMEL_MARKER_OPEN);
    assert_int_equal(found.attempts, 1);
    assert_string_equal(found.error, "out of paper");
    STORED_AT(first, f, found.first_ms);
    pass_ms(f, grains(f, 10));
    int64_t second = now_of(f);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "o-1", &fails);
    found = look_at_id(inbox, "o-1");
    assert_int_equal(found.attempts, 2);
    STORED_AT(first, f, found.first_ms);
    STORED_AT(second, f, found.last_ms);
    pass_ms(f, grains(f, 10));
    int64_t third = now_of(f);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "o-1", &fails);
    found = look_at_id(inbox, "o-1");
    assert_int_equal(found.state, SEMEL_MARKER_DONE);
    assert_string_equal(found.error, "");
    STORED_AT(first, f, found.first_ms);
    STORED_AT(third, f, found.last_ms);
}

static void a_look_tells_of_the_dead(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler gives_up = {.failures = 1, .failure = SEMEL_EGIVEUP};
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "o-1", &gives_up);
    seen found = look_at_id(inbox, "o-1");
    assert_int_equal(found.state, SEMEL_MARKER_DEAD);
    assert_string_equal(found.error, "out of paper");
}

static void a_look_tells_of_claims(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .lease_ms = grains(f, 10)};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("o-1", "paid");
    int64_t then = now_of(f);
    abandon_claim(f, inbox, &message);
    seen found = look_at(inbox, &message);
    assert_int_equal(found.state, SEMEL_MARKER_CLAIMED);
    assert_int_equal(found.attempts, 1);
    IS_ABOUT(then + options.lease_ms, f, found.lease_until_ms + f->passed_ms);
    pass_ms(f, grains(f, 11));
    found = look_at(inbox, &message);
    assert_int_equal(found.state, SEMEL_MARKER_OPEN);
    assert_int_equal(found.lease_until_ms, 0);
}

/* A look neither waits for the unit nor sees what it has not committed. */
static void a_look_does_not_wait_for_an_open_unit(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message message = text_message("o-1", "paid");
    semel_unit *unit = claim_message(f, inbox, &message);
    assert_int_equal(look_at(inbox, &message).state, SEMEL_MARKER_NONE);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(look_at(inbox, &message).state, SEMEL_MARKER_DONE);
}

static void a_look_changes_and_counts_nothing(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler fails = {.failures = 1};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "o-1", &fails);
    semel_counters before = counters_of(f);
    seen first = look_at_id(inbox, "o-1");
    pass_ms(f, grains(f, 10));
    seen second = look_at_id(inbox, "o-1");
    assert_int_equal(second.attempts, first.attempts);
    assert_int_equal(second.last_ms + f->passed_ms,
                     first.last_ms + f->passed_ms - (f->passed_ms ? grains(f, 10) : 0));
    semel_counters after = counters_of(f);
    assert_memory_equal(&before, &after, sizeof before);
}

/* --- by key ----------------------------------------------------------------------------------- */

static void a_look_by_key_finds_long_keys_too(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    char id[SEMEL_KEY_MAX + 50], key[sizeof id];
    size_t len = 0;
    semel_marker *found = NULL;
    memset(id, 'x', sizeof id);
    semel_message message = text_message("short", "paid");
    message.id = (semel_bytes){id, sizeof id};
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &done);
    OK(semel_inbox_key(key, sizeof key, &len, inbox, &message, &last_error));
    OK(semel_inbox_look_key(&found, inbox, (semel_bytes){key, len}, &last_error));
    assert_int_equal(found->state, SEMEL_MARKER_DONE);
    assert_true(found->key.len <= SEMEL_KEY_MAX);
    semel_marker_free(found);
    FAILS(SEMEL_EINVAL, semel_inbox_look_key(&found, inbox, (semel_bytes){NULL, 0}, &last_error));
    message.id = (semel_bytes){NULL, 0};
    FAILS(SEMEL_ENOTFOUND, semel_inbox_look(&found, inbox, &message, &last_error));
}

/* --- results by steps ------------------------------------------------------------------------- */

static void steps_give_the_stored_result(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .on_duplicate = SEMEL_DUPLICATE_REPLAY};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = text_message("o-1", "paid");
    semel_unit *unit = claim_message(f, inbox, &message);
    semel_outcome outcome;
    assert_null(semel_unit_result(unit).data);
    OK(semel_unit_set_result(unit, "42", 2, &last_error));
    BYTES_EQUAL(((semel_bytes){"42", 2}), semel_unit_result(unit));
    OK(semel_unit_commit(unit, &last_error));
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    OUTCOME(SEMEL_REPLAYED, outcome);
    BYTES_EQUAL(((semel_bytes){"42", 2}), semel_unit_result(unit));
    semel_unit_rollback(unit);
}

/* --- details ---------------------------------------------------------------------------------- */

static semel_inbox *open_with_details(store_fixture *f)
{
    semel_inbox_options options = {.size = sizeof options, .keep_details = 1};
    return open_inbox(f, "orders", &options);
}

static semel_message detailed(const char *id, const char *type, const char *source)
{
    semel_message message = text_message(id, "paid");
    message.type = type;
    message.source = source;
    return message;
}

static void expect_details(semel_inbox *inbox, const char *id, const char *type, const char *source,
                           int64_t received_ms)
{
    seen found = look_at_id(inbox, id);
    assert_string_equal(found.type, type);
    assert_string_equal(found.source, source);
    assert_int_equal(found.received_ms, received_ms);
}

static void details_are_kept_with_each_state(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_details(f);
    scripted_handler done = {.result = store_has(f, LACKS_RESULTS) ? "42" : NULL};
    scripted_handler fails = {.failures = 1};
    semel_message good = detailed("good", "order.paid", "shop");
    semel_message bad = detailed("bad", "order.paid", "mail");
    int64_t wall = wall_of(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &good, &done);
    expect_details(inbox, "good", "order.paid", "shop", wall);
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &bad, &fails);
    expect_details(inbox, "bad", "order.paid", "mail", wall);
    semel_test_advance_ms(f->base.seam, 5);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &bad, &fails);
    expect_details(inbox, "bad", "order.paid", "mail", wall + 5);
}

static void details_come_with_batches_and_steps(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_details(f);
    scripted_handler done = {0};
    semel_message one = detailed("one", "order.paid", "shop"), two = detailed("two", NULL, "mail");
    const semel_message *batch[] = {&one, &two};
    semel_outcome out[2];
    int64_t wall = wall_of(f);
    OK(semel_inbox_receive_batch(out, inbox, batch, 2, scripted_handler_run, &done, &last_error));
    expect_details(inbox, "one", "order.paid", "shop", wall);
    expect_details(inbox, "two", "", "mail", wall);
    semel_message three = detailed("three", "order.lost", "shop");
    OK(semel_unit_commit(claim_message(f, inbox, &three), &last_error));
    expect_details(inbox, "three", "order.lost", "shop", wall);
}

/* They are numbers of the store: another handle, or the next process, reads the same names. */
static void details_outlive_the_handle(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_details(f);
    scripted_handler done = {0};
    semel_message one = detailed("one", "order.paid", "shop");
    int64_t wall = wall_of(f);
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &one, &done);
    reopen(f);
    inbox = open_with_details(f);
    semel_message two = detailed("two", "order.paid", "mail");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &two, &done);
    expect_details(inbox, "one", "order.paid", "shop", wall);
    expect_details(inbox, "two", "order.paid", "mail", wall);
}

static void names_that_cannot_be_kept_are_left_out(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_with_details(f);
    scripted_handler done = {0};
    char name[SEMEL_NAME_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    int64_t wall = wall_of(f);
    semel_message one = detailed("one", name, "\xff");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &one, &done);
    expect_details(inbox, "one", "", "", wall);
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The keys of all markers, each followed by a space; and the last one. */
typedef struct keys {
    char text[256];
    char last[64];
    size_t last_len;
    size_t count;
    size_t stop_at; /* the visitor ends the list there; 0: never */
} keys;

static semel_status note_key(const semel_marker *marker, void *context, semel_error *err)
{
    keys *all = context;
    size_t used = strlen(all->text);
    (void)snprintf(all->text + used, sizeof all->text - used, "%.*s ", (int)marker->key.len,
                   (const char *)marker->key.data);
    memcpy(all->last, marker->key.data, marker->key.len);
    all->last_len = marker->key.len;
    return ++all->count == all->stop_at ? semel_fail(err, SEMEL_EHANDLER, "enough") : SEMEL_OK;
}

static void expect_keys(semel_inbox *inbox, const semel_marker_filter *filter, const char *text)
{
    keys all = {.count = 0};
    OK(semel_inbox_list(inbox, filter, note_key, &all, &last_error));
    assert_string_equal(all.text, text);
}

static void markers_are_listed_by_pages(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL), *other = open_inbox(f, "other", NULL);
    scripted_handler done = {0};
    semel_marker_filter filter = {.size = sizeof filter, .limit = 2};
    keys all = {.count = 0}, some = {.stop_at = 1};
    static const char *const ids[] = {"d", "a", "e", "b", "c"};
    expect_keys(inbox, NULL, "");
    for (size_t i = 0; i < 5; i++)
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, ids[i], &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, other, "z", &done);
    expect_keys(inbox, NULL, "a b c d e ");
    for (size_t before = 1; before != all.count;) {
        before = all.count;
        OK(semel_inbox_list(inbox, &filter, note_key, &all, &last_error));
        filter.after = (semel_bytes){all.last, all.last_len};
        assert_true(all.count - before <= 2);
    }
    assert_string_equal(all.text, "a b c d e ");
    FAILS(SEMEL_EHANDLER, semel_inbox_list(inbox, NULL, note_key, &some, &last_error));
    assert_string_equal(some.text, "a ");
    filter.limit = SEMEL_PAGE_MAX + 1;
    FAILS(SEMEL_ELIMIT, semel_inbox_list(inbox, &filter, note_key, &all, &last_error));
}

static void markers_are_listed_by_key_and_by_state(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0}, fails = {.failures = 1};
    scripted_handler gives_up = {.failures = 1, .failure = SEMEL_EGIVEUP};
    semel_marker_filter filter = {.size = sizeof filter};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &done);
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "b", &fails);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "c", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "d", &gives_up);
    filter.state = SEMEL_MARKER_OPEN;
    expect_keys(inbox, &filter, "b ");
    filter.state = SEMEL_MARKER_DEAD;
    expect_keys(inbox, &filter, "d ");
    filter.state = SEMEL_MARKER_DONE;
    expect_keys(inbox, &filter, "a c ");
    filter.limit = 1;
    filter.after = (semel_bytes){"a", 1};
    expect_keys(inbox, &filter, "c ");
    filter = (semel_marker_filter){.size = sizeof filter, .key = {"c", 1}};
    expect_keys(inbox, &filter, "c ");
    filter.state = SEMEL_MARKER_DEAD;
    expect_keys(inbox, &filter, "");
    filter.key = (semel_bytes){"x", 1};
    expect_keys(inbox, &filter, "");
    filter.state = (semel_marker_state)9;
    FAILS(SEMEL_EINVAL, semel_inbox_list(inbox, &filter, note_key, &done, &last_error));
}

/* A search by state goes on behind the rows of one step. */
static void a_rare_state_is_found_among_many(void **state)
{
    enum { MANY = 1500, EACH = 500 };
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    static char ids[MANY][8];
    static semel_message messages[EACH];
    static const semel_message *batch[EACH];
    static semel_outcome out[EACH];
    scripted_handler done = {0}, fails = {.failures = 1};
    semel_marker_filter filter = {.size = sizeof filter, .state = SEMEL_MARKER_OPEN};
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "m%05zu", i);
        messages[i % EACH] = text_message(ids[i], "paid");
        batch[i % EACH] = &messages[i % EACH];
        if (i % EACH == EACH - 1)
            OK(semel_inbox_receive_batch(out, inbox, batch, EACH, scripted_handler_run, &done,
                                         &last_error));
    }
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "z", &fails);
    expect_keys(inbox, &filter, "z ");
}

/* The visitor may use the store: the page was read before. */
static semel_status forget_key(const semel_marker *marker, void *context, semel_error *err)
{
    semel_message message = {.size = sizeof message, .id = marker->key};
    return semel_inbox_forget(context, &message, err);
}

static void a_visitor_may_use_the_store(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "a", &done);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "b", &done);
    OK(semel_inbox_list(inbox, NULL, forget_key, inbox, &last_error));
    expect_keys(inbox, NULL, "");
}

const store_test store_look_tests[] = {
    STORE_TEST(a_look_knows_what_became_of_a_key),
    STORE_TEST(a_look_tells_of_failures),
    STORE_TEST_WITH(a_look_tells_of_the_dead, NEEDS_DEAD),
    STORE_TEST_WITH(a_look_tells_of_claims, IN_CLAIM_MODE),
    STORE_TEST_WITH(a_look_does_not_wait_for_an_open_unit, IN_TRANSACTION_MODE),
    STORE_TEST(a_look_changes_and_counts_nothing),
    STORE_TEST(a_look_by_key_finds_long_keys_too),
    STORE_TEST_WITH(steps_give_the_stored_result, NEEDS_RESULTS),
    STORE_TEST(details_are_kept_with_each_state),
    STORE_TEST(details_come_with_batches_and_steps),
    STORE_TEST_WITH(details_outlive_the_handle, NEEDS_KEEPS),
    STORE_TEST(names_that_cannot_be_kept_are_left_out),
    STORE_TEST(markers_are_listed_by_pages),
    STORE_TEST_WITH(markers_are_listed_by_key_and_by_state, NEEDS_DEAD),
    STORE_TEST_WITH(a_rare_state_is_found_among_many, IN_TRANSACTION_MODE),
    STORE_TEST(a_visitor_may_use_the_store),
    {NULL, NULL, 0},
};
