/* Health: do the store, a consumer and a relay work, since when not, and why? And does anything
 * move although something is due? One call answers, from any thread, while the consumer and the
 * relay run. SPDX-License-Identifier: MIT */
#ifndef SEMEL_HEALTH_H
#define SEMEL_HEALTH_H

#include <semel/consumer.h>
#include <semel/relay.h>

SEMEL_BEGIN_DECLS

/* In the order of severity. */
typedef enum semel_health_state {
    SEMEL_HEALTH_NOT_ASKED = 0,
    SEMEL_HEALTH_OK,
    SEMEL_HEALTH_STOPPED, /* semel_..._run() does not run: not yet, or not any more */
    /* something is due, and nothing has moved for stalled_after_ms, whether it runs or not; a
     * message behind one that is put off in its group is due, too */
    SEMEL_HEALTH_STALLED,
    SEMEL_HEALTH_WAITING, /* the store or the broker cannot be reached, and is tried again */
    SEMEL_HEALTH_FAILED   /* the run has ended with an error that does not pass */
} semel_health_state;

SEMEL_API const char *semel_health_name(semel_health_state state);

typedef struct semel_health_part {
    semel_health_state state;
    /* by the wall clock, in milliseconds since 1970 */
    int64_t since_ms; /* since when it is in that state; for STALLED, when something last moved */
    int64_t moved_ms; /* when a message was last settled in this run; 0: none was */
    /* consumer: deliveries in flight, of which those that wait for their next attempt are not due;
     * relay: messages that are due */
    uint64_t waiting;
    char error[256]; /* why, if it does not work; else "" */
} semel_health_part;

typedef struct semel_health {
    semel_health_state state; /* the most severe of the three */
    semel_health_part store;
    semel_health_part consumer;
    semel_health_part relay;
} semel_health;

/* A member that is NULL is not asked about. */
typedef struct semel_health_query {
    size_t size;
    semel_store *store; /* asked whether it answers; default: that of the relay */
    semel_consumer *consumer;
    semel_relay *relay;        /* also asks the store what is due in the relay's outbox */
    uint32_t deadline_ms;      /* for each question to the store; default 1000 */
    uint32_t stalled_after_ms; /* default 60000; longer than the slowest handler takes */
} semel_health_query;

/* `size` is sizeof(semel_health). SEMEL_OK whatever the state is; SEMEL_EINVAL for a bad query. */
SEMEL_API semel_status semel_health_check(semel_health *out, size_t size,
                                          const semel_health_query *query, semel_error *err);

SEMEL_END_DECLS

#endif
