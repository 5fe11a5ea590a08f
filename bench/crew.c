/* Threads that are made once and then wait for work. They take the next few messages from where the last one
 * stopped, so nobody waits at the end for one who had bad luck with the disk. */
#include "server.h"

#include <pthread.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    size_t made;       /* threads */
    size_t generation; /* of the work */
    size_t wanted, busy;
    crew_job *job;
    void *context;
    const message_set *set;
    size_t batch;
    atomic_size_t next;
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static void do_share(size_t worker)
{
    for (;;) {
        size_t from = atomic_fetch_add(&crew.next, crew.batch);
        if (from >= crew.set->count)
            return;
        size_t left = crew.set->count - from;
        crew.job(crew.context, worker, crew.set->pointers + from,
                 left < crew.batch ? left : crew.batch);
    }
}

static void *work_forever(void *argument)
{
    size_t worker = (size_t)argument, seen = 0;
    pthread_mutex_lock(&crew.lock);
    for (;;) {
        while (crew.generation == seen || worker >= crew.wanted) {
            seen = crew.generation;
            pthread_cond_wait(&crew.work, &crew.lock);
        }
        seen = crew.generation;
        pthread_mutex_unlock(&crew.lock);
        do_share(worker);
        pthread_mutex_lock(&crew.lock);
        if (--crew.busy == 0)
            pthread_cond_signal(&crew.done);
    }
    return NULL;
}

static void make_threads(size_t count)
{
    pthread_t thread;
    for (; crew.made < count; crew.made++)
        if (pthread_create(&thread, NULL, work_forever, (void *)crew.made) != 0 ||
            pthread_detach(thread) != 0)
            die("cannot start a thread");
}

void crew_run(size_t workers, size_t batch, const message_set *set, crew_job *job, void *context)
{
    if (workers > CREW_MAX)
        die("a crew of %zu; CREW_MAX is %d", workers, CREW_MAX);
    pthread_mutex_lock(&crew.lock);
    make_threads(workers);
    crew.wanted = crew.busy = workers;
    crew.job = job;
    crew.context = context;
    crew.set = set;
    crew.batch = batch;
    atomic_store(&crew.next, 0);
    crew.generation++;
    pthread_cond_broadcast(&crew.work);
    while (crew.busy)
        pthread_cond_wait(&crew.done, &crew.lock);
    pthread_mutex_unlock(&crew.lock);
}

/* --- loops by hand --------------------------------------------------------------------------------------- */

void gang_open(gang *g, const char *url, const char *room)
{
    for (size_t i = 0; i < g->workers; i++)
        g->hands[i] = g->on->open(url, room);
}

void gang_close(gang *g)
{
    for (size_t i = 0; i < g->workers; i++)
        g->on->close(g->hands[i]);
}

static void gang_job(void *context, size_t worker, const semel_message *const messages[],
                     size_t count)
{
    gang *g = context;
    do
        g->work(g->hands[worker], messages, count);
    while (g->on->again && g->on->again(g->hands[worker]));
}

void gang_run(void *context, const message_set *set)
{
    gang *g = context;
    crew_run(g->workers, g->batch, set, gang_job, g);
}
