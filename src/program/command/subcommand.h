/* Commands that have commands of their own: `inbox ls`, `dead retry`. A cmd_*.c has one small table
 * of them:
 *
 *     static const subcommand subcommands[] = {{"ls", inbox_ls}, {"show", inbox_show}, {0}};
 *     return subcommand_run("inbox", subcommands, argc, argv);
 */
#ifndef SEMEL_PROGRAM_COMMAND_SUBCOMMAND_H
#define SEMEL_PROGRAM_COMMAND_SUBCOMMAND_H

typedef struct subcommand {
    const char *name;                  /* NULL ends the table */
    int (*run)(int argc, char **argv); /* argv[0] is the name of the subcommand */
} subcommand;

/* Runs the one that argv[1] names, or says which there are and returns CLI_USAGE. */
int subcommand_run(const char *caller, const subcommand *all, int argc, char **argv);

#endif
