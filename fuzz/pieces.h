/* Inputs that are made of lines, split in place: what describes a message, up to an empty line, and
 * then its body. */
#ifndef SEMEL_FUZZ_PIECES_H
#define SEMEL_FUZZ_PIECES_H

#include "property.h"

typedef struct piece {
    char *at;
    size_t len;
} piece;

/* A copy of the input, with room behind it for two NULs; freed with free(). */
static inline piece pieces_of(const void *data, size_t size)
{
    piece all = {malloc(size + 2), size};
    HOLDS(all.at);
    if (size)
        memcpy(all.at, data, size);
    memset(all.at + size, 0, 2);
    return all;
}

/* Up to `end`, behind which `from` then begins; all of it if there is no such character. A NUL is
 * where it ends. */
static inline piece take_until(piece *from, char end)
{
    char *found = from->len ? memchr(from->at, end, from->len) : NULL;
    piece taken = {from->at, found ? (size_t)(found - from->at) : from->len};
    size_t used = taken.len + (found != NULL);
    taken.at[taken.len] = 0; /* behind the input there is room for it */
    *from = (piece){from->at + used, from->len - used};
    return taken;
}

/* The next line that is not empty, as name and value around the first "="; 0 if there is none. */
static inline int take_line(piece *name, piece *value, piece *from)
{
    if (!from->len)
        return 0;
    *value = take_until(from, '\n');
    if (!value->len)
        return 0;
    *name = take_until(value, '=');
    return 1;
}

#endif
