#include "support/keyed/outbox_invariants.h"

#include "store/keyed/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All records of o/, r/, w/ and g/, sorted by the database: so by space, and by key in it. */
typedef struct reading {
    mem_arena arena;
    keyed_rows rows;
    char *text;
    size_t size;
} reading;

static semel_status keep(const semel_keyed_record *record, void *context, semel_error *err)
{
    reading *r = context;
    char kind = record->space.len > 1 ? *(const char *)record->space.data : 0;
    return kind && strchr("orwg", kind) ? keyed_keep_row(record, &r->rows, err) : SEMEL_OK;
}

static char kind_of(const keyed_row *row)
{
    return *(const char *)row->record.space.data;
}

static int64_t scope_of(const keyed_row *row)
{
    return (int64_t)strtoull((const char *)row->record.space.data + 2, NULL, 16);
}

static int64_t last_number(const keyed_row *row)
{
    semel_bytes key = row->record.key;
    return keyed_number_read((const unsigned char *)key.data + key.len - KEYED_NUMBER_LEN);
}

static int fails(reading *r, const char *what, const keyed_row *row)
{
    (void)snprintf(r->text, r->size, "%s: %c/ number %lld", what, kind_of(row),
                   (long long)(kind_of(row) == 'g' ? 0 : last_number(row)));
    return 0;
}

static const keyed_row *find(const reading *r, char kind, int64_t scope, outbox_key key)
{
    keyed_space space = keyed_space_of(kind, scope);
    return keyed_rows_find(&r->rows, keyed_space_bytes(&space), outbox_key_bytes(&key));
}

static const keyed_row *find_group(const reading *r, int64_t scope, semel_bytes name)
{
    keyed_space space = keyed_space_of('g', scope);
    return keyed_rows_find(&r->rows, keyed_space_bytes(&space), name);
}

static semel_bytes group_of_place(const keyed_row *row)
{
    semel_bytes key = row->record.key;
    return (semel_bytes){(const unsigned char *)key.data + OUTBOX_GROUP_LEN,
                         key.len - OUTBOX_GROUP_LEN - KEYED_NUMBER_LEN};
}

/* The first place of the group of this message; places are in order. */
static const keyed_row *first_place(const reading *r, int64_t scope, semel_bytes group)
{
    for (const keyed_row *row = r->rows.first; row; row = row->next)
        if (kind_of(row) == 'w' && scope_of(row) == scope && keyed_same(group_of_place(row), group))
            return row;
    return NULL;
}

static int check_message(reading *r, const keyed_row *row)
{
    keyed_item item;
    int64_t scope = scope_of(row);
    if (keyed_item_read(&item, &row->record, scope, 0, &r->arena, NULL))
        return fails(r, "a damaged message", row);
    semel_bytes group = outbox_group_of(&item.message);
    const keyed_row *ready =
        find(r, 'r', scope, outbox_key_timed(keyed_item_wake_ms(&item), item.number));
    if (!group.len)
        return ready ? 1 : fails(r, "I3: no entry of r/ at the time of the record", row);
    if (!find(r, 'w', scope, outbox_key_place(group, item.number)))
        return fails(r, "I1: no place in the group", row);
    const keyed_row *record = find_group(r, scope, group);
    outbox_group known;
    if (!record || outbox_group_read(&known, &record->record, NULL))
        return fails(r, "I2: no record of the group", row);
    if (known.last < item.number || known.first > item.number)
        return fails(r, "I2: the group's numbers do not include it", row);
    int is_first = last_number(first_place(r, scope, group)) == item.number;
    if (is_first && !ready)
        return fails(r, "I3: the first of a group has no entry of r/", row);
    return is_first || !ready ? 1 : fails(r, "I3: an entry of r/ for one that is not first", row);
}

/* Together with the entries that messages need, their number shows that there are no others. */
static int check_entry(reading *r, const keyed_row *row)
{
    if (!find(r, 'o', scope_of(row), outbox_key_number(last_number(row))))
        return fails(r, "an entry without a message", row);
    return (int64_t)row->record.guard == last_number(row) ? 1 : fails(r, "another guard", row);
}

static int check_group(reading *r, const keyed_row *row)
{
    return first_place(r, scope_of(row), row->record.key)
               ? 1
               : fails(r, "I2: the record of a group without messages", row);
}

static void count(outbox_counts *counts, char kind)
{
    counts->messages += kind == 'o';
    counts->ready += kind == 'r';
    counts->places += kind == 'w';
    counts->groups += kind == 'g';
}

/* Each message without a group and each group have one entry of r/. */
static int check_counts(reading *r, const outbox_counts *counts)
{
    if (counts->ready == counts->messages - counts->places + counts->groups)
        return 1;
    (void)snprintf(r->text, r->size, "I3: %zu entries of r/ for %zu messages, %zu in %zu groups",
                   counts->ready, counts->messages, counts->places, counts->groups);
    return 0;
}

int outbox_invariants_hold(keyed_memory *memory, outbox_counts *counts, char *text, size_t size)
{
    reading r = {.text = text, .size = size};
    outbox_counts local = {0};
    int hold = 1;
    r.rows.arena = &r.arena;
    keyed_memory_each(memory, keep, &r);
    for (const keyed_row *row = r.rows.first; row && hold; row = row->next) {
        char kind = kind_of(row);
        count(&local, kind);
        hold = kind == 'o'   ? check_message(&r, row)
               : kind == 'g' ? check_group(&r, row)
                             : check_entry(&r, row);
    }
    hold = hold && check_counts(&r, &local);
    arena_free(&r.arena);
    if (counts)
        *counts = local;
    return hold;
}
