/* What tools for operators need: names, messages that are due now or not at all, retries of dead
 * letters, audit, running processes. See the operation of <semel/sys/store.h>.
 *
 * A message that waits, and one that others wait for, may be parked with its group, and semel_group
 * then says when the group is visited (outbox_lease.c). So waking or removing a message makes its
 * group due as well. The unit has the group's lock meanwhile: a relay that has read the rows before
 * would otherwise note the old time. And the group is made due by a statement that begins after the
 * rows were locked, because a relay that settles one of them may have added the group just before.
 * All of it is one transaction: a process that dies leaves what was before. */
#include "store/sql/operation.h"
#include "store/postgres/postgres.h"

/* --- names ------------------------------------------------------------------------------------ */

static void bind_names(pg_query *q, int64_t kind, const void *filter)
{
    const sql_name_page *page = filter;
    pg_int(q, kind);
    pg_text(q, page->after);
    pg_int(q, page->limit);
}

static semel_status show_name(const PGresult *answer, int row, mem_arena *arena, void *context,
                              semel_error *err)
{
    const sql_name_target *to = context;
    (void)arena;
    semel_name name = {.size = sizeof name,
                       .kind = (semel_name_kind)to->kind,
                       .name = pg_answer_text(answer, row, 0),
                       .definition = ""};
    return to->visitor(&name, to->context, err);
}

static semel_status postgres_names(void *store, semel_scope kind, const char *after, uint32_t limit,
                                   semel_name_visitor *visitor, void *context, semel_error *err)
{
    sql_name_page page = {sql_text_or_empty(after), limit};
    sql_name_target to = {visitor, context, kind};
    pg_list list = {.which = ST_NAMES,
                    .bind = bind_names,
                    .scope = kind,
                    .filter = &page,
                    .show = show_name,
                    .context = &to};
    return pg_run_list(store, &list, err);
}

/* --- messages that wait ----------------------------------------------------------------------- */

static int bind_seqs(pg_query *q, mem_arena *arena, const int64_t seqs[], size_t count)
{
    pg_array a = pg_array_start(arena, ARRAY_INT8, count, count * 8);
    for (size_t i = 0; i < count; i++)
        pg_array_add_int(&a, seqs[i]);
    pg_array_bind(q, &a);
    return !a.failed;
}

/* The groups of the rows, each as often as it occurs. *groups is how many these are. */
static int bind_groups(pg_query *q, mem_arena *arena, const PGresult *rows, size_t *groups)
{
    size_t size = 0;
    *groups = 0;
    for (int row = 0; row < PQntuples(rows); row++) {
        size += pg_answer_bytes(rows, row, 0).len;
        *groups += pg_answer_text(rows, row, 0) != NULL;
    }
    pg_array a = pg_array_start(arena, ARRAY_TEXT, *groups, size);
    for (int row = 0; row < PQntuples(rows); row++) {
        semel_bytes group = pg_answer_bytes(rows, row, 0);
        if (group.data)
            pg_array_add(&a, group.data, group.len);
    }
    pg_array_bind(q, &a);
    return !a.failed;
}

static semel_status make_groups_due(postgres_unit *unit, int64_t outbox, const PGresult *rows,
                                    semel_error *err)
{
    size_t groups, ignored;
    pg_query q = pg_unit_query(unit, ST_GROUPS_DUE);
    pg_int(&q, outbox);
    if (!bind_groups(&q, &unit->on->scratch, rows, &groups))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for groups of messages");
    return groups ? pg_execute_change(&q, &ignored, "making groups of messages due", err)
                  : SEMEL_OK;
}

/* Each row of the answer is one that was changed, with its group. */
static semel_status change_rows(PGresult **rows, postgres_unit *unit, pg_statement which,
                                int64_t outbox, const int64_t seqs[], size_t count,
                                semel_error *err)
{
    mem_arena *arena = &unit->on->scratch;
    pg_query lock = pg_unit_query(unit, ST_GROUPS_LOCK);
    pg_query change = pg_start(unit->on, which);
    pg_int(&lock, outbox);
    pg_int(&change, outbox);
    if (!bind_seqs(&lock, arena, seqs, count) || !bind_seqs(&change, arena, seqs, count))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu messages", count);
    pg_enqueue(&lock);
    return pg_execute(rows, &change, "changing messages that wait", err);
}

static semel_status change_waiting(postgres_unit *unit, pg_statement which, int64_t outbox,
                                   const int64_t seqs[], size_t count, size_t *changed,
                                   semel_error *err)
{
    PGresult *rows = NULL;
    semel_status status = change_rows(&rows, unit, which, outbox, seqs, count, err);
    if (!status)
        status = make_groups_due(unit, outbox, rows, err);
    if (!status) {
        *changed = (size_t)PQntuples(rows);
        unit->captured |= *changed > 0; /* relays in other processes are to look */
    }
    PQclear(rows);
    return status;
}

static semel_status postgres_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                                  size_t *changed, semel_error *err)
{
    return change_waiting(unit, ST_OUTBOX_WAKE, outbox, seqs, count, changed, err);
}

static semel_status postgres_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                                    size_t *changed, semel_error *err)
{
    return change_waiting(unit, ST_OUTBOX_DROP, outbox, seqs, count, changed, err);
}

/* --- retries of dead letters ------------------------------------------------------------------ */

static semel_status postgres_set_retry(void *unit_state, int64_t id, semel_retry from,
                                       semel_retry to, const char *error, semel_error *err)
{
    postgres_unit *unit = unit_state;
    size_t changed = 0;
    pg_query q = pg_unit_query(unit, ST_DEAD_SET_RETRY);
    pg_int(&q, id);
    pg_int(&q, from);
    pg_int(&q, to);
    pg_foreign_text(&q, &unit->on->scratch, error);
    semel_status status = pg_execute_change(&q, &changed, "noting a retry", err);
    return status || changed ? status : sql_retry_missed(id, err);
}

/* --- audit ------------------------------------------------------------------------------------ */

static semel_status add_entry(postgres_unit *unit, semel_audit *entry, semel_error *err)
{
    mem_arena *arena = &unit->on->scratch;
    PGresult *answer = NULL;
    pg_query q = pg_unit_query(unit, ST_AUDIT_ADD);
    pg_foreign_text(&q, arena, sql_text_or_empty(entry->who));
    pg_foreign_text(&q, arena, sql_text_or_empty(entry->what));
    pg_foreign_text(&q, arena, sql_text_or_empty(entry->result));
    pg_int(&q, (int64_t)entry->count);
    semel_status status = pg_execute(&answer, &q, "adding an audit entry", err);
    if (!status) {
        entry->id = pg_answer_int(answer, 0, 0);
        entry->at_ms = pg_answer_int(answer, 0, 1);
    }
    PQclear(answer);
    return status;
}

static semel_status postgres_audit_put(void *unit_state, semel_audit *entry, semel_error *err)
{
    postgres_unit *unit = unit_state;
    size_t changed = 0;
    if (!entry->id)
        return add_entry(unit, entry, err);
    pg_query q = pg_unit_query(unit, ST_AUDIT_SET);
    pg_int(&q, entry->id);
    pg_foreign_text(&q, &unit->on->scratch, sql_text_or_empty(entry->result));
    pg_int(&q, (int64_t)entry->count);
    semel_status status = pg_execute_change(&q, &changed, "writing an audit entry", err);
    return status || changed ? status : sql_audit_missed(entry->id, err);
}

static void bind_audit(pg_query *q, int64_t scope, const void *filter)
{
    const semel_audit_filter *wanted = filter;
    (void)scope;
    pg_int(q, wanted->after_id);
    pg_int(q, wanted->since_ms);
    pg_int(q, wanted->until_ms);
    pg_foreign_text(q, &q->on->scratch, wanted->who);
    pg_int(q, wanted->limit);
}

static semel_status show_entry(const PGresult *answer, int row, mem_arena *arena, void *context,
                               semel_error *err)
{
    const sql_audit_target *to = context;
    (void)arena;
    semel_audit entry = {.size = sizeof entry,
                         .id = pg_answer_int(answer, row, 0),
                         .at_ms = pg_answer_int(answer, row, 1),
                         .who = pg_answer_text(answer, row, 2),
                         .what = pg_answer_text(answer, row, 3),
                         .result = pg_answer_text(answer, row, 4),
                         .count = (uint64_t)pg_answer_int(answer, row, 5)};
    return to->visitor(&entry, to->context, err);
}

static semel_status postgres_audit_list(void *store, const semel_audit_filter *filter,
                                        semel_audit_visitor *visitor, void *context,
                                        semel_error *err)
{
    sql_audit_target to = {visitor, context};
    pg_list list = {.which = ST_AUDIT_LIST,
                    .bind = bind_audit,
                    .filter = filter,
                    .show = show_entry,
                    .context = &to};
    return pg_run_list(store, &list, err);
}

/* --- running processes ------------------------------------------------------------------------ */

static semel_status postgres_process_put(void *unit_state, const semel_process *process,
                                         semel_error *err)
{
    postgres_unit *unit = unit_state;
    mem_arena *arena = &unit->on->scratch;
    size_t ignored;
    pg_query q = pg_unit_query(unit, ST_PROCESS_PUT);
    pg_foreign_text(&q, arena, process->id);
    pg_foreign_text(&q, arena, sql_text_or_empty(process->host));
    pg_int(&q, process->pid);
    pg_int(&q, process->started_ms);
    pg_foreign_text(&q, arena, sql_text_or_empty(process->socket));
    pg_foreign_text(&q, arena, sql_text_or_empty(process->data));
    return pg_execute_change(&q, &ignored, "noting a running process", err);
}

static semel_status postgres_process_remove(void *unit_state, const char *id, int64_t cutoff_ms,
                                            semel_error *err)
{
    postgres_unit *unit = unit_state;
    size_t ignored;
    pg_query q = pg_unit_query(unit, ST_PROCESS_REMOVE);
    pg_foreign_text(&q, &unit->on->scratch, sql_text_or_empty(id));
    pg_int(&q, cutoff_ms);
    return pg_execute_change(&q, &ignored, "removing processes that have ended", err);
}

static void bind_nothing(pg_query *q, int64_t scope, const void *filter)
{
    (void)q;
    (void)scope;
    (void)filter;
}

static semel_status show_process(const PGresult *answer, int row, mem_arena *arena, void *context,
                                 semel_error *err)
{
    const sql_process_target *to = context;
    (void)arena;
    semel_process process = {.size = sizeof process,
                             .id = pg_answer_text(answer, row, 0),
                             .host = pg_answer_text(answer, row, 1),
                             .pid = pg_answer_int(answer, row, 2),
                             .started_ms = pg_answer_int(answer, row, 3),
                             .seen_ms = pg_answer_int(answer, row, 4),
                             .socket = pg_answer_text(answer, row, 5),
                             .data = pg_answer_text(answer, row, 6)};
    return to->visitor(&process, to->context, err);
}

static semel_status postgres_process_list(void *store, semel_process_visitor *visitor,
                                          void *context, semel_error *err)
{
    sql_process_target to = {visitor, context};
    pg_list list = {
        .which = ST_PROCESS_LIST, .bind = bind_nothing, .show = show_process, .context = &to};
    return pg_run_list(store, &list, err);
}

const semel_store_operation postgres_operation = {
    .names = postgres_names,
    .wake = postgres_wake,
    .remove = postgres_remove,
    .set_retry = postgres_set_retry,
    .audit_put = postgres_audit_put,
    .audit_list = postgres_audit_list,
    .process_put = postgres_process_put,
    .process_remove = postgres_process_remove,
    .process_list = postgres_process_list,
};
