/* Leasing outgoing messages: rows without a group by the time at which they are due, rows with one
 * group by group.
 *
 * Of a group the first rows are leased, up to one that is leased already or waits, which blocks the
 * rest of the group and nothing else. A group is come to in one of two ways:
 *
 * By name: those that have rows which are not parked, in turn, from where the last call stopped.
 *
 * By time: those in semel_group that are due, the longest due first. A group whose first row waits
 * (for a backoff, for a delay) is parked: its rows are, some at a visit, and semel_group says when
 * that row wakes. From then on the walk by name does not see it, but for rows that are new in it,
 * each of which it parks in its turn. So a call costs what is ready, what is leased and what is
 * new, however many groups wait and however much waits in them. A row that fails is parked when it
 * is settled (outbox.c).
 *
 * Where a group has parked rows there is a row in semel_group, which is due no later than the first
 * of all its rows that is parked. Both change in one transaction, and SQLite has one writer:
 * nothing comes between. A process that dies leaves the state before its transaction. A group that
 * was visited by time and has no parked rows any more leaves semel_group; one that is leased is
 * visited again: at once if the lease is ours, else when the lease is twice as old, which is soon
 * after it began and seldom later. A group that rows were leased from goes to the end of those that
 * are due.
 *
 * Rows with and without a group share a call, and so do groups by time and by name; what one
 * leaves, the other gets. From a group come no more than a part of the call, however long it is. */
#include "store/sqlite/sqlite.h"

#include <string.h>

enum {
    LOOKS_PER_ITEM = 10,
    DUE_MAX = 256,        /* groups that are visited by time in a call */
    PARKED_MAX = 1000,    /* rows that are parked in a call ... */
    PARKED_OF_GROUP = 100 /* ... and of a group at a visit */
};

typedef struct outbox_leasing {
    sqlite_unit *unit;
    sql_cursor *cursor;
    int64_t outbox;
    int64_t now;
    uint32_t limit;
    uint64_t token;
    int64_t *seqs; /* of the rows delivered, to be leased when the reading is over */
    uint32_t count;
    uint32_t leased; /* of those */
    uint32_t lease_ms;
    uint32_t parked;
    char **due; /* names of groups that are visited by time */
    uint32_t due_count;
    semel_item_sink *sink;
    void *context;
} outbox_leasing;

/* The first row of a group, as it was found. */
typedef struct front {
    int there;
    int leased;
    int ours; /* by this call */
    int64_t wake_ms;
} front;

/* --- delivering rows -------------------------------------------------------------------------- */

/* The columns seq, attempts, refusals and the message, from the first one on. A row that cannot be
 * read is not leased: it must not keep the others from leaving. It stays, and is counted as unsent,
 * until an operator repairs it. */
static semel_status deliver_row(outbox_leasing *t, const sqlite_query *q, int *damaged,
                                semel_error *err)
{
    semel_message message;
    semel_item item = {.seq = sqlite_row_int(q, 0),
                       .token = t->token,
                       .attempts = (uint32_t)sqlite_row_int(q, 1) + 1,
                       .refusals = (uint32_t)sqlite_row_int(q, 2),
                       .message = &message};
    semel_status status = sqlite_message_read(&message, &t->unit->store->scratch, q, 3, err);
    *damaged = status == SEMEL_ESTORE;
    if (*damaged)
        return SEMEL_OK;
    if (!status)
        status = t->sink(&item, t->context, err);
    if (!status)
        t->seqs[t->count++] = item.seq;
    return status;
}

static semel_status lease_free(outbox_leasing *t, uint32_t up_to, semel_error *err)
{
    semel_status status = SEMEL_OK;
    int got = 0, damaged;
    sqlite_query q = sqlite_query_start(t->unit->on, ST_OUTBOX_FREE);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_int(&q, t->now);
    while (!status && t->count < up_to &&
           (got = sqlite_query_row(&q, "taking outgoing messages", err)) > 0)
        status = deliver_row(t, &q, &damaged, err);
    sqlite_query_end(&q);
    return got < 0 ? q.status : status;
}

static semel_status write_leases(outbox_leasing *t, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (; !status && t->leased < t->count; t->leased++) {
        int changed = 0;
        sqlite_query q = sqlite_query_start(t->unit->on, ST_OUTBOX_LEASE);
        sqlite_query_int(&q, (int64_t)t->token);
        sqlite_query_int(&q, t->now + t->lease_ms);
        sqlite_query_int(&q, t->seqs[t->leased]);
        status = sqlite_query_run(&q, &changed, "leasing an outgoing message", err);
        if (!status && changed != 1)
            status =
                semel_fail(err, SEMEL_ESTORE, "an outgoing message vanished while it was taken");
    }
    return status;
}

/* --- a group ---------------------------------------------------------------------------------- */

enum { COLUMN_WAKE = 13, COLUMN_TOKEN = 14 };

static int is_ours(const outbox_leasing *t, const sqlite_query *q)
{
    return !sqlite_row_is_null(q, COLUMN_TOKEN) &&
           (uint64_t)sqlite_row_int(q, COLUMN_TOKEN) == t->token;
}

static void note_front(front *f, const outbox_leasing *t, const sqlite_query *q)
{
    if (f->there)
        return;
    *f = (front){.there = 1,
                 .leased = !sqlite_row_is_null(q, COLUMN_TOKEN),
                 .ours = is_ours(t, q) || sqlite_row_int(q, COLUMN_WAKE) <= t->now,
                 .wake_ms = sqlite_row_int(q, COLUMN_WAKE)};
}

/* Rows that are ours already are passed over: the round has come by here before. */
static semel_status lease_of_group(outbox_leasing *t, front *f, const char *group, uint32_t up_to,
                                   semel_error *err)
{
    semel_status status = SEMEL_OK;
    int got = 0, damaged = 0;
    sqlite_query q = sqlite_query_start(t->unit->on, ST_OUTBOX_OF_GROUP);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_text(&q, group);
    while (!status && !damaged && t->count < up_to &&
           (got = sqlite_query_row(&q, "taking a group's messages", err)) > 0) {
        note_front(f, t, &q);
        if (sqlite_row_int(&q, COLUMN_WAKE) <= t->now)
            status = deliver_row(t, &q, &damaged, err);
        else if (!is_ours(t, &q))
            break;
    }
    sqlite_query_end(&q);
    return got < 0 ? q.status : status;
}

/* ST_GROUP_SET makes the row if there is none, ST_GROUP_MOVE does not. */
static semel_status set_due(outbox_leasing *t, sqlite_statement how, const char *group,
                            int64_t due_ms, semel_error *err)
{
    sqlite_query q = sqlite_query_start(t->unit->on, how);
    sqlite_query_int(&q, due_ms);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_text(&q, group);
    return sqlite_query_run(&q, NULL, "noting when a group is due", err);
}

static semel_status park_group(outbox_leasing *t, const char *group, int64_t wake_ms,
                               semel_error *err)
{
    int changed = 0;
    uint32_t room = PARKED_MAX - t->parked;
    sqlite_query q = sqlite_query_start(t->unit->on, ST_GROUP_PARK);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_text(&q, group);
    sqlite_query_int(&q, room < PARKED_OF_GROUP ? room : PARKED_OF_GROUP);
    semel_status status = sqlite_query_run(&q, &changed, "parking a group", err);
    t->parked += (uint32_t)changed;
    return status ? status : set_due(t, ST_GROUP_SET, group, wake_ms, err);
}

/* When a group is to be visited next that has parked rows and does not wait. */
static int64_t next_visit_ms(const outbox_leasing *t, const front *f)
{
    int64_t age = t->now + t->lease_ms - f->wake_ms;
    if (f->ours || age < 0)
        return t->now;
    return t->now + age < f->wake_ms ? t->now + age : f->wake_ms;
}

static semel_status set_next_visit(outbox_leasing *t, const char *group, const front *f,
                                   semel_error *err)
{
    int left = 0;
    sqlite_query q = sqlite_query_start(t->unit->on, ST_GROUP_LEAVE);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_text(&q, group);
    semel_status status = sqlite_query_run(&q, &left, "looking for parked messages", err);
    if (status || left)
        return status;
    return set_due(t, ST_GROUP_MOVE, group, next_visit_ms(t, f), err);
}

static semel_status visit_group(outbox_leasing *t, const char *group, int by_time, uint32_t share,
                                uint32_t up_to, semel_error *err)
{
    front f = {0};
    uint32_t room = up_to - t->count;
    semel_status status =
        lease_of_group(t, &f, group, t->count + (share < room ? share : room), err);
    if (!status)
        status = write_leases(t, err); /* before the round comes by here again */
    if (status)
        return status;
    if (f.there && !f.leased && !f.ours && (by_time || t->parked < PARKED_MAX))
        return park_group(t, group, f.wake_ms, err);
    return by_time ? set_next_visit(t, group, &f, err) : SEMEL_OK;
}

/* --- by name, by time ------------------------------------------------------------------------- */

/* The next group in the order of names, into the cursor. *found is 0 past the last one. */
static semel_status next_group(outbox_leasing *t, int *found, semel_error *err)
{
    char *cursor = t->cursor->group;
    sqlite_query q = sqlite_query_start(t->unit->on, ST_OUTBOX_NEXT_GROUP);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_text(&q, cursor);
    int got = sqlite_query_row(&q, "looking for groups", err);
    const char *group = got > 0 ? sqlite_row_text(&q, 0) : NULL;
    size_t len = group ? strlen(group) : 0;
    *found = got > 0 && len > 0 && len <= SEMEL_TEXT_MAX;
    memcpy(cursor, *found ? group : "", *found ? len + 1 : 1);
    int lost = got > 0 && sqlite_row_lost(&q);
    sqlite_query_end(&q);
    if (lost)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory looking for groups");
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status lease_by_name(outbox_leasing *t, uint32_t up_to, semel_error *err)
{
    int wraps = t->cursor->group[0] ? 0 : 1, found;
    for (uint32_t looks = 0; t->count < up_to && looks < t->limit * LOOKS_PER_ITEM; looks++) {
        semel_status status = next_group(t, &found, err);
        if (!status && found)
            status = visit_group(t, t->cursor->group, 0, t->limit / 4 + 1, up_to, err);
        if (status)
            return status;
        if (!found && wraps++)
            break;
    }
    return SEMEL_OK;
}

/* Those that are due now; a visit changes what is read here. */
static semel_status find_due(outbox_leasing *t, semel_error *err)
{
    uint32_t max = t->limit < DUE_MAX ? t->limit : DUE_MAX;
    mem_arena *arena = &t->unit->store->scratch;
    int got = 0, lost = 0;
    sqlite_query q = sqlite_query_start(t->unit->on, ST_GROUP_DUE);
    sqlite_query_int(&q, t->outbox);
    sqlite_query_int(&q, t->now);
    sqlite_query_int(&q, max);
    while (!lost && (got = sqlite_query_row(&q, "looking for groups that are due", err)) > 0) {
        const char *name = sqlite_row_text(&q, 0); /* not its bytes: they may be UTF-16 */
        if (!t->due)
            t->due = arena_alloc(arena, max * sizeof *t->due);
        char *copy = t->due && name ? arena_copy(arena, name, strlen(name)) : NULL;
        lost = !copy || sqlite_row_lost(&q);
        if (!lost)
            t->due[t->due_count++] = copy;
    }
    sqlite_query_end(&q);
    if (lost)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory looking for groups");
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status lease_by_time(outbox_leasing *t, uint32_t share, uint32_t up_to,
                                  semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (uint32_t i = 0; !status && t->count < up_to && i < t->due_count; i++)
        status = visit_group(t, t->due[i], 1, share, up_to, err);
    return status;
}

/* --- leasing ---------------------------------------------------------------------------------- */

/* Half of the room is for rows without a group, a quarter for groups of either kind, so that none
 * starves another (a single place goes to each in turn); what is left over is filled. */
static semel_status lease_shares(outbox_leasing *t, semel_error *err)
{
    uint32_t calls = ++t->cursor->calls;
    uint32_t for_groups = (t->limit + (calls & 1)) / 2;
    uint32_t by_time = (for_groups + (calls >> 1 & 1)) / 2;
    semel_status status = find_due(t, err);
    if (!status)
        status = lease_by_time(t, t->limit / 4 + 1, by_time, err);
    if (!status)
        status = lease_by_name(t, for_groups, err);
    if (!status)
        status = lease_free(t, t->limit, err);
    if (!status)
        status = write_leases(t, err);
    if (!status)
        status = lease_by_time(t, t->limit, t->limit, err);
    if (!status)
        status = lease_by_name(t, t->limit, err);
    return status;
}

semel_status sqlite_take(void *unit_state, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                         semel_item_sink *sink, void *context, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sqlite_store *store = unit->store;
    outbox_leasing t = {.unit = unit,
                        .cursor = sql_cursor_of(&store->cursors, outbox),
                        .outbox = outbox,
                        .now = sqlite_clock_now(store),
                        .limit = limit,
                        .token = sql_token_new(store->seam),
                        .lease_ms = lease_ms,
                        .sink = sink,
                        .context = context};
    arena_reset(&store->scratch);
    t.seqs = arena_alloc(&store->scratch, limit * sizeof *t.seqs);
    if (!t.seqs || !t.cursor)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %u", limit);
    return lease_shares(&t, err);
}
