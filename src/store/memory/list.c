/* Lists of what is committed. What an open unit has changed is shown as it was before, which the
 * unit's journal knows.
 *
 * Markers are kept in the order in which they came, and shown in the order of their keys: a page
 * walks the whole inbox and keeps the smallest keys behind the last page. That is enough for a
 * store of one process, whose inboxes are small or whose lists are rare. */
#include "base/mem.h"
#include "store/memory/outbox_order.h"

#include <stdlib.h>
#include <string.h>

/* --- markers ---------------------------------------------------------------------------------- */

static int compare_bytes(semel_bytes a, semel_bytes b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static semel_bytes key_of(const memory_marker *marker)
{
    return (semel_bytes){marker->key, marker->key_len};
}

static int compare_markers(const void *left, const void *right)
{
    const memory_marker *const *a = left, *const *b = right;
    return compare_bytes(key_of(*a), key_of(*b));
}

/* The markers with the smallest keys, twice as many as are wanted for most of the time. */
typedef struct selection {
    const memory_marker **markers;
    size_t count;
    size_t limit;
} selection;

static void select_smallest(selection *s)
{
    qsort(s->markers, s->count, sizeof *s->markers, compare_markers);
    if (s->count > s->limit)
        s->count = s->limit;
}

static void select_markers(selection *s, const memory_table *table,
                           const semel_marker_filter *filter)
{
    memory_place place = {0, 0};
    uint64_t steps = UINT64_MAX;
    const memory_marker *marker;
    while ((marker = memory_table_walk(table, &place, INT64_MAX, &steps)) != NULL) {
        if (memory_marker_committed(marker).state == MARKER_GONE ||
            (filter->after.len && compare_bytes(key_of(marker), filter->after) <= 0))
            continue;
        if (s->count == 2 * s->limit)
            select_smallest(s);
        s->markers[s->count++] = marker;
    }
    select_smallest(s);
}

static const char *name_of(const memory_store *store, uint32_t number)
{
    return number && number <= store->outbox_count ? memory_outbox_name(store->outboxes[number - 1])
                                                   : NULL;
}

static semel_marker_state shown_state(memory_store *store, const memory_marker_before *row)
{
    if (row->state == MARKER_DONE)
        return SEMEL_MARKER_DONE;
    if (row->state == MARKER_DEAD)
        return SEMEL_MARKER_DEAD;
    return row->extra && row->extra->token && memory_now_ms(store) < row->extra->lease_end_ms
               ? SEMEL_MARKER_CLAIMED
               : SEMEL_MARKER_OPEN;
}

static void add_extra(semel_marker *to, const memory_store *store, const memory_extra *extra,
                      int results)
{
    if (extra->first_ms)
        to->first_ms = extra->first_ms;
    if (to->state == SEMEL_MARKER_CLAIMED)
        to->lease_until_ms = extra->lease_end_ms;
    to->has_result = extra->has_result;
    if (extra->has_result && results)
        to->result = (semel_bytes){extra->bytes, extra->result_len};
    to->type = name_of(store, extra->type);
    to->source = name_of(store, extra->source);
    to->received_ms = extra->received_ms;
}

static semel_status visit_marker(memory_store *store, const memory_marker *marker,
                                 const semel_marker_filter *filter, semel_marker_visitor *visitor,
                                 void *context, semel_error *err)
{
    char error[sizeof err->text];
    memory_marker_before row = memory_marker_committed(marker);
    semel_marker shown = {.size = sizeof shown,
                          .key = key_of(marker),
                          .state = shown_state(store, &row),
                          .attempts = row.attempts,
                          .first_ms = row.since.changed_ms,
                          .last_ms = row.since.changed_ms,
                          .error = ""};
    if (shown.state == SEMEL_MARKER_DONE)
        shown.attempts = 0;
    if (row.extra)
        add_extra(&shown, store, row.extra, filter->results);
    if (row.extra && row.extra->why_len) {
        size_t len = row.extra->why_len < sizeof error ? row.extra->why_len : sizeof error - 1;
        memcpy(error, row.extra->bytes + row.extra->result_len, len);
        error[len] = 0;
        shown.error = error;
    }
    return visitor(&shown, context, err);
}

static semel_status list_one(memory_store *store, const memory_table *table,
                             const semel_marker_filter *filter, semel_marker_visitor *visitor,
                             void *context, semel_error *err)
{
    uint32_t hash = memory_marker_hash(store, filter->key.data, filter->key.len);
    const memory_marker *marker = memory_table_find(table, hash, filter->key);
    return marker && memory_marker_committed(marker).state != MARKER_GONE
               ? visit_marker(store, marker, filter, visitor, context, err)
               : SEMEL_OK;
}

static semel_status list_page(memory_store *store, const memory_table *table,
                              const semel_marker_filter *filter, semel_marker_visitor *visitor,
                              void *context, semel_error *err)
{
    selection s = {.limit = filter->limit};
    semel_status status = SEMEL_OK;
    s.markers = mem_alloc(2 * s.limit * sizeof *s.markers);
    if (!s.markers)
        return memory_out_of_memory(err);
    select_markers(&s, table, filter);
    for (size_t i = 0; !status && i < s.count; i++)
        status = visit_marker(store, s.markers[i], filter, visitor, context, err);
    mem_free(s.markers);
    return status;
}

static semel_status memory_list_markers(void *store, int64_t inbox,
                                        const semel_marker_filter *filter,
                                        semel_marker_visitor *visitor, void *context,
                                        semel_error *err)
{
    memory_store *self = store;
    semel_status status = SEMEL_EINVAL;
    pthread_mutex_lock(&self->lock);
    const memory_inbox *found = memory_inbox_get(self, inbox, err);
    if (found)
        status = filter->key.len ? list_one(self, &found->table, filter, visitor, context, err)
                                 : list_page(self, &found->table, filter, visitor, context, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* --- outgoing messages ------------------------------------------------------------------------ */

static semel_status visit_row(memory_store *store, const memory_row *row, int contents,
                              semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    memory_row_state state = memory_row_committed(row);
    semel_message message = *row->message;
    int leased = state.token && memory_now_ms(store) < state.lease_end_ms;
    if (!contents) {
        message.headers = NULL;
        message.header_count = 0;
        message.body = (semel_bytes){NULL, 0};
    }
    semel_outgoing shown = {.size = sizeof shown,
                            .seq = row->seq,
                            .message = &message,
                            .attempts = state.attempts,
                            .refusals = state.refusals,
                            .captured_ms = row->captured_ms,
                            .due_ms = state.token ? state.lease_end_ms : state.due_ms,
                            .leased = leased,
                            .error = state.error ? state.error : ""};
    return visitor(&shown, context, err);
}

static semel_status memory_list_outgoing(void *store, int64_t outbox,
                                         const semel_outgoing_filter *filter,
                                         semel_outgoing_visitor *visitor, void *context,
                                         semel_error *err)
{
    memory_store *self = store;
    int found;
    pthread_mutex_lock(&self->lock);
    const memory_row *row = memory_outbox_after(&found, self, outbox, filter->after_seq, err);
    semel_status status = found ? SEMEL_OK : SEMEL_EINVAL;
    for (uint32_t i = 0; !status && row && i < filter->limit; i++, row = row->newer)
        status = visit_row(self, row, filter->contents, visitor, context, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* There is no list of what was sent: it would grow in memory. */
const semel_store_lists memory_lists = {
    .markers = memory_list_markers,
    .outgoing = memory_list_outgoing,
};
