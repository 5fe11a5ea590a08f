/* The outbox: what was committed leaves, in the order of its group, and nothing else does. The
 * relay here talks to a recorder, which confirms everything; conformance_store_relay.c is about
 * brokers that do not. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>
#include <string.h>

static void send_id(semel_outbox *outbox, const char *id, const char *group)
{
    semel_message message = text_message(id, "paid");
    message.group = group;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static void a_message_leaves_if_its_unit_commits(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, outbox, broker, NULL);
    semel_message message = text_message("mail-1", "paid");
    semel_unit *unit;

    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_send(unit, outbox, &message, &last_error));
    semel_unit_rollback(unit);
    assert_int_equal(relay_once(relay), 0);

    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_send(unit, outbox, &message, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(semel_test_recorder_count(broker), 1);
}

static void a_message_leaves_if_its_handler_succeeds(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, outbox, broker, NULL);
    semel_message message = text_message("mail-1", "paid");
    scripted_handler failing = {.failures = 1, .outbox = outbox, .sends = &message};
    RECEIVES_ID(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &failing);
    assert_int_equal(relay_once(relay), 0);
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &failing);
    RECEIVES_ID(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &failing);
    assert_int_equal(relay_once(relay), 1);
    assert_int_equal(relay_once(relay), 0);
}

/* In claim mode a message waits in the unit, not in the store: it must be whole there, too. */
static void a_message_arrives_as_it_was_sent(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    scripted_handler done = {.outbox = outbox, .sends = full_message()};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, open_inbox(f, "orders", NULL), "m-1", &done);
    assert_int_equal(relay_once(open_relay(f, outbox, broker, NULL)), 1);
    MESSAGE_EQUAL(full_message(), semel_test_recorder_message(broker, 0));
}

static void the_largest_message_arrives_whole(void **state)
{
    static unsigned char body[SEMEL_BODY_MAX], value[SEMEL_HEADER_MAX - 8];
    static semel_header headers[SEMEL_HEADERS_MAX];
    static char names[SEMEL_HEADERS_MAX][8], text[SEMEL_TEXT_MAX + 1];
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (unsigned char)(i * 131 >> 4);
    memset(text, 't', SEMEL_TEXT_MAX);
    memset(value, 0xfe, sizeof value);
    for (size_t i = 0; i < SEMEL_HEADERS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "h%zu", i);
        headers[i] = (semel_header){names[i], {value, sizeof value - i}};
    }
    semel_message message = {.size = sizeof message,
                             .id = {text, SEMEL_TEXT_MAX},
                             .source = text,
                             .type = text,
                             .topic = text,
                             .group = text,
                             .correlation_id = {text, SEMEL_TEXT_MAX},
                             .content_type = text,
                             .time_ms = INT64_MAX,
                             .headers = headers,
                             .header_count = SEMEL_HEADERS_MAX,
                             .body = {body, sizeof body}};
    if (f->quirks->record_max) {
        message.header_count = 16;
        message.body.len = f->quirks->record_max - 16 * SEMEL_HEADER_MAX - 16 * SEMEL_TEXT_MAX;
    }
    OK(semel_outbox_send(outbox, &message, &last_error));
    assert_int_equal(relay_once(open_relay(f, outbox, broker, NULL)), 1);
    MESSAGE_EQUAL(&message, semel_test_recorder_message(broker, 0));
}

static void a_message_without_an_id_gets_one_and_keeps_it(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, outbox, broker, NULL);
    size_t sent;
    send_id(outbox, "", NULL);
    send_id(outbox, "", NULL);
    semel_test_recorder_answer(broker, NULL, SEMEL_PUBLISH_UNKNOWN, 2);
    FAILS(SEMEL_EUNAVAILABLE, semel_relay_step(&sent, relay, 0, &last_error));
    pass_ms(f, 60000);
    assert_int_equal(relay_once(relay) + relay_once(relay), 2);

    /* Two messages, each recorded twice: once with its answer lost, once confirmed. */
    semel_bytes first = semel_test_recorder_message(broker, 0)->id;
    semel_bytes second = semel_test_recorder_message(broker, 1)->id;
    assert_int_equal(semel_test_recorder_count(broker), 4);
    assert_int_equal(first.len, 36);
    assert_memory_not_equal(first.data, second.data, 36);
    int again = 0;
    for (size_t i = 2; i < 4; i++)
        again += memcmp(semel_test_recorder_message(broker, i)->id.data, first.data, 36) == 0;
    assert_int_equal(again, 1);
}

static void outboxes_are_kept_apart(void **state)
{
    store_fixture *f = *state;
    semel_outbox *mail = open_outbox(f, "mail"), *ledger = open_outbox(f, "ledger");
    semel_transport *post = open_recorder(f), *accounts = open_recorder(f);
    char ids[64];
    send_id(mail, "m", "g");
    send_id(ledger, "l", "g");
    assert_int_equal(relay_once(open_relay(f, mail, post, NULL)), 1);
    assert_int_equal(relay_once(open_relay(f, ledger, accounts, NULL)), 1);
    recorded_ids(ids, sizeof ids, post);
    assert_string_equal(ids, "m");
    recorded_ids(ids, sizeof ids, accounts);
    assert_string_equal(ids, "l");
}

static void a_turn_takes_no_more_than_its_batch(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay_options options = {.size = sizeof options, .batch = 4};
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), &options);
    for (int i = 0; i < 5; i++)
        send_id(outbox, "", NULL);
    for (int i = 0; i < 5; i++)
        send_id(outbox, "", "g");
    assert_int_equal(relay_once(relay), 4);
    assert_int_equal(relay_once(relay), 4);
    assert_int_equal(relay_once(relay), 2);
    assert_int_equal(relay_once(relay), 0);
}

/* A relay that goes round its groups, from where it stopped, comes by the same one again. */
static void a_turn_takes_each_message_once(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), NULL);
    static const char *const groups[] = {"b", "a", "c", "b", NULL, "a"};
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6; i++)
            send_id(outbox, "", groups[i]);
        assert_int_equal(relay_once(relay), 6);
        send_id(outbox, "", groups[round]);
        assert_int_equal(relay_once(relay), 1);
        assert_int_equal(relay_once(relay), 0);
    }
}

static void what_is_unsent_is_counted(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay_options options = {.size = sizeof options, .batch = 1};
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), &options);
    assert_int_equal(counters_of(f).unsent, 0);
    assert_int_equal(counters_of(f).oldest_unsent_ms, 0);
    int64_t first = now_of(f);
    send_id(outbox, "1", NULL);
    pass_ms(f, grains(f, 5000));
    int64_t second = now_of(f);
    send_id(open_outbox(f, "ledger"), "2", "g");

    semel_counters counters = counters_of(f);
    assert_int_equal(counters.unsent, 2);
    STORED_AT(first, f, counters.oldest_unsent_ms);
    assert_int_equal(counters.captured, 2);
    assert_int_equal(relay_once(relay), 1);
    counters = counters_of(f);
    assert_int_equal(counters.unsent, 1);
    STORED_AT(second, f, counters.oldest_unsent_ms);
    assert_int_equal(counters.sent, 1);
    assert_int_equal(counters.resent, 0);
}

/* `ids` are words, separated by spaces. */
static void assert_in_order(const char *ids, const char *first, const char *second)
{
    const char *one = strstr(ids, first), *other = strstr(ids, second);
    assert_non_null(one);
    assert_non_null(other);
    assert_true(one < other);
}

/* --- delay ------------------------------------------------------------------------------------ */

static void a_delayed_message_leaves_not_before_its_time(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay *relay = open_relay(f, outbox, open_recorder(f), NULL);
    semel_message reminder = text_message("reminder", "pay");
    reminder.delay_ms = 3600000;
    OK(semel_outbox_send(outbox, &reminder, &last_error));
    reminder.group = "g";
    OK(semel_outbox_send(outbox, &reminder, &last_error));
    pass_almost(f, 3600000);
    assert_int_equal(relay_once(relay), 0);
    assert_int_equal(counters_of(f).unsent, 2);
    pass_grain(f);
    assert_int_equal(relay_once(relay), 2);
}

/* In a group the order of capture wins; a sender that does not want that sends without a group. */
static void a_delayed_message_holds_up_its_group_only(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, outbox, broker, NULL);
    semel_message later = text_message("later", "pay");
    char ids[64];
    later.group = "g";
    later.delay_ms = grains(f, 1000);
    OK(semel_outbox_send(outbox, &later, &last_error));
    send_id(outbox, "1", "g");
    later.id = semel_str("latest");
    later.group = NULL;
    OK(semel_outbox_send(outbox, &later, &last_error));
    send_id(outbox, "2", "g");
    send_id(outbox, "other", "h");
    send_id(outbox, "free", NULL);
    assert_int_equal(relay_all(relay), 2);
    pass_almost(f, later.delay_ms);
    assert_int_equal(relay_all(relay), 0);
    pass_grain(f);
    assert_int_equal(relay_all(relay), 4);
    recorded_ids(ids, sizeof ids, broker);
    assert_in_order(ids, "later", "1");
    assert_in_order(ids, "1", "2");
}

/* Also when it is not the first one of its group: those before it leave, those behind it wait. */
static void a_delayed_message_is_not_overtaken(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay *relay = open_relay(f, outbox, broker, NULL);
    semel_message later = text_message("later", "pay");
    char ids[64];
    later.group = "g";
    later.delay_ms = grains(f, 1000);
    send_id(outbox, "1", "g");
    OK(semel_outbox_send(outbox, &later, &last_error));
    send_id(outbox, "2", "g");
    assert_int_equal(relay_all(relay), 1);
    send_id(outbox, "3", "g");
    assert_int_equal(relay_all(relay), 0);
    pass_ms(f, later.delay_ms);
    assert_int_equal(relay_all(relay), 3);
    recorded_ids(ids, sizeof ids, broker);
    assert_string_equal(ids, "1 later 2 3");
}

/* --- order ------------------------------------------------------------------------------------ */

/* Each id is its group and a number: "b7". In each group the numbers must ascend without a gap. */
static void expect_order_in_groups(const semel_transport *broker, unsigned groups, unsigned each)
{
    unsigned next[26] = {0};
    for (size_t i = 0; i < semel_test_recorder_count(broker); i++) {
        semel_bytes id = semel_test_recorder_message(broker, i)->id;
        const char *text = id.data;
        unsigned group = (unsigned)(text[0] - 'a'), number = 0;
        for (size_t at = 1; at < id.len; at++)
            number = number * 10 + (unsigned)(text[at] - '0');
        assert_in_range(group, 0, groups - 1);
        assert_int_equal(number, next[group]);
        next[group]++;
    }
    for (unsigned i = 0; i < groups; i++)
        assert_int_equal(next[i], each);
}

static void send_to_groups(semel_outbox *outbox, unsigned groups, unsigned each)
{
    for (unsigned number = 0; number < each; number++)
        for (unsigned group = 0; group < groups; group++) {
            char name[] = {(char)('a' + group), 0}, id[16];
            (void)snprintf(id, sizeof id, "%s%u", name, number);
            send_id(outbox, id, name);
        }
}

/* P10: several relays, each with its own batch; the order of a group is that of its capture. */
static void two_relays_keep_the_order_of_a_group(void **state)
{
    enum { GROUPS = 5, EACH = 12 };
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options few = {.size = sizeof few, .batch = 3},
                        more = {.size = sizeof more, .batch = 7};
    semel_relay *one = open_relay(f, outbox, broker, &few);
    semel_relay *other = open_relay(f, outbox, broker, &more);
    send_to_groups(outbox, GROUPS, EACH);
    for (size_t left = GROUPS * EACH, turns = 0; left; turns++) {
        assert_true(turns < 100);
        left -= relay_once(turns % 2 ? other : one);
    }
    expect_order_in_groups(broker, GROUPS, EACH);
}

/* A relay that dies with a batch keeps the groups in it waiting, and no others, until its lease
 * ends. */
static void a_group_waits_for_the_lease_of_a_dead_relay(void **state)
{
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options options = {.size = sizeof options, .batch = 1, .lease_ms = 30000};
    semel_relay *dead = open_relay(f, outbox, broker, &options);
    semel_relay *alive = open_relay(f, outbox, broker, NULL);
    size_t sent;
    char ids[64];
    send_id(outbox, "a0", "a");
    send_id(outbox, "a1", "a");
    semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, dead, 0, &last_error));
    send_id(outbox, "b0", "b");
    send_id(outbox, "x", NULL);
    assert_int_equal(relay_once(alive), 2);
    pass_almost(f, 30000);
    assert_int_equal(relay_once(alive), 0);
    pass_grain(f);
    assert_int_equal(relay_once(alive), 2);
    recorded_ids(ids, sizeof ids, broker);
    assert_non_null(strstr(ids, "a0 a1"));
    assert_int_equal(counters_of(f).resent, 1);
}

/* However many groups are blocked, one that is not is found, in a few turns at most. */
static void a_ready_group_is_found_behind_many_blocked_ones(void **state)
{
    enum { BLOCKED = 24 };
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_relay_options all = {.size = sizeof all, .batch = 100},
                        few = {.size = sizeof few, .batch = 1};
    semel_relay *dead = open_relay(f, outbox, open_recorder(f), &all);
    semel_relay *alive = open_relay(f, outbox, open_recorder(f), &few);
    size_t sent, total = 0;
    send_to_groups(outbox, BLOCKED, 1);
    semel_test_fault(f->base.seam, "relay.taken", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_relay_step(&sent, dead, 0, &last_error));
    send_to_groups(outbox, BLOCKED, 1);
    send_id(outbox, "z0", "z");
    for (int turns = 0; !total && turns < 10; turns++)
        total += relay_once(alive);
    assert_int_equal(total, 1);
}

static void relays_on_two_handles_share_the_work(void **state)
{
    enum { GROUPS = 3, EACH = 6 };
    store_fixture *f = *state;
    semel_outbox *outbox = open_outbox(f, "mail");
    semel_transport *broker = open_recorder(f);
    semel_relay_options few = {.size = sizeof few, .batch = 2};
    semel_relay *one = open_relay(f, outbox, broker, &few);
    semel_store *first = f->base.store;
    f->base.store = open_second_handle(f);
    semel_relay *other = open_relay(f, open_outbox(f, "mail"), broker, &few);
    f->base.store = first;
    send_to_groups(outbox, GROUPS, EACH);
    size_t by_one = 0, by_other = 0;
    for (int turns = 0; by_one + by_other < (size_t)GROUPS * EACH && turns < 100; turns++) {
        by_one += relay_once(one);
        by_other += relay_once(other);
    }
    expect_order_in_groups(broker, GROUPS, EACH);
    assert_true(by_one && by_other);
}

const store_test store_outbox_tests[] = {
    STORE_TEST_WITH(a_message_leaves_if_its_unit_commits, IN_ANY_MODE),
    STORE_TEST(a_message_leaves_if_its_handler_succeeds),
    STORE_TEST(a_message_arrives_as_it_was_sent),
    STORE_TEST_WITH(the_largest_message_arrives_whole, IN_ANY_MODE),
    STORE_TEST_WITH(a_message_without_an_id_gets_one_and_keeps_it, IN_ANY_MODE),
    STORE_TEST_WITH(outboxes_are_kept_apart, IN_ANY_MODE),
    STORE_TEST_WITH(a_turn_takes_no_more_than_its_batch, IN_ANY_MODE),
    STORE_TEST_WITH(a_turn_takes_each_message_once, IN_ANY_MODE),
    STORE_TEST_WITH(what_is_unsent_is_counted, IN_ANY_MODE),
    STORE_TEST_WITH(a_delayed_message_leaves_not_before_its_time, IN_ANY_MODE),
    STORE_TEST_WITH(a_delayed_message_holds_up_its_group_only, IN_ANY_MODE),
    STORE_TEST_WITH(a_delayed_message_is_not_overtaken, IN_ANY_MODE),
    STORE_TEST_WITH(two_relays_keep_the_order_of_a_group, IN_ANY_MODE),
    STORE_TEST_WITH(a_group_waits_for_the_lease_of_a_dead_relay, IN_ANY_MODE),
    STORE_TEST_WITH(a_ready_group_is_found_behind_many_blocked_ones, IN_ANY_MODE),
    STORE_TEST_WITH(relays_on_two_handles_share_the_work, IN_ANY_MODE | NEEDS_SHARED),
    {NULL, NULL, 0}};
