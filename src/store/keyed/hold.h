/* Keys that open units hold or have claimed, and what this process knows of claims. */
#ifndef SEMEL_STORE_KEYED_HOLD_H
#define SEMEL_STORE_KEYED_HOLD_H

#include "store/keyed/marker.h"

struct keyed_hold {
    keyed_hold *next_of_unit;
    keyed_hold *next, **at; /* in the store's list; at NULL: not in it */
    semel_bytes space, key; /* as all else here, in the unit's arena */
    uint64_t token;
    int64_t until_ms;
    semel_bytes value; /* of the record as it was written */
    int64_t expires_ms;
    int claimed;  /* by `claim`: it outlives the unit */
    int lost;     /* somebody else has the key, as the keeper has found; with the store's lock */
    int returned; /* commit.c, settle.c: it was given back, or is somebody else's */

    int was_there;             /* what it was written over */
    semel_keyed_record before; /* without body: open markers have none */
};

/* In the unit's arena, with copies of space and key. NULL: out of memory. */
keyed_hold *keyed_hold_new(keyed_unit *unit, semel_bytes space, semel_bytes key);

/* After it was written. The unit has it from now on; a hold is renewed from now on, a claim is
 * known. */
void keyed_hold_add(keyed_unit *unit, keyed_hold *hold);

/* The unit's hold or claim of this key; NULL: none. */
keyed_hold *keyed_hold_find(const keyed_unit *unit, semel_bytes space, semel_bytes key);

/* The write that brings back what was there before the hold. */
semel_keyed_change keyed_hold_restore(keyed_store *store, const keyed_hold *hold);

/* The thread that renews holds, if it does not run yet. */
semel_status keyed_keeper_start(keyed_store *store, semel_error *err);
void keyed_keeper_stop(keyed_store *store);

/* The holds of the unit are no longer renewed, and waiting units look again. */
void keyed_holds_end(keyed_unit *unit);

/* Gives them back to what was before, as far as the database can be reached. */
void keyed_holds_release(keyed_unit *unit);

/* KEYED_HOLD_MS. Tests set it, before the first store is opened, where processes are killed. */
extern uint32_t keyed_hold_ms;

/* Renews those that are due, as the thread does. */
void keyed_renew_holds(keyed_store *store);

/* Waits until a unit of this process gives keys back, or for this long: in real time, since other
 * threads and processes end it. A simulation in one thread sets keyed_waits_by_seam; then the wait
 * goes by the seam, and no thread is started: the simulation calls keyed_renew_holds(). */
extern int keyed_waits_by_seam;
int64_t keyed_wait_clock_ms(const keyed_store *store);
void keyed_wait_for_holds(keyed_store *store, uint32_t ms);

/* --- claims ----------------------------------------------------------------------------------- */

/* What a claim of this process has written. */
struct keyed_claim {
    keyed_claim *next;
    uint64_t token;
    int64_t inbox;
    int64_t until_ms;
    int was_fence;       /* it was written over a hold that had ended, which comes back */
    keyed_marker marker; /* without `why` */
    size_t key_len;
    unsigned char key[];
};

/* Room for a claim, before it is written. NULL: out of memory. */
keyed_claim *keyed_claim_new(const semel_mark *mark, const keyed_marker *marker);
void keyed_claim_add(keyed_store *store, keyed_claim *claim, int64_t now_ms);

/* 1 and a copy, if this process knows the claim. */
int keyed_claim_find(keyed_claim *out, keyed_store *store, const semel_mark *mark);

/* The claim ends then; 0: it has ended. */
void keyed_claim_update(keyed_store *store, uint64_t token, int64_t until_ms);
int keyed_claims_new(keyed_store *store); /* 0: out of memory */
void keyed_claims_free(keyed_store *store);

#endif
