/* What is going on, as `stats` and `top` show it: counters that the running processes keep, added
 * up, and what the store holds. */
#ifndef SEMEL_PROGRAM_WATCH_VIEW_H
#define SEMEL_PROGRAM_WATCH_VIEW_H

#include "program/operate/filters.h"
#include "program/run/meters.h"

typedef struct inbox_view {
    const char *name;
    const char *from;                 /* a queue; "" if that is not known */
    uint64_t counts[METER_OTHERS];    /* since the processes started */
    uint64_t took[HISTOGRAM_BUCKETS]; /* of the processes of this host */
    int64_t in_progress;
    int64_t dead;     /* letters in the store */
    int has_counters; /* a process counts it */
} inbox_view;

typedef struct outbox_view {
    const char *name;
    uint64_t sent, failed;
    int64_t waiting;   /* -1: not known */
    int64_t oldest_ms; /* how long the oldest one has waited; -1: none waits */
} outbox_view;

typedef struct queue_view {
    const char *name;
    int is_broker;
    int64_t waiting;   /* -1: not known: it is a broker's, or cannot be read */
    int64_t oldest_ms; /* as above */
    int64_t leased;    /* of those that wait, what a consumer has */
    int64_t delayed;   /* and what waits for its time */
} queue_view;

/* Dead letters with a cause in common: semel_dead_group. */
typedef struct group_view {
    semel_dead_origin origin;
    uint32_t cause;
    uint64_t letters;
    int64_t first_ms, last_ms;
    const char *name;
    const char *text;
} group_view;

enum { VIEW_GROUPS_MAX = 16 };

typedef struct view {
    region memory;
    inbox_view *inboxes;
    outbox_view *outboxes;
    queue_view *queues;
    size_t inbox_count, outbox_count, queue_count;
    size_t processes;                   /* that count */
    size_t unreachable;                 /* of these: only their rows were read */
    const char *others;                 /* their names: "host-2 pid 77, host-3 pid 12" */
    int64_t since_ms;                   /* when the first of them started */
    int64_t at_ms;                      /* when this was read, by the wall clock, */
    int64_t at_ns;                      /* and by the steady one, */
    int64_t took_ns;                    /* and how long that took */
    uint64_t dead;                      /* letters in all */
    group_view groups[VIEW_GROUPS_MAX]; /* the largest of them */
    size_t group_count;
    semel_error trouble; /* of the store; status 0: none */
} view;

/* Inboxes of the configuration, of the processes and of the store that the filter lets pass. With
 * `lag`, also what waits. An error of the store is in *out; what could be read is there. */
void view_read(view *out, tool *t, const argument_list *inboxes, int lag);
void view_free(view *v);

/* How long to wait before the next one: so that a store with many dead letters is not read without
 * end. It is bounded: a view may have taken long because the machine stood still. */
uint64_t view_pause_ms(const view *v, uint64_t every_ms);

/* How many messages wait in all outboxes, and how long the oldest of them has; -1: none waits. */
uint64_t view_unsent(const view *v, int64_t *oldest_ms);

inbox_view *view_inbox(view *v, const char *name); /* NULL: there is none */

#endif
