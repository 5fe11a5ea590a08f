/* The program that exec and worker handlers run: found and checked once, when the handler is
 * opened. */
#ifndef SEMEL_PROGRAM_HANDLER_PROGRAM_H
#define SEMEL_PROGRAM_HANDLER_PROGRAM_H

#include "program/handler/child.h"
#include "program/handler/environment.h"

typedef struct program {
    region memory;
    const config_list *command;
    const char *path;
    const char *directory;
    environment env;
    limits_config limits; /* with the default of output_bytes */
} program;

/* SEMEL_EINVAL if there is no such program, or it cannot be executed. */
semel_status program_open(program *out, const config *all, const config_list *command,
                          const config_pairs *env, const limits_config *limits, semel_error *err);
void program_close(program *p);

/* What a child needs of it; the caller adds streams and environment. */
child_spec program_child(const program *p);

#endif
