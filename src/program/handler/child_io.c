/* See child.h: the time between start and end. Our ends of the pipes never block, and one poll()
 * waits for all of them and for the child's end, so neither side can wait for the other forever. */
#include "program/handler/child.h"

#include "program/handler/groups.h"
#include "program/support/show.h"

#include <errno.h>
#include <semel/semel.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024, LOOK_MS = 20, NS_PER_MS = 1000000, MS_PER_S = 1000, OWN_FDS = 4 };

int64_t child_clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* a lease goes on while the host sleeps */
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* --- stdin ------------------------------------------------------------------------------------ */

/* A write to a pipe that has no reader raises SIGPIPE in this thread only: it is blocked, taken and
 * forgotten here, whatever the program does with that signal. */
static ssize_t write_quietly(int fd, const void *data, size_t len)
{
    sigset_t pipe_only, pending, old;
    (void)sigemptyset(&pipe_only);
    (void)sigaddset(&pipe_only, SIGPIPE);
    (void)sigpending(&pending);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
    ssize_t written = write(fd, data, len);
    int error = errno;
    if (written < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE)) {
        const struct timespec at_once = {0};
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return written;
}

/* A child need not read its input: that it has closed it is no failure. */
static void write_input(child *c)
{
    while (c->input.len) {
        ssize_t written = write_quietly(c->in, c->input.data, c->input.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN)
            return;
        if (written < 0) {
            c->input = (semel_bytes){NULL, 0};
            close_end(&c->in);
            return;
        }
        c->input.data = (const char *)c->input.data + written;
        c->input.len -= (size_t)written;
    }
    if (!c->keeps_input)
        close_end(&c->in);
}

/* --- stdout and stderr ------------------------------------------------------------------------ */

static ssize_t read_some(int *fd, char *into, size_t room)
{
    ssize_t got;
    do
        got = read(*fd, into, room);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got <= 0)
        close_end(fd);
    return got > 0 ? got : 0;
}

static void read_output(child *c)
{
    char bytes[READ_BYTES];
    size_t got = (size_t)read_some(&c->out, bytes, sizeof bytes);
    size_t room = c->output_max > c->output.len ? c->output_max - c->output.len : 0;
    buffer_add(&c->output, bytes, got < room ? got : room);
    if (got > room) {
        c->output_exceeded = 1;
        close_end(&c->out); /* the child gets EPIPE, and cannot go on for ever */
    }
}

static void end_line(child *c)
{
    if (!c->line_len)
        return;
    memcpy(c->last, c->line, c->line_len);
    c->last_len = c->line_len;
    c->line_len = 0;
}

static void read_errors(child *c)
{
    char bytes[READ_BYTES];
    size_t got = (size_t)read_some(&c->err, bytes, sizeof bytes);
    for (size_t i = 0; i < got; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r')
            end_line(c);
        else if (c->line_len < sizeof c->line && (c->line_len || bytes[i] != ' '))
            c->line[c->line_len++] = bytes[i];
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Looks without taking the status: until that is taken, the pid belongs to the child. */
static void look_for_end(child *c)
{
    siginfo_t info = {0};
    if (c->ended || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != c->pid)
        return;
    c->ended = 1;
    c->ended_ms = child_clock_ms();
    if (info.si_code == CLD_EXITED)
        c->exit_status = info.si_status;
    else
        c->signal = info.si_status;
    close_end(&c->in);
}

int child_is_done(const child *c)
{
    if (!c->ended)
        return 0;
    return (c->out < 0 && c->err < 0) || child_clock_ms() >= c->ended_ms + CHILD_LINGER_MS;
}

static int timeout_of(const child *c, int64_t until_ms)
{
    int64_t now = child_clock_ms(), left = until_ms - now;
    if (c->ended && c->ended_ms + CHILD_LINGER_MS - now < left)
        left = c->ended_ms + CHILD_LINGER_MS - now;
    if (!c->ended && c->pidfd < 0 && left > LOOK_MS)
        left = LOOK_MS;
    return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

void child_step(child *c, int64_t until_ms, struct pollfd *others, size_t other_count)
{
    struct pollfd all[OWN_FDS + CHILD_OTHERS_MAX] = {
        {.fd = c->input.len || !c->keeps_input ? c->in : -1, .events = POLLOUT},
        {.fd = c->output_paused ? -1 : c->out, .events = POLLIN},
        {.fd = c->err, .events = POLLIN},
        {.fd = c->ended ? -1 : c->pidfd, .events = POLLIN},
    };
    for (size_t i = 0; i < other_count; i++)
        all[OWN_FDS + i] = others[i];
    int ready = poll(all, OWN_FDS + other_count, timeout_of(c, until_ms));
    for (size_t i = 0; i < other_count; i++)
        others[i].revents = ready > 0 ? all[OWN_FDS + i].revents : 0;
    if (ready > 0) {
        if (all[0].revents)
            write_input(c);
        if (all[1].revents)
            read_output(c);
        if (all[2].revents)
            read_errors(c);
    }
    look_for_end(c);
}

void child_signal(const child *c, int number)
{
    if (c->pid)
        (void)kill(c->has_group ? -c->pid : c->pid, number);
}

static void wait_for_end(child *c, int64_t until_ms)
{
    while (!c->ended && child_clock_ms() < until_ms)
        child_step(c, until_ms, NULL, 0);
}

void child_stop(child *c)
{
    if (!c->pid)
        return;
    close_end(&c->in);
    close_end(&c->out);
    if (!c->ended) {
        child_signal(c, SIGTERM);
        child_signal(c, SIGCONT);
        wait_for_end(c, child_clock_ms() + CHILD_GRACE_MS);
    }
    if (c->has_group || !c->ended)
        child_signal(c, SIGKILL);
    while (!c->ended)
        wait_for_end(c, child_clock_ms() + MS_PER_S);
}

void child_close(child *c)
{
    if (c->pid) {
        if (!c->ended)
            child_stop(c);
        if (c->has_group && !c->spares_descendants && (c->out >= 0 || c->err >= 0))
            child_signal(c, SIGKILL);
        groups_remove(c->pid);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close_end(&c->pidfd);
        close_end(&c->in);
        close_end(&c->out);
        close_end(&c->err);
    }
    buffer_free(&c->output);
    *c = (child){.pidfd = -1, .in = -1, .out = -1, .err = -1};
}

void child_describe(buffer *to, const child *c)
{
    const char *name = c->signal ? sigabbrev_np(c->signal) : NULL;
    if (name)
        buffer_printf(to, "signal %d (%s)", c->signal, name);
    else if (c->signal)
        buffer_printf(to, "signal %d", c->signal);
    else
        buffer_printf(to, "exit %d", c->exit_status);
    size_t len = c->line_len ? c->line_len : c->last_len;
    if (len) {
        buffer_text(to, ": ");
        show_text(to, c->line_len ? c->line : c->last, len, 0);
    }
}
