/* Opening: what must be there, what must be as the URL says, which settings could lose messages,
 * and what a confirmed message survives. */
#include "support/servers/nats/nats_kit.h"

typedef void change_stream(jsStreamConfig *stream);
typedef void change_consumer(jsConsumerConfig *consumer);

/* A stream and a consumer as a careful operator makes them, but for these changes. */
static void make_other(nats_kit *kit, const char *parameters, change_stream *stream,
                       change_consumer *consumer)
{
    server_place shared;
    jsStreamConfig s;
    jsConsumerConfig c;
    char all[NATS_KIT_NAME + 8];
    const char *subjects[2] = {kit->stream, all};
    server_find(&shared, SERVER_NATS);
    nats_kit_prepare(kit, &shared, parameters);
    (void)jsStreamConfig_Init(&s);
    s.Name = kit->stream;
    (void)snprintf(all, sizeof all, "%s.>", kit->stream);
    s.Subjects = subjects;
    s.SubjectsLen = 2;
    if (stream)
        stream(&s);
    nats_client_make(&kit->client, &s);
    (void)jsConsumerConfig_Init(&c);
    c.Durable = kit->stream;
    c.AckPolicy = js_AckExplicit;
    if (consumer)
        consumer(&c);
    nats_client_consume(&kit->client, kit->stream, &c);
}

static semel_durability durability_of(const nats_kit *kit)
{
    const semel_transport_driver *driver = semel_transport_driver_of(kit->transport);
    return driver->durability(semel_transport_state(kit->transport, driver));
}

static void what_others_have_made_will_do(void **state)
{
    nats_kit kit;
    (void)state;
    make_other(&kit, "", NULL, NULL);
    nats_kit_reopen(&kit);
    assert_non_null(strstr(semel_transport_warnings(kit.transport), "sync=always"));
    assert_int_equal(durability_of(&kit), SEMEL_DURABLE_PROCESS);
    nats_kit_send(&kit, "m-1");
    nats_kit_settle(&kit, nats_kit_take_id(&kit, "m-1"), SEMEL_VERDICT_ACK, 0);
    nats_kit_close(&kit);
}

static void a_url_may_say_that_the_servers_sync(void **state)
{
    nats_kit kit;
    (void)state;
    nats_kit_open(&kit, "sync=always");
    assert_int_equal(durability_of(&kit), SEMEL_DURABLE_POWER);
    assert_string_equal(semel_transport_warnings(kit.transport), "");
    nats_kit_close(&kit);
}

static void what_is_missing_is_named(void **state)
{
    nats_kit kit;
    server_place shared;
    (void)state;
    server_find(&shared, SERVER_NATS);
    nats_kit_prepare(&kit, &shared, "");
    FAILS(SEMEL_ETRANSPORT, semel_transport_open(&kit.transport, kit.url, NULL, &last_error));
    SAYS(kit.stream);
    SAYS("declare=yes");
    assert_int_equal(last_error.native, JSStreamNotFoundErr);
    nats_kit_close(&kit);
}

/* --- settings that lose messages -------------------------------------------------------------- */

static void in_memory(jsStreamConfig *s)
{
    s->Storage = js_MemoryStorage;
}
static void with_age(jsStreamConfig *s)
{
    s->MaxAge = INT64_C(3600000000000);
}
static void with_messages(jsStreamConfig *s)
{
    s->MaxMsgs = 10;
}
static void with_bytes(jsStreamConfig *s)
{
    s->MaxBytes = 100000;
}
static void with_last_per_subject(jsStreamConfig *s)
{
    s->MaxMsgsPerSubject = 1;
}
static void with_max_deliver(jsConsumerConfig *c)
{
    c->MaxDeliver = 5;
}
static void from_now_on(jsConsumerConfig *c)
{
    c->DeliverPolicy = js_DeliverNew;
}

static void settings_that_lose_messages_are_refused_or_told(void **state)
{
    static const struct {
        change_stream *stream;
        change_consumer *consumer;
        const char *says;
    } cases[] = {{in_memory, NULL, "memory"},
                 {with_age, NULL, "max_age"},
                 {with_messages, NULL, "max_msgs"},
                 {with_bytes, NULL, "max_bytes"},
                 {with_last_per_subject, NULL, "max_msgs_per_subject"},
                 {NULL, with_max_deliver, "max_deliver"},
                 {NULL, from_now_on, "deliver policy"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nats_kit kit;
        make_other(&kit, "", cases[i].stream, cases[i].consumer);
        FAILS(SEMEL_EINVAL, semel_transport_open(&kit.transport, kit.url, NULL, &last_error));
        SAYS(cases[i].says);
        SAYS("loss=warn");
        (void)strcat(kit.url, "&loss=warn"); /* there is room */
        nats_kit_reopen(&kit);
        assert_non_null(strstr(semel_transport_warnings(kit.transport), cases[i].says));
        assert_int_equal(durability_of(&kit),
                         cases[i].stream == in_memory ? SEMEL_DURABLE_NOT : SEMEL_DURABLE_PROCESS);
        nats_kit_close(&kit);
    }
}

/* --- what cannot be used ---------------------------------------------------------------------- */

static void acknowledging_all(jsConsumerConfig *c)
{
    c->AckPolicy = js_AckAll;
}
static void without_bodies(jsConsumerConfig *c)
{
    c->HeadersOnly = true;
}
static void pushing(jsConsumerConfig *c)
{
    c->DeliverSubject = "push.here";
}
static void without_acks(jsStreamConfig *s)
{
    s->NoAck = true;
}

static void what_cannot_be_used_is_refused(void **state)
{
    static const struct {
        change_stream *stream;
        change_consumer *consumer;
        const char *parameters, *says;
    } cases[] = {{NULL, acknowledging_all, "loss=warn", "explicit"},
                 {NULL, without_bodies, "loss=warn", "headers_only"},
                 {NULL, pushing, "loss=warn", "push"},
                 {without_acks, NULL, "loss=warn", "no_ack"},
                 {NULL, NULL, "ack_ms=7000", "ack_ms"},
                 {NULL, NULL, "max_deliver=3", "max_deliver"},
                 {NULL, NULL, "storage=memory", "storage"},
                 {NULL, NULL, "retention=workqueue", "retention"},
                 {NULL, NULL, "replicas=3", "replicas"},
                 {NULL, NULL, "declare=yes&duplicates_ms=1000", "duplicates_ms"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nats_kit kit;
        make_other(&kit, cases[i].parameters, cases[i].stream, cases[i].consumer);
        FAILS(SEMEL_ETRANSPORT, semel_transport_open(&kit.transport, kit.url, NULL, &last_error));
        SAYS(cases[i].says);
        nats_kit_close(&kit);
    }
}

/* --- logging in ------------------------------------------------------------------------------- */

static void a_wrong_password_is_refused_and_not_shown(void **state)
{
    char url[SERVER_URL_ROOM];
    server_place shared;
    semel_transport *transport = NULL;
    (void)state;
    server_find(&shared, SERVER_NATS);
    (void)snprintf(url, sizeof url, "nats://semel:hunter2@%s:%u/S", shared.host, shared.port);
    FAILS(SEMEL_ETRANSPORT, semel_transport_open(&transport, url, NULL, &last_error));
    assert_null(strstr(last_error.text, "hunter2"));
}

static void a_certificate_for_another_host_is_refused(void **state)
{
    char url[SERVER_URL_ROOM], other[SERVER_URL_ROOM];
    server_place shared;
    semel_transport *transport = NULL;
    (void)state;
    server_find(&shared, SERVER_NATS);
    nats_fresh_tls(url, &shared, "declare=yes");
    const char *host = strstr(url, "localhost");
    assert_non_null(host);
    (void)snprintf(other, sizeof other, "%.*s127.0.0.1%s", (int)(host - url), url,
                   host + strlen("localhost"));
    FAILS(SEMEL_ETRANSPORT, semel_transport_open(&transport, other, NULL, &last_error));
    SAYS("certificate");
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
    semel_transport *transport = NULL;
    (void)state;
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_open(&transport, "nats://127.0.0.1:1/S", NULL, &last_error));
    assert_true(last_error.retryable);
}

/* What the server drops is not confirmed, and the error says why. */
static void what_a_user_may_not_publish_is_not_confirmed(void **state)
{
    char url[SERVER_URL_ROOM];
    nats_kit kit;
    semel_message message = text_message("m-1", "x");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    (void)state;
    nats_kit_open(&kit, "");
    semel_transport_close(kit.transport);
    (void)snprintf(url, sizeof url, "nats://limited:limited@%s:%u/%s?subject=%s", kit.server.host,
                   kit.server.port, kit.stream, kit.stream);
    OK(semel_transport_open(&kit.transport, url, NULL, &last_error));
    FAILS(SEMEL_EUNAVAILABLE,
          semel_transport_publish(&result, kit.transport, &pointer, 1, 1000, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    SAYS("does not permit");
    nats_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_have_made_will_do),
        cmocka_unit_test(a_url_may_say_that_the_servers_sync),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(settings_that_lose_messages_are_refused_or_told),
        cmocka_unit_test(what_cannot_be_used_is_refused),
        cmocka_unit_test(a_wrong_password_is_refused_and_not_shown),
        cmocka_unit_test(a_certificate_for_another_host_is_refused),
        cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
        cmocka_unit_test(what_a_user_may_not_publish_is_not_confirmed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
