/* The parts of a view. */
#ifndef SEMEL_PROGRAM_WATCH_VIEW_INTERNAL_H
#define SEMEL_PROGRAM_WATCH_VIEW_INTERNAL_H

#include "program/watch/view.h"

enum { VIEW_NAMES_MAX = 1024 };

/* Those that exist, or new ones; NULL: there are too many. The name is copied. */
inbox_view *view_add_inbox(view *v, const char *name);
outbox_view *view_add_outbox(view *v, const char *name);
queue_view *view_add_queue(view *v, const char *name);

/* view_processes.c */
void view_read_processes(view *v, tool *t, const argument_list *inboxes);

/* view_store.c: dead letters; and what waits in outboxes and queues. */
void view_read_dead(view *v, tool *t);
void view_read_lag(view *v, tool *t);

#endif
