/* Many threads that begin at the same moment, and all must end. */
#ifndef SEMEL_TESTS_THREADS_H
#define SEMEL_TESTS_THREADS_H

#include <pthread.h>

enum { THREADS_MAX = 64 };

typedef struct test_thread {
    unsigned index;
    void *context;
    void (*work)(struct test_thread *member);
    pthread_barrier_t *start;
    pthread_t thread;
} test_thread;

/* Runs `work` in `count` threads; 1 if all of them ended in time. Threads that did not are left
 * behind, so the test must end then. */
int threads_run(unsigned count, void (*work)(test_thread *member), void *context);

/* One thread; test_thread_join() is 0 if it did not end in time. */
void test_thread_start(test_thread *member, void (*work)(test_thread *member), void *context);
int test_thread_join(test_thread *member, unsigned deadline_ms);

#endif
