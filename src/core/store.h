/* The store as the core sees it: a driver, its state, and what the units of one process share. */
#ifndef SEMEL_CORE_STORE_H
#define SEMEL_CORE_STORE_H

#include "base/seam.h"
#include "core/health.h"

#include <pthread.h>
#include <semel/observe.h>
#include <semel/sys/store.h>
#include <stdatomic.h>

/* One per member of semel_counters that is counted here; order as there. */
typedef enum tally {
    TALLY_PROCESSED,
    TALLY_DUPLICATES,
    TALLY_REPLAYED,
    TALLY_IN_PROGRESS,
    TALLY_MISMATCHED,
    TALLY_STALE,
    TALLY_MISSING_KEY,
    TALLY_UNPROTECTED,
    TALLY_FAILED,
    TALLY_DEAD,
    TALLY_CAPTURED,
    TALLY_SENT,
    TALLY_RESENT,
    TALLY_SEND_FAILED,
    TALLY_SWEPT,
    TALLY_COUNT
} tally;

typedef struct tally_set {
    atomic_uint_fast64_t of[TALLY_COUNT];
} tally_set;

static inline void tally_add(tally_set *set, tally which, uint64_t by)
{
    atomic_fetch_add_explicit(&set->of[which], by, memory_order_relaxed);
}

static inline uint64_t tally_get(const tally_set *set, tally which)
{
    return atomic_load_explicit(&set->of[which], memory_order_relaxed);
}

/* Outboxes and queues by their numbers. If there are more than the set has room for, all of the
 * store are meant. */
enum { STORE_SCOPES = 4 };
typedef struct store_scopes {
    int64_t ids[STORE_SCOPES];
    size_t count; /* more than STORE_SCOPES: all */
} store_scopes;

/* A relay or a receiver that waits for messages of one outbox or queue to be committed. A pipe:
 * what is written into it wakes, from a signal handler, too. */
typedef struct store_watcher {
    struct store_watcher *next;
    int64_t scope; /* of the outbox or queue */
    int ends[2];
    unsigned deaf; /* the store's, when it last looked after that */
} store_watcher;

typedef struct work_unit work_unit; /* unit.h */

/* The members that are counted here; the others stay as they are. */
void tally_copy(semel_counters *to, const tally_set *from);

struct semel_store {
    const semel_store_driver *driver;
    void *state; /* the driver's */
    semel_seam seam;
    semel_store_settings settings;
    _Atomic(work_unit *) spare_unit; /* the one that was used last: no lock for a single thread */
    pthread_mutex_t lock;            /* over the three lists */
    /* held by the thread that works on a message which may kill the process (positions.c) */
    pthread_mutex_t suspect_lock;
    work_unit *free_units;
    store_watcher *watchers;
    semel_outbox *outboxes;     /* that are open, in the order of opening */
    pthread_mutex_t watch_lock; /* over the driver's watch, heard, unwatch, and `watching` */
    unsigned watching;
    unsigned deaf; /* how often the store did not listen, so that it may have missed something */
    tally_set tallies;
    health_log health;
    semel_observer *observer; /* NULL: none */
    void *observer_context;
    semel_transaction_observer *transactions; /* NULL: none */
    semel_tracing tracing;                    /* members are NULL: there is no tracer */
};

static inline void store_count(semel_store *store, tally which, uint64_t by)
{
    tally_add(&store->tallies, which, by);
}

static inline semel_status store_fault(const semel_store *store, const char *point,
                                       semel_error *err)
{
    return seam_fault(&store->seam, point, err);
}

/* What to do after a transaction that ended with this status. 1: it was a conflict (a deadlock, a
 * serialization failure), a pause has passed, and the caller begins the transaction anew. 0: it was
 * none, or there were too many. A transaction that something else undid while the handler worked
 * counts as a conflict, too; `why` says so (EMISUSE, retryable; NULL: cannot be). `tries` begins at
 * 0. */
enum { STORE_RETRIES = 5 };
int store_retry_after_pause(const semel_store *store, semel_status status, semel_error *why,
                            uint32_t *tries);

semel_status store_check_name(const char *what, const char *name, semel_error *err);

void store_scopes_add(store_scopes *set, int64_t scope);

/* The list of watchers; waking is what a commit with outgoing messages does, and it wakes those
 * who wait for them. */
semel_status store_watch(semel_store *store, store_watcher *watcher, int64_t scope,
                         semel_error *err);
void store_unwatch(semel_store *store, store_watcher *watcher);
void store_wake(semel_store *store, const store_scopes *scopes);
void store_wake_scope(semel_store *store, int64_t scope);
void watcher_wake(const store_watcher *watcher);

/* Until it is woken, by this process or, where the store can tell, by another; or until wait_ms is
 * over. 1 if it was woken. */
int store_wait(semel_store *store, store_watcher *watcher, int64_t wait_ms);

/* Copies a caller's options over zeroed ones, whatever size the caller knew. SEMEL_EINVAL if the
 * size is not set or larger than ours: the caller was built for a newer library. */
semel_status options_read(void *out, size_t size, const void *given, const char *what,
                          semel_error *err);

/* EINVAL or EUNSUPPORTED if the table is not one that the core can work with. */
semel_status store_driver_check(const semel_store_driver *driver, semel_error *err);

/* EUNSUPPORTED, with what to choose instead, if the driver has no members for it. */
semel_status store_can_keep_inbox(const semel_store *store, const semel_inbox_options *options,
                                  semel_error *err);
semel_status store_can_keep_outbox(const semel_store *store, semel_error *err);
semel_status store_can_keep_queue(const semel_store *store, semel_error *err);
semel_status store_can_keep_dead(const semel_store *store, semel_error *err);

/* look.c: as semel_outbox_list(), of an outbox or a queue. */
semel_status store_list_outgoing(const semel_store *store, int64_t scope,
                                 const semel_outgoing_filter *filter,
                                 semel_outgoing_visitor *visitor, void *context, semel_error *err);

/* 1 if something was written in the unit that the core did not ask for, as far as the driver can
 * tell. */
static inline int store_unit_used(const semel_store *store, void *unit)
{
    return store->driver->units->used && store->driver->units->used(unit);
}

/* How many outgoing messages one unit may lease or settle, of those that are wanted: each may
 * become a letter. */
static inline uint32_t store_batch(const semel_store *store, uint32_t wanted)
{
    uint32_t most = store->driver->changes_max / 2;
    return !store->driver->changes_max || wanted <= most ? wanted : most ? most : 1;
}

/* src/store/registry.c: the driver for a URL's scheme, or why there is none. */
semel_status store_driver_find(const semel_store_driver **out, const char *url, semel_error *err);

#endif
