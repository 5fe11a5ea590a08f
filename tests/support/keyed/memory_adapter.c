/* The memory adapter: opening, reading, the driver's table. memory_apply.c writes. */
#include "support/keyed/memory_adapter.h"

#include "support/keyed/memory_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;
static keyed_memory *first_by_name;

void *memory_must(void *memory)
{
    if (!memory)
        abort(); /* no test can go on */
    return memory;
}

/* --- clients ---------------------------------------------------------------------------------- */

static keyed_memory *by_name(const char *name)
{
    keyed_memory *at = first_by_name;
    while (at && strcmp(at->name, name))
        at = at->next;
    return at;
}

static semel_status open_client(void *store, const void *argument,
                                const semel_store_settings *settings, semel_error *err)
{
    memory_client *client = store;
    if (!argument)
        return semel_fail(err, SEMEL_EINVAL, "a database in memory has a name");
    client->memory = keyed_memory_named(argument);
    client->settings = settings;
    client->watched = -1;
    return SEMEL_OK;
}

static void unwatch(void *store)
{
    memory_client *client = store, **at = &client->memory->watchers;
    if (client->watched < 0)
        return;
    (void)pthread_mutex_lock(&client->memory->lock);
    while (*at && *at != client)
        at = &(*at)->next;
    if (*at)
        *at = client->next;
    (void)pthread_mutex_unlock(&client->memory->lock);
    (void)close(client->watched);
    client->watched = -1;
}

static void close_client(void *store)
{
    unwatch(store);
}

static int watch(void *store)
{
    memory_client *client = store;
    if (client->watched >= 0)
        return client->watched;
    client->watched = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (client->watched < 0)
        return -1;
    (void)pthread_mutex_lock(&client->memory->lock);
    client->next = client->memory->watchers;
    client->memory->watchers = client;
    (void)pthread_mutex_unlock(&client->memory->lock);
    return SEMEL_WATCH_LATER;
}

static int heard(void *store)
{
    const memory_client *client = store;
    uint64_t number;
    return client->watched >= 0 && read(client->watched, &number, sizeof number) > 0;
}

static int is_watched(const semel_keyed_change *change)
{
    const size_t len = strlen(SEMEL_KEYED_WATCHED);
    return change->kind == SEMEL_KEYED_WRITE && change->record.space.len >= len &&
           !memcmp(change->record.space.data, SEMEL_KEYED_WATCHED, len);
}

void memory_tell_watchers(keyed_memory *memory, const semel_keyed_change changes[], size_t count)
{
    int any = 0;
    for (size_t i = 0; memory->watchers && i < count; i++)
        any |= is_watched(&changes[i]);
    for (const memory_client *at = memory->watchers; any && at; at = at->next) {
        uint64_t one = 1;
        if (write(at->watched, &one, sizeof one) < 0)
            continue; /* it is readable in any case */
    }
}

static semel_status now(void *store, int64_t *out_ms, uint32_t *error_ms, semel_error *err)
{
    memory_client *client = store;
    (void)err;
    (void)pthread_mutex_lock(&client->memory->lock);
    *out_ms = memory_now(client);
    (void)pthread_mutex_unlock(&client->memory->lock);
    *error_ms = client->memory->options.error_ms;
    return SEMEL_OK;
}

static semel_durability durability(const void *store)
{
    const memory_client *client = store;
    semel_durability told = client->memory->options.durability;
    return told ? told : SEMEL_DURABLE_NOT;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Records are given to a sink without the lock, so they are copied first. */
typedef struct found {
    mem_arena arena;
    semel_keyed_record *records;
    size_t count, capacity;
    int failed; /* out of memory, which tests bring about */
} found;

static semel_bytes keep(found *all, semel_bytes bytes)
{
    if (!bytes.data)
        return bytes;
    const void *copy = arena_copy(&all->arena, bytes.data, bytes.len);
    all->failed |= !copy;
    return (semel_bytes){copy, bytes.len};
}

static void add(found *all, const memory_node *node, int body)
{
    if (all->count == all->capacity) {
        all->capacity = all->capacity ? all->capacity * 2 : 16;
        all->records = memory_must(realloc(all->records, all->capacity * sizeof *all->records));
    }
    semel_keyed_record *record = &all->records[all->count++];
    *record = node->record;
    record->space = keep(all, record->space);
    record->key = keep(all, record->key);
    record->value = keep(all, record->value);
    record->body = body ? keep(all, record->body) : (semel_bytes){NULL, 0};
}

static semel_status give(found *all, semel_keyed_sink *sink, void *context, semel_error *err)
{
    semel_status status =
        all->failed ? semel_fail(err, SEMEL_ENOMEM, "out of memory for records") : SEMEL_OK;
    for (size_t i = 0; i < all->count && !status; i++)
        status = sink(&all->records[i], context, err);
    arena_free(&all->arena);
    free(all->records);
    return status;
}

static semel_status before(memory_client *client, keyed_memory_event *event, semel_error *err)
{
    keyed_memory *memory = client->memory;
    keyed_memory_fate fate = KEYED_MEMORY_DONE;
    __atomic_fetch_add(&memory->calls[event->call], 1, __ATOMIC_RELAXED);
    event->client = client;
    if (memory->options.hook.before)
        fate = memory->options.hook.before(memory->options.hook.context, event);
    if (fate == KEYED_MEMORY_UNAVAILABLE)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "the database cannot be reached");
    if (fate == KEYED_MEMORY_BUSY)
        return semel_fail(err, SEMEL_EBUSY, "the database is busy");
    return SEMEL_OK;
}

static semel_status answer(memory_client *client, const keyed_memory_event *event,
                           semel_status status)
{
    const keyed_memory_hook *hook = &client->memory->options.hook;
    if (hook->after)
        hook->after(hook->context, event, status);
    return status;
}

static semel_status get(void *store, semel_bytes space, const semel_bytes keys[], size_t count,
                        int bodies, semel_keyed_sink *sink, void *context, semel_error *err)
{
    memory_client *client = store;
    keyed_memory *memory = client->memory;
    keyed_memory_event event = {.call = KEYED_MEMORY_GET, .space = space, .count = count};
    found all = {.count = 0};
    semel_status status = before(client, &event, err);
    if (status)
        return answer(client, &event, status);
    (void)pthread_mutex_lock(&memory->lock);
    (void)memory_now(client);
    for (size_t i = 0; i < count; i++) {
        const memory_node *node = records_find(&memory->records, space, keys[i]);
        if (node && !memory_is_gone(memory, node))
            add(&all, node, bodies);
    }
    (void)pthread_mutex_unlock(&memory->lock);
    status = give(&all, sink, context, err);
    return answer(client, &event, status);
}

static int is_beyond(const semel_keyed_range *range, semel_bytes key)
{
    if (!range->until.len)
        return 0;
    int order = semel_keyed_compare(key, range->until);
    return range->descending ? order <= 0 : order >= 0;
}

static int is_omitted(const keyed_memory *memory, const memory_node *node)
{
    const keyed_memory_hook *hook = &memory->options.hook;
    return hook->omits && hook->omits(hook->context, &node->record);
}

static void collect(found *all, const keyed_memory *memory, const semel_keyed_range *range)
{
    const memory_node *node =
        records_next(&memory->records, range->space, range->after, range->descending);
    while (node && all->count < range->limit && !is_beyond(range, node->record.key)) {
        if (!memory_is_gone(memory, node) && !is_omitted(memory, node))
            add(all, node, range->bodies);
        node = records_next(&memory->records, range->space, node->record.key, range->descending);
    }
}

static semel_status scan(void *store, const semel_keyed_range *range, semel_keyed_sink *sink,
                         void *context, semel_error *err)
{
    memory_client *client = store;
    keyed_memory_event event = {.call = KEYED_MEMORY_SCAN, .space = range->space, .range = range};
    found all = {.count = 0};
    semel_status status = before(client, &event, err);
    if (status)
        return answer(client, &event, status);
    (void)pthread_mutex_lock(&client->memory->lock);
    (void)memory_now(client);
    collect(&all, client->memory, range);
    (void)pthread_mutex_unlock(&client->memory->lock);
    status = give(&all, sink, context, err);
    return answer(client, &event, status);
}

static semel_status count_records(void *store, semel_bytes space, uint64_t *out, semel_error *err)
{
    memory_client *client = store;
    keyed_memory_event event = {.call = KEYED_MEMORY_COUNT, .space = space};
    semel_status status = before(client, &event, err);
    if (status)
        return answer(client, &event, status);
    uint64_t count = 0;
    (void)pthread_mutex_lock(&client->memory->lock);
    (void)memory_now(client);
    const memory_node *node =
        records_next(&client->memory->records, space, (semel_bytes){NULL, 0}, 0);
    while (node) {
        count += !memory_is_gone(client->memory, node);
        node = records_next(&client->memory->records, space, node->record.key, 0);
    }
    (void)pthread_mutex_unlock(&client->memory->lock);
    *out = count;
    return answer(client, &event, SEMEL_OK);
}

/* --- databases -------------------------------------------------------------------------------- */

static const semel_store_watch watching = {watch, heard, unwatch};

static const semel_keyed_driver table = {
    .version = SEMEL_KEYED_DRIVER_VERSION,
    .abilities = SEMEL_KEYED_MANY | SEMEL_KEYED_EXPIRES,
    .scheme = "keyed-memory",
    .store_size = sizeof(memory_client),
    .open = open_client,
    .close = close_client,
    .now = now,
    .durability = durability,
    .get = get,
    .apply = memory_apply,
    .scan = scan,
    .count = count_records,
    .queue = memory_queue,
    .watch = &watching,
};

/* The layer keeps what it makes of a driver by its address: equal drivers are one, for ever. */
static const semel_keyed_driver *same_driver(const semel_keyed_driver *driver)
{
    static struct {
        semel_keyed_driver all[64];
        size_t count;
    } known;
    size_t i = 0;
    (void)pthread_mutex_lock(&names);
    while (i < known.count && memcmp(&known.all[i], driver, sizeof *driver) != 0)
        i++;
    if (i == sizeof known.all / sizeof *known.all)
        abort(); /* so many kinds of databases no test has */
    if (i == known.count)
        memcpy(&known.all[known.count++], driver, sizeof *driver);
    (void)pthread_mutex_unlock(&names);
    return &known.all[i];
}

static semel_keyed_driver driver_for(const keyed_memory_options *options)
{
    semel_keyed_driver driver;
    memcpy(&driver, &table, sizeof driver);
    driver.abilities &= ~options->lacks;
    driver.limits = options->limits;
    if (options->no_queue)
        driver.queue = NULL;
    if (options->no_count)
        driver.count = NULL;
    if (options->no_watch)
        driver.watch = NULL;
    return driver;
}

keyed_memory *keyed_memory_open(const char *name, const keyed_memory_options *options)
{
    keyed_memory *memory = memory_must(calloc(1, sizeof *memory));
    if (strlen(name) >= sizeof memory->name || pthread_mutex_init(&memory->lock, NULL))
        abort();
    memcpy(memory->name, name, strlen(name));
    memory->options = *options;
    semel_keyed_driver driver = driver_for(options);
    memory->driver = same_driver(&driver);
    (void)pthread_mutex_lock(&names);
    memory->next = first_by_name;
    first_by_name = memory;
    (void)pthread_mutex_unlock(&names);
    return memory;
}

void keyed_memory_close(keyed_memory *memory)
{
    (void)pthread_mutex_lock(&names);
    keyed_memory **at = &first_by_name;
    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    (void)pthread_mutex_unlock(&names);
    while (memory->flights)
        (void)keyed_memory_arrive(memory, 0);
    while (memory->counters) {
        memory_counter *gone = memory->counters;
        memory->counters = gone->next;
        free(gone);
    }
    records_clear(&memory->records);
    (void)pthread_mutex_destroy(&memory->lock);
    free(memory);
}

keyed_memory *keyed_memory_named(const char *name)
{
    (void)pthread_mutex_lock(&names);
    keyed_memory *memory = by_name(name);
    (void)pthread_mutex_unlock(&names);
    return memory ? memory : keyed_memory_open(name, &(keyed_memory_options){0});
}

const semel_keyed_driver *keyed_memory_driver(const keyed_memory *memory)
{
    return memory->driver;
}

void keyed_memory_set_hook(keyed_memory *memory, const keyed_memory_hook *hook)
{
    memory->options.hook = hook ? *hook : (keyed_memory_hook){0};
}

void keyed_memory_plant(keyed_memory *memory, const keyed_memory_mistake *mistake)
{
    memory->mistake = *mistake;
}

size_t keyed_memory_records(keyed_memory *memory)
{
    (void)pthread_mutex_lock(&memory->lock);
    size_t count = memory->records.count;
    (void)pthread_mutex_unlock(&memory->lock);
    return count;
}

static void visit(const memory_node *node, semel_keyed_sink *sink, void *context)
{
    if (!node)
        return;
    visit(node->left, sink, context);
    if (!sink(&node->record, context, NULL))
        visit(node->right, sink, context);
}

void keyed_memory_each(keyed_memory *memory, semel_keyed_sink *sink, void *context)
{
    (void)pthread_mutex_lock(&memory->lock);
    visit(memory->records.root, sink, context);
    (void)pthread_mutex_unlock(&memory->lock);
}

uint64_t keyed_memory_calls(keyed_memory *memory, keyed_memory_call call)
{
    return __atomic_load_n(&memory->calls[call], __ATOMIC_RELAXED);
}
