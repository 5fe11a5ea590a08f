/* Following outcomes: from the sockets of the processes on this host, and, while no process runs,
 * from the store, which knows what became a dead letter. */
#ifndef SEMEL_PROGRAM_WATCH_FOLLOW_H
#define SEMEL_PROGRAM_WATCH_FOLLOW_H

#include "program/operate/filters.h"

/* Until the output is closed: then CLI_OK. */
int follow(tool *t, const filters *wanted);

#endif
