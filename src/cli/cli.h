/* What the commands share: the shape of a command, exit statuses, complaints. */
#ifndef SEMEL_CLI_CLI_H
#define SEMEL_CLI_CLI_H

#include <semel/export.h>
#include <stddef.h>

/* Of every command. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct command {
    const char *name;
    const char *summary; /* one line for the list; NULL: a command that people do not type */
    const char *help;    /* the whole page: how it is called, and what the options mean */
    int (*run)(int argc, char **argv); /* argv[0] is the name of the command */
} command;

extern const char demo_help[];
int cmd_demo(int argc, char **argv);
int cmd_demo_worker(int argc, char **argv);

/* Says on stderr what is wrong with the command line and where help is; returns CLI_USAGE. */
int cli_usage(const char *name, const char *format, ...) SEMEL_PRINTF(2, 3);

/* Says on stderr what went wrong; returns CLI_FAILED. */
int cli_failed(const char *name, const char *format, ...) SEMEL_PRINTF(2, 3);

/* suggest.c: the name that was probably meant, or NULL if none is near. */
const char *suggest(const char *typed, const command *commands, size_t count);

#endif
