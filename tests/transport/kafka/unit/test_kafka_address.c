/* The URL of a Kafka transport: what it says, what it does not say, what it must not say, and which
 * settings of librdkafka it may pass on. */
#include "support/base/check.h"

#include "support/base/scratch.h"
#include "transport/kafka/address.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static kafka_address at;

static void read_url(const char *text)
{
    OK(kafka_address_read(&at, text, &last_error));
}

static int forget(void **state)
{
    (void)state;
    kafka_address_free(&at);
    return 0;
}

static void all_parts_of_a_url_are_read(void **state)
{
    (void)state;
    read_url("kafka://a%64a:s3cret%2F@one:9093,[2001:db8::1],three/orders.v1?group=st%20ock"
             "&from=latest&assignment=cooperative&instance=i-1&dead=orders.dead&prefetch=7&ahead=70"
             "&envelope=cloudevents&loss=warn&name=till&connect_ms=9&X.socket.timeout.ms=500");
    assert_string_equal(at.user, "ada");
    assert_string_equal(at.password, "s3cret/");
    assert_string_equal(at.servers, "one:9093,[2001:db8::1]:9092,three:9092");
    assert_string_equal(at.topic, "orders.v1");
    assert_string_equal(at.group, "st ock");
    assert_string_equal(at.instance, "i-1");
    assert_string_equal(at.dead, "orders.dead");
    assert_string_equal(at.name, "till");
    assert_true(at.latest && at.cooperative && at.cloudevents && at.allow_loss);
    assert_int_equal(at.prefetch, 7);
    assert_int_equal(at.ahead, 70);
    assert_int_equal(at.connect_ms, 9);
    assert_int_equal(at.setting_count, 1);
    assert_string_equal(at.settings[0].name, "socket.timeout.ms");
    assert_string_equal(at.settings[0].value, "500");
}

static void what_a_url_does_not_say_has_a_default(void **state)
{
    (void)state;
    read_url("kafka://");
    assert_string_equal(at.servers, "localhost:9092");
    assert_string_equal(at.topic, "");
    assert_string_equal(at.group, "");
    assert_string_equal(at.user, "");
    assert_string_equal(at.name, "semel");
    assert_false(at.latest || at.cooperative || at.cloudevents || at.allow_loss);
    assert_int_equal(at.prefetch, 500);
    assert_int_equal(at.ahead, 10000);
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const char *const urls[] = {"kafka:host/t",
                                       "kafka://h/t/u",
                                       "kafka://h/t%20u",
                                       "kafka://h/..",
                                       "kafka://h,/t",
                                       "kafka://h:0/t",
                                       "kafka://h:x/t",
                                       "kafka://u@h/t",
                                       "kafka://:p@h/t",
                                       "kafka://h?group=g",
                                       "kafka://h/t?group=",
                                       "kafka://h/t?from=latest",
                                       "kafka://h/t?dead=d",
                                       "kafka://h/t?group=g&dead=t",
                                       "kafka://h/t?group=g&dead=a%2Fb",
                                       "kafka://h/t?group=g&from=middle",
                                       "kafka://h/t?group=g&prefetch=0",
                                       "kafka://h/t?group=g&prefetch=10&ahead=9",
                                       "kafka://h/t?colour=red",
                                       "kafka://h/t?X.=1",
                                       "kafka://h/t?X.dr_msg_cb=1",
                                       "amqp://h/t"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (kafka_address_read(&at, urls[i], &last_error) != SEMEL_EINVAL)
            fail_msg("%s was accepted", urls[i]);
}

/* What promises rest on is not for the URL to change. */
static void settings_that_would_break_a_promise_are_refused(void **state)
{
    static const char *const names[] = {"enable.auto.commit",
                                        "enable.auto.offset.store",
                                        "acks",
                                        "request.required.acks",
                                        "enable.idempotence",
                                        "enable.gapless.guarantee",
                                        "message.timeout.ms",
                                        "delivery.report.only.error",
                                        "allow.auto.create.topics",
                                        "auto.offset.reset",
                                        "isolation.level",
                                        "transactional.id",
                                        "group.id",
                                        "bootstrap.servers",
                                        "plugin.library.paths",
                                        "retries"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "kafka://h/t?X.%s=1", names[i]);
        if (kafka_address_read(&at, text, &last_error) != SEMEL_EINVAL)
            fail_msg("%s was accepted", names[i]);
        SAYS(names[i]);
    }
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void a_secret_may_stand_in_a_file(void **state)
{
    char path[SCRATCH_PATH], where[SCRATCH_PATH + 64];
    scratch dir;
    (void)state;
    scratch_open(&dir);
    (void)scratch_file(path, &dir, "kafka.secret");
    (void)snprintf(where, sizeof where, "kafka://h/t?X.sasl.password=file:%s", path);
    write_file(path, "hunter2\n", 0600);
    read_url(where);
    assert_string_equal(at.settings[0].value, "hunter2");
    char text[] = "SASL: hunter2 is wrong, hunter2!";
    kafka_address_hide(&at, text);
    assert_string_equal(text, "SASL: ******* is wrong, *******!");
    kafka_address_free(&at);
    write_file(path, "hunter2\n", 0644);
    FAILS(SEMEL_EINVAL, kafka_address_read(&at, where, &last_error));
    SAYS("other users can read it");
    write_file(path, "\n", 0600);
    FAILS(SEMEL_EINVAL, kafka_address_read(&at, where, &last_error));
    SAYS("is empty");
    assert_int_equal(remove(path), 0);
    FAILS(SEMEL_EINVAL, kafka_address_read(&at, where, &last_error));
    SAYS("is not there");
    scratch_close(&dir);
}

static void no_error_shows_a_secret(void **state)
{
    static const char *const urls[] = {
        "kafka://h/t?X.sasl.password=a&hunter2=1", "kafka://h/t?X.ssl.key.pem=a&hunter2=1",
        "kafka://u:hunter2@h/t?colour=red", "kafka://u:hunter2@h:x/t", "kafka://h:hunter2/t"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        FAILS(SEMEL_EINVAL, kafka_address_read(&at, urls[i], &last_error));
        if (strstr(last_error.text, "hunter2"))
            fail_msg("a secret in: %s", last_error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(all_parts_of_a_url_are_read, forget),
        cmocka_unit_test_teardown(what_a_url_does_not_say_has_a_default, forget),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(settings_that_would_break_a_promise_are_refused),
        cmocka_unit_test(a_secret_may_stand_in_a_file),
        cmocka_unit_test(no_error_shows_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
