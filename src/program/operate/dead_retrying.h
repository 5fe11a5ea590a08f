/* `semel dead retry` at work: the letters of a step, and what becomes of each. */
#ifndef SEMEL_PROGRAM_OPERATE_DEAD_RETRYING_H
#define SEMEL_PROGRAM_OPERATE_DEAD_RETRYING_H

#include "program/operate/confirm.h"
#include "program/operate/dead.h"
#include "program/run/assembly.h"
#include "program/run/retry.h"

typedef enum retried_state {
    RETRIED_PENDING = 0, /* asked for; no outcome is known yet */
    RETRIED_PROCESSED,
    RETRIED_DUPLICATE, /* a copy was handled before */
    RETRIED_PUT_BACK,  /* into its outbox or queue */
    RETRIED_FAILED,
    RETRIED_GONE, /* another operator has discarded it, or it has expired */
    RETRIED_LEFT, /* interrupted before it was begun: as before */
    RETRIED_STATES
} retried_state;

typedef struct retried {
    const dead_letter *letter;
    retried_state state;
    int64_t asked_ms; /* by the store's clock */
    int64_t asked_ns, took_ns;
    const char *error; /* of RETRIED_FAILED */
} retried;

/* An inbox that was opened to ask for its keys. */
typedef struct opened_inbox {
    const char *name;
    semel_inbox *inbox; /* NULL: it could not be opened */
} opened_inbox;

typedef struct retrying {
    dead_work *w;
    const dead_summary *set;
    region memory; /* of the command */
    semel_audit audit;
    progress progress;
    int64_t begun_ns;
    int64_t audited_ns;       /* when the entry was brought up to date */
    retried items[DEAD_STEP]; /* of this step */
    size_t count;
    region step; /* memory of this step */
    uint64_t counts[RETRIED_STATES];
    int gave_up; /* no outcome has come for as long as --wait says: the rest is only marked */
    opened_inbox *inboxes;
    size_t inbox_count;
    config_list alive; /* inboxes that a running process has */
    int any_alive;
    /* --here */
    assembly *assembly;
    semel_pipeline *pipeline;
    retry_place place;
} retrying;

/* dead_alive.c: which inboxes running processes have, by what these say of themselves; an exit
 * status. */
int retrying_look_for_processes(retrying *r);
int retrying_is_alive(const retrying *r, const char *inbox);

/* dead_here.c: opens handlers, inboxes and outboxes of the configuration in this process; an exit
 * status. */
int retrying_open_here(retrying *r);
void retrying_close_here(retrying *r);

/* dead_outcome.c: looks at the letters of the step that are pending: *left is how many still are.
 * Returns an exit status. */
int retrying_look(retrying *r, size_t *left);
void retrying_close_inboxes(retrying *r);
void retrying_end(retried *one, retried_state state);

#endif
