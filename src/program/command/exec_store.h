/* The store and the inbox of `semel exec`. */
#ifndef SEMEL_PROGRAM_COMMAND_EXEC_STORE_H
#define SEMEL_PROGRAM_COMMAND_EXEC_STORE_H

#include "program/command/exec_options.h"

typedef struct exec_store {
    region memory;
    struct config *config; /* of -c, or NULL */
    semel_store *store;
    semel_inbox *inbox;
} exec_store;

/* 0, or the exit status after a complaint. The caller closes it in both cases. */
int exec_store_open(exec_store *out, const exec_options *o);
void exec_store_close(exec_store *s);

#endif
