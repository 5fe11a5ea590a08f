/* Looking: <semel/look.h>.
 *
 * A driver shows its rows while it reads them, with its reading connection or its lock in use. The
 * caller's visitor must not run there: it may use the store, and it may take its time. So a page is
 * copied first, and the visitor is called when the driver has returned.
 *
 * Markers have no index by state. A filter by state reads the inbox in steps of a bounded number of
 * rows, each a short transaction, and keeps those that match. */
#include "base/message.h"
#include "core/unit.h"

#include <string.h>

enum { STEP_ROWS = 1000 }; /* that one step of a search by state reads */

static semel_status fail_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a list");
}

static semel_status refuse_list(const semel_store *store, const char *what, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store cannot list %s",
                      store->driver->scheme, what);
}

static semel_status read_limit(uint32_t *limit, const char *filter, semel_error *err)
{
    if (!*limit)
        *limit = SEMEL_PAGE_DEFAULT;
    if (*limit <= SEMEL_PAGE_MAX)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELIMIT, "%s.limit is %u; SEMEL_PAGE_MAX is %d", filter, *limit,
                      SEMEL_PAGE_MAX);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* 0 when out of memory. A text or bytes that are not there stay so. */
static int copy_text(const char **text, mem_arena *arena)
{
    return !*text || (*text = arena_copy(arena, *text, strlen(*text))) != NULL;
}

static int copy_bytes(semel_bytes *bytes, mem_arena *arena)
{
    if (!bytes->data)
        return 1;
    bytes->data = arena_copy(arena, bytes->data, bytes->len);
    return bytes->data != NULL;
}

static int copy_marker(semel_marker *out, mem_arena *arena, const semel_marker *from)
{
    *out = *from;
    out->size = sizeof *out;
    if (!out->error)
        out->error = "";
    return copy_bytes(&out->key, arena) && copy_text(&out->error, arena) &&
           copy_bytes(&out->result, arena) && copy_text(&out->type, arena) &&
           copy_text(&out->source, arena);
}

static int copy_outgoing(semel_outgoing *out, mem_arena *arena, const semel_outgoing *from)
{
    *out = *from;
    out->size = sizeof *out;
    if (!out->error)
        out->error = "";
    if (out->message && !(out->message = message_copy_into(arena, out->message)))
        return 0;
    return copy_text(&out->error, arena);
}

/* --- a page of markers ------------------------------------------------------------------------ */

typedef struct marker_page {
    mem_arena arena;
    semel_marker_state state; /* NONE: all */
    semel_marker *markers;
    uint32_t room;
    uint32_t count;
    uint32_t seen;                /* rows of the last step */
    semel_sweep_position reached; /* the key of the last of them */
    semel_sweep_position from;    /* where the step began: the driver may still read it */
} marker_page;

static semel_status keep_marker(const semel_marker *marker, void *context, semel_error *err)
{
    marker_page *page = context;
    if (page->count == page->room)
        return SEMEL_OK;
    page->seen++;
    if (marker->key.len <= sizeof page->reached.key) {
        memcpy(page->reached.key, marker->key.data, marker->key.len);
        page->reached.len = marker->key.len;
    }
    if (page->state && marker->state != page->state)
        return SEMEL_OK;
    if (!copy_marker(&page->markers[page->count], &page->arena, marker))
        return fail_memory(err);
    page->count++;
    return SEMEL_OK;
}

static semel_status read_markers(marker_page *page, semel_inbox *inbox, semel_marker_filter *filter,
                                 semel_error *err)
{
    const semel_store *store = inbox->store;
    semel_status status;
    page->room = filter->limit;
    page->markers = arena_alloc(&page->arena, page->room * sizeof *page->markers);
    if (!page->markers)
        return fail_memory(err);
    if (page->state)
        filter->limit = STEP_ROWS;
    do {
        page->seen = 0;
        status = store->driver->lists->markers(store->state, inbox->scope, filter, keep_marker,
                                               page, err);
        page->from = page->reached;
        filter->after = (semel_bytes){page->from.key, page->from.len};
    } while (!status && page->state && !filter->key.len && page->seen == STEP_ROWS &&
             page->count < page->room);
    return status;
}

static semel_status visit_markers(const marker_page *page, semel_marker_visitor *visitor,
                                  void *context, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (uint32_t i = 0; !status && i < page->count; i++)
        status = visitor(&page->markers[i], context, err);
    return status;
}

static semel_status marker_filter_read(semel_marker_filter *out, mem_arena *arena,
                                       const semel_marker_filter *given, semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_marker_filter", err);
    if (!status)
        status = read_limit(&out->limit, "semel_marker_filter", err);
    if (!status && (unsigned)out->state > SEMEL_MARKER_DEAD)
        status = semel_fail(err, SEMEL_EINVAL, "semel_marker_filter.state: there is no choice %d",
                            (int)out->state);
    if (!status && out->key.len && !out->key_is_stored)
        status = key_stored(&out->key, arena, out->key, err);
    return status;
}

semel_status semel_inbox_list(semel_inbox *inbox, const semel_marker_filter *filter,
                              semel_marker_visitor *visitor, void *context, semel_error *err)
{
    marker_page page = {.count = 0};
    semel_marker_filter wanted;
    semel_status status = marker_filter_read(&wanted, &page.arena, filter, err);
    if (!status && !inbox->store->driver->lists)
        status = refuse_list(inbox->store, "markers", err);
    if (!status) {
        page.state = wanted.state;
        status = read_markers(&page, inbox, &wanted, err);
    }
    if (!status)
        status = visit_markers(&page, visitor, context, err);
    arena_free(&page.arena);
    return status;
}

/* --- one marker ------------------------------------------------------------------------------- */

/* The marker comes first, so that its address is that of the whole. */
typedef struct found_marker {
    semel_marker marker;
    mem_arena arena;
} found_marker;

void semel_marker_free(semel_marker *marker)
{
    found_marker *found = (found_marker *)marker;
    if (!found)
        return;
    arena_free(&found->arena);
    mem_free(found);
}

static semel_status keep_found(const semel_marker *marker, void *context, semel_error *err)
{
    found_marker *found = context;
    return copy_marker(&found->marker, &found->arena, marker) ? SEMEL_OK : fail_memory(err);
}

/* `key` is as stored. */
static semel_status look_up(semel_marker **out, semel_inbox *inbox, semel_bytes key,
                            semel_error *err)
{
    const semel_store *store = inbox->store;
    semel_marker_filter filter = {.size = sizeof filter, .key = key, .limit = 1, .results = 1};
    semel_marker none = {.size = sizeof none, .key = key, .error = ""};
    if (!store->driver->lists)
        return refuse_list(store, "markers", err);
    found_marker *found = mem_alloc(sizeof *found);
    if (!found)
        return fail_memory(err);
    semel_status status = keep_found(&none, found, err);
    if (!status)
        status = store->driver->lists->markers(store->state, inbox->scope, &filter, keep_found,
                                               found, err);
    if (status)
        semel_marker_free(&found->marker);
    else
        *out = &found->marker;
    return status;
}

semel_status semel_inbox_look_key(semel_marker **out, semel_inbox *inbox, semel_bytes key,
                                  semel_error *err)
{
    mem_arena arena = {0};
    semel_status status = key.len ? key_stored(&key, &arena, key, err)
                                  : semel_fail(err, SEMEL_EINVAL, "an empty key");
    if (!status)
        status = look_up(out, inbox, key, err);
    arena_free(&arena);
    return status;
}

semel_status semel_inbox_look(semel_marker **out, semel_inbox *inbox, const semel_message *message,
                              semel_error *err)
{
    int missing;
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    status = unit_identify(&missing, unit, inbox, message, err);
    if (!status && !unit->item.mark.inbox)
        status =
            semel_fail(err, SEMEL_ENOTFOUND, "inbox \"%s\": the message has no key", inbox->name);
    if (!status)
        status = look_up(out, inbox, unit->item.mark.key, err);
    unit_free(unit);
    return status;
}

/* --- outgoing messages ------------------------------------------------------------------------ */

typedef struct outgoing_page {
    mem_arena arena;
    semel_outgoing *rows;
    uint32_t room;
    uint32_t count;
} outgoing_page;

static semel_status keep_outgoing(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    outgoing_page *page = context;
    if (page->count == page->room)
        return SEMEL_OK;
    if (!copy_outgoing(&page->rows[page->count], &page->arena, outgoing))
        return fail_memory(err);
    page->count++;
    return SEMEL_OK;
}

static semel_status page_alloc(outgoing_page *page, uint32_t room, semel_error *err)
{
    page->room = room;
    page->rows = arena_alloc(&page->arena, room * sizeof *page->rows);
    return page->rows ? SEMEL_OK : fail_memory(err);
}

static semel_status page_visit(outgoing_page *page, semel_status status,
                               semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    for (uint32_t i = 0; !status && i < page->count; i++)
        status = visitor(&page->rows[i], context, err);
    arena_free(&page->arena);
    return status;
}

semel_status store_list_outgoing(const semel_store *store, int64_t scope,
                                 const semel_outgoing_filter *filter,
                                 semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    outgoing_page page = {.count = 0};
    const semel_store_lists *lists = store->driver->lists;
    semel_outgoing_filter wanted;
    semel_status status =
        options_read(&wanted, sizeof wanted, filter, "semel_outgoing_filter", err);
    if (!status)
        status = read_limit(&wanted.limit, "semel_outgoing_filter", err);
    if (!status && !(lists && lists->outgoing))
        status = refuse_list(store, "outgoing messages", err);
    if (!status)
        status = page_alloc(&page, wanted.limit, err);
    if (!status)
        status = lists->outgoing(store->state, scope, &wanted, keep_outgoing, &page, err);
    return page_visit(&page, status, visitor, context, err);
}

semel_status semel_outbox_list(semel_outbox *outbox, const semel_outgoing_filter *filter,
                               semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    return store_list_outgoing(outbox->store, outbox->scope, filter, visitor, context, err);
}

static semel_status sent_filter_read(semel_sent_filter *out, const semel_sent_filter *given,
                                     semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_sent_filter", err);
    if (!out->after_ms && out->newest_first)
        out->after_ms = INT64_MAX;
    return status ? status : read_limit(&out->limit, "semel_sent_filter", err);
}

semel_status semel_outbox_list_sent(semel_outbox *outbox, const semel_sent_filter *filter,
                                    semel_outgoing_visitor *visitor, void *context,
                                    semel_error *err)
{
    outgoing_page page = {.count = 0};
    const semel_store *store = outbox->store;
    const semel_store_lists *lists = store->driver->lists;
    semel_sent_filter wanted;
    semel_status status = sent_filter_read(&wanted, filter, err);
    if (!status && !(lists && lists->sent))
        status = refuse_list(store, "messages that were sent", err);
    if (!status)
        status = page_alloc(&page, wanted.limit, err);
    if (!status)
        status = lists->sent(store->state, outbox->scope, &wanted, keep_outgoing, &page, err);
    return page_visit(&page, status, visitor, context, err);
}
