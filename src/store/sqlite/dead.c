/* Dead letters: one per (origin, name, key); a second one replaces the first under its id. */
#include "store/sqlite/sqlite.h"

semel_status sqlite_dead_put(void *unit_state, const semel_dead *dead, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    mem_arena arena = {0};
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_DEAD_PUT);
    sqlite_query_int(&q, dead->origin);
    sqlite_query_text(&q, dead->name);
    sqlite_query_bytes(&q, dead->key);
    sqlite_query_int(&q, dead->attempts);
    sqlite_query_int(&q, now);
    sqlite_query_text(&q, dead->error);
    sqlite_query_int(&q, dead->first_ms ? dead->first_ms : now);
    sqlite_query_int_or_null(&q, dead->cause);
    semel_status status = sqlite_message_bind(&q, &arena, dead->message, err);
    if (!status)
        status = sqlite_query_run(&q, NULL, "storing a dead letter", err);
    arena_free(&arena);
    return status;
}

semel_status sqlite_dead_set_retry(void *unit_state, int64_t id, semel_retry from, semel_retry to,
                                   const char *error, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int changed = 0;
    sqlite_query q = sqlite_query_start(unit->on, ST_DEAD_RETRY);
    sqlite_query_int(&q, id);
    sqlite_query_int(&q, from);
    sqlite_query_int(&q, to);
    sqlite_query_text(&q, error);
    semel_status status = sqlite_query_run(&q, &changed, "noting the retry of a letter", err);
    return status || changed ? status : sql_retry_missed(id, err);
}

semel_status sqlite_dead_drop(void *unit_state, int64_t id, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int changed = 0;
    sqlite_query q = sqlite_query_start(unit->on, ST_DEAD_DROP);
    sqlite_query_int(&q, id);
    semel_status status = sqlite_query_run(&q, &changed, "dropping a dead letter", err);
    if (!status && !changed)
        status = semel_fail(err, SEMEL_ENOTFOUND, "there is no dead letter %lld (any more)",
                            (long long)id);
    return status;
}

static semel_status visit_letter(const sqlite_query *q, mem_arena *arena,
                                 semel_dead_visitor *visitor, void *context, semel_error *err)
{
    enum { COLUMN_MESSAGE = 10 };
    semel_message message;
    semel_error damage;
    semel_dead dead = {.size = sizeof dead,
                       .id = sqlite_row_int(q, 0),
                       .origin = (semel_dead_origin)sqlite_row_int(q, 1),
                       .name = sqlite_row_text(q, 2),
                       .key = sqlite_row_bytes(q, 3),
                       .attempts = (uint32_t)sqlite_row_int(q, 4),
                       .at_ms = sqlite_row_int(q, 5),
                       .error = sqlite_row_text(q, 6),
                       .first_ms = sqlite_row_int(q, 7),
                       .cause = (uint32_t)sqlite_row_int(q, 8),
                       .retry = (int)sqlite_row_int(q, 9)};
    semel_status status = sqlite_message_read(&message, arena, q, COLUMN_MESSAGE, &damage);
    status = sql_dead_complete(&dead, &message, status, &damage, err);
    return status ? status : visitor(&dead, context, err);
}

/* The statement whose index has the fewest letters that the filter does not name. */
static sqlite_statement choose_statement(const semel_dead_filter *filter)
{
    if (filter->key.data && filter->origin && filter->name)
        return ST_DEAD_LIST_KEY;
    if (filter->retry)
        return ST_DEAD_LIST_RETRY;
    if (filter->cause)
        return ST_DEAD_LIST_CAUSE;
    return filter->origin && filter->name ? ST_DEAD_LIST_NAME : ST_DEAD_LIST;
}

static void bind_filter(sqlite_query *q, const semel_dead_filter *filter)
{
    sqlite_query_int(q, filter->after_id);
    sqlite_query_int(q, filter->origin);
    sqlite_query_text(q, filter->name);
    sqlite_query_text(q, filter->type);
    sqlite_query_int(q, filter->since_ms);
    sqlite_query_int(q, filter->until_ms);
    sqlite_query_int(q, filter->limit);
    sqlite_query_int(q, filter->last_id);
    sqlite_query_bytes(q, filter->key);
    sqlite_query_int(q, filter->cause);
    sqlite_query_int(q, filter->retry);
    sqlite_query_int(q, !filter->brief);
}

semel_status sqlite_dead_list(void *unit_state, const semel_dead_filter *filter,
                              semel_dead_visitor *visitor, void *context, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    mem_arena arena = {0};
    semel_status status = SEMEL_OK;
    int got = 0;
    sqlite_query q = sqlite_query_start(unit->on, choose_statement(filter));
    bind_filter(&q, filter);
    while (!status && (got = sqlite_query_row(&q, "listing dead letters", err)) > 0) {
        status = visit_letter(&q, &arena, visitor, context, err);
        arena_reset(&arena);
    }
    sqlite_query_end(&q);
    arena_free(&arena);
    return got < 0 ? q.status : status;
}
