/* P5, P13 on servers: eight processes with eight threads each on some hot keys. All threads go
 * through the keys in the same order, so that the copies of a key are received at the same moment
 * from everywhere. Each key is handled once; a copy waits and is a duplicate; every call ends in an
 * outcome or in an error that passes. It fails the test that calls it. */
#ifndef SEMEL_TESTS_HOT_H
#define SEMEL_TESTS_HOT_H

#include "support/base/sanitizer.h"
#include "support/servers/server.h"

#include <semel/semel.h>

enum { HOT_THREADS = 8, HOT_BATCH = 20 };

typedef struct hot_variant {
    semel_mode mode;
    int queued;    /* effects are queued statements */
    unsigned pool; /* connections of a process; 0: as many as it likes */
    int batches;   /* keys are received in batches */
} hot_variant;

/* As many of this number as a sanitized build is given, in whole batches. */
#define HOT_KEYS(number) ((number) / SANITIZER_SLOWDOWN / HOT_BATCH * HOT_BATCH)

void hot_race(const hot_variant *how, server_kind kind, unsigned keys);

#endif
