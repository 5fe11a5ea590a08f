/* What `semel exec` was called with. */
#ifndef SEMEL_PROGRAM_COMMAND_EXEC_OPTIONS_H
#define SEMEL_PROGRAM_COMMAND_EXEC_OPTIONS_H

#include "program/support/memory.h"

#include <semel/semel.h>

/* Every other status is the command's, so a mistake in the call is not 2 here. */
enum {
    EXEC_BUSY = 75,
    EXEC_FAILED = 125,
    EXEC_DUPLICATE = 5,
    EXEC_WAIT_DEFAULT_MS = 5000,
    EXEC_LEASE_MS = 15000
};

typedef struct exec_options {
    region memory;
    const char *typed_key;
    semel_bytes key;
    const char *shown_key; /* as it is printed */
    const char *inbox;
    const char *store;  /* NULL: not said */
    const char *config; /* NULL: none */
    uint64_t retention_ms;
    uint64_t wait_ms;
    uint64_t lease_ms; /* not for people: tests do not wait as long as a killed call makes others */
    int replay;
    int fail_on_duplicate;
    int verbose;
    const char *const *command;
} exec_options;

/* 0, or the exit status after a complaint. */
int exec_options_read(exec_options *out, int argc, char **argv);

#endif
