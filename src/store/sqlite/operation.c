/* What operators ask for: names, messages that are sent now or not at all, the audit, processes.
 *
 * A message that is woken or removed may be the first of a group whose rows are parked
 * (outbox_lease.c): the relay comes to such a group when semel_group says that it is due. So the
 * group is made due now, and the next relay finds the message, or the one behind it. A group that
 * is not parked has no row there, and is found by its name. */
#include "store/sqlite/sqlite.h"

/* --- names ------------------------------------------------------------------------------------ */

typedef struct name_page {
    semel_scope kind;
    const char *after;
    uint32_t limit;
    semel_name_visitor *visitor;
    void *context;
} name_page;

static void bind_names(sqlite_query *q, int64_t scope, const void *filter)
{
    const name_page *page = filter;
    (void)scope;
    sqlite_query_int(q, page->kind);
    sqlite_query_text(q, page->after);
    sqlite_query_int(q, page->limit);
}

static semel_status show_name(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                              void *context, semel_error *err)
{
    const name_page *page = context;
    semel_name name = {.size = sizeof name,
                       .kind = (semel_name_kind)page->kind,
                       .name = sqlite_row_text(q, 0),
                       .definition = ""};
    (void)store;
    (void)arena;
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a name");
    return page->visitor(&name, page->context, err);
}

static semel_status sqlite_names(void *store, semel_scope kind, const char *after, uint32_t limit,
                                 semel_name_visitor *visitor, void *context, semel_error *err)
{
    name_page page = {kind, after, limit, visitor, context};
    sqlite_list list = {.which = ST_NAMES,
                        .bind = bind_names,
                        .filter = &page,
                        .show = show_name,
                        .context = &page};
    return sqlite_list_run(store, &list, err);
}

/* --- messages that wait ----------------------------------------------------------------------- */

/* One statement for one row; both have the same parameters. */
static semel_status change_row(sqlite_unit *unit, sqlite_statement how, int64_t outbox, int64_t seq,
                               int *changed, semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, how);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    sqlite_query_int(&q, seq);
    sqlite_query_int(&q, outbox);
    return sqlite_query_run(&q, changed, "changing an outgoing message", err);
}

static semel_status change_rows(sqlite_unit *unit, sqlite_statement how, int64_t outbox,
                                const int64_t seqs[], size_t count, size_t *changed,
                                semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t sum = 0;
    for (size_t i = 0; !status && i < count; i++) {
        int hastened = 0, rows = 0;
        status = change_row(unit, ST_GROUP_HASTEN, outbox, seqs[i], &hastened, err);
        if (!status)
            status = change_row(unit, how, outbox, seqs[i], &rows, err);
        sum += (size_t)rows;
    }
    if (!status)
        *changed = sum;
    return status;
}

static semel_status sqlite_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                                size_t *changed, semel_error *err)
{
    return change_rows(unit, ST_OUTBOX_WAKE, outbox, seqs, count, changed, err);
}

static semel_status sqlite_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                                  size_t *changed, semel_error *err)
{
    return change_rows(unit, ST_OUTBOX_DISCARD, outbox, seqs, count, changed, err);
}

static semel_status sqlite_outgoing(void *unit_state, int64_t outbox, int64_t seq,
                                    semel_outgoing_visitor *visitor, void *context,
                                    semel_error *err)
{
    sqlite_unit *unit = unit_state;
    mem_arena arena = {0};
    semel_status status = SEMEL_OK;
    sqlite_query q = sqlite_query_start(unit->on, ST_OUTBOX_READ);
    sqlite_query_int(&q, outbox);
    sqlite_query_int(&q, seq);
    int got = sqlite_query_row(&q, "reading an outgoing message", err);
    if (got > 0)
        status = sqlite_outgoing_show(&q, unit->store, &arena, visitor, context, err);
    sqlite_query_end(&q);
    arena_free(&arena);
    return got < 0 ? q.status : status;
}

/* --- the audit -------------------------------------------------------------------------------- */

static semel_status add_entry(sqlite_unit *unit, semel_audit *entry, semel_error *err)
{
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_AUDIT_ADD);
    sqlite_query_int(&q, now);
    sqlite_query_text(&q, entry->who);
    sqlite_query_text(&q, entry->what);
    sqlite_query_text(&q, entry->result);
    sqlite_query_int(&q, (int64_t)entry->count);
    semel_status status = sqlite_query_run(&q, NULL, "writing the audit", err);
    if (!status) {
        entry->id = sqlite3_last_insert_rowid(unit->on->db);
        entry->at_ms = now;
    }
    return status;
}

static semel_status sqlite_audit_put(void *unit_state, semel_audit *entry, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int changed = 0;
    if (!entry->id)
        return add_entry(unit, entry, err);
    sqlite_query q = sqlite_query_start(unit->on, ST_AUDIT_WRITE);
    sqlite_query_text(&q, entry->result);
    sqlite_query_int(&q, (int64_t)entry->count);
    sqlite_query_int(&q, entry->id);
    semel_status status = sqlite_query_run(&q, &changed, "writing the audit", err);
    return status || changed ? status : sql_audit_missed(entry->id, err);
}

static void bind_audit(sqlite_query *q, int64_t scope, const void *filter)
{
    const semel_audit_filter *wanted = filter;
    (void)scope;
    sqlite_query_int(q, wanted->after_id);
    sqlite_query_int(q, wanted->since_ms);
    sqlite_query_int(q, wanted->until_ms);
    sqlite_query_text(q, wanted->who);
    sqlite_query_int(q, wanted->limit);
}

typedef struct audit_target {
    semel_audit_visitor *visitor;
    void *context;
} audit_target;

static semel_status show_entry(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                               void *context, semel_error *err)
{
    const audit_target *to = context;
    semel_audit entry = {.size = sizeof entry,
                         .id = sqlite_row_int(q, 0),
                         .at_ms = sqlite_row_int(q, 1),
                         .who = sqlite_row_text(q, 2),
                         .what = sqlite_row_text(q, 3),
                         .result = sqlite_row_text(q, 4),
                         .count = (uint64_t)sqlite_row_int(q, 5)};
    (void)store;
    (void)arena;
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for the audit");
    return to->visitor(&entry, to->context, err);
}

static semel_status sqlite_audit_list(void *store, const semel_audit_filter *filter,
                                      semel_audit_visitor *visitor, void *context, semel_error *err)
{
    audit_target to = {visitor, context};
    sqlite_list list = {.which = ST_AUDIT_LIST,
                        .bind = bind_audit,
                        .filter = filter,
                        .show = show_entry,
                        .context = &to};
    return sqlite_list_run(store, &list, err);
}

/* --- processes -------------------------------------------------------------------------------- */

static semel_status sqlite_process_put(void *unit_state, const semel_process *process,
                                       semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sqlite_query q = sqlite_query_start(unit->on, ST_PROCESS_PUT);
    sqlite_query_text(&q, process->id);
    sqlite_query_text(&q, process->host);
    sqlite_query_int(&q, process->pid);
    sqlite_query_int(&q, process->started_ms);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    sqlite_query_text(&q, process->socket);
    sqlite_query_text(&q, process->data);
    return sqlite_query_run(&q, NULL, "noting that a process is running", err);
}

static semel_status sqlite_process_remove(void *unit_state, const char *id, int64_t cutoff_ms,
                                          semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sqlite_query q = sqlite_query_start(unit->on, ST_PROCESS_REMOVE);
    sqlite_query_text(&q, id);
    sqlite_query_int(&q, cutoff_ms);
    return sqlite_query_run(&q, NULL, "removing the row of a process", err);
}

static void bind_nothing(sqlite_query *q, int64_t scope, const void *filter)
{
    (void)q;
    (void)scope;
    (void)filter;
}

typedef struct process_target {
    semel_process_visitor *visitor;
    void *context;
} process_target;

static semel_status show_process(const sqlite_query *q, sqlite_store *store, mem_arena *arena,
                                 void *context, semel_error *err)
{
    const process_target *to = context;
    semel_process process = {.size = sizeof process,
                             .id = sqlite_row_text(q, 0),
                             .host = sqlite_row_text(q, 1),
                             .pid = sqlite_row_int(q, 2),
                             .started_ms = sqlite_row_int(q, 3),
                             .seen_ms = sqlite_row_int(q, 4),
                             .socket = sqlite_row_text(q, 5),
                             .data = sqlite_row_text(q, 6)};
    (void)store;
    (void)arena;
    if (sqlite_row_lost(q))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for the row of a process");
    return to->visitor(&process, to->context, err);
}

static semel_status sqlite_process_list(void *store, semel_process_visitor *visitor, void *context,
                                        semel_error *err)
{
    process_target to = {visitor, context};
    sqlite_list list = {
        .which = ST_PROCESS_LIST, .bind = bind_nothing, .show = show_process, .context = &to};
    return sqlite_list_run(store, &list, err);
}

const semel_store_operation sqlite_operation = {
    .names = sqlite_names,
    .wake = sqlite_wake,
    .remove = sqlite_remove,
    .outgoing = sqlite_outgoing,
    .set_retry = sqlite_dead_set_retry,
    .audit_put = sqlite_audit_put,
    .audit_list = sqlite_audit_list,
    .process_put = sqlite_process_put,
    .process_remove = sqlite_process_remove,
    .process_list = sqlite_process_list,
};
