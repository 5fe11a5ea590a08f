/* The URL of a RabbitMQ transport: what it says, what it does not say, what it must not say, and
 * which messages may get lost by it. */
#include "support/base/check.h"

#include "base/mem.h"
#include "transport/rabbitmq/address.h"

#include <stdio.h>
#include <string.h>

static rabbit_address read_url(const char *url)
{
    rabbit_address at;
    OK(rabbit_address_read(&at, url, &last_error));
    return at;
}

static void all_parts_of_a_url_are_read(void **state)
{
    (void)state;
    rabbit_address at = read_url(
        "amqps://a%64a:s3cret%2F%40%3F%26@[2001:db8::1]:5673/or%2Fders?exchange=shop&queue=st%20ock"
        "&exchange_type=fanout&bind=order.%2A,a%2Cb,%23&declare=yes&type=quorum&durable=yes"
        "&delivery_limit=7&dead_letter=graves&dead_letter_key=stock.dead&single_active=yes"
        "&prefetch=65535&heartbeat=0&connect_ms=1&persistent=no&envelope=cloudevents&loss=warn"
        "&ca=%2Fca.pem&certificate=/c&key=/k&verify=no&name=inventory");
    assert_string_equal(at.user, "ada");
    assert_string_equal(at.password, "s3cret/@?&");
    assert_string_equal(at.host, "2001:db8::1");
    assert_int_equal(at.port, 5673);
    assert_string_equal(at.vhost, "or/ders");
    assert_string_equal(at.exchange, "shop");
    assert_string_equal(at.exchange_type, "fanout");
    assert_string_equal(at.queue, "st ock");
    assert_memory_equal(at.bindings, "order.*\0a,b\0#\0", sizeof "order.*\0a,b\0#\0");
    assert_int_equal(at.declare, RABBIT_DECLARE);
    assert_true(at.quorum && at.durable && at.single_active && at.has_dead_letter);
    assert_int_equal(at.delivery_limit, 7);
    assert_string_equal(at.dead_letter, "graves");
    assert_string_equal(at.dead_letter_key, "stock.dead");
    assert_int_equal(at.prefetch, 65535);
    assert_int_equal(at.heartbeat_s, 0);
    assert_int_equal(at.connect_ms, 1);
    assert_true(at.tls && !at.verify && !at.persistent && at.cloudevents && at.allow_loss);
    assert_string_equal(at.ca, "/ca.pem");
    assert_string_equal(at.certificate, "/c");
    assert_string_equal(at.key, "/k");
    assert_string_equal(at.name, "inventory");
}

static void what_a_url_does_not_say_has_a_default(void **state)
{
    (void)state;
    rabbit_address at = read_url("amqp://");
    assert_string_equal(at.user, "guest");
    assert_string_equal(at.password, "guest");
    assert_string_equal(at.host, "localhost");
    assert_int_equal(at.port, 5672);
    assert_string_equal(at.vhost, "/");
    assert_string_equal(at.exchange, "");
    assert_string_equal(at.exchange_type, "topic");
    assert_string_equal(at.queue, "");
    assert_string_equal(at.bindings, "");
    assert_int_equal(at.declare, RABBIT_CHECK);
    assert_true(at.quorum && at.durable && at.persistent && at.verify);
    assert_false(at.tls || at.single_active || at.has_dead_letter || at.cloudevents ||
                 at.allow_loss);
    assert_int_equal(at.delivery_limit, RABBIT_LIMIT_UNSET);
    assert_int_equal(at.prefetch, 200);
    assert_int_equal(at.heartbeat_s, 30);
    assert_int_equal(at.connect_ms, 5000);
    assert_string_equal(at.name, "semel");
    at = read_url("amqps://u@h/");
    assert_int_equal(at.port, 5671);
    assert_true(at.tls && at.verify);
    assert_string_equal(at.user, "u");
    assert_string_equal(at.password, ""); /* and not guest's */
    assert_string_equal(at.vhost, "/");
    assert_string_equal(read_url("amqp://h/%2F").vhost, "/");
    assert_string_equal(read_url("amqp://h/shop").vhost, "shop");
    assert_string_equal(read_url("amqp://:p@h").user, "");
}

static void words_and_bounds_are_taken_as_they_are_written(void **state)
{
    (void)state;
    assert_int_equal(read_url("amqp://h?declare=no").declare, RABBIT_TRUST);
    assert_int_equal(read_url("amqp://h?declare=check").declare, RABBIT_CHECK);
    assert_int_equal(read_url("amqp://h?queue=q&delivery_limit=-1").delivery_limit, -1);
    assert_int_equal(read_url("amqp://h?queue=q&delivery_limit=0").delivery_limit, 0);
    assert_false(read_url("amqp://h?queue=q&type=classic").quorum);
    assert_false(read_url("amqp://h?queue=q&type=classic&durable=no").durable);
    assert_false(read_url("amqp://h?exchange=e&durable=no").durable);
    assert_false(read_url("amqp://h?envelope=plain").cloudevents);
    assert_false(read_url("amqp://h?loss=refuse").allow_loss);
    assert_string_equal(
        read_url("amqp://h?exchange=e&exchange_type=x-delayed-message").exchange_type,
        "x-delayed-message");
    rabbit_address at = read_url("amqp://h?queue=q&dead_letter=&dead_letter_key=graves");
    assert_true(at.has_dead_letter);
    assert_string_equal(at.dead_letter, "");
}

static void a_queue_at_an_exchange_is_bound_to_everything_unless_it_says_to_what(void **state)
{
    (void)state;
    assert_memory_equal(read_url("amqp://h?exchange=e&queue=q&declare=yes").bindings, "#\0", 3);
    assert_memory_equal(read_url("amqp://h?exchange=e&queue=q&bind=a").bindings, "a\0", 3);
    assert_string_equal(read_url("amqp://h?queue=q&declare=yes").bindings, "");
    assert_string_equal(read_url("amqp://h?exchange=e&declare=yes").bindings, "");
}

static void a_url_that_is_wrong_is_refused_and_says_where(void **state)
{
    static const struct {
        const char *url, *says;
    } wrong[] = {{"amqp:h", "//"},
                 {"kafka://h", "amqp:"},
                 {"amqp://u:s3cret@h:0", "port"},
                 {"amqp://u:s3cret@h:5672x/v", "port"},
                 {"amqp://u:s3cret@[::1/v", "IPv6"},
                 {"amqp://u:s3cret@h/a/b", "%2F"},
                 {"amqp://u:s3cret@h/%2", "virtual host"},
                 {"amqp://u:s3cret%zz@h/v", "password"},
                 {"amqp://u%:s3cret@h/v", "user"},
                 {"amqp://u:s3cret@h?colour=red", "\"colour\""},
                 {"amqp://h?queue=q&queue=r", "twice"},
                 {"amqp://h?queue=", "queue is empty"},
                 {"amqp://h?exchange=", "exchange is empty"},
                 {"amqp://h?queue=%zz", "queue"},
                 {"amqp://h?queue=q&type=stream", "type is quorum or classic, not \"stream\""},
                 {"amqp://h?queue=q&durable=maybe", "durable is yes or no, not \"maybe\""},
                 {"amqp://h?queue=q&single_active=1", "single_active is yes or no, not \"1\""},
                 {"amqp://h?persistent=", "persistent is yes or no"},
                 {"amqps://h?verify=peer", "verify is yes or no"},
                 {"amqp://h?declare=perhaps", "declare is check, yes or no, not \"perhaps\""},
                 {"amqp://h?envelope=json", "envelope is cloudevents or plain"},
                 {"amqp://h?loss=never", "loss is warn or refuse"},
                 {"amqp://h?exchange=e&exchange_type=queue", "exchange_type is topic, direct"},
                 {"amqp://h?queue=q&delivery_limit=-2", "delivery_limit is -1 for none"},
                 {"amqp://h?queue=q&delivery_limit=many", "delivery_limit is -1 for none"},
                 {"amqp://h?queue=q&delivery_limit=1000000001", "delivery_limit is -1 for none"},
                 {"amqp://h?prefetch=0", "prefetch must be a number from 1 to 65535"},
                 {"amqp://h?prefetch=65536", "prefetch must be a number from 1 to 65535"},
                 {"amqp://h?heartbeat=3601", "heartbeat must be a number from 0 to 3600"},
                 {"amqp://h?connect_ms=0", "connect_ms must be a number from 1"},
                 {"amqp://h?exchange=e&queue=q&bind=a,,b", "bind takes patterns"},
                 {"amqp://h?exchange=e&queue=q&bind=", "bind takes patterns"},
                 {"amqp://h?exchange=e&queue=q&bind=%", "bind"}};
    rabbit_address at;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(SEMEL_EINVAL, rabbit_address_read(&at, wrong[i].url, &last_error));
        SAYS(wrong[i].says);
        assert_null(strstr(last_error.text, "cret"));
    }
}

static void what_makes_no_sense_together_is_refused(void **state)
{
    static const struct {
        const char *url, *says;
    } wrong[] = {
        {"amqps://h?key=/k", "key says nothing without certificate"},
        {"amqps://h?certificate=/c", "certificate says nothing without key"},
        {"amqps://h?ca=", "ca is empty"},
        {"amqp://h?queue=q&dead_letter_key=k", "dead_letter_key says nothing without dead_letter"},
        {"amqp://h?dead_letter=e", "dead_letter says nothing without queue"},
        {"amqp://h?queue=q&dead_letter=", "dead_letter_key"},
        {"amqp://h?queue=q&bind=a", "bind says nothing without exchange"},
        {"amqp://h?exchange=e&bind=a", "bind says nothing without queue"},
        {"amqp://h?queue=q&exchange_type=topic", "exchange_type says nothing without exchange"},
        {"amqp://h?type=quorum", "type says nothing without queue"},
        {"amqp://h?single_active=yes", "single_active says nothing without queue"},
        {"amqp://h?delivery_limit=5", "delivery_limit says nothing without queue"},
        {"amqp://h?queue=q&durable=no", "always durable"},
        {"amqp://h?queue=q&type=classic&delivery_limit=5", "for quorum queues"},
        {"amqp://h?exchange=e&queue=q&declare=yes&exchange_type=direct", "needs bind"},
        {"amqp://h?ca=/ca", "ca is for amqps:"},
        {"amqp://h?certificate=/c&key=/k", "certificate is for amqps:"},
        {"amqp://h?verify=no", "verify is for amqps:"}};
    rabbit_address at;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(SEMEL_EINVAL, rabbit_address_read(&at, wrong[i].url, &last_error));
        SAYS(wrong[i].says);
    }
}

static void a_name_has_255_bytes_at_most(void **state)
{
    static const char *const forms[] = {"amqp://h?queue=%0*d",
                                        "amqp://h?exchange=%0*d",
                                        "amqp://h?queue=q&dead_letter=%0*d",
                                        "amqp://h?queue=q&dead_letter=e&dead_letter_key=%0*d",
                                        "amqp://h?exchange=e&queue=q&bind=a,%0*d",
                                        "amqp://h?name=%0*d",
                                        "amqp://%0*d",
                                        "amqp://%0*d@h",
                                        "amqp://u:%0*d@h",
                                        "amqp://h/%0*d"};
    char url[512];
    rabbit_address at;
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        (void)snprintf(url, sizeof url, forms[i], 255, 0);
        OK(rabbit_address_read(&at, url, &last_error));
        (void)snprintf(url, sizeof url, forms[i], 256, 0);
        FAILS(SEMEL_EINVAL, rabbit_address_read(&at, url, &last_error));
        SAYS("255 bytes");
    }
}

/* Three patterns of 255 bytes and one of 254, each with its NUL, and the NUL at the end are all
 * there is room for. */
static void bindings_end_within_their_room(void **state)
{
    char url[2048];
    rabbit_address at;
    (void)state;
    size_t len = (size_t)snprintf(url, sizeof url, "amqp://h?exchange=e&queue=q&bind=%0255d", 0);
    for (int i = 0; i < 2; i++)
        len += (size_t)snprintf(url + len, sizeof url - len, ",%0255d", 0);
    (void)snprintf(url + len, sizeof url - len, ",%0254d", 0);
    OK(rabbit_address_read(&at, url, &last_error));
    assert_int_equal(at.bindings[sizeof at.bindings - 1], 0);
    assert_int_equal(at.bindings[sizeof at.bindings - 2], 0);
    assert_int_equal(at.bindings[sizeof at.bindings - 3], '0');
    (void)snprintf(url + len, sizeof url - len, ",%0255d", 0);
    FAILS(SEMEL_EINVAL, rabbit_address_read(&at, url, &last_error));
    SAYS("bind has over");
}

static void no_error_repeats_a_part_of_a_password(void **state)
{
    static const char *const urls[] = {
        "amqp://u:a?cret@h",          "amqp://u:a?cret=b@h",      "amqp://u:a?b=1&cret=b@h",
        "amqp://u:a?prefetch=cret@h", "amqp://u:12/a?cret=1@h/v", "amqp://u:p@a?cret=1@h/v",
        "amqp://u:a?b=1&b=cret@h",    "amqp://u:cret/@h",         "amqp://u:cret:5@h:x"};
    rabbit_address at;
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        FAILS(SEMEL_EINVAL, rabbit_address_read(&at, urls[i], &last_error));
        if (strstr(last_error.text, "cret"))
            fail_msg("a password in: %s", last_error.text);
    }
}

static void reading_survives_the_failure_of_any_allocation(void **state)
{
    rabbit_address at;
    long failures = 0;
    (void)state;
    for (semel_status status = SEMEL_ENOMEM; status; failures++) {
        semel_error err = {0};
        mem_fail_at(failures + 1);
        status = rabbit_address_read(&at, "amqp://u:p@h/v?exchange=e&queue=q", &err);
        mem_fail_at(0);
        assert_int_equal(status, status ? SEMEL_ENOMEM : SEMEL_OK);
        assert_int_equal(err.status, status);
    }
    assert_true(failures > 1);
}

/* --- losses ----------------------------------------------------------------------------------- */

static const char *losses_of(const char *url, unsigned broker_major)
{
    static char losses[2048];
    rabbit_address at = read_url(url);
    rabbit_address_losses(losses, sizeof losses, &at, broker_major);
    return losses;
}

static size_t lines_of(const char *text)
{
    size_t lines = *text != 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void nothing_is_said_of_what_is_safe_or_not_used(void **state)
{
    static const char *const urls[] = {"amqp://h",
                                       "amqp://h?exchange=e",
                                       "amqp://h?exchange=e&durable=no",
                                       "amqp://h?exchange=e&declare=no",
                                       "amqp://h?queue=q&delivery_limit=-1",
                                       "amqp://h?queue=q&declare=yes&delivery_limit=-1",
                                       "amqp://h?queue=q&delivery_limit=9&dead_letter=d",
                                       "amqp://h?queue=q&type=classic",
                                       "amqps://h?queue=q&type=classic&verify=no"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        for (unsigned major = 3; major <= 4; major++)
            assert_string_equal(losses_of(urls[i], major), "");
    assert_string_equal(losses_of("amqp://h?queue=q", 3),
                        ""); /* where there is no limit by itself */
    assert_string_equal(losses_of("amqp://h?queue=q&declare=yes", 3), "");
}

static void each_setting_that_loses_messages_has_its_sentence(void **state)
{
    static const struct {
        const char *url, *says;
    } risky[] = {
        {"amqp://h?queue=stock&type=classic&durable=no",
         "queue stock: durable=no: its messages are gone when the broker restarts"},
        {"amqp://h?persistent=no", "persistent=no: what is published is gone"},
        {"amqp://h?queue=stock&delivery_limit=9", "queue stock: delivery_limit=9: it drops"},
        {"amqp://h?queue=stock&delivery_limit=0", "name an exchange with dead_letter="},
        {"amqp://h?queue=stock&type=classic&dead_letter=d", "without confirms"},
        {"amqp://h?queue=stock&declare=no", "queue stock: declare=no: "}};
    (void)state;
    for (size_t i = 0; i < sizeof risky / sizeof *risky; i++) {
        assert_non_null(strstr(losses_of(risky[i].url, 3), risky[i].says));
        assert_int_equal(lines_of(losses_of(risky[i].url, 3)), 1);
    }
}

static void a_limit_that_the_broker_sets_by_itself_is_told_of(void **state)
{
    (void)state;
    assert_int_equal(lines_of(losses_of("amqp://h?queue=q&declare=no", 3)), 1);
    assert_int_equal(lines_of(losses_of("amqp://h?queue=q&declare=no", 4)), 2);
    assert_non_null(strstr(losses_of("amqp://h?queue=q&declare=no", 4), "more than 20 times"));
    assert_null(strstr(losses_of("amqp://h?queue=q&declare=no&dead_letter=d", 4), "20"));
    assert_null(strstr(losses_of("amqp://h?queue=q&declare=no&type=classic", 4), "20"));
}

static void losses_are_cut_at_the_end_of_a_line(void **state)
{
    char whole[2048], cut[2048];
    rabbit_address at = read_url("amqp://h?queue=q&type=classic&durable=no&persistent=no"
                                 "&dead_letter=d&declare=no");
    (void)state;
    rabbit_address_losses(whole, sizeof whole, &at, 4);
    assert_int_equal(lines_of(whole), 4);
    for (size_t room = 0; room <= strlen(whole) + 1; room++) {
        memset(cut, 'x', sizeof cut);
        rabbit_address_losses(cut, room, &at, 4);
        assert_int_equal(cut[room], 'x');
        if (!room)
            continue;
        size_t len = strlen(cut);
        assert_true(len < room);
        assert_memory_equal(cut, whole, len);
        assert_true(!len || whole[len] == '\n' || !whole[len]);
    }
    assert_string_equal(cut, whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_of_a_url_are_read),
        cmocka_unit_test(what_a_url_does_not_say_has_a_default),
        cmocka_unit_test(words_and_bounds_are_taken_as_they_are_written),
        cmocka_unit_test(a_queue_at_an_exchange_is_bound_to_everything_unless_it_says_to_what),
        cmocka_unit_test(a_url_that_is_wrong_is_refused_and_says_where),
        cmocka_unit_test(what_makes_no_sense_together_is_refused),
        cmocka_unit_test(a_name_has_255_bytes_at_most),
        cmocka_unit_test(bindings_end_within_their_room),
        cmocka_unit_test(no_error_repeats_a_part_of_a_password),
        cmocka_unit_test(reading_survives_the_failure_of_any_allocation),
        cmocka_unit_test(nothing_is_said_of_what_is_safe_or_not_used),
        cmocka_unit_test(each_setting_that_loses_messages_has_its_sentence),
        cmocka_unit_test(a_limit_that_the_broker_sets_by_itself_is_told_of),
        cmocka_unit_test(losses_are_cut_at_the_end_of_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
