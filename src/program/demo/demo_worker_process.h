/* A shop as the provider sees it: a process with two sockets. */
#ifndef SEMEL_CLI_DEMO_WORKER_PROCESS_H
#define SEMEL_CLI_DEMO_WORKER_PROCESS_H

#include <sys/types.h>

typedef struct worker {
    pid_t pid; /* 0: there is none */
    int deliveries;
    int events;
} worker;

/* Starts the shop of that name. Returns 0, or an errno. */
int worker_start(worker *out, const char *shop, const char *database);

/* SIGKILL, and waits until it is gone. Its sockets stay open: what it said last is still in
 * them. */
void worker_kill(worker *self);

/* Waits for a worker that is ending by itself; its exit status, or 128 and the signal. */
int worker_reap(worker *self);

void worker_close(worker *self);

#endif
