/* `semel top`: gathers views, and shows them on a screen, as blocks of text or as JSON. */
#ifndef SEMEL_PROGRAM_WATCH_TOP_H
#define SEMEL_PROGRAM_WATCH_TOP_H

#include "program/operate/filters.h"

typedef struct top_options {
    uint64_t every_ms;
    int plain;
    const argument_list *inboxes;
} top_options;

/* Until the output is closed. Both return the exit status. */
int top_print(tool *t, const top_options *options);

/* Until a key or a signal ends it. */
int top_screen(tool *t, const top_options *options);

#endif
