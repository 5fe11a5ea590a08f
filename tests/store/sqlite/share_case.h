/* Units of several threads in one transaction, in an order that the test has chosen.
 *
 * The first actor's unit begins and waits. The others come to the gate one after the other. Then
 * the first goes on, and each hands the transaction to the next; the bounds of time are out of the
 * way, unless a test sets its own. */
#ifndef SEMEL_TESTS_SHARE_CASE_H
#define SEMEL_TESTS_SHARE_CASE_H

#include "store/sqlite/sqlite.h"
#include "support/fixture/fixture.h"
#include "support/process/threads.h"

#include <stdatomic.h>

enum { PATIENCE_MS = 60000, ACTORS_MAX = 8 };

typedef struct share_case {
    fixture base; /* with a clock that stands still, and faults */
    char path[SCRATCH_PATH];
    sqlite_store *state;
    semel_inbox *inbox;
    atomic_int go; /* 1: the first actor may go on */
} share_case;

typedef enum ending { COMMITS, ROLLS_BACK } ending;

/* What a thread does. With an id it receives a message, else it opens a unit. */
typedef struct actor {
    const char *sql; /* run by the handler or in the unit, whatever comes of it */
    const char *id;
    const char *claims; /* the unit claims this key, after the statements */
    ending end;
    int holds; /* it waits with its statements until the test has come so far (share_case.go) */

    int code; /* of the statements, in the last run */
    unsigned runs;
    semel_status status; /* of the unit's begin, claim or commit; or of receiving */
    semel_outcome outcome;
    semel_error err;

    share_case *on;
    test_thread thread;
} actor;

/* For cmocka; the other one opens the store with this behind its URL. */
int share_setup(void **state);
int share_setup_with(void **state, const char *query, uint32_t busy_ms);
int share_teardown(void **state);

/* Runs them all to their end. In steps: the first up to where it holds; the next up to the gate; on
 * and to the end. */
void share_run(share_case *c, actor actors[], size_t count);
void share_start_first(share_case *c, actor *first);
void share_start_next(share_case *c, actor *next);
void share_end(share_case *c, actor actors[], size_t count);

int share_join(actor *a); /* 0 if it did not end in time */

/* Until so many threads wait at the gate. */
void share_wait_waiting(share_case *c, unsigned count);

int64_t share_number(const share_case *c, const char *sql); /* of what is committed */
void share_check_statuses(const actor actors[], size_t count, const semel_status expected[]);

#endif
