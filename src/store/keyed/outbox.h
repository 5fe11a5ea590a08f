/* What the files of the outbox share. The design note is in outbox.c. */
#ifndef SEMEL_STORE_KEYED_OUTBOX_H
#define SEMEL_STORE_KEYED_OUTBOX_H

#include "store/keyed/item.h"

/* --- keys ------------------------------------------------------------------------------------- */

enum { OUTBOX_GROUP_LEN = 2, OUTBOX_READY_LEN = 2 * KEYED_NUMBER_LEN };

typedef struct outbox_key {
    unsigned char bytes[OUTBOX_GROUP_LEN + SEMEL_TEXT_MAX + KEYED_NUMBER_LEN];
    size_t len;
} outbox_key;

outbox_key outbox_key_number(int64_t number);                   /* of o/ */
outbox_key outbox_key_timed(int64_t at_ms, int64_t number);     /* of r/ and x/ */
outbox_key outbox_key_place(semel_bytes group, int64_t number); /* of w/ */

static inline semel_bytes outbox_key_bytes(const outbox_key *key)
{
    return (semel_bytes){key->bytes, key->len};
}

/* The group of a message; empty: none. */
semel_bytes outbox_group_of(const semel_message *message);

/* --- what a unit is to do --------------------------------------------------------------------- */

typedef enum outbox_act { OUTBOX_PUT = 1, OUTBOX_WRITE, OUTBOX_REMOVE } outbox_act;

/* One message, put or changed by a unit. Not altered once it is a step of the unit, but for
 * `builds`. */
typedef struct outbox_intent {
    outbox_act act;
    uint64_t token;    /* the lease that allows the change; 0: the version of `before` does */
    int keeps_sent;    /* REMOVE: a record of x/ stays */
    keyed_item before; /* as it was found; PUT: nothing */
    keyed_item after;
    uint32_t delay_ms; /* PUT */
    semel_bytes body;  /* PUT: of the record */
    unsigned builds;   /* of the first intent of a unit: how often the unit was built */
} outbox_intent;

/* Adds the intent, which is copied; what it points to is in the unit's arena. */
semel_status outbox_intend(keyed_unit *unit, const outbox_intent *intent, semel_error *err);

/* The last intent of this unit for the message; NULL: none. */
const outbox_intent *outbox_intended(const keyed_unit *unit, int64_t scope, int64_t number);

/* outbox_plan.c: a step's builder. */
semel_status outbox_build(keyed_unit *unit, void *context, semel_error *err);

/* --- groups ----------------------------------------------------------------------------------- */

/* The record of a group: there is one as long as the group has messages. */
typedef struct outbox_group {
    int there;
    unsigned char version[SEMEL_KEYED_VERSION_LEN];
    int64_t first; /* the first message that the group has had since it was empty */
    int64_t last;  /* its last number */
} outbox_group;

/* What this process knows of a group. 0: nothing. A guess: it is expected, never relied upon.
 * OUTBOX_GROUP_READ: it was so in the database, before this call; else a commit that may be under
 * way makes it so. */
enum { OUTBOX_GROUP_READ = 2 };
int outbox_group_known(outbox_group *out, keyed_store *store, int64_t scope, semel_bytes name);

/* As outbox_group_known(), for a message that is to be added: whether the group was empty the last
 * time counts for more than what is known of it. */
int outbox_group_guess(outbox_group *out, keyed_store *store, int64_t scope, semel_bytes name);

/* Keeps what was read (found 1) or what is about to be written (found 0). */
void outbox_group_keep(keyed_store *store, int64_t scope, semel_bytes name,
                       const outbox_group *group, int found);

semel_status outbox_group_read(outbox_group *out, const semel_keyed_record *record,
                               semel_error *err);
int outbox_group_value(semel_bytes *out, mem_arena *arena, const outbox_group *group);

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct outbox_items {
    keyed_item *all;
    size_t count;
} outbox_items;

/* The messages with these numbers that are there, in the order of the numbers[], which need not be
 * sorted. One that is damaged is among them, and says so: it must not hide the others. */
semel_status outbox_get(outbox_items *out, keyed_store *store, int64_t scope,
                        const int64_t numbers[], size_t count, int contents, mem_arena *arena,
                        semel_error *err);

const keyed_item *outbox_items_find(const outbox_items *items, int64_t number);

/* The numbers of a group's messages behind `after`, at most `limit`, in their order. */
semel_status outbox_places(int64_t **out, size_t *count, keyed_store *store, int64_t scope,
                           semel_bytes group, int64_t after, uint32_t limit, mem_arena *arena,
                           semel_error *err);

/* stats.c: messages of all outboxes, not of queues, and the time of the oldest. */
semel_status keyed_count_unsent(keyed_store *store, semel_stats *out, semel_error *err);

/* --- the members ------------------------------------------------------------------------------ */

semel_status keyed_outbox_lease(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                                semel_item_sink *sink, void *context, semel_error *err);
semel_status keyed_outbox_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                                 size_t count, semel_error *err);
semel_status keyed_outbox_extend(void *unit, int64_t outbox, semel_item_settlement leases[],
                                 size_t count, uint32_t lease_ms, semel_error *err);
semel_status keyed_outbox_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                               size_t *changed, semel_error *err);
semel_status keyed_outbox_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                                 size_t *changed, semel_error *err);

/* list.c: as `outgoing` of the operations. */
semel_status keyed_show_outgoing(void *unit, int64_t outbox, int64_t seq,
                                 semel_outgoing_visitor *visitor, void *context, semel_error *err);

#endif
