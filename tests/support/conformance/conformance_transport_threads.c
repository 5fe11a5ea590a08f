/* Waiting, and several at once. Threads report by their status: cmocka's checks are for the main
 * one. */
#include "support/conformance/conformance_transport.h"

#include "support/process/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 300, RECEIVERS = 3 };

/* Real time: the wait of a receiver is for others to act, whatever the seam's clock says. */
static void an_empty_receive_returns_when_its_time_is_over(void **state)
{
    transport_fixture *f = *state;
    semel_delivery delivery;
    size_t count = 9;
    int64_t before = process_now_ms();
    OK(semel_transport_receive(f->transport, &delivery, 1, &count, 60, &last_error));
    int64_t took = process_now_ms() - before;
    assert_int_equal(count, 0);
    assert_in_range(took, 59, 60000);
    before = process_now_ms();
    count = 9; /* without a wait there is none */
    OK(semel_transport_receive(f->transport, &delivery, 1, &count, 0, &last_error));
    assert_int_equal(count, 0);
    assert_in_range(process_now_ms() - before, 0, 60000);
}

/* --- woken by a publisher --------------------------------------------------------------------- */

typedef struct receiver {
    pthread_t thread;
    semel_transport *transport;
    semel_status status;
    unsigned char *seen; /* by number of the message: how often this receiver got it */
    atomic_uint *left;
    size_t got;
} receiver;

static void *receive_one(void *context)
{
    receiver *self = context;
    semel_delivery delivery;
    self->status = semel_transport_receive(self->transport, &delivery, 1, &self->got, 60000, NULL);
    return NULL;
}

static void a_waiting_receiver_is_woken_by_a_message(void **state)
{
    transport_fixture *f = *state;
    receiver waiting = {.transport = f->transport};
    int64_t before = process_now_ms();
    assert_int_equal(pthread_create(&waiting.thread, NULL, receive_one, &waiting), 0);
    for (int i = 0; i < 20; i++) /* most likely it is waiting by now; if not, that is fine, too */
        process_nap();
    publish_id(f, "m-1", NULL);
    assert_int_equal(pthread_join(waiting.thread, NULL), 0);
    assert_int_equal(waiting.status, SEMEL_OK);
    assert_int_equal(waiting.got, 1);
    assert_true(process_now_ms() - before < 30000);
}

/* --- side by side ----------------------------------------------------------------------------- */

static size_t number_of(const semel_message *message)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%.*s", (int)message->id.len, (const char *)message->id.data);
    return strtoul(text, NULL, 10) % MESSAGES;
}

static void *receive_many(void *context)
{
    receiver *self = context;
    while (!self->status && atomic_load(self->left)) {
        semel_delivery deliveries[4];
        self->status =
            semel_transport_receive(self->transport, deliveries, 4, &self->got, 20, NULL);
        for (size_t i = 0; !self->status && i < self->got; i++) {
            semel_delivery_settlement ack = {deliveries[i].tag, SEMEL_VERDICT_ACK, 0};
            self->seen[number_of(deliveries[i].message)]++;
            self->status = semel_transport_settle(self->transport, &ack, 1, NULL);
            atomic_fetch_sub(self->left, 1);
        }
    }
    return NULL;
}

static void publish_numbers(transport_fixture *f)
{
    for (int i = 0; i < MESSAGES; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        publish_id(f, id, NULL);
    }
}

static void receivers_never_share_a_delivery(void **state)
{
    static unsigned char seen[RECEIVERS][MESSAGES];
    transport_fixture *f = *state;
    receiver all[RECEIVERS] = {{0}};
    atomic_uint left = MESSAGES;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < RECEIVERS; i++) {
        all[i] = (receiver){.transport = f->transport, .seen = seen[i], .left = &left};
        assert_int_equal(pthread_create(&all[i].thread, NULL, receive_many, &all[i]), 0);
    }
    publish_numbers(f);
    for (int i = 0; i < RECEIVERS; i++)
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
    for (int i = 0; i < RECEIVERS; i++)
        assert_int_equal(all[i].status, SEMEL_OK);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(seen[0][i] + seen[1][i] + seen[2][i], 1);
    expect_nothing(f);
}

const transport_test transport_thread_tests[] = {
    TRANSPORT_TEST(an_empty_receive_returns_when_its_time_is_over),
    TRANSPORT_TEST_OF(a_waiting_receiver_is_woken_by_a_message, SEMEL_TRANSPORT_SHARED),
    TRANSPORT_TEST_OF(receivers_never_share_a_delivery, SEMEL_TRANSPORT_SHARED),
    {NULL, NULL, 0}};
