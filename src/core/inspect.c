/* What a store says about its schema and its database. All of it is the driver's: the core only
 * says what a driver cannot. */
#include "core/store.h"

#include <semel/operate.h>

static semel_status refuse(const semel_store *store, const char *what, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store cannot %s", store->driver->scheme,
                      what);
}

semel_status semel_store_schema(semel_store *store, semel_schema_visitor *visitor, void *context,
                                semel_error *err)
{
    const semel_store_inspection *does = store->driver->inspection;
    return does && does->schema ? does->schema(store->state, visitor, context, err)
                                : refuse(store, "show the steps of its schema", err);
}

semel_status semel_store_migrate_to(semel_store *store, int32_t version, semel_error *err)
{
    const semel_store_inspection *does = store->driver->inspection;
    if (version == 0)
        return semel_store_migrate(store, err);
    return does && does->migrate_to ? does->migrate_to(store->state, version, err)
                                    : refuse(store, "stop at a version of its schema", err);
}

semel_status semel_store_inspect(semel_store *store, semel_finding_visitor *visitor, void *context,
                                 semel_error *err)
{
    const semel_store_inspection *does = store->driver->inspection;
    return does && does->inspect ? does->inspect(store->state, visitor, context, err)
                                 : refuse(store, "inspect its database", err);
}
