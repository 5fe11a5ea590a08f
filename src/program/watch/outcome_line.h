/* An outcome as `semel tail` prints it, in columns that grow with what they hold. */
#ifndef SEMEL_PROGRAM_WATCH_OUTCOME_LINE_H
#define SEMEL_PROGRAM_WATCH_OUTCOME_LINE_H

#include "program/support/memory.h"

#include <stdint.h>

typedef struct outcome_line {
    int64_t at_ms;
    const char *inbox, *key, *outcome;
    int64_t took_us; /* 0: no handler ran */
    uint32_t attempt, attempts_max;
    const char *error; /* NULL: none */
} outcome_line;

typedef struct outcome_widths {
    size_t inbox, key;
} outcome_widths;

/* Neutralised, with the newline. */
void outcome_line_write(buffer *to, const outcome_line *line, outcome_widths *widths);

/* Reads a line of the socket; 0 if it is none. Texts are in `memory`. */
int outcome_line_read(outcome_line *out, const char *json, size_t len, region *memory);

/* {"lost":12}: 12; else 0. */
uint64_t outcome_line_lost(const char *json, size_t len);

#endif
