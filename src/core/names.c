/* The names that a store knows, and what its inboxes were opened as.
 *
 * The names are read by pages and kept; then the definition of each inbox is read and shown. A name
 * is in the store for ever once it is, so there is nothing to lock. */
#include "core/operate.h"

#include <string.h>

enum { PAGE_ROWS = 1000 };

typedef struct name_copy {
    struct name_copy *next;
    char *name;
} name_copy;

typedef struct name_copies {
    mem_arena arena;
    name_copy *first;
    name_copy **end;
    const char *last; /* name */
    uint32_t seen;    /* of the page */
} name_copies;

static semel_status keep_name(const semel_name *name, void *context, semel_error *err)
{
    name_copies *all = context;
    name_copy *copy = arena_alloc(&all->arena, sizeof *copy);
    if (copy)
        *copy = (name_copy){.name = arena_copy(&all->arena, name->name, strlen(name->name))};
    if (!copy || !copy->name)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a list of names");
    *all->end = copy;
    all->end = &copy->next;
    all->last = copy->name;
    all->seen++;
    return SEMEL_OK;
}

static semel_status read_names(name_copies *all, const semel_store *store, semel_scope kind,
                               semel_error *err)
{
    semel_status status;
    all->end = &all->first;
    all->last = "";
    do {
        all->seen = 0;
        status = store_operation(store)->names(store->state, kind, all->last, PAGE_ROWS, keep_name,
                                               all, err);
    } while (!status && all->seen == PAGE_ROWS);
    return status;
}

typedef struct definition {
    int64_t inbox;
    semel_note_value note;
} definition;

static semel_status read_definition(work_unit *unit, void *context, semel_error *err)
{
    definition *d = context;
    return unit->store->driver->notes->read(unit->state, d->inbox, SEMEL_NOTE_DEFINITION,
                                            SEMEL_NOTE_UNLOCKED, &d->note, err);
}

static semel_status find_definition(definition *out, semel_store *store, const char *inbox,
                                    semel_error *err)
{
    const semel_store_driver *driver = store->driver;
    out->note.text[0] = 0;
    if (!driver->notes)
        return SEMEL_OK;
    semel_status status = driver->scope(store->state, SEMEL_SCOPE_INBOX, inbox, &out->inbox, err);
    if (!status)
        status = operate_change(store, SEMEL_BEGIN_RELAXED, read_definition, out, err);
    if (!status)
        inbox_definition_show(&out->note);
    return status;
}

static semel_status show_names(const name_copies *all, semel_store *store, semel_name_kind kind,
                               semel_name_visitor *visitor, void *context, semel_error *err)
{
    definition d = {.note.text = ""};
    semel_status status = SEMEL_OK;
    for (const name_copy *at = all->first; !status && at; at = at->next) {
        if (kind == SEMEL_NAME_INBOX)
            status = find_definition(&d, store, at->name, err);
        semel_name name = {
            .size = sizeof name, .kind = kind, .name = at->name, .definition = d.note.text};
        if (!status)
            status = visitor(&name, context, err);
    }
    return status;
}

semel_status semel_store_names(semel_store *store, semel_name_kind kind,
                               semel_name_visitor *visitor, void *context, semel_error *err)
{
    name_copies all = {.first = NULL};
    if (kind < SEMEL_NAME_INBOX || kind > SEMEL_NAME_QUEUE)
        return semel_fail(err, SEMEL_EINVAL, "semel_name_kind: there is no choice %d", (int)kind);
    if (!store_operation(store)->names)
        return operate_refuse(store, "list names", err);
    semel_status status = read_names(&all, store, (semel_scope)kind, err);
    if (!status)
        status = show_names(&all, store, kind, visitor, context, err);
    arena_free(&all.arena);
    return status;
}
