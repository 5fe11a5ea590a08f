/* See threads.h. */
#include "support/process/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DEADLINE_MS = 120000 };

static void *run(void *argument)
{
    test_thread *member = argument;
    if (member->start)
        pthread_barrier_wait(member->start);
    member->work(member);
    return NULL;
}

static void start(test_thread *member)
{
    if (pthread_create(&member->thread, NULL, run, member) != 0) {
        perror("pthread_create");
        abort();
    }
}

void test_thread_start(test_thread *member, void (*work)(test_thread *member), void *context)
{
    *member = (test_thread){.context = context, .work = work};
    start(member);
}

int test_thread_join(test_thread *member, unsigned deadline_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += deadline_ms / 1000;
    until.tv_nsec += (long)(deadline_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return pthread_timedjoin_np(member->thread, NULL, &until) == 0;
}

int threads_run(unsigned count, void (*work)(test_thread *member), void *context)
{
    static test_thread members[THREADS_MAX];
    static pthread_barrier_t gate;
    int ended = 1;
    pthread_barrier_init(&gate, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        members[i] = (test_thread){.index = i, .context = context, .work = work, .start = &gate};
        start(&members[i]);
    }
    for (unsigned i = 0; i < count && ended; i++)
        ended = test_thread_join(&members[i], DEADLINE_MS);
    if (ended)
        pthread_barrier_destroy(&gate);
    return ended;
}
