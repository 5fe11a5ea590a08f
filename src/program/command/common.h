/* What commands that work on a configuration share: their options, and the texts about them. */
#ifndef SEMEL_PROGRAM_COMMAND_COMMON_H
#define SEMEL_PROGRAM_COMMAND_COMMON_H

#include "program/config/locate.h"
#include "program/support/arguments.h"

typedef struct common_options {
    const char *path; /* -c, --config */
    const char *store_url;
    argument_list sets;
} common_options;

/* For the table of a command. */
#define COMMON_OPTIONS(options)                               \
    {"--config", 'c', ARGUMENT_TEXT, &(options)->path},       \
        {"--store", 0, ARGUMENT_TEXT, &(options)->store_url}, \
    {                                                         \
        "--set", 0, ARGUMENT_LIST, &(options)->sets           \
    }

#define COMMON_HELP                                                             \
    "  -c, --config FILE   config file; default: $SEMEL_CONFIG, ./semel.yaml, " \
    "/etc/semel/semel.yaml\n"                                                   \
    "  --set PATH=VALUE    override the config for this command\n"              \
    "  --color WHEN        auto, always or never\n"

/* As options of config/locate.h; the lists stay where they are. */
config_arguments common_arguments(const common_options *options);

/* As locate_config(): 0 and *out, or the exit status after saying what is wrong. */
int common_load(config **out, const common_options *options);
/* The same, but what is found is for the caller to print. */
int common_load_quietly(config **out, const common_options *options, diagnostics *found);

/* Opens the store of the configuration, its tables made or upgraded; and a queue of it. Says what
 * is wrong, and returns the exit status. */
int common_open_store(semel_store **out, const char *caller, const config *all);
int common_open_queue(semel_transport **out, const char *caller, const queue_config *queue,
                      semel_store *store);

/* The exit status that fits an error: CLI_TEMPORARY if the same may work later. */
int common_failed(const char *caller, const semel_error *why);

#endif
