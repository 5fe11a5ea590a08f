/* Keys that open units hold, and the thread that renews them.
 *
 * `mark` writes a hold to the database before its handler runs. The hold ends KEYED_HOLD_MS later
 * by itself, so that a process that dies gives its keys back. A handler may take longer: a thread
 * of the store renews every hold when a third of that time is over. It expects the hold's own
 * token, so it can neither revive a hold that another process has taken over nor undo a commit.
 *
 * A unit that ends without a commit gives its keys back at once. If the database cannot be reached
 * then, the holds end by themselves. */
#include "store/keyed/hold.h"

#include "base/thread.h"
#include "base/wait.h"
#include "store/keyed/apply.h"

#include <errno.h>
#include <string.h>

enum { RESTORED_AT_ONCE = 25 };

uint32_t keyed_hold_ms = KEYED_HOLD_MS;

static uint32_t renew_ms(void)
{
    return keyed_hold_ms / 3;
}

keyed_hold *keyed_hold_new(keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    keyed_hold *hold = arena_alloc(&unit->arena, sizeof *hold);
    void *space_copy = arena_copy(&unit->arena, space.data, space.len);
    void *key_copy = arena_copy(&unit->arena, key.data, key.len);
    if (!hold || !space_copy || !key_copy)
        return NULL;
    *hold = (keyed_hold){.space = {space_copy, space.len}, .key = {key_copy, key.len}};
    return hold;
}

void keyed_hold_add(keyed_unit *unit, keyed_hold *hold)
{
    keyed_store *store = unit->store;
    hold->next_of_unit = unit->holds;
    unit->holds = hold;
    if (hold->claimed)
        return;
    pthread_mutex_lock(&store->lock);
    hold->next = store->holds;
    hold->at = &store->holds;
    if (hold->next)
        hold->next->at = &hold->next;
    store->holds = hold;
    pthread_mutex_unlock(&store->lock);
}

keyed_hold *keyed_hold_find(const keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    keyed_hold *hold = unit->holds;
    while (hold && !(keyed_same(hold->key, key) && keyed_same(hold->space, space)))
        hold = hold->next_of_unit;
    return hold;
}

/* --- giving back ------------------------------------------------------------------------------ */

semel_keyed_change keyed_hold_restore(keyed_store *store, const keyed_hold *hold)
{
    semel_keyed_change change = {.kind = SEMEL_KEYED_REMOVE,
                                 .expect = SEMEL_EXPECT_GUARD,
                                 .expected_guard = hold->token,
                                 .record = {.space = hold->space, .key = hold->key}};
    if (!hold->was_there)
        return change;
    change.kind = SEMEL_KEYED_WRITE;
    change.keep_body = 1;
    change.record.value = hold->before.value;
    change.expires_ms = hold->expires_ms;
    keyed_new_version(store, change.record.version);
    return change;
}

static void stop_renewing(keyed_unit *unit)
{
    keyed_store *store = unit->store;
    pthread_mutex_lock(&store->lock);
    for (keyed_hold *hold = unit->holds; hold; hold = hold->next_of_unit) {
        if (!hold->at)
            continue;
        *hold->at = hold->next;
        if (hold->next)
            hold->next->at = hold->at;
        hold->at = NULL;
    }
    pthread_mutex_unlock(&store->lock);
}

static void wake_waiting(keyed_store *store)
{
    pthread_mutex_lock(&store->lock);
    if (store->waiting)
        pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

void keyed_holds_end(keyed_unit *unit)
{
    if (!unit->holds)
        return;
    stop_renewing(unit);
    wake_waiting(unit->store);
}

int keyed_waits_by_seam;

int64_t keyed_wait_clock_ms(const keyed_store *store)
{
    return keyed_waits_by_seam ? seam_steady_ms(store->seam) : wait_clock_ms();
}

void keyed_wait_for_holds(keyed_store *store, uint32_t ms)
{
    if (keyed_waits_by_seam) {
        seam_sleep_ms(store->seam, ms);
        return;
    }
    struct timespec end = wait_until(wait_clock_ms() + ms);
    pthread_mutex_lock(&store->lock);
    store->waiting++;
    (void)pthread_cond_timedwait(&store->changed, &store->lock, &end);
    store->waiting--;
    pthread_mutex_unlock(&store->lock);
}

/* All of these, then without those that were refused: they are somebody else's by now. 0: the
 * database does not answer. */
static int restore(keyed_store *store, semel_keyed_change changes[], size_t count,
                   keyed_rows *there)
{
    semel_error ignored;
    while (count) {
        size_t kept = 0;
        semel_status status =
            keyed_apply_once(store, changes, count, SEMEL_BEGIN_RELAXED, there, &ignored);
        if (status != SEMEL_ECONFLICT || !keyed_refused(changes, count))
            return !status || status == SEMEL_ECONFLICT;
        for (size_t i = 0; i < count; i++)
            if (!changes[i].refused)
                changes[kept++] = changes[i];
        count = kept;
    }
    return 1;
}

static size_t restored_at_once(const keyed_store *store)
{
    uint32_t most = store->driver->limits.changes_max;
    if (!(store->driver->abilities & SEMEL_KEYED_MANY))
        return 1;
    return most && most < RESTORED_AT_ONCE ? most : RESTORED_AT_ONCE;
}

void keyed_holds_release(keyed_unit *unit)
{
    semel_keyed_change changes[RESTORED_AT_ONCE];
    size_t count = 0, most = restored_at_once(unit->store);
    mem_arena arena = {0};
    keyed_rows there = {.arena = &arena};
    if (!unit->holds)
        return;
    stop_renewing(unit);
    int answers = 1;
    for (keyed_hold *hold = unit->holds; hold; hold = hold->next_of_unit) {
        if (hold->claimed)
            keyed_claim_update(unit->store, hold->token, 0);
        if (answers && !hold->lost && !hold->returned)
            changes[count++] = keyed_hold_restore(unit->store, hold);
        if (count == most || (count && !hold->next_of_unit)) {
            answers = restore(unit->store, changes, count, &there);
            count = 0;
        }
    }
    arena_free(&arena);
    wake_waiting(unit->store);
}

/* --- renewing --------------------------------------------------------------------------------- */

/* The hold that ends first, if it is to be renewed; its bytes are copied, since the unit may end
 * any time. Called with the lock. */
static int copy_due(keyed_hold *out, const keyed_store *store, int64_t now_ms, mem_arena *arena)
{
    const keyed_hold *due = NULL;
    for (const keyed_hold *hold = store->holds; hold; hold = hold->next)
        if (!hold->lost && hold->until_ms - now_ms <= (int64_t)keyed_hold_ms - renew_ms() &&
            (!due || hold->until_ms < due->until_ms))
            due = hold;
    if (!due)
        return 0;
    *out = *due;
    out->space.data = arena_copy(arena, due->space.data, due->space.len);
    out->key.data = arena_copy(arena, due->key.data, due->key.len);
    out->value.data = arena_copy(arena, due->value.data, due->value.len);
    return out->space.data && out->key.data && out->value.data;
}

/* Refused: somebody else has the key, or the unit has just ended. */
static void note_renewal(keyed_store *store, uint64_t token, semel_status status, int64_t until_ms)
{
    pthread_mutex_lock(&store->lock);
    for (keyed_hold *hold = store->holds; hold; hold = hold->next) {
        if (hold->token != token)
            continue;
        hold->lost = hold->lost || status == SEMEL_ECONFLICT;
        if (!status)
            hold->until_ms = until_ms;
    }
    pthread_mutex_unlock(&store->lock);
}

/* 0 if there is none to renew, or the database does not answer now. */
static int renew_one(keyed_store *store, mem_arena *arena)
{
    keyed_hold due;
    int64_t now_ms = 0;
    semel_error ignored;
    if (keyed_now(store, &now_ms, NULL, &ignored))
        return 0;
    pthread_mutex_lock(&store->lock);
    int found = copy_due(&due, store, now_ms, arena);
    pthread_mutex_unlock(&store->lock);
    if (!found)
        return 0;
    semel_keyed_change change = {.kind = SEMEL_KEYED_WRITE,
                                 .expect = SEMEL_EXPECT_GUARD,
                                 .expected_guard = due.token,
                                 .keep_body = 1,
                                 .expires_ms = due.expires_ms,
                                 .record = {.space = due.space,
                                            .key = due.key,
                                            .guard = due.token,
                                            .until_ms = now_ms + keyed_hold_ms,
                                            .value = due.value}};
    keyed_new_version(store, change.record.version);
    keyed_rows there = {.arena = arena};
    semel_status status =
        keyed_apply_once(store, &change, 1, SEMEL_BEGIN_RELAXED, &there, &ignored);
    if (status == SEMEL_ECONFLICT && !change.refused)
        return 1; /* the database gave up: once more */
    note_renewal(store, due.token, status, change.record.until_ms);
    return !status || status == SEMEL_ECONFLICT;
}

void keyed_renew_holds(keyed_store *store)
{
    mem_arena arena = {0};
    while (renew_one(store, &arena))
        arena_reset(&arena);
    arena_free(&arena);
}

static void *keep_holds(void *context)
{
    keyed_store *store = context;
    pthread_mutex_lock(&store->lock);
    while (!store->closing) {
        int64_t end_ms = wait_clock_ms() + renew_ms() / 2;
        struct timespec end = wait_until(end_ms);
        while (!store->closing && wait_clock_ms() < end_ms)
            (void)pthread_cond_timedwait(&store->ending, &store->lock, &end);
        int closing = store->closing;
        pthread_mutex_unlock(&store->lock);
        if (!closing)
            keyed_renew_holds(store);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

semel_status keyed_keeper_start(keyed_store *store, semel_error *err)
{
    int error = 0;
    pthread_mutex_lock(&store->lock);
    if (!store->keeper_started && !keyed_waits_by_seam) {
        error = thread_start(&store->keeper, keep_holds, store);
        store->keeper_started = !error;
    }
    pthread_mutex_unlock(&store->lock);
    return error
               ? semel_fail(err, SEMEL_ESTORE, "no thread to renew held keys: %s", strerror(error))
               : SEMEL_OK;
}

void keyed_keeper_stop(keyed_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->closing = 1;
    pthread_cond_broadcast(&store->ending);
    pthread_mutex_unlock(&store->lock);
    if (store->keeper_started)
        pthread_join(store->keeper, NULL);
    store->keeper_started = 0;
}
