/* Connections to Redis: what is lost on the way, servers that die and come back, TLS, sockets,
 * logins, and processes that fork. */
#include "redis_kit.h"
#include "support/process/process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int set_up(void **state)
{
    static redis_case c;
    redis_case_open(&c, NULL);
    *state = &c;
    return 0;
}

static int tear_down(void **state)
{
    redis_case_close(*state);
    return 0;
}

/* --- what gets lost --------------------------------------------------------------------------- */

typedef struct way {
    proxy *between;
    redis_store *store;
} way;

static void go_through(way *w, redis_case *c)
{
    char url[SERVER_URL_ROOM];
    w->between = proxy_open(c->url);
    OK(redis_case_connect(&w->store, c, proxy_url(url, w->between, c->url)));
    OK(redis_case_write(w->store, "warm"));
}

static void come_back(way *w)
{
    redis_case_disconnect(w->store);
    proxy_close(w->between);
}

static void the_answer_of_a_write_is_lost(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    proxy_lose_answer(w.between, "EVALSHA");
    FAILS(SEMEL_EUNKNOWN, redis_case_write(w.store, "k"));
    assert_int_equal(proxy_count(w.between).lost, 1);
    assert_true(redis_case_has(c->store, "k"));
    OK(redis_case_write(w.store, "next"));
    come_back(&w);
}

static void a_request_to_write_is_lost(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    proxy_lose_request(w.between, "EVALSHA");
    FAILS(SEMEL_EUNKNOWN, redis_case_write(w.store, "k"));
    assert_false(redis_case_has(c->store, "k"));
    OK(redis_case_write(w.store, "k"));
    come_back(&w);
}

static void a_read_is_done_again(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    proxy_lose_answer(w.between, "HMGET");
    assert_true(redis_case_has(w.store, "warm"));
    assert_int_equal(proxy_count(w.between).lost, 1);
    come_back(&w);
}

/* An idle connection that was cut is seen before it is used. */
static void idle_connections_are_cut(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    proxy_cut(w.between);
    OK(redis_case_write(w.store, "k"));
    come_back(&w);
}

static void nobody_answers(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    c->settings.answer_ms = 300;
    proxy_hold(w.between, 1);
    FAILS(SEMEL_EUNKNOWN, redis_case_write(w.store, "k"));
    SAYS("no answer in time");
    proxy_hold(w.between, 0);
    c->settings.answer_ms = 20000;
    OK(redis_case_write(w.store, "l"));
    come_back(&w);
}

static void nobody_listens(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    c->settings.busy_ms = 200;
    proxy_refuse(w.between, 1);
    proxy_cut(w.between);
    FAILS(SEMEL_EUNAVAILABLE, redis_case_write(w.store, "k"));
    SAYS("cannot connect to 127.0.0.1");
    proxy_refuse(w.between, 0);
    c->settings.busy_ms = 5000;
    OK(redis_case_write(w.store, "k"));
    come_back(&w);
}

static void one_round_trip_each(void **state)
{
    redis_case *c = *state;
    way w;
    go_through(&w, c);
    proxy_forget(w.between);
    OK(redis_case_write(w.store, "k"));
    assert_int_equal(proxy_count(w.between).round_trips, 1);
    assert_true(redis_case_has(w.store, "k"));
    assert_int_equal(proxy_count(w.between).round_trips, 2);
    assert_int_equal(proxy_count(w.between).connections, 0);
    come_back(&w);
}

/* On a server of its own, because other tests rest on its knowing their scripts. */
static void scripts_are_forgotten(void **state)
{
    server_own own;
    redis_case c;
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 10};
    adapter_rows rows = {0};
    (void)state;
    server_own_start(&own, SERVER_REDIS);
    redis_case_open(&c, &own.at);
    OK(redis_case_write(c.store, "k"));
    server_run(c.url, "SCRIPT FLUSH");
    OK(redis_case_write(c.store, "l"));
    server_run(c.url, "SCRIPT FLUSH");
    OK(redis_keyed_driver.scan(c.store, &range, adapter_row, &rows, &last_error));
    assert_int_equal(rows.count, 2);
    adapter_rows_free(&rows);
    redis_case_close(&c);
    server_own_stop(&own);
}

/* --- a server that dies ----------------------------------------------------------------------- */

static void the_server_is_killed(void **state)
{
    enum { WRITES = 200 };
    server_own own;
    redis_case c;
    char key[16];
    (void)state;
    server_own_start(&own, SERVER_REDIS);
    redis_case_open(&c, &own.at);
    for (int i = 0; i < WRITES; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        OK(redis_case_write(c.store, key));
    }
    server_own_crash(&own);
    c.settings.busy_ms = 200;
    semel_status status = redis_case_write(c.store, "away");
    if (status == SEMEL_EUNKNOWN) /* it was sent before this end had heard that the other is gone */
        status = redis_case_write(c.store, "away");
    assert_int_equal(status, SEMEL_EUNAVAILABLE);
    server_own_restart(&own);
    c.settings.busy_ms = 10000;
    for (int i = 0; i < WRITES; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        assert_true(redis_case_has(c.store, key));
    }
    assert_false(redis_case_has(c.store, "away"));
    OK(redis_case_write(c.store, "back"));
    redis_case_close(&c);
    server_own_stop(&own);
}

/* --- ways to the server ----------------------------------------------------------------------- */

static void is_usable(redis_case *c, const char *url, const char *key)
{
    redis_store *store = NULL;
    OK(redis_case_connect(&store, c, url));
    OK(redis_case_write(store, key));
    assert_true(redis_case_has(c->store, key));
    redis_case_disconnect(store);
}

static void by_a_socket_of_the_host(void **state)
{
    redis_case *c = *state;
    char more[SCRATCH_PATH + 16], url[SERVER_URL_ROOM];
    (void)snprintf(more, sizeof more, "&socket=%s", c->server.socket);
    is_usable(c, redis_case_url(url, c, more), "k");
    FAILS(SEMEL_EUNAVAILABLE,
          redis_case_connect(&c->store, c, redis_case_url(url, c, "&socket=/no/such")));
}

static void tls_url(char url[SERVER_URL_ROOM], const redis_case *c, const char *host,
                    const char *more)
{
    char port[16];
    server_entry(port, sizeof port, &c->server, "TLS_PORT");
    (void)snprintf(url, SERVER_URL_ROOM, "rediss://default:semel@%s:%s/0%s&connect_ms=20000%s",
                   host, port, strchr(c->url, '?'), more);
}

static void by_tls(void **state)
{
    redis_case *c = *state;
    char url[SERVER_URL_ROOM], ca[SCRATCH_PATH], more[SCRATCH_PATH + 32];
    redis_store *none = NULL;
    server_entry(ca, sizeof ca, &c->server, "CA");
    (void)snprintf(more, sizeof more, "&ca=%s", ca);
    tls_url(url, c, "localhost", more);
    is_usable(c, url, "k");
    tls_url(url, c, "127.0.0.1", more); /* not the name in the certificate */
    FAILS(SEMEL_ESTORE, redis_case_connect(&none, c, url));
    SAYS("not to be trusted");
    tls_url(url, c, "localhost", "");
    FAILS(SEMEL_ESTORE, redis_case_connect(&none, c, url));
    tls_url(url, c, "127.0.0.1", "&verify=no");
    is_usable(c, url, "l");
    tls_url(url, c, "localhost", "&ca=/no/such/file");
    FAILS(SEMEL_EINVAL, redis_case_connect(&none, c, url));
    SAYS("/no/such/file");
}

static void by_tls_with_a_certificate(void **state)
{
    redis_case *c = *state;
    char url[SERVER_URL_ROOM], ca[SCRATCH_PATH], certificate[SCRATCH_PATH], key[SCRATCH_PATH];
    char more[3 * SCRATCH_PATH + 64];
    server_entry(ca, sizeof ca, &c->server, "CA");
    server_entry(certificate, sizeof certificate, &c->server, "CERTIFICATE");
    server_entry(key, sizeof key, &c->server, "KEY");
    (void)snprintf(more, sizeof more, "&ca=%s&certificate=%s&key=%s", ca, certificate, key);
    tls_url(url, c, "localhost", more);
    is_usable(c, url, "k");
}

/* A record of some megabytes goes out in many pieces. */
static void much_by_tls(void **state)
{
    enum { MUCH = 5 << 20 };
    redis_case *c = *state;
    char url[SERVER_URL_ROOM];
    char *body = test_malloc(MUCH);
    redis_store *store = NULL;
    adapter_rows rows = {0};
    semel_bytes key = BYTES("k");
    for (size_t i = 0; i < MUCH; i++)
        body[i] = (char)(i * 31);
    tls_url(url, c, "127.0.0.1", "&verify=no");
    OK(redis_case_connect(&store, c, url));
    semel_keyed_change change =
        change_body(change_text("m/1", "k", "v"), (semel_bytes){body, MUCH});
    OK(redis_keyed_driver.apply(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, NULL, &last_error));
    OK(redis_keyed_driver.get(store, BYTES("m/1"), &key, 1, 1, adapter_row, &rows, &last_error));
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.all[0].body.len, MUCH);
    assert_memory_equal(rows.all[0].body.data, body, MUCH);
    adapter_rows_free(&rows);
    redis_case_disconnect(store);
    test_free(body);
}

/* --- logins ----------------------------------------------------------------------------------- */

static void user_url(char url[SERVER_URL_ROOM], const redis_case *c, const char *user)
{
    (void)snprintf(url, SERVER_URL_ROOM, "redis://%s@%s:%u/0%s", user, c->server.host,
                   c->server.port, strchr(c->url, '?'));
}

static void passwords(void **state)
{
    redis_case *c = *state;
    char url[SERVER_URL_ROOM];
    redis_store *none = NULL;
    user_url(url, c, ":semel");
    is_usable(c, url, "k");
    user_url(url, c, "default:wrong%2Fsecret");
    FAILS(SEMEL_ESTORE, redis_case_connect(&none, c, url));
    SAYS("WRONGPASS");
    assert_null(strstr(last_error.text, "secret"));
    (void)snprintf(url, sizeof url, "redis://%s:%u/0", c->server.host, c->server.port);
    FAILS(SEMEL_ESTORE, redis_case_connect(&none, c, url));
    SAYS("NOAUTH");
}

static void a_user_with_few_rights(void **state)
{
    redis_case *c = *state;
    char url[SERVER_URL_ROOM], name[64], command[512], user[128];
    redis_store *none = NULL;
    (void)snprintf(name, sizeof name, "%s", strchr(c->url, '=') + 1);
    (void)snprintf(user, sizeof user, "u-%s:secret", name);
    user_url(url, c, user);
    (void)snprintf(command, sizeof command,
                   "ACL SETUSER u-%s reset on >secret ~{%s}* &{%s}* +@all -zadd", name, name, name);
    server_run(c->url, command);
    FAILS(SEMEL_ESTORE, redis_case_connect(&none, c, url));
    SAYS("ZADD");
    SAYS("lacks a right");
    /* What docs/REDIS.md says is enough. */
    (void)snprintf(
        command, sizeof command,
        "ACL SETUSER u-%s reset on >secret ~{%s}* &{%s}/ready +auth +select +info "
        "+config|get +client|setname +eval +evalsha +time +hget +hmget +hset +hdel +zadd "
        "+zrem +zcard +zrangebylex +zrevrangebylex +del +publish +subscribe",
        name, name, name);
    server_run(c->url, command);
    is_usable(c, url, "k");
    (void)snprintf(command, sizeof command, "ACL SETUSER u-%s resetkeys ~other*", name);
    server_run(c->url, command);
    FAILS(SEMEL_ESTORE, redis_case_connect(&none, c, url));
    (void)snprintf(command, sizeof command, "ACL DELUSER u-%s", name);
    server_run(c->url, command);
}

/* --- fork ------------------------------------------------------------------------------------- */

static int in_a_child(void *context)
{
    redis_case *c = context;
    semel_keyed_change change = change_text("m/1", "child", "value");
    int told = redis_keyed_driver.apply(c->store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, NULL,
                                        NULL) == SEMEL_EMISUSE;
    told &= redis_keyed_driver.watch->watch(c->store) == -1;
    redis_case_disconnect(c->store);
    return told ? 0 : 1;
}

static void a_child_may_not_use_it(void **state)
{
    redis_case *c = *state;
    OK(redis_case_write(c->store, "k"));
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        _exit(in_a_child(c));
    assert_int_equal(process_wait(child, 60000), 0);
    OK(redis_case_write(c->store, "l"));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(the_answer_of_a_write_is_lost),
                                       TEST(a_request_to_write_is_lost),
                                       TEST(a_read_is_done_again),
                                       TEST(idle_connections_are_cut),
                                       TEST(nobody_answers),
                                       TEST(nobody_listens),
                                       TEST(one_round_trip_each),
                                       cmocka_unit_test(scripts_are_forgotten),
                                       TEST(by_a_socket_of_the_host),
                                       TEST(by_tls),
                                       TEST(by_tls_with_a_certificate),
                                       TEST(much_by_tls),
                                       TEST(passwords),
                                       TEST(a_user_with_few_rights),
                                       TEST(a_child_may_not_use_it),
                                       cmocka_unit_test(the_server_is_killed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
