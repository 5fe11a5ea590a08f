/* The log of `semel run`: lines for people on a terminal, JSON objects in a pipe, on stderr. One
 * event is one line, whatever a message or a server put into it. Bodies, header values, results,
 * bound values and secrets never come here. */
#ifndef SEMEL_PROGRAM_RUN_LOG_H
#define SEMEL_PROGRAM_RUN_LOG_H

#include "program/config/config.h"

#include <stdio.h>

typedef struct log log;

enum { LOG_FIELDS_MAX = 12 };

/* Of the JSON form: a text, or a number if `text` is NULL. */
typedef struct log_field {
    const char *name;
    const char *text;
    int64_t number;
} log_field;

typedef struct log_entry {
    log_level level;
    const char *event;                /* a stable word: "ready", "outage" */
    const char *subject;              /* begins the line for people: "store"; NULL: none */
    const char *msg;                  /* what happened */
    const char *text;                 /* the same for people, if it says more; NULL: msg */
    size_t name_len;                  /* bytes of a name that `text` begins with; 0: none */
    log_field fields[LOG_FIELDS_MAX]; /* the first one without a name ends them */
} log_entry;

/* `to` stays the caller's. With LOG_FORMAT_AUTO a terminal gets lines for people. */
log *log_open(const log_config *options, FILE *to);
void log_close(log *l);

/* Options of a configuration that was read again. */
void log_configure(log *l, const log_config *options);

/* From any thread; whole lines. */
void log_write(log *l, const log_entry *entry);

/* Where the line is for people only (a hint, an outcome): without level and subject. */
void log_line(log *l, const char *text);

int log_is_text(const log *l);
int log_shows_keys(const log *l);     /* without a lock, as the next one */
int log_shows_messages(const log *l); /* each has a line; without a lock: every message asks */
log_config log_options(const log *l);

#endif
