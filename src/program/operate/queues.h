/* `semel queue`: what its subcommands share. */
#ifndef SEMEL_PROGRAM_OPERATE_QUEUES_H
#define SEMEL_PROGRAM_OPERATE_QUEUES_H

#include "program/operate/names.h"
#include "program/operate/waiting.h"

typedef struct queue_work {
    tool_options options;
    filter_options filter;
    argument_list rest;
    tool tool;
    filters filters;
} queue_work;

int queue_ls(int argc, char **argv);
int queue_purge(int argc, char **argv);

enum { QUEUE_COUNTED_MAX = 1000000 }; /* counting ends there */

/* What waits in a queue of the store. */
typedef struct queue_count {
    uint64_t waiting; /* and no consumer has it */
    uint64_t all;
    int64_t oldest_ms; /* 0: none waits */
    int64_t newest_ms; /* when the last of those that wait was captured */
    int64_t last_seq;  /* the largest of theirs */
} queue_count;

/* Removes those that were counted, after a person has confirmed it: with an entry in the audit, in
 * steps that can be stopped. An exit status. */
int queue_purge_counted(queue_work *w, const waiting_place *where, const queue_count *counted);

semel_status queue_count_waiting(queue_count *out, const waiting_place *where, semel_error *err);

/* How many messages are ready in a queue at a broker. */
typedef struct queue_depth {
    int64_t ready;   /* -1: not known, */
    const char *why; /* and why; NULL if it is known */
    int status;      /* an exit status; what is wrong was said */
} queue_depth;

typedef struct queue_outage queue_outage;

typedef struct queue_depths {
    tool *tool;
    queue_outage *outages; /* so far; NULL at first */
} queue_depths;

/* queue_depth.c: of a queue with a URL. */
queue_depth queue_depth_of(queue_depths *all, const queue_config *queue);

/* The queue of this name in the store. One that is only in the configuration is CLI_OK and
 * out->queue is NULL: it is empty. A broker's is refused. */
int queue_open_named(waiting_place *out, tool *t, const char *name);

#endif
