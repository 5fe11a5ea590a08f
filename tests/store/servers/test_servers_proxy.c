/* The proxy that stands between a client and a server, without semel: what it passes, loses and
 * counts. */
#include "support/process/process.h"
#include "support/process/threads.h"
#include "support/servers/sql/server_session.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 16 };

/* --- passing and counting --------------------------------------------------------------------- */

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

static void insert_one(test_thread *member)
{
    place *p = member->context;
    if (!run(p, "INSERT INTO %s VALUES (1)"))
        abort();
}

static void answers_are_held_until_they_are_let_go(void **state)
{
    place *p = *state;
    test_thread client;
    proxy_hold(p->between, 1);
    test_thread_start(&client, insert_one, p);
    assert_true(proxy_wait_held(p->between, WAIT_MS));
    assert_int_equal(rows(p), 1);
    assert_false(test_thread_join(&client, 50)); /* it is there, but the client does not know */
    proxy_hold(p->between, 0);
    assert_true(test_thread_join(&client, WAIT_MS));
    assert_int_equal(proxy_count(p->between).held, 0);
}

static void each_answer_is_late(void **state)
{
    enum { LATE_MS = 20, TIMES = 5 };
    place *p = *state;
    proxy_delay(p->between, LATE_MS);
    int64_t began = process_now_ms();
    for (int i = 0; i < TIMES; i++)
        assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    assert_true(process_now_ms() - began >= TIMES * LATE_MS);
    proxy_delay(p->between, 0);
    assert_true(run(p, "INSERT INTO %s VALUES (1)"));
    assert_int_equal(rows(p), TIMES + 1);
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

/* All in one piece: what is before and behind the pattern is carried out, too, and the client does
 * not see the end before that, however slow the server is. */
static void an_answer_to_many_statements_is_lost(void **state)
{
    place *p = *state;
    int is_postgres = server_kind_of(p->url) == SERVER_POSTGRES;
    proxy_lose_answer(p->between, "COMMIT");
    assert_false(run(p, is_postgres
                            ? "BEGIN; INSERT INTO %s VALUES (1); COMMIT; SELECT pg_sleep(0.2);"
                              " INSERT INTO %s VALUES (2)"
                            : "BEGIN; INSERT INTO %s VALUES (1); COMMIT; SELECT sleep(0.2);"
                              " INSERT INTO %s VALUES (2)"));
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

/* --- the proxy before a server that says nothing ---------------------------------------------- */

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

/* --- the proxy before one that comes and goes ------------------------------------------------- */

static void a_server_that_is_down_is_a_connection_that_ends(void **state)
{
    server_own own;
    session s;
    char through[SERVER_URL_ROOM];
    server_own_start(&own, kind_of_state(state));
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

static void work_beside_others(test_thread *member)
{
    const place *p = member->context;
    place mine = *p;
    for (int i = 0; i < 3; i++) {
        if (!session_open(&mine.session, mine.through) || !run(&mine, "INSERT INTO %s VALUES (1)"))
            abort();
        session_close(&mine.session);
    }
}

static void many_clients_pass(void **state)
{
    place *p = *state;
    assert_true(threads_run(CLIENTS, work_beside_others, p));
    assert_int_equal(rows(p), 3 * CLIENTS);
    assert_int_equal(proxy_count(p->between).connections, 3 * CLIENTS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(it_passes_everything_and_counts),
        IN_PLACE(what_is_long_passes_whole),
        IN_PLACE(cut_connections_are_gone_and_new_ones_work),
        IN_PLACE(a_fork_does_not_keep_what_is_cut),
        IN_PLACE(new_connections_are_refused_and_old_ones_stay),
        IN_PLACE(answers_are_held_until_they_are_let_go),
        IN_PLACE(each_answer_is_late),
        IN_PLACE(an_answer_is_lost_and_the_request_is_not),
        IN_PLACE(an_answer_to_many_statements_is_lost),
        IN_PLACE(a_request_is_lost),
        cmocka_unit_test(a_pattern_is_found_in_pieces),
        ON_EACH(a_server_that_is_down_is_a_connection_that_ends, NULL, NULL),
        IN_PLACE(many_clients_pass),
    };
    return cmocka_run_group_tests_name("servers_proxy", tests, NULL, NULL);
}
