/* Edit distance: letters left out, added and changed. */
#include "base/nearest.h"

#include <string.h>

static size_t least(size_t a, size_t b, size_t c)
{
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* One row of the table of distances at a time; row[j] is the distance to the first j letters of
 * b. */
size_t nearest_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[NEAREST_LETTERS_MAX + 1];
    if (a_len > NEAREST_LETTERS_MAX || b_len > NEAREST_LETTERS_MAX)
        return NEAREST_NONE;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];
            row[j] = least(row[j - 1] + 1, above + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

size_t nearest_rank(const char *written, const char *known)
{
    size_t len = strlen(written), known_len = strlen(known);
    if (len && strncmp(written, known, len) == 0)
        return 0;
    size_t far = nearest_distance(written, len, known, known_len);
    return far <= NEAREST_CHANGES_MAX && far < known_len ? far : NEAREST_NONE;
}
