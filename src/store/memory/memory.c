/* The memory store. memory_internal.h says how it is made; this file opens it and runs its units.
 *
 *     memory:                     up to 10 million keys and 10 million messages
 *     memory:?keys_max=1000000&messages_max=1000
 *
 * A full store refuses new keys (SEMEL_ELIMIT): it never forgets one inside its retention to make
 * room. It has no transaction that a handler's own writes could go into, but marker, result,
 * outgoing messages and dead letters of a unit happen together or not at all. */
#include "store/memory/memory.h"

#include "base/mem.h"
#include "base/seam.h"
#include "base/url.h"
#include "base/wait.h"
#include "store/memory/memory_internal.h"

#include <errno.h>
#include <string.h>

enum { KEYS_DEFAULT = 10000000, MESSAGES_DEFAULT = 10000000, LIMIT_MAX = 1000000000 };

semel_status memory_out_of_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory in the memory store; nothing was changed");
}

semel_status memory_count_message(memory_store *store, semel_error *err)
{
    if (store->messages >= store->messages_max)
        return semel_fail(err, SEMEL_ELIMIT,
                          "the memory store is full: messages_max is %llu. Let a relay send them, "
                          "discard dead letters, or raise messages_max in its URL",
                          (unsigned long long)store->messages_max);
    store->messages++;
    return SEMEL_OK;
}

/* --- time ------------------------------------------------------------------------------------- */

int64_t memory_now_ms(memory_store *store)
{
    int64_t now_ms = store->clock_offset_ms + seam_steady_ms(store->seam);
    int64_t latest_ms = atomic_load_explicit(&store->latest_ms, memory_order_relaxed);
    while (now_ms > latest_ms &&
           !atomic_compare_exchange_weak_explicit(&store->latest_ms, &latest_ms, now_ms,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
    return now_ms > latest_ms ? now_ms : latest_ms;
}

static void start_wait(memory_wait *wait)
{
    wait->end = wait_until(wait_clock_ms() + wait->wait_ms);
    wait->started = 1;
}

int memory_wait_for_others(memory_store *store, memory_wait *wait)
{
    if (!wait->wait_ms)
        return 0;
    if (!wait->started)
        start_wait(wait);
    store->waiting++;
    int error = pthread_cond_timedwait(&store->let_go, &store->lock, &wait->end);
    store->waiting--;
    return error != ETIMEDOUT;
}

static void wake_others(memory_store *store)
{
    if (store->waiting)
        pthread_cond_broadcast(&store->let_go);
}

/* --- the store -------------------------------------------------------------------------------- */

static semel_status read_url(memory_store *store, const char *text, semel_error *err)
{
    url parsed;
    uint32_t keys_max = 0;
    uint32_t messages_max = 0;
    semel_status status = url_parse(&parsed, text, err);
    if (!status && *parsed.rest)
        status = semel_fail(err, SEMEL_EINVAL, "URL: memory: takes no path, it has no file");
    if (!status)
        status = url_only(&parsed, "keys_max,messages_max", err);
    if (!status)
        status = url_number(&keys_max, &parsed, "keys_max", KEYS_DEFAULT, 1, LIMIT_MAX, err);
    if (!status)
        status =
            url_number(&messages_max, &parsed, "messages_max", MESSAGES_DEFAULT, 1, LIMIT_MAX, err);
    store->keys_max = keys_max;
    store->messages_max = messages_max;
    return status;
}

static semel_status make_lock(memory_store *store, semel_error *err)
{
    int error = pthread_mutex_init(&store->lock, NULL);
    if (!error && (error = wait_condition_init(&store->let_go)) != 0)
        pthread_mutex_destroy(&store->lock);
    if (error)
        return semel_fail(err, SEMEL_ESTORE, "no mutex for the memory store: %s", strerror(error));
    return SEMEL_OK;
}

static semel_status memory_check_url(const char *text, semel_error *err)
{
    memory_store read = {.keys_max = 0};
    return read_url(&read, text, err);
}

static semel_status memory_open(void *store, const void *text, const semel_store_settings *settings,
                                semel_error *err)
{
    memory_store *self = store;
    semel_status status = read_url(self, text, err);
    if (!status)
        status = make_lock(self, err);
    if (status)
        return status;
    const semel_seam *seam = settings->seam;
    self->seam = seam;
    self->busy_ms = settings->busy_ms;
    self->clock_offset_ms = seam_wall_ms(seam) - seam_steady_ms(seam);
    atomic_init(&self->latest_ms, INT64_MIN);
    seam->random(seam->context, &self->hash, sizeof self->hash);
    return SEMEL_OK;
}

static void free_inbox(memory_store *store, memory_inbox *inbox)
{
    memory_place place = {0, 0};
    uint64_t steps = UINT64_MAX;
    memory_marker *marker;
    while ((marker = memory_table_walk(&inbox->table, &place, INT64_MAX, &steps)) != NULL)
        memory_extra_free(store, marker->extra);
    memory_table_free(&inbox->table);
    memory_notes_free(inbox);
    mem_free(inbox);
}

static void memory_close(void *store)
{
    memory_store *self = store;
    for (size_t i = 0; i < self->inbox_count; i++)
        free_inbox(self, self->inboxes[i]);
    for (size_t i = 0; i < self->outbox_count; i++)
        memory_outbox_free(self->outboxes[i]);
    mem_free(self->inboxes);
    mem_free(self->outboxes);
    memory_index_free(&self->rows);
    memory_letters_free(self);
    memory_operation_free(self);
    memory_history_free(self);
    memory_extra_drop_spares(self);
    mem_free(self->spare_records);
    pthread_cond_destroy(&self->let_go);
    pthread_mutex_destroy(&self->lock);
}

static semel_status memory_migrate(void *store, semel_error *err)
{
    (void)store;
    (void)err;
    return SEMEL_OK;
}

static semel_status memory_now(void *store, int64_t *out_ms, semel_error *err)
{
    (void)err;
    *out_ms = memory_now_ms(store);
    return SEMEL_OK;
}

static semel_durability memory_durability(const void *store)
{
    (void)store;
    return SEMEL_DURABLE_NOT;
}

/* --- names ------------------------------------------------------------------------------------ */

static int has_notes(semel_scope kind)
{
    return kind == SEMEL_SCOPE_INBOX || kind == SEMEL_SCOPE_PARTITION;
}

static semel_status add_inbox(memory_store *store, semel_scope kind, const char *name,
                              semel_error *err)
{
    size_t count = store->inbox_count;
    memory_inbox **inboxes = mem_resize(store->inboxes, (count + 1) * sizeof(memory_inbox *));
    if (!inboxes)
        return memory_out_of_memory(err);
    store->inboxes = inboxes;
    memory_inbox *inbox = mem_alloc(sizeof *inbox);
    if (!inbox)
        return memory_out_of_memory(err);
    inbox->kind = kind;
    memcpy(inbox->name, name, strlen(name) + 1);
    inboxes[store->inbox_count++] = inbox;
    return SEMEL_OK;
}

/* Queues are kept among the outboxes: their rows are alike, and the kind keeps their names
 * apart. */
static semel_status add_outbox(memory_store *store, semel_scope kind, const char *name,
                               semel_error *err)
{
    size_t count = store->outbox_count;
    memory_outbox **outboxes = mem_resize(store->outboxes, (count + 1) * sizeof(memory_outbox *));
    if (!outboxes)
        return memory_out_of_memory(err);
    store->outboxes = outboxes;
    memory_outbox *outbox = memory_outbox_new(kind, name);
    if (!outbox)
        return memory_out_of_memory(err);
    outboxes[store->outbox_count++] = outbox;
    return SEMEL_OK;
}

static size_t count_of(const memory_store *store, semel_scope kind)
{
    return has_notes(kind) ? store->inbox_count : store->outbox_count;
}

static int has_name(const memory_store *store, semel_scope kind, size_t index, const char *name)
{
    if (has_notes(kind))
        return store->inboxes[index]->kind == kind &&
               strcmp(store->inboxes[index]->name, name) == 0;
    const memory_outbox *outbox = store->outboxes[index];
    return memory_outbox_kind(outbox) == kind && strcmp(memory_outbox_name(outbox), name) == 0;
}

static semel_status number_of(memory_store *store, semel_scope kind, const char *name, int64_t *out,
                              semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t i = 0;
    while (i < count_of(store, kind) && !has_name(store, kind, i, name))
        i++;
    if (i == count_of(store, kind))
        status = has_notes(kind) ? add_inbox(store, kind, name, err)
                                 : add_outbox(store, kind, name, err);
    if (!status)
        *out = (int64_t)i + 1;
    return status;
}

static semel_status memory_scope(void *store, semel_scope kind, const char *name, int64_t *out,
                                 semel_error *err)
{
    memory_store *self = store;
    if (strlen(name) > SEMEL_NAME_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a name is longer than %d bytes", (int)SEMEL_NAME_MAX);
    pthread_mutex_lock(&self->lock);
    semel_status status = number_of(self, kind, name, out, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}

/* --- units ------------------------------------------------------------------------------------ */

/* Nothing to wait for: units run side by side, and only their keys keep them apart. */
static semel_status memory_begin(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                                 semel_error *err)
{
    memory_unit *self = unit;
    (void)durability;
    (void)wait_ms;
    (void)err;
    self->store = store;
    self->records = self->first;
    self->capacity = JOURNAL_INLINE;
    return SEMEL_OK;
}

/* A unit that has changed nothing, as one that met a duplicate, does not even take the lock. */
static semel_status memory_commit(void *unit, semel_error *err)
{
    memory_unit *self = unit;
    (void)err;
    if (self->count) {
        pthread_mutex_lock(&self->store->lock);
        memory_journal_commit(self, memory_now_ms(self->store));
        wake_others(self->store);
        pthread_mutex_unlock(&self->store->lock);
    }
    memory_journal_free(self);
    return SEMEL_OK;
}

static void undo_down_to(memory_unit *unit, uint32_t count)
{
    if (unit->count == count)
        return;
    pthread_mutex_lock(&unit->store->lock);
    memory_journal_undo(unit, count);
    wake_others(unit->store);
    pthread_mutex_unlock(&unit->store->lock);
}

static void memory_rollback(void *unit)
{
    memory_unit *self = unit;
    undo_down_to(self, 0);
    memory_journal_free(self);
}

static semel_status memory_savepoint(void *unit, semel_error *err)
{
    memory_unit *self = unit;
    if (self->has_savepoint)
        return semel_fail(err, SEMEL_EMISUSE, "the unit has a savepoint: keep or undo it first");
    self->savepoint = self->count;
    self->has_savepoint = 1;
    return SEMEL_OK;
}

static semel_status end_savepoint(memory_unit *unit, semel_error *err)
{
    if (!unit->has_savepoint)
        return semel_fail(err, SEMEL_EMISUSE, "the unit has no savepoint");
    unit->has_savepoint = 0;
    return SEMEL_OK;
}

static semel_status memory_keep(void *unit, semel_error *err)
{
    return end_savepoint(unit, err);
}

static semel_status memory_undo(void *unit, semel_error *err)
{
    memory_unit *self = unit;
    semel_status status = end_savepoint(self, err);
    if (!status)
        undo_down_to(self, self->savepoint);
    return status;
}

static int memory_used(void *unit)
{
    return ((memory_unit *)unit)->count > 0;
}

static void *memory_native(void *unit)
{
    (void)unit;
    return NULL;
}

static const semel_store_units units = {
    .begin = memory_begin,
    .join = NULL,
    .commit = memory_commit,
    .rollback = memory_rollback,
    .savepoint = memory_savepoint,
    .keep = memory_keep,
    .undo = memory_undo,
    .used = memory_used,
    .native = memory_native,
};

static const semel_store_markers markers = {
    .look = memory_look,
    .mark = memory_mark,
    .claim = memory_claim,
    .finish = memory_finish,
    .renew = memory_renew,
    .fail = memory_fail,
    .bury = memory_bury,
    .forget = memory_forget,
    .result_set = memory_result_set,
    .result_get = memory_result_get,
    .sweep = memory_sweep,
    .letter_gone = memory_letter_gone,
};

static const semel_store_notes notes = {
    .read = memory_note_read,
    .write = memory_note_write,
};

static const semel_store_outbox outbox = {
    .put = memory_put,
    .lease = memory_take,
    .settle = memory_settle,
    .extend = memory_extend,
    .unsent = memory_unsent,
};

static const semel_store_dead dead_letters = {
    .put = memory_dead_put,
    .drop = memory_dead_drop,
    .list = memory_dead_list,
};

const semel_store_driver memory_store_driver = {
    .version = SEMEL_STORE_DRIVER_VERSION,
    .abilities = 0,
    .scheme = "memory",
    .store_size = sizeof(memory_store),
    .unit_size = sizeof(memory_unit),
    .open = memory_open,
    .check_url = memory_check_url,
    .close = memory_close,
    .migrate = memory_migrate,
    .now = memory_now,
    .durability = memory_durability,
    .scope = memory_scope,
    .stats = memory_stats,
    .units = &units,
    .markers = &markers,
    .notes = &notes,
    .outbox = &outbox,
    .dead = &dead_letters,
    .lists = &memory_lists,
    .inspection = &memory_inspection,
    .operation = &memory_operation,
    .history = &memory_history,
};
