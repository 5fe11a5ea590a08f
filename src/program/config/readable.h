/* Reading files that others must not change, or not see. */
#ifndef SEMEL_PROGRAM_CONFIG_READABLE_H
#define SEMEL_PROGRAM_CONFIG_READABLE_H

#include "program/support/memory.h"

typedef struct readable_problem {
    char text[512];
} readable_problem;

/* A file with a secret: a regular file that other users cannot read (members of its group may, if
 * it belongs to root). `shown` is its name in the problem. Returns 0 after a problem. */
int readable_secret(buffer *out, const char *path, const char *shown, size_t most,
                    readable_problem *problem);

/* A file that defines commands: owned by the user or by root, and writable by no one else. *mode is
 * its permissions. "-" is the standard input. */
int readable_config(buffer *out, const char *path, size_t most, unsigned *mode,
                    readable_problem *problem);

/* A document, which is only looked at: any file. */
int readable_document(buffer *out, const char *path, size_t most, readable_problem *problem);

/* 1 if users other than the owner (and members of root's chosen group) may read it. */
int readable_by_others(unsigned mode, int is_of_root);

#endif
