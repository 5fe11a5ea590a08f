/* apply() of the memory adapter: limits, expectations, and what the hook makes of it. */
#include "support/keyed/memory_internal.h"

#include "base/seam.h"

#include <stdlib.h>
#include <string.h>

/* --- limits ----------------------------------------------------------------------------------- */

static uint64_t size_of(const semel_keyed_change *change)
{
    if (change->kind == SEMEL_KEYED_FOREIGN)
        return strlen(change->statement);
    const semel_keyed_record *record = &change->record;
    return record->space.len + record->key.len + record->value.len + record->body.len;
}

static semel_status check_limits(const keyed_memory *memory, const semel_keyed_change changes[],
                                 size_t count, semel_error *err)
{
    const semel_keyed_limits *limits = &memory->driver->limits;
    uint64_t all = 0;
    if (!(memory->driver->abilities & SEMEL_KEYED_MANY) && count > 1)
        return semel_fail(err, SEMEL_ELIMIT, "this database takes one change at a time");
    if (limits->changes_max && count > limits->changes_max)
        return semel_fail(err, SEMEL_ELIMIT, "%zu changes at once: at most %u", count,
                          limits->changes_max);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = size_of(&changes[i]);
        if (limits->record_max && size > limits->record_max)
            return semel_fail(err, SEMEL_ELIMIT, "a record of %llu bytes: at most %llu",
                              (unsigned long long)size, (unsigned long long)limits->record_max);
        all += size;
    }
    if (limits->apply_max && all > limits->apply_max)
        return semel_fail(err, SEMEL_ELIMIT, "%llu bytes at once: at most %llu",
                          (unsigned long long)all, (unsigned long long)limits->apply_max);
    return SEMEL_OK;
}

/* The layer must not do any of this; a test that sees it has found a mistake in it. */
static int is_malformed(const semel_keyed_change changes[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const semel_keyed_change *one = &changes[i];
        if (one->kind < SEMEL_KEYED_WRITE || one->kind > SEMEL_KEYED_FOREIGN)
            return 1;
        if (one->kind == SEMEL_KEYED_FOREIGN)
            continue;
        if (one->expect < SEMEL_EXPECT_ABSENT || one->expect > SEMEL_EXPECT_GUARD ||
            one->record.space.len > SEMEL_KEYED_SPACE_MAX ||
            one->record.key.len > SEMEL_KEYED_KEY_MAX || !one->record.key.len)
            return 1;
        for (size_t j = 0; j < i; j++)
            if (changes[j].kind != SEMEL_KEYED_FOREIGN &&
                !semel_keyed_compare(changes[j].record.space, one->record.space) &&
                !semel_keyed_compare(changes[j].record.key, one->record.key))
                return 1;
    }
    return 0;
}

/* --- expectations ----------------------------------------------------------------------------- */

/* After a reboot of the host the steady clock begins anew: the database's goes on. */
static int is_set(const keyed_memory *memory, const semel_seam *seam, char boot[37])
{
    seam->boot_id(seam->context, boot);
    return memory->clock_known && strcmp(boot, memory->boot) == 0;
}

static int64_t clock_of(memory_client *client)
{
    char boot[37] = "";
    keyed_memory *memory = client->memory;
    const semel_seam *seam = client->settings->seam;
    if (memory->options.now_ms)
        return memory->options.now_ms(memory->options.now_context, client);
    if (!is_set(memory, seam, boot)) {
        memory->clock_offset_ms = seam_wall_ms(seam) - seam_steady_ms(seam);
        memory->clock_known = 1;
        memcpy(memory->boot, boot, sizeof boot);
    }
    return seam_steady_ms(seam) + memory->clock_offset_ms;
}

int64_t memory_now(memory_client *client)
{
    keyed_memory *memory = client->memory;
    int64_t now = clock_of(client);
    if (now > memory->latest_ms)
        memory->latest_ms = now;
    return memory->options.now_ms ? now : memory->latest_ms;
}

int memory_is_gone(const keyed_memory *memory, const memory_node *node)
{
    return (memory->driver->abilities & SEMEL_KEYED_EXPIRES) && node->expires_ms &&
           node->expires_ms <= memory->latest_ms;
}

static memory_node *find(keyed_memory *memory, const semel_keyed_record *at)
{
    memory_node *node = records_find(&memory->records, at->space, at->key);
    if (!node || !memory_is_gone(memory, node))
        return node;
    records_remove(&memory->records, at->space, at->key);
    return NULL;
}

static int holds(const keyed_memory *memory, const semel_keyed_change *change,
                 const memory_node *node)
{
    if ((int)change->expect == KEYED_MEMORY_EXPECT_NOTHING)
        return 1;
    if (change->expect == SEMEL_EXPECT_ABSENT)
        return !node;
    if (!node)
        return 0;
    if (change->expect == SEMEL_EXPECT_VERSION)
        return memory->mistake.version ||
               !memcmp(node->record.version, change->expected_version, SEMEL_KEYED_VERSION_LEN);
    return (memory->mistake.guard || node->record.guard == change->expected_guard) &&
           (!change->live_at_ms || node->record.until_ms > change->live_at_ms);
}

typedef struct told {
    semel_keyed_sink *sink; /* NULL: nobody is told */
    void *context;
} told;

static semel_status refuse(keyed_memory *memory, semel_keyed_change changes[], size_t count,
                           told to, semel_error *err)
{
    size_t refused = 0;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < count; i++) {
        const memory_node *node;
        changes[i].refused = 0;
        if (changes[i].kind == SEMEL_KEYED_FOREIGN)
            continue;
        node = find(memory, &changes[i].record);
        if (holds(memory, &changes[i], node))
            continue;
        changes[i].refused = 1;
        refused++;
        if (node && to.sink && !status) {
            semel_keyed_record shown = node->record;
            shown.body = (semel_bytes){NULL, 0};
            status = to.sink(&shown, to.context, err);
        }
    }
    if (status || !refused)
        return status;
    return semel_fail(err, SEMEL_ECONFLICT, "%zu of %zu records are not as expected", refused,
                      count);
}

static void carry_out(keyed_memory *memory, const semel_keyed_change changes[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const semel_keyed_change *change = &changes[i];
        if (change->kind == SEMEL_KEYED_WRITE)
            records_write(&memory->records, &change->record,
                          change->keep_body && !memory->mistake.body, change->expires_ms);
        else if (change->kind == SEMEL_KEYED_REMOVE)
            records_remove(&memory->records, change->record.space, change->record.key);
        else if (change->kind == SEMEL_KEYED_FOREIGN)
            memory_statement_run(memory, change);
    }
}

/* With the lock held. */
static semel_status apply_now(keyed_memory *memory, semel_keyed_change changes[], size_t count,
                              told to, semel_error *err)
{
    semel_status status = refuse(memory, changes, count, to, err);
    if (!status)
        status = memory_statement_try(memory, changes, count, err);
    if (status)
        return status;
    carry_out(memory, changes, count);
    if (memory->options.hook.applied)
        memory->options.hook.applied(memory->options.hook.context, changes, count);
    memory_tell_watchers(memory, changes, count);
    return SEMEL_OK;
}

/* --- in flight -------------------------------------------------------------------------------- */

static semel_bytes keep(mem_arena *arena, semel_bytes bytes)
{
    if (!bytes.data)
        return bytes;
    return (semel_bytes){memory_must(arena_copy(arena, bytes.data, bytes.len)), bytes.len};
}

static void keep_statement(mem_arena *arena, semel_keyed_change *change)
{
    semel_value *values = memory_must(arena_alloc(arena, (change->count + 1) * sizeof *values));
    for (size_t i = 0; i < change->count; i++) {
        values[i] = change->values[i];
        values[i].bytes = keep(arena, values[i].bytes);
    }
    change->statement =
        memory_must(arena_copy(arena, change->statement, strlen(change->statement)));
    change->values = values;
}

static void send_off(keyed_memory *memory, const semel_keyed_change changes[], size_t count)
{
    memory_flight *flight = memory_must(calloc(1, sizeof *flight));
    memory_flight **at = &memory->flights;
    flight->count = count;
    flight->changes = memory_must(arena_alloc(&flight->arena, (count + 1) * sizeof *changes));
    for (size_t i = 0; i < count; i++) {
        semel_keyed_change *change = &flight->changes[i];
        *change = changes[i];
        change->record.space = keep(&flight->arena, change->record.space);
        change->record.key = keep(&flight->arena, change->record.key);
        change->record.value = keep(&flight->arena, change->record.value);
        change->record.body = keep(&flight->arena, change->record.body);
        if (change->kind == SEMEL_KEYED_FOREIGN)
            keep_statement(&flight->arena, change);
    }
    while (*at)
        at = &(*at)->next;
    *at = flight;
}

size_t keyed_memory_in_flight(keyed_memory *memory)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&memory->lock);
    for (const memory_flight *at = memory->flights; at; at = at->next)
        count++;
    (void)pthread_mutex_unlock(&memory->lock);
    return count;
}

semel_status keyed_memory_arrive(keyed_memory *memory, size_t index)
{
    semel_error ignored;
    semel_status status;
    (void)pthread_mutex_lock(&memory->lock);
    memory_flight **at = &memory->flights;
    while (*at && index--)
        at = &(*at)->next;
    memory_flight *flight = *at;
    if (!flight) {
        (void)pthread_mutex_unlock(&memory->lock);
        return SEMEL_ENOTFOUND;
    }
    *at = flight->next;
    status = apply_now(memory, flight->changes, flight->count, (told){NULL, NULL}, &ignored);
    (void)pthread_mutex_unlock(&memory->lock);
    arena_free(&flight->arena);
    free(flight);
    return status;
}

/* --- the call --------------------------------------------------------------------------------- */

static semel_status unknown(const keyed_memory *memory, semel_error *err)
{
    if (memory->mistake.unknown)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "the answer was lost, and misread");
    return semel_fail(err, SEMEL_EUNKNOWN, "the answer was lost");
}

static semel_status meet(memory_client *client, semel_keyed_change changes[], size_t count,
                         keyed_memory_fate fate, told to, semel_error *err)
{
    keyed_memory *memory = client->memory;
    semel_status status = SEMEL_OK;
    (void)pthread_mutex_lock(&memory->lock);
    (void)memory_now(client);
    if (fate == KEYED_MEMORY_LATE)
        send_off(memory, changes, count);
    else if (fate == KEYED_MEMORY_PRETENDED)
        status = refuse(memory, changes, count, to, err);
    else if (fate != KEYED_MEMORY_LOST)
        status = apply_now(memory, changes, count, to, err);
    (void)pthread_mutex_unlock(&memory->lock);
    int answered =
        fate == KEYED_MEMORY_DONE || fate == KEYED_MEMORY_SILENT || fate == KEYED_MEMORY_PRETENDED;
    return answered ? status : unknown(memory, err);
}

static semel_status suffer(memory_client *client, semel_keyed_change changes[], size_t count,
                           keyed_memory_fate fate, told to, semel_error *err)
{
    for (size_t i = 0; i < count; i++)
        changes[i].refused = 0;
    switch (fate) {
    case KEYED_MEMORY_UNAVAILABLE:
        return semel_fail(err, SEMEL_EUNAVAILABLE, "the database cannot be reached");
    case KEYED_MEMORY_BUSY:
        return semel_fail(err, SEMEL_EBUSY, "the database is busy");
    case KEYED_MEMORY_GIVES_UP:
        return semel_fail(err, SEMEL_ECONFLICT, "the database gave up; try again");
    case KEYED_MEMORY_DONE:
    case KEYED_MEMORY_PRETENDED:
        return meet(client, changes, count, fate, to, err);
    case KEYED_MEMORY_SILENT:
    case KEYED_MEMORY_LOST:
    case KEYED_MEMORY_APPLIED:
    case KEYED_MEMORY_LATE:
        break;
    }
    return meet(client, changes, count, fate, (told){NULL, NULL}, err);
}

/* `refused` is in the copy; the caller's changes are those that have the same places. */
static void tell_refused(semel_keyed_change changes[], size_t count,
                         const keyed_memory_event *event)
{
    for (size_t i = 0; i < count; i++) {
        changes[i].refused = 0;
        for (size_t j = 0; j < event->count; j++)
            if (event->changes[j].refused && changes[i].kind != SEMEL_KEYED_FOREIGN &&
                !semel_keyed_compare(changes[i].record.space, event->changes[j].record.space) &&
                !semel_keyed_compare(changes[i].record.key, event->changes[j].record.key))
                changes[i].refused = 1;
    }
}

static semel_status hooked(memory_client *client, semel_keyed_change changes[], size_t count,
                           told to, semel_error *err)
{
    const keyed_memory_hook *hook = &client->memory->options.hook;
    enum { SPARE = 4 }; /* the hook may add so many */
    semel_keyed_change room[32 + SPARE];
    semel_keyed_change *copy =
        count <= 32 ? room : memory_must(malloc((count + SPARE) * sizeof *copy));
    memcpy(copy, changes, count * sizeof *copy);
    keyed_memory_event event = {
        .call = KEYED_MEMORY_APPLY, .client = client, .count = count, .changes = copy};
    keyed_memory_fate fate = hook->before ? hook->before(hook->context, &event) : KEYED_MEMORY_DONE;
    semel_status status = suffer(client, event.changes, event.count, fate, to, err);
    tell_refused(changes, count, &event);
    if (hook->after)
        hook->after(hook->context, &event, status);
    if (copy != room)
        free(copy);
    return status;
}

semel_status memory_apply(void *store, semel_keyed_change changes[], size_t count,
                          semel_begin durability, semel_keyed_sink *sink, void *context,
                          semel_error *err)
{
    memory_client *client = store;
    semel_status status = check_limits(client->memory, changes, count, err);
    (void)durability;
    if (status)
        return status;
    if (is_malformed(changes, count))
        return semel_fail(err, SEMEL_EMISUSE, "malformed changes");
    __atomic_fetch_add(&client->memory->calls[KEYED_MEMORY_APPLY], 1, __ATOMIC_RELAXED);
    return hooked(client, changes, count, (told){sink, context}, err);
}
