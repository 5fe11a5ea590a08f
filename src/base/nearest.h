/* Which known name was probably meant. A leaf without state: the program is compiled with it, too,
 * since the library does not export it. */
#ifndef SEMEL_BASE_NEAREST_H
#define SEMEL_BASE_NEAREST_H

#include <stddef.h>

enum { NEAREST_LETTERS_MAX = 64, NEAREST_CHANGES_MAX = 2 };
#define NEAREST_NONE ((size_t)-1)

/* How many letters have to be left out, added or changed to make one text of the other;
 * NEAREST_NONE if one of them has more than NEAREST_LETTERS_MAX. */
size_t nearest_distance(const char *a, size_t a_len, const char *b, size_t b_len);

/* How far a known name is from what was written: 0 if it begins with it, however much is missing;
 * else their distance; NEAREST_NONE if more than NEAREST_CHANGES_MAX letters, or all of the name,
 * would have to change. */
size_t nearest_rank(const char *written, const char *known);

#endif
