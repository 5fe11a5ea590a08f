/* See groups.h. */
#include "program/handler/groups.h"

#include "program/support/memory.h"

#include <pthread.h>
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all of this */
static pid_t *pids;
static size_t count, room;

void groups_begin(void)
{
    pthread_mutex_lock(&lock);
}

void groups_end(pid_t pid)
{
    if (pid > 0) {
        if (count == room) {
            room = room ? room * 2 : 64;
            pids = must_realloc(pids, room * sizeof *pids);
        }
        pids[count++] = pid;
    }
    pthread_mutex_unlock(&lock);
}

void groups_remove(pid_t pid)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid) {
            pids[i] = pids[--count];
            break;
        }
    pthread_mutex_unlock(&lock);
}

void groups_kill(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        (void)kill(-pids[i], SIGKILL);
}
