/* Lists: plain reads on a connection of the pool, each a transaction of its own. They take no locks
 * and wait for none. See the lists of <semel/sys/store.h>. */
#include "store/postgres/postgres.h"

static semel_status show_rows(const PGresult *answer, const pg_list *list, semel_error *err)
{
    mem_arena arena = {0};
    semel_status status = SEMEL_OK;
    for (int row = 0; !status && row < PQntuples(answer); row++) {
        status = list->show(answer, row, &arena, list->context, err);
        arena_reset(&arena);
    }
    arena_free(&arena);
    return status;
}

semel_status pg_run_list(postgres_store *store, const pg_list *list, semel_error *err)
{
    pg_connection *on = NULL;
    PGresult *answer = NULL;
    semel_status status = pg_store_borrow(&on, store, err);
    if (status)
        return status;
    pg_query q = pg_start(on, list->which);
    list->bind(&q, list->scope, list->filter);
    status = pg_execute_alone(&answer, &q, "listing", err);
    pg_store_give_back(store, on);
    if (!status)
        status = show_rows(answer, list, err);
    PQclear(answer);
    return status;
}

/* --- markers ---------------------------------------------------------------------------------- */

static void bind_markers(pg_query *q, int64_t inbox, const void *filter)
{
    const semel_marker_filter *wanted = filter;
    pg_int(q, inbox);
    pg_int(q, wanted->results != 0);
    if (wanted->key.len) {
        pg_bytes(q, wanted->key);
        return;
    }
    pg_bytes(q, wanted->after.len ? wanted->after : (semel_bytes){"", 0});
    pg_int(q, wanted->limit);
}

typedef struct marker_target {
    semel_marker_visitor *visitor;
    void *context;
} marker_target;

static semel_status show_marker(const PGresult *answer, int row, mem_arena *arena, void *context,
                                semel_error *err)
{
    const marker_target *to = context;
    int live = (int)pg_answer_int(answer, row, 3);
    (void)arena;
    semel_marker marker = {.size = sizeof marker,
                           .key = pg_answer_bytes(answer, row, 0),
                           .state = sql_marker_shown((int)pg_answer_int(answer, row, 1), live),
                           .attempts = (uint32_t)pg_answer_int(answer, row, 2),
                           .first_ms = pg_answer_int(answer, row, 5),
                           .last_ms = pg_answer_int(answer, row, 6),
                           .lease_until_ms = live ? pg_answer_int(answer, row, 4) : 0,
                           .error = pg_answer_text(answer, row, 7),
                           .has_result = pg_answer_int(answer, row, 8) != 0,
                           .result = pg_answer_bytes(answer, row, 9),
                           .type = pg_answer_text(answer, row, 10),
                           .source = pg_answer_text(answer, row, 11),
                           .received_ms = pg_answer_int(answer, row, 12)};
    return to->visitor(&marker, to->context, err);
}

static semel_status postgres_list_markers(void *store, int64_t inbox,
                                          const semel_marker_filter *filter,
                                          semel_marker_visitor *visitor, void *context,
                                          semel_error *err)
{
    marker_target to = {visitor, context};
    pg_list list = {.which = filter->key.len ? ST_LIST_MARKER : ST_LIST_MARKERS,
                    .bind = bind_markers,
                    .scope = inbox,
                    .filter = filter,
                    .show = show_marker,
                    .context = &to};
    return pg_run_list(store, &list, err);
}

/* --- outgoing messages ------------------------------------------------------------------------ */

typedef struct outgoing_target {
    semel_outgoing_visitor *visitor;
    void *context;
} outgoing_target;

static void bind_outgoing(pg_query *q, int64_t outbox, const void *filter)
{
    const semel_outgoing_filter *wanted = filter;
    pg_int(q, outbox);
    pg_int(q, wanted->contents != 0);
    pg_int(q, wanted->after_seq);
    pg_int(q, wanted->limit);
}

static semel_status show_outgoing(const PGresult *answer, int row, mem_arena *arena, void *context,
                                  semel_error *err)
{
    enum { COLUMN_MESSAGE = 7 };
    const outgoing_target *to = context;
    semel_message message;
    semel_error damage;
    semel_outgoing outgoing = {.size = sizeof outgoing,
                               .seq = pg_answer_int(answer, row, 0),
                               .attempts = (uint32_t)pg_answer_int(answer, row, 1),
                               .refusals = (uint32_t)pg_answer_int(answer, row, 2),
                               .captured_ms = pg_answer_int(answer, row, 3),
                               .due_ms = pg_answer_int(answer, row, 4),
                               .leased = (int)pg_answer_int(answer, row, 5),
                               .error = pg_answer_text(answer, row, 6)};
    semel_status status = pg_message_read(&message, arena, answer, row, COLUMN_MESSAGE, &damage);
    status = sql_outgoing_complete(&outgoing, &message, status, &damage, err);
    return status ? status : to->visitor(&outgoing, to->context, err);
}

static semel_status postgres_list_outgoing(void *store, int64_t outbox,
                                           const semel_outgoing_filter *filter,
                                           semel_outgoing_visitor *visitor, void *context,
                                           semel_error *err)
{
    outgoing_target to = {visitor, context};
    pg_list list = {.which = ST_LIST_OUTGOING,
                    .bind = bind_outgoing,
                    .scope = outbox,
                    .filter = filter,
                    .show = show_outgoing,
                    .context = &to};
    return pg_run_list(store, &list, err);
}

/* --- what was sent ---------------------------------------------------------------------------- */

static void bind_sent(pg_query *q, int64_t outbox, const void *filter)
{
    const semel_sent_filter *wanted = filter;
    pg_int(q, outbox);
    pg_int(q, wanted->after_ms);
    pg_int(q, wanted->after_seq);
    pg_int(q, wanted->limit);
}

static semel_status show_sent(const PGresult *answer, int row, mem_arena *arena, void *context,
                              semel_error *err)
{
    const outgoing_target *to = context;
    (void)arena;
    semel_message message = {.size = sizeof message,
                             .group = pg_answer_text(answer, row, 4),
                             .id = pg_answer_bytes(answer, row, 5),
                             .type = pg_answer_text(answer, row, 6),
                             .topic = pg_answer_text(answer, row, 7),
                             .correlation_id = pg_answer_bytes(answer, row, 8)};
    semel_outgoing outgoing = {.size = sizeof outgoing,
                               .seq = pg_answer_int(answer, row, 0),
                               .message = &message,
                               .attempts = (uint32_t)pg_answer_int(answer, row, 1),
                               .captured_ms = pg_answer_int(answer, row, 2),
                               .error = "",
                               .sent_ms = pg_answer_int(answer, row, 3)};
    return to->visitor(&outgoing, to->context, err);
}

static semel_status postgres_list_sent(void *store, int64_t outbox, const semel_sent_filter *filter,
                                       semel_outgoing_visitor *visitor, void *context,
                                       semel_error *err)
{
    outgoing_target to = {visitor, context};
    pg_list list = {.which = filter->newest_first ? ST_LIST_SENT_BACK : ST_LIST_SENT,
                    .bind = bind_sent,
                    .scope = outbox,
                    .filter = filter,
                    .show = show_sent,
                    .context = &to};
    return pg_run_list(store, &list, err);
}

static semel_status postgres_sweep_sent(void *unit, int64_t outbox, int64_t cutoff_ms,
                                        uint32_t rows, size_t *removed, semel_error *err)
{
    pg_query q = pg_unit_query(unit, ST_SENT_SWEEP);
    pg_int(&q, outbox);
    pg_int(&q, cutoff_ms);
    pg_int(&q, rows);
    return pg_execute_change(&q, removed, "forgetting what was sent", err);
}

const semel_store_lists postgres_lists = {
    .markers = postgres_list_markers,
    .outgoing = postgres_list_outgoing,
    .sent = postgres_list_sent,
    .sweep_sent = postgres_sweep_sent,
};
