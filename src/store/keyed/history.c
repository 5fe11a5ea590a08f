/* The history of deliveries. Rows are many and small, and a database takes few records at a time:
 * so a record of h/ is a pack of rows, under the id of its first one. Its body has the rows, each
 * with its id; its value has what the bounds of the history need. The record of H/ has the last id
 * that was given; it is read and written when the unit commits, so ids have no gaps, and only
 * writers of history collide there.
 *
 * Trimming writes a pack anew without the rows that go, and removes it when none is left. */
#include "store/keyed/history_row.h"
#include "store/keyed/set.h"

#include <string.h>

enum { PACK_ROWS = 64, PACK_BYTES = 65536, PACK_ROOM = 512 };

enum { PACK_FIRST = 1, PACK_LAST, PACK_AT };

enum { PACKED_ROW = 1 };

/* --- rows that were put ----------------------------------------------------------------------- */

/* As it was put, before it has an id. */
typedef struct put_row {
    semel_bytes bytes;
    int64_t at_ms;
} put_row;

typedef struct put_rows {
    put_row *rows;
    size_t count;
} put_rows;

static int encode_put(put_row *out, keyed_unit *unit, const semel_history *row)
{
    uint64_t max = unit->store->driver->limits.record_max;
    out->at_ms = row->at_ms;
    if (!history_row_encode(&out->bytes, &unit->arena, row, row->kept))
        return 0;
    return !max || out->bytes.len + PACK_ROOM <= max || !row->kept ||
           history_row_encode(&out->bytes, &unit->arena, row, 0);
}

/* --- packs ------------------------------------------------------------------------------------ */

/* A row in a pack: the id, then the row. */
typedef struct packed_row {
    int64_t id;
    semel_bytes bytes;
} packed_row;

static int pack_row(fields_writer *to, mem_arena *arena, const packed_row *row)
{
    unsigned char *data = arena_alloc(arena, KEYED_NUMBER_LEN + row->bytes.len);
    if (!data)
        return 0;
    keyed_number_write(data, row->id);
    memcpy(data + KEYED_NUMBER_LEN, row->bytes.data, row->bytes.len);
    fields_bytes(to, PACKED_ROW, (semel_bytes){data, KEYED_NUMBER_LEN + row->bytes.len});
    return 1;
}

/* The rows of a pack; a pack that is damaged has fewer. NULL: out of memory. */
static packed_row *unpack(size_t *count, const semel_keyed_record *record, mem_arena *arena)
{
    fields_reader reader = {.rest = record->body};
    packed_row *rows = arena_alloc(arena, PACK_ROWS * sizeof *rows);
    *count = 0;
    while (rows && *count < PACK_ROWS && fields_next(&reader)) {
        const unsigned char *data = reader.bytes.data;
        if (reader.field == PACKED_ROW && reader.bytes.len >= KEYED_NUMBER_LEN)
            rows[(*count)++] =
                (packed_row){keyed_number_read(data),
                             {data + KEYED_NUMBER_LEN, reader.bytes.len - KEYED_NUMBER_LEN}};
    }
    return rows;
}

static int pack_value(semel_bytes *out, mem_arena *arena, int64_t first, int64_t last,
                      int64_t at_ms)
{
    fields_writer writer = {.arena = arena};
    fields_int(&writer, PACK_FIRST, first);
    fields_int(&writer, PACK_LAST, last);
    fields_int(&writer, PACK_AT, at_ms);
    return fields_end(out, &writer);
}

static void read_pack_value(const semel_keyed_record *record, int64_t *first, int64_t *last,
                            int64_t *at_ms)
{
    fields_reader reader = {.rest = record->value};
    *first = *last = *at_ms = 0;
    while (fields_next(&reader)) {
        int64_t number = fields_int_of(&reader);
        if (reader.field == PACK_FIRST)
            *first = number;
        if (reader.field == PACK_LAST)
            *last = number;
        if (reader.field == PACK_AT)
            *at_ms = number;
    }
}

/* --- put -------------------------------------------------------------------------------------- */

/* It is built at commit, so it is built again after a collision. */
static semel_status set_late(keyed_unit *unit, const keyed_row *found,
                             const semel_keyed_record *now, semel_error *err)
{
    semel_status status = keyed_set(unit, found ? &found->record : NULL, now, 0, err);
    keyed_change *change = status ? NULL : keyed_unit_change(unit, now->space, now->key);
    if (change)
        change->role = KEYED_LATE;
    return status || change ? status : keyed_out_of_memory(err);
}

static size_t rows_that_fit(const put_rows *put, size_t from)
{
    size_t count = 0, bytes = 0;
    while (from + count < put->count && count < PACK_ROWS) {
        bytes += put->rows[from + count].bytes.len;
        if (count && bytes > PACK_BYTES)
            break;
        count++;
    }
    return count;
}

static semel_status write_pack(keyed_unit *unit, const put_rows *put, size_t from, size_t count,
                               int64_t first_id, semel_error *err)
{
    keyed_space space = keyed_space_plain('h');
    unsigned char key[KEYED_NUMBER_LEN];
    fields_writer writer = {.arena = &unit->arena};
    semel_keyed_record now = {.space = keyed_space_bytes(&space), .key = {key, sizeof key}};
    keyed_number_write(key, first_id);
    for (size_t i = 0; i < count; i++) {
        packed_row row = {first_id + (int64_t)i, put->rows[from + i].bytes};
        if (!pack_row(&writer, &unit->arena, &row))
            return keyed_out_of_memory(err);
    }
    if (!fields_end(&now.body, &writer) ||
        !pack_value(&now.value, &unit->arena, first_id, first_id + (int64_t)count - 1,
                    put->rows[from].at_ms))
        return keyed_out_of_memory(err);
    return set_late(unit, NULL, &now, err);
}

static const semel_bytes last_key = {"last", 4};

static semel_status build_put(keyed_unit *unit, void *context, semel_error *err)
{
    const put_rows *put = context;
    keyed_space space = keyed_space_plain('H');
    semel_keyed_record now = {.space = keyed_space_bytes(&space), .key = last_key};
    keyed_row *found = NULL;
    int64_t first, last = 0, at_ms;
    semel_status status = keyed_unit_get(&found, unit, now.space, last_key, 0, err);
    if (!status && found)
        read_pack_value(&found->record, &first, &last, &at_ms);
    for (size_t from = 0, count; from < put->count && !status; from += count) {
        count = rows_that_fit(put, from);
        status = write_pack(unit, put, from, count, last + 1, err);
        last += (int64_t)count;
    }
    if (!status && !pack_value(&now.value, &unit->arena, 0, last, 0))
        status = keyed_out_of_memory(err);
    return status ? status : set_late(unit, found, &now, err);
}

static semel_status keyed_history_put(void *state, const semel_history rows[], size_t count,
                                      semel_error *err)
{
    keyed_unit *unit = state;
    put_rows *put = arena_alloc(&unit->arena, sizeof *put);
    if (!put)
        return keyed_out_of_memory(err);
    *put = (put_rows){arena_alloc(&unit->arena, (count + 1) * sizeof *put->rows), count};
    for (size_t i = 0; i < count; i++)
        if (!put->rows || !encode_put(&put->rows[i], unit, &rows[i]))
            return keyed_out_of_memory(err);
    return count ? keyed_unit_step(unit, build_put, put, err) : SEMEL_OK;
}

/* --- list ------------------------------------------------------------------------------------- */

typedef struct history_list {
    const semel_history_filter *filter;
    semel_history_visitor *visitor;
    void *context;
} history_list;

static int is_wanted(const semel_history *row, const semel_message *message,
                     const semel_history_filter *f)
{
    const char *type = message->type ? message->type : "";
    return row->id < f->before_id && (!f->kind || row->kind == f->kind) &&
           (!f->outcome || row->outcome == f->outcome) && row->at_ms >= f->since_ms &&
           (!f->until_ms || row->at_ms < f->until_ms) &&
           (!f->name || strcmp(row->name, f->name) == 0) &&
           (!f->key.len || keyed_same(row->key, f->key)) &&
           (!f->type || strcmp(type, f->type) == 0);
}

static semel_status visit_rows(const semel_keyed_record *record, const history_list *list,
                               uint32_t *left, mem_arena *arena, semel_error *err)
{
    size_t count;
    const packed_row *rows = unpack(&count, record, arena);
    semel_status status = rows ? SEMEL_OK : keyed_out_of_memory(err);
    while (!status && count-- > 0 && *left) {
        history_row found;
        if (!history_row_decode(&found, rows[count].id, rows[count].bytes, list->filter->contents,
                                arena))
            return keyed_out_of_memory(err);
        if (!is_wanted(&found.row, &found.message, list->filter))
            continue;
        --*left;
        status = list->visitor(&found.row, list->context, err);
    }
    return status;
}

static semel_status visit_pack(const semel_keyed_record *record, void *context, uint32_t *left,
                               semel_error *err)
{
    mem_arena arena = {NULL, NULL};
    semel_status status = visit_rows(record, context, left, &arena, err);
    arena_free(&arena);
    return status;
}

/* A pack whose first row is on the page before it may have others that are on this one. */
static semel_status keyed_history_list(void *state, const semel_history_filter *filter,
                                       semel_history_visitor *visitor, void *context,
                                       semel_error *err)
{
    keyed_store *store = state;
    keyed_space space = keyed_space_plain('h');
    unsigned char before[KEYED_NUMBER_LEN];
    history_list list = {filter, visitor, context};
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .after = {before, sizeof before},
                               .limit = filter->limit,
                               .descending = 1,
                               .bodies = 1};
    keyed_number_write(before, filter->before_id > 0 ? filter->before_id : 0);
    semel_status status = keyed_check_process(store, err);
    return status ? status : keyed_list(store, NULL, &range, visit_pack, &list, err);
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* Of the first or the last pack; 0 if there is none. */
static semel_status read_end(keyed_store *store, int descending, int64_t *first, int64_t *last,
                             int64_t *at_ms, semel_error *err)
{
    keyed_space space = keyed_space_plain('h');
    mem_arena arena = {NULL, NULL};
    keyed_rows rows = {.arena = &arena};
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .limit = 1, .descending = descending};
    semel_status status = keyed_scan(&rows, store, &range, err);
    *first = *last = *at_ms = 0;
    if (!status && rows.first)
        read_pack_value(&rows.first->record, first, last, at_ms);
    arena_free(&arena);
    return status;
}

static semel_status keyed_history_bounds(void *state, int64_t *first_id, int64_t *last_id,
                                         int64_t *first_ms, semel_error *err)
{
    int64_t first, last, at_ms, ignored;
    semel_status status = keyed_check_process(state, err);
    if (!status)
        status = read_end(state, 0, &first, &last, &at_ms, err);
    if (!status)
        status = read_end(state, 1, &ignored, &last, &ignored, err);
    if (status)
        return status;
    *first_id = first;
    *last_id = last;
    *first_ms = at_ms;
    return SEMEL_OK;
}

/* --- trim ------------------------------------------------------------------------------------- */

typedef struct history_trim {
    keyed_unit *unit;
    int64_t old_id, cutoff_ms;
    uint32_t rows_left;
    size_t removed;
} history_trim;

/* The first row with an id that stays; the others move up. */
static size_t drop_old(history_trim *trim, packed_row rows[], size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        int is_looked_at = trim->rows_left > 0;
        if (is_looked_at)
            trim->rows_left--;
        if (is_looked_at && (rows[i].id <= trim->old_id ||
                             (trim->cutoff_ms && history_row_at(rows[i].bytes) < trim->cutoff_ms)))
            trim->removed++;
        else
            rows[kept++] = rows[i];
    }
    return kept;
}

static semel_status rewrite_pack(keyed_unit *unit, const semel_keyed_record *record,
                                 const packed_row rows[], size_t count, semel_error *err)
{
    fields_writer writer = {.arena = &unit->arena};
    semel_keyed_record now = {.space = record->space, .key = record->key};
    for (size_t i = 0; i < count; i++)
        if (!pack_row(&writer, &unit->arena, &rows[i]))
            return keyed_out_of_memory(err);
    if (!fields_end(&now.body, &writer) ||
        !pack_value(&now.value, &unit->arena, rows[0].id, rows[count - 1].id,
                    history_row_at(rows[0].bytes)))
        return keyed_out_of_memory(err);
    return keyed_set(unit, record, &now, 0, err);
}

static semel_status trim_pack(const semel_keyed_record *record, void *context, uint32_t *left,
                              semel_error *err)
{
    history_trim *trim = context;
    mem_arena arena = {NULL, NULL};
    size_t count = 0, kept;
    packed_row *rows = unpack(&count, record, &arena);
    semel_status status = rows ? SEMEL_OK : keyed_out_of_memory(err);
    kept = status ? 0 : drop_old(trim, rows, count);
    --*left;
    if (!trim->rows_left)
        *left = 0;
    if (!status && !kept)
        status = keyed_unset(trim->unit, record, err);
    else if (!status && kept < count)
        status = rewrite_pack(trim->unit, record, rows, kept, err);
    arena_free(&arena);
    return status;
}

static semel_status keyed_history_trim(void *state, uint64_t rows_kept, int64_t cutoff_ms,
                                       uint32_t limit, size_t *removed, semel_error *err)
{
    keyed_unit *unit = state;
    uint32_t most = unit->store->driver->limits.changes_max / 2;
    keyed_space space = keyed_space_plain('h');
    history_trim trim = {.unit = unit, .cutoff_ms = cutoff_ms, .rows_left = limit};
    int64_t first, last, at_ms;
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .limit = most ? most : UINT32_MAX, .bodies = 1};
    semel_status status = read_end(unit->store, 1, &first, &last, &at_ms, err);
    if (status)
        return status;
    if (rows_kept && rows_kept < (uint64_t)last)
        trim.old_id = last - (int64_t)rows_kept;
    if (limit)
        status = keyed_list(unit->store, unit, &range, trim_pack, &trim, err);
    if (!status)
        *removed = trim.removed;
    return status;
}

const semel_store_history keyed_history = {
    .put = keyed_history_put,
    .list = keyed_history_list,
    .trim = keyed_history_trim,
    .bounds = keyed_history_bounds,
};
