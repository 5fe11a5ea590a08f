/* Threads of the program. */
#ifndef SEMEL_PROGRAM_SUPPORT_THREAD_H
#define SEMEL_PROGRAM_SUPPORT_THREAD_H

#include <pthread.h>

/* Starts a thread in which every signal is blocked: signals are for the thread that waits for them.
 * 0, or an errno. */
int start_thread(pthread_t *out, void *(*run)(void *context), void *context);

#endif
