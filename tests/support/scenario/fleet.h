/* Many processes around one store, all the while something is killed: four that receive, each in
 * another mode; two relays, which publish what those send to a broker file; and a reader, which
 * receives in a second inbox what was published.
 *
 * All four receive the same keys, in orders of their own and some of them again and again; each
 * has keys that only it receives, in ascending order, so that their messages, a group for each
 * process, have an order. Every handler has one effect (effect.h) and sends one message; where
 * effects are messages, the relays collect them. A process that is restarted goes on where the
 * broker has no acknowledgement; a process that gets a retryable error has the message delivered
 * again, as by a broker. */
#ifndef SEMEL_TESTS_FLEET_H
#define SEMEL_TESTS_FLEET_H

#include "support/fixture/store_place.h"

#include <semel/semel.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef enum fleet_role {
    FLEET_TRANSACTION, /* effects on the unit's connection */
    FLEET_QUEUED,      /* queued mode; claim mode, where there is no SQL to queue */
    /* claim mode; effects are queued, and so in the transaction that completes the claim */
    FLEET_CLAIM,
    FLEET_BATCH, /* batches; every other effect is queued */
    FLEET_RELAY,
    FLEET_RELAY_TOO,
    FLEET_READER,
    FLEET_SIZE
} fleet_role;

enum { FLEET_RECEIVERS = FLEET_RELAY, FLEET_PLAN_MAX = 2000, FLEET_DEADLINE_MS = 90000 };

typedef struct fleet_shared {
    atomic_uint reached[FLEET_RECEIVERS]; /* deliveries that were started */
    atomic_uint acked[FLEET_RECEIVERS];   /* ... and acknowledged */
    atomic_uint read;    /* entries of the broker file that the reader has received */
    atomic_uint allowed; /* as far as the broker delivers, to each receiver */
    atomic_int last_sent, last_published;     /* relays and reader end when there is no more */
    atomic_uint troubles[SEMEL_EHANDLER + 1]; /* errors that passed, by status */
} fleet_shared;

typedef struct fleet {
    const store_place *place;
    char broker[SCRATCH_PATH];
    unsigned common, own; /* keys that all receive, and that one receives */
    unsigned plan[FLEET_RECEIVERS][FLEET_PLAN_MAX];
    unsigned planned; /* deliveries to each receiver */
    fleet_shared *shared;
    fleet_role starting; /* for the process that begins */
    pid_t pids[FLEET_SIZE];
} fleet;

/* Makes the tables at this place, which outlives it, and a plan from the seed. The processes are
 * not started yet. */
void fleet_open(fleet *f, const store_place *place, unsigned common, unsigned own, uint32_t seed);
void fleet_close(fleet *f);

unsigned fleet_keys(const fleet *f);

void fleet_start(fleet *f, fleet_role role);
void fleet_start_all(fleet *f);

/* SIGKILL, and a new one. */
void fleet_kill(fleet *f, fleet_role role);

/* All of it from the start to fleet_finish(): so many times one of the processes is killed, at
 * any moment. */
void fleet_run_and_kill(fleet *f, unsigned kills, uint32_t seed);

/* Deliveries acknowledged, by all receivers together; and waiting until there are so many. */
unsigned fleet_acked(const fleet *f);
void fleet_wait_acked(const fleet *f, unsigned acked);

/* How often a client has found the server gone so far, before a commit or while waiting for its
 * answer. */
unsigned fleet_cuts(const fleet *f);

/* Lets all of them come to their end, one after the other, and looks at what they did. */
void fleet_finish(fleet *f);
void fleet_check(fleet *f);

#endif
