/* The life of an HTTP server and of its connections: slow clients, clients that go away, answers
 * that come later, closing, addresses, many clients at once. */
#include "http_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>

/* --- slow clients ----------------------------------------------------------------------------- */

/* Sends a byte now and then, and never all. The server must not wait forever. */
static void assert_given_up(const http_server *server, const char *begin, const char *drop)
{
    int fd = open_client(server);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int64_t until = steady_clock_ns() + (int64_t)PATIENCE_MS * NS_PER_MS;
    send_text(fd, begin);
    while (poll(&one, 1, 20) == 0) {
        assert_true(steady_clock_ns() < until);
        if (*drop)
            (void)send(fd, drop, strlen(drop), MSG_NOSIGNAL);
    }
    char *rest = read_to_end(fd);
    assert_string_equal(rest, "");
    free(rest);
}

static void slow_clients_are_given_up(void **state)
{
    http_server_options options = usual("127.0.0.1:0");
    (void)state;
    options.request_ms = 300;
    options.idle_ms = 300;
    http_server *server = open_server(&options);
    assert_given_up(server, "", "");
    assert_given_up(server, "GET /", "a");
    assert_given_up(server, "GET / HTTP/1.1\r\n" H "X: ", "a");
    assert_given_up(server, "GET / HTTP/1.1\r\n" H, "X: a\r\n");
    assert_given_up(server, "POST / HTTP/1.1\r\n" H "Content-Length: 60000\r\n\r\n", "a");
    assert_given_up(server, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n",
                    "1\r\na\r\n");
    int fd = open_client(server);
    send_text(fd, "GET /kept HTTP/1.1\r\n" H "\r\n");
    free(read_until(fd, "|/kept|127.0.0.1|"));
    char *rest = read_to_end(fd); /* idle, then closed */
    assert_string_equal(rest, "");
    free(rest);
    http_server_close(server);
}

/* A handler may take as long as it likes. */
static void a_handler_has_no_deadline(void **state)
{
    http_server_options options = usual("127.0.0.1:0");
    (void)state;
    options.request_ms = 50;
    options.idle_ms = 50;
    http_server *server = open_server(&options);
    set_gate(0);
    int fd = open_client(server);
    send_text(fd, "GET /held HTTP/1.1\r\n" H C "\r\n");
    wait_for_gate(1);
    assert_pending(server, 1);
    for (int i = 0; i < 4; i++) { /* the keeper looks at its connections many times meanwhile */
        int other = open_client(server);
        free(read_to_end(other));
    }
    set_gate(1);
    char *answer = read_to_end(fd);
    assert_non_null(strstr(answer, "|/held|"));
    free(answer);
    http_server_close(server);
}

/* Of a client that does not read its answer neither. */
static void slow_readers_are_given_up(void **state)
{
    enum { MANY = 2000 };
    http_server_options options = usual("127.0.0.1:0");
    (void)state;
    options.request_ms = 300;
    options.idle_ms = 300;
    options.body_bytes = 8 << 20;
    options.memory_bytes = 64 << 20;
    http_server *server = open_server(&options);
    const int small = 4096;
    char *body = must_alloc(MANY * 1000);
    int fd = open_client(server);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    send_text(fd, "POST /large HTTP/1.1\r\n" H "Content-Length: 2000000\r\n\r\n");
    send_bytes(fd, body, MANY * 1000);
    http_server_close(server); /* waits for a while, and then not any longer */
    (void)close(fd);
    free(body);
}

/* --- the life of a server --------------------------------------------------------------------- */

static void clients_may_go_away(void **state)
{
    enum { CLIENTS = 8 };
    (void)state;
    http_server *server = open_usual();
    set_gate(0);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = open_client(server);
        const struct linger reset = {.l_onoff = 1};
        send_text(fd, i % 2 ? "GET /held HTTP/1.1\r\n" H "\r\n"
                            : "POST / HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\nabc");
        if (i == 1)
            wait_for_gate(1);
        if (i % 4 < 2)
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)close(fd);
    }
    set_gate(1);
    assert_works(server);
    http_server_close(server);
}

static void answers_come_later_and_from_anywhere(void **state)
{
    (void)state;
    http_server *server = open_usual();
    set_gate(0);
    int fd = open_client(server);
    send_text(fd, "GET /later HTTP/1.1\r\n" H C "\r\n");
    wait_for_gate(1);
    assert_works(server); /* twice as often as there are workers */
    assert_works(server);
    assert_works(server);
    assert_works(server);
    assert_pending(server, 1);
    set_gate(1);
    char *answer = read_to_end(fd);
    assert_non_null(strstr(answer, "|/later|"));
    free(answer);
    assert_int_equal(pthread_join(gate.late, NULL), 0);
    http_server_close(server);
}

static void *open_gate_when_drained(void *context)
{
    int fd = *(int *)context;
    char *answer = read_until(fd, "\r\n\r\n"); /* 503: so the server drains */
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    free(answer);
    set_gate(1);
    return NULL;
}

/* A request in hand is answered while the server closes; new ones are refused. */
static void closing_waits_for_requests(void **state)
{
    pthread_t opener;
    (void)state;
    http_server *server = open_usual();
    int kept = open_client(server), held = open_client(server), later = open_client(server);
    send_text(kept, "GET /kept HTTP/1.1\r\n" H "\r\n");
    free(read_until(kept, "|/kept|127.0.0.1|"));
    set_gate(0);
    send_text(held, "GET /held HTTP/1.1\r\n" H "\r\n");
    send_text(later, "GET /later HTTP/1.1\r\n" H "\r\n");
    wait_for_gate(2);
    http_server_drain(server);
    send_text(kept, "GET /again HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(pthread_create(&opener, NULL, open_gate_when_drained, &kept), 0);
    http_server_close(server);
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_int_equal(pthread_join(gate.late, NULL), 0);
    char *answer = read_to_end(held);
    assert_non_null(strstr(answer, "|/held|"));
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    free(answer);
    answer = read_to_end(later);
    assert_non_null(strstr(answer, "|/later|"));
    free(answer);
    (void)close(kept);
}

/* Nothing of it is left to programs that are started meanwhile. */
static void descriptors_are_not_inherited(void **state)
{
    (void)state;
    http_server *server = open_usual();
    int fd = open_client(server);
    send_text(fd, "GET /1 HTTP/1.1\r\n" H "\r\n");
    free(read_until(fd, "|/1|127.0.0.1|"));
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    int sockets = 0;
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[300], to[64] = "";
        (void)snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, to, sizeof to - 1) <= 0)
            continue;
        if (!strstr(to, "socket:") && !strstr(to, "eventpoll") && !strstr(to, "eventfd"))
            continue;
        int flags = fcntl((int)strtol(entry->d_name, NULL, 10), F_GETFD);
        int is_inherited_here = strtol(entry->d_name, NULL, 10) <= STDERR_FILENO;
        assert_true(is_inherited_here || (flags & FD_CLOEXEC));
        sockets++;
    }
    (void)closedir(all);
    assert_true(sockets >= 5); /* listening, accepted, the client's, two or more for waking */
    (void)close(fd);
    http_server_close(server);
}

/* --- addresses -------------------------------------------------------------------------------- */

static void addresses(void **state)
{
    static const struct {
        const char *listen, *begins, *says;
        semel_status status;
    } all[] = {
        {"127.0.0.1:0", "127.0.0.1:", NULL, SEMEL_OK},
        {"localhost:0", "127.0.0.1:", NULL, SEMEL_OK},
        {"[::1]:0", "[::1]:", NULL, SEMEL_OK},
        {"127.0.0.1", NULL, "127.0.0.1 is no address to listen on", SEMEL_EINVAL},
        {":80", NULL, "is no address to listen on", SEMEL_EINVAL},
        {"::1:80", NULL, "is no address to listen on", SEMEL_EINVAL},
        {"127.0.0.1:65536", NULL, "is no address to listen on", SEMEL_EINVAL},
        {"127.0.0.1:8a", NULL, "is no address to listen on", SEMEL_EINVAL},
        {"192.0.2.1:0", NULL, "192.0.2.1:0 is no address of this host", SEMEL_EINVAL},
        {"unix:", NULL, "has 1 to 107 bytes", SEMEL_EINVAL},
        {"unix:/nowhere/at/all.sock", NULL, "No such file or directory", SEMEL_EINVAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        http_server *server = NULL;
        semel_error why = {0};
        http_server_options options = usual(all[i].listen);
        assert_int_equal(http_server_open(&server, &options, &why), all[i].status);
        if (server)
            assert_memory_equal(http_server_address(server), all[i].begins, strlen(all[i].begins));
        else if (!strstr(why.text, all[i].says))
            fail_msg("%s: %s", all[i].listen, why.text);
        http_server_close(server);
    }
}

static void an_address_in_use_is_refused(void **state)
{
    (void)state;
    http_server *server = open_usual(), *second = NULL;
    semel_error why = {0};
    http_server_options options = usual(http_server_address(server));
    assert_int_equal(http_server_open(&second, &options, &why), SEMEL_EUNAVAILABLE);
    assert_non_null(strstr(why.text, "is in use by another process"));
    assert_true(why.retryable);
    http_server_close(server);
}

static char *ask_unix(const char *path, const char *text)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    send_text(fd, text);
    return read_to_end(fd);
}

/* What a process leaves that was killed: bound, and nobody listens. */
static void leave_stale(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    (void)close(fd);
}

static void unix_sockets(void **state)
{
    char directory[] = "/tmp/semel-http-XXXXXX", path[64], listen[80];
    http_server *server = NULL, *second = NULL;
    semel_error why = {0};
    struct stat is;
    (void)state;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/s.sock", directory);
    (void)snprintf(listen, sizeof listen, "unix:%s", path);
    http_server_options options = usual(listen);
    leave_stale(path);
    server = open_server(&options);
    assert_string_equal(http_server_address(server), listen);
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0600);
    char *answer = ask_unix(path, "GET /u HTTP/1.1\r\n" H C "\r\n");
    assert_non_null(strstr(answer, "GET|/u|-|-|0|/u|unix|"));
    free(answer);
    assert_int_equal(http_server_open(&second, &options, &why), SEMEL_EUNAVAILABLE);
    assert_int_equal(stat(path, &is), 0); /* and the first one keeps it */
    http_server_close(server);
    assert_int_not_equal(stat(path, &is), 0);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600); /* a file is not removed */
    (void)close(fd);
    assert_int_equal(http_server_open(&second, &options, &why), SEMEL_EUNAVAILABLE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* --- many at once ----------------------------------------------------------------------------- */

static void *ask_often(void *context)
{
    const http_server *server = context;
    for (int i = 0; i < 50; i++) {
        int fd = open_client(server);
        for (int j = 0; j < 4; j++) {
            send_text(fd, "POST /often HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nbody");
            free(read_until(fd, "|127.0.0.1|body"));
        }
        (void)close(fd);
    }
    return NULL;
}

static void many_clients_at_once(void **state)
{
    enum { CLIENTS = 8 };
    pthread_t clients[CLIENTS];
    (void)state;
    http_server *server = open_usual();
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, ask_often, server), 0);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    http_server_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_clients_are_given_up),
        cmocka_unit_test(a_handler_has_no_deadline),
        cmocka_unit_test(slow_readers_are_given_up),
        cmocka_unit_test(clients_may_go_away),
        cmocka_unit_test(answers_come_later_and_from_anywhere),
        cmocka_unit_test(closing_waits_for_requests),
        cmocka_unit_test(descriptors_are_not_inherited),
        cmocka_unit_test(addresses),
        cmocka_unit_test(an_address_in_use_is_refused),
        cmocka_unit_test(unix_sockets),
        cmocka_unit_test(many_clients_at_once),
    };
    return cmocka_run_group_tests_name("http_life", tests, NULL, NULL);
}
