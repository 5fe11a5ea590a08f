/* `semel outbox`: what its subcommands share. */
#ifndef SEMEL_PROGRAM_OPERATE_OUTBOXES_H
#define SEMEL_PROGRAM_OPERATE_OUTBOXES_H

#include "program/operate/names.h"
#include "program/operate/waiting.h"

typedef struct outbox_work {
    tool_options options;
    filter_options filter;
    argument_list rest;
    int body;
    tool tool;
    filters filters;
} outbox_work;

int outbox_ls(int argc, char **argv);
int outbox_lag(int argc, char **argv);
int outbox_show(int argc, char **argv);
int outbox_requeue(int argc, char **argv);
int outbox_skip(int argc, char **argv);

/* The outbox of this name. One that is only in the configuration is CLI_OK, and out->outbox is
 * NULL: nothing waits there. Else the exit status, after saying what is wrong. */
int outbox_open_named(waiting_place *out, tool *t, const char *name);

/* A message that waits, by its id as it was typed. */
typedef struct outbox_message {
    waiting_place where;
    semel_bytes id;
    int64_t seq;
} outbox_message;

/* The outbox in which it waits; CLI_NOT_FOUND after saying so. The caller closes `where`. */
int outboxes_find(outbox_message *out, tool *t, const char *typed);

#endif
