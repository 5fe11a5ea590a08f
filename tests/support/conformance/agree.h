/* All stores agree: the same random history of deliveries, copies, failures, claims, messages,
 * sweeps and letters has the same outcomes in each of them. */
#ifndef SEMEL_TESTS_AGREE_H
#define SEMEL_TESTS_AGREE_H

#include "support/conformance/conformance_store.h"

enum { AGREE_ROOM = 1 << 15 };

/* What happened, as text: one line for each step. Ends the test if a call fails that must not. */
void agree_history(char out[AGREE_ROOM], const store_quirks *quirks, uint64_t seed);

/* Runs `count` histories on all of the stores, and fails with the first difference. */
void agree_on(const store_quirks *const stores[], size_t store_count, uint64_t count);

#endif
