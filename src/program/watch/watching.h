/* What `tail`, `top`, `stats` and `health` say alike. */
#ifndef SEMEL_PROGRAM_WATCH_WATCHING_H
#define SEMEL_PROGRAM_WATCH_WATCHING_H

#include "program/watch/view.h"

/* "semel.yaml", as it was given; with a store alone: "this store". */
const char *watching_what(const tool *t);

/* "no process is running semel.yaml; showing data from the store only:" */
void watching_say_none(const tool *t);

/* 0, or CLI_NOT_FOUND after saying which inbox of --inbox does not exist. A pattern may match
 * none. */
int watching_check_inboxes(tool *t, const argument_list *inboxes);

/* From here on, local times are those of UTC, if the options say so. */
void watching_use_zone(const tool_options *options);

#endif
