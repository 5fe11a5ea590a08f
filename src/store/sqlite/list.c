/* Lists, on the reading connection: they keep no writer waiting and wait for none. See the lists of
 * <semel/sys/store.h>. */
#include "store/sqlite/sqlite.h"

static semel_status show_rows(sqlite_store *store, const sqlite_list *list, semel_error *err)
{
    mem_arena arena = {0};
    semel_status status = SEMEL_OK;
    int got = 0;
    sqlite_query q = sqlite_query_start(&store->reader, list->which);
    list->bind(&q, list->scope, list->filter);
    while (!status && (got = sqlite_query_row(&q, "listing", err)) > 0) {
        status = list->show(&q, store, &arena, list->context, err);
        arena_reset(&arena);
    }
    sqlite_query_end(&q);
    arena_free(&arena);
    return got < 0 ? q.status : status;
}

/* Looking up one key must not cost more than the key: reading what the tables are takes ten times
 * as long. That they are usable is known from the first time, as it is for units. */
static semel_status check_schema(sqlite_store *store, const sqlite_list *list, semel_error *err)
{
    if (store->reader_checked && list->which == ST_LIST_MARKER)
        return SEMEL_OK;
    semel_status status = sqlite_schema_check(&store->reader, err);
    store->reader_checked = !status;
    return status;
}

semel_status sqlite_list_run(sqlite_store *store, const sqlite_list *list, semel_error *err)
{
    semel_status status = sqlite_reader_enter(store, err);
    if (status)
        return status;
    status = check_schema(store, list, err);
    if (!status)
        status = show_rows(store, list, err);
    sqlite_reader_leave(store);
    return status;
}

/* --- markers ---------------------------------------------------------------------------------- */

static void bind_markers(sqlite_query *q, int64_t inbox, const void *filter)
{
    const semel_marker_filter *wanted = filter;
    sqlite_query_int(q, wanted->results);
    sqlite_query_int(q, inbox);
    if (wanted->key.len) {
        sqlite_query_bytes(q, wanted->key);
        return;
    }
    sqlite_query_bytes(q, wanted->after.len ? wanted->after : (semel_bytes){"", 0});
    sqlite_query_int(q, wanted->limit);
}

typedef struct marker_target {
    semel_marker_visitor *visitor;
    void *context;
} marker_target;

static semel_status show_marker(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                                void *context, semel_error *err)
{
    const marker_target *to = context;
    int64_t lease_until_ms = sqlite_row_is_null(q, 3) ? 0 : sqlite_row_int(q, 4);
    int live = lease_until_ms > sqlite_clock_now(store);
    (void)arena;
    semel_marker marker = {.size = sizeof marker,
                           .key = sqlite_row_bytes(q, 0),
                           .state = sql_marker_shown((int)sqlite_row_int(q, 1), live),
                           .attempts = (uint32_t)sqlite_row_int(q, 2),
                           .first_ms = sqlite_row_int(q, 5),
                           .last_ms = sqlite_row_int(q, 6),
                           .lease_until_ms = live ? lease_until_ms : 0,
                           .error = sqlite_row_text(q, 7),
                           .has_result = sqlite_row_int(q, 8) != 0,
                           .result = sqlite_row_bytes(q, 9),
                           .type = sqlite_row_text(q, 10),
                           .source = sqlite_row_text(q, 11),
                           .received_ms = sqlite_row_int(q, 12)};
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a marker's text");
    return to->visitor(&marker, to->context, err);
}

static semel_status sqlite_list_markers(void *store, int64_t inbox,
                                        const semel_marker_filter *filter,
                                        semel_marker_visitor *visitor, void *context,
                                        semel_error *err)
{
    marker_target to = {visitor, context};
    sqlite_list list = {.which = filter->key.len ? ST_LIST_MARKER : ST_LIST_MARKERS,
                        .bind = bind_markers,
                        .scope = inbox,
                        .filter = filter,
                        .show = show_marker,
                        .context = &to};
    return sqlite_list_run(store, &list, err);
}

/* --- outgoing messages ------------------------------------------------------------------------ */

typedef struct outgoing_target {
    semel_outgoing_visitor *visitor;
    void *context;
} outgoing_target;

static void bind_outgoing(sqlite_query *q, int64_t outbox, const void *filter)
{
    const semel_outgoing_filter *wanted = filter;
    sqlite_query_int(q, wanted->contents);
    sqlite_query_int(q, outbox);
    sqlite_query_int(q, wanted->after_seq);
    sqlite_query_int(q, wanted->limit);
}

semel_status sqlite_outgoing_show(const sqlite_query *q, const sqlite_store *store,
                                  mem_arena *arena, semel_outgoing_visitor *visitor, void *context,
                                  semel_error *err)
{
    enum { COLUMN_MESSAGE = 7 };
    semel_message message;
    semel_error damage;
    semel_outgoing outgoing = {.size = sizeof outgoing,
                               .seq = sqlite_row_int(q, 0),
                               .attempts = (uint32_t)sqlite_row_int(q, 1),
                               .refusals = (uint32_t)sqlite_row_int(q, 2),
                               .captured_ms = sqlite_row_int(q, 3),
                               .due_ms = sqlite_row_int(q, 4),
                               .error = sqlite_row_text(q, 6)};
    outgoing.leased = sqlite_row_int(q, 5) && outgoing.due_ms > sqlite_clock_now(store);
    semel_status status = sqlite_message_read(&message, arena, q, COLUMN_MESSAGE, &damage);
    status = sql_outgoing_complete(&outgoing, &message, status, &damage, err);
    return status ? status : visitor(&outgoing, context, err);
}

static semel_status show_outgoing(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                                  void *context, semel_error *err)
{
    const outgoing_target *to = context;
    return sqlite_outgoing_show(q, store, arena, to->visitor, to->context, err);
}

static semel_status sqlite_list_outgoing(void *store, int64_t outbox,
                                         const semel_outgoing_filter *filter,
                                         semel_outgoing_visitor *visitor, void *context,
                                         semel_error *err)
{
    outgoing_target to = {visitor, context};
    sqlite_list list = {.which = ST_LIST_OUTGOING,
                        .bind = bind_outgoing,
                        .scope = outbox,
                        .filter = filter,
                        .show = show_outgoing,
                        .context = &to};
    return sqlite_list_run(store, &list, err);
}

/* --- what was sent ---------------------------------------------------------------------------- */

static void bind_sent(sqlite_query *q, int64_t outbox, const void *filter)
{
    const semel_sent_filter *wanted = filter;
    sqlite_query_int(q, outbox);
    sqlite_query_int(q, wanted->after_ms);
    sqlite_query_int(q, wanted->after_seq);
    sqlite_query_int(q, wanted->limit);
}

static semel_status show_sent(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                              void *context, semel_error *err)
{
    const outgoing_target *to = context;
    (void)store;
    (void)arena;
    semel_message message = {.size = sizeof message,
                             .group = sqlite_row_text(q, 4),
                             .id = sqlite_row_bytes(q, 5),
                             .type = sqlite_row_text(q, 6),
                             .topic = sqlite_row_text(q, 7),
                             .correlation_id = sqlite_row_bytes(q, 8)};
    semel_outgoing outgoing = {.size = sizeof outgoing,
                               .seq = sqlite_row_int(q, 0),
                               .message = &message,
                               .attempts = (uint32_t)sqlite_row_int(q, 1),
                               .captured_ms = sqlite_row_int(q, 2),
                               .error = "",
                               .sent_ms = sqlite_row_int(q, 3)};
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's text");
    return to->visitor(&outgoing, to->context, err);
}

static semel_status sqlite_list_sent(void *store, int64_t outbox, const semel_sent_filter *filter,
                                     semel_outgoing_visitor *visitor, void *context,
                                     semel_error *err)
{
    outgoing_target to = {visitor, context};
    sqlite_list list = {.which = filter->newest_first ? ST_LIST_SENT_BACK : ST_LIST_SENT,
                        .bind = bind_sent,
                        .scope = outbox,
                        .filter = filter,
                        .show = show_sent,
                        .context = &to};
    return sqlite_list_run(store, &list, err);
}

static semel_status sqlite_sweep_sent(void *unit_state, int64_t outbox, int64_t cutoff_ms,
                                      uint32_t rows, size_t *removed, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int changed = 0;
    sqlite_query q = sqlite_query_start(unit->on, ST_SENT_SWEEP);
    sqlite_query_int(&q, outbox);
    sqlite_query_int(&q, cutoff_ms);
    sqlite_query_int(&q, rows);
    semel_status status = sqlite_query_run(&q, &changed, "forgetting what was sent", err);
    if (!status)
        *removed = (size_t)changed;
    return status;
}

const semel_store_lists sqlite_lists = {
    .markers = sqlite_list_markers,
    .outgoing = sqlite_list_outgoing,
    .sent = sqlite_list_sent,
    .sweep_sent = sqlite_sweep_sent,
};
