/* Between the files of semel-soak; main.c tells what it is. */
#ifndef SEMEL_TESTS_SOAK_H
#define SEMEL_TESTS_SOAK_H

#include "support/fixture/effect.h"
#include "support/process/process.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

enum { SOAK_URL = 512, SOAK_TEXT = 128, SOAK_KILLS_MAX = 10000 };

/* --- roles and slots -------------------------------------------------------------------------- */

typedef enum soak_role {
    SOAK_ORDERED, /* consumers of the queue with one active consumer, by group */
    SOAK_FREE,    /* consumers of the queue that all of them take from */
    SOAK_RELAY,   /* from the outbox to what the second consumers read */
    SOAK_SECOND,  /* consumers of what the relays sent */
    SOAK_ROLES
} soak_role;

enum { SOAK_SLOTS_EACH = 2, SOAK_SLOTS = SOAK_ROLES * SOAK_SLOTS_EACH };

/* --- counters that processes share ------------------------------------------------------- */

/* A file of 64-bit numbers, mapped by all processes, because the scripts are programs of their own;
 * the Python ones know its fields by their place. What a killed process has counted stays
 * counted. */
typedef struct soak_counters {
    atomic_uint_least64_t allowed;   /* 0: how many messages the publisher may have begun */
    atomic_uint_least64_t ending;    /* 1: it is to send its last copies and to end */
    atomic_uint_least64_t published; /* 2: messages confirmed */
    atomic_uint_least64_t copies;    /* 3: sent once more on purpose */
    atomic_uint_least64_t repeated;  /* 4: sent once more because the answer was lost */
    atomic_uint_least64_t received;  /* 5: by the foreign consumer, copies included */
    atomic_uint_least64_t ready;     /* 6: the foreign consumer has its queue */
    atomic_uint_least64_t
        delivered[2];               /* to the first and to the second consumers, copies included */
    atomic_uint_least64_t again[2]; /* of these: by the broker's word not for the first time */
    atomic_uint_least64_t handled[2]; /* handlers that came to their end; some were rolled back */
    atomic_uint_least64_t failed;     /* handlers that failed on purpose */
    atomic_uint_least64_t troubles;   /* that consumers and relays waited out ... */
    atomic_uint_least64_t outages;    /* ... because a server could not be reached */
    atomic_int_least64_t queued;      /* in the queues, when the supervisor looked */
    atomic_int_least64_t unsent;      /* in a store, the same */
    atomic_int_least64_t at_work[SOAK_SLOTS];  /* by slot: handlers, now or when it was killed */
    atomic_int_least64_t poisoned[SOAK_SLOTS]; /* by slot: the process that died of the poison */
} soak_counters;

/* --- what is asked for ------------------------------------------------------------------------ */

typedef enum soak_store {
    SOAK_SQLITE,
    SOAK_POSTGRES,
    SOAK_REDIS,
    SOAK_DYNAMODB,
    SOAK_STORES
} soak_store;

struct soak_broker; /* brokers.h */

typedef struct soak_options {
    const struct soak_broker *broker;
    int stores[SOAK_STORES];
    double minutes;    /* of publishing, over all stores; 0: no more than the messages take */
    uint64_t messages; /* on each store, at least; with minutes 0: exactly */
    unsigned kills;    /* on each store, if ... */
    int kills_given;   /* ... the command line said so */
    int spare_servers; /* kill processes only */
    int by_message;    /* effects are messages, as on a store without SQL; else rows */
    int keep;          /* the directory with all that was written */
    uint32_t seed;
} soak_options;

/* --- one run: one store ----------------------------------------------------------------------- */

struct soak_run;

/* One of the processes of a role: when it is killed, the supervisor starts its successor in the
 * same slot. */
typedef struct soak_slot {
    struct soak_run *run;
    soak_role role;
    unsigned number;
    unsigned index; /* among all */
    pid_t pid;
    int told;        /* the signal that it got from us, if any: its end is no surprise */
    int64_t told_ms; /* when */
} soak_slot;

typedef struct soak_tally {
    uint64_t seen;         /* all of them */
    uint64_t doubled;      /* seen beyond the first time */
    uint64_t lost;         /* published and not seen */
    uint64_t unknown;      /* seen and not published */
    uint64_t out_of_order; /* seen for the first time after a later one of its ordered group */
    uint64_t renamed;      /* one message under two ids */
} soak_tally;

typedef enum soak_victim {
    SOAK_VICTIM_CONSUMER,
    SOAK_VICTIM_RELAY,
    SOAK_VICTIM_SECOND,
    SOAK_VICTIM_RESTART, /* any process, told to stop by SIGTERM, in the middle of its work */
    SOAK_VICTIM_BROKER,
    SOAK_VICTIM_DATABASE, /* SQLite lives in its processes: all of them at once */
    SOAK_VICTIMS
} soak_victim;

/* Of this program alone, for both runs. */
typedef struct soak_servers {
    server_own broker;
    server_kind broker_kind;
    server_own database; /* PostgreSQL, Redis or DynamoDB's emulator, if the run is on it */
    server_kind database_kind;
    int has_database;
    atomic_int ready;
} soak_servers;

typedef struct soak_run {
    const soak_options *options;
    soak_servers *servers;
    soak_store store;
    int64_t length_ms; /* of publishing, at least */
    int64_t hold_ms;   /* so much later comes again what a killed process had, where neither broker
                          nor store sees its end */
    uint64_t window;   /* messages under way, at most */
    unsigned kills;
    scratch directory;
    soak_counters *counters;
    store_place places[2]; /* of the stores of first and second consumers; in the directory */
    soak_slot slots[SOAK_SLOTS];
    pid_t publisher, foreigner;
    int64_t started_ms, took_ms;
    unsigned killed[SOAK_VICTIMS];
    unsigned poisoned;  /* processes that died of the poison */
    uint64_t caught[2]; /* handlers at work when their process was killed, by us or the poison */
    unsigned surprises; /* processes that ended by themselves, or otherwise than they were told */
    int unfinished;     /* it did not come to its end: what is missing was said */
    int unpublished;    /* not even the publisher did, so nothing can be checked */
    uint64_t dead;
    uint64_t dead_poison; /* of these: the poison's own */
    soak_tally first, second, foreign;
} soak_run;

extern volatile sig_atomic_t soak_interrupted;

/* --- main.c ----------------------------------------------------------------------------------- */

_Noreturn void soak_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void soak_print(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *soak_store_name(soak_store store);

/* A line to the log of the run, from any process. */
void soak_log(const struct soak_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- servers.c -------------------------------------------------------------------------------- */

/* NULL if it was interrupted. They are stopped at the end of the program, if not before. */
soak_servers *soak_servers_start(const soak_options *options);
void soak_servers_stop(void);

/* At the beginning of a child: out of our process group, for Ctrl-C is for us alone, and so without
 * our terminal. */
void soak_leave(void);

/* --- topology.c: tables, queues --------------------------------------------------------------- */

void soak_topology_open(soak_run *run);
void soak_topology_close(soak_run *run,
                         int keep); /* keep: its directory stays, under another name */

/* The names of the effects of first and second consumers (effect.h). */
extern const char *const soak_effect_names[2];

/* What a store holds. Messages that are effects stay in it to the end, and are counted as such
 * with all others that are unsent: of those nothing stays. */
typedef struct soak_contents {
    int64_t effects, unsent;
} soak_contents;

soak_contents soak_topology_contents(soak_run *run, unsigned stage);

/* For effect_each(), when all processes have ended. */
void soak_topology_collect(soak_run *run, unsigned stage);

/* Messages in all queues of this run, also those that are out with a consumer; -1 if it cannot be
 * said. */
int64_t soak_topology_queued(soak_run *run);

/* --- roles.c ---------------------------------------------------------------------------------- */

/* Runs a process in a slot (the context) until SIGTERM, or until it is killed. */
process_body soak_role_run;
extern const char *const soak_role_names[SOAK_ROLES];

/* --- supervisor.c ----------------------------------------------------------------------------- */

/* All of it: publishes, consumes, kills, waits until everything has arrived. */
void soak_supervise(soak_run *run);

/* --- killer.c --------------------------------------------------------------------------------- */

typedef struct soak_killer soak_killer;

soak_killer *soak_killer_open(soak_run *run);
void soak_killer_close(soak_killer *killer);

/* Does what is due when this share of the run is over (0 to 1), and lets outages end. */
void soak_killer_step(soak_killer *killer, double share);

/* 1 when all have been killed and everything is up again. */
int soak_killer_done(const soak_killer *killer);
const char *soak_killer_outages(const soak_killer *killer); /* which servers are down now; "" */

/* --- check.c ---------------------------------------------------------------------------------- */

void soak_check(soak_run *run);
int soak_run_is_good(const soak_run *run);
const char *soak_missing(const soak_run *run); /* what the kills did not cause; NULL: nothing */

#endif
