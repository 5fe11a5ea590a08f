/* Dead letters: given up on once, with all that is needed to replay them; listed, paged,
 * discarded. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

static void bury(store_fixture *f, semel_inbox *inbox, const char *id)
{
    scripted_handler hopeless = {.failures = 1, .failure = SEMEL_EGIVEUP};
    (void)f;
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, id, &hopeless);
}

static void what_keeps_failing_is_one_dead_letter(void **state)
{
    store_fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 3};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message message = *full_message();
    scripted_handler failing = {.failures = 99};
    message.time_ms = 0;
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &failing);
    RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, &message, &failing);
    assert_int_equal(count_letters(f), 0);
    pass_ms(f, grains(f, 5000));
    int64_t now = now_of(f);
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &message, &failing);

    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].origin, SEMEL_DEAD_INBOX);
    assert_string_equal(found.all[0].name, "orders");
    assert_string_equal(found.all[0].error, "out of paper");
    assert_int_equal(found.all[0].attempts, 3);
    STORED_AT(now, f, found.all[0].at_ms);
    assert_true(found.all[0].id > 0);
    MESSAGE_EQUAL(&message, found.all[0].message);
    letters_free(&found);
}

static void later_copies_of_a_dead_message_stay_dead(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler never = {0};
    bury(f, inbox, "m-1");
    for (int i = 0; i < 3; i++)
        RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &never);
    assert_int_equal(never.runs, 0);
    assert_int_equal(count_letters(f), 1);
    assert_int_equal(counters_of(f).dead, 4);
}

static void giving_up_makes_a_dead_letter_at_once(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    bury(f, inbox, "m-1");
    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.all[0].attempts, 1);
    BYTES_EQUAL(semel_str("m-1"), ((semel_bytes){found.all[0].key, found.all[0].key_len}));
    letters_free(&found);
}

/* What the last run wrote and sent before it failed is not there; what announces the letter is. */
static void a_dead_letter_is_announced_with_it(void **state)
{
    store_fixture *f = *state;
    semel_outbox *faults = open_outbox(f, "faults"), *mail = open_outbox(f, "mail");
    semel_inbox_options options = {
        .size = sizeof options, .faults = faults, .fault_topic = "alarm"};
    semel_inbox *inbox = open_inbox(f, "orders", &options);
    semel_message payment = text_message("mail-1", "paid");
    scripted_handler hopeless = {
        .failures = 1, .failure = SEMEL_EGIVEUP, .outbox = mail, .sends = &payment};
    semel_transport *broker = open_recorder(f);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &hopeless);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &hopeless);
    assert_int_equal(relay_once(open_relay(f, mail, open_recorder(f), NULL)), 0);
    assert_int_equal(relay_once(open_relay(f, faults, broker, NULL)), 1);
    const semel_message *fault = semel_test_recorder_message(broker, 0);
    assert_string_equal(fault->topic, "alarm");
    BYTES_EQUAL(semel_str("orders"), semel_message_header(fault, "semel-inbox"));
    BYTES_EQUAL(semel_str("out of paper"), semel_message_header(fault, "semel-error"));
    BYTES_EQUAL(semel_str("m-1"), semel_message_header(fault, "semel-message-id"));
    assert_int_equal(counters_of(f).unsent, 0);
}

/* One letter per key: a second burial takes the place of the first, under the id that people
 * know. */
static void a_second_burial_replaces_the_first_under_its_id(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_message first = text_message("m-1", "10 EUR"), second = text_message("m-1", "11 EUR");
    scripted_handler hopeless = {.failures = 2, .failure = SEMEL_EGIVEUP};
    bury(f, inbox, "m-0");
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &first, &hopeless);
    bury(f, inbox, "m-2");
    OK(semel_inbox_forget(inbox, &first, &last_error));
    RECEIVES(SEMEL_OK, SEMEL_DEAD, inbox, &second, &hopeless);

    letters found;
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 3);
    BYTES_EQUAL(semel_str("m-1"), ((semel_bytes){found.all[1].key, found.all[1].key_len}));
    BYTES_EQUAL(semel_str("11 EUR"), found.all[1].message->body);
    assert_true(found.all[0].id < found.all[1].id && found.all[1].id < found.all[2].id);
    letters_free(&found);
}

/* --- listing ---------------------------------------------------------------------------------- */

static void expect_keys(store_fixture *f, const semel_dead_filter *filter, const char *expected)
{
    char text[128] = "";
    size_t used = 0;
    letters found;
    letters_read(&found, f->base.store, filter);
    for (size_t i = 0; i < found.count; i++) {
        const char *key = found.all[i].key, *number = memchr(key, '#', found.all[i].key_len);
        int len = (int)(number ? (size_t)(number - key) + 1 : found.all[i].key_len);
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s ", len, key);
    }
    letters_free(&found);
    assert_string_equal(text, expected);
}

static void letters_are_listed_page_by_page(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_dead_filter filter = {.size = sizeof filter, .limit = 2};
    for (int i = 0; i < 5; i++) {
        char id[] = {(char)('e' - i), 0}; /* the order is that of burial, not of keys */
        bury(f, inbox, id);
    }
    expect_keys(f, &filter, "e d ");
    for (int page = 0; page < 2; page++) {
        letters found;
        letters_read(&found, f->base.store, &filter);
        filter.after_id = found.all[found.count - 1].id;
        letters_free(&found);
        expect_keys(f, &filter, page ? "a " : "c b ");
    }
    filter.after_id = INT64_MAX;
    expect_keys(f, &filter, "");
}

static void letters_are_found_by_origin_and_name(void **state)
{
    store_fixture *f = *state;
    semel_outbox *mail = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options once = {.size = sizeof once, .attempts_max = 1};
    semel_message payment = text_message("sent", "paid");
    bury(f, open_inbox(f, "orders", NULL), "a");
    bury(f, open_inbox(f, "mail", NULL), "b");
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 1);
    OK(semel_outbox_send(mail, &payment, &last_error));
    relay_once(open_relay(f, mail, broker, &once));

    semel_dead_filter filter = {.size = sizeof filter};
    expect_keys(f, &filter, "a b sent# ");
    filter.origin = SEMEL_DEAD_INBOX;
    expect_keys(f, &filter, "a b ");
    filter.name = "mail";
    expect_keys(f, &filter, "b ");
    filter.origin = SEMEL_DEAD_OUTBOX;
    expect_keys(f, &filter, "sent# ");
    filter.origin = SEMEL_DEAD_ANY;
    expect_keys(f, &filter, "b sent# ");
    filter.limit = 1;
    expect_keys(f, &filter, "b ");
    filter.name = "missing";
    expect_keys(f, &filter, "");
}

/* Fan-out: one id for two topics, each refused in its turn. When the second is sent, the first
 * one's row has left, and a database may give its number again; also after it was closed and
 * opened. */
static void messages_of_one_id_are_letters_of_their_own(void **state)
{
    store_fixture *f = *state;
    static const char *const topics[] = {"billing", "shipping", "audit"};
    semel_relay_options once = {.size = sizeof once, .attempts_max = 1};
    semel_message event = text_message("event-1", "paid");
    letters found;
    for (size_t i = 0; i < 3; i++) {
        semel_outbox *mail = open_outbox(f, "mail");
        semel_transport *broker = open_recorder(f);
        semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_REFUSED, 1);
        event.topic = topics[i];
        OK(semel_outbox_send(mail, &event, &last_error));
        relay_once(open_relay(f, mail, broker, &once));
        if (f->quirks->flags & STORE_KEEPS)
            reopen(f);
        pass_ms(f, 1); /* processes number what they make in one millisecond each for itself */
    }
    letters_read(&found, f->base.store, NULL);
    assert_int_equal(found.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(found.all[i].message->topic, topics[i]);
    letters_free(&found);
}

static semel_status stop_at_second(const semel_dead *dead, void *context, semel_error *err)
{
    int *seen = context;
    (void)dead;
    return ++*seen == 2 ? semel_fail(err, SEMEL_EHANDLER, "seen enough") : SEMEL_OK;
}

static void a_visitor_may_end_the_listing(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    int seen = 0;
    bury(f, inbox, "a");
    bury(f, inbox, "b");
    bury(f, inbox, "c");
    FAILS(SEMEL_EHANDLER, semel_dead_list(f->base.store, NULL, stop_at_second, &seen, &last_error));
    assert_int_equal(seen, 2);
    assert_string_equal(last_error.text, "seen enough");
    bury(f, inbox, "d"); /* the store is not left locked */
}

/* --- discarding ------------------------------------------------------------------------------- */

static void a_discarded_letter_is_gone_and_no_other(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    letters found;
    bury(f, inbox, "a");
    bury(f, inbox, "b");
    letters_read(&found, f->base.store, NULL);
    int64_t id = found.all[0].id;
    letters_free(&found);
    OK(semel_dead_discard(f->base.store, id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    FAILS(SEMEL_ENOTFOUND,
          semel_dead_discard(f->base.store, id, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    FAILS(SEMEL_ENOTFOUND,
          semel_dead_discard(f->base.store, 0, SEMEL_DISCARD_KEEP_DEAD, &last_error));
    expect_keys(f, NULL, "b ");
    bury(f, inbox, "c"); /* an id that a user may have noted is not given to another letter */
    letters_read(&found, f->base.store, NULL);
    assert_true(found.all[1].id > found.all[0].id && found.all[0].id > id);
    letters_free(&found);
}

/* Discarding the letter means that it will not be replayed, not that it may come again. */
static void a_discarded_message_is_not_handled_after_all(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler never = {0};
    bury(f, inbox, "m-1");
    OK(semel_dead_discard(f->base.store, only_letter(f), SEMEL_DISCARD_KEEP_DEAD, &last_error));
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &never);
    assert_int_equal(never.runs, 0);
    assert_int_equal(count_letters(f), 0);
}

const store_test store_dead_tests[] = {
    STORE_TEST(what_keeps_failing_is_one_dead_letter),
    STORE_TEST(later_copies_of_a_dead_message_stay_dead),
    STORE_TEST(giving_up_makes_a_dead_letter_at_once),
    STORE_TEST_WITH(a_dead_letter_is_announced_with_it, NEEDS_OUTBOX),
    STORE_TEST(a_second_burial_replaces_the_first_under_its_id),
    STORE_TEST_WITH(letters_are_listed_page_by_page, IN_ANY_MODE),
    STORE_TEST_WITH(letters_are_found_by_origin_and_name, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(messages_of_one_id_are_letters_of_their_own, IN_ANY_MODE | NEEDS_OUTBOX),
    STORE_TEST_WITH(a_visitor_may_end_the_listing, IN_ANY_MODE),
    STORE_TEST_WITH(a_discarded_letter_is_gone_and_no_other, IN_ANY_MODE),
    STORE_TEST(a_discarded_message_is_not_handled_after_all),
    {NULL, NULL, 0}};
