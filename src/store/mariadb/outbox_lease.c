/* Taking outgoing messages: rows without a group by the time at which they are due, rows with one group by group.
 *
 * Rows without a group are locked by one statement, which skips what others have locked.
 *
 * In a group nobody may be overtaken, not even by a relay that cannot see yet what another one has leased. So the
 * rows at the front of each group are looked at first, without locks; then exactly these are locked, skipping what
 * is locked already. A row that was seen and cannot be locked is somebody else's, or gone: it ends its group for
 * this time. What was locked is read as it is now, so a lease committed in between is seen. A relay that stops in
 * the middle keeps others from the rows that it has locked, and so from its groups, and from nothing else.
 *
 * A row is chosen by what it is and not by a number that was passed: one that commits late is found late, and never
 * skipped (P1).
 *
 * A group is come to in one of two ways:
 *
 * By name: those that have rows which are not parked, in turn, from where the last call stopped.
 *
 * By time: those in semel_group that are due, the longest due first, if nobody else has locked them there. A group whose
 * first row waits (for a backoff, for a delay) is parked: its rows are, some at a visit, and semel_group says when that
 * row wakes (outbox_park.c). From then on the walk by name does not see it, but for rows that are new in it, each of which
 * it parks in its turn. So a call costs what is ready, what is leased and what is new, however many groups wait and
 * however much waits in them.
 *
 * Where a group has parked rows there is a row in semel_group, due no later than the first of them wakes. Whoever parks or
 * moves the time has locked that row, and all of it is one transaction with the leases: a relay that dies leaves what
 * was before. A row that fails is parked when it is settled, if that adds the group to semel_group (outbox.c). The
 * first rows of a group are those that are parked and those that are not, read by one statement, whose view does not
 * change under it. Where no group is known no row is parked, and half of it is not asked for; but if some group was
 * known by then after all, the answer counts for nothing, and both are read.
 *
 * A group by time that is leased is visited again: at once if the lease is ours, else when the lease is twice as old,
 * which is soon after it was taken and seldom later. What was taken from goes to the end of those that are due; what there
 * was no room for keeps its place.
 *
 * Groups by time and by name share each call with each other and with the rows that have no group. The lease itself goes
 * with the commit. */
#include "store/mariadb/outbox_lease.h"

#include <stdlib.h>
#include <string.h>

static const bound patient = {PATIENT, 0};

/* --- turns ------------------------------------------------------------------------------------------------- */

static outbox_turn *find_turn(mariadb_store *store, int64_t outbox)
{
    outbox_turn *turn = store->turns;
    while (turn && turn->outbox != outbox)
        turn = turn->next;
    return turn;
}

static void read_turn(taking *t)
{
    mariadb_store *store = t->unit->store;
    pthread_mutex_lock(&store->lock);
    const outbox_turn *turn = find_turn(store, t->outbox);
    if (turn)
        t->turn = *turn;
    pthread_mutex_unlock(&store->lock);
    t->turn.outbox = t->outbox;
    t->turn.calls++;
}

/* Without memory for it the next call begins from the beginning, which is no harm. */
static void write_turn(taking *t)
{
    mariadb_store *store = t->unit->store;
    pthread_mutex_lock(&store->lock);
    outbox_turn *turn = find_turn(store, t->outbox);
    if (!turn && (turn = mem_alloc(sizeof *turn))) {
        turn->next = store->turns;
        store->turns = turn;
    }
    if (turn) {
        t->turn.next = turn->next;
        *turn = t->turn;
    }
    pthread_mutex_unlock(&store->lock);
}

void maria_turns_free(mariadb_store *store)
{
    for (outbox_turn *turn = store->turns, *next; turn; turn = next) {
        next = turn->next;
        mem_free(turn);
    }
    store->turns = NULL;
}

/* --- handing out --------------------------------------------------------------------------------------------- */

/* A row that cannot be read is not taken: it must not keep the others from leaving. It stays, and is counted as
 * unsent, until somebody repairs it. */
static semel_status hand_out(taking *t, const row *r, int *damaged, semel_error *err)
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
        t->taken[t->count++] = item.seq;
    return status;
}

static semel_status hand_out_free(const row *r, void *context, semel_error *err)
{
    int damaged;
    return hand_out(context, r, &damaged, err);
}

static void say_free(taking *t, uint32_t limit)
{
    query q = maria_unit_say(t->unit, ST_TAKE_FREE, patient);
    maria_int(&q, t->outbox);
    maria_uint(&q, limit);
    step *s = maria_end(&q);
    s->call = hand_out_free;
    s->context = t;
}

/* Of what was taken since the last time. */
static void say_lease(taking *t)
{
    for (uint32_t some; t->leased < t->count; t->leased += some) {
        some = t->count - t->leased < LIST_MAX ? t->count - t->leased : LIST_MAX;
        query q = maria_unit_say(t->unit, ST_LEASE, patient);
        maria_uint(&q, t->token);
        maria_uint(&q, t->lease_ms);
        maria_ints(&q, t->taken + t->leased, some);
        (void)maria_end(&q);
        q = maria_unit_say(t->unit, ST_EXPECT, patient);
        maria_uint(&q, some);
        maria_end(&q)->kind = STEP_EXPECT;
    }
}

/* --- groups ------------------------------------------------------------------------------------------ */

static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* Candidates before this row have not come: they could not be locked, and block their groups. */
static const candidate *expect(taking *t, int64_t seq)
{
    while (t->next < t->candidate_count && t->candidates[t->next].seq < seq)
        t->groups[t->candidates[t->next++].group].blocked = 1;
    if (t->next == t->candidate_count || t->candidates[t->next].seq != seq)
        return NULL;
    return &t->candidates[t->next++];
}

/* The last column says whether it is due: it may have been leased since it was seen. */
static semel_status hand_out_of_group(const row *r, void *context, semel_error *err)
{
    enum { COLUMN_DUE = 3 + MESSAGE_COLUMN_COUNT };
    taking *t = context;
    int damaged = 0;
    const candidate *seen = expect(t, maria_column_int(r, 0));
    if (!seen || t->groups[seen->group].blocked)
        return SEMEL_OK;
    if (!maria_column_int(r, COLUMN_DUE)) {
        t->groups[seen->group].blocked = 1;
        return SEMEL_OK;
    }
    semel_status status = hand_out(t, r, &damaged, err);
    t->groups[seen->group].blocked |= damaged;
    return status;
}

static void say_lock(taking *t, int64_t list[LIST_MAX], uint32_t from)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < t->candidate_count && count < LIST_MAX; i++)
        list[count++] = t->candidates[i].seq;
    query q = maria_unit_say(t->unit, ST_TAKE_LOCK, patient);
    maria_ints(&q, list, count);
    maria_int(&q, t->outbox);
    step *s = maria_end(&q);
    s->call = hand_out_of_group;
    s->context = t;
}

static semel_status take_candidates(taking *t, semel_error *err)
{
    int64_t *list = arena_alloc(&t->unit->on->scratch, LIST_MAX * sizeof *list);
    if (!list)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    t->next = 0;
    if (!t->candidate_count)
        return SEMEL_OK;
    qsort(t->candidates, t->candidate_count, sizeof *t->candidates, compare_candidates);
    for (uint32_t from = 0; from < t->candidate_count; from += LIST_MAX)
        say_lock(t, list, from);
    return maria_unit_hear(t->unit, NULL, "taking groups of messages", err);
}

/* The next call goes on behind the last group by name that there was room for; past the last of all, with the first. */
static void pass_turn(taking *t)
{
    uint32_t named = t->group_count - t->timed;
    int at_end = named < t->groups_asked;
    t->turn.had_groups |= t->group_count > 0;
    t->past |= at_end && t->until[0];
    if (t->full && !t->last)
        return;
    if (at_end && !t->full) {
        t->turn.group[0] = 0;
        return;
    }
    const front *last = &t->groups[(t->full ? t->last : t->group_count) - 1];
    memcpy(t->turn.group, last->name, last->len + 1);
}

static semel_status take_of_groups(taking *t, semel_error *err)
{
    semel_status status = maria_choose(t, err);
    if (!status)
        status = take_candidates(t, err);
    if (!status)
        status = maria_park(t, err);
    if (!status)
        pass_turn(t);
    return status;
}

/* 1 if the round has come to the end of the groups, and goes on at their beginning up to where it began. */
static int turn_round(taking *t, const char *began)
{
    if (t->turn.group[0] || t->until[0] || !began[0])
        return 0;
    memcpy(t->until, began, strlen(began) + 1);
    return 1;
}

/* Those that were named already; then, as long as there is nothing to take, further ones: each group once. */
static semel_status take_groups(taking *t, semel_error *err)
{
    char *began = arena_copy(&t->unit->on->scratch, t->turn.group, strlen(t->turn.group));
    if (!began)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    semel_status status = take_of_groups(t, err);
    for (int pages = 0; !status && !t->count && !t->past && pages < PAGES_MAX; pages++) {
        if (!turn_round(t, began) && !t->turn.group[0])
            break;
        t->group_count = t->timed = 0;
        maria_say_heads(t, t->turn.group, GROUPS_MAX);
        status = maria_unit_hear(t->unit, NULL, "looking for groups", err);
        if (!status)
            status = take_of_groups(t, err);
    }
    return status;
}

/* --- taking -------------------------------------------------------------------------------------------------- */

/* Where there were groups last time, half of the room is theirs at first, so that neither kind starves the other (a
 * single place goes to each in turn); what is left over is filled. */
static uint32_t room_for_free(const taking *t)
{
    return t->turn.had_groups ? (t->limit + (t->turn.calls & 1)) / 2 : t->limit;
}

static semel_status take(taking *t, semel_error *err)
{
    uint32_t free_room = room_for_free(t);
    t->turn.had_groups = 0;
    maria_say_timed(t);
    maria_say_heads(t, t->turn.group, maria_groups_at_first(t));
    if (free_room)
        say_free(t, free_room);
    semel_status status = maria_unit_hear(t->unit, NULL, "taking outgoing messages", err);
    int more_free = t->count == free_room;
    if (!status)
        status = take_groups(t, err);
    if (!status && more_free && t->count < t->limit) {
        say_lease(t); /* or they would be found again */
        say_free(t, t->limit - t->count);
        status = maria_unit_hear(t->unit, NULL, "taking outgoing messages", err);
    }
    return status;
}

semel_status mariadb_take(void *unit_state, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                          semel_item_sink *sink, void *context, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    mem_arena *arena = &unit->on->scratch;
    taking *t = arena_alloc(arena, sizeof *t);
    if (!t)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %u", limit);
    *t = (taking){.unit = unit,
                  .outbox = outbox,
                  .token = maria_token(unit->store),
                  .limit = limit,
                  .lease_ms = lease_ms,
                  .sink = sink,
                  .context = context};
    t->taken = arena_alloc(arena, limit * sizeof *t->taken);
    t->candidates = arena_alloc(arena, limit * sizeof *t->candidates);
    if (!t->taken || !t->candidates)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %u", limit);
    read_turn(t);
    semel_status status = take(t, err);
    if (status)
        return status;
    say_lease(t);
    unit->wrote |= t->count > 0 || t->wrote;
    write_turn(t);
    return SEMEL_OK;
}
