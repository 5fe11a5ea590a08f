/* What is counted of a route: requests by what became of them, and how long they took. The numbers
 * of a route outlive an exchange of the configuration, as long as its name is the same. */
#ifndef SEMEL_PROGRAM_GATEWAY_ROUTE_METER_H
#define SEMEL_PROGRAM_GATEWAY_ROUTE_METER_H

#include "program/support/histogram.h"

typedef enum route_outcome {
    ROUTE_EXECUTED = 0,  /* the upstream, or an inbox, has handled it */
    ROUTE_ACCEPTED,      /* stored in a queue: 202 */
    ROUTE_REPLAYED,      /* a copy: the stored answer */
    ROUTE_CONFLICT,      /* the first copy is still in flight: 409 */
    ROUTE_MISMATCH,      /* other content under the same key: 422 */
    ROUTE_MISSING_KEY,   /* 400 */
    ROUTE_BAD_SIGNATURE, /* 401 */
    ROUTE_BAD_REQUEST,   /* other 4xx of the gateway itself */
    ROUTE_UNKNOWN,       /* the upstream may have handled it */
    ROUTE_UNAVAILABLE,   /* store, upstream or queue could not be reached: nothing was done */
    ROUTE_LIMITED,       /* 429 */
    ROUTE_TOO_LARGE,     /* 413 */
    ROUTE_OUTCOMES
} route_outcome;

/* "executed", "bad_signature": the label in metrics. */
const char *route_outcome_name(route_outcome outcome);

typedef struct route_meter {
    atomic_uint_fast64_t outcomes[ROUTE_OUTCOMES];
    histogram latency;           /* from the whole request to the answer */
    atomic_uint_fast64_t sum_ns; /* of the latencies */
} route_meter;

#endif
