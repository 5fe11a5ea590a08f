/* Threads of the library's own: for a consumer's workers, and for a broker whose protocol needs
 * heartbeats while a handler works. */
#ifndef SEMEL_BASE_THREAD_H
#define SEMEL_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread in which every signal is blocked: they are the program's affair. 0, or an
 * errno. */
int thread_start(pthread_t *out, void *(*run)(void *context), void *context);

/* Around calls of a library that starts threads: they inherit that every signal is blocked. */
typedef struct thread_signals {
    sigset_t before;
    int is_off;
} thread_signals;

void thread_signals_off(thread_signals *signals);
void thread_signals_on(const thread_signals *signals);

#endif
