/* What the store holds, counted by reading: the values of all messages of an outbox, the values of
 * all markers of an inbox. Both end when the deadline is over. What was not read by then is counted
 * as far as the database tells the number of records by itself. */
#include "store/keyed/letter.h"
#include "store/keyed/marker.h"
#include "store/keyed/names.h"
#include "store/keyed/outbox.h"
#include "store/keyed/set.h"

typedef struct counting {
    keyed_store *store;
    semel_stats *out;
    int64_t now_ms;
    uint32_t error_ms;
    int64_t deadline_ms; /* of the steady clock */
    int is_late;
} counting;

/* Looks at the clock for each record; 1 if the list goes on. */
static int goes_on(counting *c, uint32_t *left)
{
    if (seam_steady_ms(c->store->seam) < c->deadline_ms)
        return 1;
    c->is_late = 1;
    *left = 0;
    return 0;
}

/* --- messages --------------------------------------------------------------------------------- */

static void take_earlier(int64_t *out, int64_t ms)
{
    if (!*out || ms < *out)
        *out = ms;
}

static semel_status count_item(const semel_keyed_record *record, void *context, uint32_t *left,
                               semel_error *err)
{
    counting *c = context;
    mem_arena arena = {NULL, NULL};
    keyed_item item;
    semel_status status = SEMEL_OK;
    if (!goes_on(c, left))
        return SEMEL_OK;
    c->out->unsent++;
    status = keyed_item_read(&item, record, 0, 0, &arena, err);
    if (!status) {
        take_earlier(&c->out->oldest_unsent_ms, item.captured_ms);
        if (keyed_item_is_due(&item, c->now_ms, c->error_ms)) {
            c->out->due++;
            take_earlier(&c->out->oldest_due_ms, keyed_item_wake_ms(&item));
        }
    }
    arena_free(&arena);
    return status == SEMEL_ENOMEM ? status : SEMEL_OK; /* a damaged one is a message, too */
}

static semel_status count_outbox(const char *name, int64_t number, void *context, semel_error *err)
{
    counting *c = context;
    keyed_space space = keyed_space_of('o', number);
    semel_keyed_range range = {.space = keyed_space_bytes(&space), .limit = UINT32_MAX};
    uint64_t before = c->out->unsent, all;
    (void)name;
    semel_status status = keyed_list(c->store, NULL, &range, count_item, c, err);
    if (status || !c->is_late || !c->store->driver->count)
        return status;
    status = keyed_count(c->store, range.space, &all, err);
    if (!status)
        c->out->unsent = before + all;
    return status;
}

static semel_status count_outgoing(counting *c, const semel_stats_of *of, semel_error *err)
{
    return of->scope ? count_outbox(of->name, of->scope, c, err)
                     : keyed_names_each(c->store, SEMEL_SCOPE_OUTBOX, "", UINT32_MAX, count_outbox,
                                        c, err);
}

/* --- markers ---------------------------------------------------------------------------------- */

static semel_status count_marker(const semel_keyed_record *record, void *context, uint32_t *left,
                                 semel_error *err)
{
    counting *c = context;
    keyed_marker marker;
    (void)err;
    if (!goes_on(c, left) || !keyed_marker_known(record))
        return SEMEL_OK;
    c->out->keys++;
    c->out->open_claims += keyed_marker_read(&marker, record->value) &&
                           marker.state == KEYED_OPEN && marker.held == KEYED_NOT_HELD &&
                           record->guard &&
                           !keyed_is_over(record->until_ms, c->now_ms, c->error_ms);
    return SEMEL_OK;
}

static semel_status count_markers(counting *c, int64_t inbox, semel_error *err)
{
    keyed_space space = keyed_space_of('m', inbox);
    semel_keyed_range range = {.space = keyed_space_bytes(&space), .limit = UINT32_MAX};
    c->out->keys = c->out->open_claims = 0;
    semel_status status = keyed_list(c->store, NULL, &range, count_marker, c, err);
    if (c->is_late)
        c->out->keys = c->out->open_claims = -1;
    return status;
}

/* --- all -------------------------------------------------------------------------------------- */

semel_status keyed_stats(void *state, const semel_stats_of *of, uint32_t deadline_ms,
                         semel_stats *out, semel_error *err)
{
    keyed_store *store = state;
    semel_stats found = {.open_claims = -1, .keys = -1};
    counting c = {.store = store, .out = &found};
    semel_status status = keyed_check_process(store, err);
    if (!status)
        status = keyed_now(store, &c.now_ms, &c.error_ms, err);
    c.deadline_ms = seam_steady_ms(store->seam) + deadline_ms;
    found.at_ms = c.now_ms;
    if (!status)
        status = of->kind == SEMEL_SCOPE_INBOX ? count_markers(&c, of->scope, err)
                                               : count_outgoing(&c, of, err);
    if (!status && store->driver->abilities & SEMEL_KEYED_MANY)
        status = keyed_letters_count(store, (int)of->kind, of->name, &found.dead, err);
    if (!status)
        *out = found;
    return status;
}

/* The oldest message has the smallest number, or nearly so: clocks of processes may differ. */
static semel_status add_unsent(const char *name, int64_t number, void *context, semel_error *err)
{
    counting *c = context;
    keyed_space space = keyed_space_of('o', number);
    mem_arena arena = {NULL, NULL};
    keyed_rows rows = {.arena = &arena};
    keyed_item first;
    uint64_t count = 0;
    (void)name;
    semel_status status = keyed_count(c->store, keyed_space_bytes(&space), &count, err);
    semel_keyed_range range = {.space = keyed_space_bytes(&space), .limit = 1};
    if (!status && count)
        status = keyed_scan(&rows, c->store, &range, err);
    if (!status && rows.first &&
        !keyed_item_read(&first, &rows.first->record, number, 0, &arena, NULL))
        take_earlier(&c->out->oldest_unsent_ms, first.captured_ms);
    c->out->unsent += count;
    arena_free(&arena);
    return status;
}

semel_status keyed_count_unsent(keyed_store *store, semel_stats *out, semel_error *err)
{
    counting c = {.store = store, .out = out};
    return keyed_names_each(store, SEMEL_SCOPE_OUTBOX, "", UINT32_MAX, add_unsent, &c, err);
}
