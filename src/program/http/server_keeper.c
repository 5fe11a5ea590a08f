/* The keeper: the thread that ends connections whose time is over, by shutting them down; then
 * libmicrohttpd closes them.
 *
 * It also reads what clients still send after they were refused. A connection that is closed with
 * bytes unread is reset, and a reset makes the client's kernel forget the answer that it has not
 * read yet: a person would see "connection reset" in place of "the body is too large". */
#include "program/http/server_internal.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PERIOD_LEAST_MS = 10,
    PERIOD_MOST_MS = 250,
    LINGERING_MAX = 64,
    LINGER_MS = 2000,
    LINGER_BYTES = 16 << 20,
    PIECE = 65536
};

typedef struct lingering {
    int fd; /* of the same connection */
    size_t bytes;
    int64_t deadline_ns;
} lingering;

struct keeper {
    http_server *server;
    int wake_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* over what follows */
    http_connection *connections;
    lingering lingerers[LINGERING_MAX];
    size_t lingering_count;
    int ends;
    char piece[PIECE]; /* what is thrown away; the thread's own */
};

static int64_t after_ms(uint64_t ms)
{
    return steady_clock_ns() + (int64_t)ms * HTTP_NS_PER_MS;
}

static void wake(const keeper *k)
{
    const uint64_t one = 1;
    (void)!write(k->wake_fd, &one, sizeof one);
}

/* --- connections ------------------------------------------------------------------------------ */

void http_connection_limit(http_connection *c, uint64_t ms)
{
    atomic_store_explicit(&c->deadline_ns, after_ms(ms), memory_order_relaxed);
}

void http_connection_wait(http_connection *c)
{
    atomic_store_explicit(&c->deadline_ns, 0, memory_order_relaxed);
}

static void write_peer(http_connection *c, struct MHD_Connection *client)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(client, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *peer = info ? info->client_addr : NULL;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(c->peer, "unix", sizeof "unix");
    if (peer && peer->sa_family == AF_INET) {
        memcpy(&v4, peer, sizeof v4);
        (void)inet_ntop(AF_INET, &v4.sin_addr, c->peer, sizeof c->peer);
    } else if (peer && peer->sa_family == AF_INET6) {
        memcpy(&v6, peer, sizeof v6);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
            (void)inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, c->peer, sizeof c->peer);
        else
            (void)inet_ntop(AF_INET6, &v6.sin6_addr, c->peer, sizeof c->peer);
    }
}

static void begin(keeper *k, struct MHD_Connection *client, void **connection)
{
    http_connection *c = must_alloc(sizeof *c);
    const http_server_options *o = &k->server->options;
    c->fd = MHD_get_connection_info(client, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    write_peer(c, client);
    http_connection_limit(c, o->idle_ms > o->request_ms ? o->idle_ms : o->request_ms);
    pthread_mutex_lock(&k->lock);
    int is_first = !k->connections;
    c->next = k->connections;
    if (c->next)
        c->next->before = c;
    k->connections = c;
    pthread_mutex_unlock(&k->lock);
    *connection = c;
    if (is_first)
        wake(k);
}

static void end(keeper *k, void **connection)
{
    http_connection *c = *connection;
    pthread_mutex_lock(&k->lock);
    if (c->next)
        c->next->before = c->before;
    if (c->before)
        c->before->next = c->next;
    else
        k->connections = c->next;
    pthread_mutex_unlock(&k->lock);
    free(c);
    *connection = NULL;
}

void keeper_notice(void *context, struct MHD_Connection *client, void **connection,
                   enum MHD_ConnectionNotificationCode what)
{
    const http_server *s = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        begin(s->keeper, client, connection);
    else if (*connection)
        end(s->keeper, connection);
}

/* The lock is held: no connection is closed meanwhile. */
static void end_overdue(const keeper *k)
{
    int64_t now = steady_clock_ns();
    for (http_connection *c = k->connections; c; c = c->next) {
        int64_t deadline = atomic_load_explicit(&c->deadline_ns, memory_order_relaxed);
        if (!deadline || now < deadline)
            continue;
        (void)shutdown(c->fd, SHUT_RDWR);
        http_connection_wait(c);
    }
}

/* --- lingering -------------------------------------------------------------------------------- */

void keeper_linger(keeper *k, const http_connection *c)
{
    pthread_mutex_lock(&k->lock);
    int fd = k->lingering_count < LINGERING_MAX ? fcntl(c->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd >= 0)
        k->lingerers[k->lingering_count++] = (lingering){fd, 0, after_ms(LINGER_MS)};
    pthread_mutex_unlock(&k->lock);
    if (fd >= 0)
        wake(k);
}

/* 1: there may be more to read. */
static int read_on(keeper *k, lingering *l)
{
    ssize_t got = recv(l->fd, k->piece, sizeof k->piece, MSG_DONTWAIT);
    if (got > 0)
        l->bytes += (size_t)got;
    return (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) &&
           l->bytes < LINGER_BYTES && steady_clock_ns() < l->deadline_ns;
}

static void read_lingering(keeper *k)
{
    for (size_t i = k->lingering_count; i-- > 0;) {
        if (!k->ends && read_on(k, &k->lingerers[i]))
            continue;
        (void)close(k->lingerers[i].fd);
        k->lingerers[i] = k->lingerers[--k->lingering_count];
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static int period_ms(const keeper *k)
{
    uint32_t quarter = k->server->options.request_ms / 4;
    uint32_t idle = k->server->options.idle_ms / 4;
    quarter = idle < quarter ? idle : quarter;
    return quarter < PERIOD_LEAST_MS  ? PERIOD_LEAST_MS
           : quarter > PERIOD_MOST_MS ? PERIOD_MOST_MS
                                      : (int)quarter;
}

/* The lock is held, but not while it waits. */
static void wait_for_work(keeper *k)
{
    struct pollfd all[LINGERING_MAX + 1] = {{.fd = k->wake_fd, .events = POLLIN}};
    size_t count = 1;
    uint64_t woken;
    for (size_t i = 0; i < k->lingering_count; i++)
        all[count++] = (struct pollfd){.fd = k->lingerers[i].fd, .events = POLLIN};
    int wait = k->connections || k->lingering_count ? period_ms(k) : -1;
    pthread_mutex_unlock(&k->lock);
    (void)poll(all, count, wait);
    if (all[0].revents)
        (void)!read(k->wake_fd, &woken, sizeof woken);
    pthread_mutex_lock(&k->lock);
}

static void *keep(void *context)
{
    keeper *k = context;
    pthread_mutex_lock(&k->lock);
    while (!k->ends) {
        wait_for_work(k);
        end_overdue(k);
        read_lingering(k);
    }
    read_lingering(k);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

keeper *keeper_open(http_server *server)
{
    keeper *k = must_alloc(sizeof *k);
    k->server = server;
    k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&k->lock, NULL);
    if (k->wake_fd >= 0 && start_thread(&k->thread, keep, k) == 0)
        return k;
    if (k->wake_fd >= 0)
        (void)close(k->wake_fd);
    pthread_mutex_destroy(&k->lock);
    free(k);
    return NULL;
}

void keeper_close(keeper *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->ends = 1;
    pthread_mutex_unlock(&k->lock);
    wake(k);
    (void)pthread_join(k->thread, NULL);
    pthread_mutex_destroy(&k->lock);
    (void)close(k->wake_fd);
    free(k);
}
