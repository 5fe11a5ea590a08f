/* A running process as others see it: what its parts share. */
#ifndef SEMEL_PROGRAM_RUN_LIVE_INTERNAL_H
#define SEMEL_PROGRAM_RUN_LIVE_INTERNAL_H

#include "program/run/live.h"
#include "program/run/socket_place.h"
#include "program/run/taps.h"
#include "program/support/unique_id.h"

#include <pthread.h>

enum { LIVE_HOST_SIZE = 256, LIVE_PERIOD_MS = 10000, LIVE_FORGOTTEN_MS = 86400000 };

/* What the process runs, copied from the configuration. */
typedef struct live_names {
    region memory;
    const char *config;   /* the path, absolute */
    const char **inboxes; /* and the queue of each */
    const char **from;
    const char **outboxes;
    const char **queues;
    size_t inbox_count, outbox_count, queue_count;
    size_t broker_count;
} live_names;

typedef struct presence presence;
typedef struct server server;

struct live {
    log *log;
    const outcomes *outcomes;
    meters *meters;
    taps *taps;     /* NULL: there is no socket */
    server *server; /* NULL: the same */
    presence *presence;
    int wake_fd; /* an eventfd: wakes the thread of the socket */
    char id[UNIQUE_ID_SIZE];
    char host[LIVE_HOST_SIZE];
    int64_t started_ms, started_ns;
    char path[SOCKET_PATH_SIZE]; /* "": there is no socket */
    pthread_mutex_t lock;        /* over what follows */
    live_names names;
    char waiting_for[LIVE_COMPONENT_SIZE]; /* "": nothing */
    char waiting_why[256];
    int64_t waiting_ms; /* since when, by the wall clock */
    int was_ready, is_stopping;
    pthread_mutex_t pipeline_lock; /* over the next one, while it is used */
    semel_pipeline *pipeline;
};

/* live_answers.c: JSON, one line without its end. Lock and unlock by themselves. */
void live_write_row(live *all, buffer *to); /* for the store */
void live_write_stats(live *all, buffer *to);

/* live_health.c: asks the store, so it may take seconds. 0: the default of the library. */
void live_write_health(live *all, buffer *to, uint32_t stalled_after_ms);

/* The members that all answers have; the caller has the lock. */
void live_write_process(const live *all, buffer *to);

/* presence.c: the thread that touches the store. */
presence *presence_open(live *all);
void presence_close(presence *p);
void presence_use_store(presence *p, semel_store *store);

/* Asks for health; the answer is made in the thread of the presence, which then writes to
 * wake_fd. One question at a time: 0 if another one is open. */
int presence_ask(presence *p, uint32_t stalled_after_ms);
/* The answer, once: 1, or 0 as long as there is none. */
int presence_take_answer(presence *p, buffer *to);

/* socket.c: NULL if there can be none. */
server *server_open(live *all);
void server_close(server *s);

#endif
