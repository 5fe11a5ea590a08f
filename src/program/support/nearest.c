/* See nearest.h. */
#include "program/support/nearest.h"

#include "base/nearest.h"

void nearest_offer(nearest *best, const char *name)
{
    size_t far = nearest_rank(best->typed, name);
    if (far != NEAREST_NONE && (!best->name || far < best->far)) {
        best->name = name;
        best->far = far;
    }
}
