/* What the commands share: the shape of a command, exit statuses, complaints. */
#ifndef SEMEL_CLI_CLI_H
#define SEMEL_CLI_CLI_H

#include <semel/export.h>
#include <stddef.h>
#include <stdio.h>

/* Of every command. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_CONFIG = 3,      /* the configuration is wrong */
    CLI_NOT_FOUND = 4,   /* what the command names does not exist */
    CLI_CONFLICT = 5,    /* it exists already */
    CLI_SIGNALLED = 128, /* and the number of the signal that stopped it: 130, 143 */
    CLI_TEMPORARY = 75   /* unreachable or busy: the same command may work later */
};

typedef struct command {
    const char *group; /* of the list; "": named in the line of the command before it */
    const char *name;
    const char *summary; /* one line for the list; NULL: a command that people do not type */
    const char *help;    /* the whole page: how it is called, and what the options mean */
    int (*run)(int argc, char **argv); /* argv[0] is the name of the command */
} command;

/* The table of commands, in main.c. */
const command *cli_commands(size_t *count);

extern const char audit_help[], bench_help[], check_help[], completion_help[], config_help[],
    dead_help[], demo_help[], doctor_help[], exec_help[], health_help[], inbox_help[], init_help[],
    migrate_help[], outbox_help[], publish_help[], queue_help[], run_help[], schema_help[],
    stats_help[], tail_help[], test_help[], top_help[];
int cmd_audit(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_inbox(int argc, char **argv);
int cmd_outbox(int argc, char **argv);
int cmd_queue(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_dead(int argc, char **argv);
int cmd_schema(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_demo_worker(int argc, char **argv);
int cmd_health(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_manual(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_publish(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_tail(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_test(int argc, char **argv);

int cmd_exec(int argc, char **argv);

/* stderr for a text that belongs behind what was printed so far: where both go to one place, they
 * are there in this order. */
FILE *cli_errors(void);

/* Says on stderr what is wrong with the command line and where help is; returns CLI_USAGE. */
int cli_usage(const char *name, const char *format, ...) SEMEL_PRINTF(2, 3);

/* Says on stderr what went wrong; returns CLI_FAILED. */
int cli_failed(const char *name, const char *format, ...) SEMEL_PRINTF(2, 3);

#endif
