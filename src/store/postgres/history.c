/* The history of deliveries. Many rows are one statement and so one round trip: each column is an
 * array. Bodies bound how many rows go together. */
#include "store/sql/history.h"

#include "store/postgres/postgres.h"

/* --- adding ----------------------------------------------------------------------------------- */

static int bind_numbers(pg_query *q, mem_arena *arena, const semel_history rows[], size_t count)
{
    pg_array columns[HISTORY_NUMBER_COUNT];
    int64_t numbers[HISTORY_NUMBER_COUNT];
    int failed = 0;
    for (int c = 0; c < HISTORY_NUMBER_COUNT; c++)
        columns[c] = pg_array_start(arena, ARRAY_INT8, count, count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++) {
        sql_history_numbers(numbers, &rows[i]);
        for (int c = 0; c < HISTORY_NUMBER_COUNT; c++)
            pg_array_add_int(&columns[c], numbers[c]);
    }
    for (int c = 0; c < HISTORY_NUMBER_COUNT; c++) {
        pg_array_bind(q, &columns[c]);
        failed |= columns[c].failed;
    }
    return !failed;
}

typedef semel_bytes column_of(const semel_history *row);

static semel_bytes name_of(const semel_history *row)
{
    return semel_str(row->name);
}
static semel_bytes key_of(const semel_history *row)
{
    return row->key;
}
static semel_bytes process_of(const semel_history *row)
{
    return semel_str(row->process);
}
static semel_bytes error_of(const semel_history *row)
{
    return semel_str(row->error);
}

static int bind_column(pg_query *q, mem_arena *arena, const semel_history rows[], size_t count,
                       uint32_t type, column_of *column)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += column(&rows[i]).len;
    pg_array a = pg_array_start(arena, type, count, size);
    for (size_t i = 0; i < count; i++)
        pg_array_add(&a, column(&rows[i]).data, column(&rows[i]).len);
    pg_array_bind(q, &a);
    return !a.failed;
}

static semel_status put_some(postgres_unit *unit, const semel_history rows[], size_t count,
                             semel_error *err)
{
    mem_arena *arena = &unit->on->scratch;
    size_t changed = 0;
    pg_query q = pg_unit_query(unit, ST_HISTORY_PUT);
    const semel_message **messages = arena_alloc(arena, count * sizeof *messages);
    for (size_t i = 0; messages && i < count; i++)
        messages[i] = rows[i].message;
    if (!messages || !bind_numbers(&q, arena, rows, count) ||
        !bind_column(&q, arena, rows, count, ARRAY_TEXT, name_of) ||
        !bind_column(&q, arena, rows, count, ARRAY_BYTEA, key_of) ||
        !bind_column(&q, arena, rows, count, ARRAY_TEXT, process_of) ||
        !bind_column(&q, arena, rows, count, ARRAY_TEXT, error_of))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for the history");
    semel_status status = pg_messages_bind(&q, arena, messages, count, err);
    if (!status)
        status = pg_execute_change(&q, &changed, "writing the history", err);
    if (!status && changed != count)
        status = semel_fail(err, SEMEL_ESTORE, "%zu of %zu rows of the history were not written",
                            count - changed, count);
    return status;
}

static size_t weight_of(const semel_history *row)
{
    enum { OTHERS = 512 };
    return row->message->body.len + OTHERS;
}

static semel_status postgres_history_put(void *unit, const semel_history rows[], size_t count,
                                         semel_error *err)
{
    enum { WEIGHT_MAX = 8 << 20 };
    semel_status status = SEMEL_OK;
    for (size_t first = 0, next; !status && first < count; first = next) {
        size_t weight = weight_of(&rows[first]);
        next = first + 1;
        while (next < count && weight + weight_of(&rows[next]) <= WEIGHT_MAX)
            weight += weight_of(&rows[next++]);
        status = put_some(unit, rows + first, next - first, err);
    }
    return status;
}

/* --- listing ---------------------------------------------------------------------------------- */

static void bind_filter(pg_query *q, int64_t scope, const void *filter)
{
    const semel_history_filter *wanted = filter;
    (void)scope;
    pg_int(q, wanted->before_id);
    pg_int(q, wanted->kind);
    pg_foreign_text(q, &q->on->scratch, wanted->name);
    pg_bytes(q, wanted->key);
    pg_int(q, wanted->outcome);
    pg_foreign_text(q, &q->on->scratch, wanted->type);
    pg_int(q, wanted->since_ms);
    pg_int(q, wanted->until_ms);
    pg_int(q, wanted->limit);
    pg_int(q, wanted->contents != 0);
}

static semel_status show_row(const PGresult *answer, int row, mem_arena *arena, void *context,
                             semel_error *err)
{
    const sql_history_target *to = context;
    int64_t numbers[HISTORY_NUMBER_COUNT];
    semel_message message;
    semel_error damage;
    for (int i = 0; i < HISTORY_NUMBER_COUNT; i++)
        numbers[i] = pg_answer_int(answer, row, 1 + i);
    semel_history shown = {.size = sizeof shown,
                           .id = pg_answer_int(answer, row, 0),
                           .name = pg_answer_text(answer, row, HISTORY_NAME),
                           .key = pg_answer_bytes(answer, row, HISTORY_KEY),
                           .process = pg_answer_text(answer, row, HISTORY_PROCESS),
                           .error = pg_answer_text(answer, row, HISTORY_ERROR)};
    sql_history_set_numbers(&shown, numbers);
    semel_status status = pg_message_read(&message, arena, answer, row, HISTORY_MESSAGE, &damage);
    status = sql_history_complete(&shown, &message, status, &damage, err);
    return status ? status : to->visitor(&shown, to->context, err);
}

static semel_status postgres_history_list(void *store, const semel_history_filter *filter,
                                          semel_history_visitor *visitor, void *context,
                                          semel_error *err)
{
    static const pg_statement ways[] = {[HISTORY_BY_ID] = ST_HISTORY_LIST,
                                        [HISTORY_BY_NAME] = ST_HISTORY_LIST_NAME,
                                        [HISTORY_BY_KEY] = ST_HISTORY_LIST_KEY};
    sql_history_target to = {visitor, context};
    pg_list list = {.which = ways[sql_history_choose(filter)],
                    .bind = bind_filter,
                    .filter = filter,
                    .show = show_row,
                    .context = &to};
    return pg_run_list(store, &list, err);
}

/* --- trimming --------------------------------------------------------------------------------- */

static semel_status postgres_history_trim(void *unit, uint64_t rows_kept, int64_t cutoff_ms,
                                          uint32_t limit, size_t *removed, semel_error *err)
{
    pg_query q = pg_unit_query(unit, ST_HISTORY_TRIM);
    pg_int(&q, rows_kept ? (int64_t)rows_kept : INT64_MAX);
    pg_int(&q, cutoff_ms);
    pg_int(&q, limit);
    return pg_execute_change(&q, removed, "trimming the history", err);
}

static void bind_nothing(pg_query *q, int64_t scope, const void *filter)
{
    (void)q;
    (void)scope;
    (void)filter;
}

static semel_status note_bounds(const PGresult *answer, int row, mem_arena *arena, void *context,
                                semel_error *err)
{
    (void)arena;
    (void)err;
    *(sql_history_bounds *)context =
        (sql_history_bounds){pg_answer_int(answer, row, 0), pg_answer_int(answer, row, 1),
                             pg_answer_int(answer, row, 2)};
    return SEMEL_OK;
}

static semel_status postgres_history_bounds(void *store, int64_t *first_id, int64_t *last_id,
                                            int64_t *first_ms, semel_error *err)
{
    sql_history_bounds found = {0};
    pg_list list = {
        .which = ST_HISTORY_BOUNDS, .bind = bind_nothing, .show = note_bounds, .context = &found};
    semel_status status = pg_run_list(store, &list, err);
    if (status)
        return status;
    *first_id = found.first_id;
    *last_id = found.last_id;
    *first_ms = found.first_ms;
    return SEMEL_OK;
}

const semel_store_history postgres_history = {
    .put = postgres_history_put,
    .list = postgres_history_list,
    .trim = postgres_history_trim,
    .bounds = postgres_history_bounds,
};
