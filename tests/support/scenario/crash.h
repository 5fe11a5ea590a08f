/* Workflows that are killed at every named point, and what must be true afterwards.
 *
 * A workflow runs in a process of its own on a prepared store, with a clock that stands still,
 * and is killed. A second process, one lease later, runs it again to its end and lets the relay
 * send what is left. What they did can be seen in the store (each handler has an `effect`, see
 * effect.h), in the broker file, and in memory that outlives them. */
#ifndef SEMEL_TESTS_CRASH_H
#define SEMEL_TESTS_CRASH_H

#include "support/fake/broker_file.h"
#include "support/fixture/effect.h"
#include "support/fixture/fixture.h"

#include <semel/semel.h>
#include <semel/test.h>

enum { CRASH_LEASE_MS = 30000, CRASH_HOLD_MS = 60001, CRASH_POINTS_MAX = 80, CRASH_TEXT = 64 };

extern const char *const crash_points[];
extern const size_t crash_point_count;

/* Where it happens. */
typedef struct crash_stage {
    store_place *place;
    char broker[SCRATCH_PATH];
    struct crash_shared {
        uint32_t passed[CRASH_POINTS_MAX];
        uint32_t runs;       /* of handler bodies */
        uint32_t deliveries; /* that were received from the queue */
    } * shared;
} crash_stage;

/* The place outlives it. */
void crash_stage_open(crash_stage *stage, store_place *place);
void crash_stage_close(crash_stage *stage);

typedef enum crash_kind {
    CRASH_TRANSACTION, /* marker, effect and outgoing message are one */
    CRASH_CLAIM,       /* marker and outgoing message are one, handlers may run again */
    CRASH_SEND,        /* effect and outgoing message are one, there is no marker */
    CRASH_OTHER        /* only the end counts */
} crash_kind;

typedef struct crash_world crash_world;

typedef struct crash_workflow {
    const char *name;
    const char *points; /* all that it passes, in their order, each with a space behind it */
    crash_kind kind;
    semel_mode mode;
    const char *key;       /* of the inbox; NULL: the default */
    int positions;         /* the inbox remembers positions */
    uint32_t attempts_max; /* of inbox and relay; 0: the default */
    uint32_t relay_batch;  /* 0: the default */
    uint64_t retention_ms; /* 0: the default */
    uint64_t keep_sent_ms; /* of the relay */
    int64_t start_ms;      /* how late the clock is when the first process starts */
    int queued;            /* effects are queued statements */
    int quiet;             /* dead letters are not announced */
    int64_t handed;        /* messages handed off, each either in the outbox or done; 0: none */
    int bare;              /* nothing is prepared, not even the tables */
    uint32_t runs_max;     /* of handler bodies, both processes together; 0: not looked at */
    int64_t done;          /* at the end: markers that are done, ... */
    int64_t held;          /* ... live claims, ... */
    int64_t effects;       /* ... effects, ... */
    int64_t published;     /* ... different messages that the broker has, ... */
    int64_t dead;          /* ... and dead letters */
    uint32_t deliveries;   /* from the queue, if none comes twice; 0: not looked at */
    const char *settled;   /* points at which no delivery is out, each with a space behind it */
    void (*prepare)(crash_world *w);
    void (*run)(crash_world *w);
} crash_workflow;

extern const crash_workflow crash_workflows[];
extern const size_t crash_workflow_count;

/* Workflows through a queue in the store: so many messages, of which so many are received at
 * once. */
enum { CRASH_QUEUE_MESSAGES = 6, CRASH_QUEUE_EACH = 2 };
void crash_run_queue(crash_world *w);
void crash_prepare_queue_letter(crash_world *w);
void crash_run_queue_replay(crash_world *w);
void crash_prepare_consumed(crash_world *w);
void crash_run_consumed(crash_world *w);

void crash_run_positions(crash_world *w);

/* Workflows of retention: markers of that age, and what removes those that are older. */
enum { CRASH_OLD_MS = 300000, CRASH_OLDER_MS = 400000 };
void crash_prepare_old(crash_world *w);
void crash_run_round(crash_world *w);
void crash_run_purge(crash_world *w);
/* Workflows about dead letters. */
void crash_run_discard(crash_world *w);
void crash_run_expiry(crash_world *w);
void crash_prepare_rejected(crash_world *w);
void crash_run_rejected(crash_world *w);
void crash_prepare_unrouted(crash_world *w);
void crash_run_unrouted(crash_world *w);

/* Workflows about what operators do. */
void crash_prepare_skip(crash_world *w);
void crash_run_skip(crash_world *w);
void crash_prepare_wake(crash_world *w);
void crash_run_wake(crash_world *w);
void crash_run_retry(crash_world *w);

/* Workflows about what a relay has sent. */
enum { CRASH_HISTORY_MESSAGES = 4, CRASH_HISTORY_MS = 60000 };
void crash_run_history(crash_world *w);
void crash_prepare_forgetting(crash_world *w);
void crash_run_forgetting(crash_world *w);

/* The same with queued statements and in queued mode, for stores that are a round trip away. */
enum { CRASH_QUEUED_MAX = 16 };
size_t crash_queued_workflows(crash_workflow out[CRASH_QUEUED_MAX]);

/* The same workflow where an effect is in the transaction that ends the work, in claim mode,
 * too: because it is a queued statement, or because it is a message. */
crash_workflow crash_in_transaction(const crash_workflow *flow);

/* --- inside a process ------------------------------------------------------------------------- */

struct crash_world {
    const crash_stage *stage;
    const crash_workflow *flow;
    int again;   /* CRASH_FIRST (0), CRASH_AGAIN, ... */
    int forgive; /* the handler and the broker refuse nothing */
    int lethal;  /* a message "poison" kills the process instead of failing */
    fixture base;
    semel_inbox *inbox;
    semel_outbox *outbox; /* "out": what handlers send */
    effect effect;
    struct crash_observer { /* the same store and clock, but no fault strikes here */
        semel_seam seam;
        semel_store *store;
        effect effect;
    } observer;
    broker_file broker;
    semel_transport *transport;
    semel_relay *relay;
    semel_error err;
};

/* Which of the processes of a workflow it is. The later ones come when all leases have ended. */
enum { CRASH_FIRST, CRASH_AGAIN, CRASH_ONCE_MORE, CRASH_LOOK };

/* Opens the store and, if the workflow is not bare, what follows. */
void crash_world_open(crash_world *w, const crash_stage *stage, const crash_workflow *flow,
                      int again);
void crash_world_open_rest(crash_world *w);
void crash_world_close(crash_world *w);

/* Time passes, by the clock of the store and by that of the seam. */
void crash_world_pass_ms(crash_world *w, int64_t ms);

/* Tells the stage how often each point was passed. */
void crash_world_report(crash_world *w);

semel_message crash_message(const char *key);

/* Has an effect, sends "out-<key>", and then: "fail..." fails at its first attempt, "poison"
 * always. In claim mode a row is written only if it is queued, and "slow..." renews its lease. */
semel_handler crash_handler;

/* Effect and message in one unit without an inbox, unless the effect is there already. */
void crash_send(crash_world *w, const char *key, const char *topic, const char *group);

/* Until it is settled, as a broker would: with a higher delivery each time. */
semel_outcome crash_deliver(crash_world *w, const char *key, uint32_t delivery);

/* One step, which must succeed; if nothing was due, time passes. Returns 0 when the outbox is
 * empty. */
int crash_step(crash_world *w, semel_relay *relay);
void crash_drain(crash_world *w);

/* To look at the store without passing a point. It is closed with the world. */
semel_store *crash_observer_store(crash_world *w);

/* Without SQL: moves the effects out of the store to where they are counted. */
void crash_collect(crash_world *w);
/* Messages in all outboxes that are no effects. */
int64_t crash_unsent(crash_world *w);

/* The id of the only dead letter, 0 if there is none. */
int64_t crash_letter(crash_world *w);

/* --- from outside, when no process is running ------------------------------------------------- */

/* NULL, or what is wrong. */
const char *crash_check_killed(const crash_stage *stage, const crash_workflow *flow);
const char *crash_check_ended(const crash_stage *stage, const crash_workflow *flow);

/* The same for what was delivered by both processes together, of which the first was killed at
 * `point`, or at none. */
const char *crash_check_deliveries(const crash_stage *stage, const crash_workflow *flow,
                                   const char *point);

#endif
