/* The only place that starts a thread. */
#include "base/thread.h"

#include <signal.h>

enum { STACK_BYTES = 8 << 20 }; /* rabbitmq-c reads nested headers by recursion */

static int create(pthread_t *out, void *(*run)(void *context), void *context)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!error)
        error = pthread_create(out, &attributes, run, context);
    pthread_attr_destroy(&attributes);
    return error;
}

int thread_start(pthread_t *out, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread */
    if (error)
        return error;
    error = create(out, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* cannot fail: it is what it was */
    return error;
}
