/* Processes that consume a topic as members of one group, with a store of SQLite that they share
 * and an inbox in transaction mode: each message has one effect. They are killed, stopped and
 * continued by the test. A message of the type "order.poison" kills the process that handles it. */
#ifndef SEMEL_TESTS_KAFKA_REAL_MEMBERS_H
#define SEMEL_TESTS_KAFKA_REAL_MEMBERS_H

#include "real_kit.h"

#include "support/fixture/effect.h"

#include <sys/types.h>

enum { MEMBERS_MAX = 4, MEMBERS_ATTEMPTS_MAX = 3 };

typedef struct members_shared {
    atomic_int stop_wanted[MEMBERS_MAX];      /* as real_stopping_open() has it */
    atomic_uint held[MEMBERS_MAX];            /* deliveries of processes that were stopped so */
    atomic_uint troubles[SEMEL_EHANDLER + 1]; /* that were waited out, by status */
    atomic_int end;
} members_shared;

typedef struct members {
    real_topic *topic;
    store_place place;
    char url[SERVER_URL_ROOM];
    members_shared *shared;
    unsigned starting; /* for the process that begins */
    unsigned count;
    semel_remember remember; /* what the inbox has; a test may set it before the start */
    pid_t pids[MEMBERS_MAX];
} members;

/* The topic outlives it. The processes are not started yet. */
void members_open(members *m, real_topic *topic, unsigned count, const char *parameters);
void members_close(members *m);

void members_start(members *m, unsigned member);
void members_start_all(members *m);
void members_kill(members *m, unsigned member); /* SIGKILL, and a new one */

/* So many messages more, and `after_ms` later SIGKILL, and a new one. */
void members_kill_under_load(members *m, unsigned member, unsigned load, uint32_t after_ms);

/* It stops with the next deliveries that it receives; more come until there are some for it. It
 * goes on when the others have handled all of them, and `load` messages more. */
void members_stop_with_deliveries(members *m, unsigned member, unsigned load);

/* Starts those again that the poison has killed; how many. Any other end fails the test. */
unsigned members_revive(members *m);

/* Until there are so many effects. Revives meanwhile; returns how many. */
unsigned members_wait_effects(members *m, unsigned effects);

/* Lets them end in order. Then each record but `poisoned` of them has had its effect, once and in
 * the order of its key, and the group has committed all of the topic. They can be started again,
 * with another group. */
void members_finish(members *m, unsigned poisoned);

#endif
