/* Signals by a descriptor. They are blocked in the whole process, and the threads of the library
 * block them anyway; child processes get an empty mask (handler/child.c). SIGPIPE is ignored: a
 * closed log stops nothing.
 *
 * A thread reads them. The first signal to stop is told to the main thread, which looks for it
 * where it waits; the second ends the process, even if the main thread hangs in a store that does
 * not answer. The same thread limits how long the main thread may take to close everything at the
 * end: a store is asked to remove the row of the process, and may not answer either. Ending in the
 * middle is as safe as a kill: what was not committed has not happened. */
#include "program/handler/groups.h"
#include "program/run/notify.h"
#include "program/run/service_internal.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { CLOSE_MS = 10000, NS_PER_MS = 1000000 };

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
    s->reader_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s->signal_fd < 0 || s->wake_fd < 0 || s->reader_fd < 0 ? -1 : 0;
}

static void wake(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

static int64_t steady_ms(void)
{
    return steady_clock_ns() / NS_PER_MS;
}

/* --- the end of the process ------------------------------------------------------------------- */

/* Two threads may come here; one of them ends the process. */
void service_end_at_once(service *s, int status)
{
    pthread_mutex_lock(&s->end_lock);
    live_abandon(s->live);
    groups_kill();
    _exit(status);
}

live *service_take_live(service *s)
{
    pthread_mutex_lock(&s->end_lock);
    live *taken = s->live;
    live_abandon(taken); /* a process that is ended from now on leaves no socket behind */
    s->live = NULL;
    pthread_mutex_unlock(&s->end_lock);
    return taken;
}

/* --- the thread that reads -------------------------------------------------------------------- */

/* A second signal to stop ends the process at once: what is in progress was not committed, and
 * comes again. */
static void stop_by(service *s, int signal_number)
{
    if (atomic_load(&s->stop_signal))
        service_end_at_once(s, 128 + signal_number);
    atomic_store(&s->stop_signal, signal_number);
}

static void take_signals(service *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            atomic_store(&s->wants_reload, 1);
        else
            stop_by(s, (int)info.ssi_signo);
        wake(s->wake_fd);
    }
}

static void give_up_closing(service *s)
{
    log_write(s->log, &(log_entry){.level = LOG_WARNING,
                                   .event = "stopped",
                                   .msg = "the store or a broker does not answer, and is not "
                                          "waited for any longer; nothing is lost"});
    service_end_at_once(s, s->exit_status);
}

/* For poll; -1: without end. */
static int patience_ms(service *s)
{
    int64_t until = atomic_load(&s->closes_ms);
    int64_t left = until - steady_ms();
    if (until && left <= 0)
        give_up_closing(s);
    return until ? (int)left : -1;
}

static void *read_signals(void *context)
{
    service *s = context;
    uint64_t count;
    struct pollfd fds[] = {{.fd = s->signal_fd, .events = POLLIN},
                           {.fd = s->reader_fd, .events = POLLIN}};
    while (!atomic_load(&s->is_closed)) {
        (void)poll(fds, 2, patience_ms(s));
        (void)!read(s->reader_fd, &count, sizeof count);
        take_signals(s);
    }
    return NULL;
}

int service_read_signals(service *s)
{
    s->reader_runs = start_thread(&s->reader, read_signals, s) == 0;
    return s->reader_runs ? 0 : -1;
}

void service_begin_closing(service *s, int status)
{
    s->exit_status = status;
    atomic_store(&s->closes_ms, steady_ms() + CLOSE_MS);
    wake(s->reader_fd);
}

void service_end_closing(service *s)
{
    atomic_store(&s->is_closed, 1);
    wake(s->reader_fd);
    if (s->reader_runs)
        (void)pthread_join(s->reader, NULL);
    (void)close(s->signal_fd);
    (void)close(s->wake_fd);
    (void)close(s->reader_fd);
}

/* --- the main thread -------------------------------------------------------------------------- */

/* systemd is to know that the main thread is alive; wherever it waits, it waits here. */
static int64_t feed_watchdog(service *s, int64_t wait_ms)
{
    int64_t now = steady_ms();
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
    struct pollfd woken = {.fd = s->wake_fd, .events = POLLIN};
    (void)poll(&woken, 1, wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms);
    (void)!read(s->wake_fd, &count, sizeof count);
}
