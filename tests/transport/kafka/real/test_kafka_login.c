/* TLS and passwords, at the broker's listener for them: who may log in does all that the transport
 * does, and everybody else is refused when the transport is opened, with the reason and without the
 * secret. The broker's certificate is for "localhost" and signed by a CA of its own. */
#include "real_kit.h"

#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A refusal takes all of the time for connecting. */
enum { CONNECT_MS = 3000, PATH_ROOM = 512 };

/* Before it, librdkafka writes its nonce twice, and Kafka 4 refuses that. */
enum { SCRAM_WORKS = 0x020601ff };

#define PLAIN_USER "&X.sasl.mechanism=PLAIN&X.sasl.username=plain"

typedef struct scene {
    server_place at;
    scratch directory;
    real_topic topic;
    char port[16], ca[PATH_ROOM];
    char secret_file[SCRATCH_PATH];
} scene;

static scene s;

static void write_secret(const char *secret)
{
    FILE *to = fopen(scratch_file(s.secret_file, &s.directory, "secret"), "we");
    assert_non_null(to);
    assert_true(fprintf(to, "%s\n", secret) > 0);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(chmod(s.secret_file, 0600), 0);
}

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    server_find(&s.at, SERVER_KAFKA);
    server_entry(s.port, sizeof s.port, &s.at, "SASL_PORT");
    server_entry(s.ca, sizeof s.ca, &s.at, "CA");
    scratch_open(&s.directory);
    real_topic_open(&s.topic, 1, 1);
    write_secret("plain-secret");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    real_topic_close(&s.topic);
    scratch_close(&s.directory);
    deadline_end();
    return 0;
}

/* HOST may begin with a user and a password. */
static void write_url(char url[SERVER_URL_ROOM], const char *host, const char *parameters)
{
    server_print(url, SERVER_URL_ROOM,
                 "kafka://%s:%s/%s?group=%s&connect_ms=%d&X.broker.address.family=v4%s", host,
                 s.port, s.topic.topic, s.topic.group, CONNECT_MS, parameters);
}

static void write_login(char url[SERVER_URL_ROOM], const char *more)
{
    char parameters[SERVER_URL_ROOM];
    server_print(parameters, sizeof parameters,
                 "&X.security.protocol=sasl_ssl&X.ssl.ca.location=%s%s", s.ca, more);
    write_url(url, "localhost", parameters);
}

/* The broker, or this machine, may need longer than the time for connecting. */
static semel_status open_patiently(semel_transport **out, const char *url)
{
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    semel_status status;
    do
        status = semel_transport_open(out, url, NULL, &last_error);
    while (status == SEMEL_EUNAVAILABLE && process_now_ms() < deadline);
    return status;
}

static void works(const char *url)
{
    semel_transport *transport;
    semel_publish_result result;
    semel_delivery delivery;
    size_t count = 0;
    semel_message message = {
        .size = sizeof message, .id = semel_str("1"), .body = semel_str("10 EUR")};
    const semel_message *pointer = &message;
    OK(open_patiently(&transport, url));
    OK(semel_transport_publish(&result, transport, &pointer, 1, REAL_PATIENCE_MS, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
    OK(semel_transport_receive(transport, &delivery, 1, &count, REAL_PATIENCE_MS, &last_error));
    assert_int_equal(count, 1);
    BYTES_EQUAL(semel_str("10 EUR"), delivery.message->body);
    semel_transport_close(transport);
}

static void is_refused(const char *url, const char *why, const char *secret)
{
    semel_transport *transport;
    FAILS(SEMEL_ETRANSPORT, open_patiently(&transport, url));
    SAYS(why);
    if (strstr(last_error.text, secret))
        fail_msg("the secret is in \"%s\"", last_error.text);
}

/* --- who may ---------------------------------------------------------------------------------- */

static void a_password_in_a_file_is_the_right_one(void **state)
{
    char url[SERVER_URL_ROOM], login[SERVER_URL_ROOM];
    (void)state;
    server_print(login, sizeof login, PLAIN_USER "&X.sasl.password=file:%s", s.secret_file);
    write_login(url, login);
    works(url);
}

/* The protocol and the mechanism follow from it. */
static void a_user_before_the_host_logs_in_over_tls(void **state)
{
    char url[SERVER_URL_ROOM], parameters[SERVER_URL_ROOM];
    (void)state;
    server_print(parameters, sizeof parameters, "&X.ssl.ca.location=%s", s.ca);
    write_url(url, "plain:plain-secret@localhost", parameters);
    works(url);
}

static void scram_depends_on_librdkafka(void **state)
{
    char url[SERVER_URL_ROOM];
    (void)state;
    write_login(url, "&X.sasl.mechanism=SCRAM-SHA-512&X.sasl.username=scram"
                     "&X.sasl.password=scram-secret");
    if (rd_kafka_version() >= SCRAM_WORKS)
        works(url);
    else
        is_refused(url, "SCRAM-SHA-512", "scram-secret");
}

/* --- who may not ------------------------------------------------------------------------------ */

static void a_wrong_password_is_refused(void **state)
{
    char url[SERVER_URL_ROOM], login[SERVER_URL_ROOM];
    (void)state;
    write_secret("not-the-secret");
    server_print(login, sizeof login, PLAIN_USER "&X.sasl.password=file:%s", s.secret_file);
    write_login(url, login);
    is_refused(url, "Invalid username or password", "not-the-secret");
}

static void a_broker_of_an_unknown_ca_is_refused(void **state)
{
    char url[SERVER_URL_ROOM];
    (void)state;
    write_url(url, "plain:plain-secret@localhost", "");
    is_refused(url, "certificate", "plain-secret");
}

static void a_broker_with_another_name_is_refused(void **state)
{
    char url[SERVER_URL_ROOM], parameters[SERVER_URL_ROOM];
    (void)state;
    server_print(parameters, sizeof parameters, "&X.ssl.ca.location=%s", s.ca);
    write_url(url, "plain:plain-secret@127.0.0.1", parameters);
    is_refused(url, "certificate", "plain-secret");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_password_in_a_file_is_the_right_one), TEST(a_user_before_the_host_logs_in_over_tls),
        TEST(scram_depends_on_librdkafka),           TEST(a_wrong_password_is_refused),
        TEST(a_broker_of_an_unknown_ca_is_refused),  TEST(a_broker_with_another_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
