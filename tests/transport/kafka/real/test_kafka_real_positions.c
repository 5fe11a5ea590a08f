/* Inboxes that remember positions. Consumers that are killed under load and zombies, with a store
 * that has one row for each partition: each message has one effect, also when the group has lost
 * its offsets and everything comes again. And positions that mean other messages than before, of a
 * topic that was made anew or of another cluster, are noticed. */
#include "real_members.h"

#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/process/deadline.h"
#include "support/process/process.h"
#include "support/servers/kafka/kafka_mock.h"
#include "support/servers/kafka/position_reader.h"
#include "support/servers/server_internal.h"

#include <string.h>

enum { PARTITIONS = 4, KEYS = 32, CONSUMERS = 3, ROUNDS = 4, LOAD = 320, FEW = 8, HEADERS = 5 };

/* --- kills and zombies ------------------------------------------------------------------------ */

static void take_another_group(members *m, const char *parameters)
{
    kafka_cluster_name(m->topic->group);
    real_topic_url(m->url, m->topic, parameters);
}

static void one_effect_each(const char *parameters, uint32_t seed)
{
    real_topic topic;
    members m;
    real_topic_open(&topic, PARTITIONS, KEYS);
    members_open(&m, &topic, CONSUMERS, parameters);
    m.remember = SEMEL_REMEMBER_POSITIONS;
    members_start_all(&m);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned victim = shop_random(&seed, CONSUMERS);
        if (i == ROUNDS - 1)
            members_stop_with_deliveries(&m, victim, LOAD);
        else
            members_kill_under_load(&m, victim, LOAD, shop_random(&seed, 300));
        members_wait_effects(&m, real_topic_total(&topic));
    }
    members_finish(&m, 0);
    take_another_group(&m, parameters);
    members_start_all(&m);
    members_finish(&m, 0);
    members_close(&m);
    real_topic_close(&topic);
}

static void killed_consumers_have_one_effect_each_eager(void **state)
{
    (void)state;
    one_effect_each("assignment=eager", 11);
}

static void killed_consumers_have_one_effect_each_cooperative(void **state)
{
    (void)state;
    one_effect_each("assignment=cooperative", 12);
}

/* --- other messages at the same positions ----------------------------------------------------- */

typedef struct scene {
    real_topic topic;
    position_reader reader;
    char url[SERVER_URL_ROOM];
} scene;

/* Events that were made long ago, so that their age tells nothing; or records that are no events,
 * whose time is Kafka's. */
static void produce(const real_topic *t, const char *name, int is_old)
{
    semel_header headers[HEADERS] = {{"ce_specversion", semel_str("1.0")},
                                     {"ce_id", semel_str(name)},
                                     {"ce_source", semel_str("/shop")},
                                     {"ce_type", semel_str("order.placed")},
                                     {"ce_time", semel_str("2020-01-01T00:00:00Z")}};
    kafka_cluster_record records[FEW];
    for (size_t i = 0; i < FEW; i++)
        records[i] = (kafka_cluster_record){.key = name,
                                            .value = name,
                                            .headers = headers,
                                            .header_count = is_old ? HEADERS : 0,
                                            .partition = 0};
    kafka_cluster_produce(t->servers, t->topic, records, FEW);
}

static void open_scene(scene *s, uint32_t clock_margin_ms)
{
    real_topic_open(&s->topic, 1, 1);
    position_reader_open(&s->reader, clock_margin_ms);
    real_topic_url(s->url, &s->topic, "");
}

static void close_scene(scene *s)
{
    position_reader_close(&s->reader);
    real_topic_close(&s->topic);
}

/* The broker gives up the old topic, and the offsets of its groups, in its own time: another group
 * receives from the beginning. */
static void make_anew(scene *s)
{
    real_topic *t = &s->topic;
    int64_t deadline = process_now_ms() + REAL_PATIENCE_MS;
    kafka_cluster_remove(t->servers, t->topic);
    kafka_cluster_make(t->servers, t->topic, t->partitions);
    while (kafka_cluster_end(t->servers, t->topic, t->partitions) != 0)
        assert_true(process_now_ms() < deadline);
    kafka_cluster_name(t->group);
    real_topic_url(s->url, t, "");
}

/* Nothing more was handled. Then a person says that it is meant, and sets the group back: what the
 * message at the last position tells comes late, when those before it are settled. */
static void forget_and_go_on(scene *s)
{
    char partition[KAFKA_NAME_ROOM + 8];
    assert_int_equal(s->reader.handled, FEW);
    server_print(partition, sizeof partition, "%s/0", s->topic.topic);
    OK(semel_inbox_forget_partition(s->reader.inbox, partition, &last_error));
    kafka_cluster_name(s->topic.group);
    real_topic_url(s->url, &s->topic, "");
    OK(position_reader_settle(&s->reader, s->url, FEW));
    assert_int_equal(s->reader.handled, 2 * FEW);
}

static void a_topic_that_was_made_anew_is_noticed_by_age(void **state)
{
    scene s = {0};
    (void)state;
    open_scene(&s, 1);
    produce(&s.topic, "first", 0);
    OK(position_reader_settle(&s.reader, s.url, FEW));
    make_anew(&s);
    produce(&s.topic, "second", 0);
    FAILS(SEMEL_EREJECTED, position_reader_settle(&s.reader, s.url, FEW));
    SAYS("is younger than that");
    forget_and_go_on(&s);
    close_scene(&s);
}

static void a_topic_that_was_made_anew_is_noticed_by_content(void **state)
{
    scene s = {0};
    (void)state;
    open_scene(&s, 0);
    produce(&s.topic, "first", 1);
    OK(position_reader_settle(&s.reader, s.url, FEW));
    make_anew(&s);
    produce(&s.topic, "second", 1);
    FAILS(SEMEL_EREJECTED, position_reader_settle(&s.reader, s.url, FEW));
    SAYS("is not the one that was handled");
    forget_and_go_on(&s);
    close_scene(&s);
}

/* A topic of the same name on librdkafka's mock cluster, which has an id of its own. */
static void another_cluster_is_noticed_by_its_id(void **state)
{
    scene s = {0};
    kafka_mock mock;
    (void)state;
    open_scene(&s, 0);
    produce(&s.topic, "first", 1);
    OK(position_reader_settle(&s.reader, s.url, FEW));
    kafka_mock_start(&mock, 1);
    kafka_mock_do(&mock, "topic %s 1", s.topic.topic);
    server_print(s.url, sizeof s.url, "kafka://%s/%s?group=stock&connect_ms=20000&" MOCK_SESSION,
                 mock.servers, s.topic.topic);
    real_topic elsewhere = s.topic;
    server_print(elsewhere.servers, sizeof elsewhere.servers, "%s", mock.servers);
    produce(&elsewhere, "first", 1);
    FAILS(SEMEL_EREJECTED, position_reader_settle(&s.reader, s.url, FEW));
    SAYS("another cluster");
    assert_int_equal(s.reader.handled, FEW);
    kafka_mock_end(&mock);
    close_scene(&s);
}

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    deadline_end();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(killed_consumers_have_one_effect_each_eager),
        TEST(killed_consumers_have_one_effect_each_cooperative),
        TEST(a_topic_that_was_made_anew_is_noticed_by_age),
        TEST(a_topic_that_was_made_anew_is_noticed_by_content),
        TEST(another_cluster_is_noticed_by_its_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
