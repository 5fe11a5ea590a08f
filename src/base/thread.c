/* The only place that starts a thread. */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *out, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread */
    if (error)
        return error;
    error = pthread_create(out, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* cannot fail: it is what it was */
    return error;
}
