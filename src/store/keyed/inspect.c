/* The layout as the only step of a schema, and what can be said of every database of this layer.
 * What is wrong with the settings of one, its driver finds. */
#include "store/keyed/keyed.h"

#include <semel/operate.h>
#include <stdio.h>

/* --- the layout ------------------------------------------------------------------------------- */

static semel_status refuse_newer(int64_t version, semel_error *err)
{
    return semel_fail(err, SEMEL_ESCHEMA,
                      "the records are of layout %lld, and this semel knows layout %d: upgrade it",
                      (long long)version, (int)KEYED_LAYOUT);
}

/* When the step was taken is not kept; a time that is not 0 says that it was. */
static semel_status keyed_schema(void *state, semel_schema_visitor *visitor, void *context,
                                 semel_error *err)
{
    keyed_store *store = state;
    int64_t version = 0, now_ms = 0;
    semel_status status = keyed_layout(store, &version, err);
    if (status == SEMEL_ESCHEMA)
        status = SEMEL_OK; /* the driver's own tables are not there yet */
    if (!status)
        status = keyed_now(store, &now_ms, NULL, err);
    semel_schema_step step = {.size = sizeof step,
                              .version = KEYED_LAYOUT,
                              .name = "markers, outbox, dead letters, history",
                              .locks = "nothing",
                              .applied_ms = version >= KEYED_LAYOUT ? now_ms : 0,
                              .sql = "",
                              .needs = KEYED_LAYOUT};
    if (!status)
        status = visitor(&step, context, err);
    if (status || version <= KEYED_LAYOUT)
        return status;
    semel_schema_step newer = {.size = sizeof newer,
                               .version = (int32_t)version,
                               .name = "a layout of a newer semel",
                               .locks = "",
                               .applied_ms = now_ms,
                               .sql = "",
                               .needs = (int32_t)version,
                               .newer = 1};
    status = visitor(&newer, context, err);
    return status ? status : refuse_newer(version, err);
}

static semel_status keyed_migrate_to(void *store, int32_t version, semel_error *err)
{
    if (version == KEYED_LAYOUT)
        return keyed_migrate(store, err);
    return semel_fail(err, SEMEL_EINVAL, "there is no version %d: the only one is %d", (int)version,
                      (int)KEYED_LAYOUT);
}

/* --- findings --------------------------------------------------------------------------------- */

typedef struct finding_run {
    keyed_store *store;
    semel_finding_visitor *visitor;
    void *context;
} finding_run;

static semel_status find(const finding_run *run, semel_severity severity, const char *subject,
                         const char *text, const char *fix, semel_error *err)
{
    semel_finding finding = {sizeof finding, severity, subject, text, fix};
    return run->visitor(&finding, run->context, err);
}

static semel_status find_layout(const finding_run *run, semel_error *err)
{
    char text[256];
    int64_t version = 0;
    semel_status status = keyed_layout(run->store, &version, err);
    if (status && status != SEMEL_ESCHEMA)
        return status;
    if (!version)
        return find(run, SEMEL_SEVERITY_ERROR, "schema", "semel has not been set up here",
                    "semel migrate", err);
    (void)snprintf(text, sizeof text, "the records are of layout %lld", (long long)version);
    return version > KEYED_LAYOUT
               ? find(run, SEMEL_SEVERITY_ERROR, "schema", text, "upgrade semel here, too", err)
               : find(run, SEMEL_SEVERITY_OK, "schema", text, "", err);
}

/* A clock that is known badly makes leases longer for others, and nothing wrong. */
static semel_status find_clock(const finding_run *run, semel_error *err)
{
    enum { LARGE_MS = 5000 };
    char text[256];
    int64_t now_ms;
    uint32_t error_ms = 0;
    semel_status status = keyed_now(run->store, &now_ms, &error_ms, err);
    if (status)
        return status;
    int64_t apart_ms = now_ms - seam_wall_ms(run->store->seam);
    (void)snprintf(text, sizeof text,
                   "the clock is the database's, known to %u ms; this host's is %lld ms %s it",
                   (unsigned)error_ms, (long long)(apart_ms < 0 ? -apart_ms : apart_ms),
                   apart_ms < 0 ? "ahead of" : "behind");
    return error_ms > LARGE_MS
               ? find(run, SEMEL_SEVERITY_WARNING, "clock", text,
                      "leases of a process that died are taken over later by this much; look at "
                      "the way to the database, which answers slowly",
                      err)
               : find(run, SEMEL_SEVERITY_OK, "clock", text, "", err);
}

static semel_status find_durability(const finding_run *run, semel_error *err)
{
    switch (keyed_durability(run->store)) {
    case SEMEL_DURABLE_POWER:
        return find(run, SEMEL_SEVERITY_OK, "durability", "a commit survives a power failure", "",
                    err);
    case SEMEL_DURABLE_PROCESS:
        return find(run, SEMEL_SEVERITY_WARNING, "durability",
                    "a commit survives the end of a process, but not a power failure or a failover",
                    "", err);
    default:
        return find(run, SEMEL_SEVERITY_WARNING, "durability",
                    "a commit may be lost when the database ends", "", err);
    }
}

static semel_status keyed_inspect(void *state, semel_finding_visitor *visitor, void *context,
                                  semel_error *err)
{
    keyed_store *store = state;
    finding_run run = {store, visitor, context};
    semel_status status = find_layout(&run, err);
    if (!status)
        status = find_durability(&run, err);
    if (!status)
        status = find(&run, SEMEL_SEVERITY_OK, "isolation",
                      "a unit is one conditional write: all of it or nothing, and refused if "
                      "another unit was faster",
                      "", err);
    if (!status)
        status = find_clock(&run, err);
    return status || !store->driver->inspect
               ? status
               : store->driver->inspect(store->state, visitor, context, err);
}

const semel_store_inspection keyed_inspection = {
    .schema = keyed_schema,
    .migrate_to = keyed_migrate_to,
    .inspect = keyed_inspect,
};
