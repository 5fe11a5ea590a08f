/* Signals by a descriptor. They are blocked in the whole process, and the threads of the library
 * block them anyway; child processes get an empty mask (handler/child.c). SIGPIPE is ignored: a
 * closed log stops nothing. */
#include "program/handler/groups.h"
#include "program/run/notify.h"
#include "program/run/service_internal.h"
#include "program/support/show.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

int service_block_signals(service *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s->signal_fd < 0 || s->wake_fd < 0 ? -1 : 0;
}

void service_end_at_once(const service *s, int status)
{
    live_abandon(s->live);
    groups_kill();
    _exit(status);
}

/* A second signal to stop ends the process at once: what is in progress was not committed, and
 * comes again. */
static void stop_by(service *s, int signal_number)
{
    if (s->stop_signal)
        service_end_at_once(s, 128 + signal_number);
    s->stop_signal = signal_number;
}

void service_read_signals(service *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            s->wants_reload = 1;
        else
            stop_by(s, (int)info.ssi_signo);
    }
}

/* systemd is to know that the main thread is alive; wherever it waits, it waits here. */
static int64_t feed_watchdog(service *s, int64_t wait_ms)
{
    enum { NS_PER_MS = 1000000 };
    int64_t now = steady_clock_ns() / NS_PER_MS;
    if (!s->watchdog_ms)
        return wait_ms;
    if (now >= s->watchdog_due_ms) {
        notify_send("WATCHDOG=1");
        s->watchdog_due_ms = now + s->watchdog_ms;
    }
    return wait_ms < s->watchdog_due_ms - now ? wait_ms : s->watchdog_due_ms - now;
}

void service_wait(service *s, int64_t wait_ms)
{
    uint64_t count;
    wait_ms = feed_watchdog(s, wait_ms);
    struct pollfd fds[] = {{.fd = s->signal_fd, .events = POLLIN},
                           {.fd = s->wake_fd, .events = POLLIN}};
    (void)poll(fds, 2, wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms);
    (void)!read(s->wake_fd, &count, sizeof count);
    service_read_signals(s);
}
