/* Messages that an operator makes due now, or removes.
 *
 * A message that waits, and one that others wait for, may be parked with its group, and the table
 * group then says when the group is visited (outbox_lease.c). So what waited is due at once with
 * its group, whether the group is known by now or not. A relay that has found the group by time has
 * locked it there, and this unit waits for what it notes. A relay that has found the group by name
 * may just add it, by what it has seen before: but it only makes the time earlier, and finds the
 * one that is noted here. A message that was due already has kept no other one waiting.
 *
 * The rows are locked before anything is changed, and groups come last, in the order of their
 * names. All of it is one transaction: a process that dies leaves what was before. */
#include "store/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

typedef struct changing {
    mariadb_unit *unit;
    int64_t outbox;
    int64_t *seqs; /* of the rows that are to be changed */
    size_t count;
    size_t found;        /* rows that no live lease holds */
    semel_bytes *groups; /* of those that wait */
    size_t group_count;
    int all; /* also rows that do not wait are changed */
} changing;

static semel_status note_group(changing *c, semel_bytes group, semel_error *err)
{
    void *copy = arena_copy(&c->unit->on->scratch, group.data, group.len);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for groups of messages");
    c->groups[c->group_count++] = (semel_bytes){copy, group.len};
    return SEMEL_OK;
}

static semel_status note_row(const maria_row *r, void *context, semel_error *err)
{
    changing *c = context;
    int waits = maria_column_int(r, 1) != 0;
    semel_bytes group = maria_column_bytes(r, 2);
    c->found++;
    if (waits || c->all)
        c->seqs[c->count++] = maria_column_int(r, 0);
    return waits && group.data ? note_group(c, group, err) : SEMEL_OK;
}

static void enqueue_list(changing *c, maria_statement which, const int64_t seqs[], size_t count)
{
    maria_query q = maria_unit_enqueue(c->unit, which, maria_patience(c->unit->store));
    maria_int(&q, c->outbox);
    maria_ints(&q, seqs, count);
    maria_step *s = maria_end(&q);
    if (which != ST_UNLEASED)
        return;
    s->call = note_row;
    s->context = c;
}

static void enqueue_lists(changing *c, maria_statement which, const int64_t seqs[], size_t count)
{
    for (size_t at = 0; at < count; at += LIST_MAX)
        enqueue_list(c, which, seqs + at, count - at < LIST_MAX ? count - at : LIST_MAX);
}

static int compare_groups(const void *left, const void *right)
{
    const semel_bytes *a = left, *b = right;
    int order = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Each once. */
static void sort_groups(changing *c)
{
    size_t kept = 0;
    if (c->group_count)
        qsort(c->groups, c->group_count, sizeof *c->groups, compare_groups);
    for (size_t i = 0; i < c->group_count; i++)
        if (!kept || compare_groups(&c->groups[kept - 1], &c->groups[i]) != 0)
            c->groups[kept++] = c->groups[i];
    c->group_count = kept;
}

static semel_status make_groups_due(changing *c, semel_error *err)
{
    mariadb_unit *unit = c->unit;
    semel_status status = SEMEL_OK;
    sort_groups(c);
    for (size_t at = 0, some; !status && at < c->group_count; at += some) {
        some = c->group_count - at < LIST_MAX ? c->group_count - at : LIST_MAX;
        maria_query q = maria_unit_enqueue(unit, ST_GROUP_EARLIER, maria_patience(unit->store));
        for (size_t i = at; i < at + some; i++) {
            if (i > at)
                maria_more(&q, maria_group_pattern);
            maria_int(&q, c->outbox);
            maria_bytes(&q, c->groups[i]);
            maria_sql(&q, maria_now);
        }
        (void)maria_end(&q);
        if (unit->on->out.text.len > unit->on->text_max / 2) /* the server takes no more at once */
            status = maria_unit_flush(unit, NULL, "making groups of messages due", err);
    }
    return status;
}

static int compare_seqs(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* In their order, whichever way they were given. */
static semel_status lock_rows(changing *c, const int64_t seqs[], size_t count, semel_error *err)
{
    mem_arena *arena = &c->unit->on->scratch;
    int64_t *sorted = arena_copy(arena, seqs, count * sizeof *seqs);
    c->seqs = arena_alloc(arena, (count + 1) * sizeof *c->seqs);
    c->groups = arena_alloc(arena, (count + 1) * sizeof *c->groups);
    if (!sorted || !c->seqs || !c->groups)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu messages", count);
    qsort(sorted, count, sizeof *sorted, compare_seqs);
    enqueue_lists(c, ST_UNLEASED, sorted, count);
    return maria_unit_flush(c->unit, NULL, "looking for messages that wait", err);
}

static semel_status change_rows(changing *c, maria_statement which, const int64_t seqs[],
                                size_t count, size_t *changed, semel_error *err)
{
    semel_status status = count ? lock_rows(c, seqs, count, err) : SEMEL_OK;
    if (status)
        return status;
    c->unit->wrote |= c->count > 0;
    enqueue_lists(c, which, c->seqs, c->count);
    status = make_groups_due(c, err);
    if (!status && c->count)
        status = maria_unit_flush(c->unit, NULL, "changing messages that wait", err);
    if (!status)
        *changed = c->found;
    return status;
}

semel_status mariadb_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                          size_t *changed, semel_error *err)
{
    changing c = {.unit = unit, .outbox = outbox};
    return change_rows(&c, ST_WAKE, seqs, count, changed, err);
}

semel_status mariadb_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                            size_t *changed, semel_error *err)
{
    changing c = {.unit = unit, .outbox = outbox, .all = 1};
    return change_rows(&c, ST_DROP, seqs, count, changed, err);
}
