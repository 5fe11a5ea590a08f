/* What may be drawn where, and how numbers are written. */
#ifndef SEMEL_CLI_DEMO_SCREEN_H
#define SEMEL_CLI_DEMO_SCREEN_H

#include <stddef.h>
#include <stdint.h>

/* Of stdout or of stderr. All 0 in a pipe: plain lines of ASCII. */
typedef struct screen {
    int live;   /* both are a terminal that can redraw lines */
    int colour; /* a terminal, and NO_COLOR is not set */
    int utf8;   /* and it shows more than ASCII */
    int columns;
} screen;

screen screen_look(int fd);

/* The escape codes, or "" where there is no colour. */
typedef enum ink { INK_PLAIN, INK_GOOD, INK_BAD, INK_DIM, INK_BOLD } ink;
const char *screen_ink(const screen *on, ink colour);

/* 1234567 as 1,234,567. Returns `out`. */
char *text_number(char *out, size_t size, int64_t number);

/* Cents as an amount of euros: €1,234.50, or EUR 1,234.50 in ASCII. Returns `out`. */
char *text_money(char *out, size_t size, int64_t cents, const screen *on);

/* How many columns a text takes: in UTF-8, of the few characters that are used here. */
int text_width(const char *text);

#endif
