/* Requests to the HTTP server by raw sockets: what a well-behaved client gets, and what becomes of
 * requests that are malformed, ambiguous or too large. */
#include "http_kit.h"

/* --- requests --------------------------------------------------------------------------------- */

typedef struct exchange {
    const char *sent;
    const char *answered; /* its first line begins so; "": nothing */
    const char *has;      /* NULL: whatever */
    int answers; /* how many; 0: one; -1: libmicrohttpd itself refuses, and repeats its headers */
} exchange;

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
static const char ambiguous[] = "urn:semel:problem:ambiguous-length";
static const char header[] = "urn:semel:problem:bad-header";
static const char target[] = "urn:semel:problem:bad-target";
static const char host[] = "urn:semel:problem:bad-host";
static const exchange malformed[] = {
    {"POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "HTTP/1.1 400", ambiguous, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
     "HTTP/1.1 400", ambiguous, 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "HTTP/1.1 400",
     ambiguous, 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", "HTTP/1.1 400",
     ambiguous, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     "HTTP/1.1 400", ambiguous, 0},
    {"POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400",
     ambiguous, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 501", NULL, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", "HTTP/1.1 501", NULL, 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n", "HTTP/1.1 400", NULL, -1},
    {"POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\na", "HTTP/1.1 400", NULL, -1},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1,1\r\n\r\na", "HTTP/1.1 400", NULL, -1},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\na", "HTTP/1.1 400", NULL, -1},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\na", "HTTP/1.1 413", NULL,
     -1},
    {"POST / HTTP/1.1\r\n" H "Content-Length : 4\r\n\r\nabcd", "HTTP/1.1 400", NULL, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400", NULL,
     0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
     "HTTP/1.1 400", NULL, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n",
     "HTTP/1.1 400", NULL, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
     "ffffffffffffffffff\r\nab\r\n0\r\n\r\n",
     "HTTP/1.1 4", NULL, 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n", "HTTP/1.1 400",
     NULL, 0},
    {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400", host, 0},
    {"GET / HTTP/1.1\r\n" H "Host: b\r\n\r\n", "HTTP/1.1 400", host, 0},
    {"GET http://b/ HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 400", host, 0},
    {"GET / HTTP/1.1\r\n" H "X: a\rTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400", header, 0},
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
    {"POST /small HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
     "HTTP/1.1 413", "urn:semel:problem:too-large", 0},
    {"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n",
     "HTTP/1.1 413", "urn:semel:problem:too-large", 0},
};

static void malformed_requests_are_refused(void **state)
{
    (void)state;
    http_server *server = open_usual();
    assert_exchanges(server, malformed, sizeof malformed / sizeof *malformed);
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
        send_bytes(fd, body, LEN);
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
    send_bytes(first, body, BODY_MAX);
    wait_for_gate(1);
    char *answer = ask(server, "POST / HTTP/1.1\r\n" H C "Content-Length: 65536\r\n\r\n");
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    assert_non_null(strstr(answer, "urn:semel:problem:memory"));
    assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
    free(answer);
    send_text(second, "POST / HTTP/1.1\r\n" H C "Transfer-Encoding: chunked\r\n\r\n10000\r\n");
    send_bytes(second, body, BODY_MAX);
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
    send_bytes(second, body, BODY_MAX);
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
    };
    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
