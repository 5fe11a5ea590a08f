/* Workers are started with posix_spawn, from this very program, and never by a bare fork: the
 * provider has databases open, which must not be carried into another process. */
#include "program/demo/demo_worker_process.h"

#include "program/demo/demo_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void close_both(const int pair[2])
{
    if (pair[0] >= 0)
        (void)close(pair[0]);
    if (pair[1] >= 0)
        (void)close(pair[1]);
}

/* A group of its own, so that Ctrl-C reaches the provider alone; signals as a new process expects
 * them. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int code = posix_spawnattr_setsigmask(attributes, &none);
    if (!code)
        code = posix_spawnattr_setsigdefault(attributes, &all);
    if (!code)
        code = posix_spawnattr_setpgroup(attributes, 0);
    if (!code)
        code = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETPGROUP);
    return code;
}

static int spawn(pid_t *pid, char *const arguments[], int deliveries, int events)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    int code = posix_spawnattr_init(&attributes);
    if (code)
        return code;
    code = posix_spawn_file_actions_init(&files);
    if (!code) {
        code = set_attributes(&attributes);
        if (!code)
            code = posix_spawn_file_actions_adddup2(&files, deliveries, DELIVERIES_FD);
        if (!code)
            code = posix_spawn_file_actions_adddup2(&files, events, EVENTS_FD);
        if (!code)
            code = posix_spawn(pid, "/proc/self/exe", &files, &attributes, arguments, environ);
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&attributes);
    return code;
}

static int make_pairs(int deliveries[2], int events[2])
{
    enum { KIND = SOCK_SEQPACKET | SOCK_CLOEXEC };
    if (socketpair(AF_UNIX, KIND, 0, deliveries) != 0 || socketpair(AF_UNIX, KIND, 0, events) != 0)
        return errno;
    /* The provider serves two shops, so it waits for none: a shop that does not read is in
     * trouble. */
    if (fcntl(deliveries[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(events[0], F_SETFL, O_NONBLOCK) != 0)
        return errno;
    return 0;
}

int worker_start(worker *out, const char *shop, const char *database)
{
    int deliveries[2] = {-1, -1}, events[2] = {-1, -1};
    char *arguments[] = {"semel", "demo-worker", (char *)shop, (char *)database, NULL};
    pid_t pid = 0;
    int code = make_pairs(deliveries, events);
    if (!code)
        code = spawn(&pid, arguments, deliveries[1], events[1]);
    if (code) {
        close_both(deliveries);
        close_both(events);
        return code;
    }
    (void)close(deliveries[1]);
    (void)close(events[1]);
    *out = (worker){.pid = pid, .deliveries = deliveries[0], .events = events[0]};
    return 0;
}

int worker_reap(worker *self)
{
    int status = 0;
    while (waitpid(self->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    self->pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void worker_kill(worker *self)
{
    if (self->pid <= 0)
        return;
    (void)kill(self->pid, SIGKILL);
    (void)worker_reap(self);
}

void worker_close(worker *self)
{
    if (self->deliveries >= 0)
        (void)close(self->deliveries);
    if (self->events >= 0)
        (void)close(self->events);
    self->deliveries = self->events = -1;
}
