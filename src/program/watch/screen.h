/* The terminal as a screen that is drawn again and again: without flicker, and always given back as
 * it was. Signals and keys come by descriptors. */
#ifndef SEMEL_PROGRAM_WATCH_SCREEN_H
#define SEMEL_PROGRAM_WATCH_SCREEN_H

#include "program/support/memory.h"

/* Are both ends a terminal that can do this? */
int screen_is_possible(void);

/* Before any other thread is started: signals are blocked in all of them. -1: it cannot be had. */
int screen_open(void);
void screen_close(void); /* also at the end of the program, whatever ends it */

void screen_size(size_t *rows, size_t *columns);

/* Shows these lines, cut at the edge; the last row is for `bottom`. */
void screen_draw(const char *text, const char *bottom);

typedef enum screen_event {
    SCREEN_NOTHING = 0,
    SCREEN_KEY,
    SCREEN_RESIZED, /* or the terminal was given back to the program: draw again */
    SCREEN_WOKEN,   /* something was written to the eventfd */
    SCREEN_ENDED    /* by a signal, or the terminal has gone */
} screen_event;

/* Waits for the next event. *key is the key, or the exit status that fits the signal. */
screen_event screen_wait(int *key, int wake_fd);

#endif
