/* The outbox.
 *
 * Rows without a group are taken by the time at which they are due. Rows with one are taken group by
 * group, in turn, from where the last call stopped: the first rows of a group, until one is found that is
 * leased or waiting, which blocks the rest of that group and nothing else. So the cost of a turn depends on the number of groups, not on how
 * many rows wait behind a blocked one. */
#include "store/sqlite/sqlite.h"

#include <string.h>

enum { LOOKS_PER_ITEM = 10 };

semel_status sqlite_put(void *unit_state, int64_t outbox, const semel_message *message,
                        semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t now = clock_now(unit->store);
    query q = query_start(unit->on, ST_OUTBOX_PUT);
    arena_reset(scratch_of(unit));
    query_int(&q, outbox);
    query_int(&q, now + message->delay_ms);
    query_int(&q, now);
    semel_status status = message_bind(&q, scratch_of(unit), message, err);
    return status ? status : query_run(&q, NULL, "storing an outgoing message", err);
}

/* --- taking --------------------------------------------------------------------------------------------- */

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
    semel_item_sink *sink;
    void *context;
} taking;

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

/* 1: take it, 0: pass it over (it is ours already), -1: it blocks the rest of its group. */
static int may_go(const taking *t, const query *q)
{
    enum { COLUMN_WAKE = 13, COLUMN_TOKEN = 14 };
    if (column_int(q, COLUMN_WAKE) <= t->now)
        return 1;
    return (uint64_t)column_int(q, COLUMN_TOKEN) == t->token ? 0 : -1;
}

static semel_status take_of_group(taking *t, const char *group, uint32_t up_to, semel_error *err)
{
    semel_status status = SEMEL_OK;
    int got = 0, go = 0, damaged = 0;
    query q = query_start(t->unit->on, ST_OUTBOX_OF_GROUP);
    query_int(&q, t->outbox);
    query_text(&q, group);
    while (!status && !damaged && t->count < up_to &&
           (got = query_row(&q, "taking a group's messages", err)) > 0) {
        go = may_go(t, &q);
        if (go < 0)
            break;
        if (go)
            status = hand_out(t, &q, &damaged, err);
    }
    query_end(&q);
    return got < 0 ? q.status : status;
}

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

static semel_status take_groups(taking *t, uint32_t up_to, semel_error *err)
{
    uint32_t share = t->limit / 4 + 1;
    int wraps = t->turn->group[0] ? 0 : 1, found;
    for (uint32_t looks = 0; t->count < up_to && looks < t->limit * LOOKS_PER_ITEM; looks++) {
        semel_status status = next_group(t, &found, err);
        if (!status && found) {
            uint32_t room = up_to - t->count;
            status =
                take_of_group(t, t->turn->group, t->count + (share < room ? share : room), err);
        }
        if (!status)
            status = lease_taken(t, err); /* before the round comes by here again */
        if (status)
            return status;
        if (!found && wraps++)
            break;
    }
    return SEMEL_OK;
}

/* Half of the room is for either kind, so that neither starves the other (a single place goes to each in
 * turn); what is left over is filled. */
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
    semel_status status = take_groups(&t, (limit + (++t.turn->calls & 1)) / 2, err);
    if (!status)
        status = take_free(&t, limit, err);
    if (!status)
        status = lease_taken(&t, err);
    if (!status && t.count < limit)
        status = take_groups(&t, limit, err);
    return status;
}

/* --- settling ---------------------------------------------------------------------------------------------- */

static semel_status settle_one(sqlite_unit *unit, int64_t outbox, semel_settlement *s,
                               semel_error *err)
{
    static const statement of[] = {[SEMEL_ITEM_REMOVE] = ST_OUTBOX_REMOVE,
                                   [SEMEL_ITEM_RETRY] = ST_OUTBOX_RETRY,
                                   [SEMEL_ITEM_RELEASE] = ST_OUTBOX_RELEASE};
    int changed = 0;
    query q = query_start(unit->on, of[s->verdict]);
    if (s->verdict != SEMEL_ITEM_REMOVE) {
        int at_once = s->verdict == SEMEL_ITEM_RELEASE && !s->delay_ms;
        query_int_or_null(&q, at_once ? 0 : clock_now(unit->store) + s->delay_ms);
    }
    if (s->verdict == SEMEL_ITEM_RETRY)
        query_int(&q, s->refused != 0);
    query_int(&q, s->seq);
    query_int(&q, outbox);
    query_int(&q, (int64_t)s->token);
    semel_status status = query_run(&q, &changed, "settling an outgoing message", err);
    if (!status)
        s->lost = changed == 0;
    return status;
}

semel_status sqlite_settle(void *unit_state, int64_t outbox, semel_settlement settlements[],
                           size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = settle_one(unit_state, outbox, &settlements[i], err);
    return status;
}

static semel_status read_number(sqlite_store *store, statement which, int64_t *out,
                                semel_error *err)
{
    query q = query_start(&store->reader, which);
    int got = query_row(&q, "counting outgoing messages", err);
    *out = got > 0 ? column_int(&q, 0) : 0;
    query_end(&q);
    return got < 0 ? q.status : SEMEL_OK;
}

semel_status sqlite_unsent(void *state, uint64_t *count, int64_t *oldest_ms, semel_error *err)
{
    sqlite_store *store = state;
    int64_t rows = 0, oldest = 0;
    semel_status status = reader_enter(store, err);
    if (status)
        return status;
    status = schema_check(&store->reader, err);
    if (!status)
        status = read_number(store, ST_OUTBOX_COUNT, &rows, err);
    if (!status)
        status = read_number(store, ST_OUTBOX_OLDEST, &oldest, err);
    reader_leave(store);
    if (!status) {
        *count = (uint64_t)rows;
        *oldest_ms = oldest;
    }
    return status;
}
