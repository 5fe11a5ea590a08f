/* The history of deliveries. Rows are added by one statement each, inside of one transaction, which
 * the caller keeps small: the file has one writer. */
#include "store/sql/history.h"

#include "store/sqlite/sqlite.h"

static semel_status put_row(sqlite_unit *unit, mem_arena *arena, const semel_history *row,
                            semel_error *err)
{
    int64_t numbers[HISTORY_NUMBER_COUNT];
    sqlite_query q = sqlite_query_start(unit->on, ST_HISTORY_PUT);
    sql_history_numbers(numbers, row);
    for (int i = 0; i < HISTORY_NUMBER_COUNT; i++)
        sqlite_query_int(&q, numbers[i]);
    sqlite_query_text(&q, row->name);
    sqlite_query_bytes(&q, row->key);
    sqlite_query_text(&q, row->process);
    sqlite_query_text(&q, row->error);
    semel_status status = sqlite_message_bind(&q, arena, row->message, err);
    return status ? status : sqlite_query_run(&q, NULL, "writing the history", err);
}

static semel_status sqlite_history_put(void *unit, const semel_history rows[], size_t count,
                                       semel_error *err)
{
    mem_arena arena = {0};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++) {
        status = put_row(unit, &arena, &rows[i], err);
        arena_reset(&arena);
    }
    arena_free(&arena);
    return status;
}

/* --- listing ---------------------------------------------------------------------------------- */

static void bind_filter(sqlite_query *q, int64_t scope, const void *filter)
{
    const semel_history_filter *wanted = filter;
    (void)scope;
    sqlite_query_int(q, wanted->before_id);
    sqlite_query_int(q, wanted->kind);
    sqlite_query_text(q, wanted->name);
    sqlite_query_bytes(q, wanted->key);
    sqlite_query_int(q, wanted->outcome);
    sqlite_query_text(q, wanted->type);
    sqlite_query_int(q, wanted->since_ms);
    sqlite_query_int(q, wanted->until_ms);
    sqlite_query_int(q, wanted->limit);
    sqlite_query_int(q, wanted->contents != 0);
}

static semel_status show_row(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                             void *context, semel_error *err)
{
    const sql_history_target *to = context;
    int64_t numbers[HISTORY_NUMBER_COUNT];
    semel_message message;
    semel_error damage;
    (void)store;
    for (int i = 0; i < HISTORY_NUMBER_COUNT; i++)
        numbers[i] = sqlite_row_int(q, 1 + i);
    semel_history row = {.size = sizeof row,
                         .id = sqlite_row_int(q, 0),
                         .name = sqlite_row_text(q, HISTORY_NAME),
                         .key = sqlite_row_bytes(q, HISTORY_KEY),
                         .process = sqlite_row_text(q, HISTORY_PROCESS),
                         .error = sqlite_row_text(q, HISTORY_ERROR)};
    sql_history_set_numbers(&row, numbers);
    semel_status status = sqlite_message_read(&message, arena, q, HISTORY_MESSAGE, &damage);
    status = sql_history_complete(&row, &message, status, &damage, err);
    return status ? status : to->visitor(&row, to->context, err);
}

static semel_status sqlite_history_list(void *store, const semel_history_filter *filter,
                                        semel_history_visitor *visitor, void *context,
                                        semel_error *err)
{
    static const sqlite_statement ways[] = {[HISTORY_BY_ID] = ST_HISTORY_LIST,
                                            [HISTORY_BY_NAME] = ST_HISTORY_LIST_NAME,
                                            [HISTORY_BY_KEY] = ST_HISTORY_LIST_KEY};
    sql_history_target to = {visitor, context};
    sqlite_list list = {.which = ways[sql_history_choose(filter)],
                        .bind = bind_filter,
                        .filter = filter,
                        .show = show_row,
                        .context = &to};
    return sqlite_list_run(store, &list, err);
}

/* --- trimming --------------------------------------------------------------------------------- */

static semel_status sqlite_history_trim(void *unit_state, uint64_t rows_kept, int64_t cutoff_ms,
                                        uint32_t limit, size_t *removed, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int changed = 0;
    sqlite_query q = sqlite_query_start(unit->on, ST_HISTORY_TRIM);
    sqlite_query_int(&q, rows_kept ? (int64_t)rows_kept : INT64_MAX);
    sqlite_query_int(&q, cutoff_ms);
    sqlite_query_int(&q, limit);
    semel_status status = sqlite_query_run(&q, &changed, "trimming the history", err);
    if (!status)
        *removed = (size_t)changed;
    return status;
}

static void bind_nothing(sqlite_query *q, int64_t scope, const void *filter)
{
    (void)q;
    (void)scope;
    (void)filter;
}

static semel_status note_bounds(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                                void *context, semel_error *err)
{
    sql_history_bounds *out = context;
    (void)store;
    (void)arena;
    (void)err;
    out->first_id = sqlite_row_int(q, 0);
    out->last_id = sqlite_row_int(q, 1);
    out->first_ms = sqlite_row_int(q, 2);
    return SEMEL_OK;
}

static semel_status sqlite_history_bounds(void *store, int64_t *first_id, int64_t *last_id,
                                          int64_t *first_ms, semel_error *err)
{
    sql_history_bounds found = {0};
    sqlite_list list = {
        .which = ST_HISTORY_BOUNDS, .bind = bind_nothing, .show = note_bounds, .context = &found};
    semel_status status = sqlite_list_run(store, &list, err);
    if (status)
        return status;
    *first_id = found.first_id;
    *last_id = found.last_id;
    *first_ms = found.first_ms;
    return SEMEL_OK;
}

const semel_store_history sqlite_history = {
    .put = sqlite_history_put,
    .list = sqlite_history_list,
    .trim = sqlite_history_trim,
    .bounds = sqlite_history_bounds,
};
