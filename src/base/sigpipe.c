/* SIGPIPE goes to the thread that wrote, so a mask of that thread is enough, and one that it finds
 * pending afterwards is of its own making, unless it was there before. libpq does the same. */
#include "base/sigpipe.h"

#include <time.h>

static int is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

static sigset_t sigpipe_alone(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

void sigpipe_guard_up(sigpipe_guard *guard, int needed)
{
    sigset_t set = sigpipe_alone();
    guard->is_up = guard->was_pending = 0;
    if (!needed || pthread_sigmask(SIG_BLOCK, &set, &guard->before) != 0) /* allowed: for now */
        return;
    guard->is_up = 1;
    guard->was_pending = sigismember(&guard->before, SIGPIPE) == 1 && is_pending();
}

void sigpipe_guard_down(const sigpipe_guard *guard)
{
    static const struct timespec at_once = {0, 0};
    sigset_t set = sigpipe_alone();
    if (!guard->is_up)
        return;
    if (!guard->was_pending && is_pending())
        (void)sigtimedwait(&set, NULL, &at_once);             /* that there is none is as good */
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL); /* allowed: as it was before */
}

void sigpipe_undisturbed(void (*start)(void))
{
    struct sigaction before;
    int known = sigaction(SIGPIPE, NULL, &before) == 0; /* allowed: only looks */
    start();
    if (known)
        (void)sigaction(SIGPIPE, &before, NULL); /* allowed: as the application had it */
}
