/* What a running consumer or relay notes about itself, for another thread that asks. */
#ifndef SEMEL_CORE_HEALTH_H
#define SEMEL_CORE_HEALTH_H

#include "base/seam.h"

#include <pthread.h>
#include <semel/health.h>

typedef struct health_log {
    pthread_mutex_t lock;
    semel_health_part part;
    int64_t moved_at_ms; /* by wait_clock_ms(): when something moved, or the run began */
} health_log;

void health_init(health_log *log);
void health_destroy(health_log *log);

/* The state that is entered now, unless it is the state already. `why` may be NULL. */
void health_enter(health_log *log, const semel_seam *seam, semel_health_state state,
                  const semel_error *why);

/* A message was settled. */
void health_moved(health_log *log, const semel_seam *seam);

/* The part, with what waits; STALLED if it works or does not run, and nothing has moved for that
 * long since `busy_since_ms` (by wait_clock_ms(); 0: nothing is due). */
semel_health_part health_read(health_log *log, uint64_t waiting, int64_t busy_since_ms,
                              uint32_t stalled_after_ms);

/* Complete: no zero stands for a default any more. */
semel_status health_query_read(semel_health_query *out, const semel_health_query *given,
                               semel_error *err);

/* Asks the store, and notes its answer. */
semel_health_part store_health(semel_store *store, uint32_t deadline_ms);

/* consumer.c, relay.c */
semel_health_part consumer_health(semel_consumer *consumer, uint32_t stalled_after_ms);
semel_health_part relay_health(semel_relay *relay, const semel_stats *stats,
                               uint32_t stalled_after_ms);
semel_outbox *relay_outbox(const semel_relay *relay);

#endif
