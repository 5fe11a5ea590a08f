/* The HTTP server, spoken to by raw sockets: what a well-behaved client gets, and what becomes of
 * clients that are malformed, ambiguous, greedy, slow or gone. */
#include "program/http/server.h"
#include "program/support/show.h"
#include "support/base/check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BODY_MAX = 64 << 10,
    HEADER_MAX = 4096,
    PATIENCE_MS = 20000,
    PATIENT_MS = 60000, /* longer than any test waits */
    NS_PER_MS = 1000000
};

/* --- the server ------------------------------------------------------------------------------- */

/* What a handler was told to wait for. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_open;
    int waiting; /* handlers at the gate */
    pthread_t late;
    int has_late;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set_gate(int is_open)
{
    pthread_mutex_lock(&gate.lock);
    gate.is_open = is_open;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void pass_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.waiting++;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.is_open)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.waiting--;
    pthread_mutex_unlock(&gate.lock);
}

static void wait_for_gate(int waiting)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.waiting < waiting)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

/* Everything that a handler can learn, as text. */
static void echo(http_request *request)
{
    buffer text = {0};
    semel_bytes body = http_request_body(request);
    const char *wait = http_request_query(request, "q");
    const char *header = http_request_header(request, "x-test");
    buffer_printf(&text, "%s|%s|%s|%s|%zu|%s|%s|", http_request_method(request),
                  http_request_path(request), wait ? wait : "-", header ? header : "-",
                  http_request_header_count(request, "X-TEST"), http_request_target(request),
                  http_request_peer(request));
    buffer_add(&text, body.data, body.len);
    const http_header headers[] = {
        {"Content-Type", "text/plain"}, {"X-Odd", "a\r\nb\tc"}, {"Content-Length", "3"}, {0}};
    http_respond(request, &(http_response){200, headers, text.data, text.len, 0});
    buffer_free(&text);
}

static void *answer_later(void *request)
{
    pass_gate();
    echo(request);
    return NULL;
}

static void handle(http_request *request, void *context)
{
    const char *path = http_request_path(request);
    assert_ptr_equal(http_request_context(request), context);
    if (strcmp(path, "/held") == 0)
        pass_gate();
    if (strcmp(path, "/later") == 0) {
        gate.has_late = 1;
        assert_int_equal(pthread_create(&gate.late, NULL, answer_later, request), 0);
    } else if (strcmp(path, "/problem") == 0) {
        http_respond_problem(request,
                             &(http_problem){409, "in-flight", "In \"flight\"", "wait", 7});
    } else if (strcmp(path, "/empty") == 0) {
        http_respond(request, &(http_response){204, NULL, NULL, 0, 0});
    } else if (strcmp(path, "/static") == 0) {
        http_respond(request, &(http_response){200, NULL, "static\n", 7, 1});
    } else if (strcmp(path, "/head") == 0) {
        const http_header length[] = {{"Content-Length", "1234"}, {0}};
        http_respond(request, &(http_response){200, length, NULL, 0, 0});
    } else if (strcmp(path, "/status") == 0) {
        http_respond(request, &(http_response){77, NULL, NULL, 0, 0});
    } else {
        echo(request);
    }
}

static uint64_t limit_of(const http_request *request, void *context)
{
    (void)context;
    return strcmp(http_request_path(request), "/small") == 0 ? 10 : 0;
}

static http_server_options usual(const char *listen)
{
    return (http_server_options){.listen = listen,
                                 .workers = 2,
                                 .connections = 64,
                                 .body_bytes = BODY_MAX,
                                 .header_bytes = HEADER_MAX,
                                 .memory_bytes = 1 << 20,
                                 .request_ms = PATIENT_MS,
                                 .idle_ms = PATIENT_MS,
                                 .handle = handle,
                                 .body_limit = limit_of,
                                 .context = &gate};
}

static http_server *open_server(const http_server_options *options)
{
    http_server *server = NULL;
    semel_error why = {0};
    semel_status status = http_server_open(&server, options, &why);
    if (status)
        print_error("%s\n", why.text);
    assert_int_equal(status, SEMEL_OK);
    set_gate(1);
    gate.has_late = 0;
    return server;
}

static http_server *open_usual(void)
{
    http_server_options options = usual("127.0.0.1:0");
    return open_server(&options);
}

/* --- the client ------------------------------------------------------------------------------- */

static int open_client(const http_server *server)
{
    const char *address = http_server_address(server), *colon = strrchr(address, ':');
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void send_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the server has closed it: what it answered decides */
        text += sent;
        len -= (size_t)sent;
    }
}

static void send_text(int fd, const char *text)
{
    send_all(fd, text, strlen(text));
}

static int wait_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, PATIENCE_MS) == 1;
}

/* What comes until the server closes the connection. */
static char *read_to_end(int fd)
{
    buffer text = {0};
    char piece[4096];
    buffer_text(&text, "");
    for (;;) {
        assert_true(wait_readable(fd));
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            break;
        buffer_add(&text, piece, (size_t)got);
    }
    (void)close(fd);
    return text.data ? text.data : must_copy("");
}

/* What comes until `end` was read. */
static char *read_until(int fd, const char *end)
{
    buffer text = {0};
    char piece[4096];
    while (!text.data || !strstr(text.data, end)) {
        assert_true(wait_readable(fd));
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        assert_true(got > 0);
        buffer_add(&text, piece, (size_t)got);
    }
    return text.data;
}

static char *ask(const http_server *server, const char *text)
{
    int fd = open_client(server);
    send_text(fd, text);
    return read_to_end(fd);
}

static size_t occurrences(const char *text, const char *of)
{
    size_t count = 0;
    for (; (text = strstr(text, of)); text += strlen(of))
        count++;
    return count;
}

/* Still works for others. */
static void assert_works(const http_server *server)
{
    char *answer = ask(server, "GET /works HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, "200 OK"));
    free(answer);
}

/* --- requests --------------------------------------------------------------------------------- */

typedef struct exchange {
    const char *sent;
    const char *answered; /* its first line begins so; "": nothing */
    const char *has;      /* NULL: whatever */
    int answers; /* how many; 0: one; -1: libmicrohttpd itself refuses, and repeats its headers */
} exchange;

#define H "Host: a\r\n"
#define C "Connection: close\r\n"

static void assert_exchanges(const http_server *server, const exchange *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *answer = ask(server, all[i].sent);
        size_t answers = occurrences(answer, "\r\nDate: "); /* 100 Continue has none */
        int is_right =
            strncmp(answer, all[i].answered, strlen(all[i].answered)) == 0 &&
            (!all[i].has || strstr(answer, all[i].has)) &&
            (all[i].answers < 0 || answers == (size_t)(all[i].answers ? all[i].answers : 1));
        if (!is_right)
            print_error("sent:\n%s\ngot:\n%s\nexpected: %s %s\n", all[i].sent, answer,
                        all[i].answered, all[i].has ? all[i].has : "");
        assert_true(is_right);
        free(answer);
    }
}

static void well_behaved_requests(void **state)
{
    static const exchange all[] = {
        {"GET /a%20b/%C3%A9?q=1%2B1&x HTTP/1.1\r\n" H C "X-Test: t\r\n\r\n", "HTTP/1.1 200",
         "GET|/a b/\xC3\xA9|1+1|t|1|/a%20b/%C3%A9?q=1%2B1&x|127.0.0.1|", 0},
        {"GET /?q=a+b HTTP/1.1\r\n" H C "x-test: 1\r\nX-Test: 2\r\n\r\n", "HTTP/1.1 200",
         "|a b|1|2|", 0},
        {"POST /p HTTP/1.1\r\n" H C "Content-Length: 5\r\n\r\nhello", "HTTP/1.1 200",
         "|127.0.0.1|hello", 0},
        {"POST /p HTTP/1.1\r\n" H C "Transfer-Encoding: chunked\r\n\r\n"
         "3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: t\r\n\r\n",
         "HTTP/1.1 200", "|127.0.0.1|hello", 0},
        {"PUT /p HTTP/1.1\r\n" H C "Content-Length: 0\r\n\r\n", "HTTP/1.1 200", "PUT|/p|", 0},
        {"BREW /tea HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 200", "BREW|/tea|", 0},
        {"GET http://a/abs?q=1 HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 200", "GET|/abs|1|", 0},
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200", "GET|/|", 0},
        {"GET /1 HTTP/1.1\r\n" H "\r\nPOST /2 HTTP/1.1\r\n" H
         "Content-Length: 2\r\n\r\nokGET /3 HTTP/1.1\r\n" H C "\r\n",
         "HTTP/1.1 200", "POST|/2|-|-|0|/2|127.0.0.1|ok", 3},
        {"GET /problem HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 409",
         "{\"type\":\"urn:semel:problem:in-flight\",\"title\":\"In \\\"flight\\\"\",\"status\":409,"
         "\"detail\":\"wait\"}",
         0},
        {"GET /problem HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 409", "Retry-After: 7\r\n", 0},
        {"GET /problem HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 409",
         "Content-Type: application/problem+json\r\n", 0},
        {"GET /empty HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 204", NULL, 0},
        {"GET /static HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 200", "\r\n\r\nstatic\n", 0},
        {"GET /status HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 500", NULL, 0},
        {"HEAD /head HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 200", "Content-Length: 1234\r\n", 0},
        {"GET / HTTP/1.1\r\n" H C "\r\n", "HTTP/1.1 200", "X-Odd: a  b c\r\n", 0},
        {"POST / HTTP/1.1\r\n" H C "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200", "|ok", 0},
    };
    (void)state;
    http_server *server = open_usual();
    assert_exchanges(server, all, sizeof all / sizeof *all);
    char *answer = ask(server, "HEAD /x HTTP/1.1\r\n" H C "\r\n");
    assert_non_null(strstr(answer, "\r\nContent-Length: 27\r\n")); /* HEAD|/x|-|-|0|/x|127.0.0.1| */
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    free(answer);
    http_server_close(server);
}

/* Lengths that two readers could understand differently, above all. */
static void malformed_requests_are_refused(void **state)
{
    static const char ambiguous[] = "urn:semel:problem:ambiguous-length";
    static const char header[] = "urn:semel:problem:bad-header";
    static const char target[] = "urn:semel:problem:bad-target";
    static const char host[] = "urn:semel:problem:bad-host";
    static const exchange all[] = {
        {"POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "HTTP/1.1 400", ambiguous, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
         "HTTP/1.1 400", ambiguous, 0},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
         "HTTP/1.1 400", ambiguous, 0},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
         "HTTP/1.1 400", ambiguous, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         "HTTP/1.1 400", ambiguous, 0},
        {"POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400",
         ambiguous, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 501", NULL,
         0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", "HTTP/1.1 501", NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n", "HTTP/1.1 400", NULL, -1},
        {"POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\na", "HTTP/1.1 400", NULL, -1},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 1,1\r\n\r\na", "HTTP/1.1 400", NULL, -1},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\na", "HTTP/1.1 400", NULL, -1},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\na", "HTTP/1.1 413",
         NULL, -1},
        {"POST / HTTP/1.1\r\n" H "Content-Length : 4\r\n\r\nabcd", "HTTP/1.1 400", NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400",
         NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
         "HTTP/1.1 400", NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n",
         "HTTP/1.1 400", NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
         "ffffffffffffffffff\r\nab\r\n0\r\n\r\n",
         "HTTP/1.1 4", NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n",
         "HTTP/1.1 400", NULL, 0},
        {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400", host, 0},
        {"GET / HTTP/1.1\r\n" H "Host: b\r\n\r\n", "HTTP/1.1 400", host, 0},
        {"GET http://b/ HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", host, 0},
        {"GET / HTTP/1.1\r\n" H "X: a\rTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400", header,
         0},
        {"GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n", "HTTP/1.1 400", header, 0},
        {"GET / HTTP/1.1\r\n" H "X y: a\r\n\r\n", "HTTP/1.1 400", NULL, 0},
        {"GET / HTTP/1.1\r\n" H "no colon\r\n\r\n", "HTTP/1.1 400", NULL, 0},
        {"GET /a%00b HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"GET /a%0d%0ab HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"GET /a%zz HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"GET /a% HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"GET /a?q=%1 HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"GET a HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"CONNECT a:80 HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", target, 0},
        {"POST / HTTP/1.1\r\n" H "Expect: wonders\r\n\r\n", "HTTP/1.1 417", NULL, 0},
        {"GET / HTTP/2.0\r\n" H "\r\n", "HTTP/1.1 505", NULL, 0},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 65537\r\n\r\n", "HTTP/1.1 413",
         "urn:semel:problem:too-large", 0},
        {"POST /small HTTP/1.1\r\n" H "Content-Length: 11\r\n\r\nhello world", "HTTP/1.1 413",
         "urn:semel:problem:too-large", 0},
        {"POST /small HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
         "HTTP/1.1 413", "urn:semel:problem:too-large", 0},
        {"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n",
         "HTTP/1.1 413", "urn:semel:problem:too-large", 0},
    };
    (void)state;
    http_server *server = open_usual();
    assert_exchanges(server, all, sizeof all / sizeof *all);
    assert_works(server);
    http_server_close(server);
}

/* What follows a refused request on its connection is not taken for a request. */
static void nothing_is_smuggled(void **state)
{
    static const char *const all[] = {
        "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\nGET /smuggled HTTP/1.1\r\n" H "\r\n",
        "POST /small HTTP/1.1\r\n" H "Content-Length: 44\r\n\r\nGET /smuggled HTTP/1.1\r\n" H
        "\r\n",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"
        "GET /smuggled HTTP/1.1\r\n" H "\r\n",
    };
    (void)state;
    http_server *server = open_usual();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *answer = ask(server, all[i]);
        assert_int_equal(occurrences(answer, "HTTP/1.1 4"), 1);
        assert_null(strstr(answer, "smuggled"));
        free(answer);
    }
    http_server_close(server);
}

/* --- limits ----------------------------------------------------------------------------------- */

static char *with_header_of(size_t len)
{
    buffer text = {0};
    buffer_text(&text, "GET / HTTP/1.1\r\n" H C "X-Test: ");
    for (size_t i = 0; i < len; i++)
        buffer_text(&text, "h");
    buffer_text(&text, "\r\n\r\n");
    return text.data;
}

static void large_headers_are_refused(void **state)
{
    static const struct {
        size_t len;
        const char *status, *has;
    } all[] = {{HEADER_MAX / 2, "HTTP/1.1 200", "hhh"},
               {HEADER_MAX + 1, "HTTP/1.1 431", "urn:semel:problem:headers-too-large"},
               {4 * HEADER_MAX, "HTTP/1.1 431", "urn:semel:problem:headers-too-large"},
               {200 * HEADER_MAX, "HTTP/1.1 431", NULL}};
    (void)state;
    http_server *server = open_usual();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *text = with_header_of(all[i].len), *answer = ask(server, text);
        if (all[i].len < 100 * HEADER_MAX || *answer)
            assert_memory_equal(answer, all[i].status, strlen(all[i].status));
        if (all[i].has)
            assert_non_null(strstr(answer, all[i].has));
        free(text);
        free(answer);
    }
    assert_works(server);
    http_server_close(server);
}

/* A client that sends all of a refused body before it reads gets the answer nevertheless. */
static void a_refusal_reaches_a_client_that_sends(void **state)
{
    enum { LEN = 4 << 20, ROUNDS = 10 };
    (void)state;
    http_server *server = open_usual();
    char *body = must_alloc(LEN);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open_client(server);
        send_text(fd, "POST / HTTP/1.1\r\n" H "Content-Length: 4194304\r\n\r\n");
        send_all(fd, body, LEN);
        char *answer = read_to_end(fd);
        assert_non_null(strstr(answer, "HTTP/1.1 413"));
        assert_non_null(strstr(answer, "urn:semel:problem:too-large"));
        free(answer);
    }
    free(body);
    http_server_close(server);
}

/* Bodies that are held count, not those that were announced. */
static void memory_is_limited(void **state)
{
    enum { HALF = BODY_MAX / 2 };
    http_server_options options = usual("127.0.0.1:0");
    (void)state;
    options.memory_bytes = BODY_MAX + HALF;
    http_server *server = open_server(&options);
    char *body = must_alloc(BODY_MAX);
    set_gate(0);
    int first = open_client(server), second = open_client(server);
    send_text(first, "POST /held HTTP/1.1\r\n" H C "Content-Length: 65536\r\n\r\n");
    send_all(first, body, BODY_MAX);
    wait_for_gate(1);
    char *answer = ask(server, "POST / HTTP/1.1\r\n" H C "Content-Length: 65536\r\n\r\n");
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    assert_non_null(strstr(answer, "urn:semel:problem:memory"));
    assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
    free(answer);
    send_text(second, "POST / HTTP/1.1\r\n" H C "Transfer-Encoding: chunked\r\n\r\n10000\r\n");
    send_all(second, body, BODY_MAX);
    send_text(second, "\r\n0\r\n\r\n");
    answer = read_to_end(second);
    assert_non_null(strstr(answer, "urn:semel:problem:memory"));
    free(answer);
    set_gate(1);
    answer = read_to_end(first);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    free(answer);
    second = open_client(server);
    send_text(second, "POST / HTTP/1.1\r\n" H C "Content-Length: 65536\r\n\r\n");
    send_all(second, body, BODY_MAX);
    answer = read_to_end(second);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    free(answer);
    free(body);
    http_server_close(server);
}

static void connections_of_a_client_are_limited(void **state)
{
    http_server_options options = usual("127.0.0.1:0");
    (void)state;
    options.connections_per_client = 2;
    http_server *server = open_server(&options);
    int first = open_client(server), second = open_client(server);
    send_text(first, "GET /1 HTTP/1.1\r\n" H "\r\n");
    free(read_until(first, "|/1|127.0.0.1|"));
    send_text(second, "GET /2 HTTP/1.1\r\n" H "\r\n");
    free(read_until(second, "|/2|127.0.0.1|"));
    char *answer = read_to_end(open_client(server));
    assert_string_equal(answer, "");
    free(answer);
    (void)close(first);
    (void)close(second);
    http_server_close(server);
}

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
    assert_int_equal(http_server_pending(server), 1);
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
    send_all(fd, body, MANY * 1000);
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
    assert_int_equal(http_server_pending(server), 1);
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
        cmocka_unit_test(well_behaved_requests),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test(nothing_is_smuggled),
        cmocka_unit_test(large_headers_are_refused),
        cmocka_unit_test(a_refusal_reaches_a_client_that_sends),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(connections_of_a_client_are_limited),
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
    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
