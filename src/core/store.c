/* Opening, closing and counting. What a store *does* is in the driver; what it *means* in unit.c. */
#include "core/store.h"

#include "base/mem.h"
#include "core/unit.h"

#include <string.h>

enum { BUSY_DEFAULT_MS = 5000 };

semel_status options_read(void *out, size_t size, const void *given, const char *what,
                          semel_error *err)
{
    size_t known = 0;
    memset(out, 0, size);
    if (!given)
        return SEMEL_OK;
    memcpy(&known, given, sizeof known);
    if (known < sizeof known)
        return semel_fail(err, SEMEL_EINVAL, "%s.size is not set: write {.size = sizeof options}",
                          what);
    if (known > size)
        return semel_fail(
            err, SEMEL_EINVAL,
            "%s.size is %zu, this library knows %zu: the program was built for a newer "
            "semel",
            what, known, size);
    memcpy(out, given, known);
    return SEMEL_OK;
}

semel_status store_check_name(const char *what, const char *name, semel_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len > SEMEL_NAME_MAX)
        return semel_fail(err, SEMEL_EINVAL, "%s name: it needs 1 to %zu characters", what,
                          SEMEL_NAME_MAX);
    size_t good = strspn(name, allowed);
    if (good != len)
        return semel_fail(err, SEMEL_EINVAL,
                          "%s name \"%s\": character %zu is not a letter, digit, dot, dash or _",
                          what, name, good + 1);
    return SEMEL_OK;
}

static semel_status open_state(semel_store *store, const char *url, semel_error *err)
{
    store->state = mem_alloc(store->driver->store_size);
    if (!store->state)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
    return store->driver->open(store->state, url, &store->settings, err);
}

semel_status semel_store_open(semel_store **out, const char *url,
                              const semel_store_options *options, semel_error *err)
{
    const semel_store_driver *driver;
    semel_store_options chosen;
    semel_status status = options_read(&chosen, sizeof chosen, options, "semel_store_options", err);
    if (!status)
        status = store_driver_find(&driver, url, err);
    if (status)
        return status;
    semel_store *store = mem_alloc(sizeof *store);
    if (!store)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
    store->driver = driver;
    seam_complete(&store->seam, chosen.seam);
    store->settings.seam = &store->seam;
    store->settings.busy_ms = chosen.busy_ms ? chosen.busy_ms : BUSY_DEFAULT_MS;
    status = open_state(store, url, err);
    if (status) {
        mem_free(store->state);
        mem_free(store);
        return status;
    }
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->watch_lock, NULL);
    *out = store;
    return SEMEL_OK;
}

void semel_store_close(semel_store *store)
{
    if (!store)
        return;
    unit_free_all(store);
    store->driver->close(store->state);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->watch_lock);
    mem_free(store->state);
    mem_free(store);
}

semel_status semel_store_migrate(semel_store *store, semel_error *err)
{
    return store->driver->migrate(store->state, err);
}

semel_durability semel_store_durability(const semel_store *store)
{
    return store->driver->durability(store->state);
}

semel_status semel_store_now(int64_t *out_ms, semel_store *store, semel_error *err)
{
    return store->driver->now(store->state, out_ms, err);
}

static uint64_t tally_of(semel_store *store, tally which)
{
    return atomic_load_explicit(&store->tallies[which], memory_order_relaxed);
}

semel_status semel_store_counters(semel_counters *out, size_t size, semel_store *store,
                                  semel_error *err)
{
    semel_counters now = {0};
    semel_status status =
        store->driver->unsent(store->state, &now.unsent, &now.oldest_unsent_ms, err);
    if (status)
        return status;
    uint64_t *const member[TALLY_COUNT] = {
        &now.processed, &now.duplicates,  &now.replayed,    &now.in_progress, &now.mismatched,
        &now.stale,     &now.missing_key, &now.unprotected, &now.failed,      &now.dead,
        &now.captured,  &now.sent,        &now.resent,      &now.send_failed, &now.swept};
    for (int i = 0; i < TALLY_COUNT; i++)
        *member[i] = tally_of(store, (tally)i);
    memcpy(out, &now, size < sizeof now ? size : sizeof now);
    return SEMEL_OK;
}

static void wake_all(void *store)
{
    store_wake(store);
}

/* Under a lock of its own: the driver's thread, which unwatch waits for, may be waiting for the other one. */
static semel_status start_listening(semel_store *store, semel_error *err)
{
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&store->watch_lock);
    if (!store->watching && store->driver->watch)
        status = store->driver->watch(store->state, wake_all, store, err);
    if (!status)
        store->watching++;
    pthread_mutex_unlock(&store->watch_lock);
    return status;
}

semel_status store_watch(semel_store *store, store_watcher *watcher, semel_error *err)
{
    semel_status status = start_listening(store, err);
    if (status)
        return status;
    pthread_mutex_lock(&store->lock);
    watcher->next = store->watchers;
    store->watchers = watcher;
    pthread_mutex_unlock(&store->lock);
    return SEMEL_OK;
}

void store_unwatch(semel_store *store, store_watcher *watcher)
{
    pthread_mutex_lock(&store->lock);
    store_watcher **at = &store->watchers;
    while (*at && *at != watcher)
        at = &(*at)->next;
    if (*at)
        *at = watcher->next;
    pthread_mutex_unlock(&store->lock);
    pthread_mutex_lock(&store->watch_lock);
    if (--store->watching == 0 && store->driver->unwatch)
        store->driver->unwatch(store->state);
    pthread_mutex_unlock(&store->watch_lock);
}

void store_wake(semel_store *store)
{
    pthread_mutex_lock(&store->lock);
    for (store_watcher *watcher = store->watchers; watcher; watcher = watcher->next) {
        int pending = 0;
        sem_getvalue(&watcher->signal, &pending);
        if (pending < 1)
            sem_post(&watcher->signal);
    }
    pthread_mutex_unlock(&store->lock);
}
