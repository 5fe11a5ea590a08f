/* The surroundings of a test of the keyed layer: a database in memory whose answers the test
 * chooses, two processes (stores) on it with a clock that stands still, an inbox of each. */
#ifndef SEMEL_TESTS_KEYED_CASE_H
#define SEMEL_TESTS_KEYED_CASE_H

#include "store/keyed/keyed.h"
#include "support/fixture/fixture.h"
#include "support/keyed/memory_adapter.h"

typedef struct keyed_case {
    keyed_memory *memory;
    semel_test_seam *seam;
    semel_store *store, *other;
    semel_inbox *inbox, *others;          /* "orders" */
    semel_outbox *outbox, *others_outbox; /* "mail" */

    /* What becomes of the next calls of apply(), the first of them at fates[0]. */
    keyed_memory_fate fates[16];
    size_t fate, fate_count;
    int endless;      /* the last of them is that of all that follow */
    unsigned applies; /* so many since keyed_case_expect() */
} keyed_case;

void keyed_case_open(keyed_case *c, semel_mode mode, const keyed_memory_options *options);
void keyed_case_close(keyed_case *c);

/* The next calls of apply() have these fates. */
void keyed_case_expect(keyed_case *c, const keyed_memory_fate fates[], size_t count);

/* The handler of all tests: adds 1 to the counter "done", and sends a message. */
semel_status keyed_case_work(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err);

/* One message through the handler. */
void keyed_case_receive(keyed_case *c, semel_inbox *inbox, const char *id, semel_status status,
                        semel_outcome outcome);

int64_t keyed_case_done(keyed_case *c);    /* the counter */
uint64_t keyed_case_unsent(keyed_case *c); /* messages in the outbox */

/* The record of the only key; NULL: there is none. */
const keyed_row *keyed_case_marker(keyed_case *c, mem_arena *arena);

/* Somebody else has it now. */
void keyed_case_steal(keyed_case *c);

keyed_store *keyed_case_store(semel_store *store);

#endif
