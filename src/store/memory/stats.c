/* What the store holds, counted under its lock: other units wait for as long as that takes. */
#include "store/memory/memory_internal.h"

static void count_outgoing(semel_stats *out, memory_store *store, const semel_stats_of *of)
{
    for (size_t i = 0; i < store->outbox_count; i++) {
        int asked = of->scope ? of->scope == (int64_t)i + 1
                              : memory_outbox_kind(store->outboxes[i]) == SEMEL_SCOPE_OUTBOX;
        if (asked)
            memory_outbox_stats(store->outboxes[i], memory_now_ms(store), out);
    }
}

static void count_markers(semel_stats *out, memory_store *store, const memory_inbox *inbox)
{
    memory_place place = {0, 0};
    uint64_t steps = UINT64_MAX;
    const memory_marker *marker;
    out->keys = out->open_claims = 0;
    while ((marker = memory_table_walk(&inbox->table, &place, INT64_MAX, &steps)) != NULL) {
        out->keys += memory_marker_committed(marker).state != MARKER_GONE;
        out->open_claims += !marker->held && memory_marker_leased(store, marker);
    }
}

semel_status memory_stats(void *state, const semel_stats_of *of, uint32_t deadline_ms,
                          semel_stats *out, semel_error *err)
{
    memory_store *store = state;
    semel_stats found = {.open_claims = -1, .keys = -1, .at_ms = memory_now_ms(store)};
    memory_inbox *inbox = NULL;
    (void)deadline_ms;
    pthread_mutex_lock(&store->lock);
    if (of->kind != SEMEL_SCOPE_INBOX)
        count_outgoing(&found, store, of);
    else if ((inbox = memory_inbox_get(store, of->scope, err)) != NULL)
        count_markers(&found, store, inbox);
    found.dead = memory_letters_count(store, (int)of->kind, of->name);
    pthread_mutex_unlock(&store->lock);
    if (of->kind == SEMEL_SCOPE_INBOX && !inbox)
        return SEMEL_EINVAL;
    *out = found;
    return SEMEL_OK;
}
