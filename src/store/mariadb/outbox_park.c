/* Parking groups that wait, and when to visit them again: see outbox_lease.c.
 *
 * As a rule parking waits for no other relay. It locks the rows to be parked, and the group's row
 * in semel_group if there is one, and skips what is locked. If there was none it inserts it, which
 * waits only for a relay that inserts the same at the same moment, and all relays insert in the
 * order of names.
 *
 * A group by time was locked before its rows were read, and every relay that parks needs that lock:
 * what was read of its parked rows is what there is, so the time may be set, or the row removed. A
 * group by name was read before it was locked, and so the time may only become earlier; what is too
 * early costs a visit. A row in front of the one that was seen has come since: then the group is
 * not parked this time, since this relay has not seen whether that row waits. */
#include "store/mariadb/outbox_lease.h"

#include <string.h>

static const maria_bound patient = {PATIENT, 0};

static semel_bytes name_of(const maria_group_front *group)
{
    return (semel_bytes){group->name, group->len};
}

/* By time: what is not parked goes to the rest. By name: all of it. */
static int is_to_be_parked(const maria_group_front *group)
{
    return group->waits && (!group->by_time || group->unparked);
}

/* --- locking ---------------------------------------------------------------------------------- */

static semel_status note_locked(const maria_row *r, void *context, semel_error *err)
{
    maria_leasing *t = context;
    semel_bytes name = maria_column_bytes(r, 0);
    (void)err;
    for (uint32_t i = t->timed; i < t->group_count; i++)
        if (t->groups[i].known && t->groups[i].len == name.len &&
            memcmp(t->groups[i].name, name.data, name.len) == 0)
            t->groups[i].ours = 1;
    return SEMEL_OK;
}

/* Those that are known already. */
static void enqueue_group_locks(maria_leasing *t)
{
    uint32_t enqueued = 0;
    maria_query q = {0};
    for (uint32_t i = t->timed; i < t->group_count; i++) {
        if (!t->groups[i].waits || !t->groups[i].known)
            continue;
        if (!enqueued++) {
            q = maria_unit_enqueue(t->unit, ST_PARK_LOCK, patient);
            maria_int(&q, t->outbox);
        } else {
            maria_more(&q, "?");
        }
        maria_bytes(&q, name_of(&t->groups[i]));
    }
    if (!enqueued)
        return;
    maria_step *s = maria_end(&q);
    s->call = note_locked;
    s->context = t;
}

typedef int group_choice(const maria_group_front *group);

static int is_new(const maria_group_front *group)
{
    return !group->by_time && group->waits && !group->known;
}

static int is_found_by_name(const maria_group_front *group)
{
    return !group->by_time && group->waits && group->known && group->ours && group->first;
}

static int is_visited_again(const maria_group_front *group)
{
    return group->by_time && (group->parked || group->waits) && !group->passed_over;
}

/* When each of the chosen ones is due. Those that rows were leased from, or could not be, go to the
 * end. */
static void enqueue_due(maria_leasing *t, maria_statement how, group_choice *chosen)
{
    uint32_t enqueued = 0;
    maria_query q = {0};
    for (uint32_t i = 0; i < t->group_count; i++) {
        const maria_group_front *group = &t->groups[i];
        if (!chosen(group))
            continue;
        if (!enqueued++)
            q = maria_unit_enqueue(t->unit, how, patient);
        else
            maria_more(&q, maria_group_pattern);
        maria_int(&q, t->outbox);
        maria_bytes(&q, name_of(group));
        if (group->chosen || !group->visit_ms)
            maria_sql(&q, maria_now);
        else
            maria_int(&q, group->visit_ms);
    }
    if (enqueued)
        (void)maria_end(&q);
    t->wrote |= enqueued > 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

static semel_status note_parkable(const maria_row *r, void *context, semel_error *err)
{
    maria_leasing *t = context;
    uint32_t index = (uint32_t)maria_column_uint(r, 0);
    int64_t seq = maria_column_int(r, 1);
    (void)err;
    if (index >= t->group_count || t->parkable_count == PARKED_MAX)
        return SEMEL_OK;
    maria_group_front *group = &t->groups[index];
    if (!group->first)
        group->first = seq;
    t->parkable[t->parkable_count++] = (maria_candidate){seq, index};
    return SEMEL_OK;
}

static void enqueue_parkable(maria_leasing *t, uint32_t index, uint32_t some)
{
    maria_query q = maria_unit_enqueue(t->unit, ST_PARK_ROWS, patient);
    maria_uint(&q, index);
    maria_int(&q, t->outbox);
    maria_bytes(&q, name_of(&t->groups[index]));
    maria_uint(&q, some);
    maria_step *s = maria_end(&q);
    s->call = note_parkable;
    s->context = t;
}

/* Those of groups that are ours, unless something has come in front of what was seen. */
static void enqueue_park(maria_leasing *t)
{
    int64_t list[LIST_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->parkable_count; i++) {
        const maria_group_front *group = &t->groups[t->parkable[i].group];
        if (group->ours && group->first >= group->head)
            list[count++] = t->parkable[i].seq;
        if (!count || (count < LIST_MAX && i + 1 < t->parkable_count))
            continue;
        maria_query q = maria_unit_enqueue(t->unit, ST_PARK, patient);
        maria_ints(&q, list, count);
        (void)maria_end(&q);
        t->parked += count;
        count = 0;
        t->wrote = 1;
    }
}

/* --- a visit ---------------------------------------------------------------------------------- */

static void enqueue_leave(maria_leasing *t)
{
    uint32_t enqueued = 0;
    maria_query q = {0};
    for (uint32_t i = 0; t->looked && i < t->timed; i++) {
        if (t->groups[i].parked || t->groups[i].waits)
            continue;
        if (!enqueued++) {
            q = maria_unit_enqueue(t->unit, ST_GROUP_LEAVE, patient);
            maria_int(&q, t->outbox);
        } else {
            maria_more(&q, "?");
        }
        maria_bytes(&q, name_of(&t->groups[i]));
    }
    if (enqueued)
        (void)maria_end(&q);
    t->wrote |= enqueued > 0;
}

static uint32_t count_to_be_parked(const maria_leasing *t)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->group_count; i++)
        count += is_to_be_parked(&t->groups[i]) != 0;
    return count;
}

static semel_status park_rows(maria_leasing *t, uint32_t groups, semel_error *err)
{
    uint32_t some = (PARKED_MAX - t->parked) / groups + 1;
    some = some < PARKED_OF_GROUP ? some : PARKED_OF_GROUP;
    t->parkable_count = 0;
    if (!t->parkable)
        t->parkable = arena_alloc(&t->unit->on->scratch, PARKED_MAX * sizeof *t->parkable);
    if (!t->parkable)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory parking messages");
    enqueue_group_locks(t);
    enqueue_due(t, ST_GROUP_EARLIER, is_new);
    for (uint32_t i = 0; i < t->group_count; i++) {
        maria_group_front *group = &t->groups[i];
        group->first = 0;
        group->ours = group->by_time || !group->known;
        if (is_to_be_parked(group))
            enqueue_parkable(t, i, some);
    }
    semel_status status = maria_unit_flush(t->unit, NULL, "parking messages", err);
    if (!status)
        enqueue_park(t);
    return status;
}

semel_status maria_park_groups(maria_leasing *t, semel_error *err)
{
    uint32_t groups = t->parked < PARKED_MAX ? count_to_be_parked(t) : 0;
    semel_status status = groups ? park_rows(t, groups, err) : SEMEL_OK;
    if (status)
        return status;
    if (groups)
        enqueue_due(t, ST_GROUP_EARLIER, is_found_by_name);
    enqueue_due(t, ST_GROUP_SET, is_visited_again);
    enqueue_leave(t);
    return SEMEL_OK;
}
