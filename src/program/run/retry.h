/* One more attempt at a dead letter, by a process that has the handlers of a configuration: a
 * running `semel run` for letters for which a retry was asked, or `semel dead retry --here`. */
#ifndef SEMEL_PROGRAM_RUN_RETRY_H
#define SEMEL_PROGRAM_RUN_RETRY_H

#include "program/config/config.h"

#include <semel/operate.h>
#include <semel/pipeline.h>

/* What letters are replayed with. All of it is borrowed. */
typedef struct retry_place {
    semel_store *store;
    const config *all;
    const semel_pipeline *pipeline;  /* its inboxes are open; it need not run */
    const semel_pipeline_spec *spec; /* with the handler of each inbox */
} retry_place;

/* Which letter, without its message. */
typedef struct retry_letter {
    int64_t id;
    semel_dead_origin origin;
    char name[SEMEL_NAME_MAX + 1];
} retry_letter;

typedef enum retry_end {
    RETRY_END_PROCESSED = 1, /* the letter is gone; one of an outbox or a queue is back in it */
    RETRY_END_DUPLICATE,     /* a copy was handled before, and the letter is gone */
    RETRY_END_FAILED,        /* the letter stays, with the new error */
    RETRY_END_OTHERS,        /* it was gone, or another process has taken it */
    RETRY_END_POSTPONED, /* not now: the program ends, or a copy is being handled. Asked again */
    RETRY_END_UNNOTED /* it failed or was put off, and the store could not be told: retry_note() */
} retry_end;

/* The letter as the visitor of a list sees it. */
retry_letter retry_letter_of(const semel_dead *dead);

/* 1 if the configuration has an inbox, an outbox or a queue of that name, or can route what had no
 * route. */
int retry_is_known(const retry_place *place, const retry_letter *letter);

/* Takes a letter for which a retry was asked, and replays it. SEMEL_OK and *out, whatever the
 * handler said: `why` is its error then. Else the store has failed before anything was done. */
semel_status retry_run(retry_end *out, const retry_place *place, const retry_letter *letter,
                       semel_error *why);

/* Says that the attempt at this letter has failed: RETRY_END_FAILED, or RETRY_END_PROCESSED if the
 * letter is gone, because the commit whose answer was lost has succeeded, or RETRY_END_OTHERS if
 * it is not begun any more: it was asked for once more. */
semel_status retry_note(retry_end *out, const retry_place *place, int64_t id, const char *error,
                        semel_error *err);

#endif
