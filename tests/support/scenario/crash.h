/* Workflows that are killed at every named point, and what must be true afterwards.
 *
 * A workflow runs in a process of its own on a copy of a prepared store (an SQLite file, or tables on a
 * server), with a clock that stands still, and is killed. A second process, one lease later, runs it again to
 * its end and lets the relay send what is left. What they did can be seen in the store (the table `effect`
 * holds the handlers' own writes), in the broker file, and in memory that outlives them. */
#ifndef SEMEL_TESTS_CRASH_H
#define SEMEL_TESTS_CRASH_H

#include "support/base/scratch.h"
#include "support/fake/broker_file.h"
#include "support/servers/server.h"

#include <semel/semel.h>
#include <semel/test.h>

enum { CRASH_LEASE_MS = 30000, CRASH_POINTS_MAX = 64, CRASH_TEXT = 64 };

extern const char *const crash_points[];
extern const size_t crash_point_count;

/* Where it happens. */
typedef struct crash_stage {
    scratch dir;
    server_place at; /* the server, if it is on one */
    char url[SERVER_URL_ROOM];
    char broker[SCRATCH_PATH];
    struct crash_shared {
        uint32_t passed[CRASH_POINTS_MAX];
        uint32_t runs; /* of handler bodies */
    } * shared;
} crash_stage;

void crash_stage_open(crash_stage *stage); /* a file of SQLite */
void crash_stage_open_on(crash_stage *stage,
                         server_kind kind); /* the server that all tests share */
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
    uint32_t attempts_max; /* of inbox and relay; 0: the default */
    uint32_t relay_batch;  /* 0: the default */
    uint64_t retention_ms; /* 0: the default */
    int64_t start_ms;      /* how late the clock is when the first process starts */
    int queued;            /* effects are queued statements */
    int quiet;             /* dead letters are not announced */
    int64_t handed;        /* messages handed off, each either in the outbox or done; 0: none */
    int bare;              /* nothing is prepared, not even the tables */
    uint32_t runs_max;     /* of handler bodies, both processes together; 0: not looked at */
    int64_t done;          /* at the end: markers that are done, ... */
    int64_t held;          /* ... live claims, ... */
    int64_t effects;       /* ... rows in the table `effect`, ... */
    int64_t published;     /* ... different messages that the broker has, ... */
    int64_t dead;          /* ... and dead letters */
    void (*prepare)(crash_world *w);
    void (*run)(crash_world *w);
} crash_workflow;

extern const crash_workflow crash_workflows[];
extern const size_t crash_workflow_count;

/* The same with queued statements and in queued mode, for stores that are a round trip away. */
enum { CRASH_QUEUED_MAX = 16 };
size_t crash_queued_workflows(crash_workflow out[CRASH_QUEUED_MAX]);

/* --- inside a process ------------------------------------------------------------------------------ */

struct crash_world {
    const crash_stage *stage;
    const crash_workflow *flow;
    int again;   /* it is the second process */
    int forgive; /* the handler and the broker refuse nothing */
    int lethal;  /* a message "poison" kills the process instead of failing */
    semel_test_seam *seam;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox; /* "out": what handlers send */
    broker_file broker;
    semel_transport *transport;
    semel_relay *relay;
    semel_error err;
};

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

/* Writes an effect, sends "out-<key>", and then: "fail..." fails at its first attempt, "poison" always. In
 * claim mode there is no effect, and "slow..." renews its lease. */
semel_handler crash_handler;

/* Business row and message in one unit without an inbox, unless the row is there already. */
void crash_send(crash_world *w, const char *key, const char *topic, const char *group);

/* Until it is settled, as a broker would: with a higher delivery each time. */
semel_outcome crash_deliver(crash_world *w, const char *key, uint32_t delivery);

/* One step, which must succeed; if nothing was due, time passes. Returns 0 when the outbox is empty. */
int crash_step(crash_world *w, semel_relay *relay);
void crash_drain(crash_world *w);

/* The id of the only dead letter, 0 if there is none. */
int64_t crash_letter(crash_world *w);

/* --- from outside, when no process is running -------------------------------------------------------- */

/* NULL, or what is wrong. */
const char *crash_check_killed(const crash_stage *stage, const crash_workflow *flow);
const char *crash_check_ended(const crash_stage *stage, const crash_workflow *flow);

#endif
