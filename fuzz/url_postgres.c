/* PostgreSQL's: the pairs that libpq gets are ended by NULL and have values; what is semel's own is
 * within its limits and is not passed on. */
#include "property.h"
#include "store/postgres/address.h"
#include "store/sql/sql.h"
#include "url_parts.h"

static void check_pairs(const pg_address *a, int secret)
{
    HOLDS(a->count <= ADDRESS_PAIRS_MAX && !a->keywords[a->count] && !a->values[a->count]);
    for (size_t i = 0; i < a->count; i++) {
        HOLDS(a->keywords[i] && a->values[i]);
        HOLDS(strcmp(a->keywords[i], "schema") != 0 && strcmp(a->keywords[i], "pool") != 0);
        HOLDS_FOR(a->keywords[i],
                  strcmp(a->keywords[i], "password") == 0 || keeps(secret, a->values[i]));
    }
}

semel_status check_postgres_address(const char *url, int secret, semel_error *err)
{
    mem_arena arena = {0};
    pg_address a = {0};
    semel_status status = pg_address_read(&a, &arena, url, err);
    if (!status) {
        check_pairs(&a, secret);
        HOLDS(sql_check_name("schema", a.schema, NULL) == SEMEL_OK);
        HOLDS(a.pool >= 1 && a.pool <= POOL_MAX);
    }
    arena_free(&arena);
    return status;
}
