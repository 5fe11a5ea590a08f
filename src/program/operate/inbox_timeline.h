/* What became of the deliveries of a key, and of what was sent for it: from the history that
 * `semel run` writes, as far as it reaches back. */
#ifndef SEMEL_PROGRAM_OPERATE_INBOX_TIMELINE_H
#define SEMEL_PROGRAM_OPERATE_INBOX_TIMELINE_H

#include "program/operate/filters.h"
#include "program/operate/table.h"
#include "program/operate/tool.h"

#include <semel/operate.h>

typedef struct timeline_row {
    semel_history row; /* without its message */
    const char *inbox; /* for whose key it is: of what was sent another name than its own */
} timeline_row;

typedef struct timeline {
    region memory;
    timeline_row *rows; /* the oldest first */
    size_t count, room;
    int is_cut; /* there are older ones */
} timeline;

/* Of the key, as it is stored, in the inboxes that the patterns name. A store without a history has
 * no rows; one that cannot be read is told of. */
void timeline_read(timeline *out, tool *t, const argument_list *inboxes, semel_bytes key);
void timeline_free(timeline *all);

/* For people: nothing if there are no rows. */
void timeline_print(const timeline *all, int utc);

/* The rows of one inbox as a JSON array. */
void timeline_json(buffer *to, const timeline *all, const char *inbox);

#endif
