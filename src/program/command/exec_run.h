/* The command of `semel exec`, as the handler of a claim. */
#ifndef SEMEL_PROGRAM_COMMAND_EXEC_RUN_H
#define SEMEL_PROGRAM_COMMAND_EXEC_RUN_H

#include "program/command/exec_options.h"

typedef struct exec_run {
    const exec_options *options;
    /* What became of it: */
    int ran;         /* the command was started, and has ended */
    int not_run;     /* it could not be executed: CHILD_NOT_FOUND or CHILD_NOT_EXECUTABLE */
    int exit_status; /* of the command; 128 + the signal that ended it */
    int signal;      /* or 0 */
    int lost;        /* the lease was lost, and the command was ended */
    uint32_t attempt;
    int output_too_long; /* more than 1 MiB: it was not stored */
    buffer output;       /* for --replay */
} exec_run;

/* A semel_handler, whose context is the exec_run. Called again after the command has succeeded, it
 * does not run it again, but only completes the claim. */
semel_status exec_run_handle(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err);
void exec_run_free(exec_run *run);

#endif
