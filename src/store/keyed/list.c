/* Lists for people: markers, what waits in an outbox, what was sent. They read what the database
 * has; what an open unit holds or has put is not there yet. */
#include "store/keyed/item.h"
#include "store/keyed/marker.h"
#include "store/keyed/names.h"
#include "store/keyed/outbox.h"
#include "store/keyed/set.h"

#include <string.h>

/* --- markers ---------------------------------------------------------------------------------- */

typedef struct marker_list {
    keyed_store *store;
    semel_marker_visitor *visitor;
    void *context;
    int results;
    int64_t now_ms;
    uint32_t error_ms;
    keyed_names types, sources;
} marker_list;

static semel_marker_state state_of(const marker_list *list, const semel_keyed_record *record,
                                   const keyed_marker *marker)
{
    if (marker->state == KEYED_DONE)
        return SEMEL_MARKER_DONE;
    if (marker->state == KEYED_DEAD)
        return SEMEL_MARKER_DEAD;
    int is_live = record->guard && marker->held == KEYED_NOT_HELD &&
                  !keyed_is_over(record->until_ms, list->now_ms, list->error_ms);
    return is_live ? SEMEL_MARKER_CLAIMED : SEMEL_MARKER_OPEN;
}

static semel_status show_marker(marker_list *list, const semel_keyed_record *record,
                                const keyed_marker *marker, mem_arena *arena, semel_error *err)
{
    const char *error = arena_copy(arena, marker->why.data, marker->why.len);
    semel_marker shown = {.size = sizeof shown,
                          .key = record->key,
                          .state = state_of(list, record, marker),
                          .attempts = marker->attempts,
                          .first_ms = marker->first_ms ? marker->first_ms : marker->changed_ms,
                          .last_ms = marker->changed_ms,
                          .error = error,
                          .has_result = marker->has_result,
                          .received_ms = marker->received_ms};
    if (!error)
        return keyed_out_of_memory(err);
    if (shown.state == SEMEL_MARKER_DONE)
        shown.attempts = 0;
    if (shown.state == SEMEL_MARKER_CLAIMED)
        shown.lease_until_ms = record->until_ms;
    if (marker->has_result && list->results)
        shown.result = record->body;
    semel_status status = keyed_names_find(&shown.type, &list->types, marker->type, err);
    if (!status)
        status = keyed_names_find(&shown.source, &list->sources, marker->source, err);
    return status ? status : list->visitor(&shown, list->context, err);
}

/* A value that is damaged is shown as far as it could be read. */
static semel_status visit_marker(const semel_keyed_record *record, void *context, uint32_t *left,
                                 semel_error *err)
{
    marker_list *list = context;
    mem_arena arena = {NULL, NULL};
    keyed_marker marker;
    if (!keyed_marker_known(record))
        return SEMEL_OK;
    (void)keyed_marker_read(&marker, record->value);
    --*left;
    semel_status status = show_marker(list, record, &marker, &arena, err);
    arena_free(&arena);
    return status;
}

static semel_status list_markers(marker_list *list, int64_t inbox,
                                 const semel_marker_filter *filter, semel_error *err)
{
    keyed_space space = keyed_space_of('m', inbox);
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .after = filter->after,
                               .limit = filter->limit,
                               .bodies = filter->results};
    if (!filter->key.len)
        return keyed_list(list->store, NULL, &range, visit_marker, list, err);
    mem_arena arena = {NULL, NULL};
    keyed_row *row = NULL;
    uint32_t left = 1;
    semel_status status =
        keyed_get(&row, list->store, &arena, range.space, filter->key, filter->results, err);
    if (!status && row)
        status = visit_marker(&row->record, list, &left, err);
    arena_free(&arena);
    return status;
}

static semel_status keyed_list_markers(void *state, int64_t inbox,
                                       const semel_marker_filter *filter,
                                       semel_marker_visitor *visitor, void *context,
                                       semel_error *err)
{
    keyed_store *store = state;
    marker_list list = {.store = store,
                        .visitor = visitor,
                        .context = context,
                        .results = filter->results,
                        .types = {.store = store, .kind = SEMEL_SCOPE_TYPE},
                        .sources = {.store = store, .kind = SEMEL_SCOPE_SOURCE}};
    semel_status status = keyed_check_process(store, err);
    if (!status)
        status = keyed_now(store, &list.now_ms, &list.error_ms, err);
    if (!status)
        status = list_markers(&list, inbox, filter, err);
    keyed_names_free(&list.types);
    keyed_names_free(&list.sources);
    return status;
}

/* --- messages --------------------------------------------------------------------------------- */

typedef struct item_list {
    semel_outgoing_visitor *visitor;
    void *context;
    int64_t scope;
    int contents;
    int64_t now_ms;
    uint32_t error_ms;
} item_list;

static semel_outgoing outgoing_of(const item_list *list, const keyed_item *item)
{
    return (semel_outgoing){.size = sizeof(semel_outgoing),
                            .seq = item->number,
                            .message = &item->message,
                            .attempts = item->attempts,
                            .refusals = item->refusals,
                            .captured_ms = item->captured_ms,
                            .due_ms = keyed_item_wake_ms(item),
                            .leased = keyed_item_is_leased(item, list->now_ms, list->error_ms),
                            .error = item->error,
                            .sent_ms = item->sent_ms};
}

static semel_status show_item(const semel_keyed_record *record, item_list *list, mem_arena *arena,
                              semel_error *err)
{
    keyed_item item;
    semel_error why;
    semel_status status = keyed_item_read(&item, record, list->scope, list->contents, arena, &why);
    if (status == SEMEL_ENOMEM)
        return keyed_out_of_memory(err);
    semel_outgoing shown = outgoing_of(list, &item);
    if (status) {
        shown.message = NULL;
        shown.error = why.text;
    }
    return list->visitor(&shown, list->context, err);
}

static semel_status visit_item(const semel_keyed_record *record, void *context, uint32_t *left,
                               semel_error *err)
{
    mem_arena arena = {NULL, NULL};
    --*left;
    semel_status status = show_item(record, context, &arena, err);
    arena_free(&arena);
    return status;
}

static semel_status keyed_list_outgoing(void *state, int64_t outbox,
                                        const semel_outgoing_filter *filter,
                                        semel_outgoing_visitor *visitor, void *context,
                                        semel_error *err)
{
    keyed_store *store = state;
    keyed_space space = keyed_space_of('o', outbox);
    outbox_key after = outbox_key_number(filter->after_seq);
    item_list list = {
        .visitor = visitor, .context = context, .scope = outbox, .contents = filter->contents};
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .limit = filter->limit, .bodies = filter->contents};
    if (filter->after_seq > 0)
        range.after = outbox_key_bytes(&after);
    semel_status status = keyed_check_process(store, err);
    if (!status)
        status = keyed_now(store, &list.now_ms, &list.error_ms, err);
    return status ? status : keyed_list(store, NULL, &range, visit_item, &list, err);
}

/* As keyed_list_outgoing(), of one message, as the unit sees it. */
semel_status keyed_show_outgoing(void *state, int64_t outbox, int64_t seq,
                                 semel_outgoing_visitor *visitor, void *context, semel_error *err)
{
    keyed_unit *unit = state;
    keyed_space space = keyed_space_of('o', outbox);
    outbox_key key = outbox_key_number(seq);
    const outbox_intent *intent = outbox_intended(unit, outbox, seq);
    item_list list = {.visitor = visitor, .context = context, .scope = outbox, .contents = 1};
    keyed_row *row = NULL;
    if (intent && intent->act == OUTBOX_REMOVE)
        return SEMEL_OK;
    semel_status status = keyed_now(unit->store, &list.now_ms, &list.error_ms, err);
    if (!status)
        status = keyed_get(&row, unit->store, &unit->arena, keyed_space_bytes(&space),
                           outbox_key_bytes(&key), 1, err);
    return status || !row ? status : show_item(&row->record, &list, &unit->arena, err);
}

/* --- what was sent ---------------------------------------------------------------------------- */

static semel_status keyed_list_sent(void *state, int64_t outbox, const semel_sent_filter *filter,
                                    semel_outgoing_visitor *visitor, void *context,
                                    semel_error *err)
{
    keyed_store *store = state;
    keyed_space space = keyed_space_of('x', outbox);
    outbox_key after = outbox_key_timed(filter->after_ms, filter->after_seq);
    item_list list = {.visitor = visitor, .context = context, .scope = outbox};
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .limit = filter->limit,
                               .descending = filter->newest_first};
    if (filter->after_ms > 0 || filter->after_seq > 0)
        range.after = outbox_key_bytes(&after);
    semel_status status = keyed_check_process(store, err);
    return status ? status : keyed_list(store, NULL, &range, visit_item, &list, err);
}

typedef struct sent_sweep {
    keyed_unit *unit;
    size_t removed;
} sent_sweep;

static semel_status sweep_one(const semel_keyed_record *record, void *context, uint32_t *left,
                              semel_error *err)
{
    sent_sweep *sweep = context;
    --*left;
    sweep->removed++;
    return keyed_unset(sweep->unit, record, err);
}

/* As many as one apply() takes, with room for what else the unit may do. */
static semel_status keyed_sweep_sent(void *state, int64_t outbox, int64_t cutoff_ms, uint32_t rows,
                                     size_t *removed, semel_error *err)
{
    keyed_unit *unit = state;
    uint32_t most = unit->store->driver->limits.changes_max / 2;
    keyed_space space = keyed_space_of('x', outbox);
    outbox_key until = outbox_key_timed(cutoff_ms, 0);
    sent_sweep sweep = {unit, 0};
    semel_keyed_range range = {.space = keyed_space_bytes(&space),
                               .until = outbox_key_bytes(&until),
                               .limit = most && most < rows ? most : rows};
    semel_status status =
        range.limit ? keyed_list(unit->store, unit, &range, sweep_one, &sweep, err) : SEMEL_OK;
    if (!status)
        *removed = sweep.removed;
    return status;
}

const semel_store_lists keyed_lists = {
    .markers = keyed_list_markers,
    .outgoing = keyed_list_outgoing,
    .sent = keyed_list_sent,
    .sweep_sent = keyed_sweep_sent,
};

/* Where apply() takes one change: there is no outbox. */
const semel_store_lists keyed_lists_of_markers = {
    .markers = keyed_list_markers,
};
