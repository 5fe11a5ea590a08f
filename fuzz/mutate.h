/* Inputs made of other inputs, for the driver. The same seed gives the same inputs, always and
 * everywhere. */
#ifndef SEMEL_FUZZ_MUTATE_H
#define SEMEL_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

typedef struct blob {
    unsigned char *bytes;
    size_t len;
} blob;

/* Inputs or words. */
typedef struct blobs {
    blob *all;
    size_t count;
} blobs;

typedef struct mutator {
    uint64_t state; /* the seed, to begin with */
    const blobs *inputs;
    const blobs *words;
} mutator;

/* One of the inputs with a few changes, into `out`; its length. */
size_t mutate(mutator *m, unsigned char *out, size_t room);

#endif
