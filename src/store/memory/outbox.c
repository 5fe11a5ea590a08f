/* Outboxes: messages that wait to be sent.
 *
 * A message that was put cannot be leased until its unit commits; then it gets its seq and joins
 * its chain. So the order within a group is the order of the commits, and what is rolled back was
 * never there. One with a delay stands in its chain like any other, and holds up those behind it
 * until the delay is over.
 *
 * A row that a unit has leased or settled is that unit's until it ends: others find its chain
 * closed, and the unit does not lease it a second time. */
#include "base/mem.h"
#include "store/memory/outbox_order.h"

#include <string.h>

struct memory_outbox {
    semel_scope kind; /* an outbox or a queue */
    char name[SEMEL_NAME_MAX + 1];
    memory_due_queue chains;
    memory_index groups;
    memory_row *oldest;
    memory_row *newest;
    uint64_t count;    /* committed */
    uint64_t capacity; /* and all that open units have put: what there must be room for */
};

/* --- the outbox ------------------------------------------------------------------------------- */

memory_outbox *memory_outbox_new(semel_scope kind, const char *name)
{
    memory_outbox *outbox = mem_alloc(sizeof *outbox);
    if (!outbox)
        return NULL;
    outbox->kind = kind;
    memcpy(outbox->name, name, strlen(name) + 1);
    return outbox;
}

semel_scope memory_outbox_kind(const memory_outbox *outbox)
{
    return outbox->kind;
}

const char *memory_outbox_name(const memory_outbox *outbox)
{
    return outbox->name;
}

static void leave_group(memory_outbox *outbox, memory_group *group)
{
    if (!group || --group->rows)
        return;
    memory_index_remove(&outbox->groups, &group->by_name);
    mem_free(group);
}

static void free_row(memory_row *row)
{
    leave_group(row->outbox, row->group);
    row->outbox->capacity--;
    semel_message_free(row->message);
    mem_free(row->state.error);
    mem_free(row);
}

void memory_outbox_free(memory_outbox *outbox)
{
    for (memory_row *row = outbox->oldest, *newer; row; row = newer) {
        newer = row->newer;
        free_row(row);
    }
    memory_index_free(&outbox->groups);
    mem_free(outbox->chains.chains);
    mem_free(outbox);
}

static memory_outbox *get_outbox(const memory_store *store, int64_t number, semel_error *err)
{
    if (number >= 1 && (uint64_t)number <= store->outbox_count)
        return store->outboxes[number - 1];
    semel_fail(err, SEMEL_EINVAL, "the memory store has no outbox number %lld", (long long)number);
    return NULL;
}

/* --- put -------------------------------------------------------------------------------------- */

static memory_group *find_group(const memory_outbox *outbox, uint64_t hash, const char *name)
{
    memory_link *link = memory_index_first(&outbox->groups, hash);
    for (; link; link = memory_index_next(link)) {
        memory_group *group = MEMORY_PART_OF(memory_group, by_name, link);
        if (strcmp(group->name, name) == 0)
            return group;
    }
    return NULL;
}

static memory_group *join_group(memory_store *store, memory_outbox *outbox, const char *name)
{
    size_t len = strlen(name);
    uint64_t hash = hash_bytes(store->hash, name, len);
    memory_group *group = find_group(outbox, hash, name);
    if (!group) {
        if (!memory_index_reserve(&outbox->groups, outbox->groups.count + 1))
            return NULL;
        group = mem_alloc(sizeof *group + len + 1);
        if (!group)
            return NULL;
        memcpy(group->name, name, len + 1);
        memory_index_add(&outbox->groups, &group->by_name, hash);
    }
    group->rows++;
    return group;
}

static void forget_put(memory_unit *unit, const memory_record *record)
{
    unit->store->messages--;
    free_row(record->row.row);
}

static void append_row(memory_outbox *outbox, memory_row *row)
{
    row->older = outbox->newest;
    *(row->older ? &row->older->newer : &outbox->oldest) = row;
    outbox->newest = row;
    outbox->count++;
}

static void publish_put(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_store *store = unit->store;
    memory_row *row = record->row.row;
    memory_outbox *outbox = row->outbox;
    row->seq = ++store->last_seq;
    row->captured_ms = now_ms;
    row->state.due_ms = now_ms + row->message->delay_ms;
    row->message->delay_ms =
        0; /* it has had its effect: a queue that gets the message must not wait again */
    append_row(outbox, row);
    memory_index_add(&store->rows, &row->by_seq, (uint64_t)row->seq);
    memory_chain_append(&outbox->chains, row->group ? &row->group->chain : &row->alone, row);
}

static const memory_change put_change = {forget_put, publish_put};

/* All memory that the commit will need. */
static int reserve_for_commit(memory_store *store, memory_outbox *outbox)
{
    return memory_due_queue_reserve(&outbox->chains, outbox->capacity + 1) &&
           memory_index_reserve(&store->rows, store->rows.count + 1);
}

/* The row takes the message over if this succeeds. */
static semel_status add_row(memory_unit *unit, memory_outbox *outbox, semel_message *message,
                            semel_error *err)
{
    memory_record *record = memory_journal_next(unit);
    memory_row *row = record ? mem_alloc(sizeof *row) : NULL;
    if (!row || !reserve_for_commit(unit->store, outbox)) {
        mem_free(row);
        return memory_out_of_memory(err);
    }
    if (message->group && *message->group) {
        row->group = join_group(unit->store, outbox, message->group);
        if (!row->group) {
            mem_free(row);
            return memory_out_of_memory(err);
        }
    }
    row->outbox = outbox;
    row->message = message;
    outbox->capacity++;
    record->change = &put_change;
    record->row.row = row;
    unit->count++;
    return SEMEL_OK;
}

static semel_status put_locked(memory_unit *unit, int64_t number, semel_message *message,
                               semel_error *err)
{
    memory_outbox *outbox = get_outbox(unit->store, number, err);
    semel_status status = outbox ? memory_count_message(unit->store, err) : SEMEL_EINVAL;
    if (status)
        return status;
    status = add_row(unit, outbox, message, err);
    if (status)
        unit->store->messages--;
    return status;
}

semel_status memory_put(void *unit, int64_t outbox, const semel_message *message, semel_error *err)
{
    memory_unit *self = unit;
    semel_message *copy;
    semel_status status = semel_message_copy(&copy, message, err);
    if (status)
        return status;
    pthread_mutex_lock(&self->store->lock);
    status = put_locked(self, outbox, copy, err);
    pthread_mutex_unlock(&self->store->lock);
    if (status)
        semel_message_free(copy);
    return status;
}

/* --- rows that a unit changes ----------------------------------------------------------------- */

static void restore_row(memory_unit *unit, const memory_record *record)
{
    memory_row *row = record->row.row;
    (void)unit;
    if (record->row.error_replaced)
        mem_free(row->state.error);
    row->state = record->row.before;
    memory_chain_update(&row->outbox->chains, row->chain);
}

static void remove_row(memory_store *store, memory_row *row)
{
    memory_outbox *outbox = row->outbox;
    memory_chain_remove(&outbox->chains, row);
    memory_index_remove(&store->rows, &row->by_seq);
    *(row->older ? &row->older->newer : &outbox->oldest) = row->newer;
    *(row->newer ? &row->newer->older : &outbox->newest) = row->older;
    outbox->count--;
    store->messages--;
    free_row(row);
}

/* A unit may have several records of one row. Only the first of them, which found the row without
 * an owner, releases it. */
static void release_row(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_row *row = record->row.row;
    (void)now_ms;
    if (record->row.error_replaced)
        mem_free(record->row.before.error);
    if (record->row.before.owner)
        return;
    row->state.owner = NULL;
    if (row->state.removed)
        remove_row(unit->store, row);
    else
        memory_chain_update(&row->outbox->chains, row->chain);
}

static const memory_change row_change = {restore_row, release_row};

/* 0 when out of memory. The chain is the caller's to update, once the state is set. */
static int hold_row(memory_unit *unit, memory_row *row)
{
    memory_record *record = memory_journal_next(unit);
    if (!record)
        return 0;
    record->change = &row_change;
    record->row.row = row;
    record->row.before = row->state;
    record->row.error_replaced = 0;
    row->state.owner = unit;
    unit->count++;
    return 1;
}

memory_row_state memory_row_committed(const memory_row *row)
{
    const memory_unit *owner = row->state.owner;
    for (uint32_t i = 0; owner && i < owner->count; i++) {
        const memory_record *record = &owner->records[i];
        if (record->change == &row_change && record->row.row == row)
            return record->row.before;
    }
    return row->state;
}

/* --- lease ------------------------------------------------------------------------------------ */

static int lease_row(memory_unit *unit, memory_row *row, int64_t lease_end_ms)
{
    if (!hold_row(unit, row))
        return 0;
    row->state.token = ++unit->store->last_token;
    row->state.lease_end_ms = lease_end_ms;
    row->state.attempts++;
    return 1;
}

/* Always the one that has waited longest, over all chains; the next of its chain is its
 * successor. */
static semel_status lease_due(memory_unit *unit, memory_outbox *outbox, uint32_t limit,
                              uint32_t lease_ms, semel_error *err)
{
    int64_t now_ms = memory_now_ms(unit->store);
    for (uint32_t leased = 0; leased < limit; leased++) {
        memory_chain *chain = memory_due_queue_first(&outbox->chains, now_ms);
        if (!chain)
            break;
        if (!lease_row(unit, chain->head, now_ms + lease_ms))
            return memory_out_of_memory(err);
        chain->head = chain->head->behind;
        memory_chain_update(&outbox->chains, chain);
    }
    return SEMEL_OK;
}

static void close_chains(memory_unit *unit, uint32_t from)
{
    for (uint32_t i = from; i < unit->count; i++) {
        memory_row *row = unit->records[i].row.row;
        row->chain->head = row->chain->first;
        memory_chain_update(&row->outbox->chains, row->chain);
    }
}

/* Without the lock: the rows are this unit's, so they stay. */
static semel_status deliver_rows(memory_unit *unit, uint32_t from, semel_item_sink *sink,
                                 void *context, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (uint32_t i = from; i < unit->count && !status; i++) {
        const memory_row *row = unit->records[i].row.row;
        semel_item item = {.seq = row->seq,
                           .token = row->state.token,
                           .attempts = row->state.attempts,
                           .refusals = row->state.refusals,
                           .message = row->message};
        status = sink(&item, context, err);
    }
    return status;
}

semel_status memory_take(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                         semel_item_sink *sink, void *context, semel_error *err)
{
    memory_unit *self = unit;
    uint32_t from = self->count;
    semel_status status = SEMEL_EINVAL;
    pthread_mutex_lock(&self->store->lock);
    memory_outbox *found = get_outbox(self->store, outbox, err);
    if (found) {
        status = lease_due(self, found, limit, lease_ms, err);
        close_chains(self, from);
    }
    pthread_mutex_unlock(&self->store->lock);
    return status ? status : deliver_rows(self, from, sink, context, err);
}

/* --- settle ----------------------------------------------------------------------------------- */

static memory_row *find_row(const memory_store *store, int64_t seq)
{
    memory_link *link = memory_index_first(&store->rows, (uint64_t)seq);
    return link ? MEMORY_PART_OF(memory_row, by_seq, link) : NULL;
}

static int may_settle(const memory_unit *unit, const memory_outbox *outbox, const memory_row *row,
                      const semel_item_settlement *settlement)
{
    return row && row->outbox == outbox && settlement->token &&
           row->state.token == settlement->token && !row->state.removed &&
           (!row->state.owner || row->state.owner == unit);
}

/* A row that is released without a delay keeps its due time, so it keeps its place before those
 * that came later. */
static void apply_verdict(memory_row_state *state, const semel_item_settlement *settlement,
                          int64_t now_ms)
{
    switch (settlement->verdict) {
    case SEMEL_VERDICT_ACK:
        state->removed = 1;
        break;
    case SEMEL_VERDICT_RETRY:
        state->token = 0;
        state->due_ms = now_ms + settlement->delay_ms;
        state->refusals += settlement->refused != 0;
        break;
    case SEMEL_VERDICT_RELEASE:
        state->token = 0;
        state->attempts--;
        if (settlement->delay_ms)
            state->due_ms = now_ms + settlement->delay_ms;
        break;
    case SEMEL_VERDICT_REJECT: /* of brokers only */
        break;
    }
}

/* The row is held: its record is the last one. */
static int replace_error(memory_unit *unit, memory_row *row, const char *why)
{
    size_t size = strlen(why) + 1;
    char *copy = mem_alloc(size);
    if (!copy)
        return 0;
    memcpy(copy, why, size);
    row->state.error = copy;
    unit->records[unit->count - 1].row.error_replaced = 1;
    return 1;
}

static semel_status settle_one(memory_unit *unit, memory_outbox *outbox,
                               semel_item_settlement *settlement, int64_t now_ms, semel_error *err)
{
    memory_row *row = find_row(unit->store, settlement->seq);
    settlement->lost = !may_settle(unit, outbox, row, settlement);
    if (settlement->lost)
        return SEMEL_OK;
    if (!hold_row(unit, row))
        return memory_out_of_memory(err);
    apply_verdict(&row->state, settlement, now_ms);
    memory_chain_update(&outbox->chains, row->chain);
    if (settlement->verdict == SEMEL_VERDICT_RETRY && settlement->error &&
        !replace_error(unit, row, settlement->error))
        return memory_out_of_memory(err);
    return SEMEL_OK;
}

semel_status memory_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    memory_outbox *found = get_outbox(self->store, outbox, err);
    semel_status status = found ? SEMEL_OK : SEMEL_EINVAL;
    int64_t now_ms = memory_now_ms(self->store);
    for (size_t i = 0; i < count && !status; i++)
        status = settle_one(self, found, &settlements[i], now_ms, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* --- extend ----------------------------------------------------------------------------------- */

static semel_status extend_one(memory_unit *unit, memory_outbox *outbox,
                               semel_item_settlement *lease, int64_t lease_end_ms, semel_error *err)
{
    memory_row *row = find_row(unit->store, lease->seq);
    lease->lost = !may_settle(unit, outbox, row, lease);
    if (lease->lost)
        return SEMEL_OK;
    if (!hold_row(unit, row))
        return memory_out_of_memory(err);
    row->state.lease_end_ms = lease_end_ms;
    memory_chain_update(&outbox->chains, row->chain);
    return SEMEL_OK;
}

semel_status memory_extend(void *unit, int64_t outbox, semel_item_settlement leases[], size_t count,
                           uint32_t lease_ms, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    memory_outbox *found = get_outbox(self->store, outbox, err);
    semel_status status = found ? SEMEL_OK : SEMEL_EINVAL;
    int64_t lease_end_ms = memory_now_ms(self->store) + lease_ms;
    for (size_t i = 0; i < count && !status; i++)
        status = extend_one(self, found, &leases[i], lease_end_ms, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* --- wake, remove ----------------------------------------------------------------------------- */

/* 1 if no live lease and no other unit has it. */
static int may_change(const memory_unit *unit, const memory_outbox *outbox, const memory_row *row,
                      int64_t now_ms)
{
    return row && row->outbox == outbox && !row->state.removed &&
           (!row->state.owner || row->state.owner == unit) &&
           (!row->state.token || row->state.lease_end_ms <= now_ms);
}

/* Of a row whose lease is over nothing is changed: it is due. */
static void wake_row(memory_row_state *state, int64_t now_ms)
{
    if (!state->token && state->due_ms > now_ms)
        state->due_ms = now_ms;
}

static semel_status change_rows(memory_unit *unit, int64_t number, const int64_t seqs[],
                                size_t count, int removes, size_t *changed, semel_error *err)
{
    memory_outbox *outbox = get_outbox(unit->store, number, err);
    int64_t now_ms = memory_now_ms(unit->store);
    size_t sum = 0;
    for (size_t i = 0; outbox && i < count; i++) {
        memory_row *row = find_row(unit->store, seqs[i]);
        if (!may_change(unit, outbox, row, now_ms))
            continue;
        if (!hold_row(unit, row))
            return memory_out_of_memory(err);
        if (removes)
            row->state.removed = 1;
        else
            wake_row(&row->state, now_ms);
        memory_chain_update(&outbox->chains, row->chain);
        sum++;
    }
    *changed = sum;
    return outbox ? SEMEL_OK : SEMEL_EINVAL;
}

semel_status memory_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                         size_t *changed, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = change_rows(self, outbox, seqs, count, 0, changed, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

semel_status memory_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                           size_t *changed, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = change_rows(self, outbox, seqs, count, 1, changed, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* A page begins where the last one ended, so the way there is by the index, not along the list. */
const memory_row *memory_outbox_after(int *found, const memory_store *store, int64_t number,
                                      int64_t seq, semel_error *err)
{
    const memory_outbox *outbox = get_outbox(store, number, err);
    const memory_row *row = seq > 0 ? find_row(store, seq) : NULL;
    *found = outbox != NULL;
    if (!outbox)
        return NULL;
    if (row && row->outbox == outbox)
        return row->newer;
    for (row = outbox->oldest; row && row->seq <= seq; row = row->newer)
        continue;
    return row;
}

/* --- lag -------------------------------------------------------------------------------------- */

semel_status memory_unsent(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err)
{
    memory_store *self = store;
    uint64_t total = 0;
    int64_t oldest = 0;
    (void)err;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < self->outbox_count; i++) {
        const memory_outbox *outbox = self->outboxes[i];
        if (outbox->kind != SEMEL_SCOPE_OUTBOX)
            continue;
        total += outbox->count;
        if (outbox->oldest && (!oldest || outbox->oldest->captured_ms < oldest))
            oldest = outbox->oldest->captured_ms;
    }
    pthread_mutex_unlock(&self->lock);
    *count = total;
    *oldest_ms = oldest;
    return SEMEL_OK;
}

void memory_outbox_stats(const memory_outbox *outbox, int64_t now_ms, semel_stats *out)
{
    for (const memory_row *row = outbox->oldest; row; row = row->newer) {
        out->unsent++;
        if (!out->oldest_unsent_ms || row->captured_ms < out->oldest_unsent_ms)
            out->oldest_unsent_ms = row->captured_ms;
        int64_t due_ms = row->state.token ? row->state.lease_end_ms : row->state.due_ms;
        if (due_ms > now_ms)
            continue;
        out->due++;
        if (!out->oldest_due_ms || due_ms < out->oldest_due_ms)
            out->oldest_due_ms = due_ms;
    }
}
