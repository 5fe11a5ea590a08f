/* See server.h: opening, draining and closing. */
#include "program/http/server_internal.h"
#include "program/support/show.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FLAGS = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC,
    POOL_MORE = 32 << 10, /* for answers, and for headers that are refused by a document */
    FLUSH_S = 5           /* for clients to read the last answers */
};

/* As long as it listens nobody replaces its socket: so it is this server's which is removed. */
static void stop_listening(const http_server *s, int fd)
{
    if (s->socket_path)
        (void)unlink(s->socket_path);
    (void)close(fd);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The header of an answer that is replayed, and the headers of a request, are in one pool. */
static size_t pool_size(const http_server_options *o)
{
    return (size_t)o->header_bytes * 2 + POOL_MORE;
}

static struct MHD_Daemon *start(http_server *s, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        FLAGS, 0, NULL, NULL, http_receive, s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_URI_LOG_CALLBACK, http_receive_begin, s, MHD_OPTION_NOTIFY_COMPLETED,
        http_receive_end, s, MHD_OPTION_NOTIFY_CONNECTION, keeper_notice, s,
        MHD_OPTION_CONNECTION_LIMIT, s->options.connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        s->options.connections_per_client, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        pool_size(&s->options), MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static void init(http_server *s)
{
    pthread_condattr_t clock;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->quiet, &clock);
    pthread_condattr_destroy(&clock);
}

static void free_server(http_server *s)
{
    http_workers_close(s);
    keeper_close(s->keeper);
    free(s->socket_path);
    pthread_cond_destroy(&s->quiet);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The path of a unix socket is the follower's from now on. */
static int listen_after(http_server *s, http_server *before, semel_error *err)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(before->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    int fd = info ? fcntl(info->listen_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0) {
        semel_fail(err, SEMEL_EUNAVAILABLE, "%s: the socket cannot be taken over: %s",
                   before->address, strerror(errno));
        return -1;
    }
    memcpy(s->address, before->address, sizeof s->address);
    s->socket_path = before->socket_path;
    before->socket_path = NULL;
    return fd;
}

semel_status http_server_open(http_server **out, const http_server_options *options,
                              semel_error *err)
{
    http_server *s = must_alloc(sizeof *s);
    s->options = *options;
    init(s);
    int fd = options->follows ? listen_after(s, options->follows, err)
                              : http_listen(s->address, &s->socket_path, options->listen, err);
    if (fd < 0) {
        semel_status status = err ? err->status : SEMEL_EUNAVAILABLE;
        free_server(s);
        return status;
    }
    s->keeper = keeper_open(s);
    if (s->keeper && http_workers_open(s) == 0)
        s->daemon = start(s, fd);
    if (!s->daemon) {
        if (options->follows) { /* which goes on listening there */
            options->follows->socket_path = s->socket_path;
            s->socket_path = NULL;
        }
        stop_listening(s, fd);
        free_server(s);
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "%s: the threads of the server cannot be started; see ulimit -u and -n",
                          options->listen);
    }
    *out = s;
    return SEMEL_OK;
}

const char *http_server_address(const http_server *server)
{
    return server->address;
}

/* --- ending ----------------------------------------------------------------------------------- */

void http_server_retire(http_server *server)
{
    pthread_mutex_lock(&server->lock);
    int begins = !server->is_retired;
    server->is_retired = 1;
    pthread_mutex_unlock(&server->lock);
    int fd = begins ? MHD_quiesce_daemon(server->daemon) : MHD_INVALID_SOCKET;
    if (fd != MHD_INVALID_SOCKET)
        stop_listening(server, fd);
}

void http_server_drain(http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->is_draining = 1;
    pthread_mutex_unlock(&server->lock);
    http_server_retire(server);
}

size_t http_server_connections(const http_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

size_t http_server_pending(const http_server *server)
{
    http_server *s = (http_server *)(uintptr_t)server;
    pthread_mutex_lock(&s->lock);
    size_t pending = s->pending;
    pthread_mutex_unlock(&s->lock);
    return pending;
}

/* Answers that no client reads are given up. */
static void wait_until_sent(http_server *s)
{
    struct timespec until;
    pthread_mutex_lock(&s->lock);
    while (s->pending)
        pthread_cond_wait(&s->quiet, &s->lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FLUSH_S;
    while (s->unsent && pthread_cond_timedwait(&s->quiet, &s->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&s->lock);
}

void http_server_close(http_server *server)
{
    if (!server)
        return;
    http_server_drain(server);
    wait_until_sent(server);
    MHD_stop_daemon(server->daemon);
    free_server(server);
}
