/* The state machine of markers, as <semel/sys/store.h> has it.
 *
 * Every member is built the same way: look the key up, see whether the state allows what is asked,
 * hold the marker (which writes the journal), set it. A key without a marker is a marker in the
 * state GONE that is not there yet: so one kind of record serves for the new, the changed and the
 * forgotten.
 *
 * A marker that an open unit holds may be used by no other unit until that one ends: mark waits as
 * long as its caller says, verbs that have a token wait as for any lock (busy_ms), claim, forget
 * and fail without a token do not wait. */
#include "store/memory/marker.h"

uint32_t memory_marker_hash(const memory_store *store, const void *key, size_t len)
{
    return (uint32_t)(hash_bytes(store->hash, key, len) >> 32);
}

memory_inbox *memory_inbox_get(const memory_store *store, int64_t number, semel_error *err)
{
    if (number >= 1 && (uint64_t)number <= store->inbox_count)
        return store->inboxes[number - 1];
    semel_fail(err, SEMEL_EINVAL, "the memory store has no inbox number %lld", (long long)number);
    return NULL;
}

semel_status memory_look_up(memory_found *out, memory_unit *unit, const semel_mark *mark,
                            memory_wait *wait, semel_error *err)
{
    memory_inbox *inbox = memory_inbox_get(unit->store, mark->inbox, err);
    if (!inbox)
        return SEMEL_EINVAL;
    if (mark->key.len == 0 || mark->key.len > SEMEL_KEY_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a key of %zu bytes: it must have 1 to %zu",
                          mark->key.len, SEMEL_KEY_MAX);
    out->table = &inbox->table;
    out->hash = memory_marker_hash(unit->store, mark->key.data, mark->key.len);
    do {
        out->marker = memory_table_find(out->table, out->hash, mark->key);
        out->others = out->marker && out->marker->held && out->marker->since.owner != unit;
    } while (out->others && memory_wait_for_others(unit->store, wait));
    return SEMEL_OK;
}

semel_status memory_look_up_at_once(memory_found *out, memory_unit *unit, const semel_mark *mark,
                                    semel_error *err)
{
    memory_wait none = {.wait_ms = 0};
    return memory_look_up(out, unit, mark, &none, err);
}

int memory_is_there(const memory_found *at)
{
    return at->marker && at->marker->state != MARKER_GONE;
}

/* The clock is asked for claims only: they are rare, and it costs as much as all the rest. */
int memory_marker_leased(memory_store *store, const memory_marker *marker)
{
    return marker->state == MARKER_OPEN && marker->extra && marker->extra->token &&
           memory_now_ms(store) < marker->extra->lease_end_ms;
}

/* --- the journal ------------------------------------------------------------------------------ */

void memory_marker_drop(memory_store *store, memory_table *table, memory_marker *marker)
{
    uint32_t hash = memory_marker_hash(store, marker->key, marker->key_len);
    memory_extra_free(store, marker->extra);
    marker->extra = NULL;
    memory_table_remove(table, hash, marker);
    store->keys--;
}

static void undo_marker(memory_unit *unit, const memory_record *record)
{
    memory_marker *marker = record->marker.marker;
    const memory_marker_before *before = &record->marker.before;
    memory_extra_free(unit->store, marker->extra);
    marker->since = before->since;
    marker->fingerprint = before->fingerprint;
    marker->extra = before->extra;
    marker->attempts = before->attempts;
    marker->held = before->held;
    marker->state = before->state;
    if (!marker->held && marker->state == MARKER_GONE)
        memory_marker_drop(unit->store, record->marker.table, marker);
}

/* A unit may have several records of one marker. Only the first of them, which found the marker not
 * held, releases it. */
static void commit_marker(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_marker *marker = record->marker.marker;
    memory_extra_free(unit->store, record->marker.before.extra);
    if (record->marker.before.held)
        return;
    marker->held = 0;
    marker->since.changed_ms = now_ms;
    if (marker->state == MARKER_GONE)
        memory_marker_drop(unit->store, record->marker.table, marker);
}

static const memory_change marker_change = {undo_marker, commit_marker};

static memory_marker_before state_of(const memory_marker *marker)
{
    return (memory_marker_before){.since = marker->since,
                                  .fingerprint = marker->fingerprint,
                                  .extra = marker->extra,
                                  .attempts = marker->attempts,
                                  .held = marker->held,
                                  .state = marker->state};
}

memory_marker_before memory_marker_committed(const memory_marker *marker)
{
    const memory_unit *owner = marker->held ? marker->since.owner : NULL;
    for (uint32_t i = 0; owner && i < owner->count; i++) {
        const memory_record *record = &owner->records[i];
        if (record->change == &marker_change && record->marker.marker == marker)
            return record->marker.before;
    }
    return state_of(marker);
}

static int64_t clock_of_store(void *store)
{
    return memory_now_ms(store);
}

static semel_status add_marker(memory_found *at, memory_store *store, semel_bytes key,
                               semel_error *err)
{
    if (store->keys >= store->keys_max)
        return semel_fail(err, SEMEL_ELIMIT,
                          "the memory store is full: keys_max is %llu. Sweep it, shorten the "
                          "retention, or raise keys_max in its URL",
                          (unsigned long long)store->keys_max);
    if (!memory_table_reserve(at->table, key.len, clock_of_store, store))
        return memory_out_of_memory(err);
    at->marker = memory_table_add(at->table, at->hash, key);
    store->keys++;
    return SEMEL_OK;
}

semel_status memory_hold(memory_found *at, memory_unit *unit, const semel_mark *mark,
                         semel_error *err)
{
    memory_record *record = memory_journal_next(unit);
    if (!record)
        return memory_out_of_memory(err);
    semel_status status = at->marker ? SEMEL_OK : add_marker(at, unit->store, mark->key, err);
    if (status)
        return status;
    memory_marker *marker = at->marker;
    record->change = &marker_change;
    record->marker.table = at->table;
    record->marker.marker = marker;
    record->marker.before = state_of(marker);
    unit->count++;
    marker->held = 1;
    marker->since.owner = unit;
    marker->extra = NULL;
    return SEMEL_OK;
}

int64_t memory_first_ms(memory_store *store, const memory_found *at)
{
    const memory_marker *marker = at->marker;
    if (!memory_is_there(at))
        return 0;
    if (marker->extra && marker->extra->first_ms)
        return marker->extra->first_ms;
    if (marker->state == MARKER_DONE)
        return 0;
    return marker->held ? memory_now_ms(store) : marker->since.changed_ms;
}

semel_status memory_keep_details(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                 int64_t first_ms, semel_error *err)
{
    if (!first_ms && !mark->received_ms)
        return SEMEL_OK;
    if (!at->marker->extra)
        at->marker->extra = memory_extra_new(unit->store, (semel_bytes){0}, (semel_bytes){0});
    if (!at->marker->extra)
        return memory_out_of_memory(err);
    at->marker->extra->first_ms = first_ms;
    at->marker->extra->type = (uint32_t)mark->type;
    at->marker->extra->source = (uint32_t)mark->source;
    at->marker->extra->received_ms = mark->received_ms;
    return SEMEL_OK;
}

void memory_set_attempts(memory_marker *marker, uint32_t attempts)
{
    if (attempts > MARKER_ATTEMPTS_MAX)
        attempts = MARKER_ATTEMPTS_MAX;
    marker->attempts = attempts & MARKER_ATTEMPTS_MAX;
}

/* --- mark and claim --------------------------------------------------------------------------- */

semel_mark_state memory_state_of(memory_store *store, const memory_marker *marker)
{
    if (marker->state == MARKER_DONE)
        return SEMEL_MARK_DONE;
    if (marker->state == MARKER_DEAD)
        return SEMEL_MARK_DEAD;
    return memory_marker_leased(store, marker) ? SEMEL_MARK_HELD : SEMEL_MARK_TAKEN;
}

/* Writes what is there into the mark; SEMEL_MARK_TAKEN: the key is free to be taken. Of a marker
 * that is held nothing is told: it is not committed. */
static void report_marker(semel_mark *mark, const memory_found *at, memory_store *store)
{
    uint32_t known_elsewhere = mark->attempts;
    mark->known_fingerprint = 0;
    mark->held_until_ms = 0;
    mark->state = at->others ? SEMEL_MARK_HELD : SEMEL_MARK_TAKEN;
    if (at->others || !memory_is_there(at))
        return;
    mark->known_fingerprint = at->marker->fingerprint;
    mark->attempts = at->marker->attempts;
    mark->changed_ms = at->marker->held ? memory_now_ms(store) : at->marker->since.changed_ms;
    mark->first_ms = at->marker->extra && at->marker->extra->first_ms ? at->marker->extra->first_ms
                                                                      : mark->changed_ms;
    mark->state = memory_state_of(store, at->marker);
    if (mark->state == SEMEL_MARK_TAKEN && mark->attempts < known_elsewhere)
        mark->attempts = known_elsewhere;
    if (mark->state == SEMEL_MARK_HELD)
        mark->held_until_ms = at->marker->extra->lease_end_ms;
}

semel_status memory_look(void *unit, semel_mark *mark, semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = memory_look_up_at_once(&at, self, mark, err);
    if (!status) {
        mark->attempts = 0;
        report_marker(mark, &at, self->store);
        if (mark->state == SEMEL_MARK_TAKEN)
            mark->state = SEMEL_MARK_FREE;
    }
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

static semel_status mark_one(memory_unit *unit, semel_mark *mark, memory_wait *wait,
                             semel_error *err)
{
    memory_found at;
    semel_status status = memory_look_up(&at, unit, mark, wait, err);
    if (status)
        return status;
    report_marker(mark, &at, unit->store);
    if (mark->state != SEMEL_MARK_TAKEN)
        return SEMEL_OK;
    int64_t first_ms = memory_first_ms(unit->store, &at);
    status = memory_hold(&at, unit, mark, err);
    if (status)
        return status;
    at.marker->state = MARKER_DONE;
    at.marker->fingerprint = mark->fingerprint;
    memory_set_attempts(at.marker, mark->attempts);
    return memory_keep_details(&at, unit, mark, first_ms, err);
}

semel_status memory_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err)
{
    memory_unit *self = unit;
    semel_status status = SEMEL_OK;
    memory_wait wait = {.wait_ms = wait_ms};
    pthread_mutex_lock(&self->store->lock);
    for (size_t i = 0; i < count && !status; i++)
        status = mark_one(self, &marks[i], &wait, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

static semel_status take_claim(memory_unit *unit, semel_mark *mark, memory_found *at,
                               uint32_t lease_ms, semel_error *err)
{
    memory_store *store = unit->store;
    memory_extra *lease =
        lease_ms ? memory_extra_new(store, (semel_bytes){0}, (semel_bytes){0}) : NULL;
    if (lease_ms && !lease)
        return memory_out_of_memory(err);
    int64_t first_ms = memory_first_ms(store, at);
    semel_status status = memory_hold(at, unit, mark, err);
    if (status) {
        memory_extra_free(store, lease);
        return status;
    }
    mark->token = ++store->last_token;
    mark->attempts++;
    if (lease) {
        lease->token = mark->token;
        lease->lease_end_ms = memory_now_ms(store) + lease_ms;
    }
    at->marker->state = MARKER_OPEN;
    at->marker->extra = lease;
    at->marker->fingerprint = mark->fingerprint;
    memory_set_attempts(at->marker, mark->attempts);
    return memory_keep_details(at, unit, mark, first_ms, err);
}

semel_status memory_claim(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = memory_look_up_at_once(&at, self, mark, err);
    if (!status) {
        report_marker(mark, &at, self->store);
        if (mark->state == SEMEL_MARK_TAKEN)
            status = take_claim(self, mark, &at, lease_ms, err);
    }
    pthread_mutex_unlock(&self->store->lock);
    return status;
}
