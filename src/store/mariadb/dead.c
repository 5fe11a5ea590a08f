/* Dead letters: one per (origin, name, key); a second one replaces the first under its id. */
#include "store/mariadb/mariadb.h"

#include <stdio.h>

static const maria_bound patient = {PATIENT, 0};

static void write_head(maria_query *q, const semel_dead *dead)
{
    maria_int(q, dead->origin);
    maria_text(q, dead->name);
    maria_bytes(q, dead->key);
    maria_uint(q, dead->attempts);
    maria_text(q, dead->error);
    maria_int_or_null(q, dead->first_ms);
    maria_uint_or_null(q, dead->cause);
}

static semel_status put_large(mariadb_unit *unit, const semel_dead *dead, semel_error *err)
{
    semel_status status = maria_unit_begin_alone(unit, err);
    if (status)
        return status;
    maria_query q = maria_unit_enqueue(unit, ST_DEAD_PUT, patient);
    write_head(&q, dead);
    maria_message_write_head(&q, dead->message);
    maria_sql(&q, "?");
    maria_sql(&q, "?");
    (void)maria_end(&q);
    return maria_unit_execute_large(unit, dead->message, "storing a large dead letter", err);
}

semel_status mariadb_dead_put(void *unit_state, const semel_dead *dead, semel_error *err)
{
    enum { HEAD_TEXT = 8192 };
    mariadb_unit *unit = unit_state;
    size_t size = maria_message_size(dead->message) + HEAD_TEXT;
    unit->wrote = 1;
    if (size > unit->on->text_max)
        return put_large(unit, dead, err);
    semel_status status = maria_unit_make_room(unit, size, err);
    if (status)
        return status;
    maria_query q = maria_unit_enqueue(unit, ST_DEAD_PUT, maria_patience(unit->store));
    write_head(&q, dead);
    status = maria_message_write(&q, &unit->on->scratch, dead->message, err);
    (void)maria_end(&q);
    return status ? status : maria_unit_flush(unit, NULL, "storing a dead letter", err);
}

semel_status mariadb_dead_drop(void *unit_state, int64_t id, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_reply answer = {0};
    maria_query q = maria_unit_enqueue(unit, ST_DEAD_DROP, maria_patience(unit->store));
    maria_int(&q, id);
    maria_end(&q)->answer = &answer;
    semel_status status = maria_unit_flush(unit, NULL, "dropping a dead letter", err);
    unit->wrote |= answer.changed > 0;
    if (!status && !answer.changed)
        status = semel_fail(err, SEMEL_ENOTFOUND, "there is no dead letter %lld (any more)",
                            (long long)id);
    return status;
}

typedef struct listing {
    maria_connection *on;
    semel_dead_visitor *visitor;
    void *context;
} listing;

static semel_status visit_letter(const maria_row *r, void *context, semel_error *err)
{
    enum { COLUMN_MESSAGE = 10 };
    const listing *l = context;
    semel_message message;
    semel_error damage;
    semel_dead dead = {.size = sizeof dead,
                       .id = maria_column_int(r, 0),
                       .origin = (semel_dead_origin)maria_column_int(r, 1),
                       .name = maria_column_text(r, 2),
                       .key = maria_column_bytes(r, 3),
                       .attempts = (uint32_t)maria_column_uint(r, 4),
                       .at_ms = maria_column_int(r, 5),
                       .error = maria_column_text(r, 6),
                       .first_ms = maria_column_int(r, 7),
                       .cause = (uint32_t)maria_column_uint(r, 8),
                       .retry = (int)maria_column_int(r, 9)};
    arena_reset(&l->on->scratch);
    semel_status status = maria_message_read(&message, &l->on->scratch, r, COLUMN_MESSAGE, &damage);
    status = sql_dead_complete(&dead, &message, status, &damage, err);
    return status ? status : l->visitor(&dead, l->context, err);
}

/* By the index that leaves the fewest letters. */
static maria_statement list_for(const semel_dead_filter *filter)
{
    if (filter->key.len)
        return filter->origin && filter->name ? ST_DEAD_LIST_LETTER : ST_DEAD_LIST_KEY;
    return filter->retry                    ? ST_DEAD_LIST_ASKED
           : filter->cause                  ? ST_DEAD_LIST_CAUSE
           : filter->origin && filter->name ? ST_DEAD_LIST_NAME
                                            : ST_DEAD_LIST;
}

static void write_brief(maria_query *q, const semel_dead_filter *filter)
{
    maria_int(q, filter->brief != 0);
    maria_int(q, filter->brief != 0);
}

static void write_wanted(maria_query *q, const semel_dead_filter *filter)
{
    semel_bytes key = filter->key.len ? filter->key : (semel_bytes){NULL, 0};
    maria_int(q, filter->after_id);
    maria_int(q, filter->last_id ? filter->last_id : INT64_MAX);
    maria_int(q, filter->origin);
    maria_int(q, filter->origin);
    maria_text(q, filter->name);
    maria_text(q, filter->name);
    maria_text(q, filter->type);
    maria_text(q, filter->type);
    maria_int(q, filter->since_ms);
    maria_int(q, filter->until_ms);
    maria_int(q, filter->until_ms);
    maria_uint(q, filter->cause);
    maria_uint(q, filter->cause);
    maria_int(q, filter->retry != 0);
    maria_bytes(q, key);
    maria_bytes(q, key);
    maria_uint(q, filter->limit);
}

/* The letters with this cause, and behind them those without one, both in their common order. */
static void write_by_cause(maria_query *q, mariadb_unit *unit, const semel_dead_filter *filter)
{
    char end[48];
    write_brief(q, filter);
    maria_uint(q, filter->cause);
    write_wanted(q, filter);
    maria_chain(q, " UNION ALL ", unit->store->texts[ST_DEAD_LIST_CAUSE]);
    write_brief(q, filter);
    maria_sql(q, "NULL");
    write_wanted(q, filter);
    (void)snprintf(end, sizeof end, " ORDER BY dead_id LIMIT %u", (unsigned)filter->limit);
    maria_tail(q, end);
}

semel_status mariadb_dead_list(void *unit_state, const semel_dead_filter *filter,
                               semel_dead_visitor *visitor, void *context, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    listing l = {unit->on, visitor, context};
    maria_statement which = list_for(filter);
    maria_query q = maria_unit_enqueue(unit, which, patient);
    if (which == ST_DEAD_LIST_CAUSE) {
        write_by_cause(&q, unit, filter);
    } else {
        write_brief(&q, filter);
        if (which == ST_DEAD_LIST_KEY)
            maria_bytes(&q, filter->key);
        if (which == ST_DEAD_LIST_NAME) {
            maria_int(&q, filter->origin);
            maria_text(&q, filter->name);
        }
        write_wanted(&q, filter);
    }
    maria_step *s = maria_end(&q);
    s->call = visit_letter;
    s->context = &l;
    return maria_unit_flush(unit, NULL, "listing dead letters", err);
}
