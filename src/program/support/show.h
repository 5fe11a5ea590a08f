/* How values are shown to people: keys, texts of others, numbers, durations, times. All of it is
 * ASCII but for valid UTF-8 of others, and one line. */
#ifndef SEMEL_PROGRAM_SUPPORT_SHOW_H
#define SEMEL_PROGRAM_SUPPORT_SHOW_H

#include "program/support/memory.h"

#include <semel/message.h>
#include <stdint.h>

/* A text from a message, a server or a file: control characters become \x1b, a newline \n, what is
 * not UTF-8 \xff, so that it is one line and no terminal obeys it. At most `most` bytes of the
 * text; more is cut and followed by "..."; 0: all. */
void show_text(buffer *to, const void *text, size_t len, size_t most);

/* A key in a form that can be entered again: as text if it is printable UTF-8 without spaces at its
 * ends and does not look like one of the other forms, else hex:00ff3a. */
void show_key(buffer *to, semel_bytes key);

/* The same for a key as a store keeps it (SEMEL_KEY_MAX): of a long one, sha256: and its digest. */
void show_stored_key(buffer *to, semel_bytes key);

/* A word of a command line as it can be typed again: in quotes, if a shell would change it. */
void show_argument(buffer *to, const char *text);

/* A string of JSON, with its quotes. What is not UTF-8 becomes U+FFFD. */
void show_json(buffer *to, const void *text, size_t len);

void show_number(buffer *to, uint64_t number); /* 1,204 */

/* A measured time: 2.1 ms, 14 ms, 47.8 s, 14m 20s, 18h 0m, 3d 4h. */
void show_duration(buffer *to, int64_t ns);

void show_clock(buffer *to, int64_t wall_ms);  /* 14:02:58.101, local time */
void show_moment(buffer *to, int64_t wall_ms); /* 2026-03-14 02:41:15, local time */
void show_moment_utc(buffer *to, int64_t wall_ms);
void show_rfc3339(buffer *to, int64_t wall_ms); /* 2026-03-14T01:41:15.402Z */

int64_t wall_clock_ms(void);
int64_t steady_clock_ns(void);

#endif
