/* The invariants of the keyed outbox (design note of src/store/keyed/outbox.c), looked for in all
 * records of a database in memory. */
#ifndef SEMEL_TESTS_OUTBOX_INVARIANTS_H
#define SEMEL_TESTS_OUTBOX_INVARIANTS_H

#include "support/keyed/memory_adapter.h"

typedef struct outbox_counts {
    size_t messages, ready, places, groups;
} outbox_counts;

/* 1 if they hold. Otherwise `text` says what is wrong. `counts` may be NULL. */
int outbox_invariants_hold(keyed_memory *memory, outbox_counts *counts, char *text, size_t size);

#endif
