/* One thread and poll(). The lock is held except while it polls, so a test's calls change what they
 * like and the thread acts on it in its next turn; a call that needs the thread to act (ask())
 * wakes it and waits for that turn. Only the thread opens, closes and uses sockets.
 *
 * A pair is a client's connection and the one to the server that belongs to it. It passes bytes on
 * until one side ends, or until a plan catches it. Then it is *ending*: the server is told that the
 * client sends no more, and what it still sends is discarded until it closes; only then is the
 * client's side closed. So the server is never reset in the middle of a request, and a client that
 * sees the end knows that the server is done.
 *
 * Sockets are shut down before they are closed: a child that was forked in between has them,
 * too. */
#include "support/servers/proxy.h"

#include "support/process/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS_MAX = 256, ROOM = 16384, TAIL_ROOM = PROXY_PATTERN_MAX - 1 };

typedef struct flow {
    char bytes[ROOM];
    size_t begin, end; /* what was read and is not yet written */
} flow;

typedef enum pair_phase { PASSING, LOSING, ENDING } pair_phase;

typedef struct pair {
    int client, server;
    pair_phase phase; /* LOSING: a request is under way whose answer will be lost */
    int answered;     /* LOSING: something came back */
    int server_ended;
    int client_spoke; /* last, of the two */
    flow up, down;
    int64_t said_at; /* when `down` began to be filled */
    char tail
        [TAIL_ROOM]; /* the end of what the client said before, for patterns that are cut in two */
    size_t tail_len;
} pair;

typedef enum plan_kind { NO_PLAN, LOSE_ANSWER, LOSE_REQUEST } plan_kind;

struct proxy {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t obeyed_more;
    uint64_t asked, obeyed;
    int wake[2];
    struct sockaddr_in server, self;
    int reserved; /* bound and never listening: keeps the port while the proxy does not listen */
    int listener; /* or -1 */

    int closing, cutting, refusing, holding, delay_ms;
    plan_kind plan;
    char pattern[PROXY_PATTERN_MAX];
    size_t pattern_len;

    pair *pairs[PAIRS_MAX];
    size_t pair_count;
    proxy_counts counts;
};

static int is_empty(const flow *f)
{
    return f->begin == f->end;
}

static void empty(flow *f)
{
    f->begin = f->end = 0;
}

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "proxy: cannot %s: %s\n", what, strerror(errno));
    abort();
}

/* --- pairs ------------------------------------------------------------------------------------ */

static void end_socket(int fd)
{
    if (fd < 0)
        return;
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void close_pair(proxy *p, size_t index)
{
    pair *gone = p->pairs[index];
    p->pairs[index] = p->pairs[--p->pair_count];
    end_socket(gone->client);
    end_socket(gone->server);
    free(gone);
}

static void end_pair(pair *l)
{
    l->phase = ENDING;
    empty(&l->up);
    shutdown(l->server, SHUT_WR);
}

static int connect_server(const proxy *p)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("open a socket");
    if (connect(fd, (const struct sockaddr *)&p->server, sizeof p->server) == 0)
        return fd;
    close(fd);
    return -1;
}

static void prepare(int fd)
{
    int yes = 1;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        die("prepare a socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* A server that is not there is seen by the client as a connection that ends at once. */
static void accept_pair(proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    p->counts.connections++;
    int server = p->pair_count < PAIRS_MAX ? connect_server(p) : -1;
    pair *l = server < 0 ? NULL : calloc(1, sizeof *l);
    if (!l) {
        end_socket(client);
        end_socket(server);
        return;
    }
    prepare(client);
    prepare(server);
    l->client = client;
    l->server = server;
    p->pairs[p->pair_count++] = l;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* What was read, 0 at the end or on an error, -1 for nothing yet. */
static ssize_t fill(flow *f, int from)
{
    ssize_t got = recv(from, f->bytes + f->end, ROOM - f->end, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? -1 : 0;
    f->end += (size_t)got;
    return got;
}

/* What was written. For a side that is gone it is thrown away: that the side is gone is seen by
 * reading. */
static size_t pour(flow *f, int to)
{
    ssize_t put = send(to, f->bytes + f->begin, f->end - f->begin, MSG_NOSIGNAL);
    if (put >= 0)
        f->begin += (size_t)put;
    if (is_empty(f) || (put < 0 && errno != EAGAIN && errno != EINTR))
        empty(f); /* there is room again from the beginning */
    return put > 0 ? (size_t)put : 0;
}

/* --- plans ------------------------------------------------------------------------------------ */

/* The pattern may have begun in what was read before, but it ends in what was read now. */
static int has_pattern(const proxy *p, const pair *l, const char *bytes, size_t len)
{
    char all[TAIL_ROOM + ROOM];
    size_t before = p->pattern_len - 1 < l->tail_len ? p->pattern_len - 1 : l->tail_len;
    memcpy(all, l->tail + l->tail_len - before, before);
    memcpy(all + before, bytes, len);
    return memmem(all, before + len, p->pattern, p->pattern_len) != NULL;
}

static void keep_tail(pair *l, const char *bytes, size_t len)
{
    size_t fresh = len < TAIL_ROOM ? len : TAIL_ROOM;
    size_t old = l->tail_len + fresh <= TAIL_ROOM ? l->tail_len : TAIL_ROOM - fresh;
    memmove(l->tail, l->tail + l->tail_len - old, old);
    memcpy(l->tail + old, bytes + len - fresh, fresh);
    l->tail_len = old + fresh;
}

static void look_at_request(proxy *p, pair *l, const char *bytes, size_t len)
{
    p->counts.request_bytes += len;
    p->counts.round_trips += !l->client_spoke;
    if (!l->client_spoke)
        l->tail_len = 0;
    l->client_spoke = 1;
    if (p->plan != NO_PLAN && l->phase == PASSING && has_pattern(p, l, bytes, len)) {
        p->counts.lost++;
        if (p->plan == LOSE_REQUEST)
            end_pair(l);
        else
            l->phase = LOSING;
        p->plan = NO_PLAN;
    }
    keep_tail(l, bytes, len);
}

/* --- one turn of a pair ----------------------------------------------------------------------- */

static void move_up(proxy *p, pair *l, int readable)
{
    if (readable && l->phase != ENDING && is_empty(&l->up)) {
        ssize_t got = fill(&l->up, l->client);
        if (got > 0)
            look_at_request(p, l, l->up.bytes, (size_t)got);
        else if (got == 0)
            end_pair(l);
    } else if (l->phase == LOSING && l->answered && is_empty(&l->up)) {
        end_pair(l); /* all that the client had to say is at the server */
    }
    if (!is_empty(&l->up))
        (void)pour(&l->up, l->server);
}

/* How long what the server said is still kept back: a time, 0 for no longer, -1 until the test says
 * so. */
static int kept_back_ms(const proxy *p, const pair *l)
{
    if (p->holding || is_empty(&l->down))
        return -1;
    int64_t left = p->delay_ms ? l->said_at + p->delay_ms - process_now_ms() : 0;
    return left > 0 ? (int)left : 0;
}

static void move_down(proxy *p, pair *l, int readable)
{
    if (readable && l->down.end < ROOM) {
        size_t before = l->down.end - l->down.begin;
        if (!before)
            l->said_at = process_now_ms();
        ssize_t got = fill(&l->down, l->server);
        l->server_ended |= got == 0;
        if (got > 0 && l->phase != PASSING) {
            l->answered = 1;
            l->down.end = l->down.begin + before;
        }
    }
    if (kept_back_ms(p, l) != 0)
        return;
    size_t put = pour(&l->down, l->client);
    p->counts.answer_bytes += put;
    if (put)
        l->client_spoke = 0;
}

/* What was answered before the end is still delivered. */
static int is_over(const pair *l)
{
    return l->server_ended && (l->phase != PASSING || is_empty(&l->down));
}

static void ask_poll(const proxy *p, const pair *l, struct pollfd *client, struct pollfd *server)
{
    int listens = l->phase != ENDING && is_empty(&l->up) && !l->server_ended;
    int speaks = kept_back_ms(p, l) == 0;
    client->events = (short)((listens ? POLLIN : 0) | (speaks ? POLLOUT : 0));
    client->fd = client->events ? l->client : -1; /* or its hanging up would be reported for ever */
    server->events = (short)((l->down.end < ROOM && !l->server_ended ? POLLIN : 0) |
                             (is_empty(&l->up) ? 0 : POLLOUT));
    server->fd = server->events ? l->server : -1;
}

/* --- the thread ------------------------------------------------------------------------------- */

static int open_listener(const struct sockaddr_in *at, int listens)
{
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0 ||
        bind(fd, (const struct sockaddr *)at, sizeof *at) != 0 || (listens && listen(fd, 64) != 0))
        die("listen");
    return fd;
}

static void obey(proxy *p)
{
    char drained[64];
    while (read(p->wake[0], drained, sizeof drained) > 0)
        continue;
    while (p->cutting && p->pair_count)
        close_pair(p, 0);
    p->cutting = 0;
    if (p->refusing && p->listener >= 0) {
        end_socket(p->listener);
        p->listener = -1;
    } else if (!p->refusing && p->listener < 0) {
        p->listener = open_listener(&p->self, 1);
    }
    p->obeyed = p->asked;
    pthread_cond_broadcast(&p->obeyed_more);
}

/* Until a pair must have its turn without an event, -1 for never. One that only waits to see its
 * client silent has no event to wait for, nor has an answer that is late. */
static int turn_at_the_latest(const proxy *p, const pair *l)
{
    int late = kept_back_ms(p, l);
    return l->phase == LOSING && l->answered ? 0 : late > 0 ? late : -1;
}

/* Two for us, two for each pair. */
static nfds_t list_sockets(const proxy *p, struct pollfd *all, int *timeout)
{
    *timeout = -1;
    all[0] = (struct pollfd){.fd = p->wake[0], .events = POLLIN};
    all[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    for (size_t i = 0; i < p->pair_count; i++) {
        ask_poll(p, p->pairs[i], &all[2 + 2 * i], &all[3 + 2 * i]);
        int wait = turn_at_the_latest(p, p->pairs[i]);
        if (wait >= 0 && (*timeout < 0 || wait < *timeout))
            *timeout = wait;
    }
    return 2 + 2 * p->pair_count;
}

/* From the last to the first: closing one moves only pairs that had their turn. Requests first: one
 * that is already here was not made in reply to what the server says now. */
static void turn(proxy *p, const struct pollfd *all)
{
    for (size_t i = p->pair_count; i-- > 0;) {
        pair *l = p->pairs[i];
        move_up(p, l, all[2 + 2 * i].revents & (POLLIN | POLLHUP | POLLERR));
        move_down(p, l, all[3 + 2 * i].revents & (POLLIN | POLLHUP | POLLERR));
        if (is_over(l))
            close_pair(p, i);
    }
    if (all[1].revents)
        accept_pair(p);
}

static void *serve(void *argument)
{
    proxy *p = argument;
    struct pollfd all[2 + 2 * PAIRS_MAX];
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        int timeout;
        nfds_t count = list_sockets(p, all, &timeout);
        pthread_mutex_unlock(&p->lock);
        int ready = poll(all, count, timeout);
        pthread_mutex_lock(&p->lock);
        if (p->asked != p->obeyed)
            obey(p);
        else if (ready >= 0)
            turn(p, all);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- the test's side -------------------------------------------------------------------------- */

proxy *proxy_open(const char *url)
{
    char host[SERVER_HOST_ROOM];
    unsigned port;
    proxy *p = calloc(1, sizeof *p);
    socklen_t len = sizeof p->self;
    if (!p || pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        die("begin");
    server_address(url, host, &port);
    p->self =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p->server = p->self;
    p->server.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, host, &p->server.sin_addr) != 1)
        die(host);
    p->reserved = open_listener(&p->self, 0);
    if (getsockname(p->reserved, (struct sockaddr *)&p->self, &len) != 0)
        die("learn its port");
    p->listener = open_listener(&p->self, 1);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->obeyed_more, NULL);
    if (pthread_create(&p->thread, NULL, serve, p) != 0)
        die("start a thread");
    return p;
}

/* With the lock held: the thread takes a turn. */
static void ask(proxy *p)
{
    uint64_t mine = ++p->asked;
    if (write(p->wake[1], "", 1) < 0 && errno != EAGAIN)
        die("wake the thread");
    while (p->obeyed < mine)
        pthread_cond_wait(&p->obeyed_more, &p->lock);
}

static void set(proxy *p, int *what, int to)
{
    pthread_mutex_lock(&p->lock);
    *what = to;
    ask(p);
    pthread_mutex_unlock(&p->lock);
}

void proxy_close(proxy *p)
{
    if (!p)
        return;
    set(p, &p->closing, 1);
    pthread_join(p->thread, NULL);
    while (p->pair_count)
        close_pair(p, 0);
    end_socket(p->listener);
    end_socket(p->reserved);
    close(p->wake[0]);
    close(p->wake[1]);
    pthread_cond_destroy(&p->obeyed_more);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

unsigned proxy_port(const proxy *p)
{
    return ntohs(p->self.sin_port);
}

char *proxy_url(char out[SERVER_URL_ROOM], const proxy *p, const char *url)
{
    char host[SERVER_HOST_ROOM], address[SERVER_HOST_ROOM + 16];
    unsigned port;
    server_address(url, host, &port);
    (void)snprintf(address, sizeof address, "%s:%u", host, port);
    const char *found = strstr(url, address); /* server_address() found it there */
    int before = found ? (int)(found - url) : 0;
    int len = found ? snprintf(out, SERVER_URL_ROOM, "%.*s127.0.0.1:%u%s", before, url,
                               proxy_port(p), found + strlen(address))
                    : -1;
    if (len < 0 || len >= SERVER_URL_ROOM)
        die("write a URL");
    return out;
}

void proxy_cut(proxy *p)
{
    set(p, &p->cutting, 1);
}

void proxy_refuse(proxy *p, int on)
{
    set(p, &p->refusing, on);
}

void proxy_hold(proxy *p, int on)
{
    set(p, &p->holding, on);
}

void proxy_delay(proxy *p, int ms)
{
    set(p, &p->delay_ms, ms);
}

static void set_plan(proxy *p, plan_kind plan, const char *pattern)
{
    size_t len = pattern ? strlen(pattern) : 0;
    errno = EINVAL;
    if (pattern && (!len || len > PROXY_PATTERN_MAX))
        die("look for that");
    pthread_mutex_lock(&p->lock);
    p->plan = pattern ? plan : NO_PLAN;
    p->pattern_len = len;
    if (len)
        memcpy(p->pattern, pattern, len);
    pthread_mutex_unlock(&p->lock);
}

void proxy_lose_answer(proxy *p, const char *pattern)
{
    set_plan(p, LOSE_ANSWER, pattern);
}

void proxy_lose_request(proxy *p, const char *pattern)
{
    set_plan(p, LOSE_REQUEST, pattern);
}

/* --- counting --------------------------------------------------------------------------------- */

proxy_counts proxy_count(proxy *p)
{
    pthread_mutex_lock(&p->lock);
    proxy_counts counts = p->counts;
    counts.open = p->pair_count;
    for (size_t i = 0; i < p->pair_count; i++)
        counts.held += p->pairs[i]->down.end - p->pairs[i]->down.begin;
    pthread_mutex_unlock(&p->lock);
    return counts;
}

void proxy_forget(proxy *p)
{
    pthread_mutex_lock(&p->lock);
    p->counts = (proxy_counts){0};
    pthread_mutex_unlock(&p->lock);
}

int proxy_wait_held(proxy *p, uint32_t deadline_ms)
{
    int64_t deadline = process_now_ms() + deadline_ms;
    while (!proxy_count(p).held) {
        if (process_now_ms() >= deadline)
            return 0;
        process_nap();
    }
    return 1;
}
