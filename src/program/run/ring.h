/* Lines on their way from threads that must not wait to one that may: a bounded queue without locks
 * for many writers and one reader. When it is full, a line is not taken. */
#ifndef SEMEL_PROGRAM_RUN_RING_H
#define SEMEL_PROGRAM_RUN_RING_H

#include <stddef.h>

typedef struct ring ring;

ring *ring_open(size_t places); /* a power of two */
void ring_close(ring *all);     /* frees the lines that are left; no writer may be left */

/* 1: the ring frees the line or hands it out; 0: it is full, and the line stays the caller's. */
int ring_push(ring *all, char *line);

/* NULL: there is none. The caller frees it. For one thread at a time. */
char *ring_pop(ring *all);

#endif
