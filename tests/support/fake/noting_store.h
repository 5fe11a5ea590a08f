/* The store of a fixture with a driver that notes what the core asks of it, and says that a unit
 * takes a limited number of changes. The process has one such driver. */
#ifndef SEMEL_TESTS_NOTING_STORE_H
#define SEMEL_TESTS_NOTING_STORE_H

#include "support/fixture/fixture.h"

#include <stdint.h>

/* The members that write a marker. */
typedef enum marker_verb {
    VERB_MARK,
    VERB_CLAIM,
    VERB_FINISH,
    VERB_RENEW,
    VERB_FAIL,
    VERB_BURY,
    VERB_FORGET,
    VERB_COUNT
} marker_verb;

typedef struct store_notes {
    unsigned calls[VERB_COUNT];
    uint64_t keep_ms[VERB_COUNT]; /* in the last call; VERB_MARK: of its last key */
    unsigned looks;
    size_t keys_most;     /* in one call of mark */
    size_t changes_most;  /* in one unit: keys, captured messages, settled ones, letters */
    uint32_t leased_most; /* that one call of lease was asked for */
    size_t settled_most;  /* in one call of settle */
} store_notes;

/* From now on until the fixture is closed. changes_max 0: any number. */
void noting_store_open(fixture *f, uint32_t changes_max);

/* What was noted since the last call of this. Units must come one after the other. */
store_notes noting_store_take(void);

/* How many calls there were that write a marker. */
unsigned noting_store_writes(const store_notes *notes);

#endif
