/* The URL of a NATS transport: what it says, what it does not say, what it must not say. */
#include "support/base/check.h"

#include "transport/nats/address.h"
#include "transport/nats/subject.h"

#include <string.h>

static jet_address read_url(const char *url)
{
    jet_address at;
    OK(jet_address_read(&at, url, &last_error));
    return at;
}

static void all_parts_of_a_url_are_read(void **state)
{
    (void)state;
    jet_address at = read_url(
        "natss://a%64a:s3cret%2F%40@[2001:db8::1]:4333/ORDERS?consumer=stock&subject=shop.orders"
        "&dead=shop.dead&declare=yes&subjects=shop.%3E,other.*.x&storage=memory&retention=interest"
        "&replicas=3&duplicates_ms=60000&filter=shop.*&ack_ms=5000&max_deliver=7"
        "&max_ack_pending=-1&sync=always&msg_id=no&loss=warn&heartbeat=5&connect_ms=1&name=till"
        "&servers=b:1,c:2&ca=%2Fca.pem&certificate=/c&key=/k&verify=no");
    assert_string_equal(at.user, "ada");
    assert_string_equal(at.password, "s3cret/@");
    assert_string_equal(at.host, "2001:db8::1");
    assert_int_equal(at.port, 4333);
    assert_string_equal(at.stream, "ORDERS");
    assert_string_equal(at.consumer, "stock");
    assert_string_equal(at.subject, "shop.orders");
    assert_string_equal(at.dead, "shop.dead");
    assert_string_equal(at.subjects, "shop.>,other.*.x");
    assert_string_equal(at.filter, "shop.*");
    assert_string_equal(at.servers, "b:1,c:2");
    assert_string_equal(at.name, "till");
    assert_int_equal(at.declare, JET_DECLARE);
    assert_int_equal(at.storage, JET_STORAGE_MEMORY);
    assert_int_equal(at.retention, JET_RETENTION_INTEREST);
    assert_int_equal(at.replicas, 3);
    assert_int_equal(at.duplicates_ms, 60000);
    assert_int_equal(at.ack_ms, 5000);
    assert_int_equal(at.max_deliver, 7);
    assert_int_equal(at.max_ack_pending, -1);
    assert_int_equal(at.heartbeat_s, 5);
    assert_int_equal(at.connect_ms, 1);
    assert_true(at.tls && !at.verify && at.sync_always && !at.message_ids && at.allow_loss);
    assert_string_equal(at.ca, "/ca.pem");
    assert_string_equal(at.certificate, "/c");
    assert_string_equal(at.key, "/k");
}

static void what_a_url_does_not_say_has_a_default(void **state)
{
    (void)state;
    jet_address at = read_url("nats://");
    assert_string_equal(at.host, "localhost");
    assert_int_equal(at.port, 4222);
    assert_string_equal(at.stream, "");
    assert_string_equal(at.name, "semel");
    assert_int_equal(at.declare, JET_CHECK);
    assert_int_equal(at.storage, 0);
    assert_int_equal(at.retention, 0);
    assert_int_equal(at.max_deliver, 0);
    assert_true(!at.tls && at.verify && !at.sync_always && at.message_ids && !at.allow_loss);
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *url, *says;
    } bad[] = {{"nats:host", "//"},
               {"nats://host/S?consumer=a.b", "consumer"},
               {"nats://host/S.T", "stream"},
               {"nats://host/?consumer=c", "STREAM"},
               {"nats://host/S?consumer=", "empty"},
               {"nats://host/S?ack_ms=1000", "consumer"},
               {"nats://host/S?dead=x", "consumer"},
               {"nats://host/S?subject=a..b", "subject"},
               {"nats://host/S?subject=a.*", "subject"},
               {"nats://host/S?subject=a.%3E", "subject"},
               {"nats://host/S?subject=a%20b", "subject"},
               {"nats://host/S?subjects=a,,b", "subjects"},
               {"nats://host/S?subjects=%3E.a", "subjects"},
               {"nats://host/S?consumer=c&filter=a..b", "filter"},
               {"nats://host/S?declare=yes", "subject"},
               {"nats://host?declare=yes&subject=s", "stream"},
               {"nats://host/S?storage=tape", "storage"},
               {"nats://host/S?consumer=c&max_deliver=0", "max_deliver"},
               {"nats://host/S?ca=/ca", "natss"},
               {"natss://host/S?certificate=/c", "key"},
               {"nats://host/S?servers=u:p@b:1", "servers"},
               {"nats://u@host/S?credentials=/c", "credentials"},
               {"nats://host/S?queue=q", "queue"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        jet_address at;
        FAILS(SEMEL_EINVAL, jet_address_read(&at, bad[i].url, &last_error));
        SAYS(bad[i].says);
    }
}

static void subjects_are_tokens_between_dots(void **state)
{
    (void)state;
    assert_true(jet_subject_is_plain("a") && jet_subject_is_plain("orders.\xc3\xa9.paid"));
    assert_true(jet_subject_is_plain("a*.b>"));
    assert_false(jet_subject_is_plain("") || jet_subject_is_plain(".") ||
                 jet_subject_is_plain("a.") || jet_subject_is_plain(".a") ||
                 jet_subject_is_plain("a.*") || jet_subject_is_plain("a.>") ||
                 jet_subject_is_plain("a b") || jet_subject_is_plain("a\r\nb"));
    assert_true(jet_subject_is_pattern("a.*.b") && jet_subject_is_pattern(">"));
    assert_false(jet_subject_is_pattern("a.>.b") || jet_subject_is_pattern("a..b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_parts_of_a_url_are_read),
                                       cmocka_unit_test(what_a_url_does_not_say_has_a_default),
                                       cmocka_unit_test(what_makes_no_sense_is_refused),
                                       cmocka_unit_test(subjects_are_tokens_between_dots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
