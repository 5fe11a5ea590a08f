/* The surroundings of a test of the keyed outbox: a database in memory, two processes (stores) on it
 * with a clock that stands still, an outbox "mail", and its messages by what they are called. */
#ifndef SEMEL_TESTS_KEYED_POST_H
#define SEMEL_TESTS_KEYED_POST_H

#include "core/store.h"
#include "support/keyed/memory_adapter.h"
#include "support/keyed/outbox_invariants.h"

#include <semel/test.h>

enum { POST_HANDLES = 2, POST_LEASED_MAX = 128, POST_LEASE_MS = 10000 };

typedef struct post_leased {
    size_t count;
    semel_item_settlement all[POST_LEASED_MAX];
    uint32_t attempts[POST_LEASED_MAX];
    char ids[512]; /* each followed by a space */
} post_leased;

typedef struct post post;

struct post {
    semel_test_seam *seam;
    keyed_memory *memory;
    semel_store *stores[POST_HANDLES];
    int64_t outbox;
    semel_error err;
    /* Called once, before the next write of the first store. */
    void (*meanwhile)(post *p);
    keyed_memory_fate fate; /* of that write */
    post_leased other;      /* what it has leased */

    /* Called once, when the places of groups are scanned next; and the message whose place that
     * scan does not show: its number among those that were put, from 1 on. 0: it shows all. */
    void (*while_scanning)(post *p);
    unsigned hidden;
    int is_hiding;       /* the scan is under way */
    int64_t numbers[16]; /* of the messages with a group, in the order in which they were put */
    unsigned numbers_count;
};

extern const semel_store_driver *const post_driver;

void post_open(post *p, const keyed_memory_options *options);
void post_close(post *p); /* the invariants hold */
outbox_counts post_expect_invariants(const post *p);

void *post_begin(post *p, int handle);
semel_status post_commit(post *p, void *unit);
void post_put_in(post *p, void *unit, const char *id, const char *group);
void post_put(post *p, int handle, const char *id, const char *group);

semel_item_sink post_collect; /* into a post_leased */
void post_lease(post *p, int handle, post_leased *out, uint32_t limit);
semel_status post_settle(post *p, int handle, post_leased *items, semel_verdict verdict);
void post_expect_leased(post *p, int handle, const char *ids);

#endif
