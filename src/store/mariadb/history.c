/* The history of deliveries. As many rows as a text of moderate length takes are one statement. A
 * row whose message does not fit into the server's max_allowed_packet is written without it: the
 * timeline needs the row, and nothing needs the message. */
#include "store/sql/history.h"
#include "base/message.h"

#include "store/mariadb/mariadb.h"

#include <string.h>

/* --- adding ----------------------------------------------------------------------------------- */

static size_t row_size(const semel_history *row)
{
    enum { NUMBERS = 512 };
    return NUMBERS +
           2 * (strlen(row->name) + row->key.len + strlen(row->process) + strlen(row->error)) +
           maria_message_size(row->message);
}

static semel_status write_row(maria_query *q, mem_arena *arena, const semel_history *row,
                              semel_error *err)
{
    int64_t numbers[HISTORY_NUMBER_COUNT];
    sql_history_numbers(numbers, row);
    for (int i = 0; i < HISTORY_NUMBER_COUNT; i++)
        maria_int(q, numbers[i]);
    maria_text(q, row->name);
    maria_bytes(q, row->key);
    maria_text(q, row->process);
    maria_text(q, row->error);
    return maria_message_write(q, arena, row->message, err);
}

/* The row without what was kept of its message, if that is too large. */
static semel_history fit(const semel_history *row, semel_message *brief, size_t text_max)
{
    semel_history fitting = *row;
    if (row_size(row) <= text_max)
        return fitting;
    *brief = (semel_message){.size = sizeof *brief,
                             .id = row->message->id,
                             .type = row->message->type,
                             .source = row->message->source};
    fitting.message = brief;
    fitting.kept = 0;
    return fitting;
}

static semel_status put_some(mariadb_unit *unit, const semel_history rows[], size_t count,
                             size_t *done, semel_error *err)
{
    enum { TEXT_TOGETHER = 1 << 20 };
    size_t text_max = unit->on->text_max, size = 0;
    semel_message brief;
    semel_history row = fit(&rows[0], &brief, text_max);
    semel_status status = maria_unit_make_room(unit, row_size(&row), err);
    maria_query q = maria_unit_enqueue(unit, ST_HISTORY_PUT, maria_patience(unit->store));
    for (size_t i = 0; !status; i++) {
        size += row_size(&row);
        status = write_row(&q, &unit->on->scratch, &row, err);
        *done = i + 1;
        if (i + 1 == count)
            break;
        row = fit(&rows[i + 1], &brief, text_max);
        size_t next = row_size(&row);
        if (size + next > TEXT_TOGETHER || unit->on->out.text.len + next > text_max)
            break;
        maria_more(&q, maria_history_pattern);
    }
    (void)maria_end(&q);
    return status;
}

static semel_status mariadb_history_put(void *unit_state, const semel_history rows[], size_t count,
                                        semel_error *err)
{
    mariadb_unit *unit = unit_state;
    semel_status status = SEMEL_OK;
    unit->wrote = 1;
    for (size_t at = 0, done = 0; !status && at < count; at += done)
        status = put_some(unit, rows + at, count - at, &done, err);
    return status ? status : maria_unit_flush(unit, NULL, "writing the history", err);
}

/* --- listing ---------------------------------------------------------------------------------- */

static void bind_filter(maria_query *q, int64_t scope, const void *filter)
{
    const semel_history_filter *wanted = filter;
    sql_history_way way = sql_history_choose(wanted);
    (void)scope;
    maria_int(q, wanted->contents != 0);
    maria_int(q, wanted->contents != 0);
    if (way == HISTORY_BY_NAME)
        maria_text(q, wanted->name);
    if (way == HISTORY_BY_KEY)
        maria_bytes(q, wanted->key);
    maria_int(q, wanted->before_id);
    maria_int(q, wanted->kind);
    maria_int(q, wanted->kind);
    maria_text(q, wanted->name);
    maria_text(q, wanted->name);
    maria_int(q, wanted->outcome);
    maria_int(q, wanted->outcome);
    maria_text(q, wanted->type);
    maria_text(q, wanted->type);
    maria_int(q, wanted->since_ms);
    maria_int(q, wanted->until_ms);
    maria_int(q, wanted->until_ms);
    maria_uint(q, wanted->limit);
}

typedef struct showing {
    sql_history_target to;
    mem_arena arena; /* of the headers of one row */
} showing;

static semel_status show_row(const maria_row *r, void *context, semel_error *err)
{
    showing *s = context;
    int64_t numbers[HISTORY_NUMBER_COUNT];
    semel_message message;
    semel_error damage;
    for (unsigned i = 0; i < HISTORY_NUMBER_COUNT; i++)
        numbers[i] = maria_column_int(r, 1 + i);
    semel_history row = {.size = sizeof row,
                         .id = maria_column_int(r, 0),
                         .name = maria_column_text(r, HISTORY_NAME),
                         .key = maria_column_bytes(r, HISTORY_KEY),
                         .process = maria_column_text(r, HISTORY_PROCESS),
                         .error = maria_column_text(r, HISTORY_ERROR)};
    sql_history_set_numbers(&row, numbers);
    arena_reset(&s->arena);
    semel_status status = maria_message_read(&message, &s->arena, r, HISTORY_MESSAGE, &damage);
    status = sql_history_complete(&row, &message, status, &damage, err);
    return status ? status : s->to.visitor(&row, s->to.context, err);
}

static semel_status mariadb_history_list(void *store, const semel_history_filter *filter,
                                         semel_history_visitor *visitor, void *context,
                                         semel_error *err)
{
    static const maria_statement ways[] = {[HISTORY_BY_ID] = ST_HISTORY_LIST,
                                           [HISTORY_BY_NAME] = ST_HISTORY_LIST_NAME,
                                           [HISTORY_BY_KEY] = ST_HISTORY_LIST_KEY};
    showing s = {.to = {visitor, context}};
    maria_list list = {.which = ways[sql_history_choose(filter)],
                       .bind = bind_filter,
                       .filter = filter,
                       .show = show_row,
                       .context = &s};
    semel_status status = maria_run_list(store, &list, err);
    arena_free(&s.arena);
    return status;
}

/* --- trimming --------------------------------------------------------------------------------- */

typedef struct found_ids {
    int64_t ids[LIST_MAX];
    size_t count;
} found_ids;

static semel_status note_id(const maria_row *r, void *context, semel_error *err)
{
    found_ids *found = context;
    (void)err;
    if (found->count < LIST_MAX)
        found->ids[found->count++] = maria_column_int(r, 0);
    return SEMEL_OK;
}

/* Of at most LIST_MAX of the oldest rows. */
static semel_status trim_some(mariadb_unit *unit, uint64_t rows_kept, int64_t cutoff_ms,
                              uint32_t limit, size_t *removed, semel_error *err)
{
    found_ids found = {.count = 0};
    maria_reply answer = {0};
    maria_query q = maria_unit_enqueue(unit, ST_HISTORY_OLD, maria_patience(unit->store));
    maria_uint(&q, limit);
    maria_int(&q, rows_kept ? (int64_t)rows_kept : INT64_MAX);
    maria_int(&q, cutoff_ms);
    maria_step *s = maria_end(&q);
    s->call = note_id;
    s->context = &found;
    semel_status status = maria_unit_flush(unit, NULL, "looking for old history", err);
    if (status || !found.count)
        return status;
    q = maria_unit_enqueue(unit, ST_HISTORY_TRIM, maria_patience(unit->store));
    maria_ints(&q, found.ids, found.count);
    maria_end(&q)->answer = &answer;
    unit->wrote = 1;
    status = maria_unit_flush(unit, NULL, "trimming the history", err);
    *removed += (size_t)answer.changed;
    return status;
}

static semel_status mariadb_history_trim(void *unit, uint64_t rows_kept, int64_t cutoff_ms,
                                         uint32_t limit, size_t *removed, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t sum = 0, some = 1;
    for (uint32_t left = limit; !status && left && some;) {
        uint32_t step = left < LIST_MAX ? left : LIST_MAX;
        some = 0;
        status = trim_some(unit, rows_kept, cutoff_ms, step, &some, err);
        sum += some;
        left -= step;
    }
    if (!status)
        *removed = sum;
    return status;
}

static void bind_nothing(maria_query *q, int64_t scope, const void *filter)
{
    (void)q;
    (void)scope;
    (void)filter;
}

static semel_status note_bounds(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(sql_history_bounds *)context = (sql_history_bounds){
        maria_column_int(r, 0), maria_column_int(r, 1), maria_column_int(r, 2)};
    return SEMEL_OK;
}

static semel_status mariadb_history_bounds(void *store, int64_t *first_id, int64_t *last_id,
                                           int64_t *first_ms, semel_error *err)
{
    sql_history_bounds found = {0};
    maria_list list = {
        .which = ST_HISTORY_BOUNDS, .bind = bind_nothing, .show = note_bounds, .context = &found};
    semel_status status = maria_run_list(store, &list, err);
    if (status)
        return status;
    *first_id = found.first_id;
    *last_id = found.last_id;
    *first_ms = found.first_ms;
    return SEMEL_OK;
}

const semel_store_history mariadb_history = {
    .put = mariadb_history_put,
    .list = mariadb_history_list,
    .trim = mariadb_history_trim,
    .bounds = mariadb_history_bounds,
};
