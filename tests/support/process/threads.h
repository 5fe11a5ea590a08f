/* Many threads that begin at the same moment, and all must end. */
#ifndef SEMEL_TESTS_THREADS_H
#define SEMEL_TESTS_THREADS_H

#include <pthread.h>

enum { CREW_MAX = 64 };

typedef struct crew_member {
    unsigned index;
    void *context;
    void (*work)(struct crew_member *member);
    pthread_barrier_t *start;
    pthread_t thread;
} crew_member;

/* Runs `work` in `count` threads; 1 if all of them ended in time. Threads that did not are left behind, so
 * the test must end then. */
int crew_run(unsigned count, void (*work)(crew_member *member), void *context);

/* One thread; crew_join() is 0 if it did not end in time. */
void crew_start(crew_member *member, void (*work)(crew_member *member), void *context);
int crew_join(crew_member *member, unsigned deadline_ms);

#endif
