/* The test kit for users: its clock, its faults, its transports. */
#include "support/process/process.h"

#include <semel/semel.h>
#include <semel/sys/transport.h>
#include <semel/test.h>
#include <setjmp.h> /* cmocka.h wants these before it */
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, SEMEL_OK)

enum { PATIENCE_MS = 60000 };

/* --- the seam --------------------------------------------------------------------------------- */

static int open_seam(void **state)
{
    semel_test_seam *seam;
    OK(semel_test_seam_open(&seam, 42, NULL));
    *state = seam;
    return 0;
}

static int close_seam(void **state)
{
    semel_test_seam_close(*state);
    semel_test_seam_close(NULL);
    return 0;
}

static void assert_time(semel_test_seam *seam, int64_t wall_ms, int64_t steady_ms)
{
    const semel_seam *s = semel_test_seam_get(seam);
    assert_int_equal(s->wall_ms(s->context), wall_ms);
    assert_int_equal(s->steady_ms(s->context), steady_ms);
}

static void time_moves_only_when_told(void **state)
{
    const int64_t wall = INT64_C(1767225600000); /* 2026-01-01T00:00:00Z */
    const int64_t steady = 3600000;
    const semel_seam *s = semel_test_seam_get(*state);
    assert_time(*state, wall, steady);
    semel_test_advance_ms(*state, 5);
    assert_time(*state, wall + 5, steady + 5);
    semel_test_jump_ms(*state, -100);
    assert_time(*state, wall - 95, steady + 5);
    s->sleep_ms(s->context, 10);
    assert_time(*state, wall - 85, steady + 15);
    semel_test_reboot(*state, 1000);
    assert_time(*state, wall + 915, 0);
}

static void a_reboot_is_a_new_boot(void **state)
{
    const semel_seam *s = semel_test_seam_get(*state);
    char first[37], same[37], second[37];
    s->boot_id(s->context, first);
    semel_test_advance_ms(*state, 5);
    s->boot_id(s->context, same);
    semel_test_reboot(*state, 5);
    s->boot_id(s->context, second);
    assert_int_equal(strlen(first), 36);
    assert_string_equal(first, same);
    assert_string_not_equal(first, second);
}

static void randomness_repeats_with_its_seed(void **state)
{
    semel_test_seam *same, *other;
    unsigned char bytes[3][21];
    OK(semel_test_seam_open(&same, 42, NULL));
    OK(semel_test_seam_open(&other, 43, NULL));
    semel_test_seam *const seams[] = {*state, same, other};
    for (int i = 0; i < 3; i++) {
        const semel_seam *s = semel_test_seam_get(seams[i]);
        s->random(s->context, bytes[i], sizeof bytes[i]);
    }
    assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
    assert_memory_not_equal(bytes[0], bytes[2], sizeof bytes[0]);
    semel_test_seam_close(same);
    semel_test_seam_close(other);
}

static semel_status pass(semel_test_seam *seam, const char *point)
{
    const semel_seam *s = semel_test_seam_get(seam);
    return s->fault(s->context, point);
}

static void a_fault_strikes_the_nth_time_and_once(void **state)
{
    semel_test_fault(*state, "receive.marked", 2, SEMEL_ESTORE);
    OK(pass(*state, "receive.begun"));
    OK(pass(*state, "receive.marked"));
    assert_int_equal(pass(*state, "receive.marked"), SEMEL_ESTORE);
    OK(pass(*state, "receive.marked"));
    assert_int_equal(semel_test_passed(*state, "receive.marked"), 3);
    assert_int_equal(semel_test_passed(*state, "receive.begun"), 1);
    assert_int_equal(semel_test_passed(*state, "receive.handled"), 0);
    assert_int_equal(semel_test_passed(*state, "no such point"), 0);
    semel_test_fault(*state, "receive.marked", 1, SEMEL_ESTORE);
    semel_test_fault(*state, NULL, 0, SEMEL_OK);
    OK(pass(*state, "receive.marked"));
}

static void die_at_a_point(semel_test_seam *seam)
{
    semel_test_fault(seam, "receive.handled", 1, SEMEL_OK);
    (void)pass(seam, "receive.handled");
}

static void misspell_a_point(semel_test_seam *seam)
{
    semel_test_fault(seam, "recieve.handled", 1, SEMEL_OK);
}

static void pass_an_unlisted_point(semel_test_seam *seam)
{
    (void)pass(seam, "unlisted");
}

/* The signal that ended a child that did this. */
static int signal_of(void (*deed)(semel_test_seam *), semel_test_seam *seam)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        deed(seam);
        _exit(0);
    }
    int end = process_wait(child, PATIENCE_MS);
    assert_int_not_equal(end, PROCESS_LATE);
    return end > PROCESS_KILLED ? end - PROCESS_KILLED : 0;
}

static void a_fault_can_be_death_and_a_misspelt_one_is_noticed(void **state)
{
    assert_int_equal(signal_of(die_at_a_point, *state), SIGKILL);
    assert_int_equal(signal_of(misspell_a_point, *state), SIGABRT);
    assert_int_equal(signal_of(pass_an_unlisted_point, *state), SIGABRT);
}

static semel_status count_call(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)unit;
    (void)message;
    (void)err;
    ++*(int *)context;
    return SEMEL_OK;
}

static void the_library_passes_the_points(void **state)
{
    semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(*state)};
    semel_store *store;
    semel_inbox *inbox;
    semel_outcome outcome;
    semel_error err;
    int calls = 0;
    semel_message message = {.size = sizeof message, .id = semel_str("1")};
    OK(semel_store_open(&store, "memory:", &options, &err));
    OK(semel_inbox_open(&inbox, store, "in", NULL, &err));
    semel_test_fault(*state, "receive.marked", 1, SEMEL_ESTORE);
    assert_int_equal(semel_inbox_receive(&outcome, inbox, &message, count_call, &calls, &err),
                     SEMEL_ESTORE);
    assert_non_null(strstr(err.text, "receive.marked"));
    assert_int_equal(calls, 0);
    OK(semel_inbox_receive(&outcome, inbox, &message, count_call, &calls, &err));
    assert_int_equal(outcome, SEMEL_PROCESSED);
    assert_int_equal(semel_test_passed(*state, "receive.marked"), 2);
    assert_int_equal(semel_test_passed(*state, "receive.committed"), 1);
    semel_inbox_close(inbox);
    semel_store_close(store);
}

/* --- the recorder ----------------------------------------------------------------------------- */

static semel_status publish(semel_transport *transport, semel_publish_result *result,
                            const char *id, const char *topic)
{
    semel_message message = {.size = sizeof message, .id = semel_str(id), .topic = topic};
    const semel_message *batch[] = {&message};
    return semel_transport_publish(result, transport, batch, 1, 0, NULL);
}

static void assert_recorded(const semel_transport *recorder, const char *ids)
{
    char text[64] = "";
    for (size_t i = 0; i < semel_test_recorder_count(recorder); i++) {
        semel_bytes id = semel_test_recorder_message(recorder, i)->id;
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, "%.*s", (int)id.len, (const char *)id.data);
    }
    assert_string_equal(text, ids);
}

static void the_recorder_remembers_and_answers_as_told(void **state)
{
    semel_transport *recorder;
    semel_publish_result result;
    (void)state;
    OK(semel_test_recorder_open(&recorder, NULL));
    OK(publish(recorder, &result, "a", NULL));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    semel_test_recorder_answer(recorder, "t", SEMEL_PUBLISH_REFUSED, 1);
    semel_test_recorder_answer(recorder, NULL, SEMEL_PUBLISH_UNKNOWN, 1);
    OK(publish(recorder, &result, "b", "t"));
    assert_int_equal(result, SEMEL_PUBLISH_REFUSED);
    assert_int_equal(publish(recorder, &result, "c", "u"), SEMEL_EUNAVAILABLE);
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    OK(publish(recorder, &result, "d", "t"));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    assert_recorded(recorder, "acd");
    assert_null(semel_test_recorder_message(recorder, 3));
    semel_transport_close(recorder);
}

static void the_recorder_delivers_nothing(void **state)
{
    semel_transport *recorder, *memory;
    semel_delivery delivery;
    semel_delivery_settlement settle = {1, SEMEL_VERDICT_ACK, 0};
    size_t count = 9;
    (void)state;
    OK(semel_test_recorder_open(&recorder, NULL));
    OK(semel_transport_open(&memory, "memory:", NULL, NULL));
    OK(semel_transport_receive(recorder, &delivery, 1, &count, 1000, NULL));
    assert_int_equal(count, 0);
    assert_int_equal(semel_transport_settle(recorder, &settle, 1, NULL), SEMEL_EINVAL);
    assert_int_equal(semel_test_recorder_count(memory), 0);
    assert_null(semel_test_recorder_message(memory, 0));
    semel_transport_close(memory);
    semel_transport_close(recorder);
}

/* --- chaos ------------------------------------------------------------------------------------ */

enum { MESSAGES = 100, STREAM = 4096 };

typedef struct disorder {
    semel_transport *inner;
    semel_transport *chaos;
} disorder;

static void open_disorder(disorder *m, uint32_t copies, uint32_t hold_max, uint64_t seed)
{
    semel_test_chaos_options options = {
        .size = sizeof options, .copies = copies, .hold_max = hold_max, .seed = seed};
    OK(semel_transport_open(&m->inner, "memory:", NULL, NULL));
    OK(semel_test_chaos_open(&m->chaos, m->inner, &options, NULL));
    for (int i = 0; i < MESSAGES; i++) {
        char id[16];
        semel_publish_result result;
        (void)snprintf(id, sizeof id, "%d", i);
        OK(publish(m->chaos, &result, id, NULL));
        assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    }
}

static void close_disorder(disorder *m)
{
    semel_transport_close(m->chaos);
    semel_transport_close(m->inner);
}

static int id_of(const semel_delivery *delivery)
{
    return atoi(delivery->message->id.data);
}

/* Takes everything, acknowledging it at once; what came, in its order. */
static size_t drain(disorder *m, size_t max, int ids[STREAM])
{
    semel_delivery deliveries[16];
    size_t total = 0;
    for (size_t count; total < STREAM; total += count) {
        OK(semel_transport_receive(m->chaos, deliveries, max, &count, 0, NULL));
        assert_true(count <= max);
        for (size_t i = 0; i < count; i++) {
            semel_delivery_settlement ack = {deliveries[i].tag, SEMEL_VERDICT_ACK, 0};
            ids[total + i] = id_of(&deliveries[i]);
            assert_int_equal(deliveries[i].message->delivery, 1);
            OK(semel_transport_settle(m->chaos, &ack, 1, NULL));
        }
        if (!count)
            break;
    }
    return total;
}

static void everything_comes_twice_and_out_of_order(void **state)
{
    int ids[STREAM], seen[MESSAGES] = {0}, backwards = 0;
    disorder m;
    (void)state;
    open_disorder(&m, 0, 0, 3);
    assert_int_equal(drain(&m, 4, ids), 2 * MESSAGES);
    for (int i = 0; i < 2 * MESSAGES; i++) {
        seen[ids[i]]++;
        backwards += i && ids[i] < ids[i - 1];
    }
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(seen[i], 2);
    assert_true(backwards > MESSAGES / 4);
    size_t count = 9;
    semel_delivery delivery;
    OK(semel_transport_receive(m.inner, &delivery, 1, &count, 0, NULL));
    assert_int_equal(count, 0);
    close_disorder(&m);
}

static void chaos_repeats_with_its_seed(void **state)
{
    int ids[3][STREAM];
    (void)state;
    for (int i = 0; i < 3; i++) {
        disorder m;
        open_disorder(&m, 3, 20, i == 2 ? 8 : 7);
        assert_int_equal(drain(&m, 1, ids[i]), 3 * MESSAGES);
        close_disorder(&m);
    }
    assert_memory_equal(ids[0], ids[1], 3 * MESSAGES * sizeof ids[0][0]);
    assert_memory_not_equal(ids[0], ids[2], 3 * MESSAGES * sizeof ids[0][0]);
}

/* How many messages the inner transport still has, in whatever state: it refuses beyond
 * messages_max. */
static int inner_is_empty(semel_transport *inner)
{
    semel_publish_result result;
    OK(publish(inner, &result, "probe", NULL));
    return result == SEMEL_PUBLISH_CONFIRMED;
}

static void the_original_is_settled_with_its_last_copy(void **state)
{
    semel_transport *inner, *chaos;
    semel_publish_result result;
    semel_delivery deliveries[4];
    size_t count;
    (void)state;
    OK(semel_transport_open(&inner, "memory:?messages_max=1", NULL, NULL));
    OK(semel_test_chaos_open(&chaos, inner, NULL, NULL));
    OK(publish(chaos, &result, "a", NULL));
    OK(semel_transport_receive(chaos, deliveries, 1, &count, 0, NULL));
    assert_int_equal(count, 1);
    semel_delivery_settlement settle = {deliveries[0].tag, SEMEL_VERDICT_RETRY, 60000};
    OK(semel_transport_settle(chaos, &settle, 1, NULL));
    OK(semel_transport_receive(chaos, deliveries, 4, &count, 0, NULL));
    assert_int_equal(count, 2);
    assert_int_equal(deliveries[0].message->delivery + deliveries[1].message->delivery, 1 + 2);
    settle = (semel_delivery_settlement){deliveries[0].tag, SEMEL_VERDICT_ACK, 0};
    OK(semel_transport_settle(chaos, &settle, 1, NULL));
    assert_false(inner_is_empty(inner));
    semel_delivery_settlement both[] = {{deliveries[0].tag, SEMEL_VERDICT_ACK, 0},
                                        {deliveries[1].tag, SEMEL_VERDICT_REJECT, 0}};
    assert_int_equal(semel_transport_settle(chaos, both, 2, NULL), SEMEL_EINVAL);
    assert_true(inner_is_empty(inner));
    semel_transport_close(chaos);
    semel_transport_close(inner);
}

static void what_is_unsettled_goes_back_when_chaos_ends(void **state)
{
    semel_delivery deliveries[16];
    size_t count, total = 0;
    disorder m;
    (void)state;
    open_disorder(&m, 2, 5, 1);
    OK(semel_transport_receive(m.chaos, deliveries, 16, &count, 0, NULL));
    semel_transport_close(m.chaos);
    do {
        OK(semel_transport_receive(m.inner, deliveries, 16, &count, 0, NULL));
        total += count;
    } while (count);
    assert_int_equal(total, MESSAGES);
    semel_transport_close(m.inner);
}

static void chaos_can_do_what_its_inner_transport_can(void **state)
{
    semel_transport *recorder, *chaos;
    disorder m;
    semel_test_chaos_options options = {.size = sizeof options, .copies = 100000};
    (void)state;
    open_disorder(&m, 0, 0, 0);
    assert_int_equal(semel_transport_driver_of(m.chaos)->abilities,
                     SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS);
    assert_int_equal(semel_test_chaos_open(&chaos, m.inner, &options, NULL), SEMEL_EINVAL);
    close_disorder(&m);
    OK(semel_test_recorder_open(&recorder, NULL));
    OK(semel_test_chaos_open(&chaos, recorder, NULL, NULL));
    assert_int_equal(semel_transport_driver_of(chaos)->abilities & SEMEL_TRANSPORT_ORDERED, 0);
    semel_transport_close(chaos);
    semel_transport_close(recorder);
}

static semel_status fail_at_first(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    int *calls = (int *)context + atoi(message->id.data);
    if (++*calls == 1)
        return semel_fail(err, SEMEL_EHANDLER, "the first attempt fails");
    return count_call(unit, message, (int *)context + MESSAGES, err);
}

/* What it is for: a consumer in front of it handles each message once all the same. */
static void a_consumer_handles_each_message_once_through_chaos(void **state)
{
    semel_store_options options = {.size = sizeof options, .seam = semel_test_seam_get(*state)};
    int calls[MESSAGES + 1] = {0};
    semel_store *store;
    semel_inbox *inbox;
    semel_consumer *consumer;
    size_t settled, total = 0;
    disorder m;
    open_disorder(&m, 3, 40, 5);
    OK(semel_store_open(&store, "memory:", &options, NULL));
    OK(semel_inbox_open(&inbox, store, "in", NULL, NULL));
    semel_route route = {"*", inbox, fail_at_first, calls};
    semel_consumer_options quick = {.size = sizeof quick, .backoff_ms = 1, .backoff_max_ms = 1};
    OK(semel_consumer_open(&consumer, m.chaos, &route, 1, &quick, NULL));
    for (int turn = 0; turn < 10000 && total < 3 * MESSAGES; turn++) {
        OK(semel_consumer_step(&settled, consumer, 1, NULL));
        total += settled;
    }
    assert_int_equal(total, 3 * MESSAGES);
    assert_int_equal(calls[MESSAGES], MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(calls[i], 2);
    semel_consumer_close(consumer);
    semel_inbox_close(inbox);
    semel_store_close(store);
    close_disorder(&m);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_seam, close_seam)
    const struct CMUnitTest tests[] = {
        TEST(time_moves_only_when_told),
        TEST(a_reboot_is_a_new_boot),
        TEST(randomness_repeats_with_its_seed),
        TEST(a_fault_strikes_the_nth_time_and_once),
        TEST(a_fault_can_be_death_and_a_misspelt_one_is_noticed),
        TEST(the_library_passes_the_points),
        cmocka_unit_test(the_recorder_remembers_and_answers_as_told),
        cmocka_unit_test(the_recorder_delivers_nothing),
        cmocka_unit_test(everything_comes_twice_and_out_of_order),
        cmocka_unit_test(chaos_repeats_with_its_seed),
        cmocka_unit_test(the_original_is_settled_with_its_last_copy),
        cmocka_unit_test(what_is_unsettled_goes_back_when_chaos_ends),
        cmocka_unit_test(chaos_can_do_what_its_inner_transport_can),
        TEST(a_consumer_handles_each_message_once_through_chaos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
