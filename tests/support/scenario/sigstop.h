/* P2, P18: processes that are stopped (SIGSTOP) past their lease, overtaken by another, and then
 * go on. They find their tokens outdated and change nothing. On any store that processes share. */
#ifndef SEMEL_TESTS_SIGSTOP_H
#define SEMEL_TESTS_SIGSTOP_H

#include "support/fixture/shop.h"
#include "support/inspect/inspect_store.h"

/* The lease of those that are overtaken; the others have time. */
enum { SIGSTOP_LEASE_MS = 600, SIGSTOP_DEADLINE_MS = 60000 };

typedef struct sigstop_end {
    semel_status status;
    semel_outcome outcome;
} sigstop_end;

typedef struct stopped {
    const store_place *place;
    char broker[SCRATCH_PATH];
    struct sigstop_shared {
        shop_tally tally;
        sigstop_end first;   /* of the process that is stopped */
        sigstop_end second;  /* of the one that comes meanwhile */
        atomic_uint sent;    /* by the relays, together */
        atomic_uint allowed; /* the broker takes no more before this is more; 0: all */
    } * shared;
} sigstop;

/* With the tables of a shop, at this place, which outlives it. */
sigstop *sigstop_open(const store_place *place);
void sigstop_close(sigstop *now);

/* What the store holds, effects not included. */
store_contents sigstop_look(const sigstop *now);

/* --- relays ----------------------------------------------------------------------------------- */

typedef enum sigstop_where {
    STOP_NOWHERE,
    STOP_BEFORE_PUBLISHING,
    STOP_AFTER_PUBLISHING,
    STOP_IN_TAKE,  /* its transaction is open, and the leases are in it */
    STOP_IN_SETTLE /* the same with what it settled */
} sigstop_where;

typedef struct sigstop_plan {
    sigstop_where where; /* it stops itself there, once */
    uint32_t batch;      /* 0: the default */
    uint32_t lease_ms;   /* 0: longer than anything takes */
    /* 0: one step that finds something, or until it stopped; else until this many are left, less
     * one */
    unsigned drain;
    uint32_t slow_ms; /* how long the broker takes for a batch */
    int cut;          /* its connection may be cut meanwhile: errors that pass are waited out */
} sigstop_plan;

/* Inside a process: relays until its plan is over. */
int sigstop_relay(sigstop *now, const sigstop_plan *plan);

/* Messages 1 to `count` were published under one id each, those of a group in order, and none is
 * left. */
void sigstop_check_sent(const sigstop *now, unsigned count);

/* --- tests ------------------------------------------------------------------------------------ */

/* *state is a stopped. */
void a_relay_overtaken_while_stopped_settles_nothing(void **state);
void a_relay_that_publishes_late_keeps_the_order_of_first_deliveries(void **state);
void a_claim_overtaken_while_stopped_cannot_commit(void **state);
void a_claim_overtaken_while_stopped_cannot_fail(void **state);
void a_claim_overtaken_while_stopped_cannot_make_a_dead_letter(void **state);
void a_copy_waits_for_a_transaction_that_is_stopped(void **state);

#endif
