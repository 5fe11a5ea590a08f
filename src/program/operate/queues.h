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

semel_status queue_count_waiting(queue_count *out, const waiting_place *where, semel_error *err);

/* The queue of this name in the store. One that is only in the configuration is CLI_OK and
 * out->queue is NULL: it is empty. A broker's is refused. */
int queue_open_named(waiting_place *out, tool *t, const char *name);

#endif
