/* Limits of frames and of time, none of which may stop the RabbitMQ transport: headers that fill a
 * frame, a broker that is slow while a program connects, a broker that does not read while a
 * program ends. And messages that a receiver would cut off. */
#include "support/process/threads.h"
#include "support/servers/proxy.h"
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUORUM  "declare=yes&type=quorum"
#define CLASSIC "declare=yes&type=classic"

/* --- headers as large as a frame -------------------------------------------------------------- */

enum { FRAME = 131072, LARGE_HEADERS = 17, LARGE_VALUE = 7800 };

static const char *large_name(size_t index)
{
    static char names[LARGE_HEADERS][4];
    (void)snprintf(names[index], sizeof names[index], "h%02zu", index);
    return names[index];
}

static const char *large_value(void)
{
    static char value[SEMEL_HEADER_MAX];
    memset(value, 'v', sizeof value);
    return value;
}

/* With the longest last header that is not refused. */
static void send_largest(rabbit_kit *kit, const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    semel_header headers[LARGE_HEADERS];
    semel_publish_result result = SEMEL_PUBLISH_REFUSED;
    message.headers = headers;
    message.header_count = LARGE_HEADERS;
    for (size_t i = 0; i < LARGE_HEADERS; i++)
        headers[i] = (semel_header){large_name(i), {large_value(), LARGE_VALUE}};
    semel_bytes *last = &headers[LARGE_HEADERS - 1].value;
    assert_int_equal(kit_publish_one(kit, &message), SEMEL_PUBLISH_REFUSED);
    while (result == SEMEL_PUBLISH_REFUSED && last->len-- > 1)
        result = kit_publish_one(kit, &message);
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

/* A quorum queue adds how often it came, and another client is not as lenient as we are. */
static void the_largest_headers_can_still_be_read_when_the_message_comes_again(void **state)
{
    broker_message seen;
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, QUORUM);
    send_largest(&kit, "large");
    semel_delivery one = kit_take_id(&kit, "large");
    OK(kit_settle(&kit, one, SEMEL_VERDICT_RETRY));
    one = kit_take_id(&kit, "large");
    assert_int_equal(one.message->delivery, 2);
    assert_true(one.message->header_count >= LARGE_HEADERS);
    kit_publish_only(&kit, ""); /* it goes back */
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 1);
    assert_true(broker_get(&seen, &kit.broker, kit.queue));
    assert_non_null(broker_header(&seen, "x-delivery-count"));
    broker_message_free(&seen);
    kit_close(&kit);
}

/* Others fill a frame to its last byte. */
static void publish_full_frame(const rabbit_kit *kit, const char *id)
{
    amqp_table_entry_t entries[LARGE_HEADERS];
    size_t left = FRAME - 8 - 14 - (1 + strlen(id)) - 4; /* frame, content, id, table */
    for (size_t i = 0; i < LARGE_HEADERS; i++) {
        size_t overhead = 1 + strlen(large_name(i)) + 1 + 4;
        size_t share = i + 1 < LARGE_HEADERS ? LARGE_VALUE : left - overhead;
        assert_in_range(share, 1, SEMEL_HEADER_MAX);
        entries[i] = (amqp_table_entry_t){
            .key = amqp_cstring_bytes(large_name(i)),
            .value = {.kind = AMQP_FIELD_KIND_UTF8,
                      .value.bytes = {share, (void *)(uintptr_t)large_value()}}};
        left -= overhead + share;
    }
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG,
        .message_id = amqp_cstring_bytes(id),
        .headers = {.num_entries = LARGE_HEADERS, .entries = entries}};
    broker_publish(&kit->broker, kit->queue, "orders", &properties, "10 EUR", 6);
}

static void a_frame_that_grows_beyond_what_was_agreed_stops_no_transport(void **state)
{
    rabbit_kit kit;
    (void)state;
    kit_open(&kit, QUORUM);
    publish_full_frame(&kit, "full");
    for (uint32_t i = 1; i < 4; i++) {
        semel_delivery one = kit_take_id(&kit, "full");
        assert_int_equal(one.message->delivery, i);
        OK(kit_settle(&kit, one, SEMEL_VERDICT_RETRY));
    }
    kit_ack(&kit, kit_take_id(&kit, "full"));
    kit_send(&kit, "next");
    kit_ack(&kit, kit_take_id(&kit, "next"));
    EVENTUALLY(broker_count(&kit.broker, kit.queue) == 0);
    kit_close(&kit);
}

/* --- what a receiver would cut off ------------------------------------------------------------ */

enum { TOO_MANY = SEMEL_HEADERS_MAX + 1, LIMIT_CASES = 4 };

static void what_is_over_a_limit_is_refused_and_its_neighbours_are_not(void **state)
{
    static char long_id[SEMEL_TEXT_MAX + 1];
    static const semel_header nameless = {NULL, {"v", 1}};
    const semel_header large = {"n", {large_value(), SEMEL_HEADER_MAX}};
    semel_header many[TOO_MANY];
    semel_message messages[2 * LIMIT_CASES + 1];
    semel_publish_result results[2 * LIMIT_CASES + 1];
    rabbit_kit kit;
    (void)state;
    memset(long_id, 'i', sizeof long_id);
    for (size_t i = 0; i < TOO_MANY; i++)
        many[i] = (semel_header){"n", {"v", 1}};
    for (size_t i = 0; i <= 2 * LIMIT_CASES; i++)
        messages[i] = text_message("1", "10 EUR");
    messages[1].id = (semel_bytes){long_id, sizeof long_id};
    messages[3].headers = many;
    messages[3].header_count = TOO_MANY;
    messages[5].headers = &large;
    messages[5].header_count = 1;
    messages[7].headers = &nameless;
    messages[7].header_count = 1;
    kit_open(&kit, CLASSIC);
    OK(kit_publish(&kit, results, messages, 2 * LIMIT_CASES + 1, KIT_WAIT_MS));
    for (size_t i = 0; i <= 2 * LIMIT_CASES; i++)
        if (results[i] != (i % 2 ? SEMEL_PUBLISH_REFUSED : SEMEL_PUBLISH_CONFIRMED))
            fail_msg("message %zu: %d", i, (int)results[i]);
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == LIMIT_CASES + 1);
    kit_close(&kit);
}

/* --- a broker that is slow -------------------------------------------------------------------- */

#define MANY_BINDINGS                                           \
    CLASSIC "&connect_ms=2000&bind=a,b,c,d,e,f,g,h,i,j,k,l,m,n" \
            ",o,p,q,r,s,t,u,v,w,x,y,z,0,1,2,3,4,5,6,7,8,9,A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P,Q,R,S"

enum {
    PACE_MS = 150
}; /* for each answer; so it takes several times as long as connect_ms allows */

static void many_bindings_together_have_the_time_that_connecting_has(void **state)
{
    char through[SERVER_URL_ROOM];
    semel_transport *transport;
    server_place shared;
    semel_error err;
    rabbit_kit kit;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(&kit, &shared, MANY_BINDINGS);
    proxy *between = proxy_open(kit.url);
    proxy_delay(between, PACE_MS);
    semel_status status =
        semel_transport_open(&transport, proxy_url(through, between, kit.url), NULL, &err);
    if (status == SEMEL_OK)
        semel_transport_close(transport);
    assert_int_not_equal(status, SEMEL_OK);
    assert_true(err.retryable);
    proxy_close(between);
    kit_close(&kit);
}

/* --- a broker that does not read -------------------------------------------------------------- */

typedef struct middle {
    char url[SERVER_URL_ROOM]; /* of the broker */
    atomic_uint port;          /* ours, when it listens */
} middle;

/* A process between transport and broker, which can be stopped: then what the transport writes is
 * not read. */
static int stand_between(void *context)
{
    middle *m = context;
    atomic_store(&m->port, proxy_port(proxy_open(m->url)));
    (void)pause(); /* for good */
    return PROCESS_OK;
}

/* Until not a byte more goes into it, now or in a moment. */
static void fill_socket(int fd)
{
    static const char zeros[65536];
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    do
        while (send(fd, zeros, sizeof zeros, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            continue;
    while (poll(&room, 1, 100) == 1);
}

/* All connections of this process to that port, which may be there under several numbers. */
static size_t fill_sockets_to(unsigned port)
{
    size_t count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port) {
            fill_socket(fd);
            count++;
        }
    }
    return count;
}

typedef struct ending {
    rabbit_kit *kit;
    semel_status status;
    semel_publish_result result;
} ending;

/* There is time for the transport's own thread to have tried to tell the broker of the
 * acknowledgement. */
static void publish_and_close(test_thread *member)
{
    ending *e = member->context;
    const semel_message message = text_message("in vain", "10 EUR"), *one = &message;
    semel_error err;
    e->status = semel_transport_publish(&e->result, e->kit->transport, &one, 1, 100, &err);
    semel_transport_close(e->kit->transport);
}

static void open_by_middle(rabbit_kit *kit, middle *m)
{
    char url[SERVER_URL_ROOM];
    EVENTUALLY(atomic_load(&m->port));
    (void)snprintf(url, sizeof url, "amqp://guest:guest@127.0.0.1:%u/%%2F?queue=%s&exchange=%s",
                   atomic_load(&m->port), kit->queue, kit->queue);
    OK(semel_transport_open(&kit->transport, url, NULL, &last_error));
}

static void a_broker_that_does_not_read_hangs_neither_publishing_nor_closing(void **state)
{
    middle *m = process_share(sizeof *m);
    test_thread closer;
    rabbit_kit kit;
    ending end = {.kit = &kit};
    (void)state;
    kit_open(&kit, QUORUM);
    semel_transport_close(kit.transport);
    memcpy(m->url, kit.url, sizeof m->url);
    pid_t between = process_start(stand_between, m);
    open_by_middle(&kit, m);
    kit_send(&kit, "1");
    kit_send(&kit, "2");
    semel_delivery one = kit_take_id(&kit, "1");
    (void)kill(between, SIGSTOP);
    assert_true(process_wait_stopped(between, KIT_WAIT_MS));
    assert_true(fill_sockets_to(atomic_load(&m->port)) >= 2);
    kit_ack(&kit, one); /* to be told the broker in half a second, or at the end */
    test_thread_start(&closer, publish_and_close, &end);
    int ended = test_thread_join(&closer, KIT_WAIT_MS);
    (void)kill(between, SIGKILL);
    assert_int_equal(process_wait(between, KIT_WAIT_MS), PROCESS_KILLED + SIGKILL);
    assert_true(ended);
    assert_int_equal(end.status, SEMEL_EUNAVAILABLE);
    assert_int_equal(end.result, SEMEL_PUBLISH_UNKNOWN);
    kit.transport = NULL;
    EVENTUALLY(broker_ready(&kit.broker, kit.queue) == 2); /* it comes again */
    kit_close(&kit);
    process_unshare(m, sizeof *m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_headers_can_still_be_read_when_the_message_comes_again),
        cmocka_unit_test(a_frame_that_grows_beyond_what_was_agreed_stops_no_transport),
        cmocka_unit_test(what_is_over_a_limit_is_refused_and_its_neighbours_are_not),
        cmocka_unit_test(many_bindings_together_have_the_time_that_connecting_has),
        cmocka_unit_test(a_broker_that_does_not_read_hangs_neither_publishing_nor_closing),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("reviewed RabbitMQ", tests, NULL, NULL);
}
