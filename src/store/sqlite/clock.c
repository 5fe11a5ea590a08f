/* The store's clock: it does not jump when an operator sets the host's.
 *
 * Within one boot of the host, all processes share its steady clock; the row in semel_clock says
 * which store time belongs to which steady time, and each process computes the rest. The first
 * process of a new boot goes on from the last known store time, plus the time that passed by the
 * wall clock if that is ahead of the highest ever seen, and plus nothing if it is behind (a device
 * without a battery wakes up in 1970). So store time never runs backwards, and within a boot never
 * leaps.
 *
 * The row is refreshed every few seconds along with some other write. Not promised: a host that
 * *boots* with its clock years ahead will believe it. */
#include "store/sqlite/sqlite.h"

#include <string.h>

enum { SAVE_EVERY_MS = 10000 };

typedef struct reading {
    int64_t store_ms, steady_ms, wall_ms;
    char boot_id[37];
} reading;

static semel_status write_row(sqlite_store *store, const reading *r, semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->writer, ST_CLOCK_WRITE);
    sqlite_query_int(&q, r->store_ms);
    sqlite_query_int(&q, r->steady_ms);
    sqlite_query_int(&q, r->wall_ms);
    sqlite_query_text(&q, r->boot_id);
    return sqlite_query_run(&q, NULL, "storing the clock", err);
}

/* *found is 0 when the table is empty: no process has opened an inbox here before. */
static semel_status read_row(sqlite_store *store, reading *out, int *found, semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->writer, ST_CLOCK_READ);
    int got = sqlite_query_row(&q, "reading the clock", err);
    if (got < 0)
        return q.status;
    *found = got;
    if (!got)
        return SEMEL_OK;
    const char *boot_id = sqlite_row_text(&q, 3);
    *out = (reading){.store_ms = sqlite_row_int(&q, 0),
                     .steady_ms = sqlite_row_int(&q, 1),
                     .wall_ms = sqlite_row_int(&q, 2)};
    size_t len = boot_id ? strlen(boot_id) : 0;
    if (len < sizeof out->boot_id)
        memcpy(out->boot_id, boot_id ? boot_id : "", len);
    int lost = sqlite_row_lost(&q);
    sqlite_query_end(&q);
    return lost ? semel_fail(err, SEMEL_ENOMEM, "out of memory reading the clock") : SEMEL_OK;
}

static int same_boot(const reading *then, const reading *now)
{
    return strcmp(then->boot_id, now->boot_id) == 0 && now->steady_ms >= then->steady_ms;
}

static void go_on_from(reading *now, const reading *then)
{
    int64_t passed = same_boot(then, now)           ? now->steady_ms - then->steady_ms
                     : now->wall_ms > then->wall_ms ? now->wall_ms - then->wall_ms
                                                    : 0;
    now->store_ms = then->store_ms + passed;
    if (now->wall_ms < then->wall_ms)
        now->wall_ms = then->wall_ms;
}

static semel_status load_in_transaction(sqlite_store *store, semel_error *err)
{
    const semel_seam *seam = store->seam;
    reading then, now = {.steady_ms = seam_steady_ms(seam), .wall_ms = seam_wall_ms(seam)};
    int found = 0;
    now.store_ms = now.wall_ms;
    seam->boot_id(seam->context, now.boot_id);
    semel_status status = read_row(store, &then, &found, err);
    if (status)
        return status;
    if (found)
        go_on_from(&now, &then);
    status = write_row(store, &now, err);
    if (status)
        return status;
    store->base_store_ms = now.store_ms;
    store->base_steady_ms = now.steady_ms;
    store->clock_saved_ms = now.store_ms;
    return SEMEL_OK;
}

static semel_status load_locked(sqlite_store *store, semel_error *err)
{
    sqlite_unit unit = {0};
    semel_status status = sqlite_begin(store, &unit, SEMEL_BEGIN_RELAXED, store->busy_ms, err);
    if (status)
        return status;
    status = load_in_transaction(store, err);
    if (status) {
        sqlite_rollback(&unit);
        return status;
    }
    return sqlite_commit(&unit, err);
}

semel_status sqlite_clock_load(sqlite_store *store, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (store->clock_loaded)
        return SEMEL_OK;
    pthread_mutex_lock(&store->clock_lock);
    if (!store->clock_loaded)
        status = load_locked(store, err);
    if (!status)
        store->clock_loaded = 1;
    pthread_mutex_unlock(&store->clock_lock);
    return status;
}

int64_t sqlite_clock_now(const sqlite_store *store)
{
    return store->base_store_ms + (seam_steady_ms(store->seam) - store->base_steady_ms);
}

semel_status sqlite_clock_save(sqlite_store *store, semel_error *err)
{
    const semel_seam *seam = store->seam;
    reading then,
        now = {.steady_ms = seam_steady_ms(seam)}; /* once: the two must belong together */
    int found = 0;
    now.store_ms = store->base_store_ms + (now.steady_ms - store->base_steady_ms);
    if (now.store_ms - store->clock_saved_ms < SAVE_EVERY_MS)
        return SEMEL_OK;
    semel_status status = read_row(store, &then, &found, err);
    if (status)
        return status;
    int64_t wall = seam_wall_ms(seam);
    now.wall_ms = found && then.wall_ms > wall ? then.wall_ms : wall;
    seam->boot_id(seam->context, now.boot_id);
    status = write_row(store, &now, err);
    if (!status)
        store->clock_saved_ms = now.store_ms;
    return status;
}

semel_status sqlite_now(void *state, int64_t *out_ms, semel_error *err)
{
    sqlite_store *store = state;
    semel_status status = sqlite_clock_load(store, err);
    if (!status)
        *out_ms = sqlite_clock_now(store);
    return status;
}
