/* "Did you mean": of the names that are offered, the one nearest to what was typed, by edit
 * distance (insertions, deletions, changes). A beginning of a name counts as near, however much is
 * missing. */
#ifndef SEMEL_PROGRAM_SUPPORT_NEAREST_H
#define SEMEL_PROGRAM_SUPPORT_NEAREST_H

#include <stddef.h>

typedef struct nearest {
    const char *typed;
    const char *name; /* NULL: none is near */
    size_t far;
} nearest;

/* `best` has `typed` set and is otherwise zeroed. The name is kept, not copied. */
void nearest_offer(nearest *best, const char *name);

#endif
