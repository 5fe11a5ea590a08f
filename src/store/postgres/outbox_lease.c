/* Leasing outgoing messages: rows without a group by the time at which they are due, rows with one
 * group by group.
 *
 * Rows without a group are locked and leased by one statement that skips what others have locked. A
 * group is leased by one relay at a time: the relay that gets the group's advisory lock reads its
 * rows by a *new* statement, which sees every lease that was committed before the lock was free; so
 * no relay overtakes a lease that it cannot see yet. The locks end with the transaction, which is
 * short, and which the server ends by itself if its client has been stopped. A row of it that is
 * locked all the same (a relay is settling it, late) holds up the rest of the group and is not
 * waited for. A row is chosen by what it is and not by a number that was passed: one that commits
 * late is found late, and never skipped.
 *
 * A group is come to in one of two ways:
 *
 * By name: those that have rows which are not parked, in turn, from where the last call stopped.
 *
 * By time: those in semel_group that are due, the longest due first. A group whose first row waits
 * (for a backoff, for a delay) is parked: its rows are, some at a visit, and semel_group says when
 * that row wakes. From then on the walk by name does not see it, but for rows that are new in it,
 * each of which it parks in its turn. So a call costs what is ready, what is leased and what is
 * new, however many groups wait and however much waits in them.
 *
 * Where a group has parked rows there is a row in semel_group, due no later than the first of them
 * wakes. The relay with the group's lock sees to that, by a statement that begins after it got the
 * lock: it parks rows and notes the time, moves the time on, or removes the row when nothing parked
 * is left. All of it is one transaction with the leases: a relay that dies leaves what was before,
 * and so does a server that forgets the last moment. Settling has no such lock. It parks a row that
 * failed only if it can add the group to semel_group itself, which another one's row prevents
 * without a wait; otherwise the row is parked already, or stays where the walk finds it. A row that
 * commits late with a smaller number is not parked, so the walk finds it, and it is the first of
 * its group whatever is parked behind it.
 *
 * A group by time that is leased is visited again: at once if the lease is ours, else when the
 * lease is twice as old, which is soon after it began and seldom later. A group that rows were
 * leased from goes to the end of those that are due; one that there was no room for keeps its
 * place.
 *
 * Groups by time and by name alternate within a call, and share it with the rows that have no
 * group. Rows that are gone but not yet vacuumed lie at the beginning of an index; after a long
 * transaction somewhere in the database there may be very many. So the search by time begins where
 * the last one found something, and at the very beginning only now and then, for those that come
 * late. */
#include "store/postgres/postgres.h"

#include "base/wait.h"

#include <stdlib.h>
#include <string.h>

#define NO_FLOOR INT64_MIN

enum {
    GROUPS_MAX = 256, /* locks that a call may have: the server has room for some thousand */
    FULL_LOOK_EVERY_MS = 500,
    FLOOR_MARGIN_MS = 1000,
    PARKED_MAX = 1000,    /* rows that are parked in a call ... */
    PARKED_OF_GROUP = 100 /* ... and of a group at a visit */
};

typedef struct group_list {
    const char *names[GROUPS_MAX];
    size_t count;
} group_list;

/* The groups are ours for this transaction. */
typedef struct outbox_leasing {
    postgres_unit *unit;
    int64_t outbox;
    uint64_t token;
    uint32_t limit;
    uint32_t lease_ms;
    uint32_t count;
    semel_item_sink *sink;
    void *context;
    sql_cursor cursor;  /* a copy, put back at the end */
    const char *began;  /* the group at which it began */
    group_list timed;   /* found by time */
    group_list named;   /* found by name, in their order: the first row is due ... */
    group_list waiting; /* ... or waits */
    const char *last;   /* of the named ones that something was leased from */
    int at_end;         /* of the groups' names */
    int parks;
} outbox_leasing;

static void load_cursor(outbox_leasing *t)
{
    postgres_store *store = t->unit->store;
    sql_cursor_load(&t->cursor, &store->cursors, &store->lock, t->outbox);
    int64_t now = wait_clock_ms();
    if (t->cursor.looked_at_ms && now - t->cursor.looked_at_ms < FULL_LOOK_EVERY_MS)
        return;
    t->cursor.floor_ms = t->cursor.group_floor_ms = NO_FLOOR;
    t->cursor.looked_at_ms = now;
}

/* --- delivering rows -------------------------------------------------------------------------- */

enum { COLUMN_GROUP = 3 }; /* the first one of the message's */

typedef struct row_place {
    int64_t seq;
    int row;
} row_place;

static int compare_rows(const void *left, const void *right)
{
    const row_place *a = left, *b = right;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* A row that cannot be read is passed over: it must not keep the others from leaving. It stays, and
 * is counted as unsent, until an operator repairs it. */
static semel_status deliver_row(outbox_leasing *t, const PGresult *answer, int row,
                                semel_error *err)
{
    semel_message message;
    semel_item item = {.seq = pg_answer_int(answer, row, 0),
                       .token = t->token,
                       .attempts = (uint32_t)pg_answer_int(answer, row, 1),
                       .refusals = (uint32_t)pg_answer_int(answer, row, 2),
                       .message = &message};
    semel_status status =
        pg_message_read(&message, &t->unit->on->scratch, answer, row, COLUMN_GROUP, err);
    if (status == SEMEL_ESTORE)
        return SEMEL_OK;
    if (!status)
        status = t->sink(&item, t->context, err);
    t->count += !status;
    return status;
}

/* UPDATE ... RETURNING has no order of its own. */
static semel_status deliver_rows(outbox_leasing *t, const PGresult *answer, semel_error *err)
{
    int rows = answer ? PQntuples(answer) : 0;
    row_place *places =
        rows ? arena_alloc(&t->unit->on->scratch, (size_t)rows * sizeof *places) : NULL;
    semel_status status = SEMEL_OK;
    if (rows && !places)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    for (int row = 0; row < rows; row++)
        places[row] = (row_place){pg_answer_int(answer, row, 0), row};
    if (rows)
        qsort(places, (size_t)rows, sizeof *places, compare_rows);
    for (int i = 0; !status && i < rows; i++)
        status = deliver_row(t, answer, places[i].row, err);
    return status;
}

/* --- leasing ---------------------------------------------------------------------------------- */

static pg_query lease_query(outbox_leasing *t, pg_statement which, uint32_t limit,
                            PGresult **answer)
{
    pg_query q = pg_unit_query(t->unit, which);
    q.answer = answer;
    pg_int(&q, t->outbox);
    pg_int(&q, limit);
    pg_int(&q, (int64_t)t->token);
    pg_int(&q, t->lease_ms);
    return q;
}

static uint32_t groups_wanted(const outbox_leasing *t)
{
    return t->limit * 2 < GROUPS_MAX ? t->limit * 2 : GROUPS_MAX;
}

static void enqueue_free(outbox_leasing *t, uint32_t limit, PGresult **answer)
{
    pg_query q = lease_query(t, ST_OUTBOX_FREE, limit, answer);
    pg_int(&q, t->cursor.floor_ms);
    pg_enqueue(&q);
}

/* `after` may be NULL: then only those by time. */
static void enqueue_groups(outbox_leasing *t, uint32_t by_time, const char *after,
                           PGresult **answer)
{
    pg_query q = pg_unit_query(t->unit, ST_OUTBOX_GROUPS);
    q.answer = answer;
    pg_int(&q, t->outbox);
    pg_text(&q, after);
    pg_int(&q, groups_wanted(t));
    pg_int(&q, by_time);
    pg_int(&q, t->cursor.group_floor_ms);
    pg_enqueue(&q);
}

static void add_group(group_list *to, const char *name)
{
    if (to->count < GROUPS_MAX)
        to->names[to->count++] = name;
}

/* The first one is the longest due: what is left is due from there on, or comes late. */
static void note_timed(outbox_leasing *t, const char *group, int64_t due_ms)
{
    if (!t->timed.count)
        t->cursor.group_floor_ms = due_ms - FLOOR_MARGIN_MS;
    add_group(&t->timed, group);
}

static semel_status note_groups(outbox_leasing *t, const PGresult *answer, semel_error *err)
{
    int rows = PQntuples(answer);
    t->at_end = (uint32_t)rows < groups_wanted(t);
    t->cursor.has_groups |= rows > 0;
    for (int row = 0; row < rows; row++) {
        semel_bytes name = pg_answer_bytes(answer, row, 0);
        const char *group = arena_copy(&t->unit->on->scratch, name.data, name.len);
        int by_time = pg_answer_int(answer, row, 1) != 0, ours = pg_answer_int(answer, row, 2) != 0;
        if (!group)
            return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
        if (by_time)
            note_timed(t, group, pg_answer_int(answer, row, 4));
        else if (ours)
            add_group(pg_answer_int(answer, row, 3) ? &t->waiting : &t->named, group);
        if (!by_time && name.len <= SEMEL_TEXT_MAX)
            memcpy(t->cursor.group, group, name.len + 1);
    }
    return SEMEL_OK;
}

static semel_status look_for_groups(outbox_leasing *t, uint32_t by_time, const char *after,
                                    semel_error *err)
{
    PGresult *groups = NULL;
    enqueue_groups(t, by_time, after, &groups);
    semel_status status = pg_flush(t->unit->on, 0, NULL, "looking for groups", err);
    if (!status)
        status = note_groups(t, groups, err);
    PQclear(groups);
    return status;
}

/* Past the last group the round goes on with the first one. */
static semel_status begin_round(outbox_leasing *t, semel_error *err)
{
    t->cursor.group[0] = 0;
    if (t->timed.count + t->named.count + t->waiting.count)
        return SEMEL_OK; /* next time: a group must not come twice in one call */
    t->began = "";
    return look_for_groups(t, 0, "", err);
}

/* Alternately from one list and from the other. */
static void interleave_groups(const outbox_leasing *t, group_list *both)
{
    const group_list *first = t->cursor.calls >> 1 & 1 ? &t->timed : &t->named;
    const group_list *second = first == &t->timed ? &t->named : &t->timed;
    for (size_t i = 0; i < GROUPS_MAX; i++) {
        if (i < first->count)
            add_group(both, first->names[i]);
        if (i < second->count)
            add_group(both, second->names[i]);
    }
}

/* The server chooses as many rows as there is room for before it locks them. If all of them are
 * locked already, which happens beside a relay that was stopped while settling, nothing is leased;
 * then the next call begins with other groups. */
static group_list *order_groups(const outbox_leasing *t)
{
    mem_arena *arena = &t->unit->on->scratch;
    group_list *both = arena_alloc(arena, sizeof *both);
    group_list *ordered = arena_alloc(arena, sizeof *ordered);
    if (!both || !ordered)
        return NULL;
    both->count = ordered->count = 0;
    interleave_groups(t, both);
    for (size_t i = 0; i < both->count; i++)
        add_group(ordered, both->names[(t->cursor.passed_over + i) % both->count]);
    return ordered;
}

static uint32_t rows_of_group(const outbox_leasing *t, size_t groups)
{
    return groups > 1 ? t->limit / 4 + 1 : t->limit;
}

/* At least so many groups were chosen from, if there are as many. */
static void note_passed_over(outbox_leasing *t, size_t groups, const PGresult *answer)
{
    uint32_t each = rows_of_group(t, groups), room = t->limit - t->count;
    if (!PQntuples(answer))
        t->cursor.passed_over += (room + each - 1) / each;
}

static int bind_groups(pg_query *q, mem_arena *arena, const group_list *one,
                       const group_list *other)
{
    size_t size = 0, count = one->count + (other ? other->count : 0);
    for (size_t i = 0; i < count; i++)
        size += strlen(i < one->count ? one->names[i] : other->names[i - one->count]);
    pg_array names = pg_array_start(arena, ARRAY_TEXT, count, size);
    for (size_t i = 0; i < count; i++) {
        const char *name = i < one->count ? one->names[i] : other->names[i - one->count];
        pg_array_add(&names, name, strlen(name));
    }
    pg_array_bind(q, &names);
    return !names.failed;
}

static semel_status enqueue_of_groups(outbox_leasing *t, PGresult **answer, semel_error *err)
{
    const group_list *groups = order_groups(t);
    if (!groups)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    pg_query q = lease_query(t, ST_OUTBOX_OF_GROUPS, t->limit - t->count, answer);
    if (!bind_groups(&q, &t->unit->on->scratch, groups, NULL))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    pg_int(&q, rows_of_group(t, groups->count));
    pg_enqueue(&q);
    return SEMEL_OK;
}

/* Behind the leasing, because what we have leased counts as ours. Its answer comes with the next
 * one, or with the commit. */
static semel_status enqueue_park(outbox_leasing *t, semel_error *err)
{
    size_t groups = t->timed.count + t->waiting.count;
    size_t each = groups ? PARKED_MAX / groups + 1 : 0;
    if (!groups)
        return SEMEL_OK;
    pg_query q = pg_unit_query(t->unit, ST_OUTBOX_PARK);
    pg_int(&q, t->outbox);
    if (!bind_groups(&q, &t->unit->on->scratch, &t->timed, &t->waiting))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory parking groups");
    pg_int(&q, (int64_t)t->token);
    pg_int(&q, t->lease_ms);
    pg_int(&q, (int64_t)(each < PARKED_OF_GROUP ? each : PARKED_OF_GROUP));
    pg_enqueue(&q);
    t->parks = 1;
    return SEMEL_OK;
}

static int compare_to_name(const void *key, const void *name)
{
    return strcmp(key, *(const char *const *)name);
}

/* The names are in the order of their bytes, as the server's are. */
static void note_last(outbox_leasing *t, const char *group)
{
    const char *const *found =
        bsearch(group, t->named.names, t->named.count, sizeof *t->named.names, compare_to_name);
    if (found && (!t->last || strcmp(*found, t->last) > 0))
        t->last = *found;
}

static semel_status lease_of_groups(outbox_leasing *t, semel_error *err)
{
    PGresult *answer = NULL;
    int wanted = t->count < t->limit && t->timed.count + t->named.count;
    semel_status status = wanted ? enqueue_of_groups(t, &answer, err) : SEMEL_OK;
    if (!status)
        status = enqueue_park(t, err);
    if (!status && wanted)
        status = pg_flush(t->unit->on, 0, NULL, "taking groups of messages", err);
    if (!status && answer)
        note_passed_over(t, t->timed.count + t->named.count, answer);
    for (int row = 0; !status && answer && row < PQntuples(answer); row++)
        note_last(t, pg_answer_text(answer, row, COLUMN_GROUP));
    if (!status)
        status = deliver_rows(t, answer, err);
    PQclear(answer);
    return status;
}

/* If there was no room for all of them, the next call goes on behind the last one that there was
 * room for. */
static void advance_cursor(outbox_leasing *t)
{
    const char *last = t->last ? t->last : t->began;
    if (t->count == t->limit && t->named.count)
        memcpy(t->cursor.group, last, strlen(last) + 1);
}

/* They are leased in the order of time, so what is left is due from here on, or comes late. */
static void raise_floor(outbox_leasing *t, const PGresult *answer)
{
    enum { COLUMN_WAKE = 13 };
    for (int row = 0; row < PQntuples(answer); row++) {
        int64_t wake = pg_answer_int(answer, row, COLUMN_WAKE) - FLOOR_MARGIN_MS;
        if (wake > t->cursor.floor_ms)
            t->cursor.floor_ms = wake;
    }
}

static semel_status lease_free(outbox_leasing *t, semel_error *err)
{
    PGresult *answer = NULL;
    enqueue_free(t, t->limit - t->count, &answer);
    semel_status status = pg_flush(t->unit->on, 0, NULL, "taking outgoing messages", err);
    if (!status) {
        raise_floor(t, answer);
        status = deliver_rows(t, answer, err);
    }
    PQclear(answer);
    return status;
}

/* Half of it for rows without a group, at first (all of it, where no groups were seen), and in the
 * same round trip the groups that come next. */
static semel_status lease_first(outbox_leasing *t, uint32_t half, semel_error *err)
{
    PGresult *groups = NULL, *free_rows = NULL;
    t->cursor.has_groups = 0;
    enqueue_groups(t, groups_wanted(t) / 2, t->cursor.group, &groups);
    enqueue_free(t, half, &free_rows);
    semel_status status = pg_flush(t->unit->on, 0, NULL, "taking outgoing messages", err);
    if (!status) {
        raise_floor(t, free_rows);
        status = note_groups(t, groups, err);
    }
    if (!status)
        status = deliver_rows(t, free_rows, err);
    PQclear(groups);
    PQclear(free_rows);
    return status;
}

/* Nothing was found where something was to be expected: looks at all that there is. */
static semel_status search_without_floor(outbox_leasing *t, semel_error *err)
{
    int groups = t->cursor.group_floor_ms != NO_FLOOR && !t->timed.count;
    semel_status status = SEMEL_OK;
    if (t->cursor.floor_ms != NO_FLOOR) {
        t->cursor.floor_ms = NO_FLOOR;
        status = lease_free(t, err);
    }
    if (status || !groups || t->count == t->limit)
        return status;
    t->cursor.group_floor_ms = NO_FLOOR;
    t->named.count = t->waiting.count = 0; /* they have been seen to */
    status = look_for_groups(t, groups_wanted(t) / 2, NULL, err);
    return status ? status : lease_of_groups(t, err);
}

semel_status postgres_take(void *unit_state, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                           semel_item_sink *sink, void *context, semel_error *err)
{
    postgres_unit *unit = unit_state;
    outbox_leasing t = {.unit = unit,
                        .outbox = outbox,
                        .token = sql_token_new(unit->store->seam),
                        .limit = limit,
                        .lease_ms = lease_ms,
                        .sink = sink,
                        .context = context};
    load_cursor(&t);
    t.began = arena_copy(&unit->on->scratch, t.cursor.group, strlen(t.cursor.group));
    if (!t.began)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    uint32_t half = t.cursor.has_groups ? (limit + (t.cursor.calls & 1)) / 2 : limit;
    semel_status status = lease_first(&t, half, err);
    int more_free = t.count == half;
    if (!status && t.at_end && t.began[0])
        status = begin_round(&t, err);
    if (!status)
        status = lease_of_groups(&t, err);
    if (!status)
        advance_cursor(&t);
    if (!status && more_free && t.count < limit)
        status = lease_free(&t, err);
    if (!status && !t.count)
        status = search_without_floor(&t, err);
    if (status)
        return status;
    sql_cursor_store(&t.cursor, &unit->store->cursors, &unit->store->lock);
    unit->leased = t.count || t.parks ? 1 : -1;
    return SEMEL_OK;
}
