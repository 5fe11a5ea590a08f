/* "Did you mean": the nearest command by edit distance (insertions, deletions, changes). A beginning of a
 * name counts as near, however much of it is missing. */
#include "cli.h"

#include <string.h>

enum { WORD_MAX = 32, NEAR_ENOUGH = 2 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* One row of the table of distances at a time; row[j] is the distance to the first j letters of b. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t width = strlen(b);
    if (strlen(a) > WORD_MAX || width > WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t changed = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = least(changed, row[j] + 1, diagonal + 1);
        }
    }
    return row[width];
}

static int is_beginning(const char *typed, const char *name)
{
    return *typed && strncmp(typed, name, strlen(typed)) == 0;
}

const char *suggest(const char *typed, const command *commands, size_t count)
{
    const char *nearest = NULL;
    size_t best = NEAR_ENOUGH + 1;
    for (size_t i = 0; i < count; i++) {
        if (!commands[i].summary)
            continue;
        size_t far = is_beginning(typed, commands[i].name) ? 0 : distance(typed, commands[i].name);
        if (far < best && far < strlen(commands[i].name)) {
            nearest = commands[i].name;
            best = far;
        }
    }
    return nearest;
}
