/* Opening: passwords, virtual hosts and certificates; queues that could lose messages are refused
 * or warned about; and the grade of guarantee with them. Each refusal has a text that helps,
 * without the password. */
#include "support/servers/rabbitmq/rabbitmq_kit.h"

#define QUORUM  "declare=yes&type=quorum"
#define CLASSIC "declare=yes&type=classic"

enum { URL_ROOM = 2 * SERVER_URL_ROOM };

static void find_broker(rabbit_kit *kit)
{
    server_place shared;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(kit, &shared, "");
}

static void expect_refused(semel_status status, const char *url, const char *why)
{
    semel_transport *transport = NULL;
    FAILS(status, semel_transport_open(&transport, url, NULL, &last_error));
    SAYS(why);
    assert_null(transport);
}

/* --- users ------------------------------------------------------------------------------------ */

/* A user of our own, whose name the text of errors may have. */
static void user_url(char url[URL_ROOM], const rabbit_kit *kit, const char *user,
                     const char *password, const char *vhost)
{
    (void)snprintf(url, URL_ROOM,
                   "amqp://%s:%s@%s:%u/%s?queue=%s&exchange=%s&name=%s&" QUORUM "&" BROKER_PATIENCE,
                   user, password, kit->broker.host, kit->broker.port, vhost, kit->queue,
                   kit->queue, user);
}

static void delete_user(const rabbit_kit *kit, const char *user)
{
    broker_ctl(NULL, 0, &kit->broker, (const char *const[]){"delete_user", user, NULL});
}

static void a_wrong_password_is_refused_and_not_repeated(void **state)
{
    char url[URL_ROOM], user[BROKER_NAME_ROOM];
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    broker_name(user);
    user_url(url, &kit, user, "hunter2", "%2F");
    expect_refused(SEMEL_ETRANSPORT, url, "ACCESS_REFUSED");
    SAYS(user);
    assert_null(strstr(last_error.text, "hunter2"));
}

static void a_missing_virtual_host_is_named(void **state)
{
    char url[URL_ROOM];
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    user_url(url, &kit, "guest", "guest", "no-such-place");
    expect_refused(SEMEL_ETRANSPORT, url, "no-such-place");
    SAYS("not found");
}

/* A transport that was let in once waits for better days: passwords are changed by people, on both
 * sides. */
static void a_password_changed_meanwhile_is_waited_out(void **state)
{
    char url[URL_ROOM], user[BROKER_NAME_ROOM];
    semel_message message = text_message("1", "x");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    semel_delivery none;
    size_t got = 0;
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    broker_name(user);
    broker_user(&kit.broker, user, "hunter2");
    user_url(url, &kit, user, "hunter2", "%2F");
    OK(semel_transport_open(&kit.transport, url, NULL, &last_error));
    kit_send(&kit, "0");
    broker_user(&kit.broker, user, "other");
    assert_int_equal(broker_close_connections(&kit.broker, user), 2);
    EVENTUALLY(semel_transport_receive(kit.transport, &none, 1, &got, 100, &last_error) &&
               strstr(last_error.text, "ACCESS_REFUSED"));
    assert_int_equal(last_error.status, SEMEL_EUNAVAILABLE);
    assert_true(last_error.retryable);
    EVENTUALLY(kit_publish(&kit, &result, &message, 1, 100) == SEMEL_EUNAVAILABLE &&
               strstr(last_error.text, "ACCESS_REFUSED"));
    assert_null(strstr(last_error.text, "hunter2"));
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    broker_user(&kit.broker, user, "hunter2");
    EVENTUALLY(kit_publish(&kit, &result, &message, 1, 1000) == SEMEL_OK);
    EVENTUALLY(semel_transport_receive(kit.transport, &none, 1, &got, 1000, &last_error) ==
                   SEMEL_OK &&
               got == 1);
    kit_close(&kit);
    delete_user(&kit, user);
}

static void a_user_that_may_not_write_is_told_so(void **state)
{
    char url[URL_ROOM], user[BROKER_NAME_ROOM];
    semel_message message = text_message("1", "x");
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    broker_make_exchange(&kit.broker, kit.queue, "topic");
    broker_name(user);
    broker_user(&kit.broker, user, "hunter2");
    broker_permissions(&kit.broker, user, "^$", "^$", ".*");
    (void)snprintf(url, sizeof url,
                   "amqp://%s:hunter2@%s:%u/%%2F?exchange=%s&declare=no&" BROKER_PATIENCE, user,
                   kit.broker.host, kit.broker.port, kit.queue);
    OK(semel_transport_open(&kit.transport, url, NULL, &last_error));
    FAILS(SEMEL_EUNAVAILABLE, kit_publish(&kit, &result, &message, 1, KIT_WAIT_MS));
    SAYS("ACCESS_REFUSED");
    assert_int_equal(result, SEMEL_PUBLISH_UNKNOWN);
    kit_close(&kit);
    delete_user(&kit, user);
}

/* --- TLS -------------------------------------------------------------------------------------- */

/* By TLS, to this host, with these parameters more. */
static void tls_url(char url[URL_ROOM], const rabbit_kit *kit, const char *host, const char *more)
{
    char port[16];
    server_entry(port, sizeof port, &kit->broker, "TLS_PORT");
    int len = snprintf(url, URL_ROOM,
                       "amqps://guest:guest@%s:%s/%%2F?queue=%s&exchange=%s&" CLASSIC
                       "&" BROKER_PATIENCE "%s%s",
                       host, port, kit->queue, kit->queue, *more ? "&" : "", more);
    assert_in_range(len, 1, URL_ROOM - 1);
}

static void ca_of(char parameter[URL_ROOM], const rabbit_kit *kit)
{
    char ca[SCRATCH_PATH];
    server_entry(ca, sizeof ca, &kit->broker, "CA");
    (void)snprintf(parameter, URL_ROOM, "ca=%s", ca);
}

static void open_and_use(rabbit_kit *kit, const char *url)
{
    OK(semel_transport_open(&kit->transport, url, NULL, &last_error));
    kit_send(kit, "1");
    kit_ack(kit, kit_take_id(kit, "1"));
}

static void a_certificate_of_an_unknown_authority_is_refused(void **state)
{
    char url[URL_ROOM], parameter[URL_ROOM], command[KIT_COMMAND], said[KIT_SAID];
    char file[SCRATCH_PATH], key[SCRATCH_PATH];
    rabbit_kit kit;
    scratch dir;
    (void)state;
    find_broker(&kit);
    scratch_open(&dir);
    (void)snprintf(
        command, sizeof command,
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "
        "2 -subj /CN=other -keyout %s -out %s 2>/dev/null",
        scratch_file(key, &dir, "key"), scratch_file(file, &dir, "other.pem"));
    kit_run(said, command);
    (void)snprintf(parameter, sizeof parameter, "ca=%s", file);
    tls_url(url, &kit, "localhost", parameter);
    expect_refused(SEMEL_ETRANSPORT, url, "ca=");
    tls_url(url, &kit, "localhost", ""); /* the system's authorities do not know it either */
    expect_refused(SEMEL_ETRANSPORT, url, "ca=");
    tls_url(url, &kit, "localhost", "ca=/no/such/file");
    expect_refused(SEMEL_EINVAL, url, "/no/such/file");
    scratch_close(&dir);
}

/* rabbitmq-c looks for the host among the certificate's DNS names, where no address is. */
static void a_certificate_for_another_host_is_refused(void **state)
{
    char url[URL_ROOM], parameter[URL_ROOM];
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    ca_of(parameter, &kit);
    tls_url(url, &kit, "127.0.0.1", parameter);
    expect_refused(SEMEL_ETRANSPORT, url, "host name");
    tls_url(url, &kit, "localhost", parameter);
    open_and_use(&kit, url);
    kit_close(&kit);
}

static void any_certificate_is_accepted_with_verify_no(void **state)
{
    char url[URL_ROOM];
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    tls_url(url, &kit, "127.0.0.1", "verify=no");
    open_and_use(&kit, url);
    kit_close(&kit);
}

/* How many connections of that name showed the certificate. The others are not asked for: there may
 * be any number. */
static long certified(const rabbit_kit *kit, const char *name)
{
    char expression[1024], said[KIT_SAID];
    (void)snprintf(
        expression, sizeof expression,
        "length([P || P <- rabbit_networking:connections(), [{_, C}, {_, <<\"CN=semel\">>}] <-"
        " [(catch rabbit_networking:connection_info(P, [client_properties, peer_cert_subject]))],"
        " is_list(C), lists:member({<<\"connection_name\">>, longstr, <<\"%s\">>}, C)]).",
        name);
    broker_eval(said, sizeof said, &kit->broker, expression);
    return strtol(said, NULL, 10);
}

static void a_client_shows_its_own_certificate(void **state)
{
    char url[URL_ROOM], parameters[URL_ROOM], ca[SCRATCH_PATH], file[SCRATCH_PATH],
        key[SCRATCH_PATH], name[BROKER_NAME_ROOM];
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    broker_name(name);
    server_entry(ca, sizeof ca, &kit.broker, "CA");
    server_entry(file, sizeof file, &kit.broker, "CERTIFICATE");
    server_entry(key, sizeof key, &kit.broker, "KEY");
    (void)snprintf(parameters, sizeof parameters, "ca=%s&certificate=%s&key=%s&name=%s", ca, file,
                   key, name);
    tls_url(url, &kit, "localhost", parameters);
    open_and_use(&kit, url);
    assert_int_equal(certified(&kit, name), 2); /* one to receive, one to publish */
    kit_close(&kit);
}

static void plain_text_to_a_port_of_tls_ends_in_an_error(void **state)
{
    char url[URL_ROOM], port[16];
    rabbit_kit kit;
    (void)state;
    find_broker(&kit);
    server_entry(port, sizeof port, &kit.broker, "TLS_PORT");
    (void)snprintf(url, sizeof url,
                   "amqp://guest:guest@localhost:%s/%%2F?exchange=%s&connect_ms=2000", port,
                   kit.queue);
    expect_refused(SEMEL_EUNAVAILABLE, url, port);
    (void)snprintf(url, sizeof url,
                   "amqps://guest:guest@localhost:%u/%%2F?exchange=%s&connect_ms=2000",
                   kit.broker.port, kit.queue);
    semel_transport *transport = NULL;
    assert_int_not_equal(semel_transport_open(&transport, url, NULL, &last_error), SEMEL_OK);
    SAYS("cannot connect");
}

/* --- losses and grades ------------------------------------------------------------------------ */

static void what_could_lose_messages_is_refused_or_warned_about(void **state)
{
    static const struct {
        const char *parameters, *why;
    } cases[] = {
        {CLASSIC "&durable=no", "durable=no"},
        {QUORUM "&persistent=no", "persistent=no"},
        {QUORUM "&delivery_limit=5", "delivery_limit=5"},
        {CLASSIC "&dead_letter=amq.fanout", "dead_letter=amq.fanout"},
    };
    server_place shared;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char parameters[URL_ROOM];
        rabbit_kit kit;
        kit_prepare(&kit, &shared, cases[i].parameters);
        expect_refused(SEMEL_EINVAL, kit.url, cases[i].why);
        SAYS("loss=warn");
        assert_int_equal(broker_ready(&shared, kit.queue), -1); /* before anything was made */
        (void)snprintf(parameters, sizeof parameters, "%s&loss=warn", cases[i].parameters);
        kit_open(&kit, parameters);
        assert_non_null(strstr(semel_transport_warnings(kit.transport), cases[i].why));
        kit_send(&kit, "1");
        kit_ack(&kit, kit_take_id(&kit, "1"));
        kit_close(&kit);
    }
}

static void a_queue_that_is_safe_has_no_warnings(void **state)
{
    const char *const kinds[] = {QUORUM, CLASSIC,
                                 QUORUM "&dead_letter=amq.fanout&delivery_limit=5"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rabbit_kit kit;
        kit_open(&kit, kinds[i]);
        assert_string_equal(semel_transport_warnings(kit.transport), "");
        kit_close(&kit);
    }
}

/* The URL says one thing, the broker has another. */
static void a_queue_that_is_not_as_the_url_says_is_refused(void **state)
{
    server_place shared;
    rabbit_kit kit;
    (void)state;
    server_find(&shared, SERVER_RABBITMQ);
    kit_prepare(&kit, &shared, QUORUM);
    broker_make_queue(&shared, kit.queue, "classic");
    expect_refused(SEMEL_ETRANSPORT, kit.url, "PRECONDITION_FAILED");
    SAYS(kit.queue);
    SAYS("quorum");
    broker_drop(kit.url);
}

static semel_grade grade_with(semel_inbox *inbox, const char *parameters)
{
    rabbit_kit kit;
    kit_open(&kit, parameters);
    semel_grade grade = semel_inbox_grade(inbox, kit.transport);
    kit_close(&kit);
    return grade;
}

/* A broker that keeps more than the store forgets a message whose effect the store may lose. */
static void the_grade_depends_on_what_the_broker_keeps(void **state)
{
    char path[SCRATCH_PATH], url[URL_ROOM];
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    scratch dir;
    (void)state;
    scratch_open(&dir);
    (void)snprintf(url, sizeof url, "%s?synchronous=normal", scratch_sqlite(path, &dir, "db"));
    OK(semel_store_open(&store, url, NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    OK(semel_inbox_open(&inbox, store, "inbox", NULL, &last_error));
    assert_int_equal(grade_with(inbox, QUORUM), SEMEL_GRADE_EXCEPT_POWER_LOSS);
    assert_int_equal(grade_with(inbox, CLASSIC "&durable=no&loss=warn"),
                     SEMEL_GRADE_EXACTLY_ONCE_EFFECTS);
    semel_inbox_close(inbox);
    semel_store_close(store);
    OK(semel_store_open(&store, path, NULL, &last_error));
    OK(semel_inbox_open(&inbox, store, "inbox", NULL, &last_error));
    assert_int_equal(grade_with(inbox, QUORUM), SEMEL_GRADE_EXACTLY_ONCE_EFFECTS);
    semel_inbox_close(inbox);
    semel_store_close(store);
    scratch_close(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_password_is_refused_and_not_repeated),
        cmocka_unit_test(a_missing_virtual_host_is_named),
        cmocka_unit_test(a_password_changed_meanwhile_is_waited_out),
        cmocka_unit_test(a_user_that_may_not_write_is_told_so),
        cmocka_unit_test(a_certificate_of_an_unknown_authority_is_refused),
        cmocka_unit_test(a_certificate_for_another_host_is_refused),
        cmocka_unit_test(any_certificate_is_accepted_with_verify_no),
        cmocka_unit_test(a_client_shows_its_own_certificate),
        cmocka_unit_test(plain_text_to_a_port_of_tls_ends_in_an_error),
        cmocka_unit_test(what_could_lose_messages_is_refused_or_warned_about),
        cmocka_unit_test(a_queue_that_is_safe_has_no_warnings),
        cmocka_unit_test(a_queue_that_is_not_as_the_url_says_is_refused),
        cmocka_unit_test(the_grade_depends_on_what_the_broker_keeps),
    };
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests_name("opening RabbitMQ", tests, NULL, NULL);
}
