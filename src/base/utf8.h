/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef SEMEL_BASE_UTF8_H
#define SEMEL_BASE_UTF8_H

#include <stddef.h>

/* The length of the sequence at `at`, 1 to 4; 0 if there is none within the `left` (1 or more)
 * bytes. */
size_t utf8_sequence(const unsigned char *at, size_t left);

int utf8_valid(const void *data, size_t len);

/* Every byte that is no part of a sequence becomes a question mark. */
void utf8_mend(char *text);

/* Valid, and without control characters (C0, DEL, C1): what a person may be shown on one line. */
int utf8_plain(const void *data, size_t len);

#endif
