/* P2, P18: processes that are stopped (SIGSTOP) past their lease, overtaken by another, and then go on. They find
 * their tokens outdated and change nothing. On any SQL store. */
#ifndef SEMEL_TESTS_SIGSTOP_H
#define SEMEL_TESTS_SIGSTOP_H

#include "support/base/scratch.h"
#include "support/fixture/shop.h"
#include "support/servers/server.h"

/* The lease of those that are overtaken; the others have time. */
enum { STOPPED_LEASE_MS = 600, STOPPED_DEADLINE_MS = 60000 };

typedef struct stopped_end {
    semel_status status;
    semel_outcome outcome;
} stopped_end;

typedef struct stopped {
    scratch dir;
    char url[SERVER_URL_ROOM], broker[SCRATCH_PATH];
    struct stopped_shared {
        shop_tally tally;
        stopped_end first;   /* of the process that is stopped */
        stopped_end second;  /* of the one that comes meanwhile */
        atomic_uint sent;    /* by the relays, together */
        atomic_uint allowed; /* the broker takes no more before this is more; 0: all */
    } * shared;
} stopped;

/* With the tables of a shop. `url` NULL: SQLite, in a file of its own. */
stopped *stopped_open(const char *url);
void stopped_close(stopped *now);

/* --- relays ------------------------------------------------------------------------------------------ */

typedef enum stopped_where {
    STOP_NOWHERE,
    STOP_BEFORE_PUBLISHING,
    STOP_AFTER_PUBLISHING,
    STOP_IN_TAKE,  /* its transaction is open, and the leases are in it */
    STOP_IN_SETTLE /* the same with what it settled */
} stopped_where;

typedef struct stopped_plan {
    stopped_where where; /* it stops itself there, once */
    uint32_t batch;      /* 0: the default */
    uint32_t lease_ms;   /* 0: longer than anything takes */
    /* 0: one step that finds something, or until it stopped; else until this many are left, less one */
    unsigned drain;
    uint32_t slow_ms; /* how long the broker takes for a batch */
    int cut;          /* its connection may be cut meanwhile: errors that pass are waited out */
} stopped_plan;

/* Inside a process: relays until its plan is over. */
int stopped_relay(stopped *now, const stopped_plan *plan);

/* Messages 1 to `count` were published under one id each, those of a group in order, and none is left. */
void stopped_check_sent(const stopped *now, unsigned count);

/* --- tests ------------------------------------------------------------------------------------------- */

/* *state is a stopped. */
void a_relay_overtaken_while_stopped_settles_nothing(void **state);
void a_relay_that_publishes_late_keeps_the_order_of_first_deliveries(void **state);
void a_claim_overtaken_while_stopped_cannot_commit(void **state);
void a_claim_overtaken_while_stopped_cannot_fail(void **state);
void a_claim_overtaken_while_stopped_cannot_make_a_dead_letter(void **state);
void a_copy_waits_for_a_transaction_that_is_stopped(void **state);

#endif
