/* Messages that wait in an outbox or in a queue of the store: found page by page, listed, shown. */
#ifndef SEMEL_PROGRAM_OPERATE_WAITING_H
#define SEMEL_PROGRAM_OPERATE_WAITING_H

#include "program/operate/filters.h"

#include <semel/queue.h>

/* One of the two is set. */
typedef struct waiting_place {
    const char *name;
    semel_outbox *outbox;
    semel_transport *queue;
} waiting_place;

/* Opens an outbox or a queue that the store knows. */
semel_status waiting_open(waiting_place *out, tool *t, semel_name_kind kind, const char *name,
                          semel_error *err);
void waiting_close(waiting_place *where);

/* A page of it. */
semel_status waiting_page(const waiting_place *where, const semel_outgoing_filter *filter,
                          semel_outgoing_visitor *visitor, void *context, semel_error *err);

/* All of it, page by page, without headers and bodies. The visitor ends it early by SEMEL_EGIVEUP,
 * which is then returned. */
semel_status waiting_each(const waiting_place *where, semel_outgoing_visitor *visitor,
                          void *context, semel_error *err);

/* The message with this id that came first: *seq, or 0 if there is none. */
semel_status waiting_find(int64_t *seq, const waiting_place *where, semel_bytes id,
                          semel_error *err);

/* An id as it was typed, which is as it is shown: CLI_OK, or CLI_USAGE after saying what is
 * wrong. */
int waiting_read_id(semel_bytes *out, tool *t, const char *typed);

/* Do --type, --error, --since and --until let it pass? */
int waiting_is_meant(const filters *f, const semel_outgoing *outgoing);

/* "41 s", "now", "sending". */
void waiting_show_due(buffer *to, const tool *t, const semel_outgoing *outgoing);

/* Lists what waits there, as --limit and --after say. `command` is "outbox ls". `field` is "outbox"
 * or "queue", for JSON. */
int waiting_list(tool *t, const filters *f, const waiting_place *where, const char *field);

#endif
