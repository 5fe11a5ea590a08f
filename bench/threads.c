/* Threads that are made once and then wait for work. They take the next few messages from where the
 * last one stopped, so the others do not wait at the end for a thread that was delayed by the
 * disk. */
#include "server.h"

#include <pthread.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    size_t made;       /* threads */
    size_t generation; /* of the work */
    size_t wanted, busy;
    thread_job *job;
    void *context;
    const message_set *set;
    size_t batch;
    atomic_size_t next;
} threads = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .work = PTHREAD_COND_INITIALIZER,
             .done = PTHREAD_COND_INITIALIZER};

static void do_share(size_t worker)
{
    for (;;) {
        size_t from = atomic_fetch_add(&threads.next, threads.batch);
        if (from >= threads.set->count)
            return;
        size_t left = threads.set->count - from;
        threads.job(threads.context, worker, threads.set->pointers + from,
                    left < threads.batch ? left : threads.batch);
    }
}

static void *work_forever(void *argument)
{
    size_t worker = (size_t)argument, seen = 0;
    pthread_mutex_lock(&threads.lock);
    for (;;) {
        while (threads.generation == seen || worker >= threads.wanted) {
            seen = threads.generation;
            pthread_cond_wait(&threads.work, &threads.lock);
        }
        seen = threads.generation;
        pthread_mutex_unlock(&threads.lock);
        do_share(worker);
        pthread_mutex_lock(&threads.lock);
        if (--threads.busy == 0)
            pthread_cond_signal(&threads.done);
    }
    return NULL;
}

static void make_threads(size_t count)
{
    pthread_t thread;
    for (; threads.made < count; threads.made++)
        if (pthread_create(&thread, NULL, work_forever, (void *)threads.made) != 0 ||
            pthread_detach(thread) != 0)
            die("cannot start a thread");
}

void threads_run(size_t workers, size_t batch, const message_set *set, thread_job *job,
                 void *context)
{
    if (workers > THREADS_MAX)
        die("%zu threads; THREADS_MAX is %d", workers, THREADS_MAX);
    pthread_mutex_lock(&threads.lock);
    make_threads(workers);
    threads.wanted = threads.busy = workers;
    threads.job = job;
    threads.context = context;
    threads.set = set;
    threads.batch = batch;
    atomic_store(&threads.next, 0);
    threads.generation++;
    pthread_cond_broadcast(&threads.work);
    while (threads.busy)
        pthread_cond_wait(&threads.done, &threads.lock);
    pthread_mutex_unlock(&threads.lock);
}

/* --- loops by hand ---------------------------------------------------------------------------- */

void raw_workers_open(raw_workers *g, const char *url, const char *room)
{
    for (size_t i = 0; i < g->workers; i++)
        g->connections[i] = g->on->open(url, room);
}

void raw_workers_close(raw_workers *g)
{
    for (size_t i = 0; i < g->workers; i++)
        g->on->close(g->connections[i]);
}

static void raw_workers_job(void *context, size_t worker, const semel_message *const messages[],
                            size_t count)
{
    raw_workers *g = context;
    do
        g->work(g->connections[worker], messages, count);
    while (g->on->again && g->on->again(g->connections[worker]));
}

void raw_workers_run(void *context, const message_set *set)
{
    raw_workers *g = context;
    threads_run(g->workers, g->batch, set, raw_workers_job, g);
}
