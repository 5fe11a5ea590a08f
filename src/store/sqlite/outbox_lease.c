/* Taking outgoing messages: rows without a group by the time at which they are due, rows with one group by group.
 *
 * Of a group the first rows are taken, until one is found that is leased or waiting, which blocks the rest of the
 * group and nothing else. A group is come to in one of two ways:
 *
 * By name: those that have rows which are not parked, in turn, from where the last call stopped.
 *
 * By time: those in semel_group that are due, the longest due first. A group whose first row waits (for a backoff, for
 * a delay) is parked: its rows are, some at a visit, and semel_group says when that row wakes. From then on the walk by
 * name does not see it, but for rows that are new in it, each of which it parks in its turn. So a call costs what is
 * ready, what is leased and what is new, however many groups wait and however much waits in them. A row that fails is
 * parked when it is settled (outbox.c).
 *
 * Where a group has parked rows there is a row in semel_group, which is due no later than the first of all its rows
 * that is parked. Both change in one transaction, and SQLite has one writer: nothing comes between. Whoever dies
 * leaves the one before. A group that was visited by time and has no parked rows any more leaves semel_group; one that is
 * leased is visited again: at once if the lease is ours, else when the lease is twice as old, which is soon after
 * it was taken and seldom later. One that was taken from goes to the end of those that are due.
 *
 * Rows with and without a group share a call, and so do groups by time and by name; what one leaves, the other gets.
 * From a group come no more than a part of the call, however long it is. */
#include "store/sqlite/sqlite.h"

#include <string.h>

enum {
    LOOKS_PER_ITEM = 10,
    DUE_MAX = 256,        /* groups that are visited by time in a call */
    PARKED_MAX = 1000,    /* rows that are parked in a call ... */
    PARKED_OF_GROUP = 100 /* ... and of a group at a visit */
};

/* Whose turn it is in an outbox: kept from call to call, and for each outbox apart. */
typedef struct outbox_turn {
    struct outbox_turn *next;
    int64_t outbox;
    uint32_t calls;
    char group[SEMEL_TEXT_MAX + 1]; /* the one that was visited last */
} outbox_turn;

static outbox_turn *turn_of(sqlite_store *store, int64_t outbox)
{
    outbox_turn *turn = store->turns;
    while (turn && turn->outbox != outbox)
        turn = turn->next;
    if (turn || !(turn = mem_alloc(sizeof *turn)))
        return turn;
    turn->outbox = outbox;
    turn->next = store->turns;
    store->turns = turn;
    return turn;
}

void turns_free(sqlite_store *store)
{
    for (outbox_turn *turn = store->turns, *next; turn; turn = next) {
        next = turn->next;
        mem_free(turn);
    }
    store->turns = NULL;
}

typedef struct taking {
    sqlite_unit *unit;
    outbox_turn *turn;
    int64_t outbox;
    int64_t now;
    uint32_t limit;
    uint64_t token;
    int64_t *taken; /* their seq, to be leased when the reading is over */
    uint32_t count;
    uint32_t leased; /* of those */
    uint32_t lease_ms;
    uint32_t parked;
    char **due; /* names of groups that are visited by time */
    uint32_t due_count;
    semel_item_sink *sink;
    void *context;
} taking;

/* The first row of a group, as it was found. */
typedef struct front {
    int there;
    int leased;
    int ours; /* by this call */
    int64_t wake_ms;
} front;

/* --- handing out -------------------------------------------------------------------------------------------- */

/* The columns seq, attempts, refusals and the message, from the first one on. A row that cannot be read is not taken:
 * it must not keep the others from leaving. It stays, and is counted as unsent, until somebody repairs it. */
static semel_status hand_out(taking *t, const query *q, int *damaged, semel_error *err)
{
    semel_message message;
    semel_item item = {.seq = column_int(q, 0),
                       .token = t->token,
                       .attempts = (uint32_t)column_int(q, 1) + 1,
                       .refusals = (uint32_t)column_int(q, 2),
                       .message = &message};
    semel_status status = message_read(&message, &t->unit->store->scratch, q, 3, err);
    *damaged = status == SEMEL_ESTORE;
    if (*damaged)
        return SEMEL_OK;
    if (!status)
        status = t->sink(&item, t->context, err);
    if (!status)
        t->taken[t->count++] = item.seq;
    return status;
}

static semel_status take_free(taking *t, uint32_t up_to, semel_error *err)
{
    semel_status status = SEMEL_OK;
    int got = 0, damaged;
    query q = query_start(t->unit->on, ST_OUTBOX_FREE);
    query_int(&q, t->outbox);
    query_int(&q, t->now);
    while (!status && t->count < up_to &&
           (got = query_row(&q, "taking outgoing messages", err)) > 0)
        status = hand_out(t, &q, &damaged, err);
    query_end(&q);
    return got < 0 ? q.status : status;
}

static semel_status lease_taken(taking *t, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (; !status && t->leased < t->count; t->leased++) {
        int changed = 0;
        query q = query_start(t->unit->on, ST_OUTBOX_LEASE);
        query_int(&q, (int64_t)t->token);
        query_int(&q, t->now + t->lease_ms);
        query_int(&q, t->taken[t->leased]);
        status = query_run(&q, &changed, "leasing an outgoing message", err);
        if (!status && changed != 1)
            status =
                semel_fail(err, SEMEL_ESTORE, "an outgoing message vanished while it was taken");
    }
    return status;
}

/* --- a group ------------------------------------------------------------------------------------------------ */

enum { COLUMN_WAKE = 13, COLUMN_TOKEN = 14 };

static int is_ours(const taking *t, const query *q)
{
    return !column_is_null(q, COLUMN_TOKEN) && (uint64_t)column_int(q, COLUMN_TOKEN) == t->token;
}

static void note_front(front *f, const taking *t, const query *q)
{
    if (f->there)
        return;
    *f = (front){.there = 1,
                 .leased = !column_is_null(q, COLUMN_TOKEN),
                 .ours = is_ours(t, q) || column_int(q, COLUMN_WAKE) <= t->now,
                 .wake_ms = column_int(q, COLUMN_WAKE)};
}

/* Rows that are ours already are passed over: the round has come by here before. */
static semel_status take_of_group(taking *t, front *f, const char *group, uint32_t up_to,
                                  semel_error *err)
{
    semel_status status = SEMEL_OK;
    int got = 0, damaged = 0;
    query q = query_start(t->unit->on, ST_OUTBOX_OF_GROUP);
    query_int(&q, t->outbox);
    query_text(&q, group);
    while (!status && !damaged && t->count < up_to &&
           (got = query_row(&q, "taking a group's messages", err)) > 0) {
        note_front(f, t, &q);
        if (column_int(&q, COLUMN_WAKE) <= t->now)
            status = hand_out(t, &q, &damaged, err);
        else if (!is_ours(t, &q))
            break;
    }
    query_end(&q);
    return got < 0 ? q.status : status;
}

/* ST_GROUP_SET makes the row if there is none, ST_GROUP_MOVE does not. */
static semel_status set_due(taking *t, statement how, const char *group, int64_t due_ms,
                            semel_error *err)
{
    query q = query_start(t->unit->on, how);
    query_int(&q, due_ms);
    query_int(&q, t->outbox);
    query_text(&q, group);
    return query_run(&q, NULL, "noting when a group is due", err);
}

static semel_status park(taking *t, const char *group, int64_t wake_ms, semel_error *err)
{
    int changed = 0;
    uint32_t room = PARKED_MAX - t->parked;
    query q = query_start(t->unit->on, ST_GROUP_PARK);
    query_int(&q, t->outbox);
    query_text(&q, group);
    query_int(&q, room < PARKED_OF_GROUP ? room : PARKED_OF_GROUP);
    semel_status status = query_run(&q, &changed, "parking a group", err);
    t->parked += (uint32_t)changed;
    return status ? status : set_due(t, ST_GROUP_SET, group, wake_ms, err);
}

/* When a group is to be visited next that has parked rows and does not wait. */
static int64_t next_visit(const taking *t, const front *f)
{
    int64_t age = t->now + t->lease_ms - f->wake_ms;
    if (f->ours || age < 0)
        return t->now;
    return t->now + age < f->wake_ms ? t->now + age : f->wake_ms;
}

static semel_status visit_again(taking *t, const char *group, const front *f, semel_error *err)
{
    int left = 0;
    query q = query_start(t->unit->on, ST_GROUP_LEAVE);
    query_int(&q, t->outbox);
    query_text(&q, group);
    semel_status status = query_run(&q, &left, "looking for parked messages", err);
    if (status || left)
        return status;
    return set_due(t, ST_GROUP_MOVE, group, next_visit(t, f), err);
}

static semel_status visit(taking *t, const char *group, int by_time, uint32_t share, uint32_t up_to,
                          semel_error *err)
{
    front f = {0};
    uint32_t room = up_to - t->count;
    semel_status status =
        take_of_group(t, &f, group, t->count + (share < room ? share : room), err);
    if (!status)
        status = lease_taken(t, err); /* before the round comes by here again */
    if (status)
        return status;
    if (f.there && !f.leased && !f.ours && (by_time || t->parked < PARKED_MAX))
        return park(t, group, f.wake_ms, err);
    return by_time ? visit_again(t, group, &f, err) : SEMEL_OK;
}

/* --- by name, by time --------------------------------------------------------------------------------------- */

/* The next group in the order of names, into the turn. *found is 0 past the last one. */
static semel_status next_group(taking *t, int *found, semel_error *err)
{
    char *turn = t->turn->group;
    query q = query_start(t->unit->on, ST_OUTBOX_NEXT_GROUP);
    query_int(&q, t->outbox);
    query_text(&q, turn);
    int got = query_row(&q, "looking for groups", err);
    const char *group = got > 0 ? column_text(&q, 0) : NULL;
    size_t len = group ? strlen(group) : 0;
    *found = got > 0 && len > 0 && len <= SEMEL_TEXT_MAX;
    memcpy(turn, *found ? group : "", *found ? len + 1 : 1);
    int lost = got > 0 && columns_lost(&q);
    query_end(&q);
    if (lost)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory looking for groups");
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status take_by_name(taking *t, uint32_t up_to, semel_error *err)
{
    int wraps = t->turn->group[0] ? 0 : 1, found;
    for (uint32_t looks = 0; t->count < up_to && looks < t->limit * LOOKS_PER_ITEM; looks++) {
        semel_status status = next_group(t, &found, err);
        if (!status && found)
            status = visit(t, t->turn->group, 0, t->limit / 4 + 1, up_to, err);
        if (status)
            return status;
        if (!found && wraps++)
            break;
    }
    return SEMEL_OK;
}

/* Those that are due now; a visit changes what is read here. */
static semel_status find_due(taking *t, semel_error *err)
{
    uint32_t max = t->limit < DUE_MAX ? t->limit : DUE_MAX;
    mem_arena *arena = &t->unit->store->scratch;
    int got = 0, lost = 0;
    query q = query_start(t->unit->on, ST_GROUP_DUE);
    query_int(&q, t->outbox);
    query_int(&q, t->now);
    query_int(&q, max);
    while (!lost && (got = query_row(&q, "looking for groups that are due", err)) > 0) {
        const char *name = column_text(&q, 0); /* not its bytes: they may be UTF-16 */
        if (!t->due)
            t->due = arena_alloc(arena, max * sizeof *t->due);
        char *copy = t->due && name ? arena_copy(arena, name, strlen(name)) : NULL;
        lost = !copy || columns_lost(&q);
        if (!lost)
            t->due[t->due_count++] = copy;
    }
    query_end(&q);
    if (lost)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory looking for groups");
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status take_by_time(taking *t, uint32_t share, uint32_t up_to, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (uint32_t i = 0; !status && t->count < up_to && i < t->due_count; i++)
        status = visit(t, t->due[i], 1, share, up_to, err);
    return status;
}

/* --- taking ------------------------------------------------------------------------------------------------- */

/* Half of the room is for rows without a group, a quarter for groups of either kind, so that none starves another (a
 * single place goes to each in turn); what is left over is filled. */
static semel_status take(taking *t, semel_error *err)
{
    uint32_t calls = ++t->turn->calls;
    uint32_t for_groups = (t->limit + (calls & 1)) / 2;
    uint32_t by_time = (for_groups + (calls >> 1 & 1)) / 2;
    semel_status status = find_due(t, err);
    if (!status)
        status = take_by_time(t, t->limit / 4 + 1, by_time, err);
    if (!status)
        status = take_by_name(t, for_groups, err);
    if (!status)
        status = take_free(t, t->limit, err);
    if (!status)
        status = lease_taken(t, err);
    if (!status)
        status = take_by_time(t, t->limit, t->limit, err);
    if (!status)
        status = take_by_name(t, t->limit, err);
    return status;
}

semel_status sqlite_take(void *unit_state, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                         semel_item_sink *sink, void *context, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sqlite_store *store = unit->store;
    taking t = {.unit = unit,
                .turn = turn_of(store, outbox),
                .outbox = outbox,
                .now = clock_now(store),
                .limit = limit,
                .token = token_new(store),
                .lease_ms = lease_ms,
                .sink = sink,
                .context = context};
    arena_reset(&store->scratch);
    t.taken = arena_alloc(&store->scratch, limit * sizeof *t.taken);
    if (!t.taken || !t.turn)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %u", limit);
    return take(&t, err);
}
