/* `semel help TOPIC`: what several commands have in common. */
#ifndef SEMEL_PROGRAM_COMMAND_HELP_TOPICS_H
#define SEMEL_PROGRAM_COMMAND_HELP_TOPICS_H

#include <stddef.h>

typedef struct help_topic {
    const char *name; /* NULL ends the table */
    const char *text;
} help_topic;

extern const help_topic help_topics[]; /* the first one is `common` */

#endif
