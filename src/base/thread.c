/* Starts a thread of the library, with the stack that all of them have and without signals. */
#include "base/thread.h"

#include <errno.h>

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

void thread_signals_off(thread_signals *signals)
{
    sigset_t all;
    sigfillset(&all);
    signals->is_off = pthread_sigmask(SIG_SETMASK, &all, &signals->before) == 0;
}

void thread_signals_on(const thread_signals *signals)
{
    if (signals->is_off)
        (void)pthread_sigmask(SIG_SETMASK, &signals->before, NULL); /* it is what it was */
}

int thread_start(pthread_t *out, void *(*run)(void *context), void *context)
{
    thread_signals signals;
    thread_signals_off(&signals); /* inherited by the new thread */
    if (!signals.is_off)
        return EINVAL;
    int error = create(out, run, context);
    thread_signals_on(&signals);
    return error;
}
