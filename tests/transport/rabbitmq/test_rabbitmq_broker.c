/* The broker that the other tests use can be inspected from outside, disturbed, killed and started
 * again (support/broker.h). Nothing of the library is used here, but for the alarm and the closing,
 * which need a client that notices them. */
#include "support/servers/rabbitmq/rabbitmq_kit.h"

enum { WAIT_MS = 20000 };

typedef struct fixture {
    server_place where;
    char url[SERVER_URL_ROOM];
    char name[BROKER_NAME_ROOM]; /* of queue and exchange */
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    server_find(&f->where, SERVER_RABBITMQ);
    broker_fresh(f->url, &f->where, "declare=yes&type=classic");
    broker_queue_of(f->name, f->url);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    broker_drop(f->url);
    free(f);
    return 0;
}

static void make_bound_queue(const server_place *where, const char *name, const char *type)
{
    broker_make_exchange(where, name, "topic");
    broker_make_queue(where, name, type);
    broker_bind(where, name, name, "a.#");
}

static void publish(const server_place *where, const char *exchange, const char *body)
{
    amqp_table_entry_t header = {
        .key = amqp_cstring_bytes("colour"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("red")}};
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_HEADERS_FLAG |
                                                    AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .delivery_mode = AMQP_DELIVERY_PERSISTENT,
                                          .headers = {.num_entries = 1, .entries = &header}};
    broker_publish(where, exchange, "a.b", &properties, body, strlen(body));
}

static semel_bytes bytes_of(amqp_bytes_t bytes)
{
    return (semel_bytes){bytes.bytes, bytes.len};
}

static void what_is_published_can_be_got(void **state)
{
    fixture *f = *state;
    broker_message got;
    make_bound_queue(&f->where, f->name, "classic");
    publish(&f->where, f->name, "10 EUR");
    assert_int_equal(broker_ready(&f->where, f->name), 1);
    assert_int_equal(broker_get(&got, &f->where, f->name), 1);
    BYTES_EQUAL(semel_str("10 EUR"), bytes_of(got.message.body));
    assert_string_equal(got.exchange, f->name);
    assert_string_equal(got.key, "a.b");
    assert_false(got.redelivered);
    BYTES_EQUAL(semel_str("red"), bytes_of(broker_header(&got, "colour")->value.bytes));
    assert_null(broker_header(&got, "taste"));
    broker_message_free(&got);
    assert_int_equal(broker_get(&got, &f->where, f->name), 0);
}

static void messages_are_counted(void **state)
{
    fixture *f = *state;
    make_bound_queue(&f->where, f->name, "quorum");
    for (int i = 0; i < 3; i++)
        publish(&f->where, f->name, "10 EUR");
    assert_int_equal(broker_count(&f->where, f->name), 3);
    broker_purge(&f->where, f->name);
    assert_int_equal(broker_count(&f->where, f->name), 0);
    assert_int_equal(broker_ready(&f->where, f->name), 0);
    broker_drop(f->url);
    assert_int_equal(broker_count(&f->where, f->name), -1);
    assert_int_equal(broker_ready(&f->where, f->name), -1);
}

static semel_transport *open_transport(const char *url)
{
    semel_transport *transport;
    OK(semel_transport_open(&transport, url, NULL, &last_error));
    return transport;
}

/* broker_ready() does not count what a consumer has, broker_count() does. */
static void a_connection_can_be_closed_by_its_name(void **state)
{
    fixture *f = *state;
    char url[SERVER_URL_ROOM + BROKER_NAME_ROOM + 8];
    (void)snprintf(url, sizeof url, "%s&name=%s", f->url, f->name);
    semel_transport *transport = open_transport(url);
    semel_delivery delivery;
    size_t count;
    publish(&f->where, f->name, "10 EUR");
    OK(semel_transport_receive(transport, &delivery, 1, &count, WAIT_MS, &last_error));
    assert_int_equal(count, 1);
    assert_int_equal(broker_ready(&f->where, f->name), 0);
    assert_int_equal(broker_count(&f->where, f->name), 1);
    assert_int_equal(broker_close_connections(&f->where, "unknown"), 0);
    assert_in_range(broker_close_connections(&f->where, f->name), 1, 2);
    int64_t deadline = process_now_ms() + WAIT_MS;
    while (broker_ready(&f->where, f->name) != 1 && process_now_ms() < deadline)
        process_nap();
    assert_int_equal(broker_ready(&f->where, f->name), 1);
    semel_transport_close(transport);
}

static semel_status open_as(const fixture *f, const char *user, const char *password)
{
    char url[SERVER_URL_ROOM];
    semel_transport *transport = NULL;
    (void)snprintf(url, sizeof url,
                   "amqp://%s:%s@%s:%u/%%2F?queue=%s&type=classic&" BROKER_PATIENCE, user, password,
                   f->where.host, f->where.port, f->name);
    semel_status status = semel_transport_open(&transport, url, NULL, &last_error);
    semel_transport_close(transport);
    return status;
}

static void a_user_has_a_password_and_permissions(void **state)
{
    fixture *f = *state;
    broker_make_queue(&f->where, f->name, "classic");
    broker_user(&f->where, f->name, "first");
    OK(open_as(f, f->name, "first"));
    broker_user(&f->where, f->name, "second");
    FAILS(SEMEL_ETRANSPORT, open_as(f, f->name, "first"));
    OK(open_as(f, f->name, "second"));
    broker_permissions(&f->where, f->name, "^$", "^$", "^$");
    FAILS(SEMEL_ETRANSPORT, open_as(f, f->name, "second"));
    broker_ctl(NULL, 0, &f->where, (const char *const[]){"delete_user", f->name, NULL});
}

/* --- in a broker of its own ------------------------------------------------------------------- */

static semel_publish_result publish_with(semel_transport *transport, uint32_t wait_ms)
{
    semel_message message = {.size = sizeof message, .id = {"m-1", 3}, .topic = "a.b"};
    const semel_message *pointer = &message;
    semel_publish_result result;
    (void)semel_transport_publish(&result, transport, &pointer, 1, wait_ms, NULL);
    return result;
}

/* The broker finds out that a connection publishes when it does: one message gets in. */
static void an_alarm_stops_publishers_until_it_is_over(const server_own *own)
{
    char url[SERVER_URL_ROOM];
    broker_fresh(url, &own->at, "declare=yes&type=classic");
    semel_transport *transport = open_transport(url);
    assert_int_equal(publish_with(transport, WAIT_MS), SEMEL_PUBLISH_CONFIRMED);
    broker_alarm(&own->at, 1);
    (void)publish_with(transport, 500);
    assert_int_not_equal(publish_with(transport, 500), SEMEL_PUBLISH_CONFIRMED);
    broker_alarm(&own->at, 0);
    /* The transport's patience with a broker that is slow to say that it is over ends before its
     * caller's. */
    EVENTUALLY(publish_with(transport, WAIT_MS) == SEMEL_PUBLISH_CONFIRMED);
    semel_transport_close(transport);
}

static void what_was_confirmed_is_there_after_a_crash(server_own *own)
{
    broker_message got;
    make_bound_queue(&own->at, "classic", "classic");
    make_bound_queue(&own->at, "quorum", "quorum");
    publish(&own->at, "classic", "10 EUR");
    publish(&own->at, "quorum", "10 EUR");
    broker_sync(&own->at);
    server_own_crash(own);
    server_own_restart(own);
    assert_int_equal(broker_count(&own->at, "classic"), 1);
    assert_int_equal(broker_get(&got, &own->at, "quorum"), 1);
    broker_message_free(&got);
}

static void a_broker_of_ones_own_can_be_hurt(void **state)
{
    server_own own;
    (void)state;
    server_own_start(&own, SERVER_RABBITMQ);
    an_alarm_stops_publishers_until_it_is_over(&own);
    what_was_confirmed_is_there_after_a_crash(&own);
    server_own_halt(&own);
    server_own_stop(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_published_can_be_got, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_can_be_closed_by_its_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_user_has_a_password_and_permissions, setup, teardown),
        cmocka_unit_test(a_broker_of_ones_own_can_be_hurt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
