/* The plan of a commit: see outbox_plan.c, which makes it, and outbox_emit.c, which turns it into
 * changes. */
#ifndef SEMEL_STORE_KEYED_OUTBOX_PLAN_H
#define SEMEL_STORE_KEYED_OUTBOX_PLAN_H

#include "store/keyed/outbox.h"

enum { PLAN_BUCKETS = 256 };

typedef struct plan_row {
    struct plan_row *next;
    outbox_act act;
    const outbox_intent *put;
    uint64_t token;
    int keeps_sent;
    int is_there; /* before the unit */
    keyed_item before;
    keyed_item after;
} plan_row;

typedef struct plan_group {
    struct plan_group *next, *in_bucket;
    int64_t scope;
    semel_bytes name;
    plan_row *first, *last;
    size_t changed, put; /* rows that are there; that are new */
    outbox_group group;
    int is_known;
    int64_t head;         /* the first message before the change; 0: none, or of no interest */
    int64_t new_head;     /* of those that were there, the first one afterwards; 0: none */
    keyed_item head_item; /* of the head, if this unit does not change it */
    keyed_item new_item;  /* the same for the new head */
} plan_group;

typedef struct plan {
    keyed_unit *unit;
    keyed_store *store;
    mem_arena arena; /* of the plan; what changes point to is in the unit's */
    int is_first_try;
    int64_t now_ms;
    uint32_t error_ms;            /* of it */
    plan_row *rows, *last_row;    /* of changed messages, before they are in their groups */
    plan_row *alone, *last_alone; /* without a group */
    plan_group *groups, *last_group;
    plan_group *buckets[PLAN_BUCKETS];
} plan;

/* The row of a message that was there and that the unit changes; NULL: it does not. */
const plan_row *plan_changed_row(const plan_group *group, int64_t number);

semel_status outbox_emit(plan *p, semel_error *err);

#endif
