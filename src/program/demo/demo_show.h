/* What is seen while the demo runs: on a terminal two bars that move, in a pipe a few lines. On
 * stderr. */
#ifndef SEMEL_CLI_DEMO_SHOW_H
#define SEMEL_CLI_DEMO_SHOW_H

#include "program/demo/demo_screen.h"
#include "program/demo/demo_supervisor.h"

#include <sqlite3.h>

typedef struct show {
    screen screen;
    const supervisor *supervisors; /* SHOPS of them */
    sqlite3 *ledgers[SHOPS];
    int drawn;            /* the bars are on the screen */
    uint32_t quarters;    /* that a pipe was told of */
    int64_t next_look_us; /* when it is time to look at the ledgers again */
    int64_t twice[SHOPS];
    int64_t over_cents[SHOPS];
} show;

void show_begin(show *out, const supervisor *supervisors);

/* Redraws if it is time for it; returns when it will be, in microseconds of now_us(). */
int64_t show_update(show *self);

/* The last state, and the cursor back. */
void show_end(show *self);

#endif
