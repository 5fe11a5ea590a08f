/* Clients of the gateway: a connection for each thread, which is kept, and one request at a time.
 * They read no more than they must: the figures are those of the servers. */
#include "gateway_load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 4096, REQUEST_MAX = 1024 };

int load_free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) != 0 ||
        getsockname(fd, (struct sockaddr *)&any, &len) != 0)
        die("there is no free port");
    close(fd);
    return ntohs(any.sin_port);
}

static int connect_to(int port)
{
    const int one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        die("nobody listens at port %d", port);
    return fd;
}

void load_open(load *l, int port)
{
    l->port = port;
    for (size_t i = 0; i < LOAD_CLIENTS; i++)
        l->clients[i] = connect_to(port);
}

void load_close(load *l)
{
    for (size_t i = 0; i < LOAD_CLIENTS; i++)
        close(l->clients[i]);
}

/* --- one request ------------------------------------------------------------------------------ */

/* Is all of the answer there? Its head and a body of the length that it says. */
static int is_whole(const char *text, size_t len)
{
    static const char length[] = "\r\nContent-Length: ";
    const char *end = strstr(text, "\r\n\r\n"), *body = strstr(text, length);
    if (!end)
        return 0;
    unsigned long size = body && body < end ? strtoul(body + sizeof length - 1, NULL, 10) : 0;
    return len >= (size_t)(end + 4 - text) + size;
}

static void check(const load *l, const char *answer)
{
    int is_replayed = strstr(answer, "Idempotent-Replayed: true") != NULL;
    if (strncmp(answer, "HTTP/1.1 201 ", 13) != 0 || is_replayed != (l->stored > 0))
        die("an answer is\n%s", answer);
}

static void ask(const load *l, int fd, const char *key)
{
    char request[REQUEST_MAX], answer[ANSWER_MAX + 1];
    static const char body[] =
        "{\"amount\": 1250, \"currency\": \"EUR\", \"customer\": \"c-4711\"}";
    int size = snprintf(request, sizeof request,
                        "POST /v1/charges HTTP/1.1\r\nHost: bench\r\nIdempotency-Key: \"%s\"\r\n"
                        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        key, sizeof body - 1, body);
    if (write(fd, request, (size_t)size) != size)
        die("a request cannot be sent");
    size_t len = 0;
    answer[0] = 0;
    while (!is_whole(answer, len)) {
        ssize_t got = read(fd, answer + len, ANSWER_MAX - len);
        if (got <= 0)
            die("no answer to a request:\n%s", answer);
        answer[len += (size_t)got] = 0;
    }
    check(l, answer);
}

static void ask_some(void *context, size_t worker, const semel_message *const messages[],
                     size_t count)
{
    load *l = context;
    for (size_t i = 0; i < count; i++) {
        size_t next = l->stored ? atomic_fetch_add(&l->next, 1) % l->stored : 0;
        ask(l, l->clients[worker], l->stored ? l->keys[next] : messages[i]->id.data);
    }
}

void load_run(void *context, const message_set *set)
{
    threads_run(LOAD_CLIENTS, 1, set, ask_some, context);
}

void load_store(load *l, const message_set *set)
{
    load_run(l, set);
    for (; l->stored < set->count && l->stored < LOAD_STORED; l->stored++)
        memcpy(l->keys[l->stored], set->ids[l->stored], sizeof l->keys[0]);
}
