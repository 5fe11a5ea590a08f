/* Servers that die, connections that are cut, processes that are killed. The transport goes on by
 * itself, what is confirmed is there, and what is not acknowledged comes again. */
#include "support/process/threads.h"
#include "support/servers/nats/nats_kit.h"
#include "support/servers/proxy.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 2000, ID_ROOM = 16 };

/* --- publishing while the server is killed ---------------------------------------------------- */

typedef struct publisher {
    nats_kit *kit;
    atomic_uint confirmed; /* messages 0 to confirmed - 1 are */
    atomic_uint outages;
} publisher;

/* One after the other; what is not confirmed is sent again, as a relay does. */
static void publish_all(test_thread *member)
{
    publisher *self = member->context;
    for (unsigned next = 0; next < MANY;) {
        char id[ID_ROOM];
        semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
        (void)snprintf(id, sizeof id, "%u", next);
        semel_message message = text_message(id, "10 EUR");
        const semel_message *pointer = &message;
        if (semel_transport_publish(&result, self->kit->transport, &pointer, 1, 1000, NULL))
            atomic_fetch_add(&self->outages, 1);
        if (result == SEMEL_PUBLISH_CONFIRMED)
            atomic_store(&self->confirmed, ++next);
    }
}

static unsigned number_of(const semel_message *message)
{
    char text[ID_ROOM];
    (void)snprintf(text, sizeof text, "%.*s", (int)message->id.len, (const char *)message->id.data);
    return (unsigned)strtoul(text, NULL, 10);
}

/* Receives and acknowledges until each has come. */
static void consume_all(nats_kit *kit, unsigned char seen[MANY])
{
    int64_t until = process_now_ms() + 2 * NATS_KIT_WAIT_MS;
    for (unsigned missing = MANY; missing && process_now_ms() < until;) {
        semel_delivery out[64];
        semel_delivery_settlement acks[64];
        size_t got = 0;
        if (semel_transport_receive(kit->transport, out, 64, &got, 200, NULL)) {
            process_nap();
            continue;
        }
        for (size_t i = 0; i < got; i++) {
            unsigned number = number_of(out[i].message);
            missing -= !seen[number];
            seen[number] = 1;
            acks[i] = (semel_delivery_settlement){out[i].tag, SEMEL_VERDICT_ACK, 0};
        }
        if (got)
            (void)semel_transport_settle(kit->transport, acks, got, NULL); /* or it comes again */
    }
}

static void nothing_confirmed_is_lost_when_the_server_is_killed(void **state)
{
    static unsigned char seen[MANY];
    server_own own;
    nats_kit kit;
    test_thread thread = {0};
    publisher sender = {.kit = &kit};
    (void)state;
    memset(seen, 0, sizeof seen);
    server_own_start(&own, SERVER_NATS);
    nats_kit_prepare(&kit, &own.at, "declare=yes&ack_ms=2000");
    nats_client_close(&kit.client);
    nats_kit_reopen(&kit);
    test_thread_start(&thread, publish_all, &sender);
    for (unsigned kill = 1; kill <= 3; kill++) {
        NATS_EVENTUALLY(atomic_load(&sender.confirmed) >= kill * MANY / 5);
        server_own_crash(&own);
        server_own_restart(&own);
    }
    consume_all(&kit, seen);
    assert_true(test_thread_join(&thread, NATS_KIT_WAIT_MS));
    assert_true(atomic_load(&sender.outages) > 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(seen[i], 1);
    nats_client_open(&kit.client, &own.at);
    nats_kit_close(&kit);
    server_own_stop(&own);
}

/* --- deliveries outlive their connection ------------------------------------------------------ */

static void a_delivery_can_be_acknowledged_by_the_next_connection(void **state)
{
    char through[SERVER_URL_ROOM];
    nats_kit kit;
    semel_delivery ignored;
    size_t got = 0;
    (void)state;
    nats_kit_open(&kit, "ack_ms=1000000");
    semel_transport_close(kit.transport);
    kit.transport = NULL;
    proxy *between = proxy_open(kit.url);
    OK(semel_transport_open(&kit.transport, proxy_url(through, between, kit.url), NULL,
                            &last_error));
    nats_kit_send(&kit, "m-1");
    semel_delivery one = nats_kit_take_id(&kit, "m-1");
    proxy_cut(between);
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_receive(kit.transport, &ignored, 1, &got, NATS_KIT_WAIT_MS, &last_error));
    assert_true(last_error.retryable);
    NATS_EVENTUALLY(!semel_transport_receive(kit.transport, &ignored, 1, &got, 0, NULL));
    assert_int_equal(got, 0);
    nats_kit_settle(&kit, one, SEMEL_VERDICT_ACK, 0);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 0);
    nats_kit_close(&kit);
    proxy_close(between);
}

/* The server has it, and its word was lost: it is unknown, and stored once. */
static void a_lost_confirmation_is_unknown_and_its_message_stored_once(void **state)
{
    char through[SERVER_URL_ROOM];
    nats_kit kit;
    semel_message message = text_message("m-1", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    (void)state;
    nats_kit_open(&kit, "");
    semel_transport_close(kit.transport);
    kit.transport = NULL;
    proxy *between = proxy_open(kit.url);
    OK(semel_transport_open(&kit.transport, proxy_url(through, between, kit.url), NULL,
                            &last_error));
    proxy_lose_answer(between, "HPUB");
    FAILS(SEMEL_EUNAVAILABLE, semel_transport_publish(&result, kit.transport, &pointer, 1,
                                                      NATS_KIT_WAIT_MS, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    NATS_EVENTUALLY(nats_client_count(&kit.client, kit.stream) == 1);
    NATS_EVENTUALLY(!semel_transport_publish(&result, kit.transport, &pointer, 1, NATS_KIT_WAIT_MS,
                                             &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 1);
    nats_kit_close(&kit);
    proxy_close(between);
}

/* --- a consumer that is killed ---------------------------------------------------------------- */

static int receive_and_hang(void *context)
{
    const char *url = context;
    semel_transport *transport = NULL;
    semel_delivery out[2];
    size_t got = 0;
    if (semel_transport_open(&transport, url, NULL, NULL) ||
        semel_transport_receive(transport, out, 2, &got, NATS_KIT_WAIT_MS, NULL) || !got)
        return 1;
    (void)raise(SIGKILL);
    return 1;
}

static void what_a_killed_consumer_had_comes_again_after_the_ack_wait(void **state)
{
    server_place shared;
    nats_kit kit;
    (void)state;
    server_find(&shared, SERVER_NATS);
    nats_kit_prepare(&kit, &shared, "declare=yes&ack_ms=1000");
    nats_kit_reopen(&kit);
    nats_kit_send(&kit, "m-1");
    semel_transport_close(kit.transport);
    kit.transport = NULL;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        _exit(receive_and_hang(kit.url));
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    nats_kit_reopen(&kit);
    semel_delivery one = nats_kit_take_id(&kit, "m-1");
    assert_true(one.message->delivery >= 2);
    nats_kit_close(&kit);
}

/* --- the consumer is deleted ------------------------------------------------------------------ */

static void a_consumer_that_is_deleted_is_made_again(void **state)
{
    nats_kit kit;
    semel_delivery out;
    size_t got = 0;
    (void)state;
    nats_kit_open(&kit, "");
    nats_kit_nothing(&kit);
    assert_int_equal(js_DeleteConsumer(kit.client.js, kit.stream, kit.stream, NULL, NULL), NATS_OK);
    NATS_EVENTUALLY(semel_transport_receive(kit.transport, &out, 1, &got, 3000, &last_error));
    assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
    NATS_EVENTUALLY(!semel_transport_receive(kit.transport, &out, 1, &got, 0, NULL));
    nats_kit_send(&kit, "m-1");
    nats_kit_settle(&kit, nats_kit_take_id(&kit, "m-1"), SEMEL_VERDICT_ACK, 0);
    nats_kit_close(&kit);
}

/* --- numbers that are used again ------------------------------------------------------------- */

/* A stream that was deleted and made again, or a server that lost its last messages with the power:
 * the number of a delivery that is still out here is another message's by now. */
static void an_old_acknowledgement_ends_no_new_message(void **state)
{
    nats_kit kit;
    semel_transport *other = NULL;
    semel_delivery out;
    size_t got = 0;
    (void)state;
    nats_kit_open(&kit, "ack_ms=1000000");
    nats_kit_send(&kit, "old");
    semel_delivery old = nats_kit_take_id(&kit, "old");
    assert_int_equal(js_DeleteStream(kit.client.js, kit.stream, NULL, NULL), NATS_OK);
    NATS_EVENTUALLY(semel_transport_receive(kit.transport, &out, 1, &got, 3000, &last_error));
    NATS_EVENTUALLY(!semel_transport_receive(kit.transport, &out, 1, &got, 0, NULL));
    assert_int_equal(got, 0);
    nats_kit_send(&kit, "new");
    OK(semel_transport_open(&other, kit.url, NULL, &last_error));
    OK(semel_transport_receive(other, &out, 1, &got, NATS_KIT_WAIT_MS, &last_error));
    BYTES_EQUAL(semel_str("new"), out.message->id);
    semel_delivery_settlement ack = {old.tag, SEMEL_VERDICT_ACK, 0};
    semel_status status = semel_transport_settle(kit.transport, &ack, 1, &last_error);
    assert_int_equal(nats_client_count(&kit.client, kit.stream), 1);
    assert_int_equal(status, SEMEL_EINVAL);
    semel_transport_close(other);
    nats_kit_settle(&kit, nats_kit_take_id(&kit, "new"), SEMEL_VERDICT_ACK, 0);
    nats_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_killed_consumer_had_comes_again_after_the_ack_wait),
        cmocka_unit_test(nothing_confirmed_is_lost_when_the_server_is_killed),
        cmocka_unit_test(a_delivery_can_be_acknowledged_by_the_next_connection),
        cmocka_unit_test(a_lost_confirmation_is_unknown_and_its_message_stored_once),
        cmocka_unit_test(a_consumer_that_is_deleted_is_made_again),
        cmocka_unit_test(an_old_acknowledgement_ends_no_new_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
