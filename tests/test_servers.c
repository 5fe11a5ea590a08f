/* The servers that tests use, and the proxy in front of them, without semel: what other tests take for
 * granted. All is asked of both servers. */
#include "support/check.h"
#include "support/crew.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/server.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 20000, CROWD = 16 };

/* --- a session of either server ------------------------------------------------------------------- */

typedef struct session {
    PGconn *pg;
    MYSQL *my;
} session;

static server_kind kind_of(const char *url)
{
    return url[0] == 'p' ? SERVER_POSTGRES : SERVER_MARIADB;
}

/* 0 if it cannot. Multiple statements make a pipeline, as far as there is one. */
static int session_open(session *s, const char *url)
{
    char host[SERVER_HOST_ROOM], text[256];
    unsigned port;
    *s = (session){0};
    server_address(url, host, &port);
    if (kind_of(url) == SERVER_POSTGRES) {
        (void)snprintf(text, sizeof text, "host=%s port=%u user=postgres dbname=postgres", host,
                       port);
        s->pg = PQconnectdb(text);
        return PQstatus(s->pg) == CONNECTION_OK;
    }
    s->my = mysql_init(NULL);
    return mysql_real_connect(s->my, host, "root", NULL, strrchr(url, '/') + 1, port, NULL,
                              CLIENT_MULTI_STATEMENTS) != NULL;
}

static void session_close(session *s)
{
    if (s->pg)
        PQfinish(s->pg);
    if (s->my)
        mysql_close(s->my);
    *s = (session){0};
}

static int drain_mariadb(MYSQL *my)
{
    do
        mysql_free_result(mysql_store_result(my));
    while (mysql_next_result(my) == 0);
    return mysql_errno(my) == 0;
}

/* 1 if it was answered, and without an error. */
static int session_run(session *s, const char *sql)
{
    if (s->my)
        return mysql_query(s->my, sql) == 0 && drain_mariadb(s->my);
    PGresult *result = PQexec(s->pg, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* --- one test's surroundings ---------------------------------------------------------------------- */

static const server_kind kinds[] = {SERVER_POSTGRES, SERVER_MARIADB};

/* With a table t in its own database or schema; t is that table's name with the schema, if there is one. */
typedef struct place {
    char url[SERVER_URL_ROOM];
    char through[SERVER_URL_ROOM];
    char t[128];
    proxy *between;
    session session; /* through the proxy */
} place;

static void make_table(place *p)
{
    char sql[512];
    const char *schema = strstr(p->url, "schema=");
    if (schema) {
        (void)snprintf(sql, sizeof sql, "CREATE SCHEMA %s", schema + 7);
        server_run(p->url, sql);
    }
    (void)snprintf(p->t, sizeof p->t, "%s%st", schema ? schema + 7 : "", schema ? "." : "");
    server_run(p->url, "CREATE TABLE t (a int)");
}

static int setup(void **state)
{
    server_place shared;
    place *p = calloc(1, sizeof *p);
    server_find(&shared, *(const server_kind *)*state);
    server_fresh(p->url, &shared);
    make_table(p);
    p->between = proxy_open(p->url);
    proxy_url(p->through, p->between, p->url);
    *state = p;
    return session_open(&p->session, p->through) ? 0 : -1;
}

static int teardown(void **state)
{
    place *p = *state;
    session_close(&p->session);
    proxy_close(p->between);
    server_drop(p->url);
    free(p);
    return 0;
}

static int run(place *p, const char *format)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql, format, p->t, p->t, p->t); /* %s is the table */
    return session_run(&p->session, sql);
}

static int64_t rows(const place *p)
{
    return server_number(p->url, "SELECT count(*) FROM t");
}

/* --- the shared servers --------------------------------------------------------------------------- */

static void both_servers_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        server_place at;
        server_find(&at, kinds[i]);
        assert_int_equal(server_number(at.url, "SELECT 41 + 1"), 42);
        assert_int_equal(access(at.socket, F_OK), 0);
        assert_int_equal(access(at.pid_file, F_OK), 0);
    }
}

static void a_fresh_store_is_empty_and_nobody_elses(void **state)
{
    place *p = *state;
    place other = {0};
    server_place shared;
    server_find(&shared, kind_of(p->url));
    server_fresh(other.url, &shared);
    assert_string_not_equal(p->url, other.url);
    make_table(&other); /* would fail if it were the same */
    server_run(p->url, "INSERT INTO t VALUES (1), (2)");
    assert_int_equal(rows(p), 2);
    assert_int_equal(rows(&other), 0);
    server_drop(other.url);
    server_drop(other.url); /* nothing to do */
    assert_int_equal(rows(p), 2);
}

static void join_texts(const char *text, void *context)
{
    strncat(context, text ? text : "-", 8);
}

static void each_row_is_read(void **state)
{
    place *p = *state;
    char all[64] = "";
    server_run(p->url, "INSERT INTO t VALUES (1), (2), (NULL)");
    server_each(p->url, "SELECT a FROM t ORDER BY a IS NULL, a", join_texts, all);
    assert_string_equal(all, "12-");
    assert_int_equal(server_number(p->url, "SELECT a FROM t WHERE a = 9"), 0);
}

static void dropping_ends_sessions_that_are_in_the_way(void **state)
{
    place *p = *state;
    assert_true(run(p, "BEGIN"));
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    server_drop(p->url);
    assert_false(run(p, "COMMIT"));
}

/* The columns of semel's tables that are times, and the keys. */
static void make_tables_with_times(const place *p)
{
    const char *key = kind_of(p->url) == SERVER_POSTGRES ? "key bytea" : "`key` varbinary(9)";
    const char *quoted = kind_of(p->url) == SERVER_POSTGRES ? "key" : "`key`";
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "CREATE TABLE semel_marker (inbox int, %s, at_ms bigint, lease_until_ms bigint,"
                   " PRIMARY KEY (inbox, %s))",
                   key, quoted);
    server_run(p->url, sql);
    server_run(p->url, "CREATE TABLE semel_outbox (seq int PRIMARY KEY, wake_ms bigint,"
                       " captured_ms bigint)");
    server_run(p->url, "CREATE TABLE semel_dead (dead_id int PRIMARY KEY, at_ms bigint)");
    server_run(p->url, "INSERT INTO semel_marker VALUES (1, 'a', 1000, NULL), (1, 'b', 1000, 2000),"
                       " (1, 'c', 1000, 2000)");
    server_run(p->url, "INSERT INTO semel_outbox VALUES (1, 1000, 2000), (2, 1000, 2000)");
    server_run(p->url, "INSERT INTO semel_dead VALUES (1, 1000)");
}

static void time_passes_but_not_for_rows_that_are_locked(void **state)
{
    place *p = *state;
    char lock[256];
    make_tables_with_times(p);
    (void)snprintf(lock, sizeof lock, "SELECT 1 FROM %.*ssemel_outbox WHERE seq = 2 FOR UPDATE",
                   (int)strlen(p->t) - 1, p->t);
    assert_true(run(p, "BEGIN"));
    assert_true(session_run(&p->session, lock));
    server_pass_ms(p->url, 300);
    assert_int_equal(server_number(p->url, "SELECT sum(at_ms) FROM semel_marker"), 2100);
    assert_int_equal(server_number(p->url, "SELECT sum(lease_until_ms) FROM semel_marker"), 3400);
    assert_int_equal(server_number(p->url, "SELECT sum(wake_ms) FROM semel_outbox"), 1700);
    assert_int_equal(server_number(p->url, "SELECT sum(captured_ms) FROM semel_outbox"), 3700);
    assert_int_equal(server_number(p->url, "SELECT at_ms FROM semel_dead"), 700);
    assert_true(run(p, "ROLLBACK"));
}

/* --- servers of one's own ------------------------------------------------------------------------- */

static void a_crash_keeps_what_was_committed(void **state)
{
    server_kind kind = *(const server_kind *)*state;
    server_own own;
    session open;
    server_own_start(&own, kind);
    server_run(own.at.url, "CREATE TABLE t (a int)");
    server_run(own.at.url, "INSERT INTO t VALUES (1)");
    assert_true(session_open(&open, own.at.url));
    assert_true(session_run(&open, "BEGIN"));
    assert_true(session_run(&open, "INSERT INTO t VALUES (2)"));
    server_own_crash(&own);
    assert_false(session_run(&open, "COMMIT"));
    session_close(&open);
    assert_false(session_open(&open, own.at.url));
    session_close(&open);
    server_own_restart(&own);
    assert_int_equal(server_number(own.at.url, "SELECT count(*) FROM t"), 1);
    server_own_stop(&own);
    assert_int_not_equal(access(own.at.directory, F_OK), 0);
}

static void several_stand_side_by_side(void **state)
{
    server_kind kind = *(const server_kind *)*state;
    server_own one, other;
    server_own_start(&one, kind);
    server_own_start(&other, kind);
    assert_int_not_equal(one.at.port, other.at.port);
    server_run(one.at.url, "CREATE TABLE t (a int)");
    server_run(other.at.url, "CREATE TABLE t (a int)");
    server_own_halt(&one);
    assert_int_equal(server_number(other.at.url, "SELECT count(*) FROM t"), 0);
    server_own_stop(&other);
    server_own_restart(&one);
    assert_int_equal(server_number(one.at.url, "SELECT count(*) FROM t"), 0);
    server_own_stop(&one);
}

static int start_and_die(void *own)
{
    server_own_start(own, SERVER_POSTGRES);
    return 0;
}

static void it_ends_with_the_process_that_started_it(void **state)
{
    server_own *own = process_share(sizeof *own);
    (void)state;
    assert_int_equal(process_run(start_and_die, own), PROCESS_OK);
    assert_true(own->at.port);
    for (int64_t deadline = process_now_ms() + WAIT_MS; access(own->at.directory, F_OK) == 0;) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
    scratch_close(&own->directory);
    process_unshare(own, sizeof *own);
}

/* --- the proxy ------------------------------------------------------------------------------------ */

static void it_passes_everything_and_counts(void **state)
{
    place *p = *state;
    assert_int_equal(proxy_count(p->between).connections, 1);
    proxy_forget(p->between);
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    assert_int_equal(proxy_count(p->between).round_trips, 1);
    assert_true(run(p, "INSERT INTO %s VALUES (2); INSERT INTO %s VALUES (3)"));
    proxy_counts counts = proxy_count(p->between);
    assert_int_equal(counts.round_trips, 2);
    assert_int_equal(counts.connections, 0);
    assert_int_equal(counts.open, 1);
    assert_in_range(counts.request_bytes, 60, 400);
    assert_in_range(counts.answer_bytes, 10, 400);
    assert_int_equal(rows(p), 3);
}

static void what_is_long_passes_whole(void **state)
{
    place *p = *state;
    enum { LONG = 3000000 };
    char *sql = malloc(LONG + 100);
    size_t used = (size_t)snprintf(sql, 100, "SELECT '");
    memset(sql + used, 'x', LONG);
    (void)snprintf(sql + used + LONG, 10, "'");
    proxy_forget(p->between);
    assert_true(session_run(&p->session, sql));
    free(sql);
    assert_in_range(proxy_count(p->between).request_bytes, LONG, LONG + 1000);
    assert_in_range(proxy_count(p->between).answer_bytes, LONG, LONG + 1000);
    assert_int_equal(proxy_count(p->between).round_trips, 1);
}

static void cut_connections_are_gone_and_new_ones_work(void **state)
{
    place *p = *state;
    proxy_cut(p->between);
    assert_int_equal(proxy_count(p->between).open, 0);
    assert_false(run(p, "INSERT INTO %s VALUES (1)"));
    session_close(&p->session);
    assert_true(session_open(&p->session, p->through));
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    assert_int_equal(rows(p), 1);
}

static int wait_for_signal(void *unused)
{
    (void)unused;
    return pause();
}

static void a_fork_does_not_keep_what_is_cut(void **state)
{
    place *p = *state;
    pid_t child = process_start(wait_for_signal, NULL);
    proxy_cut(p->between);
    assert_false(run(p, "INSERT INTO %s VALUES (1)"));
    proxy_refuse(p->between, 1);
    session_close(&p->session);
    assert_false(session_open(&p->session, p->through));
    kill(child, SIGKILL);
    assert_int_equal(process_wait(child, WAIT_MS), PROCESS_KILLED + SIGKILL);
}

static void new_connections_are_refused_and_old_ones_stay(void **state)
{
    place *p = *state;
    session other;
    proxy_refuse(p->between, 1);
    assert_false(session_open(&other, p->through));
    session_close(&other);
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    proxy_refuse(p->between, 0);
    assert_true(session_open(&other, p->through));
    session_close(&other);
    assert_int_equal(proxy_count(p->between).connections, 2);
}

static void insert_one(crew_member *member)
{
    place *p = member->context;
    if (!run(p, "INSERT INTO %s VALUES (1)"))
        abort();
}

static void answers_are_held_until_they_are_let_go(void **state)
{
    place *p = *state;
    crew_member client;
    proxy_hold(p->between, 1);
    crew_start(&client, insert_one, p);
    assert_true(proxy_wait_held(p->between, WAIT_MS));
    assert_int_equal(rows(p), 1);
    assert_false(crew_join(&client, 50)); /* it is there, but nobody told the client */
    proxy_hold(p->between, 0);
    assert_true(crew_join(&client, WAIT_MS));
    assert_int_equal(proxy_count(p->between).held, 0);
}

static void an_answer_is_lost_and_the_request_is_not(void **state)
{
    place *p = *state;
    proxy_lose_answer(p->between, "COMMIT");
    assert_true(run(p, "BEGIN"));
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    assert_int_equal(proxy_count(p->between).lost, 0);
    assert_false(run(p, "COMMIT"));
    assert_int_equal(proxy_count(p->between).lost, 1);
    assert_int_equal(proxy_count(p->between).open, 0);
    assert_int_equal(rows(p), 1);
    session_close(&p->session);
    assert_true(session_open(&p->session, p->through));
    proxy_lose_answer(p->between, "COMMIT");
    proxy_lose_answer(p->between, NULL);
    assert_true(run(p, "COMMIT"));
}

/* All in one piece: what is before and behind the pattern is carried out, too. */
static void an_answer_to_many_statements_is_lost(void **state)
{
    place *p = *state;
    proxy_lose_answer(p->between, "COMMIT");
    assert_false(run(p, "BEGIN; INSERT INTO %s VALUES (1); COMMIT; INSERT INTO %s VALUES (2)"));
    assert_int_equal(rows(p), 2);
}

static void a_request_is_lost(void **state)
{
    place *p = *state;
    proxy_lose_request(p->between, "COMMIT");
    assert_true(run(p, "BEGIN"));
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    assert_false(run(p, "COMMIT"));
    assert_int_equal(proxy_count(p->between).lost, 1);
    assert_int_equal(rows(p), 0); /* and nothing is locked: the session is over */
    server_run(p->url, "DROP TABLE t");
}

/* --- the proxy before a server that says nothing -------------------------------------------------- */

static int open_raw(int listens, struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int code = listens ? bind(fd, (struct sockaddr *)at, len) || listen(fd, 8) ||
                             getsockname(fd, (struct sockaddr *)at, &len)
                       : connect(fd, (struct sockaddr *)at, len);
    assert_int_equal(code, 0);
    return fd;
}

/* The proxy has read it: what is sent next is another read. */
static void send_piece(proxy *between, int fd, const char *piece)
{
    uint64_t before = proxy_count(between).request_bytes;
    assert_int_equal(send(fd, piece, strlen(piece), MSG_NOSIGNAL), strlen(piece));
    for (int64_t deadline = process_now_ms() + WAIT_MS;
         proxy_count(between).request_bytes < before + strlen(piece);) {
        assert_true(process_now_ms() < deadline);
        process_nap();
    }
}

static void a_pattern_is_found_in_pieces(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = open_raw(1, &at);
    char url[SERVER_URL_ROOM], answer;
    (void)state;
    (void)snprintf(url, sizeof url, "postgres://x@127.0.0.1:%u/x", ntohs(at.sin_port));
    proxy *between = proxy_open(url);
    at.sin_port = htons((uint16_t)proxy_port(between));
    int client = open_raw(0, &at);
    proxy_lose_request(between, "COMMIT");
    send_piece(between, client, "COM");
    send_piece(between, client, "COMM");
    send_piece(between, client, "I");
    assert_int_equal(proxy_count(between).lost, 0);
    send_piece(between, client, "T");
    assert_int_equal(proxy_count(between).lost, 1);
    close(server); /* it was to end first */
    assert_true(recv(client, &answer, 1, 0) <= 0);
    assert_int_equal(proxy_count(between).round_trips, 1);
    close(client);
    proxy_close(between);
}

/* --- the proxy before one that comes and goes ----------------------------------------------------- */

static void a_server_that_is_down_is_a_connection_that_ends(void **state)
{
    server_own own;
    session s;
    char through[SERVER_URL_ROOM];
    server_own_start(&own, *(const server_kind *)*state);
    proxy *between = proxy_open(own.at.url);
    proxy_url(through, between, own.at.url);
    server_own_crash(&own);
    assert_false(session_open(&s, through));
    session_close(&s);
    server_own_restart(&own);
    assert_true(session_open(&s, through));
    session_close(&s);
    server_own_stop(&own);
    proxy_close(between);
}

static void work_in_a_crowd(crew_member *member)
{
    const place *p = member->context;
    place mine = *p;
    for (int i = 0; i < 3; i++) {
        if (!session_open(&mine.session, mine.through) || !run(&mine, "INSERT INTO %s VALUES (1)"))
            abort();
        session_close(&mine.session);
    }
}

static void a_crowd_passes(void **state)
{
    place *p = *state;
    assert_true(crew_run(CROWD, work_in_a_crowd, p));
    assert_int_equal(rows(p), 3 * CROWD);
    assert_int_equal(proxy_count(p->between).connections, 3 * CROWD + 1);
}

/* --- all ------------------------------------------------------------------------------------------ */

#define AT(kind, function)                                                                    \
    {                                                                                         \
#function ", " #kind, function, setup, teardown, (void *)(uintptr_t)&kinds[AT_##kind] \
    }
#define ON(kind, function)                                                               \
    {                                                                                    \
#function ", " #kind, function, NULL, NULL, (void *)(uintptr_t)&kinds[AT_##kind] \
    }
enum { AT_postgres, AT_mariadb };
#define AT_BOTH(function) AT(postgres, function), AT(mariadb, function)
#define ON_BOTH(function) ON(postgres, function), ON(mariadb, function)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_servers_answer),
        AT_BOTH(a_fresh_store_is_empty_and_nobody_elses),
        AT_BOTH(each_row_is_read),
        AT_BOTH(dropping_ends_sessions_that_are_in_the_way),
        AT_BOTH(time_passes_but_not_for_rows_that_are_locked),
        ON_BOTH(a_crash_keeps_what_was_committed),
        ON_BOTH(several_stand_side_by_side),
        cmocka_unit_test(it_ends_with_the_process_that_started_it),
        AT_BOTH(it_passes_everything_and_counts),
        AT_BOTH(what_is_long_passes_whole),
        AT_BOTH(cut_connections_are_gone_and_new_ones_work),
        AT_BOTH(a_fork_does_not_keep_what_is_cut),
        AT_BOTH(new_connections_are_refused_and_old_ones_stay),
        AT_BOTH(answers_are_held_until_they_are_let_go),
        AT_BOTH(an_answer_is_lost_and_the_request_is_not),
        AT_BOTH(an_answer_to_many_statements_is_lost),
        AT_BOTH(a_request_is_lost),
        cmocka_unit_test(a_pattern_is_found_in_pieces),
        ON_BOTH(a_server_that_is_down_is_a_connection_that_ends),
        AT_BOTH(a_crowd_passes),
    };
    return cmocka_run_group_tests_name("servers", tests, NULL, NULL);
}
