/* What the tests of the memory store share: a store on a clock of its own, called through its
 * driver. */
#ifndef SEMEL_TESTS_MEMORY_KIT_H
#define SEMEL_TESTS_MEMORY_KIT_H

#include "store/memory/memory.h"
#include "support/process/deadline.h"

#include <semel/test.h>
#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#undef fail /* cmocka's; a store has a verb of this name */

static const semel_store_driver *const driver = &memory_store_driver;

typedef struct rig {
    semel_test_seam *seam;
    semel_store_settings settings;
    void *store;
    int64_t inbox;
    int64_t other_inbox;
    int64_t outbox;
    int64_t other_outbox;
    semel_error err;
} rig;

rig *rig_open(const char *url);
void rig_close(rig *r);
int rig_setup(void **state);
int rig_teardown(void **state);
int64_t rig_now(rig *r);

/* --- units ------------------------------------------------------------------------------------ */

void *begin(rig *r);
void commit(rig *r, void *unit);
void rollback(void *unit);

/* --- markers ---------------------------------------------------------------------------------- */

semel_mark key_of(rig *r, const char *key);
semel_mark mark_key(rig *r, void *unit, const char *key);

/* How a copy that comes now would find the key; nothing is changed. */
semel_mark look(rig *r, const char *key);
semel_mark claim_key(rig *r, void *unit, const char *key, uint32_t lease_ms);
void make_done(rig *r, const char *key);

/* A committed claim. */
semel_mark make_claimed(rig *r, const char *key, uint32_t lease_ms);
void make_dead(rig *r, const char *key);

/* --- messages --------------------------------------------------------------------------------- */

void put(rig *r, void *unit, const char *id, const char *group, uint32_t delay_ms);
void put_now(rig *r, const char *id, const char *group);

#endif
