/* Writing leases. A chain is leased by one apply(), and several chains share one, as many as it
 * takes. What is refused somebody else has changed first, and it is left out: of a group everything
 * from the refused message on. */
#include "store/keyed/outbox_lease.h"

#include <string.h>

enum { TRIES_MAX = 16 }; /* of one apply() */

static semel_status change_item(semel_keyed_change *out, lease_run *run, keyed_item *item,
                                semel_error *err)
{
    keyed_space space = keyed_space_of('o', run->scope);
    outbox_key key = outbox_key_number(item->number);
    keyed_item now = *item;
    now.token = keyed_new_token(run->store);
    now.until_ms = run->now_ms + run->lease_ms;
    now.attempts++;
    *out = (semel_keyed_change){.kind = SEMEL_KEYED_WRITE,
                                .expect = SEMEL_EXPECT_VERSION,
                                .keep_body = 1,
                                .record = {.guard = now.token, .until_ms = now.until_ms}};
    memcpy(out->expected_version, item->version, sizeof item->version);
    keyed_new_version(run->store, out->record.version);
    out->record.space = (semel_bytes){arena_copy(&run->arena, space.text, space.len), space.len};
    out->record.key = (semel_bytes){arena_copy(&run->arena, key.bytes, key.len), key.len};
    if (!out->record.space.data || !out->record.key.data ||
        !keyed_item_value(&out->record.value, &run->arena, &now))
        return keyed_out_of_memory(err);
    return SEMEL_OK;
}

static semel_status change_entry(semel_keyed_change *out, lease_run *run, int64_t at_ms,
                                 int64_t number, semel_error *err)
{
    keyed_space space = keyed_space_of('r', run->scope);
    outbox_key key = outbox_key_timed(at_ms, number);
    *out = (semel_keyed_change){.record = {.guard = (uint64_t)number}};
    out->record.space = (semel_bytes){arena_copy(&run->arena, space.text, space.len), space.len};
    out->record.key = (semel_bytes){arena_copy(&run->arena, key.bytes, key.len), key.len};
    return out->record.space.data && out->record.key.data ? SEMEL_OK : keyed_out_of_memory(err);
}

static size_t changes_of(const lease_chain *chain)
{
    return chain->count + LEASE_HEAD_CHANGES - 1;
}

/* The messages, then the entry at its two times. A lease that ends when the last one did leaves the
 * entry where it is: that is a lease of no time, after one. */
static semel_status write_chain(semel_keyed_change *out, size_t *count, lease_run *run,
                                const lease_chain *chain, semel_error *err)
{
    int64_t until_ms = run->now_ms + run->lease_ms, number = chain->items->number;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < chain->count && !status; i++)
        status = change_item(&out[(*count)++], run, &chain->items[i], err);
    if (status || until_ms == chain->ready_ms)
        return status;
    semel_keyed_change *old = &out[(*count)++], *now = &out[(*count)++];
    status = change_entry(old, run, chain->ready_ms, number, err);
    if (!status)
        status = change_entry(now, run, until_ms, number, err);
    if (status)
        return status;
    old->kind = SEMEL_KEYED_REMOVE;
    old->expect = SEMEL_EXPECT_VERSION;
    memcpy(old->expected_version, chain->ready_version, sizeof old->expected_version);
    now->kind = SEMEL_KEYED_WRITE;
    now->expect = SEMEL_EXPECT_ABSENT;
    keyed_new_version(run->store, now->record.version);
    return SEMEL_OK;
}

static void keep_leased(lease_run *run, lease_chain *chain)
{
    chain->next = NULL;
    *(run->last_leased ? &run->last_leased->next : &run->leased) = chain;
    run->last_leased = chain;
    run->leased_count += chain->count;
}

/* In the unit, before the write: whatever becomes of it, it can be given back. */
static semel_status note_leased(lease_run *run, const lease_chain *chain,
                                const semel_keyed_change changes[], semel_error *err)
{
    for (size_t i = 0; i < chain->count; i++) {
        struct keyed_leased *note = arena_alloc(&run->unit->arena, sizeof *note);
        if (!note)
            return keyed_out_of_memory(err);
        *note = (struct keyed_leased){run->unit->leased, run->scope, chain->items[i].number,
                                      changes[i].record.guard};
        run->unit->leased = note;
    }
    return SEMEL_OK;
}

/* What was refused was somebody else's first. */
static void cut_chain(lease_chain *chain, const semel_keyed_change changes[], size_t count)
{
    size_t kept = 0;
    while (kept < chain->count && !changes[kept].refused)
        kept++;
    for (size_t i = chain->count; i < count; i++)
        if (changes[i].refused)
            kept = 0;
    chain->count = kept;
}

typedef struct lease_write {
    lease_chain *first;     /* of the chains in it ... */
    const lease_chain *end; /* ... and the one behind */
    semel_keyed_change *changes;
    size_t count;
} lease_write;

static semel_status build_write(lease_write *w, lease_run *run, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t count = 0;
    for (const lease_chain *at = w->first; at && at != w->end; at = at->next)
        count += changes_of(at);
    w->changes = arena_alloc(&run->arena, (count + 1) * sizeof *w->changes);
    w->count = 0;
    if (!w->changes)
        return keyed_out_of_memory(err);
    for (const lease_chain *at = w->first; at && at != w->end && !status; at = at->next) {
        size_t from = w->count;
        if (!at->count)
            continue;
        status = write_chain(w->changes, &w->count, run, at, err);
        if (!status)
            status = note_leased(run, at, w->changes + from, err);
    }
    return status;
}

static size_t written_of(const lease_run *run, const lease_chain *chain)
{
    int moved = run->now_ms + run->lease_ms != chain->ready_ms;
    return chain->count ? chain->count + (moved ? LEASE_HEAD_CHANGES - 1 : 0) : 0;
}

static void cut_refused(lease_write *w, lease_run *run)
{
    size_t at_change = 0;
    for (lease_chain *at = w->first; at != w->end; at = at->next) {
        size_t count = written_of(run, at);
        if (count)
            cut_chain(at, w->changes + at_change, count);
        at_change += count;
    }
    run->was_refused = 1;
}

static void take_written(lease_write *w, lease_run *run)
{
    size_t at_change = 0;
    for (lease_chain *at = w->first, *next; at != w->end; at = next) {
        next = at->next;
        size_t count = written_of(run, at);
        for (size_t i = 0; i < at->count; i++) {
            at->items[i].token = w->changes[at_change + i].record.guard;
            at->items[i].until_ms = w->changes[at_change + i].record.until_ms;
            at->items[i].attempts++;
        }
        at_change += count;
        if (at->count)
            keep_leased(run, at);
    }
}

static semel_status write_some(lease_write *w, lease_run *run, semel_error *err)
{
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        semel_status status = build_write(w, run, err);
        if (status || !w->count)
            return status;
        status =
            keyed_apply_now(run->store, w->changes, w->count, run->unit->durability, NULL, err);
        if (!status)
            take_written(w, run);
        if (status != SEMEL_ECONFLICT)
            return status;
        cut_refused(w, run);
    }
    return SEMEL_OK; /* others have them */
}

/* As many chains as fit into one apply(). */
semel_status outbox_lease_write(lease_run *run, semel_error *err)
{
    uint32_t most = run->store->driver->limits.changes_max;
    semel_status status = SEMEL_OK;
    for (lease_chain *at = run->first, *end; at && !status; at = end) {
        lease_write w = {.first = at};
        size_t count = 0;
        for (end = at; end && (end == at || !most || count + changes_of(end) <= most);
             end = end->next)
            count += changes_of(end);
        w.end = end;
        status = write_some(&w, run, err);
    }
    run->first = run->last = NULL;
    run->count = 0;
    return status;
}
