/* What a store holds, however it can be seen: by SQL behind the library's back or, where the
 * place has no SQL, through the public interface, at the system's clock. */
#ifndef SEMEL_TESTS_INSPECT_STORE_H
#define SEMEL_TESTS_INSPECT_STORE_H

#include "support/fixture/store_place.h"

#include <semel/semel.h>

enum { INSPECT_UNKNOWN = -1 };

typedef struct store_contents {
    int64_t done; /* keys that are done; INSPECT_UNKNOWN without SQL: deliver copies instead */
    int64_t unsent;
    int64_t dead;    /* letters of any origin ... */
    int64_t letters; /* ... and of inboxes */
} store_contents;

/* Without SQL effects are messages: of these outboxes, up to a NULL, they are collected first,
 * so that what is unsent is the rest. */
store_contents inspect_store(const store_place *place, const char *const effects[]);

/* The same through a store that is open, without collecting anything. */
store_contents inspect_open_store(semel_store *store);

#endif
