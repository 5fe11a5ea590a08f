/* Processes that say that they are running. A row says nothing that cannot be said again, so it is
 * written without waiting for the disk; a process that died is known by its age. */
#include "core/operate.h"

#include "base/utf8.h"

#include <string.h>

static semel_status check_process(const semel_process *process, semel_error *err)
{
    const char *data = process->data ? process->data : "";
    size_t id = process->id ? strlen(process->id) : 0;
    if (!id || id > SEMEL_NAME_MAX)
        return semel_fail(err, SEMEL_EINVAL, "semel_process.id: it needs 1 to %zu characters",
                          SEMEL_NAME_MAX);
    if (strlen(data) > SEMEL_PROCESS_DATA_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_process.data has %zu bytes; SEMEL_PROCESS_DATA_MAX is %zu",
                          strlen(data), SEMEL_PROCESS_DATA_MAX);
    return utf8_valid(data, strlen(data))
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EINVAL, "semel_process.data is not UTF-8");
}

static semel_status copy_process(semel_process *process, mem_arena *arena, semel_error *err)
{
    process->id = operate_text(arena, process->id, SEMEL_NAME_MAX);
    process->host = operate_text(arena, process->host, SEMEL_TEXT_MAX);
    process->socket = operate_text(arena, process->socket, SEMEL_TEXT_MAX);
    process->data = operate_text(arena, process->data, SEMEL_PROCESS_DATA_MAX);
    return process->id && process->host && process->socket && process->data
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory for the row of a process");
}

static semel_status put_process(work_unit *unit, void *context, semel_error *err)
{
    return store_operation(unit->store)->process_put(unit->state, context, err);
}

semel_status semel_process_write(const semel_process *process, semel_store *store, semel_error *err)
{
    mem_arena arena = {0};
    semel_process stored;
    semel_status status = options_read(&stored, sizeof stored, process, "semel_process", err);
    if (!status)
        status = check_process(&stored, err);
    if (!status && !store_operation(store)->process_put)
        status = operate_refuse(store, "keep a list of processes", err);
    if (!status)
        status = copy_process(&stored, &arena, err);
    if (!status)
        status = operate_change(store, SEMEL_BEGIN_RELAXED, put_process, &stored, err);
    arena_free(&arena);
    return status;
}

/* --- removing --------------------------------------------------------------------------------- */

typedef struct process_removal {
    const char *id;
    int64_t cutoff_ms;
} process_removal;

static semel_status remove_process(work_unit *unit, void *context, semel_error *err)
{
    const process_removal *removal = context;
    return store_operation(unit->store)
        ->process_remove(unit->state, removal->id, removal->cutoff_ms, err);
}

semel_status semel_process_remove(semel_store *store, const char *id, uint64_t older_than_ms,
                                  semel_error *err)
{
    int64_t now;
    process_removal removal = {.id = id ? id : ""};
    if (!store_operation(store)->process_remove)
        return operate_refuse(store, "keep a list of processes", err);
    semel_status status = semel_store_now(&now, store, err);
    if (status)
        return status;
    removal.cutoff_ms =
        older_than_ms < (uint64_t)INT64_MAX ? now - (int64_t)older_than_ms : INT64_MIN;
    return operate_change(store, SEMEL_BEGIN_RELAXED, remove_process, &removal, err);
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct process_copy {
    struct process_copy *next;
    semel_process process;
} process_copy;

typedef struct process_copies {
    mem_arena arena;
    process_copy *first;
    process_copy **end;
} process_copies;

static semel_status keep_process(const semel_process *process, void *context, semel_error *err)
{
    process_copies *all = context;
    process_copy *copy = arena_alloc(&all->arena, sizeof *copy);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a list of processes");
    *copy = (process_copy){.process = *process};
    copy->process.size = sizeof copy->process;
    *all->end = copy;
    all->end = &copy->next;
    return copy_process(&copy->process, &all->arena, err);
}

semel_status semel_process_list(semel_store *store, semel_process_visitor *visitor, void *context,
                                semel_error *err)
{
    process_copies all = {.first = NULL};
    all.end = &all.first;
    if (!store_operation(store)->process_list)
        return operate_refuse(store, "keep a list of processes", err);
    semel_status status =
        store_operation(store)->process_list(store->state, keep_process, &all, err);
    for (const process_copy *at = all.first; !status && at; at = at->next)
        status = visitor(&at->process, context, err);
    arena_free(&all.arena);
    return status;
}
