/* Leasing outgoing messages: rows without a group by the time at which they are due, rows with one
 * group by group.
 *
 * Rows without a group are locked by one statement, which skips what others have locked.
 *
 * No row may overtake another of its group, not even in a relay that cannot see yet what another
 * one has leased. So the rows at the front of each group are read first, without locks; then
 * exactly these are locked, skipping what is locked already. A row that was seen and cannot be
 * locked is another relay's, or gone: it ends its group for this call. What was locked is read as
 * it is now, so a lease committed in between is seen. A relay that stops in the middle keeps others
 * from the rows that it has locked, and so from its groups, and from nothing else.
 *
 * A row is chosen by what it is and not by a number that was passed: one that commits late is found
 * late, and never skipped (P1).
 *
 * A group is come to in one of two ways:
 *
 * By name: those that have rows which are not parked, in turn, from where the last call stopped.
 *
 * By time: those in semel_group that are due, the longest due first, if no other relay has locked
 * them there. A group whose first row waits (for a backoff, for a delay) is parked: its rows are,
 * some at a visit, and semel_group says when that row wakes (outbox_park.c). From then on the walk
 * by name does not see it, but for rows that are new in it, each of which it parks in its turn. So
 * a call costs what is ready, what is leased and what is new, however many groups wait and however
 * much waits in them.
 *
 * Where a group has parked rows there is a row in semel_group, due no later than the first of them
 * wakes. A relay that parks or moves the time has locked that row, and all of it is one transaction
 * with the leases: a relay that dies leaves what was before. A row that fails is parked when it is
 * settled, if that adds the group to semel_group (outbox.c). The first rows of a group are those
 * that are parked and those that are not, read by one statement, whose view does not change under
 * it. Where no group is known no row is parked, and half of it is not asked for; but if some group
 * was known by then after all, the answer counts for nothing, and both are read.
 *
 * A group by time that is leased is visited again: at once if the lease is ours, else when the
 * lease is twice as old, which is soon after it began and seldom later. A group that rows were
 * leased from goes to the end of those that are due; one that there was no room for keeps its
 * place.
 *
 * Groups by time and by name share each call with each other and with the rows that have no group.
 * The lease itself goes with the commit. */
#include "store/mariadb/outbox_lease.h"

#include <stdlib.h>
#include <string.h>

static const maria_bound patient = {PATIENT, 0};

/* --- delivering rows -------------------------------------------------------------------------- */

/* A row that cannot be read is not leased: it must not keep the others from leaving. It stays, and
 * is counted as unsent, until an operator repairs it. */
static semel_status deliver_row(maria_leasing *t, const maria_row *r, int *damaged,
                                semel_error *err)
{
    semel_message message;
    semel_item item = {.seq = maria_column_int(r, 0),
                       .token = t->token,
                       .attempts = (uint32_t)maria_column_uint(r, 1) + 1,
                       .refusals = (uint32_t)maria_column_uint(r, 2),
                       .message = &message};
    semel_status status = maria_message_read(&message, &t->unit->on->scratch, r, 3, err);
    *damaged = status == SEMEL_ESTORE;
    if (*damaged)
        return SEMEL_OK;
    if (!status)
        status = t->sink(&item, t->context, err);
    if (!status)
        t->seqs[t->count++] = item.seq;
    return status;
}

static semel_status deliver_free_row(const maria_row *r, void *context, semel_error *err)
{
    int damaged;
    return deliver_row(context, r, &damaged, err);
}

static void enqueue_free(maria_leasing *t, uint32_t limit)
{
    maria_query q = maria_unit_enqueue(t->unit, ST_LEASE_FREE, patient);
    maria_int(&q, t->outbox);
    maria_uint(&q, limit);
    maria_step *s = maria_end(&q);
    s->call = deliver_free_row;
    s->context = t;
}

/* Of the rows that were delivered since the last time. */
static void enqueue_leases(maria_leasing *t)
{
    for (uint32_t some; t->leased < t->count; t->leased += some) {
        some = t->count - t->leased < LIST_MAX ? t->count - t->leased : LIST_MAX;
        maria_query q = maria_unit_enqueue(t->unit, ST_LEASE, patient);
        maria_uint(&q, t->token);
        maria_uint(&q, t->lease_ms);
        maria_ints(&q, t->seqs + t->leased, some);
        (void)maria_end(&q);
        q = maria_unit_enqueue(t->unit, ST_EXPECT, patient);
        maria_uint(&q, some);
        maria_end(&q)->kind = STEP_EXPECT;
    }
}

/* --- groups ----------------------------------------------------------------------------------- */

static int compare_candidates(const void *left, const void *right)
{
    const maria_candidate *a = left, *b = right;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* Candidates before this row have not come: they could not be locked, and block their groups. */
static const maria_candidate *expect_candidate(maria_leasing *t, int64_t seq)
{
    while (t->next < t->candidate_count && t->candidates[t->next].seq < seq)
        t->groups[t->candidates[t->next++].group].blocked = 1;
    if (t->next == t->candidate_count || t->candidates[t->next].seq != seq)
        return NULL;
    return &t->candidates[t->next++];
}

/* The last column says whether it is due: it may have been leased since it was seen. */
static semel_status deliver_group_row(const maria_row *r, void *context, semel_error *err)
{
    enum { COLUMN_DUE = 3 + MESSAGE_COLUMN_COUNT };
    maria_leasing *t = context;
    int damaged = 0;
    const maria_candidate *seen = expect_candidate(t, maria_column_int(r, 0));
    if (!seen || t->groups[seen->group].blocked)
        return SEMEL_OK;
    if (!maria_column_int(r, COLUMN_DUE)) {
        t->groups[seen->group].blocked = 1;
        return SEMEL_OK;
    }
    semel_status status = deliver_row(t, r, &damaged, err);
    t->groups[seen->group].blocked |= damaged;
    return status;
}

static void enqueue_lock(maria_leasing *t, int64_t list[LIST_MAX], uint32_t from)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < t->candidate_count && count < LIST_MAX; i++)
        list[count++] = t->candidates[i].seq;
    maria_query q = maria_unit_enqueue(t->unit, ST_LEASE_LOCK, patient);
    maria_ints(&q, list, count);
    maria_int(&q, t->outbox);
    maria_step *s = maria_end(&q);
    s->call = deliver_group_row;
    s->context = t;
}

static semel_status lease_candidates(maria_leasing *t, semel_error *err)
{
    int64_t *list = arena_alloc(&t->unit->on->scratch, LIST_MAX * sizeof *list);
    if (!list)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    t->next = 0;
    if (!t->candidate_count)
        return SEMEL_OK;
    qsort(t->candidates, t->candidate_count, sizeof *t->candidates, compare_candidates);
    for (uint32_t from = 0; from < t->candidate_count; from += LIST_MAX)
        enqueue_lock(t, list, from);
    return maria_unit_flush(t->unit, NULL, "taking groups of messages", err);
}

/* The next call goes on behind the last group by name that there was room for; past the last of
 * all, with the first. */
static void advance_cursor(maria_leasing *t)
{
    uint32_t named = t->group_count - t->timed;
    int at_end = named < t->groups_asked;
    t->cursor.has_groups |= t->group_count > 0;
    t->past |= at_end && t->until[0];
    if (t->full && !t->last)
        return;
    if (at_end && !t->full) {
        t->cursor.group[0] = 0;
        return;
    }
    const maria_group_front *last = &t->groups[(t->full ? t->last : t->group_count) - 1];
    memcpy(t->cursor.group, last->name, last->len + 1);
}

static semel_status lease_of_groups(maria_leasing *t, semel_error *err)
{
    semel_status status = maria_choose_rows(t, err);
    if (!status)
        status = lease_candidates(t, err);
    if (!status)
        status = maria_park_groups(t, err);
    if (!status)
        advance_cursor(t);
    return status;
}

/* 1 if the round has come to the end of the groups, and goes on at their beginning up to where it
 * began. */
static int wrap_around(maria_leasing *t, const char *began)
{
    if (t->cursor.group[0] || t->until[0] || !began[0])
        return 0;
    memcpy(t->until, began, strlen(began) + 1);
    return 1;
}

/* Those that were named already; then, as long as there is nothing to lease, further ones: each
 * group once. */
static semel_status lease_groups(maria_leasing *t, semel_error *err)
{
    char *began = arena_copy(&t->unit->on->scratch, t->cursor.group, strlen(t->cursor.group));
    if (!began)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    semel_status status = lease_of_groups(t, err);
    for (int pages = 0; !status && !t->count && !t->past && pages < PAGES_MAX; pages++) {
        if (!wrap_around(t, began) && !t->cursor.group[0])
            break;
        t->group_count = t->timed = 0;
        maria_enqueue_named_groups(t, t->cursor.group, GROUPS_MAX);
        status = maria_unit_flush(t->unit, NULL, "looking for groups", err);
        if (!status)
            status = lease_of_groups(t, err);
    }
    return status;
}

/* --- leasing ---------------------------------------------------------------------------------- */

/* Where there were groups last time, half of the room is theirs at first, so that neither kind
 * starves the other (a single place goes to each in turn); what is left over is filled. */
static uint32_t room_for_free(const maria_leasing *t)
{
    return t->cursor.has_groups ? (t->limit + (t->cursor.calls & 1)) / 2 : t->limit;
}

static semel_status lease_shares(maria_leasing *t, semel_error *err)
{
    uint32_t free_room = room_for_free(t);
    t->cursor.has_groups = 0;
    maria_enqueue_timed_groups(t);
    maria_enqueue_named_groups(t, t->cursor.group, maria_groups_at_first(t));
    if (free_room)
        enqueue_free(t, free_room);
    semel_status status = maria_unit_flush(t->unit, NULL, "taking outgoing messages", err);
    int more_free = t->count == free_room;
    if (!status)
        status = lease_groups(t, err);
    if (!status && more_free && t->count < t->limit) {
        enqueue_leases(t); /* or they would be found again */
        enqueue_free(t, t->limit - t->count);
        status = maria_unit_flush(t->unit, NULL, "taking outgoing messages", err);
    }
    return status;
}

semel_status mariadb_take(void *unit_state, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                          semel_item_sink *sink, void *context, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    mem_arena *arena = &unit->on->scratch;
    maria_leasing *t = arena_alloc(arena, sizeof *t);
    if (!t)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %u", limit);
    *t = (maria_leasing){.unit = unit,
                         .outbox = outbox,
                         .token = sql_token_new(unit->store->seam),
                         .limit = limit,
                         .lease_ms = lease_ms,
                         .sink = sink,
                         .context = context};
    t->seqs = arena_alloc(arena, limit * sizeof *t->seqs);
    t->candidates = arena_alloc(arena, limit * sizeof *t->candidates);
    if (!t->seqs || !t->candidates)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %u", limit);
    sql_cursor_load(&t->cursor, &unit->store->cursors, &unit->store->lock, outbox);
    semel_status status = lease_shares(t, err);
    if (status)
        return status;
    enqueue_leases(t);
    unit->wrote |= t->count > 0 || t->wrote;
    sql_cursor_store(&t->cursor, &unit->store->cursors, &unit->store->lock);
    return SEMEL_OK;
}
