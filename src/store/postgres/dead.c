/* Dead letters: one per (origin, name, key); a second one replaces the first under its id. */
#include "store/postgres/postgres.h"

semel_status postgres_dead_put(void *unit_state, const semel_dead *dead, semel_error *err)
{
    postgres_unit *unit = unit_state;
    size_t changed = 0;
    pg_query q = pg_unit_query(unit, ST_DEAD_PUT);
    pg_int(&q, dead->origin);
    pg_text(&q, dead->name);
    pg_bytes(&q, dead->key);
    pg_int(&q, dead->attempts);
    pg_foreign_text(&q, &unit->on->scratch, dead->error);
    pg_int_or_null(&q, dead->first_ms);
    pg_int_or_null(&q, dead->cause);
    semel_status status = pg_foreign_message_bind(&q, &unit->on->scratch, dead->message, err);
    if (!status)
        status = pg_execute_change(&q, &changed, "storing a dead letter", err);
    if (!status && changed != 1)
        status = semel_fail(err, SEMEL_ESTORE, "a dead letter was not stored");
    return status;
}

semel_status postgres_dead_drop(void *unit_state, int64_t id, semel_error *err)
{
    size_t changed = 0;
    pg_query q = pg_unit_query(unit_state, ST_DEAD_DROP);
    pg_int(&q, id);
    semel_status status = pg_execute_change(&q, &changed, "dropping a dead letter", err);
    if (!status && !changed)
        status = semel_fail(err, SEMEL_ENOTFOUND, "there is no dead letter %lld (any more)",
                            (long long)id);
    return status;
}

static semel_status visit_letter(const PGresult *answer, int row, mem_arena *arena,
                                 semel_dead_visitor *visitor, void *context, semel_error *err)
{
    enum { COLUMN_MESSAGE = 10 };
    semel_message message;
    semel_error damage;
    semel_dead dead = {.size = sizeof dead,
                       .id = pg_answer_int(answer, row, 0),
                       .origin = (semel_dead_origin)pg_answer_int(answer, row, 1),
                       .name = pg_answer_text(answer, row, 2),
                       .key = pg_answer_bytes(answer, row, 3),
                       .attempts = (uint32_t)pg_answer_int(answer, row, 4),
                       .at_ms = pg_answer_int(answer, row, 5),
                       .error = pg_answer_text(answer, row, 6),
                       .first_ms = pg_answer_int(answer, row, 7),
                       .cause = (uint32_t)pg_answer_int(answer, row, 8),
                       .retry = (int)pg_answer_int(answer, row, 9)};
    semel_status status = pg_message_read(&message, arena, answer, row, COLUMN_MESSAGE, &damage);
    status = sql_dead_complete(&dead, &message, status, &damage, err);
    return status ? status : visitor(&dead, context, err);
}

/* By the index that leaves the fewest letters. */
static pg_statement list_for(const semel_dead_filter *filter)
{
    if (filter->key.len)
        return filter->origin && filter->name ? ST_DEAD_LIST_LETTER : ST_DEAD_LIST_KEY;
    return filter->retry                    ? ST_DEAD_LIST_ASKED
           : filter->cause                  ? ST_DEAD_LIST_CAUSE
           : filter->origin && filter->name ? ST_DEAD_LIST_NAME
                                            : ST_DEAD_LIST;
}

static pg_query list_query(postgres_unit *unit, const semel_dead_filter *filter)
{
    pg_query q = pg_unit_query(unit, list_for(filter));
    pg_int(&q, filter->after_id);
    pg_int(&q, filter->last_id ? filter->last_id : INT64_MAX);
    pg_int(&q, filter->origin);
    pg_text(&q, filter->name);
    pg_foreign_text(&q, &unit->on->scratch, filter->type);
    pg_int(&q, filter->since_ms);
    pg_int(&q, filter->until_ms);
    pg_int(&q, filter->brief != 0);
    pg_int(&q, filter->cause);
    pg_int(&q, filter->retry != 0);
    pg_bytes(&q, filter->key.len ? filter->key : (semel_bytes){NULL, 0});
    pg_int(&q, filter->limit);
    return q;
}

semel_status postgres_dead_list(void *unit, const semel_dead_filter *filter,
                                semel_dead_visitor *visitor, void *context, semel_error *err)
{
    mem_arena arena = {0};
    PGresult *answer = NULL;
    pg_query q = list_query(unit, filter);
    semel_status status = pg_execute(&answer, &q, "listing dead letters", err);
    int rows = status ? 0 : PQntuples(answer);
    for (int row = 0; !status && row < rows; row++) {
        status = visit_letter(answer, row, &arena, visitor, context, err);
        arena_reset(&arena);
    }
    PQclear(answer);
    arena_free(&arena);
    return status;
}
