/* Publishing and receiving: what goes in comes out, whole, in order, and as often as it went in. */
#include "support/conformance/conformance_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_message_arrives_as_it_was_published(void **state)
{
    transport_fixture *f = *state;
    const semel_message *message = full_message();
    semel_delivery delivery;
    publish_all(f, &message, 1);
    take(f, &delivery, 1);
    expect_delivery(f, message, delivery.message, 1);
    settle(f, delivery.tag, SEMEL_VERDICT_ACK, 0);
}

static void a_message_of_nothing_but_an_id_arrives(void **state)
{
    transport_fixture *f = *state;
    semel_message message = {.size = sizeof message, .id = {"\0", 1}};
    const semel_message *pointer = &message;
    semel_delivery delivery;
    publish_all(f, &pointer, 1);
    take(f, &delivery, 1);
    MESSAGE_EQUAL(&message, delivery.message);
}

static void the_largest_body_arrives_whole(void **state)
{
    transport_fixture *f = *state;
    size_t len = f->quirks->body_max ? f->quirks->body_max : SEMEL_BODY_MAX;
    unsigned char *body = malloc(len);
    assert_non_null(body);
    for (size_t i = 0; i < len; i++)
        body[i] = (unsigned char)(i * 167 >> 5);
    semel_message message = {.size = sizeof message, .id = {"m-1", 3}, .body = {body, len}};
    const semel_message *pointer = &message;
    semel_delivery delivery;
    publish_all(f, &pointer, 1);
    take(f, &delivery, 1);
    MESSAGE_EQUAL(&message, delivery.message);
    free(body);
}

static void all_headers_arrive_in_their_order(void **state)
{
    static semel_header headers[SEMEL_HEADERS_MAX];
    static char names[SEMEL_HEADERS_MAX][16];
    transport_fixture *f = *state;
    for (size_t i = 0; i < SEMEL_HEADERS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "X-%zu", SEMEL_HEADERS_MAX - i);
        headers[i] = (semel_header){names[i], {names[i], i % 5}};
    }
    semel_message message = {.size = sizeof message,
                             .id = {"m-1", 3},
                             .headers = headers,
                             .header_count = SEMEL_HEADERS_MAX};
    const semel_message *pointer = &message;
    semel_delivery delivery;
    publish_all(f, &pointer, 1);
    take(f, &delivery, 1);
    MESSAGE_EQUAL(&message, delivery.message);
}

/* An inbox reads it on the other side. */
static void the_header_of_a_delayed_message_arrives(void **state)
{
    transport_fixture *f = *state;
    semel_header due = {SEMEL_HEADER_DUE, semel_str("1700000000000")};
    semel_message message = text_message("m-1", "10 EUR");
    const semel_message *pointer = &message;
    semel_delivery delivery;
    message.headers = &due;
    message.header_count = 1;
    publish_all(f, &pointer, 1);
    take(f, &delivery, 1);
    MESSAGE_EQUAL(&message, delivery.message);
}

/* Inputs are borrowed for the call: what the caller does with its memory afterwards is its own
 * affair. */
static void a_published_message_is_the_transports_own(void **state)
{
    transport_fixture *f = *state;
    char id[] = "m-1", body[] = "10 EUR";
    semel_message message = text_message(id, body);
    const semel_message *pointer = &message;
    publish_all(f, &pointer, 1);
    memset(id, 'x', sizeof id - 1);
    memset(body, 'x', sizeof body - 1);
    message.topic = NULL;
    semel_delivery delivery;
    take(f, &delivery, 1);
    semel_message original = text_message("m-1", "10 EUR");
    MESSAGE_EQUAL(&original, delivery.message);
}

static void publishing_nothing_is_fine(void **state)
{
    transport_fixture *f = *state;
    publish_all(f, NULL, 0);
    expect_nothing(f);
}

/* Many at once, some of them the same: a transport does not tell copies apart. */
static void a_batch_arrives_complete(void **state)
{
    enum { MANY = 200 };
    transport_fixture *f = *state;
    char ids[MANY][8];
    semel_message messages[MANY];
    const semel_message *pointers[MANY];
    semel_delivery deliveries[MANY];
    unsigned seen[MANY] = {0};
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%d", i / 2);
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    publish_all(f, pointers, MANY);
    take(f, deliveries, MANY);
    for (int i = 0; i < MANY; i++)
        seen[strtoul(deliveries[i].message->id.data, NULL, 10)]++;
    for (int i = 0; i < MANY / 2; i++)
        assert_int_equal(seen[i], 2);
    expect_nothing(f);
}

/* Messages of the groups "a", "b", ... with the numbers 0, 1, 2, ... as ids, so many in all. What
 * has come is settled before more is asked for: a transport may keep back what follows in a group
 * until then. */
static void take_groups_in_order(transport_fixture *f, size_t count)
{
    enum { AT_ONCE = 64 };
    semel_delivery deliveries[AT_ONCE];
    unsigned long next[26] = {0};
    for (size_t have = 0, got; have < count; have += got) {
        OK(semel_transport_receive(f->transport, deliveries, AT_ONCE, &got, RECEIVE_WAIT_MS,
                                   &last_error));
        assert_in_range(got, 1, count - have);
        for (size_t i = 0; i < got; i++) {
            const semel_message *message = deliveries[i].message;
            int group = message->group[0] - 'a';
            assert_int_equal(strtoul(message->id.data, NULL, 10), next[group]++);
            settle(f, deliveries[i].tag, SEMEL_VERDICT_ACK, 0);
        }
    }
}

static void a_group_arrives_in_order(void **state)
{
    enum { MANY = 60, GROUPS = 3 };
    static const char *const groups[GROUPS] = {"a", "b", "c"};
    transport_fixture *f = *state;
    for (int i = 0; i < MANY; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i / GROUPS);
        publish_id(f, id, groups[i % GROUPS]);
    }
    take_groups_in_order(f, MANY);
}

static void a_group_published_at_once_arrives_in_order(void **state)
{
    enum { MANY = 50 };
    transport_fixture *f = *state;
    char ids[MANY][8];
    semel_message messages[MANY];
    const semel_message *pointers[MANY];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%d", i);
        messages[i] = text_message(ids[i], "10 EUR");
        messages[i].group = "a";
        pointers[i] = &messages[i];
    }
    publish_all(f, pointers, MANY);
    take_groups_in_order(f, MANY);
}

static void a_receiver_gets_no_more_than_it_asked_for(void **state)
{
    transport_fixture *f = *state;
    semel_delivery deliveries[4] = {{0}};
    size_t count = 0;
    for (int i = 0; i < 5; i++)
        publish_id(f, "m", NULL);
    OK(semel_transport_receive(f->transport, deliveries, 3, &count, RECEIVE_WAIT_MS, &last_error));
    assert_in_range(count, 1, 3);
    assert_null(deliveries[3].message);
}

static void its_confirmations_are_as_durable_as_it_says(void **state)
{
    transport_fixture *f = *state;
    const semel_transport_driver *driver = semel_transport_driver_of(f->transport);
    assert_int_equal(driver->durability(semel_transport_state(f->transport, driver)),
                     f->quirks->durability);
}

static void what_is_kept_is_there_after_opening_again(void **state)
{
    transport_fixture *f = *state;
    const semel_message *message = full_message();
    semel_delivery delivery;
    publish_all(f, &message, 1);
    reopen_transport(f);
    if (!(f->quirks->flags & TRANSPORT_KEEPS)) {
        expect_nothing(f);
        return;
    }
    take(f, &delivery, 1);
    /* It may have been on its way to us before: then this is a redelivery already. */
    expect_delivery(f, message, delivery.message, delivery.message->delivery);
}

const transport_test transport_publish_tests[] = {
    TRANSPORT_TEST(a_message_arrives_as_it_was_published),
    TRANSPORT_TEST(a_message_of_nothing_but_an_id_arrives),
    TRANSPORT_TEST(the_largest_body_arrives_whole),
    TRANSPORT_TEST(all_headers_arrive_in_their_order),
    TRANSPORT_TEST(the_header_of_a_delayed_message_arrives),
    TRANSPORT_TEST(a_published_message_is_the_transports_own),
    TRANSPORT_TEST(publishing_nothing_is_fine),
    TRANSPORT_TEST(a_batch_arrives_complete),
    TRANSPORT_TEST(a_group_arrives_in_order),
    TRANSPORT_TEST(a_group_published_at_once_arrives_in_order),
    TRANSPORT_TEST(a_receiver_gets_no_more_than_it_asked_for),
    TRANSPORT_TEST(its_confirmations_are_as_durable_as_it_says),
    TRANSPORT_TEST(what_is_kept_is_there_after_opening_again),
    {NULL, NULL, 0}};
