/* See thread.h. */
#include "program/support/thread.h"

#include <signal.h>

int start_thread(pthread_t *out, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits it */
    int error = pthread_create(out, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
