/* The store suite on PostgreSQL behind PgBouncer, where each transaction may be in another
 * session. */
#include "support/conformance/conformance_store.h"
#include "support/servers/sql/pooler.h"

_Static_assert(URL_ROOM >= (int)SERVER_URL_ROOM, "pooler_url() writes that much");

static void make(char url[URL_ROOM])
{
    char direct[SERVER_URL_ROOM];
    server_fresh_postgres(direct);
    pooler_url(url, direct);
}

static void make_ready(char url[URL_ROOM])
{
    char direct[SERVER_URL_ROOM];
    server_ready_postgres(direct);
    pooler_url(url, direct);
}

int main(void)
{
    static const store_quirks quirks = {.name = "postgres behind a pooler",
                                        .make = make,
                                        .make_ready = make_ready,
                                        .remove = server_give_back,
                                        .pass_ms = server_pass_ms,
                                        .durability = SEMEL_DURABLE_POWER,
                                        .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES |
                                                 STORE_SERVER_CLOCK};
    server_place shared;
    server_find(&shared, SERVER_POSTGRES);
    pooler_start(&(pooler_settings){"transaction", "", "public", shared.port});
    int failed = conformance_store(&quirks);
    pooler_end();
    return failed;
}
