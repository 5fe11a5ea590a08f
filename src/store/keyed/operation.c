/* What operators ask for: names, messages that are sent now or not at all, the audit, processes.
 *
 * A row of a process and an entry of the audit are read before they are written: the commit expects
 * what was found. If two write the same one, the core does the later unit again. */
#include "store/keyed/letter.h"
#include "store/keyed/names.h"
#include "store/keyed/outbox.h"
#include "store/keyed/set.h"

#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

typedef struct name_list {
    semel_scope kind;
    semel_name_visitor *visitor;
    void *context;
} name_list;

static semel_status show_name(const char *name, int64_t number, void *context, semel_error *err)
{
    const name_list *list = context;
    semel_name shown = {
        .size = sizeof shown, .kind = (semel_name_kind)list->kind, .name = name, .definition = ""};
    (void)number;
    return list->visitor(&shown, list->context, err);
}

static semel_status keyed_list_names(void *state, semel_scope kind, const char *after,
                                     uint32_t limit, semel_name_visitor *visitor, void *context,
                                     semel_error *err)
{
    name_list list = {kind, visitor, context};
    semel_status status = keyed_check_process(state, err);
    return status ? status : keyed_names_each(state, kind, after, limit, show_name, &list, err);
}

/* --- texts ------------------------------------------------------------------------------------ */

static int take_text(const char **out, const fields_reader *at, mem_arena *arena)
{
    *out = arena_copy(arena, at->bytes.data, at->bytes.len);
    return *out != NULL;
}

/* --- the audit -------------------------------------------------------------------------------- */

enum { AUDIT_AT = 1, AUDIT_WHO, AUDIT_WHAT, AUDIT_RESULT, AUDIT_COUNT };

static int take_audit_field(semel_audit *out, const fields_reader *at, mem_arena *arena)
{
    switch (at->field) {
    case AUDIT_AT:
        out->at_ms = fields_int_of(at);
        return 1;
    case AUDIT_WHO:
        return take_text(&out->who, at, arena);
    case AUDIT_WHAT:
        return take_text(&out->what, at, arena);
    case AUDIT_RESULT:
        return take_text(&out->result, at, arena);
    case AUDIT_COUNT:
        out->count = (uint64_t)fields_int_of(at);
        return 1;
    default:
        return 1;
    }
}

/* An entry that is damaged is shown as far as it can be read. */
static semel_status read_audit(semel_audit *out, const semel_keyed_record *record, mem_arena *arena,
                               semel_error *err)
{
    fields_reader reader = {.rest = record->value};
    *out = (semel_audit){.size = sizeof *out, .who = "", .what = "", .result = ""};
    if (record->key.len == KEYED_NUMBER_LEN)
        out->id = keyed_number_read(record->key.data);
    while (fields_next(&reader))
        if (!take_audit_field(out, &reader, arena))
            return keyed_out_of_memory(err);
    return SEMEL_OK;
}

static semel_status write_audit(keyed_unit *unit, const keyed_row *found, const semel_audit *entry,
                                semel_error *err)
{
    keyed_space space = keyed_space_plain('a');
    unsigned char key[KEYED_NUMBER_LEN];
    fields_writer writer = {.arena = &unit->arena};
    semel_keyed_record now = {.space = keyed_space_bytes(&space), .key = {key, sizeof key}};
    keyed_number_write(key, entry->id);
    fields_int(&writer, AUDIT_AT, entry->at_ms);
    fields_text(&writer, AUDIT_WHO, entry->who);
    fields_text(&writer, AUDIT_WHAT, entry->what);
    fields_text(&writer, AUDIT_RESULT, entry->result);
    fields_int(&writer, AUDIT_COUNT, (int64_t)entry->count);
    if (!fields_end(&now.value, &writer))
        return keyed_out_of_memory(err);
    return keyed_set(unit, found ? &found->record : NULL, &now, 0, err);
}

static semel_status replace_audit(keyed_unit *unit, const semel_audit *entry, semel_error *err)
{
    keyed_space space = keyed_space_plain('a');
    unsigned char key[KEYED_NUMBER_LEN];
    keyed_row *found = NULL;
    semel_audit now;
    keyed_number_write(key, entry->id);
    semel_status status = keyed_unit_get(&found, unit, keyed_space_bytes(&space),
                                         (semel_bytes){key, sizeof key}, 0, err);
    if (status)
        return status;
    if (!found)
        return semel_fail(err, SEMEL_ENOTFOUND, "the audit has no entry %lld",
                          (long long)entry->id);
    status = read_audit(&now, &found->record, &unit->arena, err);
    now.result = entry->result;
    now.count = entry->count;
    return status ? status : write_audit(unit, found, &now, err);
}

static semel_status keyed_audit_put(void *state, semel_audit *entry, semel_error *err)
{
    keyed_unit *unit = state;
    if (entry->id)
        return replace_audit(unit, entry, err);
    semel_audit now = *entry;
    semel_status status = keyed_now(unit->store, &now.at_ms, NULL, err);
    if (!status)
        status = keyed_next_number(unit->store, 'a', &now.id, err);
    if (!status)
        status = write_audit(unit, NULL, &now, err);
    if (status)
        return status;
    entry->id = now.id;
    entry->at_ms = now.at_ms;
    return SEMEL_OK;
}

typedef struct audit_list {
    const semel_audit_filter *filter;
    semel_audit_visitor *visitor;
    void *context;
} audit_list;

static semel_status visit_audit(const semel_keyed_record *record, void *context, uint32_t *left,
                                semel_error *err)
{
    const audit_list *list = context;
    const semel_audit_filter *filter = list->filter;
    mem_arena arena = {NULL, NULL};
    semel_audit entry;
    semel_status status = read_audit(&entry, record, &arena, err);
    if (!status && entry.at_ms >= filter->since_ms &&
        (!filter->until_ms || entry.at_ms < filter->until_ms) &&
        (!filter->who || strcmp(entry.who, filter->who) == 0)) {
        --*left;
        status = list->visitor(&entry, list->context, err);
    }
    arena_free(&arena);
    return status;
}

static semel_status keyed_audit_list(void *state, const semel_audit_filter *filter,
                                     semel_audit_visitor *visitor, void *context, semel_error *err)
{
    keyed_space space = keyed_space_plain('a');
    unsigned char after[KEYED_NUMBER_LEN];
    audit_list list = {filter, visitor, context};
    semel_keyed_range range = {.space = keyed_space_bytes(&space), .limit = filter->limit};
    if (filter->after_id > 0) {
        keyed_number_write(after, filter->after_id);
        range.after = (semel_bytes){after, sizeof after};
    }
    semel_status status = keyed_check_process(state, err);
    return status ? status : keyed_list(state, NULL, &range, visit_audit, &list, err);
}

/* --- processes -------------------------------------------------------------------------------- */

enum { PROCESS_HOST = 1, PROCESS_PID, PROCESS_STARTED, PROCESS_SEEN, PROCESS_SOCKET, PROCESS_DATA };

static int take_process_field(semel_process *out, const fields_reader *at, mem_arena *arena)
{
    switch (at->field) {
    case PROCESS_HOST:
        return take_text(&out->host, at, arena);
    case PROCESS_PID:
        out->pid = fields_int_of(at);
        return 1;
    case PROCESS_STARTED:
        out->started_ms = fields_int_of(at);
        return 1;
    case PROCESS_SEEN:
        out->seen_ms = fields_int_of(at);
        return 1;
    case PROCESS_SOCKET:
        return take_text(&out->socket, at, arena);
    case PROCESS_DATA:
        return take_text(&out->data, at, arena);
    default:
        return 1;
    }
}

static semel_status read_process(semel_process *out, const semel_keyed_record *record,
                                 mem_arena *arena, semel_error *err)
{
    fields_reader reader = {.rest = record->value};
    *out = (semel_process){.size = sizeof *out,
                           .id = arena_copy(arena, record->key.data, record->key.len),
                           .host = "",
                           .socket = "",
                           .data = ""};
    int is_complete = out->id != NULL;
    while (is_complete && fields_next(&reader))
        is_complete = take_process_field(out, &reader, arena);
    return is_complete ? SEMEL_OK : keyed_out_of_memory(err);
}

static semel_status write_process(keyed_unit *unit, const keyed_row *found, semel_bytes key,
                                  const semel_process *process, semel_error *err)
{
    keyed_space space = keyed_space_plain('p');
    fields_writer writer = {.arena = &unit->arena};
    semel_keyed_record now = {.space = keyed_space_bytes(&space), .key = key};
    fields_text(&writer, PROCESS_HOST, process->host);
    fields_int(&writer, PROCESS_PID, process->pid);
    fields_int(&writer, PROCESS_STARTED, process->started_ms);
    fields_int(&writer, PROCESS_SEEN, process->seen_ms);
    fields_text(&writer, PROCESS_SOCKET, process->socket);
    fields_text(&writer, PROCESS_DATA, process->data);
    if (!fields_end(&now.value, &writer))
        return keyed_out_of_memory(err);
    return keyed_set(unit, found ? &found->record : NULL, &now, 0, err);
}

static semel_status keyed_process_put(void *state, const semel_process *process, semel_error *err)
{
    keyed_unit *unit = state;
    keyed_space space = keyed_space_plain('p');
    semel_process now = *process;
    keyed_row *found = NULL;
    semel_status status = keyed_now(unit->store, &now.seen_ms, NULL, err);
    if (!status)
        status =
            keyed_unit_get(&found, unit, keyed_space_bytes(&space), semel_str(process->id), 0, err);
    return status ? status : write_process(unit, found, semel_str(process->id), &now, err);
}

typedef struct process_sweep {
    keyed_unit *unit;
    semel_bytes id;
    int64_t cutoff_ms;
} process_sweep;

static semel_status sweep_process(const semel_keyed_record *record, void *context, uint32_t *left,
                                  semel_error *err)
{
    process_sweep *sweep = context;
    mem_arena arena = {NULL, NULL};
    semel_process process;
    semel_status status = read_process(&process, record, &arena, err);
    if (!status && (keyed_same(record->key, sweep->id) || process.seen_ms < sweep->cutoff_ms)) {
        --*left;
        status = keyed_unset(sweep->unit, record, err);
    }
    arena_free(&arena);
    return status;
}

/* As many as one apply() takes; the others go the next time. */
static semel_status keyed_process_remove(void *state, const char *id, int64_t cutoff_ms,
                                         semel_error *err)
{
    keyed_unit *unit = state;
    uint32_t most = unit->store->driver->limits.changes_max / 2;
    keyed_space space = keyed_space_plain('p');
    process_sweep sweep = {unit, semel_str(id), cutoff_ms};
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .limit = most ? most : UINT32_MAX};
    return keyed_list(unit->store, unit, &range, sweep_process, &sweep, err);
}

typedef struct process_list {
    semel_process_visitor *visitor;
    void *context;
} process_list;

static semel_status visit_process(const semel_keyed_record *record, void *context, uint32_t *left,
                                  semel_error *err)
{
    const process_list *list = context;
    mem_arena arena = {NULL, NULL};
    semel_process process;
    (void)left;
    semel_status status = read_process(&process, record, &arena, err);
    if (!status)
        status = list->visitor(&process, list->context, err);
    arena_free(&arena);
    return status;
}

static semel_status keyed_process_list(void *state, semel_process_visitor *visitor, void *context,
                                       semel_error *err)
{
    keyed_space space = keyed_space_plain('p');
    process_list list = {visitor, context};
    semel_keyed_range range = {.space = keyed_space_bytes(&space), .limit = UINT32_MAX};
    semel_status status = keyed_check_process(state, err);
    return status ? status : keyed_list(state, NULL, &range, visit_process, &list, err);
}

const semel_store_operation keyed_operation = {
    .names = keyed_list_names,
    .wake = keyed_outbox_wake,
    .remove = keyed_outbox_remove,
    .outgoing = keyed_show_outgoing,
    .set_retry = keyed_dead_set_retry,
    .audit_put = keyed_audit_put,
    .audit_list = keyed_audit_list,
    .process_put = keyed_process_put,
    .process_remove = keyed_process_remove,
    .process_list = keyed_process_list,
};
