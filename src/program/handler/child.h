/* A child process: started without a shell, fed and read without deadlocks, ended for certain.
 *
 * exec, worker and `semel exec` share it. Everything that a child is to be is prepared before
 * fork(); between fork() and execve() only async-signal-safe calls are made. The child has
 *  - its own process group (unless it shares ours), so that what it starts is ended with it;
 *  - no descriptors but 0, 1 and 2;
 *  - the default disposition of every signal, and none blocked;
 *  - SIGKILL as its parent-death signal: it does not outlive a kill -9 of semel. The kernel sends
 *    that when the *thread* that started the child ends, so the thread must outlive the child.
 * What a child has started itself survives a kill -9 of semel; it is ended in all other cases in
 * which the child is.
 *
 * One thread at a time uses a child. Only waitid() and waitpid() with its own pid are called, so
 * children of other threads are never reaped here. A child stays a zombie until child_close(), so
 * that its pid, and the number of its group, cannot become those of another process before. */
#ifndef SEMEL_PROGRAM_HANDLER_CHILD_H
#define SEMEL_PROGRAM_HANDLER_CHILD_H

#include "program/config/config.h"
#include "program/support/memory.h"

#include <poll.h>
#include <sys/types.h>

enum {
    CHILD_LINE_MAX = 300,      /* bytes of the last line of stderr that are kept */
    CHILD_GRACE_MS = 3000,     /* from SIGTERM to SIGKILL */
    CHILD_LINGER_MS = 1000,    /* how long a pipe may stay open after the child has ended */
    CHILD_OTHERS_MAX = 4,      /* descriptors of the caller that child_step() waits for */
    CHILD_NOT_FOUND = 127,     /* what a shell exits with if there is no such program, */
    CHILD_NOT_EXECUTABLE = 126 /* and if it cannot be executed */
};

typedef enum child_stream { CHILD_NULL = 0, CHILD_PIPE, CHILD_INHERIT } child_stream;

typedef struct child_spec {
    const char *const *argv; /* the last one is followed by NULL */
    const char *path;        /* of the program; relative to `directory` */
    const char *const *env;  /* NAME=VALUE, the last one followed by NULL */
    const char *directory;   /* NULL: ours */
    child_stream in, out, err;
    const limits_config *limits; /* NULL: ours; else without core files, too */
    size_t output_max;           /* bytes of stdout in hand; more is child.output_exceeded */
    int shares_group;            /* stays in our process group: for a child at a terminal */
    int keeps_ignored_hangup;    /* SIGHUP stays ignored if it is: nohup(1) */
    int spares_descendants;      /* what a child that ended by itself has started may go on */
} child_spec;

typedef struct child {
    pid_t pid;
    int pidfd; /* -1: this kernel has none */
    int has_group;
    int in, out, err;  /* our ends of the pipes; -1: closed */
    semel_bytes input; /* what is left to write, borrowed */
    int keeps_input;   /* stdin stays open once `input` is written */
    buffer output;     /* what was read from stdout; the caller may take bytes from it */
    size_t output_max;
    int output_exceeded;
    int output_paused; /* stdout is not read for now */
    char line[CHILD_LINE_MAX], last[CHILD_LINE_MAX];
    size_t line_len, last_len; /* of stderr: the line that has begun, and the one before it */
    int ended;
    int exit_status; /* if it exited; */
    int signal;      /* or which signal has ended it, or 0 */
    int64_t ended_ms;
    int spares_descendants;
} child;

/* Milliseconds of the clock that all deadlines here are told in; it never jumps. */
int64_t child_clock_ms(void);

/* Looks for the program like a shell: a name with a slash is a path (relative to `directory`),
 * another is looked for in `path`, the value of PATH, of which only absolute directories count. 0
 * and the file's path in `memory`; else CHILD_NOT_FOUND or CHILD_NOT_EXECUTABLE. */
int child_find(const char **out, region *memory, const char *name, const char *directory,
               const char *path);

/* Starts the child and waits until it has executed its program. SEMEL_EHANDLER if the program
 * cannot be executed (err->native is CHILD_NOT_FOUND or CHILD_NOT_EXECUTABLE), SEMEL_EUNAVAILABLE
 * if there can be no further process now. The caller closes a child that was started. */
semel_status child_start(child *out, const child_spec *spec, semel_error *err);

/* Writes to and reads from the child as far as that is possible now, or waits for that and for the
 * child's end, or for `others` (which may be NULL), until the given moment at most. */
void child_step(child *c, int64_t until_ms, struct pollfd *others, size_t other_count);

/* 1 if the child has ended and everything that it wrote was read. If something that it has started
 * keeps a pipe open, that is waited for CHILD_LINGER_MS long. */
int child_is_done(const child *c);

/* Sends a signal to the child's group, or to the child if it shares ours. */
void child_signal(const child *c, int number);

/* Ends the child, and its group: SIGTERM, after CHILD_GRACE_MS SIGKILL. */
void child_stop(child *c);

/* Ends a child that runs, ends what keeps its pipes open, takes its status and frees everything. A
 * zeroed child is closed already. */
void child_close(child *c);

/* What ended it, for an error: exit 1: the last line of stderr; signal 9 (KILL): ... */
void child_describe(buffer *to, const child *c);

#endif
