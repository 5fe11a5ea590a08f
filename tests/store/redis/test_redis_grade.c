/* What the server keeps decides what the store promises; and errors of servers in trouble. On
 * a server of its own, which is set up in ways that other tests would not like. */
#include "redis_kit.h"
#include "support/process/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static server_own own;

static int start_server(void **state)
{
    (void)state;
    setenv("SEMEL_REDIS_CONFIG", "enable-debug-command yes", 1);
    server_own_start(&own, SERVER_REDIS);
    unsetenv("SEMEL_REDIS_CONFIG");
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    server_own_stop(&own);
    return 0;
}

static int set_up(void **state)
{
    static redis_case c;
    redis_case_open(&c, &own.at);
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    redis_case *c = *state;
    server_run(c->url, "CONFIG SET appendonly yes");
    server_run(c->url, "CONFIG SET appendfsync always");
    server_run(c->url, "CONFIG SET maxmemory-policy noeviction");
    server_run(c->url, "CONFIG SET maxmemory 0");
    server_run(c->url, "CONFIG SET min-replicas-to-write 0");
    redis_case_close(c);
    return 0;
}

static semel_durability grade(redis_case *c, const char *more)
{
    char url[SERVER_URL_ROOM];
    redis_store *store = NULL;
    OK(redis_case_connect(&store, c, redis_case_url(url, c, more)));
    semel_durability told = redis_keyed_driver.durability(store);
    redis_case_disconnect(store);
    return told;
}

static void is_refused(redis_case *c, semel_status status, const char *more, const char *part)
{
    char url[SERVER_URL_ROOM];
    redis_store *none = NULL;
    FAILS(status, redis_case_connect(&none, c, redis_case_url(url, c, more)));
    SAYS(part);
}

static void how_often_it_is_synced(void **state)
{
    redis_case *c = *state;
    assert_int_equal(grade(c, ""), SEMEL_DURABLE_POWER);
    server_run(c->url, "CONFIG SET appendfsync everysec");
    assert_int_equal(grade(c, ""), SEMEL_DURABLE_PROCESS);
    server_run(c->url, "CONFIG SET appendfsync no");
    assert_int_equal(grade(c, ""), SEMEL_DURABLE_PROCESS);
    assert_int_equal(grade(c, "&durable=power"), SEMEL_DURABLE_POWER);
}

/* While the file is written anew, "always" syncs nothing then. */
static void it_is_not_synced_during_a_rewrite(void **state)
{
    redis_case *c = *state;
    server_run(c->url, "CONFIG SET no-appendfsync-on-rewrite yes");
    semel_durability told = grade(c, "");
    server_run(c->url, "CONFIG SET no-appendfsync-on-rewrite no");
    assert_int_equal(told, SEMEL_DURABLE_PROCESS);
}

static void no_append_only_file(void **state)
{
    redis_case *c = *state;
    server_run(c->url, "CONFIG SET appendonly no");
    is_refused(c, SEMEL_EINVAL, "", "appendonly yes");
    assert_int_equal(grade(c, "&loss=warn"), SEMEL_DURABLE_NOT);
    assert_int_equal(grade(c, "&durable=process"), SEMEL_DURABLE_PROCESS);
}

static int load_again(void *url)
{
    server_run(url, "DEBUG LOADAOF");
    return PROCESS_OK;
}

/* Opens the store as long as the server reads its file; how often it was told to come again. */
static unsigned open_meanwhile(redis_case *c, pid_t loading)
{
    unsigned told = 0;
    while (waitpid(loading, NULL, WNOHANG) == 0) {
        redis_store *store = NULL;
        semel_status status = redis_case_connect(&store, c, c->url);
        if (status)
            assert_int_equal(status, SEMEL_EUNAVAILABLE);
        else
            redis_case_disconnect(store);
        told += status && strstr(last_error.text, "loading its data");
    }
    return told;
}

/* It is one that has just been started; then its INFO says aof_enabled:0. */
static void a_server_that_loads_its_data(void **state)
{
    /* Of four commands each. The server answers when it has read 1024 commands, and then a little:
     * opening takes several such turns. */
    enum { RECORDS = 5000 };
    redis_case *c = *state;
    server_run(c->url, "CONFIG SET appendfsync no");
    for (int i = 0; i < RECORDS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        OK(redis_case_write(c->store, key));
    }
    server_run(c->url, "CONFIG SET key-load-delay 100");
    pid_t loading = process_start(load_again, c->url);
    assert_true(open_meanwhile(c, loading) > 0);
    server_run(c->url, "CONFIG SET key-load-delay 0");
}

static void markers_that_could_be_evicted(void **state)
{
    redis_case *c = *state;
    server_run(c->url, "CONFIG SET maxmemory-policy allkeys-lru");
    is_refused(c, SEMEL_EINVAL, "", "allkeys-lru");
    SAYS("loss=warn");
    is_refused(c, SEMEL_EINVAL, "&durable=power", "allkeys-lru");
    assert_int_equal(grade(c, "&loss=warn"), SEMEL_DURABLE_NOT);
    server_run(c->url, "CONFIG SET maxmemory-policy volatile-lru"); /* semel's keys do not expire */
    assert_int_equal(grade(c, ""), SEMEL_DURABLE_POWER);
}

static void waiting_for_the_disk(void **state)
{
    redis_case *c = *state;
    char url[SERVER_URL_ROOM];
    redis_store *store = NULL;
    semel_status status = redis_case_connect(&store, c, redis_case_url(url, c, "&sync=yes"));
    if (status == SEMEL_EUNSUPPORTED) { /* Redis 7.0 */
        SAYS("WAITAOF");
        return;
    }
    OK(status);
    server_run(c->url, "CONFIG SET appendfsync everysec");
    assert_int_equal(grade(c, "&sync=yes"), SEMEL_DURABLE_POWER);
    OK(redis_case_write(store, "k"));
    redis_case_disconnect(store);
}

/* There is no replica: it is written, and not known to be stored. */
static void waiting_for_replicas(void **state)
{
    redis_case *c = *state;
    char url[SERVER_URL_ROOM];
    redis_store *store = NULL;
    c->settings.answer_ms = 400;
    OK(redis_case_connect(&store, c, redis_case_url(url, c, "&replicas=1")));
    FAILS(SEMEL_EUNKNOWN, redis_case_write(store, "k"));
    SAYS("0 of 1 replicas");
    assert_true(redis_case_has(store, "k"));
    redis_case_disconnect(store);
}

/* --- trouble ---------------------------------------------------------------------------------- */

static void no_memory(void **state)
{
    redis_case *c = *state;
    OK(redis_case_write(c->store, "before"));
    server_run(c->url, "CONFIG SET maxmemory 1");
    FAILS(SEMEL_EUNAVAILABLE, redis_case_write(c->store, "k"));
    SAYS("OOM");
    assert_true(redis_case_has(c->store, "before"));
    assert_false(redis_case_has(c->store, "k"));
    OK(redis_case_remove(c->store, "before"));           /* what makes room is not refused */
    assert_int_equal(grade(c, ""), SEMEL_DURABLE_POWER); /* it can still be opened */
    server_run(c->url, "CONFIG SET maxmemory 0");
    OK(redis_case_write(c->store, "k"));
}

static void too_few_replicas(void **state)
{
    redis_case *c = *state;
    c->settings.busy_ms = 200;
    server_run(c->url, "CONFIG SET min-replicas-to-write 1");
    FAILS(SEMEL_EUNAVAILABLE, redis_case_write(c->store, "k"));
    SAYS("NOREPLICAS");
    server_run(c->url, "CONFIG SET min-replicas-to-write 0");
    OK(redis_case_write(c->store, "k"));
}

static void a_replica_takes_no_writes(void **state)
{
    redis_case *c = *state;
    c->settings.busy_ms = 200;
    server_run(c->url, "CONFIG SET replica-serve-stale-data yes");
    server_run(c->url, "REPLICAOF 127.0.0.1 1");
    FAILS(SEMEL_EUNAVAILABLE, redis_case_write(c->store, "k"));
    SAYS("READONLY");
    server_run(c->url, "REPLICAOF NO ONE");
    OK(redis_case_write(c->store, "k"));
}

/* --- a cluster of one node -------------------------------------------------------------------- */

static void in_a_cluster(void **state)
{
    server_own node;
    redis_case c;
    (void)state;
    setenv("SEMEL_REDIS_CONFIG", "cluster-enabled yes", 1);
    server_own_start(&node, SERVER_REDIS);
    unsetenv("SEMEL_REDIS_CONFIG");
    server_run(node.at.url, "CLUSTER ADDSLOTSRANGE 0 16383");
    redis_case_open(&c, &node.at); /* it may say CLUSTERDOWN for a moment */
    assert_int_equal(redis_keyed_driver.durability(c.store), SEMEL_DURABLE_PROCESS);
    OK(redis_case_write(c.store, "k"));
    assert_true(redis_case_has(c.store, "k"));
    FAILS(SEMEL_EINVAL, redis_keyed_driver.queue(c.store, "INCR other", NULL, 0, &last_error));
    SAYS("in its name");
    char text[256];
    (void)snprintf(text, sizeof text, "INCR {%s}sum", strchr(c.url, '=') + 1);
    OK(redis_keyed_driver.queue(c.store, text, NULL, 0, &last_error));
    semel_keyed_change changes[] = {change_text("m/1", "l", "v"),
                                    change_text("r/1", "l", "v"),
                                    {.kind = SEMEL_KEYED_FOREIGN, .statement = text}};
    OK(redis_keyed_driver.apply(c.store, changes, 3, SEMEL_BEGIN_DURABLE, NULL, NULL, &last_error));
    redis_case_close(&c);
    server_own_stop(&node);
}

static void start_node(server_own *node)
{
    setenv("SEMEL_REDIS_CONFIG", "cluster-enabled yes", 1);
    server_own_start(node, SERVER_REDIS);
    unsetenv("SEMEL_REDIS_CONFIG");
}

static void note_state(const char *text, void *context)
{
    int *ok = context;
    *ok = text && strstr(text, "cluster_state:ok") && strstr(text, "cluster_known_nodes:2");
}

static void wait_for_cluster(const server_own *node)
{
    int ok = 0;
    int64_t deadline = process_now_ms() + 60000;
    while (!ok) {
        assert_true(process_now_ms() < deadline);
        server_each(node->at.url, "CLUSTER INFO", note_state, &ok);
        process_nap();
    }
}

/* One of the two has the slot, and the other one says where it is. */
static void in_a_cluster_of_two(void **state)
{
    server_own nodes[2];
    redis_case c;
    redis_store *other = NULL;
    char meet[128], url[SERVER_URL_ROOM];
    (void)state;
    start_node(&nodes[0]);
    start_node(&nodes[1]);
    server_run(nodes[0].at.url, "CLUSTER ADDSLOTSRANGE 0 8191");
    server_run(nodes[1].at.url, "CLUSTER ADDSLOTSRANGE 8192 16383");
    (void)snprintf(meet, sizeof meet, "CLUSTER MEET 127.0.0.1 %u", nodes[1].at.port);
    server_run(nodes[0].at.url, meet);
    wait_for_cluster(&nodes[0]);
    wait_for_cluster(&nodes[1]);
    redis_case_open(&c, &nodes[0].at);
    (void)snprintf(url, sizeof url, "%s%s", nodes[1].at.url, strchr(c.url, '?'));
    OK(redis_case_connect(&other, &c, url));
    OK(redis_case_write(c.store, "k"));
    OK(redis_case_write(other, "l"));
    assert_true(redis_case_has(other, "k") && redis_case_has(c.store, "l"));
    assert_int_equal(c.store->client.port, other->client.port);
    assert_int_equal(c.store->client.place + other->client.place, 1); /* one of them was told */
    redis_case_disconnect(other);
    redis_case_disconnect(c.store);
    server_own_stop(&nodes[0]);
    server_own_stop(&nodes[1]);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(how_often_it_is_synced),
                                       TEST(it_is_not_synced_during_a_rewrite),
                                       TEST(no_append_only_file),
                                       TEST(a_server_that_loads_its_data),
                                       TEST(markers_that_could_be_evicted),
                                       TEST(waiting_for_the_disk),
                                       TEST(waiting_for_replicas),
                                       TEST(no_memory),
                                       TEST(too_few_replicas),
                                       TEST(a_replica_takes_no_writes),
                                       cmocka_unit_test(in_a_cluster),
                                       cmocka_unit_test(in_a_cluster_of_two)};
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
