/* A call of lease: see outbox_lease.c, which finds what can be leased, and outbox_lease_write.c,
 * which writes it. */
#ifndef SEMEL_STORE_KEYED_OUTBOX_LEASE_H
#define SEMEL_STORE_KEYED_OUTBOX_LEASE_H

#include "store/keyed/outbox.h"

enum { LEASE_HEAD_CHANGES = 3 }; /* the first message, and its entry at two times */

/* What a unit has leased, to be given back. */
struct keyed_leased {
    struct keyed_leased *next;
    int64_t scope, number;
    uint64_t token;
};

/* A group, from its first message on, or one message without a group. */
typedef struct lease_chain {
    struct lease_chain *next;
    semel_bytes group; /* empty: none */
    int64_t ready_ms;
    unsigned char ready_version[SEMEL_KEYED_VERSION_LEN];
    int64_t last; /* of the group; 0: not known */
    keyed_item *items;
    size_t count;
    int64_t *behind; /* numbers of those that may be leased, too */
    size_t behind_count;
} lease_chain;

typedef struct lease_run {
    keyed_unit *unit;
    keyed_store *store;
    int64_t scope;
    uint32_t limit, lease_ms;
    mem_arena arena;
    int64_t now_ms;
    uint32_t error_ms;
    lease_chain *first, *last;
    size_t count; /* messages in them */
    lease_chain *leased, *last_leased;
    size_t leased_count;
    int was_refused;
} lease_run;

/* Leases the chains, as many of their messages as nobody else was faster with. */
semel_status outbox_lease_write(lease_run *run, semel_error *err);

#endif
