/* Connections that are lost: closed by the broker, cut on the way at any moment, silent; and a
 * queue that is deleted under its receiver. The transport goes on by itself, nothing is confirmed
 * that is not there, and what is not acknowledged comes again. */
#include "support/process/threads.h"
#include "support/servers/proxy.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <stdatomic.h>

#define QUORUM  "declare=yes&type=quorum"
#define CLASSIC "declare=yes&type=classic"

/* A kit by way of a proxy; its queue is there. */
static proxy *open_through(rabbit_kit *kit, const char *parameters)
{
    char through[SERVER_URL_ROOM];
    kit_open(kit, parameters);
    semel_transport_close(kit->transport);
    kit->transport = NULL;
    proxy *between = proxy_open(kit->url);
    OK(semel_transport_open(&kit->transport, proxy_url(through, between, kit->url), NULL,
                            &last_error));
    return between;
}

/* Only publishing, by way of a proxy. */
static proxy *publish_through(rabbit_kit *kit, const char *parameters, const char *more)
{
    char direct[SERVER_URL_ROOM];
    kit_open(kit, parameters);
    proxy *between = proxy_open(kit->url);
    memcpy(direct, kit->broker.url, sizeof direct);
    (void)proxy_url(kit->broker.url, between, direct);
    kit_publish_only(kit, more);
    memcpy(kit->broker.url, direct, sizeof direct);
    return between;
}

static void close_through(rabbit_kit *kit, proxy *between)
{
    kit_close(kit);
    proxy_close(between);
}

/* The next call that says something says that the connection is lost. */
static void expect_lost(rabbit_kit *kit, const char *why)
{
    semel_delivery one;
    size_t got = 0;
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_receive(kit->transport, &one, 1, &got, KIT_WAIT_MS, &last_error));
    assert_true(last_error.retryable);
    SAYS(why);
}

/* --- closed by the broker --------------------------------------------------------------------- */

/* Both begin by opening a connection, or with rabbitmqctl: meanwhile the receiver waits in its
 * call, where it hears of it. If it comes late, the transport's own thread has heard before, the
 * call connects anew, perhaps in the middle of the next closing, and the same is done once more. */
typedef struct closing {
    const rabbit_kit *kit;
    const char *name; /* of the connection; NULL: the queue is deleted */
} closing;

static void close_soon(test_thread *member)
{
    closing *what = member->context;
    if (what->name)
        (void)broker_close_connections(&what->kit->broker, what->name);
    else
        broker_delete_queue(&what->kit->broker, what->kit->queue);
}

static void close_and_expect_lost(rabbit_kit *kit, const char *name, const char *why)
{
    enum { TRY_MS = 10000 };
    closing what = {.kit = kit, .name = name};
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    semel_status status = SEMEL_OK;
    while (!(status && strstr(last_error.text, why)) && process_now_ms() < until) {
        test_thread other = {0};
        semel_delivery one;
        size_t got = 0;
        test_thread_start(&other, close_soon, &what);
        status = semel_transport_receive(kit->transport, &one, 1, &got, TRY_MS, &last_error);
        assert_true(test_thread_join(&other, KIT_WAIT_MS));
        assert_true(!status || (status == SEMEL_EUNAVAILABLE && last_error.retryable));
    }
    assert_int_equal(status, SEMEL_EUNAVAILABLE);
    SAYS(why);
}

static void a_receiver_whose_connection_is_closed_says_so_and_goes_on(void **state)
{
    char name[BROKER_NAME_ROOM], parameters[2 * BROKER_NAME_ROOM];
    rabbit_kit kit;
    (void)state;
    broker_name(name);
    (void)snprintf(parameters, sizeof parameters, QUORUM "&name=%s", name);
    kit_open(&kit, parameters);
    close_and_expect_lost(&kit, name, "a test wants it");
    kit_send(&kit, "1");
    kit_ack(&kit, kit_take_id(&kit, "1"));
    kit_close(&kit);
}

static void a_publisher_whose_connection_is_closed_goes_on(void **state)
{
    char name[BROKER_NAME_ROOM], parameters[2 * BROKER_NAME_ROOM];
    semel_message message = text_message("2", "x");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    rabbit_kit kit;
    (void)state;
    broker_name(name);
    kit_open(&kit, QUORUM);
    (void)snprintf(parameters, sizeof parameters, "name=%s", name);
    kit_publish_only(&kit, parameters);
    kit_send(&kit, "1");
    assert_int_equal(broker_close_connections(&kit.broker, name), 1);
    if (kit_publish(&kit, &result, &message, 1, KIT_WAIT_MS)) { /* unless it was noticed before */
        assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
        assert_int_equal(kit_publish_one(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    }
    EVENTUALLY(broker_count(&kit.broker, kit.queue) == 2);
    kit_close(&kit);
}

/* --- the queue is deleted --------------------------------------------------------------------- */

static void a_queue_deleted_under_its_receiver_is_made_again_if_asked_for(void **state)
{
    const char *const kinds[] = {QUORUM, CLASSIC};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rabbit_kit kit;
        kit_open(&kit, kinds[i]);
        kit_send(&kit, "0");
        semel_delivery out = kit_take_id(&kit, "0");
        close_and_expect_lost(&kit, NULL, kit.queue);
        FAILS(SEMEL_EUNAVAILABLE, kit_settle(&kit, out, SEMEL_VERDICT_ACK));
        semel_delivery none;
        size_t got = 9;
        EVENTUALLY(!semel_transport_receive(kit.transport, &none, 1, &got, 0, &last_error));
        assert_int_equal(got, 0);
        kit_send(&kit, "1");
        kit_ack(&kit, kit_take_id(&kit, "1"));
        kit_close(&kit);
    }
}

static void a_queue_deleted_under_its_receiver_is_waited_for(void **state)
{
    server_place shared;
    rabbit_kit kit;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(&kit, &shared, "declare=check&type=classic");
    broker_make_exchange(&shared, kit.queue, "topic");
    broker_make_queue(&shared, kit.queue, "classic");
    OK(semel_transport_open(&kit.transport, kit.url, NULL, &last_error));
    broker_delete_queue(&shared, kit.queue);
    expect_lost(&kit, kit.queue);
    for (int i = 0; i < 2; i++) {
        semel_delivery none;
        size_t got = 0;
        FAILS(SEMEL_EUNAVAILABLE,
              semel_transport_receive(kit.transport, &none, 1, &got, 300, &last_error));
        SAYS(kit.queue);
        SAYS("declare=yes");
    }
    broker_make_queue(&shared, kit.queue, "classic");
    broker_bind(&shared, kit.queue, kit.queue, "#");
    kit_send(&kit, "1");
    kit_ack(&kit, kit_take_id(&kit, "1"));
    kit_close(&kit);
}

/* --- cut on the way --------------------------------------------------------------------------- */

static void a_lost_confirmation_leaves_the_result_unknown(void **state)
{
    semel_message message = text_message("1", "x");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    rabbit_kit kit;
    (void)state;
    proxy *between =
        publish_through(&kit, QUORUM, "heartbeat=0"); /* which would pass for an answer */
    kit_send(&kit, "0");
    proxy_lose_answer(between, "order.paid");
    FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &message, 1, KIT_WAIT_MS));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    assert_int_equal(proxy_count(between).lost, 1);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 2); /* and yet it is there */
    assert_int_equal(kit_publish_one(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 3);
    close_through(&kit, between);
}

static void a_lost_message_is_not_confirmed(void **state)
{
    semel_message message = text_message("1", "x");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    rabbit_kit kit;
    (void)state;
    proxy *between = publish_through(&kit, QUORUM, "");
    kit_send(&kit, "0");
    proxy_lose_request(between, "order.paid");
    FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &message, 1, KIT_WAIT_MS));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 1);
    assert_int_equal(kit_publish_one(&kit, &message), SEMEL_PUBLISH_CONFIRMED);
    close_through(&kit, between);
}

enum { CUT_MESSAGES = 2000, CUT_BATCH = 40, CUTS = 7 }; /* each is followed by a longer pause */

typedef struct cutting {
    proxy *between;
    atomic_int over;
} cutting;

/* At other moments each time: after so many more bytes. */
static void cut_again_and_again(test_thread *member)
{
    cutting *what = member->context;
    for (unsigned i = 1; i <= CUTS && !atomic_load(&what->over); i++) {
        uint64_t from = proxy_count(what->between).request_bytes;
        while (proxy_count(what->between).request_bytes < from + 2000 + i * 1777 % 9000 &&
               !atomic_load(&what->over))
            process_nap();
        proxy_cut(what->between);
    }
}

/* Until it is confirmed, like a relay. */
static void publish_all(rabbit_kit *kit, char ids[][8], unsigned *trouble)
{
    semel_message messages[CUT_BATCH];
    semel_publish_result results[CUT_BATCH];
    for (size_t next = 0; next < CUT_MESSAGES;) {
        size_t confirmed = 0;
        for (size_t i = 0; i < CUT_BATCH; i++)
            messages[i] = text_message(ids[next + i], "10 EUR");
        semel_status status = kit_publish(kit, results, messages, CUT_BATCH, KIT_WAIT_MS);
        if (status)
            assert_int_equal(status, SEMEL_EUNAVAILABLE);
        for (size_t i = 0; i < CUT_BATCH; i++)
            confirmed += results[i] == SEMEL_PUBLISH_CONFIRMED;
        assert_int_equal(confirmed == CUT_BATCH, status == SEMEL_OK);
        *trouble += status != SEMEL_OK;
        next += status ? 0 : CUT_BATCH;
    }
}

static void what_is_confirmed_between_cuts_is_there(void **state)
{
    static char ids[CUT_MESSAGES][8];
    unsigned char seen[CUT_MESSAGES] = {0};
    unsigned trouble = 0;
    cutting what = {0};
    test_thread cutter = {0};
    rabbit_kit kit;
    (void)state;
    for (unsigned i = 0; i < CUT_MESSAGES; i++)
        (void)snprintf(ids[i], sizeof ids[i], "%u", i);
    what.between = publish_through(&kit, CLASSIC, "");
    test_thread_start(&cutter, cut_again_and_again, &what);
    for (int64_t until = process_now_ms() + KIT_WAIT_MS; !trouble && process_now_ms() < until;)
        publish_all(&kit, ids, &trouble); /* again, if the cutter slept meanwhile */
    atomic_store(&what.over, 1);
    assert_true(test_thread_join(&cutter, KIT_WAIT_MS));
    assert_int_not_equal(trouble, 0);
    kit_reopen(&kit);
    for (size_t left = CUT_MESSAGES; left > 0;) { /* what is not there is waited for in vain */
        semel_delivery one;
        char id[8] = "";
        kit_take(&kit, &one, 1);
        memcpy(id, one.message->id.data, one.message->id.len);
        left -= !seen[strtoul(id, NULL, 10)];
        seen[strtoul(id, NULL, 10)] = 1;
        kit_ack(&kit, one);
    }
    close_through(&kit, what.between);
}

/* Received, acknowledged, and cut in between: nothing is lost, and what comes twice was not
 * acknowledged. */
static void nothing_is_lost_to_a_receiver_that_is_cut_off(void **state)
{
    enum { COUNT = 160 };
    unsigned char done[COUNT] = {0};
    char id[8] = "";
    unsigned left = COUNT;
    rabbit_kit kit;
    (void)state;
    proxy *between = open_through(&kit, QUORUM "&prefetch=20");
    for (unsigned i = 0; i < COUNT; i++) {
        (void)snprintf(id, sizeof id, "%u", i);
        broker_publish(&kit.broker, kit.queue, "k",
                       &(amqp_basic_properties_t){._flags = AMQP_BASIC_MESSAGE_ID_FLAG,
                                                  .message_id = amqp_cstring_bytes(id)},
                       "x", 1);
    }
    for (unsigned turn = 0; left; turn++) {
        semel_delivery out[8];
        size_t got = 0;
        if (semel_transport_receive(kit.transport, out, 8, &got, KIT_WAIT_MS, &last_error))
            assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        if (turn % 7 == 3)
            proxy_cut(between);
        for (size_t i = 0; i < got; i++) {
            memset(id, 0, sizeof id);
            memcpy(id, out[i].message->id.data, out[i].message->id.len);
            unsigned number = (unsigned)strtoul(id, NULL, 10);
            left -= !done[number];
            done[number] = 1;
            if (kit_settle(&kit, out[i], SEMEL_VERDICT_ACK))
                assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
        }
    }
    assert_int_equal(left, 0);
    close_through(&kit, between);
}

/* --- silence ---------------------------------------------------------------------------------- */

/* With two seconds of heartbeat it is not only the peer that may be silent for too long: a machine
 * that is busy with other things may let any of us sleep, and the connection is lost before it was
 * to be, or for another reason. Then the same is done once more. */

static int is_published(rabbit_kit *kit, const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    semel_publish_result result = SEMEL_PUBLISH_UNKNOWN;
    return !kit_publish(kit, &result, &message, 1, KIT_WAIT_MS) &&
           result == SEMEL_PUBLISH_CONFIRMED;
}

static int is_received(rabbit_kit *kit, const char *id)
{
    semel_delivery one;
    size_t got = 0;
    if (semel_transport_receive(kit->transport, &one, 1, &got, KIT_WAIT_MS, &last_error) || !got)
        return 0;
    int wanted = one.message->id.len == strlen(id) &&
                 memcmp(one.message->id.data, id, one.message->id.len) == 0;
    return !kit_settle(kit, one, SEMEL_VERDICT_ACK) && wanted;
}

static void a_peer_that_has_gone_silent_is_noticed(void **state)
{
    rabbit_kit kit;
    (void)state;
    proxy *between = open_through(&kit, QUORUM "&heartbeat=2");
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    do {
        proxy_hold(between, 0);
        EVENTUALLY(is_published(&kit, "0"));
        EVENTUALLY(is_received(&kit, "0")); /* now it consumes */
        proxy_hold(between, 1);
        expect_lost(&kit, "");
    } while (!strstr(last_error.text, "silent") && process_now_ms() < until);
    SAYS("silent");
    proxy_hold(between, 0);
    EVENTUALLY(is_published(&kit, "1"));
    EVENTUALLY(is_received(&kit, "1"));
    close_through(&kit, between);
}

static void a_publisher_does_not_wait_for_a_silent_peer(void **state)
{
    semel_message message = text_message("1", "x");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    rabbit_kit kit;
    (void)state;
    proxy *between = publish_through(&kit, QUORUM, "heartbeat=2");
    int64_t until = process_now_ms() + KIT_WAIT_MS;
    do {
        proxy_hold(between, 0);
        EVENTUALLY(is_published(&kit, "0"));
        proxy_hold(between, 1);
        result = SEMEL_PUBLISH_CONFIRMED;
        FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &message, 1, KIT_WAIT_MS));
        assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    } while (!strstr(last_error.text, "silent") && process_now_ms() < until);
    SAYS("silent");
    proxy_hold(between, 0);
    EVENTUALLY(is_published(&kit, "1"));
    close_through(&kit, between);
}

/* A server listens, but its answers never come. */
static void expect_no_opening(const char *url)
{
    char through[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    proxy *between = proxy_open(url);
    proxy_hold(between, 1);
    int64_t start = process_now_ms();
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_open(&transport, proxy_url(through, between, url), NULL, &last_error));
    assert_true(process_now_ms() - start < KIT_WAIT_MS);
    assert_null(transport);
    proxy_close(between);
}

static void opening_does_not_wait_for_a_silent_peer(void **state)
{
    char url[SERVER_URL_ROOM], port[16];
    server_place shared;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    broker_fresh(url, &shared, QUORUM "&connect_ms=500");
    expect_no_opening(url);
    server_entry(port, sizeof port, &shared, "TLS_PORT");
    (void)snprintf(url, sizeof url,
                   "amqps://guest:guest@127.0.0.1:%s/%%2F?verify=no&connect_ms=500", port);
    expect_no_opening(url);
}

static int are_received(rabbit_kit *kit, semel_delivery out[], size_t count)
{
    for (size_t have = 0, got = 0; have < count; have += got)
        if (semel_transport_receive(kit->transport, out + have, count - have, &got, KIT_WAIT_MS,
                                    &last_error) ||
            !got)
            return 0;
    return 1;
}

/* While the handler works no thread calls the transport, for longer than the broker allows: two
 * heartbeats, and one more if it checks late. */
static int handle_slowly(rabbit_kit *kit)
{
    enum { SLOW_MS = 6500 };
    semel_delivery out[3];
    if (!is_published(kit, "0") || !is_published(kit, "1") || !is_published(kit, "2") ||
        !are_received(kit, out, 2))
        return 0;
    for (int64_t until = process_now_ms() + SLOW_MS; process_now_ms() < until;)
        process_nap();
    return !kit_settle(kit, out[1], SEMEL_VERDICT_ACK) &&
           !kit_settle(kit, out[0], SEMEL_VERDICT_ACK) && are_received(kit, &out[2], 1) &&
           *(const char *)out[2].message->id.data == '2' && out[2].message->delivery == 1 &&
           !kit_settle(kit, out[2], SEMEL_VERDICT_ACK);
}

static int slow_handler_keeps_all(void)
{
    rabbit_kit kit;
    proxy *between = open_through(&kit, QUORUM "&heartbeat=2&prefetch=2");
    int kept = handle_slowly(&kit);
    kept &= proxy_count(between).connections == 2; /* one to receive, one to publish */
    if (kept)
        EVENTUALLY(broker_count(&kit.broker, kit.queue) == 0);
    close_through(&kit, between);
    return kept;
}

static void a_slow_handler_keeps_its_connection_and_its_deliveries(void **state)
{
    (void)state;
    EVENTUALLY(slow_handler_keeps_all());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_whose_connection_is_closed_says_so_and_goes_on),
        cmocka_unit_test(a_publisher_whose_connection_is_closed_goes_on),
        cmocka_unit_test(a_queue_deleted_under_its_receiver_is_made_again_if_asked_for),
        cmocka_unit_test(a_queue_deleted_under_its_receiver_is_waited_for),
        cmocka_unit_test(a_lost_confirmation_leaves_the_result_unknown),
        cmocka_unit_test(a_lost_message_is_not_confirmed),
        cmocka_unit_test(what_is_confirmed_between_cuts_is_there),
        cmocka_unit_test(nothing_is_lost_to_a_receiver_that_is_cut_off),
        cmocka_unit_test(a_peer_that_has_gone_silent_is_noticed),
        cmocka_unit_test(a_publisher_does_not_wait_for_a_silent_peer),
        cmocka_unit_test(opening_does_not_wait_for_a_silent_peer),
        cmocka_unit_test(a_slow_handler_keeps_its_connection_and_its_deliveries),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("lost connections to RabbitMQ", tests, NULL, NULL);
}
