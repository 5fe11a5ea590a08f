/* What `semel bench` measures, on a store of its own.
 *
 *     raw        two INSERTs and a commit, without an inbox: a row for the key, its primary key,
 *                and one for the effect. What a program does by hand
 *     receive    the same effect by an inbox with a sql handler, as `semel run` does it
 *     duplicate  receive, of keys that were handled before
 *     relay      from an outbox to a queue in the store: leased, published, settled
 *
 * Raw and receive send their statements in the same way, by the same connections. */
#ifndef SEMEL_PROGRAM_BENCH_WORKLOAD_H
#define SEMEL_PROGRAM_BENCH_WORKLOAD_H

#include "program/bench/measure.h"

#include <semel/store.h>

enum { WORKLOAD_BATCH = 100 };

typedef struct workload workload;

semel_status workload_open(workload **out, semel_store *store, semel_error *err);
void workload_close(workload *w);

typedef struct workload_part {
    const char *name;
    const char *word; /* for JSON */
    measured what;
    int raw; /* which part it is compared with; -1: none */
} workload_part;

enum { WORKLOAD_PARTS = 6 };
extern const workload_part workload_parts[WORKLOAD_PARTS];

#endif
