#include "store/sql/schema.h"

#include <stddef.h>

static int64_t newest(const sql_migration *steps)
{
    int64_t version = 0;
    for (; steps->version; steps++)
        version = steps->version;
    return version;
}

const sql_migration *sql_schema_next(const sql_migration *steps, int64_t version)
{
    while (steps->version && steps->version <= version)
        steps++;
    return steps->version ? steps : NULL;
}

semel_status sql_schema_check_not_newer(const sql_migration *steps, int64_t version,
                                        semel_error *err)
{
    if (version <= newest(steps))
        return SEMEL_OK;
    return semel_fail(
        err, SEMEL_ESCHEMA,
        "the database has semel's tables in version %lld, this libsemel knows up to %lld: "
        "upgrade semel",
        (long long)version, (long long)newest(steps));
}

semel_status sql_schema_check(const sql_migration *steps, int64_t version, semel_error *err)
{
    semel_status status = sql_schema_check_not_newer(steps, version, err);
    if (status || !sql_schema_next(steps, version))
        return status;
    return semel_fail(err, SEMEL_ESCHEMA, "semel's tables are %s: call semel_store_migrate() first",
                      version ? "of an older version" : "not there yet");
}
