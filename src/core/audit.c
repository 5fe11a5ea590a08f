/* The audit: changes that persons made by hand.
 *
 * An entry is written before the change begins, so that a change that was cut short is known, and
 * its result is written when that is known. */
#include "core/operate.h"

typedef struct audit_write {
    semel_audit *entry; /* with texts that a database takes */
    int64_t id;         /* 0: a new one; the driver may have set the entry's in a try before */
} audit_write;

static semel_status put_entry(work_unit *unit, void *context, semel_error *err)
{
    const audit_write *write = context;
    write->entry->id = write->id;
    semel_status status = store_operation(unit->store)->audit_put(unit->state, write->entry, err);
    return status ? status : store_fault(unit->store, "audit.stored", err);
}

static semel_status copy_texts(semel_audit *entry, mem_arena *arena, semel_error *err)
{
    entry->who = operate_text(arena, entry->who, SEMEL_AUDIT_TEXT_MAX);
    entry->what = operate_text(arena, entry->what, SEMEL_AUDIT_TEXT_MAX);
    entry->result = operate_text(arena, entry->result, SEMEL_AUDIT_TEXT_MAX);
    return entry->who && entry->what && entry->result
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory for an entry of the audit");
}

semel_status semel_audit_write(semel_audit *entry, semel_store *store, semel_error *err)
{
    mem_arena arena = {0};
    semel_audit stored;
    audit_write write = {.entry = &stored};
    semel_status status = options_read(&stored, sizeof stored, entry, "semel_audit", err);
    if (!status && !store_operation(store)->audit_put)
        status = operate_refuse(store, "keep an audit", err);
    if (status)
        return status;
    write.id = stored.id;
    status = copy_texts(&stored, &arena, err);
    if (!status)
        status = operate_change(store, SEMEL_BEGIN_DURABLE, put_entry, &write, err);
    if (!status && !write.id) {
        entry->id = stored.id;
        entry->at_ms = stored.at_ms;
    }
    arena_free(&arena);
    return status ? status : store_fault(store, "audit.committed", err);
}

/* --- listing ---------------------------------------------------------------------------------- */

typedef struct audit_page {
    mem_arena arena;
    semel_audit *entries;
    uint32_t room;
    uint32_t count;
} audit_page;

static semel_status keep_entry(const semel_audit *entry, void *context, semel_error *err)
{
    audit_page *page = context;
    if (page->count == page->room)
        return SEMEL_OK;
    semel_audit *copy = &page->entries[page->count++];
    *copy = *entry;
    copy->size = sizeof *copy;
    return copy_texts(copy, &page->arena, err);
}

static semel_status audit_filter_read(semel_audit_filter *out, const semel_audit_filter *given,
                                      semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_audit_filter", err);
    if (!out->limit)
        out->limit = SEMEL_PAGE_DEFAULT;
    if (!status && out->limit > SEMEL_PAGE_MAX)
        status =
            semel_fail(err, SEMEL_ELIMIT, "semel_audit_filter.limit is %u; SEMEL_PAGE_MAX is %d",
                       out->limit, SEMEL_PAGE_MAX);
    return status;
}

semel_status semel_audit_list(semel_store *store, const semel_audit_filter *filter,
                              semel_audit_visitor *visitor, void *context, semel_error *err)
{
    audit_page page = {.count = 0};
    semel_audit_filter wanted;
    semel_status status = audit_filter_read(&wanted, filter, err);
    if (!status && !store_operation(store)->audit_list)
        status = operate_refuse(store, "keep an audit", err);
    if (status)
        return status;
    page.room = wanted.limit;
    page.entries = arena_alloc(&page.arena, page.room * sizeof *page.entries);
    if (!page.entries)
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory for the audit");
    if (!status)
        status = store_operation(store)->audit_list(store->state, &wanted, keep_entry, &page, err);
    for (uint32_t i = 0; !status && i < page.count; i++)
        status = visitor(&page.entries[i], context, err);
    arena_free(&page.arena);
    return status;
}
