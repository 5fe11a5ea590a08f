/* Opening and closing, the version of the layout, the driver's clock and watch.
 *
 * The layout is a record of its own, which `migrate` writes. A store whose layout is missing or
 * newer than this library knows is refused when a name is looked up, before anything is written. */
#include "store/keyed/commit.h"
#include "store/keyed/hold.h"
#include "store/keyed/name.h"

#include "base/wait.h"

#include <string.h>
#include <unistd.h>

enum { FIELD_LAYOUT = 1 };
static const char layout_key[] = "layout";

/* --- opening ---------------------------------------------------------------------------------- */

static int make_conditions(keyed_store *store)
{
    int error = wait_condition_init(&store->changed);
    if (error)
        return error;
    error = wait_condition_init(&store->ending);
    if (error)
        pthread_cond_destroy(&store->changed);
    return error;
}

static semel_status make_lock(keyed_store *store, semel_error *err)
{
    int error = pthread_mutex_init(&store->lock, NULL);
    if (!error && (error = make_conditions(store)) != 0)
        pthread_mutex_destroy(&store->lock);
    if (error)
        return semel_fail(err, SEMEL_ESTORE, "no mutex for the store: %s", strerror(error));
    return SEMEL_OK;
}

static void free_memory(keyed_store *store)
{
    keyed_claims_free(store);
    keyed_spares_free(store);
    mem_free(store->state);
    pthread_cond_destroy(&store->ending);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
}

semel_status keyed_open(void *store, const semel_keyed_driver *driver, const void *argument,
                        const semel_store_settings *settings, semel_error *err)
{
    keyed_store *self = store;
    semel_status status = make_lock(self, err);
    if (status)
        return status;
    self->driver = driver;
    self->settings = settings;
    self->seam = settings->seam;
    self->pid = getpid();
    self->offset_ms = seam_wall_ms(self->seam) - seam_steady_ms(self->seam);
    self->seam->random(self->seam->context, &self->hash, sizeof self->hash);
    self->state = mem_alloc(driver->store_size);
    if (!self->state || !keyed_claims_new(self))
        status = keyed_out_of_memory(err);
    if (!status)
        status = driver->open(self->state, argument, settings, err);
    if (status)
        free_memory(self);
    return status;
}

/* In a child after fork() the keeper does not exist, and the lock may be another thread's. */
void keyed_close(void *store)
{
    keyed_store *self = store;
    if (self->pid == getpid())
        keyed_keeper_stop(self);
    self->driver->close(self->state);
    keyed_groups_free(self);
    free_memory(self);
}

/* --- the layout ------------------------------------------------------------------------------- */

static semel_keyed_record layout_record(const keyed_space *space)
{
    return (semel_keyed_record){.space = keyed_space_bytes(space), .key = semel_str(layout_key)};
}

static int64_t layout_of(const semel_keyed_record *record)
{
    fields_reader reader = {.rest = record->value};
    int64_t version = 0;
    while (fields_next(&reader))
        if (reader.field == FIELD_LAYOUT)
            version = fields_int_of(&reader);
    return version;
}

semel_status keyed_layout(keyed_store *store, int64_t *out, semel_error *err)
{
    mem_arena arena = {0};
    keyed_space space = keyed_space_plain('s');
    semel_keyed_record record = layout_record(&space);
    keyed_row *row = NULL;
    semel_status status = keyed_get(&row, store, &arena, record.space, record.key, 0, err);
    if (!status)
        *out = row ? layout_of(&row->record) : 0;
    arena_free(&arena);
    return status;
}

static semel_status check_version(const keyed_store *store, int64_t version, semel_error *err)
{
    if (version <= KEYED_LAYOUT)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ESCHEMA,
                      "%s: the records are of version %lld, and this semel knows version %d: use a "
                      "newer semel",
                      store->driver->scheme, (long long)version, KEYED_LAYOUT);
}

semel_status keyed_check_layout(keyed_store *store, semel_error *err)
{
    int64_t version = 0;
    if (atomic_load(&store->layout_seen))
        return SEMEL_OK;
    semel_status status = keyed_layout(store, &version, err);
    if (!status && !version)
        status = semel_fail(err, SEMEL_ESCHEMA,
                            "%s: semel's records are not there yet: call semel_store_migrate(), or "
                            "run `semel migrate`",
                            store->driver->scheme);
    if (!status)
        status = check_version(store, version, err);
    if (!status)
        atomic_store(&store->layout_seen, 1);
    return status;
}

static semel_status write_layout(keyed_store *store, semel_error *err)
{
    mem_arena arena = {0};
    keyed_space space = keyed_space_plain('s');
    fields_writer to = {.arena = &arena};
    semel_keyed_record record = layout_record(&space);
    fields_int(&to, FIELD_LAYOUT, KEYED_LAYOUT);
    semel_status status = fields_end(&record.value, &to) ? SEMEL_OK : keyed_out_of_memory(err);
    if (!status) {
        semel_keyed_change change = keyed_write_of(store, NULL, &record, 0);
        status = keyed_apply_now(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, err);
        if (status == SEMEL_ECONFLICT && change.refused)
            status = SEMEL_OK; /* another process was faster */
    }
    arena_free(&arena);
    return status;
}

semel_status keyed_migrate(void *store, semel_error *err)
{
    keyed_store *self = store;
    int64_t version = 0;
    semel_status status = keyed_check_process(self, err);
    if (!status && self->driver->prepare)
        status = self->driver->prepare(self->state, err);
    if (!status)
        status = keyed_layout(self, &version, err);
    if (!status)
        status = check_version(self, version, err);
    if (!status && !version)
        status = seam_fault(self->seam, "migrate.applied", err);
    if (!status && !version)
        status = write_layout(self, err);
    if (!status && !version)
        status = seam_fault(self->seam, "migrate.committed", err);
    return status;
}

/* --- what the driver has ---------------------------------------------------------------------- */

semel_status keyed_store_now(void *store, int64_t *out_ms, semel_error *err)
{
    semel_status status = keyed_check_process(store, err);
    return status ? status : keyed_now(store, out_ms, NULL, err);
}

semel_durability keyed_durability(const void *store)
{
    const keyed_store *self = store;
    return self->driver->durability ? self->driver->durability(self->state) : SEMEL_DURABLE_NOT;
}

static int watch(void *store)
{
    const keyed_store *self = store;
    return self->driver->watch ? self->driver->watch->watch(self->state) : -1;
}

static int heard(void *store)
{
    const keyed_store *self = store;
    return self->driver->watch ? self->driver->watch->heard(self->state) : 0;
}

static void unwatch(void *store)
{
    const keyed_store *self = store;
    if (self->driver->watch)
        self->driver->watch->unwatch(self->state);
}

const semel_store_watch keyed_watch = {watch, heard, unwatch};
