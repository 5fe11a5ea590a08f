/* What the commands for operators share: their common options, the store that they work on, and how
 * they say what they did. `inbox`, `outbox`, `dead`, `queue`, `audit`, `stats`, `migrate`,
 * `doctor`: each opens a tool, does its work and closes the tool. */
#ifndef SEMEL_PROGRAM_OPERATE_TOOL_H
#define SEMEL_PROGRAM_OPERATE_TOOL_H

#include "program/command/common.h"
#include "program/support/memory.h"

#include <semel/operate.h>

/* `semel help common` describes them. */
typedef struct tool_options {
    common_options common;
    int json;
    int dry_run;
    int yes;
    int quiet;
    int verbose;
    int utc;
    int no_pager;
    uint64_t timeout_ms; /* of the store; default 10s */
} tool_options;

/* For the table of a command: the options of every tool, and those of a tool that changes
 * something. */
#define TOOL_OPTIONS(o)                                                                           \
    COMMON_OPTIONS(&(o)->common), {"--json", 0, ARGUMENT_FLAG, &(o)->json},                       \
        {"--quiet", 'q', ARGUMENT_FLAG, &(o)->quiet},                                             \
        {"--verbose", 'v', ARGUMENT_FLAG, &(o)->verbose}, {"--utc", 0, ARGUMENT_FLAG, &(o)->utc}, \
        {"--no-pager", 0, ARGUMENT_FLAG, &(o)->no_pager},                                         \
    {                                                                                             \
        "--timeout", 0, ARGUMENT_PERIOD, &(o)->timeout_ms                                         \
    }
#define TOOL_CHANGE_OPTIONS(o)                        \
    {"--dry-run", 'n', ARGUMENT_FLAG, &(o)->dry_run}, \
    {                                                 \
        "--yes", 'y', ARGUMENT_FLAG, &(o)->yes        \
    }

/* Who asked for the work, if that is no person at a terminal: the admin server. It is told what a
 * terminal would show, and it has confirmed what a terminal would ask. */
typedef struct tool_host {
    void *context;
    const char *who; /* for the audit: "mira (127.0.0.1)" */
    const char
        *note; /* behind what the audit says was done, as a comment: " # page: because"; "" */
    /* A line: what is wrong, or what was done. */
    void (*say)(void *context, int is_refusal, const char *text);
    int (*is_stopped)(void *context); /* 1: it is to end after the step in hand */
    /* How many have this outcome so far: "processed", "gone". */
    void (*count)(void *context, const char *outcome, uint64_t count);
    void (*audited)(void *context, int64_t id); /* the entry of the audit */
} tool_host;

typedef struct tool {
    const char *command; /* "dead ls", for messages */
    const tool_options *options;
    const tool_host *host; /* NULL: a terminal, or a pipe */
    config *all;           /* NULL: with --store and without -c */
    semel_store *store;
    int64_t now_ms; /* the store's clock when the tool was opened */
    region memory;  /* until the tool is closed */
} tool;

/* Reads the configuration and opens the store without changing anything in it: a store whose tables
 * are missing or old is an error that names `semel migrate up`. With --store and without -c there
 * is no configuration. Returns 0, or the exit status after saying what is wrong. The caller closes
 * the tool in both cases. */
int tool_open(tool *out, const char *caller, const tool_options *options);

/* The same, but tables may be missing or old: for `migrate` and `doctor`. now_ms is the host's. */
int tool_open_any(tool *out, const char *caller, const tool_options *options);

/* The same, but a file that is not there is not made: then the store is NULL. */
int tool_open_existing(tool *out, const char *caller, const tool_options *options);
void tool_close(tool *t);

/* The same on a store and a configuration that are open, and stay the caller's; `host` as above.
 * Returns 0, or the exit status after telling the host. Ends with tool_return(). */
int tool_borrow(tool *out, const char *caller, const tool_options *options, const tool_host *host,
                config *all, semel_store *store);
void tool_return(tool *t);

/* Tells the host, if there is one, how many have this outcome so far. */
void tool_count(const tool *t, const char *outcome, uint64_t count);

/* What is wrong with what was typed; returns CLI_USAGE. */
int tool_usage(const tool *t, const char *format, ...) SEMEL_PRINTF(2, 3);

/* "semel dead ls: TEXT" on stderr; returns the status that fits: CLI_TEMPORARY, CLI_NOT_FOUND,
 * CLI_FAILED. */
int tool_failed(const tool *t, const semel_error *why);

/* The same for a text of the caller; returns `status`. */
int tool_refuse(const tool *t, int status, const char *format, ...) SEMEL_PRINTF(3, 4);

/* A sentence for people, on stderr, not with --quiet: counts, hints, next: ... */
void tool_say(const tool *t, const char *format, ...) SEMEL_PRINTF(2, 3);

/* Whether stdout is a terminal for people: it decides about --limit, cutting, colour, the pager. */
int tool_on_terminal(const tool *t);

/* "ops@host-1", for the audit. */
const char *tool_actor(tool *t);

/* Adds an entry to the audit, or brings it up to date; `entry` has id 0 at first. An error is said
 * and returned as an exit status. */
int tool_audit(tool *t, semel_audit *entry);

/* A name that is not there: says so with the nearest of those that are; returns CLI_NOT_FOUND.
 * `kind` is "inbox", "outbox" or "queue". */
int tool_no_such_name(tool *t, const char *kind, const char *name);

#endif
