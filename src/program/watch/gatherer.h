/* The thread that reads views for a screen, so that keys are answered while a store is slow. */
#ifndef SEMEL_PROGRAM_WATCH_GATHERER_H
#define SEMEL_PROGRAM_WATCH_GATHERER_H

#include "program/watch/view.h"

typedef struct gatherer gatherer;

/* The tool is the thread's until it has ended. The thread writes to `wake_fd`, an eventfd, when it
 * has something. NULL: it cannot be started. */
gatherer *gatherer_open(tool *t, const argument_list *inboxes, uint64_t every_ms, int wake_fd);

/* 1: it has ended. 0: it is waiting for a store, and cannot be waited for. */
int gatherer_close(gatherer *g);

/* What is new since the last call; NULL: nothing. The caller owns it. */
view *gatherer_take(gatherer *g);

/* The groups of dead letters, read anew with each view while they are wanted; "" at first. */
void gatherer_want_groups(gatherer *g, int wanted);
void gatherer_copy_groups(gatherer *g, buffer *to);

#endif
