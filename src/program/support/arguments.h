/* Options and arguments of a command, read by a table. Both --name VALUE and --name=VALUE; options
 * may stand behind arguments; `--` ends them. Every command takes --color. */
#ifndef SEMEL_PROGRAM_SUPPORT_ARGUMENTS_H
#define SEMEL_PROGRAM_SUPPORT_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

enum { ARGUMENTS_MAX = 256 };

typedef enum argument_kind {
    ARGUMENT_FLAG = 1, /* int *: set to 1 */
    ARGUMENT_TEXT,     /* const char ** */
    ARGUMENT_COUNT,    /* uint32_t *: 1 to 4294967295 */
    ARGUMENT_PERIOD,   /* uint64_t *: milliseconds, from 200ms, 7d, forever (UINT64_MAX) */
    ARGUMENT_LIST,     /* argument_list *: may be repeated */
    ARGUMENT_COLOUR    /* nothing: auto, always or never, for the whole process */
} argument_kind;

typedef struct argument_list {
    const char *items[ARGUMENTS_MAX];
    size_t count;
} argument_list;

typedef struct argument_option {
    const char *name; /* "--type"; the entry with NULL ends the table */
    char letter;      /* 0: none */
    argument_kind kind;
    void *to;
} argument_option;

/* `rest` gets what is no option. Returns 0, or the exit status after saying on stderr what is
 * wrong. */
int arguments_read(const char *command, int argc, char **argv, const argument_option *options,
                   argument_list *rest);

#endif
