/* A deterministic simulation of several processes on one keyed database, with all that can go wrong
 * between them. The layer and the core are the real ones, called through the public API. The
 * database is the adapter in memory (memory_adapter.h), the broker is a list, the clock stands
 * still until all processes wait, and every choice comes from the seed: the same seed is the same
 * history.
 *
 * A process is a coroutine, and may be interrupted before and after each call of the driver. There
 * other processes go on, the call fails, its answer is lost (whether it was applied, or not, or
 * will be), the process stands still for a long time, or it dies. A process that is dead runs on
 * to the end of its calls, but nothing that it does reaches the database or the broker: to the
 * others that looks the same, and its memory is freed. Then another one takes its place.
 *
 * What is checked (the names are those of docs/KEYED.md):
 *     I1  a message ends as one effect, as one dead letter (with a reason), or as stale
 *     I2  no message has two effects
 *     I3  marker, effect and outgoing message are committed together; what a caller was told to
 *         have failed is not committed, then or later
 *     I4  a message is acknowledged only if its effect is committed
 *     I5  what is committed is sent at least once, under one id, with its body, in the order of its
 *         group; nothing else is sent; nothing is marked as sent before the broker has it
 *     I6  after the last fault all work ends, in a bounded time
 *     I7  what a sweep has forgotten is not done again
 *     I8  a lease that is live is not taken over; a lost owner commits nothing; attempts count when
 *         they begin */
#ifndef SEMEL_TESTS_SIM_H
#define SEMEL_TESTS_SIM_H

#include "support/keyed/memory_adapter.h"
#include "support/keyed/sim_fiber.h"

#include <semel/semel.h>
#include <semel/sys/transport.h>
#include <setjmp.h>
#include <stdio.h>

enum {
    SIM_PROCESSES_MAX = 5,
    SIM_MESSAGES_MAX = 6,
    SIM_DELIVERIES_MAX = 24,
    SIM_RUNS_MAX = 120,
    SIM_ROWS_MAX = 128,
    SIM_GROUPS = 3 /* the first is no group */
};

/* Mistakes that a test plants, in the driver or in what reaches it. */
typedef enum sim_mistake {
    SIM_NO_MISTAKE = 0,
    SIM_NO_FENCE,             /* a fencing write does not reach the database */
    SIM_VERSION_REUSED,       /* a record has the same version for ever */
    SIM_GUARD_NOT_CHECKED,    /* whoever owned a record once may write it */
    SIM_WALL_CLOCK,           /* leases go by the host's clock, which jumps */
    SIM_HOLD_NOT_WRITTEN,     /* mark does not hold the key */
    SIM_FORGOTTEN_NOT_RAISED, /* a sweep removes markers only */
    SIM_READY_NOT_WRITTEN,    /* a message without the entry that makes it due */
    SIM_GROUP_NOT_EXPECTED,   /* the group's record is overwritten: numbers are not from it */
    SIM_TORN,                 /* of a unit whose answer is lost only the first change is applied */
    SIM_ANSWER_MISREAD,       /* a lost answer is reported as "not applied" */
    SIM_BODY_LOST,            /* a body that is to stay does not */
    SIM_MESSAGE_LOST,         /* the outgoing message is not in the unit */
    SIM_MARKER_LOST,          /* the marker is not in the unit that has the effect */
    SIM_FORGETFUL,            /* a record expires long before it should */
    SIM_MISTAKES
} sim_mistake;

typedef struct sim sim;

/* One handling of a message, or one message that a producer sends. */
typedef struct sim_run {
    int message; /* -1: a producer's */
    int group;
    int told; /* 0: not yet */
    semel_status status;
    int committed; /* how often its effect was applied */
    int order;     /* in its group, from 1 on; 0: not committed */
    int published, confirmed;
} sim_run;

typedef struct sim_message {
    int group;
    int poison; /* each handling fails */
    int flaky;  /* so many fail */
    int64_t made_ms;
    int effects;
    int stale; /* it was classified, and is done with */
    int acked; /* copies that were acknowledged as handled */
    int dead_acked;
    uint64_t attempts; /* those whose handlers began, in claim mode: a bit each */
} sim_message;

typedef struct sim_delivery {
    int message;
    int64_t due_ms;
    uint32_t count;
    int taken; /* by a process, from 1 on */
    int gone;
} sim_delivery;

/* A record with an owner, as the database has it. */
typedef struct sim_row {
    uint64_t place; /* hash of space and key; 0: empty */
    uint64_t guard;
    int64_t until_ms;
    int run;    /* of an outgoing message; -1: none */
    int marker; /* m/ */
} sim_row;

typedef struct sim_process {
    sim *world;
    unsigned index;
    void (*work)(struct sim_process *p);
    sim_fiber *fiber;
    semel_seam seam;
    int64_t wake_ms;
    int64_t apart_ms; /* its steady clock runs on when it is dead */
    int64_t wall_ms;  /* its wall clock less the true time */
    int64_t off_ms;   /* what the driver's clock is off by */
    int dead;
    int finished;
    unsigned lives;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *transport;
    semel_relay *relay;
    uint64_t lost_place; /* of the marker of the last unit whose answer was lost */
    int batch[4];        /* deliveries that it has taken */
    int batch_count;
    int runs[16]; /* what handlers have begun in this call */
    int run_count;
} sim_process;

typedef struct sim_options {
    uint64_t seed;
    sim_mistake mistake;
    FILE *trace; /* NULL: none */
} sim_options;

typedef struct sim_result {
    uint64_t hash; /* of the history */
    int failed;
    char why[256];
    unsigned calls, crashes, faults, effects, published, stale, dead;
} sim_result;

struct sim {
    sim_options options;
    sim_result *result;
    uint64_t random;
    int64_t now_ms; /* the true time */
    int calm;       /* no faults any more */
    unsigned steps;
    keyed_memory *memory;
    keyed_memory_options database;

    semel_mode mode;
    unsigned fault_permille;
    uint32_t lease_ms;
    uint64_t retention_ms; /* 0: none */
    int sweeps;
    uint32_t attempts_max;

    sim_process processes[SIM_PROCESSES_MAX];
    unsigned process_count, workers;
    sim_process *running;
    sim_message messages[SIM_MESSAGES_MAX];
    int message_count;
    sim_delivery deliveries[SIM_DELIVERIES_MAX];
    int delivery_count;
    sim_run runs[SIM_RUNS_MAX];
    int run_count;
    int orders[SIM_GROUPS]; /* committed messages of each group */
    sim_row rows[SIM_ROWS_MAX];
    int rows_out; /* outgoing messages in the database */
    int producing;
};

/* Runs one history. */
void sim_run_seed(sim_result *out, const sim_options *options);

const char *sim_mistake_name(sim_mistake mistake);

/* --- what its files share --------------------------------------------------------------------- */

uint64_t sim_random(sim *s);
unsigned sim_below(sim *s, unsigned bound);
int sim_chance(sim *s, unsigned permille);

/* Something happened: it is part of the history, and of the trace. */
void sim_note(sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_violation(sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

void sim_yield(sim_process *p);
void sim_sleep(sim_process *p, int64_t ms);

/* sim_fault.c: the hook of the database. */
keyed_memory_fate sim_before(void *context, keyed_memory_event *event);
void sim_after(void *context, const keyed_memory_event *event, semel_status status);
int64_t sim_database_now(void *context, void *client);

/* sim_check.c */
void sim_applied(void *context, const semel_keyed_change changes[], size_t count);
void sim_started(sim_process *p, int message, uint32_t attempt);
void sim_told(sim *s, int run, semel_status status);
void sim_published(sim *s, const semel_message *message, int confirmed);
void sim_acknowledged(sim *s, int message, semel_outcome outcome);
void sim_final(sim *s);
uint64_t sim_place(semel_bytes space, semel_bytes key);

/* sim_actors.c */
void sim_people(sim *s); /* the cast of this seed */
int sim_work_left(const sim *s);
int sim_to_send(const sim *s);

#endif
