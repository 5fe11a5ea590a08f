/* One apply() of the driver's, and what its answer means. */
#ifndef SEMEL_STORE_KEYED_APPLY_H
#define SEMEL_STORE_KEYED_APPLY_H

#include "store/keyed/keyed.h"

/* How long something is tried again. Zeroed: not begun. */
typedef struct keyed_patience {
    int64_t end_ms; /* by the steady clock */
    uint32_t tries;
    int begun;
} keyed_patience;

/* Sleeps for a while, longer each time; 0 if limit_ms is over, since the first call. */
int keyed_try_again(keyed_patience *patience, const keyed_store *store, uint32_t limit_ms);

/* Once. ECONFLICT: `there` gets what is there under all keys that were refused. */
semel_status keyed_apply_once(keyed_store *store, semel_keyed_change changes[], size_t count,
                              semel_begin durability, keyed_rows *there, semel_error *err);

size_t keyed_refused(const semel_keyed_change changes[], size_t count);

/* 1 if a change of these, which were refused, is there: an earlier apply() of them took place. */
int keyed_was_applied(const semel_keyed_change changes[], size_t count, const keyed_rows *there);

#endif
