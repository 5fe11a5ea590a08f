/* Lists: plain reads on a connection of the pool, each one statement without a transaction around
 * it, so that none has to be ended. They take no locks and wait for none, whatever the isolation of
 * units is: even at SERIALIZABLE the server does not lock what such a statement reads. See the
 * lists of <semel/sys/store.h>. */
#include "store/mariadb/mariadb.h"

semel_status maria_run_list(mariadb_store *store, const maria_list *list, semel_error *err)
{
    maria_connection *on = NULL;
    semel_status status = maria_borrow_looking(&on, store, err);
    if (status)
        return status;
    maria_query q = maria_enqueue(on, list->which);
    list->bind(&q, list->scope, list->filter);
    maria_step *s = maria_end(&q);
    s->call = list->show;
    s->context = list->context;
    status = maria_flush(on, NULL, "listing", err);
    if (status)
        on->mode = MODE_UNKNOWN; /* whether it was set is not known */
    maria_give_back(store, on);
    return status;
}

/* --- markers ---------------------------------------------------------------------------------- */

static void bind_markers(maria_query *q, int64_t inbox, const void *filter)
{
    const semel_marker_filter *wanted = filter;
    maria_int(q, wanted->results != 0);
    maria_int(q, inbox);
    if (wanted->key.len) {
        maria_bytes(q, wanted->key);
        return;
    }
    maria_bytes(q, wanted->after.len ? wanted->after : (semel_bytes){"", 0});
    maria_int(q, wanted->limit);
}

typedef struct marker_target {
    semel_marker_visitor *visitor;
    void *context;
} marker_target;

static semel_status show_marker(const maria_row *r, void *context, semel_error *err)
{
    const marker_target *to = context;
    int live = (int)maria_column_int(r, 3);
    semel_marker marker = {.size = sizeof marker,
                           .key = maria_column_bytes(r, 0),
                           .state = sql_marker_shown((int)maria_column_int(r, 1), live),
                           .attempts = (uint32_t)maria_column_int(r, 2),
                           .first_ms = maria_column_int(r, 5),
                           .last_ms = maria_column_int(r, 6),
                           .lease_until_ms = live ? maria_column_int(r, 4) : 0,
                           .error = maria_column_text(r, 7),
                           .has_result = maria_column_int(r, 8) != 0,
                           .result = maria_column_bytes(r, 9),
                           .type = maria_column_text(r, 10),
                           .source = maria_column_text(r, 11),
                           .received_ms = maria_column_int(r, 12)};
    return to->visitor(&marker, to->context, err);
}

static semel_status mariadb_list_markers(void *store, int64_t inbox,
                                         const semel_marker_filter *filter,
                                         semel_marker_visitor *visitor, void *context,
                                         semel_error *err)
{
    marker_target to = {visitor, context};
    maria_list list = {.which = filter->key.len ? ST_LIST_MARKER : ST_LIST_MARKERS,
                       .bind = bind_markers,
                       .scope = inbox,
                       .filter = filter,
                       .show = show_marker,
                       .context = &to};
    return maria_run_list(store, &list, err);
}

/* --- outgoing messages ------------------------------------------------------------------------ */

typedef struct outgoing_target {
    semel_outgoing_visitor *visitor;
    void *context;
} outgoing_target;

static void bind_outgoing(maria_query *q, int64_t outbox, const void *filter)
{
    const semel_outgoing_filter *wanted = filter;
    maria_int(q, wanted->contents != 0);
    maria_int(q, wanted->contents != 0);
    maria_int(q, outbox);
    maria_int(q, wanted->after_seq);
    maria_int(q, wanted->limit);
}

static semel_status show_outgoing(const maria_row *r, void *context, semel_error *err)
{
    enum { COLUMN_MESSAGE = 7 };
    const outgoing_target *to = context;
    mem_arena arena = {0};
    semel_message message;
    semel_error damage;
    semel_outgoing outgoing = {.size = sizeof outgoing,
                               .seq = maria_column_int(r, 0),
                               .attempts = (uint32_t)maria_column_int(r, 1),
                               .refusals = (uint32_t)maria_column_int(r, 2),
                               .captured_ms = maria_column_int(r, 3),
                               .due_ms = maria_column_int(r, 4),
                               .leased = (int)maria_column_int(r, 5),
                               .error = maria_column_text(r, 6)};
    semel_status status = maria_message_read(&message, &arena, r, COLUMN_MESSAGE, &damage);
    status = sql_outgoing_complete(&outgoing, &message, status, &damage, err);
    if (!status)
        status = to->visitor(&outgoing, to->context, err);
    arena_free(&arena);
    return status;
}

static semel_status mariadb_list_outgoing(void *store, int64_t outbox,
                                          const semel_outgoing_filter *filter,
                                          semel_outgoing_visitor *visitor, void *context,
                                          semel_error *err)
{
    outgoing_target to = {visitor, context};
    maria_list list = {.which = ST_LIST_OUTGOING,
                       .bind = bind_outgoing,
                       .scope = outbox,
                       .filter = filter,
                       .show = show_outgoing,
                       .context = &to};
    return maria_run_list(store, &list, err);
}

/* --- what was sent ---------------------------------------------------------------------------- */

static void bind_sent(maria_query *q, int64_t outbox, const void *filter)
{
    const semel_sent_filter *wanted = filter;
    maria_int(q, outbox);
    maria_int(q, wanted->after_ms);
    maria_int(q, wanted->after_ms);
    maria_int(q, wanted->after_seq);
    maria_int(q, wanted->limit);
}

static semel_status show_sent(const maria_row *r, void *context, semel_error *err)
{
    const outgoing_target *to = context;
    semel_message message = {.size = sizeof message,
                             .group = maria_column_text(r, 4),
                             .id = maria_column_bytes(r, 5),
                             .type = maria_column_text(r, 6),
                             .topic = maria_column_text(r, 7),
                             .correlation_id = maria_column_bytes(r, 8)};
    semel_outgoing outgoing = {.size = sizeof outgoing,
                               .seq = maria_column_int(r, 0),
                               .message = &message,
                               .attempts = (uint32_t)maria_column_int(r, 1),
                               .captured_ms = maria_column_int(r, 2),
                               .error = "",
                               .sent_ms = maria_column_int(r, 3)};
    return to->visitor(&outgoing, to->context, err);
}

static semel_status mariadb_list_sent(void *store, int64_t outbox, const semel_sent_filter *filter,
                                      semel_outgoing_visitor *visitor, void *context,
                                      semel_error *err)
{
    outgoing_target to = {visitor, context};
    maria_list list = {.which = filter->newest_first ? ST_LIST_SENT_BACK : ST_LIST_SENT,
                       .bind = bind_sent,
                       .scope = outbox,
                       .filter = filter,
                       .show = show_sent,
                       .context = &to};
    return maria_run_list(store, &list, err);
}

static semel_status mariadb_sweep_sent(void *unit_state, int64_t outbox, int64_t cutoff_ms,
                                       uint32_t rows, size_t *removed, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_reply answer = {0};
    maria_query q = maria_unit_enqueue(unit, ST_SENT_SWEEP, maria_patience(unit->store));
    maria_int(&q, outbox);
    maria_int(&q, cutoff_ms);
    maria_uint(&q, rows);
    maria_end(&q)->answer = &answer;
    semel_status status = maria_unit_flush(unit, NULL, "forgetting what was sent", err);
    unit->wrote |= answer.changed > 0;
    if (!status)
        *removed = (size_t)answer.changed;
    return status;
}

const semel_store_lists mariadb_lists = {
    .markers = mariadb_list_markers,
    .outgoing = mariadb_list_outgoing,
    .sent = mariadb_list_sent,
    .sweep_sent = mariadb_sweep_sent,
};
