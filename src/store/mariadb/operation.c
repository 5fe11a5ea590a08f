/* What tools for operators need: names, retries of dead letters, audit, running processes. Messages
 * that are due now or not at all are in outbox_change.c. See the operation of <semel/sys/store.h>.
 *
 * The server counts the rows that a statement has changed, not those that it has found. Where it
 * matters whether a row is there, the row is locked first, by the condition under which it is
 * changed. */
#include "store/sql/operation.h"

#include "store/mariadb/mariadb.h"

#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

static void bind_names(maria_query *q, int64_t kind, const void *filter)
{
    const sql_name_page *page = filter;
    maria_int(q, kind);
    maria_text(q, page->after);
    maria_uint(q, page->limit);
}

static semel_status show_name(const maria_row *r, void *context, semel_error *err)
{
    const sql_name_target *to = context;
    semel_name name = {.size = sizeof name,
                       .kind = (semel_name_kind)to->kind,
                       .name = maria_column_text(r, 0),
                       .definition = ""};
    return to->visitor(&name, to->context, err);
}

static semel_status mariadb_names(void *store, semel_scope kind, const char *after, uint32_t limit,
                                  semel_name_visitor *visitor, void *context, semel_error *err)
{
    sql_name_page page = {sql_text_or_empty(after), limit};
    sql_name_target to = {visitor, context, kind};
    maria_list list = {.which = ST_NAMES,
                       .bind = bind_names,
                       .scope = kind,
                       .filter = &page,
                       .show = show_name,
                       .context = &to};
    return maria_run_list(store, &list, err);
}

/* --- rows that must be there ------------------------------------------------------------------ */

static semel_status note_found(const maria_row *r, void *context, semel_error *err)
{
    (void)r;
    (void)err;
    *(int *)context = 1;
    return SEMEL_OK;
}

/* *found is 1 once the answer to this statement, which locks the row, is read. */
static void end_lock(maria_query *q, int *found)
{
    maria_step *s = maria_end(q);
    s->call = note_found;
    s->context = found;
}

/* --- retries of dead letters ------------------------------------------------------------------ */

static void write_retry(maria_query *q, int64_t id, semel_retry from, semel_retry to)
{
    maria_int(q, id);
    maria_int(q, to);
    maria_int(q, from);
}

static semel_status mariadb_set_retry(void *unit_state, int64_t id, semel_retry from,
                                      semel_retry to, const char *error, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    int found = 0, failed = to == SEMEL_RETRY_FAILED;
    maria_query q = maria_unit_enqueue(unit, ST_DEAD_LOCK_RETRY, maria_patience(unit->store));
    write_retry(&q, id, from, to);
    end_lock(&q, &found);
    q = maria_unit_enqueue(unit, ST_DEAD_SET_RETRY, maria_patience(unit->store));
    maria_int(&q, to);
    maria_int(&q, failed);
    maria_int(&q, failed);
    maria_text(&q, error);
    maria_int(&q, failed);
    write_retry(&q, id, from, to);
    (void)maria_end(&q);
    semel_status status = maria_unit_flush(unit, NULL, "noting a retry", err);
    unit->wrote |= found;
    return status || found ? status : sql_retry_missed(id, err);
}

/* --- audit ------------------------------------------------------------------------------------ */

static size_t text_size(const char *text)
{
    return 2 * strlen(sql_text_or_empty(text)) + 4;
}

static semel_status note_added(const maria_row *r, void *context, semel_error *err)
{
    semel_audit *entry = context;
    (void)err;
    entry->id = maria_column_int(r, 0);
    entry->at_ms = maria_column_int(r, 1);
    return SEMEL_OK;
}

static semel_status add_entry(mariadb_unit *unit, semel_audit *entry, semel_error *err)
{
    maria_query q = maria_unit_enqueue(unit, ST_AUDIT_ADD, maria_patience(unit->store));
    maria_text(&q, sql_text_or_empty(entry->who));
    maria_text(&q, sql_text_or_empty(entry->what));
    maria_text(&q, sql_text_or_empty(entry->result));
    maria_uint(&q, entry->count);
    (void)maria_end(&q);
    q = maria_unit_enqueue(unit, ST_AUDIT_ADDED, maria_patience(unit->store));
    maria_step *s = maria_end(&q);
    s->call = note_added;
    s->context = entry;
    unit->wrote = 1;
    return maria_unit_flush(unit, NULL, "adding an audit entry", err);
}

static semel_status set_entry(mariadb_unit *unit, const semel_audit *entry, semel_error *err)
{
    int found = 0;
    maria_query q = maria_unit_enqueue(unit, ST_AUDIT_LOCK, maria_patience(unit->store));
    maria_int(&q, entry->id);
    end_lock(&q, &found);
    q = maria_unit_enqueue(unit, ST_AUDIT_SET, maria_patience(unit->store));
    maria_text(&q, sql_text_or_empty(entry->result));
    maria_uint(&q, entry->count);
    maria_int(&q, entry->id);
    (void)maria_end(&q);
    unit->wrote = 1;
    semel_status status = maria_unit_flush(unit, NULL, "writing an audit entry", err);
    return status || found ? status : sql_audit_missed(entry->id, err);
}

static semel_status mariadb_audit_put(void *unit, semel_audit *entry, semel_error *err)
{
    enum { OTHER_TEXT = 512 };
    size_t size =
        OTHER_TEXT + text_size(entry->who) + text_size(entry->what) + text_size(entry->result);
    semel_status status = maria_unit_make_room(unit, size, err);
    if (status)
        return status;
    return entry->id ? set_entry(unit, entry, err) : add_entry(unit, entry, err);
}

static void bind_audit(maria_query *q, int64_t scope, const void *filter)
{
    const semel_audit_filter *wanted = filter;
    (void)scope;
    maria_int(q, wanted->after_id);
    maria_int(q, wanted->since_ms);
    maria_int(q, wanted->until_ms);
    maria_int(q, wanted->until_ms);
    maria_text(q, wanted->who);
    maria_text(q, wanted->who);
    maria_uint(q, wanted->limit);
}

static semel_status show_entry(const maria_row *r, void *context, semel_error *err)
{
    const sql_audit_target *to = context;
    semel_audit entry = {.size = sizeof entry,
                         .id = maria_column_int(r, 0),
                         .at_ms = maria_column_int(r, 1),
                         .who = maria_column_text(r, 2),
                         .what = maria_column_text(r, 3),
                         .result = maria_column_text(r, 4),
                         .count = maria_column_uint(r, 5)};
    return to->visitor(&entry, to->context, err);
}

static semel_status mariadb_audit_list(void *store, const semel_audit_filter *filter,
                                       semel_audit_visitor *visitor, void *context,
                                       semel_error *err)
{
    sql_audit_target to = {visitor, context};
    maria_list list = {.which = ST_AUDIT_LIST,
                       .bind = bind_audit,
                       .filter = filter,
                       .show = show_entry,
                       .context = &to};
    return maria_run_list(store, &list, err);
}

/* --- running processes ------------------------------------------------------------------------ */

static semel_status mariadb_process_put(void *unit_state, const semel_process *process,
                                        semel_error *err)
{
    enum { OTHER_TEXT = 1024 };
    mariadb_unit *unit = unit_state;
    size_t size = OTHER_TEXT + text_size(process->id) + text_size(process->host) +
                  text_size(process->socket) + text_size(process->data);
    semel_status status = maria_unit_make_room(unit, size, err);
    if (status)
        return status;
    maria_query q = maria_unit_enqueue(unit, ST_PROCESS_PUT, maria_patience(unit->store));
    maria_text(&q, process->id);
    maria_text(&q, sql_text_or_empty(process->host));
    maria_int(&q, process->pid);
    maria_int(&q, process->started_ms);
    maria_text(&q, sql_text_or_empty(process->socket));
    maria_text(&q, sql_text_or_empty(process->data));
    (void)maria_end(&q);
    unit->wrote = 1;
    return maria_unit_flush(unit, NULL, "noting a running process", err);
}

/* The processes that are to be removed, as the statement that does it grows. */
typedef struct removal {
    mariadb_unit *unit;
    const char *ids[LIST_MAX];
    size_t count;
} removal;

static semel_status note_silent(const maria_row *r, void *context, semel_error *err)
{
    removal *all = context;
    semel_bytes id = maria_column_bytes(r, 0);
    if (all->count == LIST_MAX) /* the next call finds the others */
        return SEMEL_OK;
    const char *copy = arena_copy(&all->unit->on->scratch, id.data, id.len);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for running processes");
    all->ids[all->count++] = copy;
    return SEMEL_OK;
}

static void enqueue_removal(const removal *all)
{
    maria_query q =
        maria_unit_enqueue(all->unit, ST_PROCESS_REMOVE, maria_patience(all->unit->store));
    for (size_t i = 0; i < all->count; i++) {
        if (i)
            maria_more(&q, "?");
        maria_text(&q, all->ids[i]);
    }
    (void)maria_end(&q);
}

static semel_status mariadb_process_remove(void *unit, const char *id, int64_t cutoff_ms,
                                           semel_error *err)
{
    removal all = {.unit = unit, .ids = {sql_text_or_empty(id)}, .count = 1};
    maria_query q =
        maria_unit_enqueue(all.unit, ST_PROCESS_SILENT, maria_patience(all.unit->store));
    maria_int(&q, cutoff_ms);
    maria_step *s = maria_end(&q);
    s->call = note_silent;
    s->context = &all;
    semel_status status = maria_unit_flush(unit, NULL, "looking for processes", err);
    if (status)
        return status;
    enqueue_removal(&all);
    all.unit->wrote = 1;
    return maria_unit_flush(unit, NULL, "removing processes that have ended", err);
}

static void bind_nothing(maria_query *q, int64_t scope, const void *filter)
{
    (void)q;
    (void)scope;
    (void)filter;
}

static semel_status show_process(const maria_row *r, void *context, semel_error *err)
{
    const sql_process_target *to = context;
    semel_process process = {.size = sizeof process,
                             .id = maria_column_text(r, 0),
                             .host = maria_column_text(r, 1),
                             .pid = maria_column_int(r, 2),
                             .started_ms = maria_column_int(r, 3),
                             .seen_ms = maria_column_int(r, 4),
                             .socket = maria_column_text(r, 5),
                             .data = maria_column_text(r, 6)};
    return to->visitor(&process, to->context, err);
}

static semel_status mariadb_process_list(void *store, semel_process_visitor *visitor, void *context,
                                         semel_error *err)
{
    sql_process_target to = {visitor, context};
    maria_list list = {
        .which = ST_PROCESS_LIST, .bind = bind_nothing, .show = show_process, .context = &to};
    return maria_run_list(store, &list, err);
}

const semel_store_operation mariadb_operation = {
    .names = mariadb_names,
    .wake = mariadb_wake,
    .remove = mariadb_remove,
    .set_retry = mariadb_set_retry,
    .audit_put = mariadb_audit_put,
    .audit_list = mariadb_audit_list,
    .process_put = mariadb_process_put,
    .process_remove = mariadb_process_remove,
    .process_list = mariadb_process_list,
};
