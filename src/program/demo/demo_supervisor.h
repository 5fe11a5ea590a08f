/* What the provider does for one shop: sends deliveries, keeps what is not acknowledged, takes its
 * events, kills it now and then, and starts it again. */
#ifndef SEMEL_CLI_DEMO_SUPERVISOR_H
#define SEMEL_CLI_DEMO_SUPERVISOR_H

#include "program/demo/demo_plan.h"
#include "program/demo/demo_receiver.h"
#include "program/demo/demo_wire.h"
#include "program/demo/demo_worker_process.h"

enum { PREFETCH = 8 }; /* deliveries that a shop may have at once */

typedef enum supervisor_state {
    SUPERVISOR_RUNNING,
    SUPERVISOR_ENDING, /* told that there are no more deliveries */
    SUPERVISOR_DONE,
    SUPERVISOR_FAILED
} supervisor_state;

/* A delivery that is not acknowledged. */
typedef struct open_delivery {
    uint32_t index; /* in the plan's deliveries */
    uint32_t times; /* sent, to whichever process */
    int sent;       /* to the process that runs now */
} open_delivery;

typedef struct supervisor {
    uint32_t shop;
    const plan *plan;
    receiver *receiver;
    char database[32];
    supervisor_state state;
    char error[256]; /* of a supervisor that failed */

    worker process;
    int ready; /* it said so */
    open_delivery open[PREFETCH];
    uint32_t open_count;
    uint32_t next; /* delivery of the plan that was not sent yet */

    dice dice;
    int64_t kill_at_us;  /* 0: none is due */
    int64_t cycle_us;    /* what a delivery takes, lately */
    int64_t last_ack_us; /* by this process; 0: none yet */
    int64_t last_sign_us;

    uint32_t acknowledged;    /* of the plan's deliveries */
    uint32_t deliveries_sent; /* all, with redeliveries */
    uint32_t duplicates;      /* acknowledged as such */
    uint32_t events_again;    /* events that came a second time under their id */
    uint32_t kills;
    int64_t started_us;
    int64_t ended_us;
} supervisor;

/* Starts the shop. A supervisor that cannot go on has the state SUPERVISOR_FAILED, from any of
 * these calls. */
void supervisor_open(supervisor *out, uint32_t shop, const plan *to_do, receiver *books,
                     uint64_t seed);

/* Kills the shop, if there is one. */
void supervisor_close(supervisor *self);

/* One step: takes what the shop said, gives it what it may have, kills it if it is time. Never
 * waits. */
void supervisor_step(supervisor *self);

/* When the next step is due if the shop says nothing, in microseconds of now_us(). */
int64_t supervisor_wake_us(const supervisor *self);

#endif
