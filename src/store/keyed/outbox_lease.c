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
 *     4. a group is leased by one apply(), in which a message without one counts as a group
 *        (outbox_lease_write.c)
 *
 * An entry whose message is gone is left by nobody (I3); if there is one all the same, because
 * somebody has edited the database, it is removed, or it would be read again and again. */
#include "store/keyed/outbox_lease.h"

#include <string.h>

enum {
    FOLLOWED_MAX = 16,
    ROUNDS_MAX = 4 /* how often r/ is read again, because others had everything */
};

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
    if (item->damaged || keyed_item_wake_ms(item) != keyed_number_read(key) ||
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
    size_t fit = most > LEASE_HEAD_CHANGES ? most - LEASE_HEAD_CHANGES : 0;
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

/* A record that was written before there was this link is in its place if it is not newer than what
 * the group's record said before the scan. */
static int follows(const keyed_item *item, const keyed_item *before, int64_t last)
{
    return item->previous ? item->previous == before->number : item->number <= last;
}

/* A record of r/ or g/ that was damaged or removed may make two chains of one group. A
 * message is in one of them, since a record occurs once in an apply(). */
static int is_taken(const lease_run *run, int64_t number)
{
    for (const lease_chain *at = run->first; at; at = at->next)
        for (size_t i = 0; i < at->count; i++)
            if (at->items[i].number == number)
                return 1;
    return 0;
}

/* As far as they are due, without a gap. */
static semel_status take_behind(lease_run *run, lease_chain *chain, const outbox_items *found,
                                semel_error *err)
{
    keyed_item *items = arena_alloc(&run->arena, (1 + chain->behind_count) * sizeof *items);
    if (!items)
        return keyed_out_of_memory(err);
    items[0] = chain->items[0];
    chain->items = items;
    for (size_t i = 0; i < chain->behind_count; i++) {
        const keyed_item *item = outbox_items_find(found, chain->behind[i]);
        if (!item || item->damaged || !follows(item, &items[chain->count - 1], chain->last) ||
            !keyed_item_is_due(item, run->now_ms, run->error_ms) || is_taken(run, item->number))
            break;
        items[chain->count++] = *item;
        run->count++;
    }
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

/* --- the call --------------------------------------------------------------------------------- */

static semel_status lease_round(lease_run *run, semel_error *err)
{
    run->was_refused = 0;
    semel_status status = keyed_now(run->store, &run->now_ms, &run->error_ms, err);
    if (!status)
        status = collect_ready(run, err);
    if (!status && run->count && run->leased_count + run->count < run->limit)
        status = collect_behind(run, err);
    return status || !run->count ? status : outbox_lease_write(run, err);
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
