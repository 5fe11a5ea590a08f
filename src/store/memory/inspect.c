/* A store in memory has no server, no rights and no schema; what there is to say about it is how
 * little it promises. */
#include "store/memory/memory_internal.h"

static const semel_finding findings[] = {
    {sizeof *findings, SEMEL_SEVERITY_OK, "store", "a store in this process's memory", ""},
    {sizeof *findings, SEMEL_SEVERITY_OK, "schema", "a store in memory has no tables", ""},
    {sizeof *findings, SEMEL_SEVERITY_OK, "rights", "a store in memory needs no rights", ""},
    {sizeof *findings, SEMEL_SEVERITY_WARNING, "durability",
     "a store in memory survives nothing: with the process go all keys, messages and dead letters",
     "use sqlite:, postgres: or mariadb:"},
    {sizeof *findings, SEMEL_SEVERITY_OK, "isolation", "transactions are serializable", ""},
    {sizeof *findings, SEMEL_SEVERITY_OK, "clock", "the clock is this host's", ""},
};

static semel_status memory_schema(void *store, semel_schema_visitor *visitor, void *context,
                                  semel_error *err)
{
    (void)store, (void)visitor, (void)context, (void)err; /* no steps */
    return SEMEL_OK;
}

static semel_status memory_migrate_to(void *store, int32_t version, semel_error *err)
{
    (void)store;
    return semel_fail(err, SEMEL_EINVAL, "there is no version %d: a store in memory has no tables",
                      (int)version);
}

static semel_status memory_inspect(void *store, semel_finding_visitor *visitor, void *context,
                                   semel_error *err)
{
    (void)store;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof findings / sizeof *findings; i++)
        status = visitor(&findings[i], context, err);
    return status;
}

const semel_store_inspection memory_inspection = {
    .schema = memory_schema,
    .migrate_to = memory_migrate_to,
    .inspect = memory_inspect,
};
