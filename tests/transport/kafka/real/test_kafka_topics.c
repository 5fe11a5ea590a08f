/* Topics whose configuration may lose messages, as a broker tells it: refused or warned of, and the
 * grade of what is confirmed. The rules for replicas, of which one broker has only one, are tested
 * without it (unit/test_kafka_facts.c). */
#include "real_kit.h"

#include "support/base/check.h"
#include "support/process/deadline.h"
#include "support/servers/server_internal.h"

#include <string.h>

typedef struct expectation {
    const char *name, *value; /* of a setting of the topic */
    const char *says;         /* in the warnings, and in the error if it is refused */
    semel_durability durability;
    int is_refused;
} expectation;

static const expectation expectations[] = {
    {"cleanup.policy", "compact", "the topic is compacted", SEMEL_DURABLE_PROCESS, 1},
    {"cleanup.policy", "compact,delete", "the topic is compacted", SEMEL_DURABLE_PROCESS, 1},
    {"unclean.leader.election.enable", "true", "unclean.leader.election.enable",
     SEMEL_DURABLE_PROCESS, 1},
    {"flush.messages", "1", "the topic has one replica", SEMEL_DURABLE_POWER, 0},
    {"flush.messages", "2", "the topic has one replica", SEMEL_DURABLE_PROCESS, 0},
    {"min.insync.replicas", "2", "the topic has one replica", SEMEL_DURABLE_PROCESS, 0},
    {"retention.ms", "60000", "after less than a day", SEMEL_DURABLE_PROCESS, 0},
    {"retention.bytes", "1000000", "retention.bytes", SEMEL_DURABLE_PROCESS, 0},
};

static void make_topic(real_topic *t, const char *name, const char *value)
{
    const char *const settings[] = {name, value, NULL};
    server_place shared;
    server_find(&shared, SERVER_KAFKA);
    *t = (real_topic){.partitions = 1, .keys = 1};
    server_print(t->servers, sizeof t->servers, "%s:%u", shared.host, shared.port);
    kafka_cluster_name(t->topic);
    kafka_cluster_name(t->group);
    kafka_cluster_make_as(t->servers, t->topic, 1, settings);
}

static semel_status open_with(semel_transport **out, const real_topic *t, const char *parameters)
{
    char url[SERVER_URL_ROOM];
    real_topic_url(url, t, parameters);
    return semel_transport_open(out, url, NULL, &last_error);
}

static void refuses(const real_topic *t, const expectation *e)
{
    semel_transport *transport;
    FAILS(SEMEL_EINVAL, open_with(&transport, t, "loss=refuse"));
    SAYS(e->says);
    FAILS(SEMEL_EINVAL, open_with(&transport, t, ""));
}

static semel_durability durability_of(semel_transport *transport)
{
    const semel_transport_driver *driver = semel_transport_driver_of(transport);
    return driver->durability(semel_transport_state(transport, driver));
}

static void is_what_it_says(void **state)
{
    const expectation *e = *state;
    real_topic t;
    semel_transport *transport;
    deadline_begin();
    make_topic(&t, e->name, e->value);
    if (e->is_refused)
        refuses(&t, e);
    OK(open_with(&transport, &t, e->is_refused ? "loss=warn" : "loss=refuse"));
    if (!strstr(semel_transport_warnings(transport), e->says))
        fail_msg("%s", semel_transport_warnings(transport));
    assert_int_equal(durability_of(transport), e->durability);
    semel_transport_close(transport);
    real_topic_close(&t);
    deadline_end();
}

/* Nothing but that it has one replica, and that there is no dead=. */
static void little_is_said_of_the_usual_topic(void **state)
{
    real_topic t;
    semel_transport *transport;
    (void)state;
    real_topic_open(&t, 1, 1);
    OK(open_with(&transport, &t, "loss=refuse"));
    assert_string_equal(semel_transport_warnings(transport),
                        "the topic has one replica: what its broker loses is lost\n"
                        "a message that is rejected is dropped (there is no dead=)");
    assert_int_equal(durability_of(transport), SEMEL_DURABLE_PROCESS);
    semel_transport_close(transport);
    real_topic_close(&t);
}

int main(void)
{
    enum { COUNT = sizeof expectations / sizeof *expectations };
    struct CMUnitTest tests[COUNT + 1] = {cmocka_unit_test(little_is_said_of_the_usual_topic)};
    for (size_t i = 0; i < COUNT; i++)
        tests[i + 1] = (struct CMUnitTest){.name = expectations[i].name,
                                           .test_func = is_what_it_says,
                                           .initial_state = (void *)(uintptr_t)&expectations[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
