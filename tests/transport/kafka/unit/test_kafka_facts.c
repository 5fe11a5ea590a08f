/* What the configuration of a topic means for its messages: the grade, the warnings, and what is
 * refused. Facts that one broker cannot have (several replicas) are only tested here. */
#include "support/base/check.h"

#include "transport/kafka/inspect.h"

#include <string.h>

static const kafka_facts safe = {.replicas = 3,
                                 .is_configured = 1,
                                 .least_in_sync = 2,
                                 .flush_messages = INT64_MAX,
                                 .retention_ms = -1,
                                 .retention_bytes = -1};

static char warnings[KAFKA_WARNINGS_ROOM];

/* 1: refused unless the URL says loss=warn. */
static int judge(const kafka_facts *facts, const char *text)
{
    kafka_address address;
    int refuse = 0;
    OK(kafka_address_read(&address, text, &last_error));
    kafka_facts_warnings(warnings, &refuse, facts, &address);
    kafka_address_free(&address);
    return refuse;
}

static void two_of_three_replicas_survive_a_power_failure(void **state)
{
    kafka_facts facts = safe;
    (void)state;
    assert_int_equal(kafka_facts_durability(&facts), SEMEL_DURABLE_POWER);
    facts.least_in_sync = 1;
    assert_int_equal(kafka_facts_durability(&facts), SEMEL_DURABLE_PROCESS);
    facts.least_in_sync = 2;
    facts.replicas = 2;
    assert_int_equal(kafka_facts_durability(&facts), SEMEL_DURABLE_PROCESS);
}

static void what_is_flushed_survives_and_what_is_not_known_does_not(void **state)
{
    kafka_facts facts = safe;
    (void)state;
    facts.replicas = 1;
    facts.flush_messages = 1;
    assert_int_equal(kafka_facts_durability(&facts), SEMEL_DURABLE_POWER);
    facts.flush_messages = 2;
    assert_int_equal(kafka_facts_durability(&facts), SEMEL_DURABLE_PROCESS);
    facts = safe;
    facts.is_configured = 0;
    assert_int_equal(kafka_facts_durability(&facts), SEMEL_DURABLE_PROCESS);
}

static void nothing_is_said_of_a_topic_that_keeps_its_messages(void **state)
{
    (void)state;
    assert_false(judge(&safe, "kafka://h/t?group=g&dead=d"));
    assert_string_equal(warnings, "");
}

static void what_loses_confirmed_messages_is_refused(void **state)
{
    kafka_facts facts = safe;
    (void)state;
    facts.is_compacted = 1;
    assert_true(judge(&facts, "kafka://h/t"));
    assert_non_null(strstr(warnings, "cleanup.policy"));
    facts = safe;
    facts.is_unclean = 1;
    assert_true(judge(&facts, "kafka://h/t"));
    assert_non_null(strstr(warnings, "unclean.leader.election.enable"));
}

static void one_replica_in_sync_is_warned_of(void **state)
{
    kafka_facts facts = safe;
    (void)state;
    facts.least_in_sync = 1;
    assert_false(judge(&facts, "kafka://h/t"));
    assert_non_null(strstr(warnings, "min.insync.replicas=1"));
    facts.replicas = 1;
    assert_false(judge(&facts, "kafka://h/t"));
    assert_null(strstr(warnings, "min.insync.replicas"));
    assert_non_null(strstr(warnings, "the topic has one replica"));
}

static void what_could_not_be_read_is_said_and_not_refused(void **state)
{
    kafka_facts facts = safe;
    (void)state;
    facts.is_configured = 0;
    facts.is_compacted = 1;
    assert_false(judge(&facts, "kafka://h/t"));
    assert_non_null(strstr(warnings, "could not be read"));
}

static void an_assertion_of_old_clients_is_warned_of(void **state)
{
    int is_old = rd_kafka_version() < 0x020300ff;
    (void)state;
    assert_false(judge(&safe, "kafka://h/t?group=g&dead=d&assignment=cooperative"));
    assert_int_equal(strstr(warnings, "assignment=eager") != NULL, is_old);
    assert_false(judge(&safe, "kafka://h/t?group=g&dead=d&assignment=eager"));
    assert_string_equal(warnings, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_of_three_replicas_survive_a_power_failure),
        cmocka_unit_test(what_is_flushed_survives_and_what_is_not_known_does_not),
        cmocka_unit_test(nothing_is_said_of_a_topic_that_keeps_its_messages),
        cmocka_unit_test(what_loses_confirmed_messages_is_refused),
        cmocka_unit_test(one_replica_in_sync_is_warned_of),
        cmocka_unit_test(what_could_not_be_read_is_said_and_not_refused),
        cmocka_unit_test(an_assertion_of_old_clients_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
