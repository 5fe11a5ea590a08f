/* Drivers of applications: a store table is made of each keyed driver once, and kept. And the
 * tables of markers. */
#include "store/keyed/marker.h"

#include <string.h>

const semel_store_markers keyed_markers = {
    .look = keyed_look,
    .mark = keyed_mark,
    .assume = keyed_assume,
    .claim = keyed_claim_key,
    .finish = keyed_finish,
    .renew = keyed_renew,
    .fail = keyed_fail,
    .unmark = keyed_unmark,
    .bury = keyed_bury,
    .forget = keyed_forget,
    .result_set = keyed_result_set,
    .result_get = keyed_result_get,
    .sweep = keyed_sweep,
    .letter_gone = keyed_letter_gone,
};

const semel_store_markers keyed_claims_only = {
    .look = keyed_look,
    .claim = keyed_claim_key,
    .finish = keyed_finish,
    .renew = keyed_renew,
    .fail = keyed_fail,
    .forget = keyed_forget,
    .result_set = keyed_result_set,
    .result_get = keyed_result_get,
    .sweep = keyed_sweep,
};

/* --- tables of drivers ------------------------------------------------------------------------ */

typedef struct made_table {
    struct made_table *next;
    const semel_keyed_driver *driver;
    semel_store_driver table;
} made_table;

static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static made_table *tables;

/* What the table's `open` gets. */
typedef struct opening {
    const semel_keyed_driver *driver;
    const void *argument;
} opening;

static semel_status open_made(void *store, const void *argument,
                              const semel_store_settings *settings, semel_error *err)
{
    const opening *of = argument;
    return keyed_open(store, of->driver, of->argument, settings, err);
}

static uint32_t abilities_of(const semel_keyed_driver *driver)
{
    uint32_t abilities = 0;
    if (driver->abilities & SEMEL_KEYED_SHARED)
        abilities |= SEMEL_STORE_SHARED;
    if (driver->abilities & SEMEL_KEYED_DISTANT)
        abilities |= SEMEL_STORE_DISTANT;
    if (driver->queue && driver->abilities & SEMEL_KEYED_MANY)
        abilities |= SEMEL_STORE_TRANSACTIONS;
    return abilities;
}

/* A message may need four changes of records. */
static uint32_t messages_at_once(const semel_keyed_driver *driver)
{
    uint32_t most = driver->limits.changes_max;
    return most >= 4 ? most / 4 : most ? 1 : 0;
}

/* Where apply() takes one change, a message can be claimed and finished, and that is all. */
static void fill_groups(semel_store_driver *table, const semel_keyed_driver *driver)
{
    int many = (driver->abilities & SEMEL_KEYED_MANY) != 0;
    table->units = many && driver->queue ? &keyed_units_native : &keyed_units;
    table->markers = many ? &keyed_markers : &keyed_claims_only;
    table->notes = &keyed_notes;
    table->lists = many ? &keyed_lists : &keyed_lists_of_markers;
    table->inspection = &keyed_inspection;
    table->watch = many && driver->watch ? &keyed_watch : NULL;
    if (!many)
        return;
    table->outbox = &keyed_outbox;
    table->dead = &keyed_dead;
    table->operation = &keyed_operation;
    table->history = &keyed_history;
}

void keyed_table_make(semel_store_driver *out, const semel_keyed_driver *driver)
{
    *out = (semel_store_driver){
        .version = SEMEL_STORE_DRIVER_VERSION,
        .abilities = abilities_of(driver),
        .scheme = driver->scheme,
        .store_size = sizeof(keyed_store),
        .unit_size = sizeof(keyed_unit),
        .changes_max = messages_at_once(driver),
        .open = open_made,
        .close = keyed_close,
        .migrate = keyed_migrate,
        .now = keyed_store_now,
        .durability = keyed_durability,
        .scope = keyed_scope,
        .stats = keyed_stats,
    };
    fill_groups(out, driver);
}

static semel_status check_driver(const semel_keyed_driver *driver, semel_error *err)
{
    if (driver->version != SEMEL_KEYED_DRIVER_VERSION)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "the keyed driver is of version %u, this library knows version %d: build "
                          "the driver with this library's headers",
                          (unsigned)driver->version, SEMEL_KEYED_DRIVER_VERSION);
    if (!driver->scheme || !driver->store_size || !driver->open || !driver->close || !driver->get ||
        !driver->apply || !driver->scan ||
        (!driver->now && (driver->abilities & SEMEL_KEYED_SHARED)))
        return semel_fail(err, SEMEL_EINVAL,
                          "%s: the keyed driver lacks a member that is not optional",
                          driver->scheme ? driver->scheme : "keyed driver");
    return SEMEL_OK;
}

/* Another driver may be at the same place later. */
static int is_for(const made_table *made, const semel_keyed_driver *driver)
{
    const semel_store_driver *table = &made->table;
    return made->driver == driver && table->scheme == driver->scheme &&
           table->abilities == abilities_of(driver) &&
           table->changes_max == messages_at_once(driver) &&
           !table->units->queue == !driver->queue && !table->watch == !driver->watch;
}

static made_table *find_table(const semel_keyed_driver *driver)
{
    made_table *made = tables;
    while (made && !is_for(made, driver))
        made = made->next;
    if (made || !(made = mem_alloc(sizeof *made)))
        return made;
    made->driver = driver;
    keyed_table_make(&made->table, driver);
    made->next = tables;
    tables = made;
    return made;
}

semel_status semel_store_open_keyed(semel_store **out, const semel_keyed_driver *driver,
                                    const void *argument, const semel_store_options *options,
                                    semel_error *err)
{
    opening of = {driver, argument};
    semel_status status = check_driver(driver, err);
    if (status)
        return status;
    pthread_mutex_lock(&tables_lock);
    made_table *made = find_table(driver);
    pthread_mutex_unlock(&tables_lock);
    return made ? semel_store_open_driver(out, &made->table, &of, options, err)
                : keyed_out_of_memory(err);
}
