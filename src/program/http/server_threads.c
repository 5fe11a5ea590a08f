/* The workers, which call the handler, and their queue. It is as long as there are connections at
 * most: each has one request at a time. */
#include "program/http/server_internal.h"
#include "program/support/thread.h"

#include <stdlib.h>

int http_take_request(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    int taken = !s->is_draining;
    s->pending += (size_t)taken;
    pthread_mutex_unlock(&s->lock);
    return taken;
}

void http_queue_request(http_server *s, http_request *r)
{
    pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* NULL: the workers are to end. */
static http_request *next_request(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->first && !s->workers_end)
        pthread_cond_wait(&s->work, &s->lock);
    http_request *r = s->first;
    if (r) {
        s->first = r->next;
        s->last = s->first ? s->last : NULL;
        r->next = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

static void *work(void *context)
{
    http_server *s = context;
    for (http_request *r; (r = next_request(s));)
        s->options.handle(r, s->options.context);
    return NULL;
}

int http_workers_open(http_server *s)
{
    uint32_t count = s->options.workers ? s->options.workers : 1;
    int error = 0;
    s->workers = must_alloc(count * sizeof *s->workers);
    while (!error && s->worker_count < count) {
        error = start_thread(&s->workers[s->worker_count], work, s);
        s->worker_count += !error;
    }
    return error;
}

void http_workers_close(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->workers_end = 1;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->worker_count; i++)
        (void)pthread_join(s->workers[i], NULL);
    free(s->workers);
}
