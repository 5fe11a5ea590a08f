/* How many messages a second, and how long each call took. Measured in slices, so that what is
 * compared takes turns and shares what the machine does meanwhile. */
#ifndef SEMEL_PROGRAM_BENCH_MEASURE_H
#define SEMEL_PROGRAM_BENCH_MEASURE_H

#include <semel/error.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed one is empty. */
typedef struct measurement {
    uint64_t messages;
    int64_t took_ns; /* all calls together */
    int64_t *calls;  /* how long each took */
    size_t count, room;
} measurement;

/* What is measured: prepare, which may be NULL, is not part of it; step handles *messages. */
typedef struct measured {
    semel_status (*prepare)(void *context, semel_error *err);
    semel_status (*step)(void *context, size_t *messages, semel_error *err);
} measured;

/* Calls it until the calls together took so long, or Ctrl-C was pressed. */
semel_status measure_slice(measurement *m, const measured *what, void *context, int64_t for_ns,
                           semel_error *err);

double measure_rate(const measurement *m); /* messages a second */

/* Of the calls, `percent` of 100 took no longer; 0 without any. */
int64_t measure_percentile(measurement *m, unsigned percent);

void measure_free(measurement *m);

#endif
