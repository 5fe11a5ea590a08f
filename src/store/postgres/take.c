/* Taking outgoing messages: rows without a group by the time at which they are due, rows with one group by group.
 *
 * Rows without a group are locked and leased by one statement that skips what others have locked. A group is
 * taken by one relay at a time: whoever gets the group's advisory lock reads its rows by a *new* statement, which
 * sees every lease that was committed before the lock was free; so nobody overtakes a lease that is not yet to be
 * seen. The locks end with the transaction, which is short, and which the server ends by itself if its client
 * has been stopped. A row of it that is locked all the same (a relay is settling it, late) holds up the rest of the
 * group and is not waited for. A row is chosen by what it is and not by a number that was passed: one that commits late is
 * found late, and never skipped.
 *
 * Groups are visited in turn, from where the last call stopped, and share each call with the rows that have no
 * group. Rows that are gone but not yet vacuumed lie at the beginning of the index; after a long transaction
 * somewhere in the database there may be very many. So the search begins where the last one found something, and
 * at the very beginning only now and then, for those that come late. */
#include "store/postgres/postgres.h"

#include "base/wait.h"

#include <stdlib.h>
#include <string.h>

#define NO_FLOOR INT64_MIN

enum { GROUPS_MAX = 256, FULL_LOOK_EVERY_MS = 500, FLOOR_MARGIN_MS = 1000 };

/* Whose turn it is in an outbox: kept from call to call, and for each outbox apart. */
typedef struct outbox_turn {
    struct outbox_turn *next;
    int64_t outbox;
    uint32_t calls;
    int has_groups;   /* the last call has seen some */
    int64_t floor_ms; /* rows without group that are due are not due from before it, as a rule */
    int64_t looked_at_ms;           /* when we last looked at all of them, by wait_clock_ms() */
    char group[SEMEL_TEXT_MAX + 1]; /* the one that was visited last */
} outbox_turn;

typedef struct taking {
    postgres_unit *unit;
    int64_t outbox;
    uint64_t token;
    uint32_t limit;
    uint32_t lease_ms;
    uint32_t count;
    semel_item_sink *sink;
    void *context;
    outbox_turn turn;               /* a copy, put back at the end */
    const char *groups[GROUPS_MAX]; /* ours for this transaction */
    size_t group_count;
    int at_end; /* of the groups' names */
} taking;

/* --- turns --------------------------------------------------------------------------------------------- */

static outbox_turn *find_turn(postgres_store *store, int64_t outbox)
{
    outbox_turn *turn = store->turns;
    while (turn && turn->outbox != outbox)
        turn = turn->next;
    return turn;
}

static void read_turn(taking *t)
{
    postgres_store *store = t->unit->store;
    pthread_mutex_lock(&store->lock);
    const outbox_turn *turn = find_turn(store, t->outbox);
    if (turn)
        t->turn = *turn;
    pthread_mutex_unlock(&store->lock);
    t->turn.outbox = t->outbox;
    t->turn.calls++;
    int64_t now = wait_clock_ms();
    if (t->turn.looked_at_ms && now - t->turn.looked_at_ms < FULL_LOOK_EVERY_MS)
        return;
    t->turn.floor_ms = NO_FLOOR;
    t->turn.looked_at_ms = now;
}

/* Without memory for it the next call begins from the beginning, which is no harm. */
static void write_turn(taking *t)
{
    postgres_store *store = t->unit->store;
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

void pg_turns_free(postgres_store *store)
{
    for (outbox_turn *turn = store->turns, *next; turn; turn = next) {
        next = turn->next;
        mem_free(turn);
    }
}

/* --- handing out --------------------------------------------------------------------------------------- */

typedef struct place {
    int64_t seq;
    int row;
} place;

static int compare_places(const void *left, const void *right)
{
    const place *a = left, *b = right;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* A row that cannot be read is passed over: it must not keep the others from leaving. It stays, and is counted as
 * unsent, until somebody repairs it. */
static semel_status hand_out(taking *t, const PGresult *answer, int row, semel_error *err)
{
    semel_message message;
    semel_item item = {.seq = answer_int(answer, row, 0),
                       .token = t->token,
                       .attempts = (uint32_t)answer_int(answer, row, 1),
                       .refusals = (uint32_t)answer_int(answer, row, 2),
                       .message = &message};
    semel_status status = pg_message_read(&message, &t->unit->on->scratch, answer, row, 3, err);
    if (status == SEMEL_ESTORE)
        return SEMEL_OK;
    if (!status)
        status = t->sink(&item, t->context, err);
    t->count += !status;
    return status;
}

/* UPDATE ... RETURNING has no order of its own. */
static semel_status hand_out_all(taking *t, const PGresult *answer, semel_error *err)
{
    int rows = answer ? PQntuples(answer) : 0;
    place *places = rows ? arena_alloc(&t->unit->on->scratch, (size_t)rows * sizeof *places) : NULL;
    semel_status status = SEMEL_OK;
    if (rows && !places)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    for (int row = 0; row < rows; row++)
        places[row] = (place){answer_int(answer, row, 0), row};
    if (rows)
        qsort(places, (size_t)rows, sizeof *places, compare_places);
    for (int i = 0; !status && i < rows; i++)
        status = hand_out(t, answer, places[i].row, err);
    return status;
}

/* --- taking -------------------------------------------------------------------------------------------- */

static query take_query(taking *t, statement which, uint32_t limit, PGresult **answer)
{
    query q = unit_query(t->unit, which);
    q.answer = answer;
    pg_int(&q, t->outbox);
    pg_int(&q, limit);
    pg_int(&q, (int64_t)t->token);
    pg_int(&q, t->lease_ms);
    return q;
}

static uint32_t groups_wanted(const taking *t)
{
    return t->limit * 2 < GROUPS_MAX ? t->limit * 2 : GROUPS_MAX;
}

static void ask_free(taking *t, uint32_t limit, PGresult **answer)
{
    query q = take_query(t, ST_OUTBOX_FREE, limit, answer);
    pg_int(&q, t->turn.floor_ms);
    pg_send(&q);
}

static void ask_groups(taking *t, PGresult **answer)
{
    query q = unit_query(t->unit, ST_OUTBOX_GROUPS);
    q.answer = answer;
    pg_int(&q, t->outbox);
    pg_text(&q, t->turn.group);
    pg_int(&q, groups_wanted(t));
    pg_send(&q);
}

static semel_status note_groups(taking *t, const PGresult *answer, semel_error *err)
{
    int rows = PQntuples(answer);
    t->at_end = (uint32_t)rows < groups_wanted(t);
    t->turn.has_groups = rows > 0;
    for (int row = 0; row < rows; row++) {
        semel_bytes name = answer_bytes(answer, row, 0);
        const char *group = arena_copy(&t->unit->on->scratch, name.data, name.len);
        if (!group)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
        if (answer_int(answer, row, 1) && t->group_count < GROUPS_MAX)
            t->groups[t->group_count++] = group;
        if (row == rows - 1 && name.len <= SEMEL_TEXT_MAX)
            memcpy(t->turn.group, group, name.len + 1);
    }
    return SEMEL_OK;
}

/* Past the last group the round goes on with the first one. */
static semel_status begin_round(taking *t, semel_error *err)
{
    PGresult *groups = NULL;
    t->turn.group[0] = 0;
    if (t->group_count)
        return SEMEL_OK; /* next time: a group must not come twice in one call */
    ask_groups(t, &groups);
    semel_status status = connection_wait(t->unit->on, 0, NULL, "looking for groups", err);
    if (!status)
        status = note_groups(t, groups, err);
    PQclear(groups);
    return status;
}

static semel_status take_of_groups(taking *t, semel_error *err)
{
    PGresult *answer = NULL;
    size_t size = 0;
    uint32_t share = t->group_count > 1 ? t->limit / 4 + 1 : t->limit;
    for (size_t i = 0; i < t->group_count; i++)
        size += strlen(t->groups[i]);
    array names = array_start(&t->unit->on->scratch, ARRAY_TEXT, t->group_count, size);
    for (size_t i = 0; i < t->group_count; i++)
        array_add(&names, t->groups[i], strlen(t->groups[i]));
    if (names.failed)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    query q = take_query(t, ST_OUTBOX_OF_GROUPS, t->limit - t->count, &answer);
    pg_array(&q, &names);
    pg_int(&q, share);
    pg_send(&q);
    semel_status status = connection_wait(t->unit->on, 0, NULL, "taking groups of messages", err);
    if (!status)
        status = hand_out_all(t, answer, err);
    PQclear(answer);
    return status;
}

/* They are taken in the order of time, so what is left is due from here on, or comes late. */
static void raise_floor(taking *t, const PGresult *answer)
{
    enum { COLUMN_WAKE = 13 };
    for (int row = 0; row < PQntuples(answer); row++) {
        int64_t wake = answer_int(answer, row, COLUMN_WAKE) - FLOOR_MARGIN_MS;
        if (wake > t->turn.floor_ms)
            t->turn.floor_ms = wake;
    }
}

static semel_status take_free(taking *t, semel_error *err)
{
    PGresult *answer = NULL;
    ask_free(t, t->limit - t->count, &answer);
    semel_status status = connection_wait(t->unit->on, 0, NULL, "taking outgoing messages", err);
    if (!status) {
        raise_floor(t, answer);
        status = hand_out_all(t, answer, err);
    }
    PQclear(answer);
    return status;
}

/* Half of it for rows without a group, at first (all of it, where no groups were seen), and in the same round trip
 * the groups whose turn it is. */
static semel_status take_first(taking *t, uint32_t half, semel_error *err)
{
    PGresult *groups = NULL, *free_rows = NULL;
    ask_groups(t, &groups);
    ask_free(t, half, &free_rows);
    semel_status status = connection_wait(t->unit->on, 0, NULL, "taking outgoing messages", err);
    if (!status) {
        raise_floor(t, free_rows);
        status = note_groups(t, groups, err);
    }
    if (!status)
        status = hand_out_all(t, free_rows, err);
    PQclear(groups);
    PQclear(free_rows);
    return status;
}

/* Nothing was found where something was to be expected: 1 if there is more to look at. */
static int look_at_all(taking *t)
{
    int more = t->count == 0 && t->turn.floor_ms != NO_FLOOR;
    if (more)
        t->turn.floor_ms = NO_FLOOR;
    return more;
}

semel_status postgres_take(void *unit_state, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                           semel_item_sink *sink, void *context, semel_error *err)
{
    postgres_unit *unit = unit_state;
    taking t = {.unit = unit,
                .outbox = outbox,
                .token = pg_token_new(unit->store),
                .limit = limit,
                .lease_ms = lease_ms,
                .sink = sink,
                .context = context};
    read_turn(&t);
    int began_within = t.turn.group[0] != 0;
    uint32_t half = t.turn.has_groups ? (limit + (t.turn.calls & 1)) / 2 : limit;
    semel_status status = take_first(&t, half, err);
    int more_free = t.count == half;
    if (!status && t.at_end && began_within)
        status = begin_round(&t, err);
    if (!status && t.group_count && t.count < limit)
        status = take_of_groups(&t, err);
    if (!status && more_free && t.count < limit)
        status = take_free(&t, err);
    if (!status && look_at_all(&t))
        status = take_free(&t, err);
    if (!status)
        write_turn(&t);
    return status;
}
