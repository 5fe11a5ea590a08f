/* What operators ask for: names, messages that are sent now or not at all, the audit, processes.
 *
 * Entries of the audit and rows of processes are prepared by the unit and take effect when it
 * commits: none waits for another, and the last one that commits wins. */
#include "base/mem.h"
#include "store/memory/memory_internal.h"

#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

static const char *name_at(const memory_store *store, semel_scope kind, size_t index)
{
    if (kind == SEMEL_SCOPE_INBOX)
        return store->inboxes[index]->kind == kind ? store->inboxes[index]->name : NULL;
    const memory_outbox *outbox = store->outboxes[index];
    return memory_outbox_kind(outbox) == kind ? memory_outbox_name(outbox) : NULL;
}

/* The first name behind `after`; NULL: there is none. */
static const char *next_name(const memory_store *store, semel_scope kind, const char *after)
{
    size_t count = kind == SEMEL_SCOPE_INBOX ? store->inbox_count : store->outbox_count;
    const char *next = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = name_at(store, kind, i);
        if (name && strcmp(name, after) > 0 && (!next || strcmp(name, next) < 0))
            next = name;
    }
    return next;
}

static semel_status memory_names(void *state, semel_scope kind, const char *after, uint32_t limit,
                                 semel_name_visitor *visitor, void *context, semel_error *err)
{
    memory_store *store = state;
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&store->lock);
    for (uint32_t i = 0; !status && i < limit && (after = next_name(store, kind, after)); i++) {
        semel_name name = {
            .size = sizeof name, .kind = (semel_name_kind)kind, .name = after, .definition = ""};
        status = visitor(&name, context, err);
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* --- texts ------------------------------------------------------------------------------------ */

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* --- the audit -------------------------------------------------------------------------------- */

struct memory_audit {
    memory_audit *next;
    semel_audit entry; /* its texts are allocated */
};

static void free_entry(memory_audit *audit)
{
    if (!audit)
        return;
    mem_free((char *)audit->entry.who);
    mem_free((char *)audit->entry.what);
    mem_free((char *)audit->entry.result);
    mem_free(audit);
}

static memory_audit *new_entry(const semel_audit *entry)
{
    memory_audit *audit = mem_alloc(sizeof *audit);
    if (!audit)
        return NULL;
    audit->entry = *entry;
    audit->entry.who = copy_text(entry->who);
    audit->entry.what = copy_text(entry->what);
    audit->entry.result = copy_text(entry->result);
    if (audit->entry.who && audit->entry.what && audit->entry.result)
        return audit;
    free_entry(audit);
    return NULL;
}

static memory_audit *find_entry(const memory_store *store, int64_t id)
{
    memory_audit *at = store->first_audit;
    while (at && at->entry.id != id)
        at = at->next;
    return at;
}

static void undo_audit(memory_unit *unit, const memory_record *record)
{
    (void)unit;
    free_entry(record->audit.prepared);
}

/* Ids are given in the order of the calls, which need not be that of the commits. */
static void add_audit(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_audit *prepared = record->audit.prepared, **at = &unit->store->first_audit;
    (void)now_ms;
    while (*at && (*at)->entry.id < prepared->entry.id)
        at = &(*at)->next;
    prepared->next = *at;
    *at = prepared;
}

static void write_audit(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_audit *prepared = record->audit.prepared;
    memory_audit *entry = find_entry(unit->store, prepared->entry.id);
    (void)now_ms;
    if (entry) {
        const char *before = entry->entry.result;
        entry->entry.result = prepared->entry.result;
        entry->entry.count = prepared->entry.count;
        prepared->entry.result = before;
    }
    free_entry(prepared);
}

static const memory_change add_change = {undo_audit, add_audit};
static const memory_change write_change = {undo_audit, write_audit};

static semel_status put_audit(memory_unit *unit, semel_audit *entry, semel_error *err)
{
    memory_store *store = unit->store;
    int is_new = !entry->id;
    if (!is_new && !find_entry(store, entry->id))
        return semel_fail(err, SEMEL_ENOTFOUND, "the audit has no entry %lld",
                          (long long)entry->id);
    memory_record *record = memory_journal_next(unit);
    memory_audit *prepared = record ? new_entry(entry) : NULL;
    if (!prepared)
        return memory_out_of_memory(err);
    if (is_new) {
        prepared->entry.id = entry->id = ++store->last_audit_id;
        prepared->entry.at_ms = entry->at_ms = memory_now_ms(store);
    }
    record->change = is_new ? &add_change : &write_change;
    record->audit.prepared = prepared;
    unit->count++;
    return SEMEL_OK;
}

static semel_status memory_audit_put(void *unit, semel_audit *entry, semel_error *err)
{
    memory_unit *self = unit;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = put_audit(self, entry, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

static int is_wanted(const semel_audit *entry, const semel_audit_filter *filter)
{
    return entry->id > filter->after_id && entry->at_ms >= filter->since_ms &&
           (!filter->until_ms || entry->at_ms < filter->until_ms) &&
           (!filter->who || strcmp(entry->who, filter->who) == 0);
}

static semel_status memory_audit_list(void *state, const semel_audit_filter *filter,
                                      semel_audit_visitor *visitor, void *context, semel_error *err)
{
    memory_store *store = state;
    semel_status status = SEMEL_OK;
    uint32_t left = filter->limit;
    pthread_mutex_lock(&store->lock);
    for (const memory_audit *at = store->first_audit; !status && at && left; at = at->next) {
        if (!is_wanted(&at->entry, filter))
            continue;
        status = visitor(&at->entry, context, err);
        left--;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* --- processes -------------------------------------------------------------------------------- */

struct memory_process {
    memory_process *next;
    semel_process process; /* its texts are allocated */
};

static void free_process(memory_process *row)
{
    if (!row)
        return;
    mem_free((char *)row->process.id);
    mem_free((char *)row->process.host);
    mem_free((char *)row->process.socket);
    mem_free((char *)row->process.data);
    mem_free(row);
}

static memory_process *new_process(const semel_process *process)
{
    memory_process *row = mem_alloc(sizeof *row);
    if (!row)
        return NULL;
    row->process = *process;
    row->process.id = copy_text(process->id);
    row->process.host = copy_text(process->host);
    row->process.socket = copy_text(process->socket);
    row->process.data = copy_text(process->data);
    if (row->process.id && row->process.host && row->process.socket && row->process.data)
        return row;
    free_process(row);
    return NULL;
}

static void undo_process(memory_unit *unit, const memory_record *record)
{
    (void)unit;
    free_process(record->process.prepared);
}

/* Removes the row with this id, and those that were last seen before the cutoff. */
static void remove_rows(memory_store *store, const char *id, int64_t cutoff_ms)
{
    memory_process **at = &store->first_process;
    while (*at) {
        memory_process *row = *at;
        if (strcmp(row->process.id, id) != 0 && row->process.seen_ms >= cutoff_ms) {
            at = &row->next;
            continue;
        }
        *at = row->next;
        free_process(row);
    }
}

static void put_process(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_process *prepared = record->process.prepared, **at = &unit->store->first_process;
    prepared->process.seen_ms = now_ms;
    remove_rows(unit->store, prepared->process.id, INT64_MIN);
    while (*at && strcmp((*at)->process.id, prepared->process.id) < 0)
        at = &(*at)->next;
    prepared->next = *at;
    *at = prepared;
}

static void remove_process(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_process *prepared = record->process.prepared;
    (void)now_ms;
    remove_rows(unit->store, prepared->process.id, record->process.cutoff_ms);
    free_process(prepared);
}

static const memory_change process_put_change = {undo_process, put_process};
static const memory_change process_remove_change = {undo_process, remove_process};

static semel_status record_process(memory_unit *unit, const memory_change *change,
                                   const semel_process *process, int64_t cutoff_ms,
                                   semel_error *err)
{
    pthread_mutex_lock(&unit->store->lock);
    memory_record *record = memory_journal_next(unit);
    memory_process *prepared = record ? new_process(process) : NULL;
    if (prepared) {
        record->change = change;
        record->process.prepared = prepared;
        record->process.cutoff_ms = cutoff_ms;
        unit->count++;
    }
    pthread_mutex_unlock(&unit->store->lock);
    return prepared ? SEMEL_OK : memory_out_of_memory(err);
}

static semel_status memory_process_put(void *unit, const semel_process *process, semel_error *err)
{
    return record_process(unit, &process_put_change, process, INT64_MIN, err);
}

static semel_status memory_process_remove(void *unit, const char *id, int64_t cutoff_ms,
                                          semel_error *err)
{
    semel_process named = {.size = sizeof named, .id = id, .host = "", .socket = "", .data = ""};
    return record_process(unit, &process_remove_change, &named, cutoff_ms, err);
}

static semel_status memory_process_list(void *state, semel_process_visitor *visitor, void *context,
                                        semel_error *err)
{
    memory_store *store = state;
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&store->lock);
    for (const memory_process *at = store->first_process; !status && at; at = at->next)
        status = visitor(&at->process, context, err);
    pthread_mutex_unlock(&store->lock);
    return status;
}

void memory_operation_free(memory_store *store)
{
    for (memory_audit *at = store->first_audit, *next; at; at = next) {
        next = at->next;
        free_entry(at);
    }
    for (memory_process *at = store->first_process, *next; at; at = next) {
        next = at->next;
        free_process(at);
    }
}

const semel_store_operation memory_operation = {
    .names = memory_names,
    .wake = memory_wake,
    .remove = memory_remove,
    .set_retry = memory_dead_set_retry,
    .audit_put = memory_audit_put,
    .audit_list = memory_audit_list,
    .process_put = memory_process_put,
    .process_remove = memory_process_remove,
    .process_list = memory_process_list,
};
