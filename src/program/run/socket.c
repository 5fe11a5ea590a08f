/* The socket of a running process: one thread that waits for clients, reads a question of each, a
 * line of JSON, and writes answers.
 *
 *     {"ask":"stats"}     one line, then the connection ends
 *     {"ask":"health"}    the same; the store is asked by another thread meanwhile
 *     {"ask":"tail"}      a line for each outcome, until the client goes; {"lost":12} stands where
 *                         the client was too slow for twelve of them
 *
 * A client is a process of the same user or of root; others are refused by the kernel at the
 * directory, and here as well. No client is waited for: one that does not ask for ten seconds, or
 * does not read for a minute, is dropped. */
#include "program/run/socket_client.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = TAPS_MAX,
    FIXED = 2,      /* descriptors in front of those of the clients */
    BUSY_MS = 5,    /* lines of this time are written together */
    CHECK_MS = 1000 /* how often clients that hang are looked for */
};

struct server {
    live *all;
    int listen_fd;
    pthread_t thread;
    atomic_int stops;
    client clients[CLIENTS_MAX];
    int pauses;     /* no client can be accepted now: descriptors have run out */
    client *asking; /* the client whose question about health is with the presence; NULL: none */
};

/* --- clients ---------------------------------------------------------------------------------- */

static int is_permitted(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static client *free_place(server *s)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (s->clients[i].fd < 0)
            return &s->clients[i];
    return NULL;
}

static void refuse(int fd, const char *why)
{
    char line[64];
    int len = snprintf(line, sizeof line, "{\"error\":\"%s\"}\n", why);
    (void)send(fd, line, (size_t)len, MSG_NOSIGNAL);
    (void)close(fd);
}

static void accept_clients(server *s)
{
    for (;;) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        client *place = free_place(s);
        if (fd < 0)
            s->pauses = errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
        if (fd < 0)
            return;
        if (!is_permitted(fd))
            refuse(fd, "another user's process");
        else if (!place)
            refuse(fd, "too many clients");
        else
            client_begin(place, fd);
    }
}

static void drop(server *s, client *c)
{
    if (s->asking == c)
        s->asking = NULL; /* the answer is thrown away when it comes */
    client_end(c, s->all->taps);
}

/* --- health ----------------------------------------------------------------------------------- */

static void take_answer(server *s)
{
    buffer answer = {0};
    if (!s->all->presence || !presence_take_answer(s->all->presence, &answer))
        return;
    if (s->asking)
        client_answer(s->asking, &answer);
    s->asking = NULL;
    buffer_free(&answer);
}

/* Questions wait until the one before them is answered. */
static void pass_on_question(server *s)
{
    for (size_t i = 0; i < CLIENTS_MAX && !s->asking && s->all->presence; i++) {
        client *c = &s->clients[i];
        if (c->fd >= 0 && c->state == CLIENT_WAITS &&
            presence_ask(s->all->presence, c->stalled_after_ms))
            s->asking = c;
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static void serve(server *s, client *c, short events)
{
    if (events & (POLLIN | POLLHUP | POLLERR))
        client_read(c, s->all);
    if (c->fd >= 0 && c->state == CLIENT_TAILS)
        client_fill(c, s->all->log);
    if (!client_write(c) || client_hangs(c))
        drop(s, c);
}

/* 1: lines came, and more may follow soon. */
static int fill_all(server *s)
{
    int came = 0;
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        client *c = &s->clients[i];
        if (c->fd >= 0 && c->state == CLIENT_TAILS)
            came |= client_fill(c, s->all->log);
    }
    return came;
}

/* How long to sleep. Before a long sleep, writers are asked to wake this thread. */
static int time_to_sleep(server *s)
{
    int has_clients = 0;
    if (fill_all(s))
        return BUSY_MS;
    taps_ask_to_be_woken(s->all->taps);
    if (fill_all(s))
        return BUSY_MS;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        has_clients |= s->clients[i].fd >= 0;
    return has_clients ? CHECK_MS : -1;
}

static void wait_for_events(server *s, struct pollfd fds[FIXED + CLIENTS_MAX])
{
    int timeout = time_to_sleep(s);
    if (s->pauses && (timeout < 0 || timeout > CHECK_MS))
        timeout = CHECK_MS;
    fds[0] = (struct pollfd){.fd = s->pauses ? -1 : s->listen_fd, .events = POLLIN};
    s->pauses = 0;
    fds[1] = (struct pollfd){.fd = s->all->wake_fd, .events = POLLIN};
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        fds[FIXED + i] =
            (struct pollfd){.fd = s->clients[i].fd, .events = client_events(&s->clients[i])};
    (void)poll(fds, FIXED + CLIENTS_MAX, timeout);
}

static void *run(void *context)
{
    server *s = context;
    struct pollfd fds[FIXED + CLIENTS_MAX];
    uint64_t count;
    while (!atomic_load(&s->stops)) {
        wait_for_events(s, fds);
        (void)!read(s->all->wake_fd, &count, sizeof count);
        take_answer(s);
        for (size_t i = 0; i < CLIENTS_MAX; i++)
            if (s->clients[i].fd >= 0)
                serve(s, &s->clients[i], fds[FIXED + i].revents);
        if (fds[0].revents)
            accept_clients(s);
        pass_on_question(s);
    }
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (s->clients[i].fd >= 0)
            drop(s, &s->clients[i]);
    return NULL;
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void say_none(const live *all, const char *why)
{
    buffer text = {0};
    buffer_printf(&text, "no local socket, so top, tail and health cannot ask this process: %s",
                  why);
    log_write(all->log, &(log_entry){.level = LOG_WARNING, .event = "socket", .msg = text.data});
    buffer_free(&text);
}

server *server_open(live *all)
{
    buffer why = {0};
    char name[32];
    server *s = must_alloc(sizeof *s);
    s->all = all;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        s->clients[i].fd = -1;
    (void)snprintf(name, sizeof name, "%lld-%.8s", (long long)getpid(), all->id + 24);
    s->listen_fd = socket_listen(all->path, name, &why);
    if (s->listen_fd >= 0) {
        all->taps = taps_open(all->wake_fd);
        int error = start_thread(&s->thread, run, s);
        if (!error) {
            buffer_free(&why); /* of the places before the one that could be used */
            return s;
        }
        buffer_text(&why, strerror(error));
        (void)unlink(all->path);
        (void)close(s->listen_fd);
    }
    *all->path = 0;
    say_none(all, why.data);
    buffer_free(&why);
    free(s);
    return NULL;
}

void server_close(server *s)
{
    const uint64_t one = 1;
    if (!s)
        return;
    (void)unlink(s->all->path);
    atomic_store(&s->stops, 1);
    (void)!write(s->all->wake_fd, &one, sizeof one);
    (void)pthread_join(s->thread, NULL);
    (void)close(s->listen_fd);
    free(s);
}
