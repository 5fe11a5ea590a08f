/* Nothing by accident: a command that changes something asks on a terminal, and needs --yes where
 * there is none. */
#ifndef SEMEL_PROGRAM_OPERATE_CONFIRM_H
#define SEMEL_PROGRAM_OPERATE_CONFIRM_H

#include "program/operate/tool.h"

typedef struct confirmation {
    const char *question; /* "retry them?" asked as: retry them? [y/N] */
    const char *action;   /* without a terminal: "discarding 1,204 letters" needs confirmation */
    uint64_t count;       /* of what is changed */
    int irreversible;     /* more than ten are confirmed by typing their number */
} confirmation;

/* 0: go on. Else the exit status, after saying that nothing was changed (CLI_FAILED) or that --yes
 * is needed (CLI_USAGE). With --yes it asks nothing, and
 * neither with a host, which was asked. */
int confirm(const tool *t, const confirmation *about);

/* Progress of a bulk action: one line on stderr after a second, at most once a second; in a pipe a
 * line every 10 s. */
typedef struct progress {
    const tool *tool;
    uint64_t total;
    int64_t begun_ns, said_ns;
    int open_line; /* the length of the terminal's line that is not ended; 0: there is none */
} progress;

void progress_begin(progress *p, const tool *t, uint64_t total);
void progress_show(progress *p, uint64_t done, const char *text); /* "412 of 1,204: TEXT" */
void progress_end(progress *p);

/* Ctrl-C or SIGTERM during a bulk action ends it after the step in hand: interrupted() is the
 * number of the signal once it came (exit with 128 and it), else 0. begin installs the handlers,
 * end restores the old ones. A second one ends the process at once. */
void interruption_begin(void);
int interrupted(void);
void interruption_end(void);

/* The same for a tool. One with a host leaves the signals alone, and its host says when it is to
 * end after the step in hand. */
void tool_begin_work(const tool *t);
int tool_is_stopped(const tool *t);
void tool_end_work(const tool *t);

#endif
