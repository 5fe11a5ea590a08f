/* Warm processes of one worker handler, each of which answers one message at a time.
 *
 * A process is started when a message needs it and no other is free. One that has ended, or that
 * did what the protocol does not allow, is replaced; if it ends again and again without an answer,
 * each replacement waits longer. The kernel kills a process when the thread that started it ends
 * (child.h), so the pool has a thread of its own for that, which lives until all processes have
 * ended. */
#ifndef SEMEL_PROGRAM_HANDLER_WORKER_POOL_H
#define SEMEL_PROGRAM_HANDLER_WORKER_POOL_H

#include "program/handler/attempt.h"
#include "program/handler/program.h"

typedef struct worker_pool worker_pool;

typedef struct worker_process {
    child child;
    int running;
    int taken;
    int to_start; /* the pool's thread is asked to start it */
    semel_status started;
    semel_error trouble;
    int answered;          /* at least once since it was started */
    unsigned deaths;       /* in a row, without an answer */
    int64_t not_before_ms; /* when it may be started again */
} worker_process;

/* `env` ends with NULL; program and environment are borrowed. */
semel_status worker_pool_open(worker_pool **out, const program *of, const char *const *env,
                              uint32_t processes, semel_error *err);

/* Ends the processes: stdin is closed first, and those that do not end then are killed. All must
 * have been given back. */
void worker_pool_close(worker_pool *pool);

/* Takes a process that runs and has nothing to say, and waits as long as there is none. Else the
 * status is that of attempt_continue(), or SEMEL_EHANDLER if it cannot be started. */
semel_status worker_pool_take(worker_process **out, worker_pool *pool, attempt *a,
                              semel_error *err);

/* keep 0: the process is ended, and replaced by the next that is needed. */
void worker_pool_give_back(worker_pool *pool, worker_process *w, int keep);

/* Writes a line, with its newline, and waits for the line that answers it, which is valid until the
 * process is given back. After a failure the process must not be kept. */
semel_status worker_ask(semel_bytes *answer, worker_process *w, semel_bytes line, attempt *a,
                        semel_error *err);

#endif
