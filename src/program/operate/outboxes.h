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

/* A seq may be another message's later; with its id it is this one's. */
typedef struct waiting_one {
    int64_t seq;
    semel_bytes id;
} waiting_one;

/* Those that wait for their time, as they were when the command started. */
typedef struct waiting_set {
    outbox_work *work;
    waiting_one *items;
    size_t count, room;
    buffer sample; /* lines of the first ones */
} waiting_set;

/* The messages of w->rest's outbox that the filters name and that wait for their next attempt; the
 * caller closes `where` and frees the set in any case. An exit status. */
int outbox_find_waiting(waiting_set *out, waiting_place *where, outbox_work *w);
void waiting_set_free(waiting_set *set);

/* The changes alone, after they were confirmed: with their entry in the audit. Exit statuses. */
int outbox_wake_set(outbox_work *w, const waiting_place *where, const waiting_set *set);
int outbox_skip_found(outbox_work *w, const outbox_message *found, const char *id);

/* The outbox in which it waits; CLI_NOT_FOUND after saying so. The caller closes `where`. */
int outboxes_find(outbox_message *out, tool *t, const char *typed);

#endif
