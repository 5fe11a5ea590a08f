/* Leasing: what is ready, in the order in which it became so, and of each group as many behind its
 * first message as are due and fit.
 *
 * A lease is written at once, not at the commit of its unit: the messages go out as soon as the
 * call returns, and two relays must not both have them. A unit that is rolled back gives its
 * leases back; if that fails, they end by themselves.
 *
 *     1. r/ is scanned up to now: one entry for each message without a group, and for the first
 *        message of each group
 *     2. their messages are read. Where the record says another time than the entry, somebody has
 *        changed it between the two reads, and has it
 *     3. if these are not as many as are wanted: groups with more messages than one are read on, as
 *        far as they are due. At most FOLLOWED_MAX groups, because each costs a scan; the others
 *        have their turn when their first message has left
 *     4. a group is leased by one apply(), a message without one is a group of its own here. Several
 *        share an apply(), as many as it takes. What is refused was faster than us, and is left
 *        out: of a group everything from the refused message on
 *
 * An entry whose message is gone is left by nobody (I3); if there is one all the same, because
 * somebody has edited the database, it is removed, or it would be read again and again. */
#include "store/keyed/outbox.h"

#include <string.h>

enum {
    FOLLOWED_MAX = 16,
    ROUNDS_MAX = 4,  /* how often r/ is read again, because others had everything */
    TRIES_MAX = 16,  /* of one apply() */
    HEAD_CHANGES = 3 /* the message, and its entry at two times */
};

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

/* --- what is ready ---------------------------------------------------------------------------- */

typedef struct ready_page {
    keyed_rows rows;
    int64_t *numbers;
    size_t count;
} ready_page;

static semel_status scan_ready(ready_page *out, lease_run *run, semel_bytes after, uint32_t limit,
                               semel_error *err)
{
    keyed_space space = keyed_space_of('r', run->scope);
    outbox_key end = outbox_key_timed(run->now_ms + 1, 0);
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .after = after,
                               .until = outbox_key_bytes(&end),
                               .limit = limit};
    *out = (ready_page){.rows = {.arena = &run->arena}};
    semel_status status = keyed_scan(&out->rows, run->store, &range, err);
    if (status)
        return status;
    out->numbers = arena_alloc(&run->arena, (out->rows.count + 1) * sizeof *out->numbers);
    if (!out->numbers)
        return keyed_out_of_memory(err);
    for (const keyed_row *row = out->rows.first; row; row = row->next)
        if (row->record.key.len == OUTBOX_READY_LEN)
            out->numbers[out->count++] =
                keyed_number_read((const unsigned char *)row->record.key.data + KEYED_NUMBER_LEN);
    return SEMEL_OK;
}

static semel_status add_chain(lease_run *run, const keyed_row *entry, const keyed_item *item,
                              semel_error *err)
{
    lease_chain *chain = arena_alloc(&run->arena, sizeof *chain);
    keyed_item *copy = arena_alloc(&run->arena, sizeof *copy);
    if (!chain || !copy)
        return keyed_out_of_memory(err);
    *copy = *item;
    *chain = (lease_chain){.group = outbox_group_of(&item->message),
                           .ready_ms = keyed_item_wake_ms(item),
                           .items = copy,
                           .count = 1};
    memcpy(chain->ready_version, entry->record.version, sizeof chain->ready_version);
    *(run->last ? &run->last->next : &run->first) = chain;
    run->last = chain;
    run->count++;
    return SEMEL_OK;
}

/* The entry has no message. Whatever becomes of it, this turn goes on. */
static void remove_orphan(lease_run *run, const keyed_row *entry, int64_t number)
{
    keyed_space space = keyed_space_of('o', run->scope);
    outbox_key key = outbox_key_number(number);
    semel_error ignored;
    semel_keyed_change changes[] = {
        keyed_remove_of(&entry->record),
        {.kind = SEMEL_KEYED_CHECK,
         .expect = SEMEL_EXPECT_ABSENT,
         .record = {.space = keyed_space_bytes(&space), .key = outbox_key_bytes(&key)}}};
    (void)keyed_apply_now(run->store, changes, sizeof changes / sizeof *changes,
                          SEMEL_BEGIN_RELAXED, NULL, &ignored);
}

static semel_status add_ready(lease_run *run, const keyed_row *entry, const outbox_items *found,
                              semel_error *err)
{
    const unsigned char *key = entry->record.key.data;
    if (entry->record.key.len != OUTBOX_READY_LEN)
        return SEMEL_OK;
    int64_t number = keyed_number_read(key + KEYED_NUMBER_LEN);
    const keyed_item *item = outbox_items_find(found, number);
    if (!item) {
        remove_orphan(run, entry, number);
        return SEMEL_OK;
    }
    if (keyed_item_wake_ms(item) != keyed_number_read(key) ||
        !keyed_item_is_due(item, run->now_ms, run->error_ms))
        return SEMEL_OK;
    return add_chain(run, entry, item, err);
}

/* Leases that have just ended, by a clock that may be wrong, are read and left: then there is
 * another page. */
static semel_status collect_ready(lease_run *run, semel_error *err)
{
    semel_bytes after = {NULL, 0};
    semel_status status = SEMEL_OK;
    ready_page page;
    uint32_t wanted;
    do {
        outbox_items found = {NULL, 0};
        wanted = run->limit - (uint32_t)(run->leased_count + run->count);
        status = scan_ready(&page, run, after, wanted, err);
        if (!status && page.count)
            status = outbox_get(&found, run->store, run->scope, page.numbers, page.count, 1,
                                &run->arena, err);
        for (const keyed_row *row = page.rows.first; row && !status; row = row->next)
            status = add_ready(run, row, &found, err);
        if (page.rows.last)
            after = page.rows.last->record.key;
    } while (!status && page.rows.count == wanted && run->leased_count + run->count < run->limit);
    return status;
}

/* --- what is behind --------------------------------------------------------------------------- */

static semel_status take_group(lease_run *run, lease_chain *chain, const keyed_rows *rows,
                               semel_bytes space, semel_error *err)
{
    outbox_group group;
    const keyed_row *row = keyed_rows_find(rows, space, chain->group);
    if (!row)
        return SEMEL_OK;
    semel_status status = outbox_group_read(&group, &row->record, err);
    if (status)
        return status;
    chain->last = group.last;
    outbox_group_keep(run->store, run->scope, chain->group, &group, 1);
    return SEMEL_OK;
}

/* The records of the groups, which also say whether there is anything behind. */
static semel_status read_groups(lease_run *run, semel_error *err)
{
    keyed_space space = keyed_space_of('g', run->scope);
    keyed_rows rows = {.arena = &run->arena};
    semel_bytes *names = arena_alloc(&run->arena, (run->count + 1) * sizeof *names);
    size_t count = 0;
    if (!names)
        return keyed_out_of_memory(err);
    for (const lease_chain *at = run->first; at; at = at->next)
        if (at->group.len)
            names[count++] = at->group;
    if (!count)
        return SEMEL_OK;
    semel_status status =
        keyed_get_many(&rows, run->store, keyed_space_bytes(&space), names, count, 0, err);
    for (lease_chain *at = run->first; at && !status; at = at->next)
        if (at->group.len)
            status = take_group(run, at, &rows, keyed_space_bytes(&space), err);
    return status;
}

/* A group must fit into one apply(). */
static uint32_t room_behind(const lease_run *run, size_t taken)
{
    uint32_t most = run->store->driver->limits.changes_max;
    size_t fit = most > HEAD_CHANGES ? most - HEAD_CHANGES : 0;
    size_t room = run->limit - run->leased_count - taken;
    if (most && room > fit)
        room = fit;
    return (uint32_t)room;
}

static semel_status find_behind(lease_run *run, size_t *found, semel_error *err)
{
    unsigned scans = 0;
    size_t taken = run->count;
    semel_status status = SEMEL_OK;
    for (lease_chain *at = run->first; at && !status && scans < FOLLOWED_MAX; at = at->next) {
        uint32_t room = room_behind(run, taken);
        if (!room)
            break;
        if (at->last <= at->items->number)
            continue;
        scans++;
        status = outbox_places(&at->behind, &at->behind_count, run->store, run->scope, at->group,
                               at->items->number, room, &run->arena, err);
        taken += at->behind_count;
        *found += at->behind_count;
    }
    return status;
}

/* As far as they are due, without a gap. */
static semel_status take_behind(lease_run *run, lease_chain *chain, const outbox_items *found,
                                semel_error *err)
{
    keyed_item *items = arena_alloc(&run->arena, (1 + chain->behind_count) * sizeof *items);
    if (!items)
        return keyed_out_of_memory(err);
    items[0] = chain->items[0];
    for (size_t i = 0; i < chain->behind_count; i++) {
        const keyed_item *item = outbox_items_find(found, chain->behind[i]);
        if (!item || !keyed_item_is_due(item, run->now_ms, run->error_ms))
            break;
        items[chain->count++] = *item;
        run->count++;
    }
    chain->items = items;
    return SEMEL_OK;
}

static semel_status collect_behind(lease_run *run, semel_error *err)
{
    size_t count = 0;
    semel_status status = read_groups(run, err);
    if (!status)
        status = find_behind(run, &count, err);
    if (status || !count)
        return status;
    int64_t *numbers = arena_alloc(&run->arena, count * sizeof *numbers);
    outbox_items found = {NULL, 0};
    if (!numbers)
        return keyed_out_of_memory(err);
    count = 0;
    for (const lease_chain *at = run->first; at; at = at->next)
        for (size_t i = 0; i < at->behind_count; i++)
            numbers[count++] = at->behind[i];
    status = outbox_get(&found, run->store, run->scope, numbers, count, 1, &run->arena, err);
    for (lease_chain *at = run->first; at && !status; at = at->next)
        if (at->behind_count)
            status = take_behind(run, at, &found, err);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

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
    return chain->count + HEAD_CHANGES - 1;
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
    for (const lease_chain *at = w->first; at != w->end; at = at->next)
        count += changes_of(at);
    w->changes = arena_alloc(&run->arena, (count + 1) * sizeof *w->changes);
    w->count = 0;
    if (!w->changes)
        return keyed_out_of_memory(err);
    for (const lease_chain *at = w->first; at != w->end && !status; at = at->next) {
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
    return chain->count ? chain->count + (moved ? HEAD_CHANGES - 1 : 0) : 0;
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
static semel_status write_leases(lease_run *run, semel_error *err)
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

/* --- the call --------------------------------------------------------------------------------- */

static semel_status lease_round(lease_run *run, semel_error *err)
{
    run->was_refused = 0;
    semel_status status = keyed_now(run->store, &run->now_ms, &run->error_ms, err);
    if (!status)
        status = collect_ready(run, err);
    if (!status && run->count && run->leased_count + run->count < run->limit)
        status = collect_behind(run, err);
    return status || !run->count ? status : write_leases(run, err);
}

static semel_status deliver(const lease_run *run, semel_item_sink *sink, void *context,
                            semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (const lease_chain *at = run->leased; at && !status; at = at->next)
        for (size_t i = 0; i < at->count && !status; i++) {
            const keyed_item *leased = &at->items[i];
            semel_item item = {.seq = leased->number,
                               .token = leased->token,
                               .attempts = leased->attempts,
                               .refusals = leased->refusals,
                               .message = &leased->message};
            status = sink(&item, context, err);
        }
    return status;
}

semel_status keyed_outbox_lease(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                                semel_item_sink *sink, void *context, semel_error *err)
{
    keyed_unit *self = unit;
    lease_run run = {
        .unit = self, .store = self->store, .scope = outbox, .limit = limit, .lease_ms = lease_ms};
    unsigned rounds = 0;
    semel_status status = limit ? lease_round(&run, err) : SEMEL_OK;
    while (!status && run.was_refused && !run.leased_count && ++rounds < ROUNDS_MAX)
        status = lease_round(&run, err);
    if (status == SEMEL_EUNKNOWN)
        status = semel_fail(err, SEMEL_EUNAVAILABLE,
                            "the database did not answer; messages that were leased come again "
                            "when the lease is over");
    if (!status)
        status = deliver(&run, sink, context, err);
    arena_free(&run.arena);
    return status;
}

/* --- rollback --------------------------------------------------------------------------------- */

enum { RETURNED_AT_ONCE = 16 }; /* fits into one apply() of every database */

static void return_some(keyed_store *store, int64_t scope, semel_item_settlement all[],
                        size_t count)
{
    keyed_unit unit = {0};
    semel_error ignored;
    if (keyed_units.begin(store, &unit, SEMEL_BEGIN_RELAXED, 0, &ignored))
        return;
    if (keyed_outbox_settle(&unit, scope, all, count, &ignored))
        keyed_units.rollback(&unit);
    else
        (void)keyed_units.commit(&unit, &ignored);
}

void keyed_leased_return(keyed_unit *unit)
{
    const struct keyed_leased *at = unit->leased;
    unit->leased = NULL;
    while (at) {
        semel_item_settlement all[RETURNED_AT_ONCE];
        int64_t scope = at->scope;
        size_t count = 0;
        for (; at && at->scope == scope && count < RETURNED_AT_ONCE; at = at->next)
            all[count++] = (semel_item_settlement){
                .seq = at->number, .token = at->token, .verdict = SEMEL_VERDICT_RELEASE};
        return_some(unit->store, scope, all, count);
    }
}
