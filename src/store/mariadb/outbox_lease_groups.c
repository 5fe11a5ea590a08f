/* Looking at groups: which there are, by time and by name, and what stands at their front. See
 * outbox_lease.c. */
#include "store/mariadb/outbox_lease.h"

#include <string.h>

static const maria_bound patient = {PATIENT, 0};

/* Those by time have a part of the room; what they leave is for those by name. */
static void add_candidate(maria_leasing *t, int64_t seq, uint32_t index)
{
    maria_group_front *group = &t->groups[index];
    uint32_t room = t->limit - t->count;
    int full = t->candidate_count == (group->by_time ? t->quota : room);
    t->full |= full && !group->by_time;
    group->passed_over = full && !group->chosen;
    if (full)
        return;
    group->chosen++;
    t->candidates[t->candidate_count++] = (maria_candidate){seq, index};
    if (!group->by_time)
        t->last = index + 1;
}

static int compare_names(semel_bytes a, semel_bytes b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int is_found_by_time(const maria_leasing *t, semel_bytes name)
{
    for (uint32_t i = 0; i < t->timed; i++)
        if (compare_names(name, (semel_bytes){t->groups[i].name, t->groups[i].len}) == 0)
            return 1;
    return 0;
}

/* NULL if memory is out. */
static maria_group_front *add_group(maria_leasing *t, semel_bytes name, semel_error *err)
{
    const char *copy = arena_copy(&t->unit->on->scratch, name.data, name.len);
    maria_group_front *group = copy ? &t->groups[t->group_count++] : NULL;
    if (group)
        *group = (maria_group_front){.name = copy, .len = name.len};
    else
        (void)semel_fail(err, SEMEL_ENOMEM, "out of memory taking messages");
    return group;
}

static semel_status note_timed(const maria_row *r, void *context, semel_error *err)
{
    maria_leasing *t = context;
    semel_bytes name = maria_column_bytes(r, 0);
    if (t->group_count == TIMED_MAX || !name.len)
        return SEMEL_OK;
    maria_group_front *group = add_group(t, name, err);
    if (!group)
        return SEMEL_ENOMEM;
    group->by_time = group->open = 1;
    t->parks = 1;
    t->timed++;
    return SEMEL_OK;
}

static semel_status note_head(const maria_row *r, void *context, semel_error *err)
{
    maria_leasing *t = context;
    semel_bytes name = maria_column_bytes(r, 0);
    if (t->group_count == TIMED_MAX + GROUPS_MAX || !name.len || name.len > SEMEL_TEXT_MAX)
        return SEMEL_OK;
    t->past |= t->until[0] && compare_names(name, semel_str(t->until)) > 0;
    if (t->past)
        return SEMEL_OK;
    maria_group_front *group = add_group(t, name, err);
    if (!group)
        return SEMEL_ENOMEM;
    int twice = is_found_by_time(t, name), leased = maria_column_int(r, 3) != 0;
    group->head = maria_column_int(r, 1);
    group->open = maria_column_int(r, 2) && !twice;
    group->waits = !maria_column_int(r, 2) && !leased && !twice;
    group->visit_ms = maria_column_int(r, 4);
    group->known = maria_column_int(r, 5) != 0;
    t->parks |= maria_column_int(r, 6) != 0;
    return SEMEL_OK;
}

uint32_t maria_groups_at_first(const maria_leasing *t)
{
    uint32_t wanted = t->limit * 2 > GROUPS_MIN ? t->limit * 2 : GROUPS_MIN;
    return wanted < GROUPS_MAX ? wanted : GROUPS_MAX;
}

/* They come first in the list. */
void maria_enqueue_timed_groups(maria_leasing *t)
{
    maria_query q = maria_unit_enqueue(t->unit, ST_LEASE_TIMED, patient);
    t->group_count = t->timed = 0;
    maria_int(&q, t->outbox);
    maria_uint(&q, t->limit < TIMED_MAX ? t->limit : TIMED_MAX);
    maria_step *s = maria_end(&q);
    s->call = note_timed;
    s->context = t;
}

void maria_enqueue_named_groups(maria_leasing *t, const char *from, uint32_t groups)
{
    t->groups_asked = groups;
    maria_query q = maria_unit_enqueue(t->unit, ST_LEASE_HEADS, patient);
    maria_int(&q, t->outbox);
    maria_int(&q, t->outbox);
    maria_bytes(&q, semel_str(from));
    maria_uint(&q, t->groups_asked);
    maria_int(&q, t->outbox);
    maria_int(&q, t->outbox);
    maria_int(&q, t->outbox);
    maria_step *s = maria_end(&q);
    s->call = note_head;
    s->context = t;
}

/* The first row of a group by time; one by name has been seen. */
static void note_front(maria_group_front *group, const maria_row *r)
{
    int due = maria_column_int(r, 2) != 0, leased = maria_column_int(r, 3) != 0;
    *(maria_column_int(r, 4) ? &group->parked : &group->unparked) = 1;
    if (group->head)
        return;
    group->head = maria_column_int(r, 1);
    group->waits = !due && !leased;
    group->visit_ms = due ? 0 : maria_column_int(r, 5);
}

/* More of the groups that are open, a fair share each: column 0 is the group's index. Of parked
 * rows and of unparked rows t->share each have come; in their common order only the first t->share
 * are sure to be without a gap, and the others are not looked at. Nor is anything looked at if the
 * parked rows may be missing. */
static semel_status note_row(const maria_row *r, void *context, semel_error *err)
{
    maria_leasing *t = context;
    uint32_t index = (uint32_t)maria_column_uint(r, 0);
    (void)err;
    t->again |= !t->with_parked && maria_column_int(r, 6);
    if (t->again || index >= t->group_count)
        return SEMEL_OK;
    maria_group_front *group = &t->groups[index];
    if (group->by_time)
        note_front(group, r);
    group->open = group->open && group->seen++ < t->share && maria_column_int(r, 2);
    if (group->open)
        add_candidate(t, maria_column_int(r, 1), index);
    return SEMEL_OK;
}

static uint32_t count_open(const maria_leasing *t, int by_time)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < t->group_count; i++)
        open += t->groups[i].open && t->groups[i].by_time == by_time;
    return open;
}

static void enqueue_rows_of(maria_leasing *t, maria_query *q, uint32_t *enqueued, uint32_t index,
                            int parked)
{
    const maria_group_front *group = &t->groups[index];
    if (!(*enqueued)++)
        *q = maria_unit_enqueue(t->unit, ST_LEASE_ROWS, patient);
    else
        maria_chain(q, " UNION ALL ", t->unit->store->texts[ST_LEASE_ROWS]);
    maria_uint(q, index);
    maria_uint(q, t->lease_ms);
    maria_int(q, t->outbox);
    maria_int(q, t->outbox);
    maria_int(q, parked);
    maria_bytes(q, (semel_bytes){group->name, group->len});
    maria_uint(q, t->share);
}

/* Of groups by time; and of those by name, if the heads alone are not enough. */
static semel_status look_at_rows(maria_leasing *t, int by_name, semel_error *err)
{
    uint32_t enqueued = 0;
    maria_query q = {0};
    t->again = 0;
    for (uint32_t i = 0; i < t->group_count; i++) {
        if (!t->groups[i].open || (!t->groups[i].by_time && !by_name))
            continue;
        enqueue_rows_of(t, &q, &enqueued, i, 0);
        if (t->with_parked)
            enqueue_rows_of(t, &q, &enqueued, i, 1);
    }
    if (!enqueued)
        return SEMEL_OK;
    maria_tail(&q, " ORDER BY 1, 2");
    maria_step *s = maria_end(&q);
    s->call = note_row;
    s->context = t;
    return maria_unit_flush(t->unit, NULL, "looking at groups of messages", err);
}

semel_status maria_choose_rows(maria_leasing *t, semel_error *err)
{
    uint32_t timed = count_open(t, 1), named = count_open(t, 0), room = t->limit - t->count;
    int by_name = named + timed < room;
    t->candidate_count = t->last = 0;
    t->full = 0;
    t->with_parked = t->parks;
    t->quota = named ? (room + (t->cursor.calls >> 1 & 1)) / 2 : room;
    t->looked = room > 0;
    if (!room || !(timed + named))
        return SEMEL_OK;
    uint32_t among = by_name ? named + timed : timed;
    t->share = room / (among ? among : 1) + 1;
    semel_status status = look_at_rows(t, by_name, err);
    if (!status && t->again) {
        t->with_parked = 1;
        status = look_at_rows(t, by_name, err);
    }
    for (uint32_t i = t->timed; !status && !by_name && i < t->group_count; i++)
        if (t->groups[i].open)
            add_candidate(t, t->groups[i].head, i);
    return status;
}
