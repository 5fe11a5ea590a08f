/* Which messages a relay takes, and when: groups, messages without a group and other outboxes each
 * have their turn, and the rest of a group waits for its first. Messages with the same id are
 * different messages. */
#include "support/fake/spy.h"

#include <semel/sys/transport.h>

#include <stdio.h>

static void put(semel_outbox *outbox, const char *id, const char *group, const char *topic)
{
    semel_message message = text_message(id, "a");
    message.group = group;
    message.topic = topic;
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static size_t step(semel_relay *relay)
{
    size_t sent = 99;
    OK(semel_relay_step(&sent, relay, 0, &last_error));
    return sent;
}

/* A broker that promises order refuses the rest of a group with its first: the rest waits, too. */
static void the_rest_of_a_refused_group_waits_for_its_first(void **state)
{
    fixture *f = *state;
    semel_transport *full = fixture_queue(f, "memory:?messages_max=2");
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay *relay = fixture_relay(f, outbox, full, NULL);
    static const char *const ids[] = {"1", "2", "3", "4", "5", "6"};
    char arrived[32] = "";
    for (size_t i = 0; i < 6; i++)
        put(outbox, ids[i], "g", NULL);
    for (int turn = 0; turn < 40 && strlen(arrived) < 6; turn++) {
        semel_delivery delivery;
        size_t got = 0;
        (void)step(relay);
        OK(semel_transport_receive(full, &delivery, 1, &got, 0, &last_error));
        if (got) {
            strncat(arrived, delivery.message->id.data, 1);
            semel_delivery_settlement ack = {.tag = delivery.tag, .verdict = SEMEL_VERDICT_ACK};
            OK(semel_transport_settle(full, &ack, 1, &last_error));
        }
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_string_equal(arrived, "123456");
}

static void two_messages_with_one_id_are_two_dead_letters(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .attempts_max = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    put(outbox, "same", NULL, "a");
    put(outbox, "same", NULL, "b");
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_REFUSED, 2);
    assert_int_equal(step(relay), 0);
    assert_int_equal(fixture_letters(f, NULL, 0), 2);
}

/* --- which message comes when ----------------------------------------------------------------- */

static void two_outboxes_do_not_take_each_others_turns(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outboxes[] = {fixture_outbox(f, "one"), fixture_outbox(f, "two")};
    semel_relay_options options = {.size = sizeof options, .batch = 1};
    semel_relay *relays[] = {fixture_relay(f, outboxes[0], recorder, &options),
                             fixture_relay(f, outboxes[1], recorder, &options)};
    char id[24];
    put(outboxes[0], "last", "z", NULL);
    for (int round = 0; round < 20; round++) {
        (void)snprintf(id, sizeof id, "a%d", round);
        for (int i = 0; i < 2; i++) {
            put(outboxes[i], id, "a", NULL);
            (void)step(relays[i]);
        }
    }
    char recorded[1024];
    assert_non_null(strstr(fixture_recorded(recorded, sizeof recorded, recorder), "last "));
}

static void a_single_place_goes_to_groups_and_others_in_turn(void **state)
{
    fixture *f = *state;
    semel_transport *recorder = fixture_recorder(f);
    semel_outbox *outbox = fixture_outbox(f, "out");
    semel_relay_options options = {.size = sizeof options, .batch = 1};
    semel_relay *relay = fixture_relay(f, outbox, recorder, &options);
    char id[24], recorded[1024];
    put(outbox, "alone", NULL, NULL);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "g%d", i);
        put(outbox, id, "g", NULL);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(relay), 1);
    assert_non_null(strstr(fixture_recorded(recorded, sizeof recorded, recorder), "alone "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("the rest of a refused group waits for its first",
                the_rest_of_a_refused_group_waits_for_its_first),
        ON_BOTH("two messages with one id are two dead letters",
                two_messages_with_one_id_are_two_dead_letters),
        ON_BOTH("two outboxes do not take each other's turns",
                two_outboxes_do_not_take_each_others_turns),
        ON_BOTH("a single place goes to groups and others in turn",
                a_single_place_goes_to_groups_and_others_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
