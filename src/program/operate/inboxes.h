/* `semel inbox`: what its subcommands share. */
#ifndef SEMEL_PROGRAM_OPERATE_INBOXES_H
#define SEMEL_PROGRAM_OPERATE_INBOXES_H

#include "program/operate/confirm.h"
#include "program/operate/filters.h"
#include "program/operate/names.h"
#include "program/operate/table.h"

typedef struct inbox_work {
    tool_options options;
    filter_options filter;
    argument_list rest;
    uint64_t older_than_ms;
    tool tool;
    filters filters;
} inbox_work;

int inbox_ls(int argc, char **argv);
int inbox_show(int argc, char **argv);
int inbox_forget(int argc, char **argv);
int inbox_purge(int argc, char **argv);

/* Forgets the key that w->rest names behind the inbox, after a question; with --dry-run it only
 * says what that would do. An exit status. */
int inbox_forget_typed(inbox_work *w);

/* The word for people and JSON: done, claimed, failed, dead. */
const char *inbox_state_word(semel_marker_state state);

/* What the inbox takes as its key, and its mode, by the configuration or by its definition in the
 * store; "-" if that is not known. */
const char *inbox_key_expression(tool *t, const known_name *inbox);
const char *inbox_mode_word(tool *t, const known_name *inbox);

/* Why its last attempt failed; of a key of a proxy route, that its outcome is unknown, and why.
 * NULL: nothing is wrong. The text lives as long as the memory and the marker. */
const char *inbox_error_text(region *memory, const char *inbox, const semel_marker *marker);
/* The latter alone. */
const char *inbox_unknown_outcome(region *memory, const char *inbox, const semel_marker *marker);
/* Whether that needs the stored results. */
int inbox_keeps_answers(const char *inbox);

/* The inbox of this name, for looking at it. One that is only in the configuration is CLI_OK and
 * *out is NULL: it has no keys yet. Else the exit status, after saying what is wrong. */
int inbox_open_named(semel_inbox **out, tool *t, const char *name);

/* The id of the dead letter of a key; 0: there is none. */
semel_status inbox_letter(int64_t *out, tool *t, const char *inbox, semel_bytes key,
                          semel_error *err);

#endif
