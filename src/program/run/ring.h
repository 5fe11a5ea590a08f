/* Things on their way from threads that must not wait to one that may: a bounded queue without
 * locks for many writers and one reader. When it is full, nothing is taken. */
#ifndef SEMEL_PROGRAM_RUN_RING_H
#define SEMEL_PROGRAM_RUN_RING_H

#include <stddef.h>

typedef struct ring ring;

ring *ring_open(size_t places); /* a power of two */
void ring_close(ring *all);     /* frees what is left; no writer may be left */

/* What was allocated. 1: the ring frees it or hands it out; 0: it is full, and the thing stays the
 * caller's. */
int ring_push(ring *all, void *thing);

/* As far as a writer can know: then there is no use in making something. */
int ring_is_full(ring *all);

/* NULL: there is none. The caller frees it. For one thread at a time. */
void *ring_pop(ring *all);

#endif
