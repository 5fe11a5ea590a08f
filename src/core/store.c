/* Opening, closing and counting. What a store *does* is in the driver; what it *means* in
 * unit.c. */
#include "core/store.h"

#include "base/mem.h"
#include "core/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { BUSY_DEFAULT_MS = 5000, ANSWER_DEFAULT_MS = 10000 };

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

static semel_status open_state(semel_store *store, const void *argument, semel_error *err)
{
    store->state = mem_alloc(store->driver->store_size);
    if (!store->state)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
    return store->driver->open(store->state, argument, &store->settings, err);
}

static semel_store *new_store(const semel_store_driver *driver, const semel_store_options *chosen)
{
    semel_store *store = mem_alloc(sizeof *store);
    if (!store)
        return NULL;
    store->driver = driver;
    store->observer = chosen->observer;
    store->observer_context = chosen->observer_context;
    store->transactions = chosen->transactions;
    seam_complete(&store->seam, chosen->seam);
    store->settings.seam = &store->seam;
    store->settings.busy_ms = chosen->busy_ms ? chosen->busy_ms : BUSY_DEFAULT_MS;
    store->settings.answer_ms = chosen->answer_ms ? chosen->answer_ms : ANSWER_DEFAULT_MS;
    return store;
}

semel_status semel_store_open_driver(semel_store **out, const semel_store_driver *driver,
                                     const void *argument, const semel_store_options *options,
                                     semel_error *err)
{
    semel_store_options chosen;
    semel_tracing tracing;
    semel_status status = options_read(&chosen, sizeof chosen, options, "semel_store_options", err);
    if (!status)
        status = options_read(&tracing, sizeof tracing, chosen.tracing, "semel_tracing", err);
    if (!status)
        status = store_driver_check(driver, err);
    if (status)
        return status;
    semel_store *store = new_store(driver, &chosen);
    if (!store)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory opening a store");
    store->tracing = tracing;
    status = open_state(store, argument, err);
    if (status) {
        mem_free(store->state);
        mem_free(store);
        return status;
    }
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->watch_lock, NULL);
    pthread_mutex_init(&store->suspect_lock, NULL);
    health_init(&store->health);
    *out = store;
    return SEMEL_OK;
}

semel_status semel_store_open(semel_store **out, const char *url,
                              const semel_store_options *options, semel_error *err)
{
    const semel_store_driver *driver;
    semel_status status = store_driver_find(&driver, url, err);
    return status ? status : semel_store_open_driver(out, driver, url, options, err);
}

semel_status semel_store_check_url(const char *url, semel_error *err)
{
    const semel_store_driver *driver;
    semel_status status = store_driver_find(&driver, url, err);
    return status || !driver->check_url ? status : driver->check_url(url, err);
}

void *semel_store_state(const semel_store *store, const semel_store_driver *driver)
{
    return store->driver == driver ? store->state : NULL;
}

void semel_store_close(semel_store *store)
{
    if (!store)
        return;
    unit_free_all(store);
    store->driver->close(store->state);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->watch_lock);
    pthread_mutex_destroy(&store->suspect_lock);
    health_destroy(&store->health);
    mem_free(store->state);
    mem_free(store);
}

semel_status semel_store_migrate(semel_store *store, semel_error *err)
{
    return store->driver->migrate ? store->driver->migrate(store->state, err) : SEMEL_OK;
}

semel_durability semel_store_durability(const semel_store *store)
{
    return store->driver->durability(store->state);
}

semel_status semel_store_now(int64_t *out_ms, semel_store *store, semel_error *err)
{
    return store->driver->now(store->state, out_ms, err);
}

void tally_copy(semel_counters *to, const tally_set *from)
{
    uint64_t *const member[TALLY_COUNT] = {
        &to->processed, &to->duplicates,  &to->replayed,    &to->in_progress, &to->mismatched,
        &to->stale,     &to->missing_key, &to->unprotected, &to->failed,      &to->dead,
        &to->captured,  &to->sent,        &to->resent,      &to->send_failed, &to->swept};
    for (int i = 0; i < TALLY_COUNT; i++)
        *member[i] = tally_get(from, (tally)i);
}

semel_status semel_store_counters(semel_counters *out, size_t size, semel_store *store,
                                  semel_error *err)
{
    semel_counters now = {0};
    const semel_store_outbox *outbox = store->driver->outbox;
    semel_status status =
        outbox ? outbox->unsent(store->state, &now.unsent, &now.oldest_unsent_ms, err) : SEMEL_OK;
    if (status)
        return status;
    tally_copy(&now, &store->tallies);
    memcpy(out, &now, size < sizeof now ? size : sizeof now);
    return SEMEL_OK;
}

/* --- waking ----------------------------------------------------------------------------------- */

static int scopes_hold(const store_scopes *set, int64_t scope)
{
    for (size_t i = 0; set->count <= STORE_SCOPES && i < set->count; i++)
        if (set->ids[i] == scope)
            return 1;
    return set->count > STORE_SCOPES;
}

void store_scopes_add(store_scopes *set, int64_t scope)
{
    if (scopes_hold(set, scope))
        return;
    if (set->count < STORE_SCOPES)
        set->ids[set->count] = scope;
    set->count++;
}

semel_status store_watch(semel_store *store, store_watcher *watcher, int64_t scope,
                         semel_error *err)
{
    watcher->scope = scope;
    if (pipe2(watcher->ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return semel_fail(err, SEMEL_ENOMEM, "no pipe to be woken by: %s", strerror(errno));
    pthread_mutex_lock(&store->lock);
    watcher->next = store->watchers;
    store->watchers = watcher;
    pthread_mutex_unlock(&store->lock);
    pthread_mutex_lock(&store->watch_lock);
    store->watching++;
    pthread_mutex_unlock(&store->watch_lock);
    return SEMEL_OK;
}

void store_unwatch(semel_store *store, store_watcher *watcher)
{
    pthread_mutex_lock(&store->lock);
    store_watcher **at = &store->watchers;
    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    pthread_mutex_unlock(&store->lock);
    pthread_mutex_lock(&store->watch_lock);
    if (--store->watching == 0 && store->driver->watch)
        store->driver->watch->unwatch(store->state);
    pthread_mutex_unlock(&store->watch_lock);
    close(watcher->ends[0]);
    close(watcher->ends[1]);
}

void watcher_wake(const store_watcher *watcher)
{
    ssize_t ignored = write(watcher->ends[1], "", 1); /* a full pipe wakes, too */
    (void)ignored;
}

int store_retry_after_pause(const semel_store *store, semel_status status, semel_error *why,
                            uint32_t *tries)
{
    enum { BACKOFF_MS = 5, BACKOFF_MAX_MS = 100 };
    const semel_seam *seam = &store->seam;
    int undone = status == SEMEL_EMISUSE && why && why->retryable;
    if (status != SEMEL_ECONFLICT && !undone)
        return 0;
    if (++*tries > STORE_RETRIES) {
        if (undone)
            why->retryable = 0;
        return 0;
    }
    seam_sleep_ms(seam, seam_backoff_ms(seam, BACKOFF_MS, BACKOFF_MAX_MS, *tries));
    return 1;
}

void store_wake(semel_store *store, const store_scopes *scopes)
{
    pthread_mutex_lock(&store->lock);
    for (const store_watcher *watcher = store->watchers; watcher; watcher = watcher->next)
        if (scopes_hold(scopes, watcher->scope))
            watcher_wake(watcher);
    pthread_mutex_unlock(&store->lock);
}

void store_wake_scope(semel_store *store, int64_t scope)
{
    store_wake(store, &(store_scopes){{scope}, 1});
}

/* The driver's descriptor, or -1. */
static int watch_descriptor(semel_store *store, store_watcher *watcher)
{
    if (!store->driver->watch)
        return -1;
    pthread_mutex_lock(&store->watch_lock);
    int fd = store->driver->watch->watch(store->state);
    store->deaf += fd == SEMEL_WATCH_LATER;
    if (fd >= 0 && watcher->deaf != store->deaf)
        fd = SEMEL_WATCH_LATER; /* another one made it listen, after this one had looked */
    watcher->deaf = store->deaf;
    pthread_mutex_unlock(&store->watch_lock);
    return fd;
}

/* One of those who wait reads it, and wakes all: what the driver heard does not say which outbox
 * it is about. */
static void read_watch(semel_store *store)
{
    static const store_scopes all = {.count = STORE_SCOPES + 1};
    pthread_mutex_lock(&store->watch_lock);
    int heard = store->driver->watch->heard(store->state);
    pthread_mutex_unlock(&store->watch_lock);
    if (heard)
        store_wake(store, &all);
}

int store_wait(semel_store *store, store_watcher *watcher, int64_t wait_ms)
{
    enum { SOON_MS = 250 };
    char bytes[64];
    struct pollfd ends[2] = {{.fd = watcher->ends[0], .events = POLLIN},
                             {.fd = watch_descriptor(store, watcher), .events = POLLIN}};
    if (ends[1].fd == SEMEL_WATCH_LATER && wait_ms > SOON_MS)
        wait_ms = SOON_MS;
    if (poll(ends, 2, wait_ms > INT_MAX ? INT_MAX : (int)wait_ms) <= 0)
        return 0;
    if (ends[1].revents)
        read_watch(store);
    int woken = 0;
    while (read(watcher->ends[0], bytes, sizeof bytes) > 0)
        woken = 1;
    return woken;
}
