/* See http_kit.h. */
#include "http_kit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>

/* --- the server ------------------------------------------------------------------------------- */

struct http_gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void set_gate(int is_open)
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

void wait_for_gate(int waiting)
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

http_server_options usual(const char *listen)
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

http_server *open_server(const http_server_options *options)
{
    http_server *server = NULL;
    semel_error why = {0};
    semel_status status = http_server_open(&server, options, &why);
    if (status)
        print_error("%s\n", why.text);
    assert_int_equal(status, SEMEL_OK);
    set_gate(1);
    return server;
}

http_server *open_usual(void)
{
    http_server_options options = usual("127.0.0.1:0");
    return open_server(&options);
}

/* --- the client ------------------------------------------------------------------------------- */

int open_client(const http_server *server)
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

void send_bytes(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the server has closed it: what it answered decides */
        text += sent;
        len -= (size_t)sent;
    }
}

void send_text(int fd, const char *text)
{
    send_bytes(fd, text, strlen(text));
}

int wait_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, PATIENCE_MS) == 1;
}

/* What comes until the server closes the connection. */
char *read_to_end(int fd)
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
char *read_until(int fd, const char *end)
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

char *ask(const http_server *server, const char *text)
{
    int fd = open_client(server);
    send_text(fd, text);
    return read_to_end(fd);
}

size_t occurrences(const char *text, const char *of)
{
    size_t count = 0;
    for (; (text = strstr(text, of)); text += strlen(of))
        count++;
    return count;
}

/* A client may have its answer a moment before the server has counted it. */
void assert_pending(const http_server *server, size_t wanted)
{
    int64_t until = steady_clock_ns() + (int64_t)PATIENCE_MS * NS_PER_MS;
    while (http_server_pending(server) != wanted)
        assert_true(steady_clock_ns() < until);
}

/* Still works for others. */
void assert_works(const http_server *server)
{
    char *answer = ask(server, "GET /works HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(answer, "200 OK"));
    free(answer);
}
