/* A server that answers each request with 204, with a thread for each connection, which it keeps;
 * and the bare loop: a handle of libcurl for each thread, which keeps its connection, too. */
#include "run.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_MAX = 8192 };

static atomic_size_t answered;
static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";

/* --- the server ------------------------------------------------------------------------------- */

/* The bytes of the first request, or 0 if its headers are not there as a whole. */
static size_t request_size(const char *text)
{
    static const char length[] = "\r\nContent-Length: ";
    const char *end = strstr(text, "\r\n\r\n"), *body = strstr(text, length);
    if (!end)
        return 0;
    size_t size = (size_t)(end + 4 - text);
    if (body && body < end)
        size += strtoul(body + sizeof length - 1, NULL, 10);
    return size;
}

/* The rest of a body, however long it is. 0 if the connection ends before. */
static int skip(int fd, size_t left)
{
    char some[REQUEST_MAX];
    while (left) {
        ssize_t got = read(fd, some, left < sizeof some ? left : sizeof some);
        if (got <= 0)
            return 0;
        left -= (size_t)got;
    }
    return 1;
}

static void *serve(void *context)
{
    int fd = (int)(intptr_t)context;
    char text[REQUEST_MAX + 1];
    size_t len = 0;
    for (ssize_t got; (got = read(fd, text + len, REQUEST_MAX - len)) > 0;) {
        text[len += (size_t)got] = 0;
        size_t size = request_size(text);
        if (!size)
            continue;
        if (size > len && !skip(fd, size - len))
            break;
        len = 0; /* a client that waits for the answer has sent nothing more */
        atomic_fetch_add(&answered, 1);
        if (write(fd, answer, sizeof answer - 1) < 0)
            break;
    }
    close(fd);
    return NULL;
}

static void start_thread(void *(*run)(void *), int fd)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, (void *)(intptr_t)fd) != 0 || pthread_detach(thread))
        die("a thread cannot be started");
}

static void *accept_all(void *context)
{
    int listening = (int)(intptr_t)context;
    for (int fd; (fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        start_thread(serve, fd);
    return NULL;
}

/* --- the bare loop ---------------------------------------------------------------------------- */

static void *make_handle(const char *url)
{
    CURL *handle = curl_easy_init();
    if (!handle || curl_easy_setopt(handle, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(handle, CURLOPT_POST, 1L) != CURLE_OK ||
        curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L) != CURLE_OK)
        die("libcurl cannot be used");
    return handle;
}

static void post(void *context, size_t worker, const semel_message *const messages[], size_t count)
{
    CURL *handle = ((http_sink *)context)->handles[worker];
    for (size_t i = 0; i < count; i++) {
        long size = (long)messages[i]->body.len;
        curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, size);
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS, (const char *)messages[i]->body.data);
        CURLcode code = curl_easy_perform(handle);
        if (code != CURLE_OK)
            die("libcurl: %s", curl_easy_strerror(code));
    }
}

run_figure http_sink_turn(void *context, const message_set *set)
{
    size_t before = atomic_load(&answered);
    double start = now_s();
    threads_run(RUN_PROCESSES, 10, set, post, context);
    double rate = (double)set->count / (now_s() - start);
    if (atomic_load(&answered) - before != set->count)
        die("the server was asked %zu times, not %zu", atomic_load(&answered) - before, set->count);
    return (run_figure){rate, 0};
}

void http_sink_open(http_sink *sink)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening < 0 || bind(listening, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(listening, 64) != 0 || getsockname(listening, (struct sockaddr *)&at, &size) != 0)
        die("cannot listen on 127.0.0.1");
    sink->port = ntohs(at.sin_port);
    snprintf(sink->url, sizeof sink->url, "http://127.0.0.1:%d/", sink->port);
    start_thread(accept_all, listening);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (size_t i = 0; i < RUN_PROCESSES; i++)
        sink->handles[i] = make_handle(sink->url);
}
