/* SIGPIPE, which a write to a connection that is gone raises, and which ends a process that does
 * not expect it. What is done with signals is the application's to say, so it is kept from the
 * thread that writes, for as long as that takes. */
#ifndef SEMEL_BASE_SIGPIPE_H
#define SEMEL_BASE_SIGPIPE_H

#include <signal.h>

typedef struct sigpipe_guard {
    sigset_t before; /* the thread's mask */
    int is_up;
    int was_pending;
} sigpipe_guard;

/* From here on none comes to this thread, if `needed`; and one that was raised in between never
 * does. */
void sigpipe_guard_up(sigpipe_guard *guard, int needed);
void sigpipe_guard_down(const sigpipe_guard *guard);

/* Runs `start`, which may change what the process does with SIGPIPE, and takes that back. */
void sigpipe_undisturbed(void (*start)(void));

#endif
