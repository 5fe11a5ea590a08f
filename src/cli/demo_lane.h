/* What the provider does for one shop: hands deliveries over, keeps what is not acknowledged, takes its
 * events, kills it now and then, and starts it again. */
#ifndef SEMEL_CLI_DEMO_LANE_H
#define SEMEL_CLI_DEMO_LANE_H

#include "demo_frame.h"
#include "demo_plan.h"
#include "demo_receiver.h"
#include "demo_worker_process.h"

enum { PREFETCH = 8 }; /* deliveries that a shop may have at once */

typedef enum lane_state {
    LANE_RUNNING,
    LANE_ENDING, /* told that there are no more deliveries */
    LANE_DONE,
    LANE_FAILED
} lane_state;

/* A delivery that is not acknowledged. */
typedef struct open_delivery {
    uint32_t index; /* in the plan's deliveries */
    uint32_t times; /* handed over, to whichever process */
    int handed;     /* to the process that runs now */
} open_delivery;

typedef struct lane {
    uint32_t shop;
    const plan *plan;
    receiver *receiver;
    char database[32];
    lane_state state;
    char trouble[256]; /* of a lane that failed */

    worker process;
    int ready; /* it said so */
    open_delivery open[PREFETCH];
    uint32_t open_count;
    uint32_t next; /* delivery of the plan that was not handed over yet */

    dice dice;
    int64_t kill_at_us;  /* 0: none is due */
    int64_t cycle_us;    /* what a delivery takes, lately */
    int64_t last_ack_us; /* by this process; 0: none yet */
    int64_t last_sign_us;

    uint32_t acknowledged; /* of the plan's deliveries */
    uint32_t handed_over;  /* all, with redeliveries */
    uint32_t duplicates;   /* acknowledged as such */
    uint32_t events_again; /* events that came a second time under their id */
    uint32_t kills;
    int64_t started_us;
    int64_t ended_us;
} lane;

/* Starts the shop. A lane that cannot go on has the state LANE_FAILED, from any of these calls. */
void lane_open(lane *out, uint32_t shop, const plan *to_do, receiver *books, uint64_t seed);

/* Kills the shop, if there is one. */
void lane_close(lane *self);

/* One turn: takes what the shop said, gives it what it may have, kills it if it is time. Never waits. */
void lane_turn(lane *self);

/* When the next turn is due if the shop says nothing, in microseconds of now_us(). */
int64_t lane_wake_us(const lane *self);

#endif
