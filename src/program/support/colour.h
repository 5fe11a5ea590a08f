/* Colour on a terminal: what a text is, in the eight basic colours. It only repeats what the words
 * say, so a text loses nothing without it. A pipe gets none. */
#ifndef SEMEL_PROGRAM_SUPPORT_COLOUR_H
#define SEMEL_PROGRAM_SUPPORT_COLOUR_H

#include "program/support/memory.h"

typedef enum colour_kind {
    COLOUR_ERROR,   /* red */
    COLOUR_WARNING, /* yellow */
    COLOUR_GOOD,    /* green */
    COLOUR_NAME,    /* bold */
    COLOUR_QUIET    /* dim: times, and what is read last */
} colour_kind;

/* --color of any command, for the whole process: auto, always or never; 0 if it is another word.
 * arguments_read() calls it, before there are threads. */
int colour_choose(const char *word);

/* Whether a text that goes to `fd` has colour: auto is a terminal, unless NO_COLOR is set or TERM
 * is dumb or missing. */
int colour_on(int fd);

/* What begins and ends a coloured text; "" if it is not `on`. */
const char *colour_begin(int on, colour_kind of);
const char *colour_end(int on);

/* Adds the text between both. The text is neutralised by the caller. */
void colour_text(buffer *to, int on, colour_kind of, const char *text);

#endif
