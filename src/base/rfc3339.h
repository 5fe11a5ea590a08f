/* Time as text (RFC 3339), to and from milliseconds since 1970 UTC. */
#ifndef SEMEL_BASE_RFC3339_H
#define SEMEL_BASE_RFC3339_H

#include <stddef.h>
#include <stdint.h>

enum { RFC3339_TEXT = 24 }; /* 2026-02-28T23:59:59.999Z */

/* Strict: 1 if all of the text is a time of the years 0 to 9999, in UTC. Digits past the
 * millisecond are cut off. */
int rfc3339_parse(int64_t *out_ms, const char *text, size_t len);

/* In UTC, with milliseconds. 0 if the year does not have four digits. */
int rfc3339_format(char out[RFC3339_TEXT + 1], int64_t ms);

#endif
